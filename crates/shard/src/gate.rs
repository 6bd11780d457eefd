//! Admits connections, and bounds how often somebody may try to log in: shared by all shards and
//! the web front, asked once per connection and once per login.
//!
//! [`LoginAttempts`] decides how often somebody may try a password; this file has the lock around
//! it, and its log lines.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rookery_base::AddressHash;
use rookery_base::lock::lock;
use rookery_hub::{Bound, Most, Network, Per, Unit, household};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::attempts::news::AttemptNews;
use crate::attempts::{AttemptTally, CountsAt, DEFAULT_A_DAY, LoginAttempt, LoginAttempts, Refused, Whence};
use crate::guesses::Guesses;

/// Counts connections and attempts to log in, and decides who has to wait.
#[derive(Debug, Default)]
pub struct Gate {
    /// Connections in all; 0 for no limit.
    most: usize,
    inner: Mutex<GateInner>,
    attempts: Mutex<Watched>,
    guesses: Guesses,
    /// True while a report to other nodes about the counts is scheduled.
    is_telling: AtomicBool,
}

/// The report of one node's gate to those of others.
#[derive(Debug, Default, Serialize, Deserialize)]
struct GateNews {
    attempts: AttemptNews,
    misses: Vec<(IpAddr, u32)>,
}

/// The operator's decisions about attempts to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginTerms {
    /// Networks from which attempts are neither counted nor held back.
    pub exempt: Vec<Network>,
    /// Guesses at one account in a day from places where it has not logged in.
    pub guesses_per_day: u32,
}

impl Default for LoginTerms {
    fn default() -> Self {
        Self { exempt: Vec::new(), guesses_per_day: DEFAULT_A_DAY }
    }
}

/// The attempts, and the number of those that the log has not been told of.
#[derive(Debug, Default)]
struct Watched {
    attempts: LoginAttempts,
    told_ms: Option<u64>,
    untold: u64,
}

#[derive(Debug, Default)]
struct GateInner {
    connections: HashMap<IpAddr, u32>,
    /// The number of all connections.
    open: usize,
    /// The time at which the log was last told that there are too many.
    told: Option<Instant>,
    /// The time at which the log was last told of an address that has too many.
    told_of_crowd: Option<Instant>,
    /// Sessions without a connection of their own that have not logged in: those of BOSH.
    openings: HashMap<IpAddr, u32>,
    opened: usize,
}

/// A session that needs no connection of its own and has not logged in. It counts as long as this
/// value exists.
#[derive(Debug)]
pub struct GateOpening {
    gate: Arc<Gate>,
    address: IpAddr,
}

impl Drop for GateOpening {
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
    /// Admits a session that needs no connection of its own, since nothing else bounds how many
    /// somebody opens without ever logging in. Returns `None` if there are too many of them, in all
    /// or from this address; `is_limited` is false if the address says nothing.
    pub fn open(self: &Arc<Self>, address: IpAddr, is_limited: bool) -> Option<GateOpening> {
        let mut inner = self.lock();
        let address = household(address);
        let here = inner.openings.get(&address).copied().unwrap_or_default();
        let most_here = share(MOST_OPENED_HERE, inner.opened, MOST_OPENED);
        if inner.opened >= MOST_OPENED || is_limited && here >= most_here {
            return None;
        }
        inner.opened += 1;
        inner.openings.insert(address, here + 1);
        Some(GateOpening { gate: self.clone(), address })
    }

    /// Returns a gate for this number of connections in all, 0 for no limit. It names accounts and
    /// places by this hash, as the gates of other nodes do.
    pub fn new(most: usize, addresses: AddressHash) -> Self {
        let attempts = Watched { attempts: LoginAttempts::new(addresses), ..Watched::default() };
        Self { most, attempts: Mutex::new(attempts), ..Self::default() }
    }

