//! TLS sessions that may be resumed with other servers, so that the next stream needs no signatures
//! (RFC 8446 §2.2).
//!
//! # Invariants
//!
//! - A session is tried once, and a server with which that fails again and again gets full
//!   handshakes from then on: some break off a handshake that brings back the caller's certificate.
//! - The number of servers is bounded, and each has one session: the oldest server goes first.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use rookery_base::Map;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// The servers whose sessions are kept, for each certificate with which we connect to them.
pub const MOST_SERVERS: usize = 256;

/// The sessions of all shards under one certificate.
#[derive(Default)]
pub(super) struct TlsSessions(Mutex<KeptSession>);

#[derive(Default)]
struct KeptSession {
    servers: Map<ServerName<'static>, SessionServer>,
    /// The names in `servers`, the oldest first.
    order: VecDeque<ServerName<'static>>,
}

#[derive(Default)]
struct SessionServer {
    /// The key exchange group that the server has chosen before.
    group: Option<NamedGroup>,
    standing: SessionStanding,
    /// The number of sessions that failed in a row.
    failures: u8,
}

#[derive(Default)]
enum SessionStanding {
    #[default]
    Stranger,
    Resumable(Box<Tls13ClientSessionValue>),
    /// True if its session is being tried.
    Trying,
}

impl KeptSession {
    fn server(&mut self, name: ServerName<'static>) -> &mut SessionServer {
        if !self.servers.contains_key(&name) {
            if self.order.len() >= MOST_SERVERS
                && let Some(oldest) = self.order.pop_front()
            {
                self.servers.remove(&oldest);
            }
            self.order.push_back(name.clone());
        }
        self.servers.entry(name).or_default()
    }
}

impl TlsSessions {
    fn with<R>(&self, act: impl FnOnce(&mut KeptSession) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for TlsSessions {
    /// Writes nothing of the sessions, which are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl ClientSessionStore for TlsSessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.with(|kept| kept.server(name).group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.with(|kept| kept.servers.get(&name.to_owned())?.group)
    }

    /// Keeps nothing: without TLS 1.3 a session would reveal on the wire which caller comes again.
    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, name: ServerName<'static>, session: Tls13ClientSessionValue) {
        self.with(|kept| {
            let server = kept.server(name);
            if matches!(server.standing, SessionStanding::Trying) {
                server.failures = 0;
            }
            if server.failures < MOST_FAILURES {
                server.standing = SessionStanding::Resumable(Box::new(session));
            }
        });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.with(|kept| {
            let server = kept.servers.get_mut(name)?;
            match std::mem::take(&mut server.standing) {
                SessionStanding::Resumable(session) => {
                    server.standing = SessionStanding::Trying;
                    Some(*session)
                }
                // A server with which a session was resumed gives a new one at once.
                SessionStanding::Trying => {
                    server.failures = server.failures.saturating_add(1);
                    None
                }
                SessionStanding::Stranger => None,
            }
        })
    }
}

/// Failures in a row after which a server gets full handshakes.
const MOST_FAILURES: u8 = 3;
