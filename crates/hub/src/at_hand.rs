//! The documents of accounts that are in memory, and the accounts without a session that have
//! some.

use std::collections::VecDeque;
use std::rc::Rc;

use rookery_base::Map;
use rookery_fanout::Packet;
use rookery_jid::Jid;
use rookery_store::RosterItem;

use crate::calls::AnyDocument;
use crate::custody::Custody;
use crate::passage::Notes;
use crate::share::{Bounds, Share};

/// The items of a roster by contact.
pub(crate) type KnownItems = Map<Jid, RosterItem>;

/// The documents of one account.
#[derive(Default)]
pub(crate) struct AtHand {
    pub(crate) documents: Vec<KeptDocument>,
    /// The account's roster, if one of its documents asks for it.
    pub(crate) roster: Option<Box<KnownItems>>,
    /// Set if modules decide for each session which stanzas for the account it gets.
    pub(crate) is_screened: bool,
    /// Set while the store has not returned the documents yet.
    pub(crate) loading: Option<DocumentsWait>,
}

/// The wait for the documents of an account.
#[derive(Default)]
pub(crate) struct DocumentsWait {
    /// True if the store has failed, so that the next session has to ask it again.
    pub(crate) has_failed: bool,
    /// Sessions that aren't bound before it ends.
    pub(crate) sessions: Vec<Custody>,
}

/// A document: the current version, and the one that the store is known to have.
pub(crate) struct KeptDocument {
    pub(crate) name: &'static str,
    pub(crate) now: Option<Rc<dyn AnyDocument>>,
    pub(crate) stored: Option<Rc<dyn AnyDocument>>,
    /// The bytes that it takes in the store: a measure of those it takes in memory.
    pub(crate) bytes: usize,
}

/// Accounts without a session that get stanzas.
pub(crate) struct Absent {
    pub(crate) accounts: Map<Box<str>, AbsentState>,
    /// The loaded ones, with the time when they were loaded, oldest first.
    pub(crate) loaded: VecDeque<(Box<str>, u64)>,
    /// Stanzas that wait for the documents of any of these accounts, or behind a stanza for which
    /// the store is asked.
    pub(crate) waiting: Share,
    /// The number of accounts for which stanzas wait behind such a stanza.
    pub(crate) holds: usize,
    /// The bytes that the documents of loaded accounts take in the store.
    pub(crate) bytes: usize,
}

impl Default for Absent {
    fn default() -> Self {
        Self { accounts: Map::default(), loaded: VecDeque::new(), waiting: Share::new(WAITING), holds: 0, bytes: 0 }
    }
}

/// Stanzas that wait for an account without a session, each with its address.
pub(crate) type AbsentQueue = VecDeque<(Packet, Jid, Notes, Option<Custody>)>;

pub(crate) enum AbsentState {
    /// Stanzas wait for the store.
    Loading(AbsentQueue),
    Loaded(LoadedDocuments),
}

/// The documents of an account without session, loaded.
pub(crate) struct LoadedDocuments {
    pub(crate) since: u64,
    pub(crate) at_hand: AtHand,
    /// The bytes that its documents add to [`Absent::bytes`].
    pub(crate) bytes: usize,
}

impl Absent {
    /// Keeps the documents of an account, unless stanzas wait for it: their place is taken.
    pub(crate) fn keep(&mut self, account: &str, since: u64, at_hand: AtHand) {
        self.forget(account);
        if self.accounts.contains_key(account) {
            return;
        }
        let bytes = at_hand.bytes();
        self.bytes += bytes;
        self.accounts.insert(account.into(), AbsentState::Loaded(LoadedDocuments { since, at_hand, bytes }));
        self.loaded.push_back((account.into(), since));
    }

    /// Returns whether stanzas wait, or would wait, for any account.
    pub(crate) fn has_waiting(&self) -> bool {
        self.holds > 0 || !self.waiting.is_empty()
    }

