//! The flags of all loads: the server, the login, the output.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rookery_client::SessionTerms;
use rookery_sasl::Mechanism;
use rookery_sasl::client::SaltedPasswords;
use rookery_stream::tls::client::{ClientSettings, Newest};

use crate::BenchOutcome;
use crate::engine::{CrewSettings, LoadTarget, Transport, parser};

/// The server to measure, the way to log in, and the files to write.
#[derive(Debug, Clone, Args)]
pub struct ServerArguments {
    /// The server.
    #[command(flatten)]
    pub place: ServerPlace,
    /// SASL mechanism, such as PLAIN or SCRAM-SHA-256 [default: the strongest that both sides know]
    #[arg(long, value_parser = mechanism)]
    pub mechanism: Option<Mechanism>,
    /// Process ID of the server, on this machine, to read CPU time and memory of; several are added
    /// up
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub server_pid: Vec<u32>,
    /// Name of the server in reports [default: HOST:PORT]
    #[arg(long)]
    pub name: Option<String>,
    /// Write the result as JSON
    #[arg(long, value_name = "FILE.json")]
    pub out: Option<PathBuf>,
    /// Write a report with plots
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
}

/// The server, and the way to reach it.
#[derive(Debug, Clone, Args)]
pub struct ServerPlace {
    /// Address and port of the server; several, separated by commas, are used in turn
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5222")]
    pub host: String,
    /// Domain of the accounts
    #[arg(long, default_value = "localhost")]
    pub domain: String,
    /// Encryption of the connections
    #[arg(long, value_enum, default_value_t = Tls::None)]
    pub tls: Tls,
    /// Transport of the streams; unless it is TCP, HOST:PORT is the HTTP port
    #[arg(long, value_parser = parser(), default_value = Transport::Tcp.label())]
    pub transport: Transport,
    /// Password of all accounts
    #[arg(long, env = "ROOKERY_BENCH_PASSWORD", default_value = "pencil-pencil")]
    pub password: String,
    /// Logins in progress at the same time
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub at_once: usize,
    /// Seconds that one login may take
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub login_timeout: f64,
    /// Threads [default: one for each core]
    #[arg(long)]
    pub threads: Option<usize>,
}

/// The encryption of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tls {
    /// No encryption
    None,
    /// Negotiated by STARTTLS (RFC 6120 §5)
    Starttls,
    /// From the first byte (XEP-0368)
    Direct,
}

impl ServerArguments {
    /// Returns the settings of the engine.
    ///
    /// # Errors
    /// The host isn't found, or TLS can't be set up.
    pub fn settings(&self, seed: u32) -> BenchOutcome<CrewSettings> {
        self.place.settings(self.mechanism, false, seed)
    }

    /// Returns the domain of the accounts, escaped for use in a stanza.
    pub fn domain(&self) -> String {
        rookery_xml::escape_attr(&self.place.domain).into_owned()
    }
}

impl ServerPlace {
    /// Returns the settings of the engine, to log in or to register.
    ///
    /// # Errors
    /// The host isn't found, or TLS can't be set up.
    pub fn settings(&self, mechanism: Option<Mechanism>, register: bool, seed: u32) -> BenchOutcome<CrewSettings> {
        if self.tls != Tls::None && self.transport != Transport::Tcp {
            return Err("--tls is for --transport tcp only".into());
        }
        let alpn: &[&[u8]] = if self.tls == Tls::Direct { &[b"xmpp-client"] } else { &[] };
        let tls = (self.tls != Tls::None).then(|| ClientSettings::trusting_anyone(Newest::Tls13, alpn, false));
        let target = LoadTarget {
            transport: self.transport,
            terms: Arc::new(SessionTerms {
                domain: self.domain.clone(),
                tls: tls.transpose()?,
                mechanism,
                password: self.password.clone(),
                resource: Some(RESOURCE.to_owned()),
                register,
                cache: SaltedPasswords::new(),
            }),
        };
        Ok(CrewSettings {
            servers: self.addresses()?,
            target: Arc::new(target),
            direct_tls: self.tls == Tls::Direct,
            threads: self.threads.unwrap_or_else(cores),
            login_patience: Duration::try_from_secs_f64(self.login_timeout)?,
            seed,
        })
    }

    /// Returns the addresses of the hosts, one for each.
    ///
    /// # Errors
    /// One of the hosts isn't found.
    pub fn addresses(&self) -> BenchOutcome<Vec<SocketAddr>> {
        self.host.split(',').map(|host| address(host.trim())).collect()
    }
}

/// Returns the address of a host.
///
/// # Errors
/// The host isn't found.
pub fn address(host: &str) -> BenchOutcome<SocketAddr> {
    let with_port = if host.parse::<std::net::Ipv6Addr>().is_ok() {
        format!("[{host}]:{PORT}")
    } else if host.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:{PORT}")
    };
    let mut found = with_port.to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
    Ok(found.next().ok_or_else(|| format!("{host} has no address"))?)
}

fn mechanism(text: &str) -> Result<Mechanism, String> {
    let known = || Mechanism::ALL.map(Mechanism::name).join(", ");
    Mechanism::from_name(&text.to_ascii_uppercase()).ok_or_else(|| format!("known are {}", known()))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// The resource that clients bind.
pub const RESOURCE: &str = "bench";
const PORT: u16 = 5222;
