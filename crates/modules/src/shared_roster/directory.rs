//! The accounts of the domains that have groups of everybody: which there are, and which are here.
//! One for all shards, under a lock that is taken when somebody comes or goes and when a roster is
//! asked for.

use rookery_base::Map;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_jid::Jid;

/// The directories of all domains; clones mean the same ones.
#[derive(Debug, Clone, Default)]
pub struct Directories(Arc<Mutex<Map<String, AccountDirectory>>>);

/// The accounts of one domain.
#[derive(Debug, Default)]
pub(crate) struct AccountDirectory {
    all: Arc<BTreeSet<Jid>>,
    online: Arc<BTreeSet<Jid>>,
    /// The time when the accounts were last asked for, milliseconds of the clock of day.
    pub(crate) asked_ms: Option<u64>,
    log: VecDeque<DirectoryChange>,
    /// The number of the oldest change in the log.
    first: u64,
}

/// Somebody came or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryChange {
    /// The account that came or went.
    pub(crate) account: Jid,
    /// To or from those who are here, rather than the accounts that there are.
    pub(crate) online: bool,
}

impl Directories {
    /// Calls a function with the directory of a domain.
    pub(crate) fn with<T>(&self, domain: &str, act: impl FnOnce(&mut AccountDirectory) -> T) -> T {
        let mut all = self.lock();
        if let Some(directory) = all.get_mut(domain) {
            return act(directory);
        }
        act(all.entry(domain.to_owned()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Map<String, AccountDirectory>> {
        lock(&self.0)
    }
}

impl AccountDirectory {
    /// Returns the accounts that there are, as far as they are known.
    pub(crate) fn all(&self) -> Arc<BTreeSet<Jid>> {
        self.all.clone()
    }

    /// Returns the accounts that are here.
    pub(crate) fn online(&self) -> Arc<BTreeSet<Jid>> {
        self.online.clone()
    }

    /// Adds an account that is here.
    pub(crate) fn came(&mut self, account: &Jid) {
        if !self.online.contains(account) {
            Arc::make_mut(&mut self.online).insert(account.clone());
            self.note(account.clone(), true);
        }
        if self.asked_ms.is_some() && !self.all.contains(account) {
            Arc::make_mut(&mut self.all).insert(account.clone());
            self.note(account.clone(), false);
        }
    }

    /// Takes out an account that is here no longer.
    pub(crate) fn went(&mut self, account: &Jid) {
        if self.online.contains(account) {
            Arc::make_mut(&mut self.online).remove(account);
            self.note(account.clone(), true);
        }
    }

    /// Takes out an account that is no more.
    pub(crate) fn gone(&mut self, account: &Jid) {
        self.went(account);
        if self.all.contains(account) {
            Arc::make_mut(&mut self.all).remove(account);
            self.note(account.clone(), false);
        }
    }

    /// Replaces all accounts that are known.
    pub(crate) fn set_all(&mut self, mut accounts: BTreeSet<Jid>) {
        // Somebody may have come since the store was asked.
        accounts.extend(self.online.iter().cloned());
        let changed: Vec<Jid> = self.all.symmetric_difference(&accounts).cloned().collect();
        self.all = Arc::new(accounts);
        changed.into_iter().for_each(|account| self.note(account, false));
    }

    /// Returns the changes from a number on, and the number behind the last.
    pub(crate) fn since(&self, number: u64) -> (Vec<DirectoryChange>, u64) {
        let skipped = number.saturating_sub(self.first) as usize;
        (self.log.iter().skip(skipped).cloned().collect(), self.first + self.log.len() as u64)
    }

    fn note(&mut self, account: Jid, online: bool) {
        self.log.push_back(DirectoryChange { account, online });
        if self.log.len() > MAX_LOG {
            self.log.pop_front();
            self.first += 1;
        }
    }
}

/// Changes that are remembered for shards that have not looked yet.
const MAX_LOG: usize = 100_000;