    /// Returns a gate for this number of connections in all; 0 for any number.
    pub fn with_places(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Returns the counts of failed attempts at tokens and names on the web.
    pub fn guesses(&self) -> &Guesses {
        &self.guesses
    }

    /// Returns whether the caller has to tell other nodes of the counts, after a moment.
    pub(crate) fn begins_to_tell(&self) -> bool {
        let begins = !self.is_telling.swap(true, Ordering::Relaxed);
        if begins {
            self.lock_attempts().attempts.gather_news();
            self.guesses.gather_news();
        }
        begins
    }

    /// Takes the report for other nodes, if there is anything to report.
    pub(crate) fn take_news(&self) -> Option<Vec<u8>> {
        self.is_telling.store(false, Ordering::Relaxed);
        let news = GateNews { attempts: self.lock_attempts().attempts.take_news(), misses: self.guesses.take_news() };
        let is_any = !news.attempts.is_empty() || !news.misses.is_empty();
        is_any.then(|| postcard::to_allocvec(&news).ok())?
    }

    /// Applies the report of another node. `now_ms` is the clock of attempts, `unix_ms` that of
    /// guesses.
    ///
    /// # Errors
    /// The bytes aren't a gate's report.
    pub(crate) fn hear(
        &self,
        bytes: &[u8],
        terms: &LoginTerms,
        now_ms: u64,
        unix_ms: u64,
    ) -> Result<(), postcard::Error> {
        let news: GateNews = postcard::from_bytes(bytes)?;
        self.lock_attempts().attempts.hear(&news.attempts, terms.guesses_per_day, now_ms);
        self.guesses.hear(&news.misses, unix_ms);
        Ok(())
    }

    /// Admits a connection from an address. Returns `false` if the address already has `limit` open
    /// connections (0 for no limit), or if there are too many in all.
    pub fn enter(&self, address: IpAddr, limit: u32) -> bool {
        let mut inner = self.lock();
        if self.most > 0 && inner.open >= self.most {
            if is_due(&mut inner.told) {
                let connections = self.most;
                warn!(
                    connections,
                    "there are as many connections as the limit of open files allows; new ones are closed"
                );
            }
            return false;
        }
        let (whole, address) = (address, household(address));
        let limit = share(limit, inner.open, self.most);
        let open = inner.connections.get(&address).copied().unwrap_or_default();
        if limit > 0 && open >= limit {
            if is_due(&mut inner.told_of_crowd) {
                let address = whole.to_canonical();
                warn!(%address, connections = open, "an address has as many connections as one may have");
            }
            return false;
        }
        inner.connections.insert(address, open + 1);
        inner.open += 1;
        true
    }

    /// Notes that an admitted connection is gone.
    pub fn leave(&self, address: IpAddr) {
        let mut inner = self.lock();
        let address = household(address);
        if let Some(open) = inner.connections.get_mut(&address) {
            *open -= 1;
            if *open == 0 {
                inner.connections.remove(&address);
            }
            inner.open -= 1;
        }
    }

    /// Begins an attempt to log in; returns it with the milliseconds for which it has to wait.
    /// `now_ms` is a clock that never goes back.
    ///
    /// # Errors
    /// The attempt has no turn: there were too many like it.
    pub fn begin(&self, whence: Whence<'_>, terms: &LoginTerms, now_ms: u64) -> Result<(LoginAttempt, u64), Refused> {
        let is_exempt = terms.exempt.iter().any(|network| network.contains(whence.address));
        let whence = Whence { counts: if is_exempt { CountsAt::Nowhere } else { whence.counts }, ..whence };
        let mut watched = self.lock_attempts();
        let begun = watched.attempts.begin(whence, terms.guesses_per_day, now_ms);
        if let Err(refused) = &begun {
            watched.untold += 1;
            if watched.told_ms.is_none_or(|told| now_ms.saturating_sub(told) >= BETWEEN_LINES_MS) {
                let (address, account, cause) = (whence.address.to_canonical(), whence.account, refused.cause.name());
                let (refused, retry_seconds) = (watched.untold, refused.retry_ms.div_ceil(1000));
                warn!(%address, account, cause, retry_seconds, refused, "too many logins fail: more are refused for a while");
                watched.untold = 0;
                watched.told_ms = Some(now_ms);
            }
        }
        begun
    }

    /// Admits a client that proves nothing; returns `false` if too many have come from the address
    /// recently.
    pub fn let_in(&self, address: IpAddr, terms: &LoginTerms, now_ms: u64) -> bool {
        let is_exempt = terms.exempt.iter().any(|network| network.contains(address));
        is_exempt || self.lock_attempts().attempts.let_in(address, now_ms)
    }

    /// Notes that an attempt has succeeded.
    pub fn succeeded(&self, attempt: &LoginAttempt, now_ms: u64) {
        self.lock_attempts().attempts.succeeded(attempt, now_ms);
    }

    /// Notes that an attempt has failed.
    pub fn failed(&self, _used_up: LoginAttempt) {
        self.lock_attempts().attempts.failed();
    }

    /// Subtracts an attempt that has ended without a guess.
    pub fn take_back(&self, attempt: &LoginAttempt, now_ms: u64) {
        self.lock_attempts().attempts.take_back(attempt, now_ms);
    }

    /// Returns the counts of attempts since the start, by their outcome.
    pub fn tally(&self) -> AttemptTally {
        self.lock_attempts().attempts.tally()
    }

    fn lock(&self) -> MutexGuard<'_, GateInner> {
        lock(&self.inner)
    }

