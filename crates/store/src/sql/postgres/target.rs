//! Parses an operator's address, and connects to it.

use super::answers::{StatementFailed, answers};
use super::bounded::{Bounded, StreamWay};
use super::tls::Connect;
use crate::StoreError;
use crate::archive::TermsOf;
use crate::error::EngineWords;
use crate::sql::Migrations;
use crate::sql::address_options;
use crate::sql::fence::Fence;
use crate::sql::hosts::{HostFound, Hosts, Staggered};
use crate::sql::remote::{TOO_MUCH, Unanswered};
use socket2::{SockRef, TcpKeepalive};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::TlsConnect;
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

/// The options for opening a database.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The address, from [`PostgresAddress::parse`].
    pub address: PostgresAddress,
    /// The password, if it isn't in the address.
    pub password: Option<String>,
    /// The settings of TLS; `None` for no encryption.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The number of connections for the data of one owner each; two more are for archives and long
    /// reads.
    pub connections: usize,
    /// True to trust the database to keep acknowledged data, regardless of its settings.
    pub trusts_durability: bool,
    /// The occasion on which the schema may change.
    pub migrations: Migrations,
    /// True if archives should be divided into months.
    pub months: bool,
    /// Returns the terms of messages; `None` if searches have no index.
    pub terms_of: Option<TermsOf>,
    /// The bounds of the queue.
    pub bounds: crate::sql::QueueBounds,
    /// The time for which operations wait for the database.
    pub patience: crate::sql::Patience,
}

impl PostgresOptions {
    /// Returns the defaults for an address: no encryption, eight connections.
    pub fn at(address: PostgresAddress) -> PostgresOptions {
        let bounds = crate::sql::QueueBounds::default();
        PostgresOptions {
            address,
            password: None,
            tls: None,
            connections: 8,
            trusts_durability: false,
            migrations: Migrations::Auto,
            months: false,
            terms_of: None,
            bounds,
            patience: crate::sql::Patience::default(),
        }
    }
}

/// The address of a database: `postgres://USER@HOST,HOST:PORT/DATABASE`. A host that begins with a
/// slash, written with `%2F` for each slash, is the folder of a Unix socket.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    config: Config,
    shown: String,
}

impl PostgresAddress {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// The fault in the address, as a text for the operator.
    pub fn parse(text: &str) -> Result<PostgresAddress, String> {
        let options = options(text);
        refuse(text, options)?;
        let mut config: Config = text.parse().map_err(|error: Error| match error.into_source() {
            Some(source) => source.to_string(),
            None => "it isn't the address of a database".to_owned(),
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
        let hosts = config.get_hosts().iter().enumerate();
        let hosts: Vec<_> = hosts.map(|(at, host)| shown_host(host, port(&config, at))).collect();
        let options: Vec<_> = options.split('&').filter(|option| is_shown(option)).collect();
        let options = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
        let database = config.get_dbname().unwrap_or_default();
        let shown = format!("postgres://{user}@{}/{database}{options}", hosts.join(","));
        Ok(PostgresAddress { config, shown })
    }

    /// Returns true if all hosts are this machine, by Unix sockets or loopback addresses, so that
    /// the traffic can't be intercepted.
    pub fn is_local(&self) -> bool {
        self.config.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
            }
        })
    }
}

/// Returns the options of an address, which follow its `?`; empty if there are none.
fn options(text: &str) -> &str {
    // Passwords come before.
    let place = text.split_once('@').map_or(text, |(_, place)| place);
    place.split_once('?').map_or("", |(_, options)| options)
}

/// Refuses options that would be ignored.
fn refuse(text: &str, options: &str) -> Result<(), String> {
    let place = text.split_once("://").map_or(text, |(_, place)| place);
    let place = place.split_once('@').map_or(place, |(_, place)| place);
    // The options `host` and `port` only take the place of the part before the slash: next to it, a
    // further host would have no port of its own, and a further port no host.
    let names_hosts = !place.starts_with(['/', '?']);
    let is_taken = |key: &str| TAKEN.contains(&key) || (!names_hosts && matches!(key, "host" | "port"));
    match address_options::keys(options).find(|key| !is_taken(key)) {
        Some(key) => Err(address_options::refusal(key, OPTIONS)),
        None => Ok(()),
    }
}

