//! Message archives of accounts and rooms (XEP-0313).

use std::sync::Arc;

use crate::Pending;
use rookery_jid::{Jid, JidRef};

/// The archives of all accounts and rooms. Owners are identified by their bare JIDs.
///
/// The caller chooses the id of a message that it appends: above those of the owner's older
/// messages, and never one that was used before. The meaning of an id besides the order, such as
/// the time, is the caller's.
pub trait Archive: Send + Sync {
    /// Adds messages, except those whose owner doesn't exist or already has a message with the id.
    ///
    /// An archive that takes more than [`ArchivedMessage::most`] then loses as many bytes of its
    /// oldest messages as were added: those of the same conversation if that has an eighth of the
    /// archive, otherwise those of the largest conversation. So one busy correspondent doesn't
    /// displace conversations with others, and an archive that was larger when the bound was set
    /// doesn't lose it at once.
    fn append(&self, messages: Arc<[ArchivedMessage]>) -> Pending<()>;

    /// Returns a page of an archive; `None` if one of the ids that the query refers to isn't there.
    /// An archive that doesn't exist is empty.
    fn page(&self, owner: JidRef<'_>, query: ArchiveQuery) -> Pending<Option<ArchivePage>>;

    /// Replaces the stanza of a message. Returns whether the message was there.
    fn replace(&self, owner: JidRef<'_>, id: u64, stanza: Vec<u8>) -> Pending<bool>;

    /// Returns the ids of the oldest and the newest message.
    fn ends(&self, owner: JidRef<'_>) -> Pending<Option<(u64, u64)>>;

    /// Empties an archive. Its messages are invisible at once; [`Archive::clear`] frees their
    /// space.
    fn purge(&self, owner: JidRef<'_>) -> Pending<()>;

    /// Removes up to `limit` messages of archives that were emptied, or whose accounts were
    /// removed. Returns `false` if there are no more.
    fn clear(&self, limit: usize) -> Pending<bool>;

    /// Removes some of the messages that have expired. This is a small step: it looks at a hundred
    /// archives and takes at most `limit` messages out of a few of them. `after` is the end of the
    /// previous step, 0 at first.
    fn sweep(&self, after: u64, retention: Retention, limit: usize) -> Pending<Swept>;

    /// Removes up to `limit` of an owner's messages below an id, the oldest first. Returns how many
    /// were removed.
    fn expire(&self, owner: JidRef<'_>, before: u64, limit: usize) -> Pending<u64>;

    /// Maintains the months into which a database may divide its archives: creates future ones, and
    /// drops those that no owner's retention keeps any more. Returns the number of dropped ones. It
    /// does nothing if archives aren't divided.
    ///
    /// For this, the upper bits of ids are a time in units of 2⁻²¹ milliseconds.
    fn months(&self, retention: Retention) -> Pending<u64>;
}

/// Returns the terms that a stanza can be found by: numbers without an order, each once; the same
/// for the same stanza in all versions of this server that share a database.
pub type TermsOf = fn(&[u8]) -> Vec<u32>;

/// The most terms of a message in an index; a message with more is found by any term.
pub(crate) const MOST_TERMS: usize = 4096;

/// The owner of an archive: an account or a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ArchiveOf {
    /// An account's archive, which exists only with the account and is removed with it.
    Account,
    /// A room's archive, which is created by its first message.
    Room,
}

/// A message to be appended to an archive, with the bounds of that archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedMessage {
    /// The bare JID of the account or room.
    pub owner: Jid,
    /// The kind of the owner.
    pub of: ArchiveOf,
    /// Its place in the archive, from 1 to [`i64::MAX`].
    pub id: u64,
    /// The other party of the conversation, bare or full.
    pub with: Jid,
    /// True to leave it out unless the other party is in the account's roster.
    pub contacts_only: bool,
    /// The stanza as XML, with the addresses that it had.
    pub stanza: Vec<u8>,
    /// The bytes that the archive may take, with each message counted as its stanza and
    /// [`BYTES_PER_MESSAGE`]; 0 for no bound.
    pub most: u64,
}

impl ArchivedMessage {
    /// Returns the bytes that the message counts as.
    pub(crate) fn size(&self) -> u64 {
        self.stanza.len() as u64 + BYTES_PER_MESSAGE
    }
}

/// The bytes that a message of an archive counts for in addition to its stanza: about the space a
/// database needs for it.
pub const BYTES_PER_MESSAGE: u64 = 128;

/// The part of an archive that one conversation may take before it loses its own oldest messages
/// when the archive is full.
pub(crate) const FAIR_PART: u64 = 8;

/// The selection of messages for a page.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ArchiveQuery {
    /// Only messages with this address; a bare JID means all of its resources.
    pub with: Option<Jid>,
    /// Only messages with an id above this one.
    pub after: u64,
    /// Only messages with an id below this one; 0 for no such bound.
    pub before: u64,
    /// Only these, in ascending order. All of them must be there.
    pub ids: Option<Vec<u64>>,
    /// Ids that must be there, or there is no page.
    pub known: Vec<u64>,
    /// True if the page is the end of the result rather than its beginning.
    pub last: bool,
    /// The most messages on the page.
    pub limit: usize,
    /// The most bytes of stanzas on the page, which has one message in any case.
    pub max_bytes: usize,
    /// Terms that the messages must have. A store with an index of terms ([`TermsOf`]) may leave
    /// out messages that lack one of them; the caller searches the texts of those that it gets.
    pub terms: Vec<u32>,
    /// The number up to which the result is counted, ignoring the limits of the page; 0 for no
    /// count.
    pub count_to: usize,
}

/// The part of a query's result that fits its limits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ArchivePage {
    /// Ids and stanzas, oldest first.
    pub messages: Vec<(u64, Vec<u8>)>,
    /// True if the result continues: after the page, or before it if the end was requested.
    pub more: bool,
    /// The number of matching messages, if they were counted up to the requested limit. A store may
    /// leave it out if counting is expensive, and may count contacts together if an index can't
    /// distinguish their addresses.
    pub count: Option<usize>,
}

/// The time for which messages are kept. If a domain and a room both set one, the shorter one
/// applies.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Retention {
    /// The owners' domains; messages of owners in other domains are kept.
    pub domains: Vec<Expiry>,
    /// The lowest id that a message of this moment could have.
    pub now: u64,
    /// The number of ids in a day, for [persistent rooms](crate::RoomDocument::archive_days) with a
    /// setting of their own. For others there is [`Archive::expire`].
    pub day: u64,
}

