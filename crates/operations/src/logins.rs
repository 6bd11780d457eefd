//! Recent logins, and failed attempts: for administrators who investigate a complaint or an
//! attack.
//!
//! One list for all shards. It is in memory only, and bounded; failed logins don't displace
//! successful ones. The log of the process has the failures too.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::Transport;
use rookery_base::lock::lock;
use rookery_hub::{Hooks, LoginSeen};
use rookery_jid::{Jid, JidRef};

/// The newest logins. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Logins(Arc<Mutex<LoginsInner>>);

#[derive(Debug, Default)]
struct LoginsInner {
    succeeded: VecDeque<RecentLogin>,
    failed: VecDeque<RecentLogin>,
}

/// A finished login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentLogin {
    /// The time, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The full JID of the session; the account if it failed, as far as that is known.
    pub who: Option<Jid>,
    /// The domain that the client wanted to log in to.
    pub domain: Box<str>,
    /// The address that the client connects from.
    pub address: IpAddr,
    /// The transport of the stream.
    pub transport: Transport,
    /// The mechanism, if one was chosen.
    pub mechanism: Option<&'static str>,
    /// The condition that the client got (RFC 6120 §6.5), if the login failed.
    pub failure: Option<&'static str>,
}

impl Logins {
    /// Returns the newest logins to these domains, the newest first, `limit` at most.
    pub fn recent(&self, domains: &[String], limit: usize) -> Vec<RecentLogin> {
        let inner = self.lock();
        let is_theirs = |login: &&RecentLogin| domains.iter().any(|domain| **domain == *login.domain);
        let all = inner.succeeded.iter().chain(&inner.failed).filter(is_theirs);
        let mut all: Vec<&RecentLogin> = all.collect();
        all.sort_by_key(|login| std::cmp::Reverse(login.unix_ms));
        all.into_iter().take(limit).cloned().collect()
    }

    fn note(&self, unix_ms: u64, seen: &LoginSeen<'_>) {
        let &LoginSeen { who, domain, address, transport, mechanism, failure } = seen;
        let who = who.map(JidRef::to_jid);
        let login = RecentLogin { unix_ms, who, domain: domain.into(), address, transport, mechanism, failure };
        let mut inner = self.lock();
        let ring = if failure.is_none() { &mut inner.succeeded } else { &mut inner.failed };
        if ring.len() >= MOST {
            ring.pop_front();
        }
        ring.push_back(login);
    }

    fn lock(&self) -> MutexGuard<'_, LoginsInner> {
        lock(&self.0)
    }
}

/// Records the logins to domains with the module.
pub fn install(hooks: &mut Hooks<'_>) {
    hooks.login(|world, seen| world.state::<Logins>().note(world.time(), seen));
}

/// The most logins that are kept, of successful and of failed ones each.
const MOST: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_failures_drives_nobody_out() {
        let logins = Logins::default();
        let romeo = Jid::parse("romeo@a.example/orchard").unwrap();
        let address = "192.0.2.1".parse().unwrap();
        let seen = LoginSeen {
            who: Some(romeo.as_ref()),
            domain: "a.example",
            address,
            transport: Transport::Tcp,
            mechanism: Some("SCRAM-SHA-256"),
            failure: None,
        };
        logins.note(1, &seen);
        for at in 0..2 * MOST as u64 {
            logins.note(2 + at, &LoginSeen { who: None, failure: Some("not-authorized"), ..seen });
        }
        logins.note(9999, &LoginSeen { domain: "b.example", ..seen });
        let all = logins.recent(&["a.example".into()], usize::MAX);
        assert_eq!(all.len(), MOST + 1);
        assert_eq!(all.last().and_then(|login| login.who.as_ref()), Some(&romeo));
        assert_eq!(all[0].unix_ms, 1 + 2 * MOST as u64, "the newest first");
        assert_eq!(logins.recent(&["a.example".into()], 5).len(), 5);
    }
}