    /// Forgets all accounts except those whose documents are being loaded.
    pub(crate) fn forget_loaded(&mut self) {
        while let Some((account, _)) = self.loaded.pop_front() {
            self.forget(&account);
        }
    }

    /// Forgets an account unless its documents are being loaded.
    pub(crate) fn forget(&mut self, account: &str) {
        if let Some(AbsentState::Loaded(loaded)) = self.accounts.get(account) {
            self.bytes -= loaded.bytes;
            self.accounts.remove(account);
        }
    }

    /// Forgets documents that were loaded too long ago, and the oldest if they are too many or too
    /// large.
    pub(crate) fn forget_old(&mut self, now: u64) {
        while let Some((account, at)) = self.loaded.front() {
            let (account, at) = (account.clone(), *at);
            let fits = self.loaded.len() <= MAX_ABSENT && self.bytes <= MAX_ABSENT_BYTES;
            if fits && now.saturating_sub(at) < MAX_AGE_MS {
                return;
            }
            self.loaded.pop_front();
            if matches!(self.accounts.get(&account), Some(AbsentState::Loaded(loaded)) if loaded.since == at) {
                self.forget(&account);
            }
        }
    }
}

impl AtHand {
    pub(crate) fn get(&self, name: &str) -> Option<&Rc<dyn AnyDocument>> {
        self.documents.iter().find(|kept| kept.name == name)?.now.as_ref()
    }

    /// Returns whether any document needs the roster.
    pub(crate) fn needs_roster(&self) -> bool {
        self.now().any(|document| document.needs_roster())
    }

    pub(crate) fn now(&self) -> impl Iterator<Item = &Rc<dyn AnyDocument>> {
        self.documents.iter().filter_map(|kept| kept.now.as_ref())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.documents.iter().all(|kept| kept.now.is_none())
    }

    /// Sets the value that readers get from now on.
    pub(crate) fn set(&mut self, name: &'static str, value: Option<Rc<dyn AnyDocument>>, bytes: usize) {
        self.change(name, |kept| (kept.now, kept.bytes) = (value, bytes));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.documents.iter().map(|kept| kept.bytes).sum()
    }

    /// Settles a change that the store has taken or refused. If it was refused, readers get the
    /// former value again, unless a later change has replaced it already.
    pub(crate) fn settle(&mut self, name: &'static str, value: Option<Rc<dyn AnyDocument>>, is_stored: bool) {
        self.change(name, |kept| {
            if is_stored {
                kept.stored = value;
            } else if is_same(&kept.now, &value) {
                kept.now = kept.stored.clone();
            }
        });
        self.documents.retain(|kept| kept.now.is_some() || kept.stored.is_some());
    }

    pub(crate) fn change(&mut self, name: &'static str, change: impl FnOnce(&mut KeptDocument)) {
        let known = self.documents.iter().position(|kept| kept.name == name);
        let known = known.map(|at| self.documents.swap_remove(at));
        let mut kept = known.unwrap_or(KeptDocument { name, now: None, stored: None, bytes: 0 });
        change(&mut kept);
        self.documents.push(kept);
    }
}

fn is_same(one: &Option<Rc<dyn AnyDocument>>, other: &Option<Rc<dyn AnyDocument>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Rc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

impl std::fmt::Debug for AtHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.documents.iter().map(|kept| kept.name)).finish()
    }
}

/// Accounts without session whose documents a shard keeps in memory.
pub(crate) const MAX_ABSENT: usize = 10_000;
/// The time for which it keeps those, in milliseconds.
pub(crate) const MAX_AGE_MS: u64 = 60_000;
/// The bytes that their documents may take in the store.
pub(crate) const MAX_ABSENT_BYTES: usize = 64 << 20;
/// The stanzas for accounts without session that may wait for the store, in one shard.
pub(crate) const WAITING: Bounds = Bounds { number: 16_384, bytes: 64 << 20 };