/// Returns whether an option is shown with the address, which has no other place for it.
fn is_shown(option: &str) -> bool {
    let key = option.split('=').next().unwrap_or_default();
    ["channel_binding", "hostaddr", "options"].contains(&key)
}

fn shown_host(host: &Host, port: u16) -> String {
    match host {
        Host::Tcp(name) if port == PORT => name.clone(),
        Host::Tcp(name) => format!("{name}:{port}"),
        Host::Unix(path) => path.display().to_string(),
    }
}

/// Returns the port of one of the hosts: each has one, or all share one.
fn port(config: &Config, at: usize) -> u16 {
    let ports = config.get_ports();
    ports.get(at).or_else(|| ports.first()).copied().unwrap_or(PORT)
}

/// Leaves out the password.
impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// A connection and the server at its other end.
pub(super) struct PostgresConnected {
    pub(super) client: Client,
    pub(super) end: ConnectionEnd,
    pub(super) is_read_only: bool,
}

/// The reason why a connection has ended, unless it ended normally.
pub(super) type ConnectionEnd = Arc<OnceLock<Ended>>;

/// The end of a connection.
pub(super) struct Ended {
    pub(super) why: String,
    is_nonsense: bool,
}

/// A database that can be connected to repeatedly.
pub(super) struct PostgresTarget {
    config: Config,
    hosts: Hosts,
    tls: Option<Arc<rustls::ClientConfig>>,
    pub(super) name: String,
    pub(super) terms_of: Option<TermsOf>,
    pub(super) fence: Arc<Fence>,
}

impl PostgresTarget {
    pub(super) fn new(options: &PostgresOptions) -> PostgresTarget {
        let mut config = options.address.config.clone();
        if let Some(password) = &options.password {
            config.password(password);
        }
        let (name, terms_of) = (options.address.to_string(), options.terms_of);
        let hosts = config.get_hosts().iter().enumerate();
        let hosts = Hosts::new(hosts.map(|(at, host)| shown_host(host, port(&config, at))).collect());
        PostgresTarget { config, hosts, tls: options.tls.clone(), name, terms_of, fence: Arc::default() }
    }

    /// Connects to a host that can be written to, otherwise to one that can be read. The session is
    /// named, for administrators of the server. The connection's task runs on the calling runtime.
    pub(super) async fn connect(&self, name: &str) -> Result<PostgresConnected, StoreError> {
        self.hosts.first_writable(async |at| self.connect_to(at, name).await, |why| self.loss(why)).await
    }

    /// Tries each of the hosts, if there are several.
    pub(super) async fn each_host(&self, name: &str) -> Vec<HostFound> {
        self.hosts.each(async |at| self.connect_to(at, name).await, |why| self.loss(why)).await
    }

    /// Connects to one of the hosts. Returns also whether it can't be written to.
    async fn connect_to(&self, at: usize, name: &str) -> Result<(PostgresConnected, bool), StoreError> {
        let stream = dial(&self.config, at).await.map_err(|error| self.loss(&error.to_string()))?;
        let mut config = self.config.clone();
        config.application_name(name);
        let logged_in = match (&self.tls, self.config.get_hosts().get(at)) {
            (Some(tls), Some(Host::Tcp(host))) => {
                config.ssl_mode(SslMode::Require);
                let tls = Connect { config: tls.clone(), host: host.clone() };
                log_in(&config, stream, tls).await
            }
            (_, host) => {
                config.ssl_mode(SslMode::Disable);
                let way = if let Some(Host::Unix(_)) = host { StreamWay::Closed } else { StreamWay::Open };
                log_in(&config, Bounded::new(stream, way), NoTls).await
            }
        };
        let (client, end) =
            logged_in.map_err(|error| self.connect_failure(self.failure(&error), is_nonsense(&error)))?;
        let shown = match answers(&client, "SHOW transaction_read_only").await {
            Ok(shown) => shown,
            Err(StatementFailed::Database(error)) => {
                return Err(match end.get() {
                    Some(end) => self.connect_failure(self.loss(&end.why), end.is_nonsense),
                    None => self.connect_failure(self.failure(&error), is_nonsense(&error)),
                });
            }
            Err(_) => return Err(self.connect_failure(self.loss(TOO_MUCH), true)),
        };
        let is_off =
            |shown: &SimpleQueryMessage| matches!(shown, SimpleQueryMessage::Row(row) if row.get(0) == Some("off"));
        let is_read_only = !shown.iter().any(is_off);
        Ok((PostgresConnected { client, end, is_read_only }, is_read_only))
    }

