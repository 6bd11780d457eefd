//! Listening sockets.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use crate::config::ServerConfig;
use crate::failure::CommandFailure;
use crate::sockets::Inherited;

/// A bound, listening, non-blocking socket.
#[derive(Debug)]
pub struct BoundListener {
    /// The socket, from which connections are accepted without blocking.
    pub socket: TcpListener,
    /// Its address as bound: port 0 has become a port, `[::]` may have become `0.0.0.0`.
    pub address: SocketAddr,
    /// The protocol of its connections.
    pub kind: PortKind,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
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

impl PortKind {
    /// Returns the key that names its addresses: in `[listen]`, or that of DPM in its own table.
    pub fn key(self) -> &'static str {
        match self {
            PortKind::C2s => "c2s",
            PortKind::C2sTls => "c2s_tls",
            PortKind::Web => "web",
            PortKind::WebTls => "web_tls",
            PortKind::Dpm => "listen",
            PortKind::Bytestreams => "bytestreams",
            PortKind::S2s => "s2s",
            PortKind::S2sTls => "s2s_tls",
            PortKind::Components => "components",
        }
    }
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortKind::C2s => "STARTTLS",
            PortKind::C2sTls => "direct TLS",
            PortKind::Web => "HTTP",
            PortKind::WebTls => "HTTPS",
            PortKind::Dpm => "DPM",
            PortKind::Bytestreams => "bytestreams",
            PortKind::S2s => "other servers, STARTTLS",
            PortKind::S2sTls => "other servers, direct TLS",
            PortKind::Components => "components",
        })
    }
}

/// Returns the configured addresses, each with its protocol.
pub fn wanted_addresses(config: &ServerConfig) -> impl Iterator<Item = (SocketAddr, PortKind)> {
    let has_others = config.federates();
    let has_components = !config.components.is_empty();
    let config = &config.listen;
    let c2s = config.c2s.iter().map(|address| (*address, PortKind::C2s));
    let c2s_tls = config.c2s_tls.iter().map(|address| (*address, PortKind::C2sTls));
    let web = config.web.iter().map(|address| (*address, PortKind::Web));
    let web_tls = config.web_tls.iter().map(|address| (*address, PortKind::WebTls));
    let bytestreams = config.bytestreams.iter().map(|address| (*address, PortKind::Bytestreams));
    let s2s = config.s2s.iter().map(|address| (*address, PortKind::S2s));
    let s2s_tls = config.s2s_tls.iter().map(|address| (*address, PortKind::S2sTls));
    let others = s2s.chain(s2s_tls).filter(move |_| has_others);
    let components = config.components.iter().filter(move |_| has_components);
    let components = components.map(|address| (*address, PortKind::Components));
    c2s.chain(c2s_tls).chain(web).chain(web_tls).chain(bytestreams).chain(others).chain(components)
}

/// Binds all configured addresses except those whose sockets were inherited. The other inherited
/// sockets are closed first: one of them may have the port of an address that has changed.
///
/// # Errors
///
/// As [`failure`], for the first that can't be bound.
pub fn bind_all(config: &ServerConfig, inherited: Inherited) -> Result<Vec<BoundListener>, CommandFailure> {
    bind_these(wanted_addresses(config), inherited)
}

fn bind_these(
    wanted: impl Iterator<Item = (SocketAddr, PortKind)>,
    mut inherited: Inherited,
) -> Result<Vec<BoundListener>, CommandFailure> {
    let found: Vec<_> = wanted.map(|(address, kind)| (address, kind, inherited.find(bindable(address)))).collect();
    inherited.close_rest();
    let opened = found.into_iter().map(|(address, kind, socket)| {
        let opened = match socket {
            Some(socket) => listen_again(socket, kind),
            None => bind_one(address, kind),
        };
        opened.map_err(|error| failure(&error, explain_bind(address, &error)))
    });
    opened.collect()
}

/// Listens on a socket that another process has bound.
fn listen_again(socket: TcpListener, kind: PortKind) -> io::Result<BoundListener> {
    socket.set_nonblocking(true)?;
    listen(&socket, BACKLOG)?;
    Ok(BoundListener { address: socket.local_addr()?, socket, kind })
}

