//! Parses an operator's address, and connects to it.

use super::answers::{answers, too_much};
use super::failure::connect_failure;
use crate::StoreError;
use crate::archive::TermsOf;
use crate::error::EngineWords;
use crate::sql::address_options;
use crate::sql::fence::Fence;
use crate::sql::hosts::{HostFound, Hosts, Staggered};
use crate::sql::migrate::Migrations;
use crate::sql::remote::Unanswered;
use mysql_async::{Conn, Error, OptsBuilder, SslOpts};
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::lookup_host;

/// The options for opening a database.
#[derive(Clone)]
pub struct MysqlOptions {
    /// The address, from [`MysqlAddress::parse`].
    pub address: MysqlAddress,
    /// The password, if it isn't in the address.
    pub password: Option<String>,
    /// The certificates that the servers' certificates must be signed by, or be; `None` for no
    /// encryption. Unix sockets are never encrypted.
    pub roots: Option<Vec<CertificateDer<'static>>>,
    /// The number of connections for the data of one owner each; two more are for archives and long
    /// reads.
    pub connections: usize,
    /// True to trust the database to keep acknowledged data, regardless of its settings.
    pub trusts_durability: bool,
    /// True if archives should be divided into months.
    pub months: bool,
    /// Returns the terms of messages; `None` if searches have no index.
    pub terms_of: Option<TermsOf>,
    /// The bounds of the queue.
    pub bounds: crate::sql::QueueBounds,
    /// The time for which operations wait for the database.
    pub patience: crate::sql::Patience,
    /// The occasion on which the schema may change.
    pub migrations: Migrations,
}

impl MysqlOptions {
    /// Returns the defaults for an address: no encryption, eight connections.
    pub fn at(address: MysqlAddress) -> MysqlOptions {
        let (bounds, migrations) = (crate::sql::QueueBounds::default(), Migrations::default());
        MysqlOptions {
            address,
            password: None,
            roots: None,
            connections: 8,
            trusts_durability: false,
            months: false,
            terms_of: None,
            bounds,
            patience: crate::sql::Patience::default(),
            migrations,
        }
    }
}

/// The address of a database: `mysql://USER@HOST,HOST:PORT/DATABASE`, or `mariadb://…`. A host that
/// begins with a slash, written with `%2F` for each slash, is a Unix socket.
#[derive(Clone, PartialEq, Eq)]
pub struct MysqlAddress {
    hosts: Vec<MysqlHost>,
    user: String,
    password: Option<String>,
    database: String,
}

#[derive(Clone, PartialEq, Eq)]
enum MysqlHost {
    Socket(String),
    Tcp(String, u16),
}

impl MysqlAddress {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// The fault in the address, as a text for the operator.
    pub fn parse(text: &str) -> Result<MysqlAddress, String> {
        let rest = text.strip_prefix("mysql://").or_else(|| text.strip_prefix("mariadb://"));
        let Some(rest) = rest else { return Err(format!("it isn't the address of a database; {EXPECTED}")) };
        let (login, place) = rest.rsplit_once('@').ok_or_else(|| format!("no user is named; {EXPECTED}"))?;
        let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
        let (hosts, database) = place.split_once('/').unwrap_or((place, user));
        let (database, options) = database.split_once('?').unwrap_or((database, ""));
        if let Some(key) = address_options::keys(options).next() {
            return Err(address_options::refusal(key, OPTIONS));
        }
        let address = MysqlAddress {
            hosts: hosts.split(',').map(MysqlHost::parse).collect::<Result<_, _>>()?,
            user: decode(user)?,
            password: password.map(decode).transpose()?,
            database: decode(database)?,
        };
        match address.user.is_empty() || address.database.is_empty() {
            true => Err(format!("the user or the database has no name; {EXPECTED}")),
            false => Ok(address),
        }
    }

    /// Returns true if all hosts are this machine, by Unix sockets or loopback addresses, so that
    /// the traffic can't be intercepted.
    pub fn is_local(&self) -> bool {
        self.hosts.iter().all(|host| match host {
            MysqlHost::Socket(_) => true,
            MysqlHost::Tcp(name, _) => name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
        })
    }
}

impl MysqlHost {
    fn parse(text: &str) -> Result<MysqlHost, String> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, port)) if name.parse::<Ipv6Addr>().is_ok() => (name, port),
            Some(_) => return Err(format!("{text:?} has no IPv6 address between its brackets")),
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let name = decode(name)?;
        match (port.strip_prefix(':').map(str::parse), port) {
            _ if name.is_empty() => Err(format!("no host is named; {EXPECTED}")),
            (None, "") if name.starts_with('/') => Ok(MysqlHost::Socket(name)),
            (None, "") => Ok(MysqlHost::Tcp(name, PORT)),
            (Some(Ok(port)), _) if !name.starts_with('/') => Ok(MysqlHost::Tcp(name, port)),
            _ => Err(format!("{text:?} has no port behind its colon")),
        }
    }
}