    pub(super) fn loss(&self, why: &str) -> StoreError {
        StoreError::Lost(self.engine(why.to_owned()))
    }

    /// Returns the error for a server that the driver can't understand while it connects.
    pub(super) fn nonsense(&self, why: &Unanswered) -> StoreError {
        StoreError::Unfit(self.engine(why.to_string()))
    }

    /// Returns the error for a host that couldn't be connected to. Another protocol, or answers
    /// that are too long, won't go away by themselves.
    fn connect_failure(&self, error: StoreError, is_nonsense: bool) -> StoreError {
        match error {
            StoreError::Lost(engine) if is_nonsense => {
                StoreError::Unfit(self.engine(format!("{NO_POSTGRES}: {}", engine.message)))
            }
            error => error,
        }
    }

    /// Returns the error of the store for an error of the library.
    pub(super) fn failure(&self, error: &Error) -> StoreError {
        let engine = self.engine(describe(error));
        let Some(code) = error.code() else {
            // A value that our side can't encode or read is a fault of this program; other errors
            // mean that the connection is lost.
            let refused = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
            let is_refused = refused.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
            if is_refused || error.to_string().starts_with("invalid configuration") {
                return StoreError::Unfit(engine);
            }
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
            // A wrong name or password, or a nonexistent database.
            code if code.code().starts_with("28") || *code == SqlState::INVALID_CATALOG_NAME => {
                StoreError::Unfit(engine)
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

    /// Returns the database's message, with its name.
    pub(super) fn engine(&self, message: String) -> EngineWords {
        EngineWords { database: self.name.clone(), message }
    }
}

/// Logs in on a stream.
async fn log_in<S, T>(config: &Config, stream: S, tls: T) -> Result<(Client, ConnectionEnd), Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: TlsConnect<S>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect_raw(stream, tls).await?;
    let end = ConnectionEnd::default();
    let told = end.clone();
    // The task ends by itself when its client is dropped. Callers that wait for an answer only
    // notice that none arrives.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            told.get_or_init(|| Ended { why: describe(&error), is_nonsense: is_nonsense(&error) });
        }
    });
    Ok((client, end))
}

/// A stream to a host, by TCP or by a socket of this machine.
type HostStream = Box<dyn Duplex>;

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// Opens a stream to one of the hosts, at one of its addresses that accepts connections.
async fn dial(config: &Config, at: usize) -> io::Result<HostStream> {
    let port = port(config, at);
    let (host, number) = (config.get_hosts().get(at), config.get_hostaddrs().get(at));
    let addresses = match (host, number) {
        (Some(Host::Unix(folder)), None) => {
            return Ok(Box::new(UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await?));
        }
        (_, Some(number)) => vec![SocketAddr::new(*number, port)],
        (Some(Host::Tcp(name)), None) => lookup_host((name.as_str(), port)).await?.collect(),
        (None, None) => Vec::new(),
    };
    let stream = first_way(addresses).await?;
    watch(&stream)?;
    Ok(Box::new(stream))
}