impl Retention {
    /// Returns the id below which messages of an owner in this domain may be removed, 0 if none
    /// may. `days` is the room's own setting.
    pub(crate) fn before(&self, domain: &str, days: Option<u64>) -> u64 {
        let of_domain = self.domains.iter().find(|expiry| expiry.domain == domain).map_or(0, |expiry| expiry.before);
        let of_room = |days: u64| self.now.saturating_sub(self.day.saturating_mul(days));
        days.filter(|days| *days > 0).map_or(0, of_room).max(of_domain)
    }
}

/// The expiry of a domain's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The domain of the owners.
    pub domain: String,
    /// The id below which messages are removed.
    pub before: u64,
}

/// The result of a step of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The number of messages that were removed.
    pub removed: u64,
    /// The place where the next step continues; `None` after all archives.
    pub next: Option<u64>,
}

impl ArchiveQuery {
    /// Returns the ids within the bounds, in the order in which the page is filled.
    pub(crate) fn ids_in_order(&self, ids: &[u64]) -> Vec<u64> {
        let before = if self.before == 0 { u64::MAX } else { self.before };
        let mut wanted: Vec<_> = ids.iter().copied().filter(|&id| id > self.after && id < before).collect();
        if self.last {
            wanted.reverse();
        }
        wanted
    }
}

/// A page that is being filled, from its beginning or, if the end was requested, from its end.
pub(crate) struct GatheredPage<'q> {
    query: &'q ArchiveQuery,
    room: usize,
    page: ArchivePage,
}

impl<'q> GatheredPage<'q> {
    pub(crate) fn new(query: &'q ArchiveQuery) -> Self {
        Self { query, room: query.max_bytes, page: ArchivePage::default() }
    }

    /// Adds the next message. Returns `false` if the page is full, which means that there is more.
    pub(crate) fn take(&mut self, id: u64, stanza: &[u8]) -> bool {
        let messages = &mut self.page.messages;
        let fits = messages.is_empty() || stanza.len() <= self.room;
        if messages.len() >= self.query.limit || !fits {
            self.page.more = true;
            return false;
        }
        self.room = self.room.saturating_sub(stanza.len());
        messages.push((id, stanza.to_vec()));
        true
    }

    /// Returns the page, oldest first.
    pub(crate) fn page(mut self) -> ArchivePage {
        if self.query.last {
            self.page.messages.reverse();
        }
        self.page
    }
}

/// The number of archives that one step of a sweep looks at.
pub(crate) const ARCHIVES_PER_SWEEP: usize = 100;

/// The most archives from which one step of a sweep removes messages. Each takes half a dozen
/// statements, and writes wait for them.
pub(crate) const SWEPT_AT_ONCE: usize = 16;
