//! Who may come in, and how often they may try: shared by all shards, asked once per connection and once per login.
//!
//! Failed logins slow down the address they come from and the account they aim at; nobody is locked out. The tables are bounded: under
//! a flood from many addresses the oldest knowledge goes first.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The gate.
#[derive(Debug, Default)]
pub struct Gate {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    connections: HashMap<IpAddr, u32>,
    /// Sessions without a connection of their own that have not logged in: those of BOSH.
    openings: HashMap<IpAddr, u32>,
    opened: usize,
    addresses: HashMap<IpAddr, Failures>,
    accounts: HashMap<String, Failures>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last_ms: u64,
}

/// A session that needs no connection of its own and has not logged in; it counts for as long as this is kept.
#[derive(Debug)]
pub struct Opening {
    gate: Arc<Gate>,
    address: IpAddr,
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut inner = self.gate.lock();
        inner.opened -= 1;
        if let Some(open) = inner.openings.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                inner.openings.remove(&self.address);
            }
        }
    }
}

impl Gate {
    /// A session is opened that needs no connection of its own, so that nothing else bounds how many somebody opens without ever logging in.
    /// `None` if there are too many of them, in all or from this address; `is_limited`: whether the address says anything.
    pub fn open(self: &Arc<Self>, address: IpAddr, is_limited: bool) -> Option<Opening> {
        let mut inner = self.lock();
        let address = network(address);
        let here = inner.openings.get(&address).copied().unwrap_or_default();
        if inner.opened >= MOST_OPENED || is_limited && here >= MOST_OPENED_HERE {
            return None;
        }
        inner.opened += 1;
        inner.openings.insert(address, here + 1);
        Some(Opening { gate: self.clone(), address })
    }

    /// A connection comes in from an address; `false` if it has `limit` open already (0: no limit).
    pub fn enter(&self, address: IpAddr, limit: u32) -> bool {
        let mut inner = self.lock();
        let open = inner.connections.entry(network(address)).or_insert(0);
        if limit > 0 && *open >= limit {
            return false;
        }
        *open += 1;
        true
    }

    /// A connection that came in is gone.
    pub fn leave(&self, address: IpAddr) {
        let mut inner = self.lock();
        let address = network(address);
        if let Some(open) = inner.connections.get_mut(&address) {
            *open -= 1;
            if *open == 0 {
                inner.connections.remove(&address);
            }
        }
    }

    /// A login failed.
    pub fn failed(&self, address: IpAddr, account: Option<&str>, now_ms: u64) {
        let mut inner = self.lock();
        count(&mut inner.addresses, network(address), now_ms);
        if let Some(account) = account {
            count(&mut inner.accounts, account.to_owned(), now_ms);
        }
    }

    /// How long the next attempt has to wait, in milliseconds: doubling from half a second after the third failure within ten minutes, at
    /// most ten seconds for an address and two for an account, whose owner must not be kept out by somebody else's guesses.
    pub fn delay(&self, address: IpAddr, account: &str, now_ms: u64) -> u64 {
        let inner = self.lock();
        let wait = |failures: Option<&Failures>, most: u64| {
            let recent = failures.filter(|failures| now_ms.saturating_sub(failures.last_ms) < WINDOW_MS);
            match recent.map_or(0, |failures| failures.count) {
                0..=2 => 0,
                count => (250u64 << (count - 2).min(10)).min(most),
            }
        };
        wait(inner.addresses.get(&network(address)), 10_000).max(wait(inner.accounts.get(account), 2_000))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count<K: std::hash::Hash + Eq + Clone>(table: &mut HashMap<K, Failures>, key: K, now_ms: u64) {
    if table.len() >= MOST {
        table.retain(|_, failures| now_ms.saturating_sub(failures.last_ms) < WINDOW_MS);
    }
    if table.len() >= MOST {
        let median = table.values().map(|failures| failures.last_ms).sum::<u64>() / table.len() as u64;
        table.retain(|_, failures| failures.last_ms > median);
    }
    let failures = table.entry(key).or_insert(Failures { count: 0, last_ms: now_ms });
    if now_ms.saturating_sub(failures.last_ms) >= WINDOW_MS {
        failures.count = 0;
    }
    failures.count = failures.count.saturating_add(1);
    failures.last_ms = now_ms;
}

/// What counts as one place: an IPv4 address, or the first 64 bits of an IPv6 address, which one customer has for himself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

/// How long a failure is remembered.
const WINDOW_MS: u64 = 600_000;
/// Entries of a table.
const MOST: usize = 50_000;
/// Sessions of BOSH that have not logged in, in all and of one address.
const MOST_OPENED: usize = 20_000;
const MOST_OPENED_HERE: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_slow_down_the_address_and_the_account() {
        let gate = Gate::default();
        let (here, there) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        for _ in 0..2 {
            gate.failed(here, Some("romeo@example.org"), 0);
        }
        assert_eq!(gate.delay(here, "romeo@example.org", 1), 0);
        gate.failed(here, Some("romeo@example.org"), 0);
        assert_eq!(gate.delay(here, "juliet@example.org", 1), 500);
        assert_eq!(gate.delay(there, "romeo@example.org", 1), 500);
        assert_eq!(gate.delay(there, "juliet@example.org", 1), 0);
        for _ in 0..30 {
            gate.failed(here, Some("romeo@example.org"), 0);
        }
        assert_eq!(gate.delay(here, "romeo@example.org", 1), 10_000);
        assert_eq!(gate.delay(there, "romeo@example.org", 1), 2_000);
        assert_eq!(gate.delay(here, "romeo@example.org", WINDOW_MS), 0);
    }

    #[test]
    fn connections_of_one_place_are_counted() {
        let gate = Gate::default();
        let one: IpAddr = "2001:db8::1".parse().unwrap();
        let same: IpAddr = "2001:db8::2".parse().unwrap();
        assert!(gate.enter(one, 2) && gate.enter(same, 2) && !gate.enter(one, 2));
        gate.leave(same);
        assert!(gate.enter(one, 2));
    }

    #[test]
    fn sessions_that_only_open_are_counted() {
        let gate = Arc::new(Gate::default());
        let (here, there): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut open: Vec<Opening> = (0..MOST_OPENED_HERE).map(|_| gate.open(here, true).unwrap()).collect();
        assert!(gate.open(here, true).is_none());
        open.push(gate.open(there, true).unwrap());
        open.swap_remove(0);
        open.push(gate.open(here, true).unwrap());
        while open.len() < MOST_OPENED {
            open.push(gate.open(here, false).unwrap());
        }
        assert!(gate.open(there, false).is_none(), "in all");
        drop(open);
        assert!(gate.open(here, true).is_some() && gate.lock().openings.is_empty());
    }

    #[test]
    fn the_tables_stay_bounded() {
        let gate = Gate::default();
        for at in 0..(MOST as u32 + 10) {
            gate.failed(IpAddr::V4(at.into()), None, u64::from(at / 1000));
        }
        assert!(gate.lock().addresses.len() <= MOST);
    }
}