/// Decodes `%2F` and other escapes (RFC 3986 §2.1).
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let byte = part.get(..2).and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(byte.ok_or_else(|| format!("{text:?} has a % without two hexadecimal digits"))?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| format!("{text:?} isn't UTF-8 when it is decoded"))
}

impl fmt::Display for MysqlHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MysqlHost::Socket(path) => f.write_str(path),
            MysqlHost::Tcp(name, PORT) => f.write_str(name),
            MysqlHost::Tcp(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// Leaves out the password.
impl fmt::Display for MysqlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.hosts.iter().map(MysqlHost::to_string).collect();
        write!(f, "mysql://{}@{}/{}", self.user, hosts.join(","), self.database)
    }
}

impl fmt::Debug for MysqlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A database that can be connected to repeatedly.
pub(super) struct MysqlTarget {
    hosts: Hosts,
    ways: Vec<MysqlWay>,
    pub(super) name: String,
    pub(super) terms_of: Option<TermsOf>,
    pub(super) fence: Arc<Fence>,
}

/// The way to one of the hosts.
struct MysqlWay {
    options: OptsBuilder,
    /// The name and the port; `None` for a Unix socket.
    tcp: Option<(String, u16)>,
}

/// A connection and the server at its other end.
pub(super) struct MysqlConnected {
    pub(super) conn: Conn,
    /// The server's version as text, such as `10.11.6-MariaDB`.
    pub(super) version: String,
    pub(super) is_read_only: bool,
    /// The most bytes that may be sent at once.
    pub(super) packet: usize,
}

impl MysqlConnected {
    /// Returns whether it is MariaDB rather than MySQL.
    pub(super) fn is_mariadb(&self) -> bool {
        self.version.contains("MariaDB")
    }
}

impl MysqlTarget {
    pub(super) fn new(options: &MysqlOptions) -> MysqlTarget {
        let MysqlAddress { hosts, user, password, database } = &options.address;
        let password = options.password.as_ref().or(password.as_ref());
        // Rows count if they were found, not only if they were changed: an UPDATE that changes
        // nothing must not look like a missing row.
        let common = OptsBuilder::default()
            .user(Some(user))
            .pass(password)
            .db_name(Some(database))
            .client_found_rows(true)
            .prefer_socket(false)
            .tcp_keepalive(Some(IDLE))
            // The library queries settings that aren't set here, and its thread ends if an answer
            // isn't a number.
            .max_allowed_packet(Some(MOST_BYTES))
            .wait_timeout(Some(NEVER_S))
            .stmt_cache_size(0);
        let way = |host: &MysqlHost| match host {
            MysqlHost::Socket(path) => MysqlWay { options: common.clone().socket(Some(path)), tcp: None },
            MysqlHost::Tcp(name, port) => {
                let ssl = options.roots.as_ref().map(|roots| trusting(roots));
                let options = common.clone().ip_or_hostname(name).tcp_port(*port).ssl_opts(ssl);
                MysqlWay { options, tcp: Some((name.clone(), *port)) }
            }
        };
        MysqlTarget {
            hosts: Hosts::new(hosts.iter().map(MysqlHost::to_string).collect()),
            ways: hosts.iter().map(way).collect(),
            name: options.address.to_string(),
            terms_of: options.terms_of,
            fence: Arc::default(),
        }
    }

    /// Connects to a host that can be written to, else to one that can be read.
    pub(super) async fn connect(&self) -> Result<MysqlConnected, StoreError> {
        self.hosts.first_writable(async |at| self.connect_to(at).await, |why| self.loss(why)).await
    }

    /// Tries each of the hosts, if there are several.
    pub(super) async fn each_host(&self) -> Vec<HostFound> {
        self.hosts.each(async |at| self.connect_to(at).await, |why| self.loss(why)).await
    }

    /// Connects to one of the hosts. Returns also whether it can't be written to.
    async fn connect_to(&self, at: usize) -> Result<(MysqlConnected, bool), StoreError> {
        let Some(way) = self.ways.get(at) else { return Err(self.loss("no host is named")) };
        let connected = way.connect().await.map_err(|error| connect_failure(&self.name, &error))?;
        let is_read_only = connected.is_read_only;
        Ok((connected, is_read_only))
    }

    pub(super) fn loss(&self, why: &str) -> StoreError {
        StoreError::Lost(self.engine(why.to_owned()))
    }

    /// Returns the error for a server that the driver can't understand while it connects.
    pub(super) fn nonsense(&self, why: &Unanswered) -> StoreError {
        StoreError::Unfit(self.engine(why.to_string()))
    }