    fn lock_attempts(&self) -> MutexGuard<'_, Watched> {
        lock(&self.attempts)
    }
}

/// Returns whether it is time for another log line, and notes that it is written now.
fn is_due(told: &mut Option<Instant>) -> bool {
    let is_due = told.is_none_or(|told| told.elapsed() >= TOLD);
    if is_due {
        *told = Some(Instant::now());
    }
    is_due
}

/// Milliseconds between two lines of the log about attempts that are refused.
const BETWEEN_LINES_MS: u64 = 60_000;
/// Returns the part of `limit` that one address may have when this number of all places is taken.
/// The part shrinks towards the end, so that addresses with many connections don't take the last
/// places as well. 0 means no limit, both for `limit` and for all places.
fn share(limit: u32, taken: usize, most: usize) -> u32 {
    let is_over = |part: usize, of: usize| most > 0 && taken.saturating_mul(of) >= most.saturating_mul(part);
    let share = match limit {
        0 => return 0,
        limit if is_over(63, 64) => limit / 64,
        limit if is_over(7, 8) => limit / 8,
        limit => limit,
    };
    share.max(1)
}

/// The bounds of connections before they have logged in, for the page of limits.
pub const BOUNDS: &[Bound] = &[
    Bound::on("sessions of BOSH that haven't logged in", Per::Server, Most::Fixed(MOST_OPENED as u64), Unit::Number)
        .or("a new one is refused with policy-violation"),
    Bound::on(
        "the same; an eighth when seven eighths of all are taken, then a 64th",
        Per::Address,
        Most::Fixed(MOST_OPENED_HERE as u64),
        Unit::Number,
    )
    .or("a new one is refused with policy-violation"),
];

/// The time between two lines of the log that say that there are too many connections.
const TOLD: Duration = Duration::from_secs(60);
/// Sessions of BOSH that have not logged in, in all and of one address.
const MOST_OPENED: usize = 20_000;
const MOST_OPENED_HERE: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_the_operator_are_exempt() {
        let gate = Gate::default();
        let terms = LoginTerms { exempt: vec!["192.0.2.0/24".parse().unwrap()], guesses_per_day: 10 };
        let guess = |address: &str| {
            let address = address.parse().unwrap();
            let whence = Whence { address, account: "romeo@a.example", client: None, counts: CountsAt::Everywhere };
            gate.begin(whence, &terms, 0).map(|(attempt, wait)| {
                gate.failed(attempt);
                wait
            })
        };
        assert!((0..1000).all(|_| guess("192.0.2.9") == Ok(0)));
        assert_eq!((0..1000).filter(|_| guess("198.51.100.9").is_err()).count(), 980);
        let tally = gate.tally();
        assert_eq!((tally.failed, tally.refused), (1020, [980, 0, 0]));
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
    fn who_has_many_does_not_get_the_last_places() {
        let gate = Gate::with_places(640);
        let (busy, other): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let enter = |address, times: usize| (0..times).filter(|_| gate.enter(address, 640)).count();
        assert_eq!(enter(busy, 700), 560, "seven eighths");
        assert_eq!(enter(other, 700), 70, "then an eighth of what one may have, and then a 64th");
        assert_eq!(enter("192.0.2.3".parse().unwrap(), 700), 10);
        assert_eq!(enter("192.0.2.4".parse().unwrap(), 700), 0);
        assert_eq!((share(0, 639, 640), share(100, 639, 0), share(5, 639, 640)), (0, 100, 1));
    }

    #[test]
    fn connections_in_all_are_counted() {
        let gate = Gate::with_places(2);
        let (here, there): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert!(gate.enter(here, 0) && gate.enter(there, 0) && !gate.enter(here, 0) && !gate.enter(there, 0));
        gate.leave(there);
        assert!(gate.enter(here, 0) && !gate.enter(here, 0));
        gate.leave(here);
        gate.leave(here);
        let inner = gate.lock();
        assert_eq!((inner.open, inner.connections.len()), (0, 0));
    }

    #[test]
    fn sessions_that_only_open_are_counted() {
        let gate = Arc::new(Gate::default());
        let (here, there): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut open: Vec<GateOpening> = (0..MOST_OPENED_HERE).map(|_| gate.open(here, true).unwrap()).collect();
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
}
