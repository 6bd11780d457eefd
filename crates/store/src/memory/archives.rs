//! The archives in memory.

use super::key::key;
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;

/// Archives by the domain and localpart of their owner.
#[derive(Default)]
pub(super) struct Archives {
    pub(super) last_number: u64,
    pub(super) kept: BTreeMap<(String, String), KeptArchive>,
}

/// One archive. Its number distinguishes it from earlier archives of its owner.
pub(super) struct KeptArchive {
    pub(super) number: u64,
    pub(super) messages: BTreeMap<u64, (Jid, Vec<u8>)>,
}

impl Archives {
    pub(super) fn remove(&mut self, owner: JidRef<'_>) {
        self.kept.remove(&key(owner));
    }
}
