//! One visit of a stranger: a connection to a port by its intended protocol, until it is clear
//! which server answers there.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rookery_stream::tls::client::{ClientSettings, ClientTls, Newest};
use rookery_stream::tls::trust::Trust;

use crate::clock;

/// The kinds of ports that strangers come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindOfPort {
    /// Clients whose streams begin without TLS (RFC 6120 §5).
    Clients,
    /// Clients that begin with TLS (XEP-0368).
    ClientsOverTls,
    /// Other servers whose streams begin without TLS.
    Servers,
    /// Other servers that begin with TLS.
    ServersOverTls,
    /// Browsers, which begin with TLS and want HTTP.
    Browsers,
}

impl KindOfPort {
    /// Returns its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::ClientsOverTls => "clients (TLS)",
            Self::Servers => "other servers",
            Self::ServersOverTls => "other servers (TLS)",
            Self::Browsers => "browsers",
        }
    }

    /// Returns the namespace of the stream that is opened before TLS, if there is one.
    fn in_the_clear(self) -> Option<&'static str> {
        match self {
            Self::Clients => Some("jabber:client"),
            Self::Servers => Some("jabber:server"),
            Self::ClientsOverTls | Self::ServersOverTls | Self::Browsers => None,
        }
    }

    fn alpn(self) -> &'static [&'static [u8]] {
        match self {
            Self::Clients | Self::Servers => &[],
            Self::ClientsOverTls => &[b"xmpp-client"],
            Self::ServersOverTls => &[b"xmpp-server"],
            Self::Browsers => &[b"http/1.1"],
        }
    }
}

/// The server that has answered.
#[derive(Debug)]
pub struct FoundServer {
    /// True if it has shown a certificate of this server's configuration.
    pub is_ours: bool,
    /// The reason why strangers don't trust the certificate; `None` if they do.
    pub distrust: Option<String>,
}

/// The reason why there was no answer, or an unexpected one.
#[derive(Debug, PartialEq, Eq)]
pub enum VisitTrouble {
    /// The connection was refused.
    Refused,
    /// There was no answer in time.
    Silence,
    /// This machine can't send anything there.
    NoRoute(String),
    /// The answer is from another kind of server.
    Odd(String),
}

/// A stranger who visits an address for a domain.
pub struct Stranger<'a> {
    pub domain: &'a str,
    /// The name by which the address was found.
    pub host: &'a str,
    pub address: SocketAddr,
    /// The certificates of this server, in DER.
    pub own: &'a [Vec<u8>],
    /// The authorities that strangers trust: those of the system.
    pub trust: &'a Trust,
}

impl Stranger<'_> {
    /// Connects, and continues until TLS is established.
    ///
    /// # Errors
    /// [`VisitTrouble`] if that fails.
    pub fn visit(&self, kind: KindOfPort) -> Result<FoundServer, VisitTrouble> {
        let until = Instant::now() + WHOLE;
        let mut socket = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        if let Some(namespace) = kind.in_the_clear() {
            self.ask_for_tls(&mut socket, namespace, until)?;
        }
        let odd = |error: &dyn std::fmt::Display| VisitTrouble::Odd(format!("TLS: {error}"));
        let settings =
            ClientSettings::trusting_anyone(Newest::Tls13, kind.alpn(), false).map_err(|error| odd(&error))?;
        // A page is requested for the name of its host, whereas a stream is for the domain.
        let name = if kind == KindOfPort::Browsers { self.host } else { self.domain };
        let mut out = Vec::new();
        let mut tls = ClientTls::connect(&settings, name, &mut out).map_err(|error| odd(&error))?;
        let mut buffer = vec![0; 16 * 1024];
        while tls.handshaking() {
            socket.write_all(&out)?;
            out.clear();
            let came = read(&mut socket, &mut buffer, until)?;
            tls.read(came, &mut Vec::new(), &mut out).map_err(|error| odd(&error))?;
        }
        socket.write_all(&out)?;
        Ok(self.judge(&tls, name))
    }

    /// Opens a stream and asks for TLS, on ports whose streams begin without it.
    fn ask_for_tls(&self, socket: &mut TcpStream, namespace: &str, until: Instant) -> Result<(), VisitTrouble> {
        let domain = self.domain;
        let head = format!(
            "<?xml version='1.0'?><stream:stream xmlns='{namespace}' xmlns:stream='http://etherx.jabber.org/streams' to='{domain}' version='1.0'>"
        );
        socket.write_all(head.as_bytes())?;
        let features = until_said(socket, &["</stream:features>", "<stream:features/>", "</stream:stream>"], until)?;
        if features.contains("<host-unknown") {
            return Err(VisitTrouble::Odd(format!("it doesn't know {domain}")));
        }
        if !features.contains(STARTTLS) {
            return Err(VisitTrouble::Odd("it offers no encryption (STARTTLS)".to_owned()));
        }
        socket.write_all(format!("<starttls xmlns='{STARTTLS}'/>").as_bytes())?;
        let answer = until_said(socket, &["<proceed", "<failure", "</stream:stream>"], until)?;
        match answer.contains("<proceed") {
            true => Ok(()),
            false => Err(VisitTrouble::Odd("it refuses to encrypt the stream".to_owned())),
        }
    }

    fn judge(&self, tls: &ClientTls, name: &str) -> FoundServer {
        let chain = tls.chain();
        let is_ours = chain.first().is_some_and(|first| self.own.iter().any(|own| own == first));
        let distrust = match self.trust.judge(&chain, clock::now()) {
            Ok(names) if names.cover(name) => None,
            Ok(names) => {
                Some(format!("it is for {}, not for {name}", names.all().take(5).collect::<Vec<_>>().join(", ")))
            }
            Err(untrusted) => Some(untrusted.to_string()),
        };
        FoundServer { is_ours, distrust }
    }
}

/// Reads until one of some texts has arrived, and returns everything that has.
fn until_said(socket: &mut TcpStream, wanted: &[&str], until: Instant) -> Result<String, VisitTrouble> {
    let (mut said, mut buffer) = (String::new(), vec![0; 4096]);
    while !wanted.iter().any(|wanted| said.contains(wanted)) {
        if said.len() > MOST_SAID {
            return Err(VisitTrouble::Odd("its output doesn't end".to_owned()));
        }
        said.push_str(&String::from_utf8_lossy(read(socket, &mut buffer, until)?));
    }
    Ok(said)
}

fn read<'b>(socket: &mut TcpStream, buffer: &'b mut [u8], until: Instant) -> Result<&'b mut [u8], VisitTrouble> {
    if Instant::now() > until {
        return Err(VisitTrouble::Odd("it is too slow".to_owned()));
    }
    match socket.read(buffer) {
        Ok(0) => Err(VisitTrouble::Odd("it closes the connection".to_owned())),
        Ok(len) => Ok(buffer.get_mut(..len).unwrap_or_default()),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
            Err(VisitTrouble::Odd("it says nothing".to_owned()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
            Err(VisitTrouble::Odd("it closes the connection".to_owned()))
        }
        Err(error) => Err(VisitTrouble::Odd(error.to_string())),
    }
}

const STARTTLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";
/// The time limits of one step, and of the whole visit.
const PATIENCE: Duration = Duration::from_secs(5);
const WHOLE: Duration = Duration::from_secs(15);
/// The most bytes that are read before TLS.
const MOST_SAID: usize = 64 * 1024;
