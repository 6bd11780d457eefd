//! Listening sockets.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use crate::config::Config;
use crate::failure::Failure;
use crate::sockets::Inherited;

/// A bound, listening, non-blocking socket.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// Its address as bound: port 0 has become a port, `[::]` may have become `0.0.0.0`.
    pub address: SocketAddr,
    /// The protocol of its connections.
    pub kind: Kind,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Client streams that start in the clear.
    C2s,
    /// Client streams under TLS from their first byte.
    C2sTls,
    /// HTTP in the clear.
    Web,
    /// HTTP under TLS.
    WebTls,
    /// DPM, which has a socket of its own.
    Dpm,
    /// SOCKS5, for bytestreams (XEP-0065).
    Bytestreams,
    /// Streams of other servers that start in the clear.
    S2s,
    /// Streams of other servers under TLS from their first byte.
    S2sTls,
    /// Components (XEP-0114).
    Components,
}

impl Kind {
    /// Returns the key that names its addresses: in `[listen]`, or that of DPM in its own table.
    pub fn key(self) -> &'static str {
        match self {
            Kind::C2s => "c2s",
            Kind::C2sTls => "c2s_tls",
            Kind::Web => "web",
            Kind::WebTls => "web_tls",
            Kind::Dpm => "listen",
            Kind::Bytestreams => "bytestreams",
            Kind::S2s => "s2s",
            Kind::S2sTls => "s2s_tls",
            Kind::Components => "components",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::C2s => "STARTTLS",
            Kind::C2sTls => "direct TLS",
            Kind::Web => "HTTP",
            Kind::WebTls => "HTTPS",
            Kind::Dpm => "DPM",
            Kind::Bytestreams => "bytestreams",
            Kind::S2s => "other servers, STARTTLS",
            Kind::S2sTls => "other servers, direct TLS",
            Kind::Components => "components",
        })
    }
}

/// Returns the configured addresses with what is spoken there.
pub fn wanted(config: &Config) -> impl Iterator<Item = (SocketAddr, Kind)> {
    let has_others = config.federates();
    let has_components = !config.components.is_empty();
    let config = &config.listen;
    let c2s = config.c2s.iter().map(|address| (*address, Kind::C2s));
    let c2s_tls = config.c2s_tls.iter().map(|address| (*address, Kind::C2sTls));
    let web = config.web.iter().map(|address| (*address, Kind::Web));
    let web_tls = config.web_tls.iter().map(|address| (*address, Kind::WebTls));
    let bytestreams = config.bytestreams.iter().map(|address| (*address, Kind::Bytestreams));
    let s2s = config.s2s.iter().map(|address| (*address, Kind::S2s));
    let s2s_tls = config.s2s_tls.iter().map(|address| (*address, Kind::S2sTls));
    let others = s2s.chain(s2s_tls).filter(move |_| has_others);
    let components = config.components.iter().filter(move |_| has_components);
    let components = components.map(|address| (*address, Kind::Components));
    c2s.chain(c2s_tls).chain(web).chain(web_tls).chain(bytestreams).chain(others).chain(components)
}

/// Binds all configured addresses, but for those whose sockets were inherited.
///
/// # Errors
///
/// As [`failure`], with the first that can't be.
pub fn bind_all(config: &Config, mut inherited: Inherited) -> Result<Vec<Listener>, Failure> {
    let opened = wanted(config).map(|(address, kind)| {
        let opened = match inherited.find(address) {
            Some(socket) => listen_again(socket, kind),
            None => bind_one(address, kind),
        };
        opened.map_err(|error| failure(&error, refused(address, &error)))
    });
    let opened = opened.collect::<Result<_, _>>()?;
    inherited.close_rest();
    Ok(opened)
}

/// Listens on a socket that another process has bound.
fn listen_again(socket: TcpListener, kind: Kind) -> io::Result<Listener> {
    socket.set_nonblocking(true)?;
    listen(&socket, BACKLOG)?;
    Ok(Listener { address: socket.local_addr()?, socket, kind })
}

/// Binds one address. `[::]` accepts IPv4 too, and is `0.0.0.0` on a machine without IPv6.
///
/// # Errors
///
/// The operating system's reason.
pub fn bind_one(address: SocketAddr, kind: Kind) -> io::Result<Listener> {
    let bound = match open(address) {
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if address.is_ipv6() && address.ip().is_unspecified() => {
            open(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
        }
        bound => bound,
    };
    let socket = TcpListener::from(bound?);
    Ok(Listener { address: socket.local_addr()?, socket, kind })
}

/// Returns why a server doesn't start without an address.
pub fn failure(error: &io::Error, text: String) -> Failure {
    if may_pass(error) { Failure::Blocked(text) } else { Failure::Unfit(text) }
}

/// Returns whether an address may be had later although nobody changes the configuration: another
/// program may give the port back, as an earlier server does when it ends, and a network that comes
/// up brings its addresses. All else stays as it is.
pub fn may_pass(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

/// Says why an address can't be listened on, and what mends it.
pub fn refused(address: SocketAddr, error: &io::Error) -> String {
    let mend = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "another program has the port (`ss -ltnp sport = :{}` names it); stop it, or change [listen]",
                address.port()
            )
        }
        io::ErrorKind::PermissionDenied => "ports below 1024 need the capability CAP_NET_BIND_SERVICE".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address; change [listen]".to_owned(),
        _ => "change [listen]".to_owned(),
    };
    format!("cannot listen on {address}: {error}; {mend}")
}

/// Opens a socket, without `SO_REUSEPORT`: a second server would silently share the port instead of
/// being told that it is taken.
fn open(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connections that may wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
