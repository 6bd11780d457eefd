//! Messages for accounts without a resource that could accept them (RFC 6121 §8.5.2.2.1,
//! XEP-0160).

use crate::Pending;
use rookery_jid::JidRef;

/// The offline messages of all accounts, in the order of arrival. Owners are identified by their
/// bare JIDs.
pub trait Offline: Send + Sync {
    /// Stores a stanza for later, unless there is no room for it. `unix_ms` is the time of its
    /// arrival, in milliseconds since 1970.
    ///
    /// A sender's stanzas may take at most as much room as stays free. So a heavy sender leaves as
    /// much for others, and there is always room for one more sender.
    fn push(
        &self,
        to: JidRef<'_>,
        sender: JidRef<'_>,
        stanza: Vec<u8>,
        unix_ms: u64,
        room: OfflineRoom,
    ) -> Pending<Pushed>;

    /// Returns the oldest messages with an id above `after` (0: from the first), at most
    /// `max_bytes` of stanza bytes together and at most [`MOST_LOADED`] messages, but at least one
    /// if there is any. Returns none for an owner that isn't an account.
    ///
    /// They stay until they are [removed](Offline::remove), so a caller that fails halfway loses
    /// none.
    fn load(&self, owner: JidRef<'_>, after: u64, max_bytes: usize) -> Pending<Vec<OfflineMessage>>;

    /// Removes the messages up to and including that id. Returns their number.
    fn remove(&self, owner: JidRef<'_>, up_to: u64) -> Pending<u64>;

    /// Returns the number of waiting messages.
    fn count(&self, owner: JidRef<'_>) -> Pending<u64>;
}

/// The most messages that are loaded at a time: a database on a network sends everything that is
/// requested.
pub const MOST_LOADED: usize = 200;

/// Bounds the messages that may wait for one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfflineRoom {
    /// The number of messages.
    pub messages: u64,
    /// The bytes of their stanzas.
    pub bytes: u64,
}

impl OfflineRoom {
    /// Allows any number of messages of any size.
    pub const UNBOUNDED: Self = Self { messages: u64::MAX, bytes: u64::MAX };

    /// Allows any size, but only this number of messages.
    pub const fn of(messages: u64) -> Self {
        Self { messages, ..Self::UNBOUNDED }
    }

    /// Returns the room that remains after this much of it is taken; `None` if it has less than
    /// that.
    pub(crate) fn take(self, messages: u64, bytes: u64) -> Option<Self> {
        Some(Self { messages: self.messages.checked_sub(messages)?, bytes: self.bytes.checked_sub(bytes)? })
    }

    /// Returns whether a sender may add another message of this size, given the sender's waiting
    /// messages with their bytes, and this free room.
    pub(crate) fn is_fair(self, own: (u64, u64), bytes: u64) -> bool {
        own.0 < self.messages && own.1.saturating_add(bytes) <= self.bytes
    }
}

/// The outcome of storing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The stanza is stored.
    Kept,
    /// It is not stored: too many already wait.
    Full,
    /// It is not stored: there is no such account.
    NoAccount,
}

/// A waiting message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfflineMessage {
    /// Its id: above those of all older messages, never used twice, at least 1.
    pub id: u64,
    /// The time of its arrival, in milliseconds since 1970 (for the delay stamp, XEP-0203).
    pub unix_ms: u64,
    /// The stanza, unchanged.
    pub stanza: Vec<u8>,
}
