//! Where the database is: reads the address that an operator has written, and connects.

use super::tls::MakeTls;
use crate::StoreError;
use crate::error::Engine;
use crate::sql::Migrations;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls};

/// Says how a database is opened.
#[derive(Clone)]
pub struct Options {
    /// The address, by [`Address::parse`].
    pub address: Address,
    /// The password, if it isn't in the address.
    pub password: Option<String>,
    /// What makes connections secure; `None` sends all in the clear.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The number of connections for what belongs to one owner each; two more are for archives and long reads.
    pub connections: usize,
    /// Trusts the database to keep what it has acknowledged, whatever its settings say.
    pub trusts_durability: bool,
    /// Says whether the schema may be changed.
    pub migrations: Migrations,
    /// Bounds what may wait.
    pub bounds: crate::sql::Bounds,
}

impl Options {
    /// Returns the options for an address of which nothing else is known: in the clear, eight connections.
    pub fn at(address: Address) -> Options {
        let bounds = crate::sql::Bounds::default();
        Options {
            address,
            password: None,
            tls: None,
            connections: 8,
            trusts_durability: false,
            migrations: Migrations::Auto,
            bounds,
        }
    }
}

/// The address of a database: `postgres://USER@HOST,HOST:PORT/DATABASE`. A host that begins with a slash, written with `%2F` for each
/// slash, is the folder of a Unix socket.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    config: Config,
    shown: String,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for the operator.
    pub fn parse(text: &str) -> Result<Address, String> {
        let mut config: Config = text.parse().map_err(|error: Error| match error.into_source() {
            Some(source) => source.to_string(),
            None => "it is no address of a database".to_owned(),
        })?;
        if config.get_hosts().is_empty() {
            return Err("no host is named; write postgres://USER@HOST/DATABASE".to_owned());
        }
        let Some(user) = config.get_user().map(str::to_owned) else {
            return Err("no user is named; write postgres://USER@HOST/DATABASE".to_owned());
        };
        if config.get_dbname().is_none() {
            config.dbname(&user);
        }
        let hosts: Vec<_> = config.get_hosts().iter().map(shown_host).collect();
        let shown = format!("postgres://{user}@{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default());
        Ok(Address { config, shown })
    }

    /// Returns true if all hosts are this machine, by Unix sockets or loopback addresses: nobody on the way could listen.
    pub fn is_local(&self) -> bool {
        self.config.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
            }
        })
    }
}

fn shown_host(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

/// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// A database that can be connected to again and again.
pub(super) struct Target {
    config: Config,
    tls: Option<MakeTls>,
    pub(super) name: String,
}

impl Target {
    pub(super) fn new(options: &Options) -> Target {
        let mut config = options.address.config.clone();
        if let Some(password) = &options.password {
            config.password(password);
        }
        config.connect_timeout(CONNECT).tcp_user_timeout(UNANSWERED).keepalives_idle(IDLE);
        config.keepalives_interval(UNANSWERED / 3).keepalives_retries(3);
        config.ssl_mode(if options.tls.is_some() { SslMode::Require } else { SslMode::Disable });
        Target { config, tls: options.tls.clone().map(MakeTls), name: options.address.to_string() }
    }

    /// Connects to the first host that can be written to, else to one that can be read. Returns whether it can be written to, too. The session is
    /// named, for those who look at the server's. What serves the connection runs on the runtime that this is called in.
    pub(super) async fn connect(&self, name: &str) -> Result<(Client, bool), Error> {
        let mut config = self.config.clone();
        config.application_name(name);
        match self.connect_by(config.target_session_attrs(TargetSessionAttrs::ReadWrite)).await {
            Err(error) if is_read_only(&error) => {
                let client = self.connect_by(config.target_session_attrs(TargetSessionAttrs::Any)).await?;
                Ok((client, false))
            }
            outcome => outcome.map(|client| (client, true)),
        }
    }

    async fn connect_by(&self, config: &Config) -> Result<Client, Error> {
        // The connection ends by itself when its client is dropped; why it ended otherwise is told to who waits for an answer.
        match &self.tls {
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(client)
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(client)
            }
        }
    }

    /// Sorts errors by who can mend them.
    pub(super) fn failure(&self, error: &Error) -> StoreError {
        let engine = self.engine(described(error));
        let Some(code) = error.code() else {
            // What our own side can't encode or read is a fault of this program; all else means that the way to the database is gone.
            let is_ours = std::error::Error::source(error)
                .is_some_and(|source| source.downcast_ref::<io::Error>().is_none())
                && !error.is_closed()
                && error.to_string().contains("parameter");
            return if is_ours { StoreError::Other(engine) } else { StoreError::Lost(engine) };
        };
        match code {
            code if *code == SqlState::T_R_SERIALIZATION_FAILURE
                || *code == SqlState::T_R_DEADLOCK_DETECTED
                || *code == SqlState::LOCK_NOT_AVAILABLE
                || *code == SqlState::UNIQUE_VIOLATION
                || *code == SqlState::FOREIGN_KEY_VIOLATION =>
            {
                StoreError::Conflict(engine)
            }
            code if *code == SqlState::DISK_FULL => StoreError::Full(engine),
            code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly(engine),
            code if *code == SqlState::QUERY_CANCELED => StoreError::Locked(engine),
            code if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
                StoreError::Corrupt(engine)
            }
            code if *code == SqlState::IO_ERROR => StoreError::Io(engine),
            code if code.code().starts_with("08")
                || code.code().starts_with("57P")
                || *code == SqlState::TOO_MANY_CONNECTIONS
                || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT =>
            {
                StoreError::Lost(engine)
            }
            _ => StoreError::Other(engine),
        }
    }

    /// Returns what the database said, with its name.
    pub(super) fn engine(&self, message: String) -> Engine {
        Engine { database: self.name.clone(), message }
    }
}

/// Tells whether no host could be written to.
fn is_read_only(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::PermissionDenied)
}

/// Describes an error in one line: the library says little itself and has the rest in its source.
fn described(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(error), _) => {
            let detail =
                error.detail().or_else(|| error.hint()).map(|detail| format!("; {detail}")).unwrap_or_default();
            format!("{}{detail}, SQLSTATE {}", error.message(), error.code().code())
        }
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// How long a host may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// How long what was sent may go without any sign from the other end.
const UNANSWERED: Duration = Duration::from_secs(10);

/// How long a connection is idle before the other end is asked whether it is there.
const IDLE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let shown = |text: &str| Address::parse(text).map(|address| address.to_string());
        assert_eq!(shown("postgres://r@db1,db2:5433/chat").as_deref(), Ok("postgres://r@db1,db2/chat"));
        assert_eq!(shown("postgres://r:secret@db1").as_deref(), Ok("postgres://r@db1/r"));
        assert_eq!(shown("postgres://r@%2Frun%2Fpostgresql/chat").as_deref(), Ok("postgres://r@/run/postgresql/chat"));
        for wrong in ["postgres://", "postgres://db1/chat", "postgres://r@/chat", "postgres://r@db1:port/chat", "chat"]
        {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
        let is_local = |text: &str| Address::parse(text).expect("an address").is_local();
        assert!(is_local("postgres://r@%2Frun%2Fpostgresql/chat") && is_local("postgres://r@127.0.0.1,[::1]/chat"));
        assert!(!is_local("postgres://r@localhost,db2/chat"));
    }
}