    /// Returns the database's message, with its name.
    pub(super) fn engine(&self, message: String) -> EngineWords {
        EngineWords { database: self.name.clone(), message }
    }
}

/// Returns options that trust only these certificates. Unreadable ones are left out, since the
/// system's store may have some.
fn trusting(roots: &[CertificateDer<'static>]) -> SslOpts {
    let is_readable = |root: &&CertificateDer<'static>| rustls::RootCertStore::empty().add((*root).clone()).is_ok();
    let roots = roots.iter().filter(is_readable).map(|root| root.to_vec().into()).collect();
    SslOpts::default().with_disable_built_in_roots(true).with_root_certs(roots)
}

impl MysqlWay {
    /// Connects by one of the addresses that the host has.
    async fn connect(&self) -> Result<MysqlConnected, Error> {
        let Some((name, port)) = &self.tcp else { return connect(self.options.clone()).await };
        let addresses = lookup_host((name.as_str(), *port)).await?;
        // The name stays: it is what the certificate is for.
        let ways = addresses.map(|address| self.options.clone().resolved_ips(Some(vec![address.ip()])));
        let mut attempts = Staggered::new(ways.map(connect));
        let mut failed = Error::from(io::Error::new(io::ErrorKind::NotFound, "its name has no address"));
        while let Some(outcome) = attempts.next().await {
            match outcome {
                Ok(connected) => return Ok(connected),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

async fn connect(host: OptsBuilder) -> Result<MysqlConnected, Error> {
    let mut conn = Conn::new(host).await?;
    let rows: [_; 1] = answers(&mut conn, WHAT_IS_THERE).await?.try_into().map_err(|_| too_much())?;
    let [row] = rows;
    let text = |at: usize| row.get(at).map_or("", String::as_str);
    let is_read_only = [text(1), text(2)].iter().any(|set| !matches!(*set, "0" | "OFF"));
    let packet = text(3).parse().map_or(0, |packet: usize| packet.min(MOST_BYTES));
    Ok(MysqlConnected { version: text(0).to_owned(), is_read_only, packet, conn })
}

const WHAT_IS_THERE: &str =
    "SELECT @@version, @@global.read_only, @@global.innodb_read_only, @@session.max_allowed_packet";

/// The most bytes of a packet: four times those of the largest group of rows that is written.
const MOST_BYTES: usize = 64 << 20;

/// The seconds for which a connection may be idle, the same as for sessions.
const NEVER_S: usize = 2_000_000;

/// The time that a connection is idle before the other end is probed.
const IDLE: Duration = Duration::from_secs(30);

/// The port of MariaDB and MySQL.
const PORT: u16 = 3306;

/// The options that an address may have.
const OPTIONS: &str = "there are no options";

const EXPECTED: &str = "write mysql://USER@HOST/DATABASE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let shown = |text: &str| MysqlAddress::parse(text).map(|address| address.to_string());
        assert_eq!(shown("mysql://r@db1,db2:3307/chat").as_deref(), Ok("mysql://r@db1,db2:3307/chat"));
        assert_eq!(shown("mariadb://r:s%40:x@db1").as_deref(), Ok("mysql://r@db1/r"));
        assert_eq!(shown("mysql://r@%2Frun%2Fmysqld.sock/chat").as_deref(), Ok("mysql://r@/run/mysqld.sock/chat"));
        let address = MysqlAddress::parse("mysql://r:s%40:x@[::1]:3307,10.0.0.1/chat").expect("an address");
        assert_eq!(address.password.as_deref(), Some("s@:x"));
        assert!(address.hosts == [MysqlHost::Tcp("::1".into(), 3307), MysqlHost::Tcp("10.0.0.1".into(), PORT)]);
        for wrong in [
            "mysql://",
            "mysql://db1/chat",
            "mysql://r@/chat",
            "mysql://r@db1:port/chat",
            "mysql://r@db1:70000/chat",
            "mysql://r@[db1]/chat",
            "mysql://r@db1,/chat",
            "mysql://r@db1/chat?ssl=off",
            "mysql://r@%2/chat",
            "mysql://r@%ff/chat",
            "mysql://@db1/chat",
            "postgres://r@db1/chat",
            "chat",
        ] {
            assert!(MysqlAddress::parse(wrong).is_err(), "{wrong}");
        }
        let is_local = |text: &str| MysqlAddress::parse(text).expect("an address").is_local();
        assert!(is_local("mysql://r@%2Frun%2Fmysqld.sock/chat") && is_local("mysql://r@127.0.0.1,[::1]/chat"));
        assert!(!is_local("mysql://r@localhost,db2/chat"));
    }
}
