//! Who has sent presence through the service from elsewhere, and to whom.
//!
//! A user of this server hears of it through the hub, which ends directed presence by itself. For everybody else the service has to remember:
//! it must repeat unavailable presence to all who saw the originator available.

use std::collections::{BTreeSet, HashMap};

use rookery_jid::{Jid, JidRef};

/// The originators of one shard. Everything is bounded.
#[derive(Debug, Default)]
pub(super) struct Originators {
    seen_by: HashMap<Jid, BTreeSet<Jid>>,
}

impl Originators {
    /// Remembers to whom available presence goes. `false` if there is no room: then nothing was remembered.
    pub(super) fn available<'a>(&mut self, who: &Jid, to: impl Iterator<Item = JidRef<'a>>) -> bool {
        let known = self.seen_by.get(who);
        if known.is_none() && self.seen_by.len() >= ORIGINATORS {
            return false;
        }
        let mut all = known.cloned().unwrap_or_default();
        all.extend(to.map(JidRef::to_jid));
        if all.len() > RECIPIENTS {
            return false;
        }
        self.seen_by.insert(who.clone(), all);
        true
    }

    /// Forgets those who have been told that the originator is unavailable.
    pub(super) fn unavailable<'a>(&mut self, who: &Jid, to: impl Iterator<Item = JidRef<'a>>) {
        let Some(seen_by) = self.seen_by.get_mut(who) else { return };
        to.for_each(|to| {
            seen_by.remove(&to.to_jid());
        });
        if seen_by.is_empty() {
            self.seen_by.remove(who);
        }
    }

    /// The originator is gone: those who have to hear of it.
    pub(super) fn gone(&mut self, who: &Jid) -> BTreeSet<Jid> {
        self.seen_by.remove(who).unwrap_or_default()
    }
}

/// How many a shard remembers.
const ORIGINATORS: usize = 10_000;
/// How many saw one of them.
const RECIPIENTS: usize = 1000;
