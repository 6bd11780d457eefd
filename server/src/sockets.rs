//! Listening sockets that outlive the process: connections that arrive while the server restarts
//! wait in them, and none is refused.
//!
//! They are inherited by systemd's protocol (sd_listen_fds(3)): from its store of descriptors, in
//! which the server has put them (`FDSTORE=1`), from an operator's socket unit, or from the
//! previous process, if that has restarted itself. `[listen]` still decides which ports there are:
//! a socket that it doesn't name is closed.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;

use listenfd::ListenFd;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{Shutdown, shutdown};
use tracing::warn;

use crate::supervisor;

/// The sockets that the process was started with.
#[derive(Debug, Default)]
pub struct Inherited(Vec<(TcpListener, SocketAddr)>);

impl Inherited {
    /// Takes the sockets from the environment. Must be called only once.
    pub fn take() -> Inherited {
        let mut given = ListenFd::from_env();
        let mut sockets = Vec::new();
        for at in 0..given.len() {
            let socket = given.take_tcp_listener(at).and_then(|socket| match socket {
                Some(socket) => Ok(Some((socket.local_addr()?, socket))),
                None => Ok(None),
            });
            match socket {
                Ok(socket) => sockets.extend(socket.map(|(address, socket)| (socket, address))),
                Err(error) => warn!(%error, "an inherited descriptor isn't a TCP socket and is left alone"),
            }
        }
        Inherited(sockets)
    }

    /// Returns the socket for an address, if there is one. Port 0 matches any port.
    pub fn find(&mut self, wanted: SocketAddr) -> Option<TcpListener> {
        let is_it = |address: &SocketAddr| *address == wanted || wanted.port() == 0 && address.ip() == wanted.ip();
        let at = self.0.iter().position(|(_, address)| is_it(address))?;
        Some(self.0.remove(at).0)
    }

    /// Closes the sockets that no key names, and logs that. The copies that systemd still has stop
    /// listening, too, so their ports can be bound.
    pub fn close_rest(self) {
        for (socket, address) in self.0 {
            warn!(%address, "an inherited socket isn't in [listen]; it is closed");
            if let Err(error) = shutdown(&socket, Shutdown::Both) {
                warn!(%address, %error, "it may continue to listen if another process has a copy of it");
            }
            supervisor::forget(&name(address));
        }
    }
}

/// Hands copies of listening sockets to systemd, which passes them on at the next start if it keeps
/// any.
pub fn keep(sockets: &[TcpListener]) {
    for socket in sockets {
        if let Ok(address) = socket.local_addr() {
            supervisor::keep(&name(address), socket.as_fd());
        }
    }
}

/// Returns the name under which systemd keeps a socket, in which colons aren't allowed.
fn name(address: SocketAddr) -> String {
    format!("listen-{}", address.to_string().replace(':', "_"))
}

/// Passes the sockets on to a program that replaces this process. They stay open for as long as the
/// returned descriptors.
///
/// # Errors
///
/// The system refuses descriptors. The program then has to bind the ports itself.
pub fn pass_on(command: &mut Command, sockets: &[TcpListener]) -> io::Result<Vec<OwnedFd>> {
    let names = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "LISTEN_FDS_FIRST_FD"];
    for name in names {
        command.env_remove(name);
    }
    // Their numbers have to be consecutive, above those in use.
    let mut from = sockets.iter().map(|socket| socket.as_raw_fd()).max().unwrap_or(FIRST).max(FIRST);
    let passed = 'again: loop {
        let mut passed: Vec<OwnedFd> = Vec::with_capacity(sockets.len());
        for socket in sockets {
            let copy = fcntl_dupfd_cloexec(socket, from + passed.len() as i32)?;
            if copy.as_raw_fd() != from + passed.len() as i32 {
                from = copy.as_raw_fd() + 1;
                continue 'again;
            }
            passed.push(copy);
        }
        break passed;
    };
    for socket in &passed {
        fcntl_setfd(socket, FdFlags::empty())?;
    }
    if !passed.is_empty() {
        command.env("LISTEN_FDS", passed.len().to_string());
        command.env("LISTEN_PID", std::process::id().to_string());
        command.env("LISTEN_FDS_FIRST_FD", from.to_string());
    }
    Ok(passed)
}

/// The first descriptor after those of the terminal.
const FIRST: i32 = 3;

#[cfg(test)]
impl Inherited {
    /// Returns sockets as if they were inherited.
    pub(crate) fn of(sockets: Vec<TcpListener>) -> Inherited {
        let with_address = |socket: TcpListener| (socket.local_addr().expect("an address"), socket);
        Inherited(sockets.into_iter().map(with_address).map(|(address, socket)| (socket, address)).collect())
    }

    /// Returns copies of the sockets, like systemd's.
    pub(crate) fn copies(&self) -> Vec<TcpListener> {
        self.0.iter().map(|(socket, _)| socket.try_clone().expect("a copy")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherit() -> (Inherited, Vec<SocketAddr>) {
        let sockets = (0..2).map(|_| {
            let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = socket.local_addr().expect("an address");
            (socket, address)
        });
        let sockets: Vec<_> = sockets.collect();
        let addresses = sockets.iter().map(|(_, address)| *address).collect();
        (Inherited(sockets), addresses)
    }

    #[test]
    fn a_socket_goes_to_the_key_that_names_its_address_once() {
        let (mut inherited, addresses) = inherit();
        assert!(inherited.find("127.0.0.2:0".parse().expect("an address")).is_none());
        let found = inherited.find(addresses[1]).expect("a socket");
        assert_eq!(found.local_addr().expect("an address"), addresses[1]);
        assert!(inherited.find(addresses[1]).is_none());
        let any = inherited.find("127.0.0.1:0".parse().expect("an address")).expect("a socket");
        assert_eq!(any.local_addr().expect("an address"), addresses[0]);
    }

    #[test]
    fn descriptors_that_are_passed_on_follow_each_other() {
        let (inherited, _) = inherit();
        let sockets: Vec<_> = inherited.0.into_iter().map(|(socket, _)| socket).collect();
        let mut command = Command::new("true");
        let passed = pass_on(&mut command, &sockets).expect("descriptors");
        assert_eq!(passed[1].as_raw_fd(), passed[0].as_raw_fd() + 1);
        let of = |name: &str| {
            let found = command.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value);
            found.and_then(|value| value.to_str()).map(str::to_owned)
        };
        assert_eq!(of("LISTEN_FDS").as_deref(), Some("2"));
        assert_eq!(of("LISTEN_FDS_FIRST_FD"), Some(passed[0].as_raw_fd().to_string()));
        assert!(
            passed
                .iter()
                .all(|socket| { rustix::io::fcntl_getfd(socket).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) })
        );
    }
}