/// Binds one address. `[::]` accepts IPv4 too, and is `0.0.0.0` on a machine without IPv6.
///
/// # Errors
///
/// The operating system's reason.
pub fn bind_one(address: SocketAddr, kind: PortKind) -> io::Result<BoundListener> {
    let socket = TcpListener::from(open(bindable(address))?);
    Ok(BoundListener { address: socket.local_addr()?, socket, kind })
}

/// Returns the address that is bound for a configured one: `0.0.0.0` for `[::]` on a machine
/// without IPv6.
fn bindable(address: SocketAddr) -> SocketAddr {
    let is_any = address.is_ipv6() && address.ip().is_unspecified();
    let any_port = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    if is_any && matches!(open(any_port), Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)) {
        return SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    }
    address
}

/// Returns the failure of a start without one of its addresses.
pub fn failure(error: &io::Error, text: String) -> CommandFailure {
    if may_pass(error) { CommandFailure::Blocked(text) } else { CommandFailure::Unfit(text) }
}

/// Returns whether an address may become available without a change of the configuration. Another
/// program may release the port, as an earlier server does when it ends; a network that comes up
/// brings its addresses; memory or descriptors may become free. A missing permission or address
/// family stays missing.
pub fn may_pass(error: &io::Error) -> bool {
    let lasting = [Errno::ACCESS, Errno::PERM, Errno::AFNOSUPPORT, Errno::INVAL, Errno::PROTONOSUPPORT];
    Errno::from_io_error(error).is_some_and(|error| !lasting.contains(&error))
}

/// Explains why an address can't be listened on, with the remedy.
pub fn explain_bind(address: SocketAddr, error: &io::Error) -> String {
    let mend = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "another program has the port (`ss -ltnp sport = :{}` names it); stop it, or change [listen]",
                address.port()
            )
        }
        io::ErrorKind::PermissionDenied => "ports below 1024 need the capability CAP_NET_BIND_SERVICE".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address; change [listen]".to_owned(),
        _ if may_pass(error) => {
            "the machine is short of descriptors or memory; try again, or raise its limits".to_owned()
        }
        _ => "change [listen]".to_owned(),
    };
    format!("cannot listen on {address}: {error}; {mend}")
}

/// Opens a socket, without `SO_REUSEPORT`: a second server would silently share the port instead of
/// failing because it is taken.
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

/// The connections that may wait to be accepted. The kernel limits them to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(address: SocketAddr) -> (Inherited, SocketAddr) {
        let socket = bind_one(address, PortKind::C2s).expect("a port");
        (Inherited::of(vec![socket.socket]), socket.address)
    }

    #[test]
    fn a_port_is_bound_again_although_the_address_that_had_it_was_inherited() {
        let (inherited, old) = bound(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        // Systemd keeps a copy for a while.
        let kept = inherited.copies();
        let new = SocketAddr::from((Ipv4Addr::LOCALHOST, old.port()));
        let opened = bind_these([(new, PortKind::C2s)].into_iter(), inherited).expect("the port is free again");
        assert_eq!(opened[0].address, new);
        drop(kept);
    }

    #[test]
    fn an_inherited_socket_is_listened_on_again() {
        let (inherited, address) = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let opened = bind_these([(address, PortKind::Web)].into_iter(), inherited).expect("the socket");
        assert_eq!((opened[0].address, opened[0].kind), (address, PortKind::Web));
        assert!(std::net::TcpStream::connect(address).is_ok());
    }

    #[test]
    fn a_machine_that_is_short_of_something_may_have_it_later() {
        let passes = |errno: Errno| may_pass(&io::Error::from(errno));
        assert!([Errno::ADDRINUSE, Errno::ADDRNOTAVAIL, Errno::MFILE, Errno::NOBUFS].into_iter().all(passes));
        assert!(![Errno::ACCESS, Errno::AFNOSUPPORT].into_iter().any(passes));
    }
}