/// Connects to one of the addresses of a host.
async fn first_way(addresses: impl IntoIterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut ways = Staggered::new(addresses.into_iter().map(TcpStream::connect));
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    while let Some(outcome) = ways.next().await {
        match outcome {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Makes the system notice when the other end is gone.
fn watch(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_user_timeout(Some(UNANSWERED))?;
    let probes = TcpKeepalive::new().with_time(IDLE).with_interval(UNANSWERED / 3).with_retries(3);
    socket.set_tcp_keepalive(&probes)
}

/// Returns a description of an error in one line: the library's own text is short, and the rest is
/// in its source.
fn describe(error: &Error) -> String {
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

/// Returns true if the message isn't PostgreSQL's or not an answer to the request, or if the
/// encryption can't be trusted.
fn is_nonsense(error: &Error) -> bool {
    // The library distinguishes kinds by these texts alone.
    let (words, source) = (error.to_string(), std::error::Error::source(error));
    match source.and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(source) if !words.starts_with("error parsing") => source.kind() == io::ErrorKind::InvalidData,
        _ => {
            ["unexpected message", "error parsing", "error performing TLS"].iter().any(|start| words.starts_with(start))
        }
    }
}

/// The options of an address that the connection obeys.
const TAKEN: [&str; 6] = ["channel_binding", "dbname", "hostaddr", "options", "password", "user"];

const OPTIONS: &str = "channel_binding, hostaddr and options are known";

const NO_POSTGRES: &str = "it doesn't speak PostgreSQL's protocol";

/// The time that sent data may remain without any sign from the other end.
const UNANSWERED: Duration = Duration::from_secs(10);

/// The time that a connection is idle before the other end is probed.
const IDLE: Duration = Duration::from_secs(30);

/// The port of PostgreSQL.
const PORT: u16 = 5432;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let shown = |text: &str| PostgresAddress::parse(text).map(|address| address.to_string());
        assert_eq!(shown("postgres://r@db1,db2:5433/chat").as_deref(), Ok("postgres://r@db1,db2:5433/chat"));
        assert_eq!(shown("postgres://r:secret@db1").as_deref(), Ok("postgres://r@db1/r"));
        assert_eq!(shown("postgres://r@%2Frun%2Fpostgresql/chat").as_deref(), Ok("postgres://r@/run/postgresql/chat"));
        for wrong in ["postgres://", "postgres://db1/chat", "postgres://r@/chat", "postgres://r@db1:port/chat", "chat"]
        {
            assert!(PostgresAddress::parse(wrong).is_err(), "{wrong}");
        }
        let with = "postgres://r:a?b@db1/chat?channel_binding=require&password=secret&options=-c%20geqo%3Doff";
        assert_eq!(
            shown(with).as_deref(),
            Ok("postgres://r@db1/chat?channel_binding=require&options=-c%20geqo%3Doff"),
            "without secrets"
        );
        let socket = "postgres:///chat?host=/run/postgresql&port=5433&user=r";
        assert_eq!(shown(socket).as_deref(), Ok("postgres://r@/run/postgresql/chat"));
        for ignored in ["sslmode=require", "application_name=x", "connect_timeout=1", "port=5433", "other=x"] {
            let key = ignored.split('=').next().expect("a key");
            let refused = PostgresAddress::parse(&format!("postgres://r@db1/chat?{ignored}")).expect_err(ignored);
            assert!(refused.starts_with(&format!("the option {key:?} isn't taken")), "{refused}");
        }
        let is_local = |text: &str| PostgresAddress::parse(text).expect("an address").is_local();
        assert!(is_local("postgres://r@%2Frun%2Fpostgresql/chat") && is_local("postgres://r@127.0.0.1,[::1]/chat"));
        assert!(!is_local("postgres://r@localhost,db2/chat"));
    }
    /// As with an IPv6 that leads nowhere, in front of an IPv4.
    #[test]
    fn an_address_that_is_silent_hides_no_other() {
        let silent = rookery_needs::SilentPort::listen();
        let there = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let good = there.local_addr().expect("an address");
        let runtime = crate::sql::remote::runtime().expect("a runtime");
        let way = runtime.block_on(first_way([silent.address(), silent.address(), good])).expect("a way");
        assert_eq!(way.peer_addr().expect("an address"), good);
    }
}
