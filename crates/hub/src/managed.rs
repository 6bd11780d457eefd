//! Data of sessions with stream management, and of those that ended (XEP-0198).

use std::collections::VecDeque;

use rookery_jid::{Jid, JidRef};

use crate::card::{IdDigest, digest};
use crate::custody::{Balance, Ledger};

/// The additional data of a session with stream management.
#[derive(Debug)]
pub(crate) struct ManagedSession {
    /// Counts the client's stanzas, and how many of them are acknowledged.
    pub(crate) ledger: Ledger,
    /// The digest of the id by which the client can come back; `None` if it can't.
    pub(crate) id: Option<Box<IdDigest>>,
    /// The seconds for which the session can be resumed.
    pub(crate) seconds: u32,
    /// Counts losses of the connection and resumptions, so that an earlier timer does nothing.
    pub(crate) turn: u32,
    /// The time until which a session without a connection can be resumed, by the clock that never
    /// goes back, in milliseconds.
    pub(crate) until_ms: u64,
}

/// Sessions that could be resumed until recently: the counts that they had handled, so that their
/// clients know what to send again.
#[derive(Debug, Default)]
pub(crate) struct EndedSessions(VecDeque<(Box<IdDigest>, Jid, Balance)>);

impl EndedSessions {
    /// Remembers the count of a session, and forgets the oldest for it.
    pub(crate) fn push(&mut self, id: Box<IdDigest>, owner: Jid, balance: Balance) {
        if self.0.len() >= MOST_ENDED {
            self.0.pop_front();
        }
        self.0.push_back((id, owner, balance));
    }

    /// Notes that the error of a message has come for a session of an account that is not here
    /// any more.
    pub(crate) fn note_error(&self, owner: JidRef<'_>) {
        let of_owner = self.0.iter().filter(|(_, of, _)| of.as_str() == owner.bare_str());
        of_owner.for_each(|(.., balance)| balance.note_error());
    }

    /// Returns how many stanzas of a session that has ended are acknowledged, unless its client was
    /// told more.
    pub(crate) fn handled_of(&self, owner: &Jid, id: &str) -> Option<u32> {
        let id = digest(id);
        let found = self.0.iter().rev().find(|(ended, of, _)| **ended == id && of == owner);
        found.and_then(|(.., balance)| balance.tellable())
    }
}

/// Sessions that have ended and are remembered, per shard.
const MOST_ENDED: usize = 4096;
