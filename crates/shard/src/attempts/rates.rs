//! Rates at which attempts to log in are let through, and the tables of them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// The reason for which an attempt is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptCause {
    /// There were too many from this place at this account.
    Pair,
    /// There were too many at this account, from places where it has not logged in.
    Account,
    /// There were too many from this address.
    Address,
}

/// An attempt that has no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub cause: AttemptCause,
    /// The milliseconds until it may have a turn.
    pub retry_ms: u64,
}

impl AttemptCause {
    /// All causes, in the order of [`AttemptTally`](super::AttemptTally).
    pub const ALL: [Self; 3] = [Self::Pair, Self::Account, Self::Address];

    /// Returns the name of the cause, for labels and the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::Account => "account",
            Self::Address => "address",
        }
    }
}

/// A kind of rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum RateName {
    /// The attempts at an account from a place where it has logged in.
    Known,
    /// The attempts at an account from a place where it has not logged in.
    Pair,
    /// The attempts at an account, from wherever they come.
    Account,
    /// The attempts from an address, at any account.
    Address,
    /// The clients at an address that prove nothing.
    Anonymous,
}

impl RateName {
    pub(super) fn rate(self, a_day: u32) -> AttemptRate {
        match self {
            Self::Known => KNOWN,
            Self::Pair => PAIR,
            Self::Account => account_rate(a_day),
            Self::Address => ADDRESS,
            Self::Anonymous => ANONYMOUS,
        }
    }
}

/// A number of attempts at once, and the time after which one of them comes back.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttemptRate {
    pub(super) burst: u64,
    pub(super) each_ms: u64,
}

/// Rates by key. An entry is the moment when everything that was charged has come back (GCRA); an
/// entry whose moment has passed is the same as none.
#[derive(Debug, Default)]
pub(super) struct RateTable(pub(super) HashMap<u64, u64>);

impl RateTable {
    /// Returns the milliseconds for which the next attempt has to wait.
    pub(super) fn turn(&self, key: u64, rate: AttemptRate, cause: AttemptCause, now_ms: u64) -> Result<u64, Refused> {
        let until = self.0.get(&key).map_or(now_ms, |until| (*until).max(now_ms));
        let wait = (until + rate.each_ms).saturating_sub(now_ms + rate.burst * rate.each_ms);
        if wait > LONGEST_WAIT_MS { Err(Refused { cause, retry_ms: wait }) } else { Ok(wait) }
    }

    /// Returns the number of attempts that have not come back yet, rounded up.
    pub(super) fn level(&self, key: u64, rate: AttemptRate, now_ms: u64) -> u64 {
        self.0.get(&key).map_or(0, |until| until.saturating_sub(now_ms).div_ceil(rate.each_ms))
    }

    pub(super) fn charge(&mut self, key: u64, rate: AttemptRate, now_ms: u64) {
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            self.make_room(now_ms);
        }
        let until = self.0.entry(key).or_insert(now_ms);
        *until = (*until).max(now_ms) + rate.each_ms;
    }

    pub(super) fn take_back(&mut self, key: u64, rate: AttemptRate, now_ms: u64) {
        let Some(until) = self.0.get_mut(&key) else { return };
        *until = until.saturating_sub(rate.each_ms);
        if *until <= now_ms {
            self.0.remove(&key);
        }
    }

    /// Drops expired entries, and a quarter of the table if that isn't enough: the entries with the
    /// fewest attempts.
    pub(super) fn make_room(&mut self, now_ms: u64) {
        self.0.retain(|_, until| *until > now_ms);
        let Some(mut excess) = self.0.len().checked_sub(MOST / 4 * 3) else { return };
        let mut all: Vec<u64> = self.0.values().copied().collect();
        let Some(at) = excess.checked_sub(1) else { return };
        let (_, last, _) = all.select_nth_unstable(at);
        let last = *last;
        self.0.retain(|_, until| {
            let goes = excess > 0 && *until <= last;
            excess -= usize::from(goes);
            !goes
        });
    }

    /// Charges a rate with attempts on other nodes, up to the point where nobody has a turn.
    pub(super) fn add(&mut self, key: u64, rate: AttemptRate, times: i32, now_ms: u64) {
        let by_ms = u64::from(times.unsigned_abs()).saturating_mul(rate.each_ms);
        if times <= 0 {
            let Some(until) = self.0.get_mut(&key) else { return };
            *until = until.saturating_sub(by_ms);
            if *until <= now_ms {
                self.0.remove(&key);
            }
            return;
        }
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            self.make_room(now_ms);
        }
        let most = now_ms + rate.burst * rate.each_ms + LONGEST_WAIT_MS;
        let until = self.0.entry(key).or_insert(now_ms);
        *until = (*until).max(now_ms).saturating_add(by_ms).min(most.max(*until));
    }
}

pub(super) fn account_rate(a_day: u32) -> AttemptRate {
    AttemptRate { burst: 50, each_ms: 2 * DAY_MS / u64::from(a_day.max(1)) }
}

/// The rate of a place at an account. Clients try several mechanisms with one password.
pub(super) const PAIR: AttemptRate = AttemptRate { burst: 20, each_ms: 600_000 };
/// The rate of a place where the account has logged in.
pub(super) const KNOWN: AttemptRate = AttemptRate { burst: 100, each_ms: 5_000 };
/// The rate of an address: as many attempts as it may have connections, so that all clients behind
/// it that come back after a restart find a place.
pub(super) const ADDRESS: AttemptRate = AttemptRate { burst: 1000, each_ms: 1_000 };
/// The rate at which clients that prove nothing are admitted from an address. The page of a
/// helpline has many readers behind one address, but they don't all come at once.
pub(super) const ANONYMOUS: AttemptRate = AttemptRate { burst: 100, each_ms: 6_000 };
/// The milliseconds above which an attempt is refused rather than made to wait.
pub(super) const LONGEST_WAIT_MS: u64 = 10_000;
/// The entries of a table. Each takes 16 bytes, and what a hash table adds.
pub(super) const MOST: usize = 65_536;
pub(super) const DAY_MS: u64 = 86_400_000;
