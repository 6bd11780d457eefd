//! Cached data about the archives that are written to often: their ids, their newest messages, and
//! the conversations in them.
//!
//! Looking these up would take a statement or two for each message, so a connection caches them.
//! The cache is valid until the transaction is rolled back, an archive is removed or swept, or
//! another process has written to the database: the code that does or notices that invalidates it.
//!
//! The bytes that an archive takes are counted here and written at intervals: writing them for each
//! message would cost as much as the message. The database records up to which id it has counted,
//! and newer messages are read when an archive is first used; so nothing is ever lost or counted
//! twice.

use std::collections::HashMap;

use rookery_jid::JidRef;

/// Returns the stretch in which an id lies.
pub(crate) fn stretch(id: u64) -> u64 {
    id >> STRETCH_BITS
}

/// Returns a contact's address as a number to find it by, as the schema defines it. Different
/// contacts may share one.
pub(crate) fn contact_key(contact: &str) -> i64 {
    contact.chars().fold(0, |key, character| (key * 31 + i64::from(u32::from(character))) & 0x7FFF_FFFF)
}

/// The bits of an id that vary within a stretch, as in the statements. Ids whose upper bits are a
/// time in units of 2⁻²¹ ms, as those of accounts and rooms, share a stretch for 70 minutes.
const STRETCH_BITS: u32 = 43;

/// Archives by the bare JIDs of their owners.
#[derive(Debug, Default)]
pub(crate) struct KnownArchives {
    archives: HashMap<Box<str>, ArchiveNoted>,
    /// True if other connections' caches become invalid when the transaction is committed.
    has_changed: bool,
}

/// The place at which a message is written, with what the cache knows about that place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessagePlace {
    /// The id of the archive in the database.
    pub(crate) archive: i64,
    /// True if the message is newer than all others in it.
    pub(crate) is_newest: bool,
    /// True if the database has noted that the conversation has messages in this stretch.
    pub(crate) is_noted: bool,
}

impl KnownArchives {
    /// Returns whether an owner's archive is cached.
    pub(crate) fn knows(&self, owner: JidRef<'_>) -> bool {
        self.archives.contains_key(owner.bare_str())
    }

    /// Returns the place of a message with this id and contact in an owner's archive, if that is
    /// cached. The message then counts as one of the archive's, and its stretch as noted.
    pub(crate) fn place(&mut self, owner: JidRef<'_>, id: u64, contact_key: i64) -> Option<MessagePlace> {
        let archive = self.archives.get_mut(owner.bare_str())?;
        let is_newest = id > archive.newest;
        archive.newest = archive.newest.max(id);
        let noted = std::mem::replace(&mut archive.conversation(contact_key).noted, stretch(id));
        Some(MessagePlace { archive: archive.id, is_newest, is_noted: noted == stretch(id) })
    }

    /// Counts a message that is added to an owner's archive, which is cached. Returns the archive's
    /// state.
    pub(crate) fn count(&mut self, owner: JidRef<'_>, contact_key: i64, bytes: u64) -> ArchiveCounts {
        self.archives.get_mut(owner.bare_str()).map_or(ArchiveCounts::default(), |archive| {
            archive.bytes += bytes;
            archive.uncounted += 1;
            archive.grow(contact_key, bytes);
            ArchiveCounts { bytes: archive.bytes, is_due: archive.uncounted >= MOST_UNCOUNTED }
        })
    }

    /// Returns the key of an owner's archive, if that is cached.
    pub(crate) fn id(&self, owner: JidRef<'_>) -> Option<i64> {
        Some(self.archives.get(owner.bare_str())?.id)
    }

    /// Returns the state of an owner's archive that has to be written, which from then on counts as
    /// written.
    pub(crate) fn settle(&mut self, owner: JidRef<'_>) -> Option<Settlement> {
        let archive = self.archives.get_mut(owner.bare_str())?;
        let is_crowded = archive.conversations.len() > MOST_CONVERSATIONS;
        let mut shares = Vec::new();
        for conversation in &mut archive.conversations {
            if conversation.grown >= if is_crowded { 1 } else { SHARE_BYTES } {
                shares.push((conversation.key, std::mem::take(&mut conversation.grown)));
            }
        }
        if is_crowded {
            archive.conversations.clear();
        }
        archive.uncounted = 0;
        archive.counted = archive.newest;
        Some(Settlement { archive: archive.id, bytes: archive.bytes, counted: archive.counted, shares })
    }

    /// Returns the id up to which the messages of an owner's archive are counted in the database.
    pub(crate) fn counted_up_to(&self, owner: JidRef<'_>) -> Option<u64> {
        Some(self.archives.get(owner.bare_str())?.counted)
    }

    /// Subtracts messages that were removed from an owner's archive. Returns whether these are the
    /// first.
    pub(crate) fn shrink(&mut self, owner: JidRef<'_>, bytes: u64) -> bool {
        self.archives.get_mut(owner.bare_str()).is_some_and(|archive| {
            archive.bytes = archive.bytes.saturating_sub(bytes);
            !std::mem::replace(&mut archive.is_full, true)
        })
    }

    /// Makes room for the archives of a group of messages. Evicted archives that are in use are
    /// looked up again.
    pub(crate) fn make_room(&mut self) {
        if self.archives.len() >= MOST_ARCHIVES {
            self.archives.clear();
        }
    }

    /// Caches an owner's archive.
    pub(crate) fn learn(&mut self, owner: JidRef<'_>, archive: ArchiveNoted) {
        self.archives.insert(owner.bare_str().into(), archive);
    }

    /// Drops an owner's archive, which is removed.
    pub(crate) fn forget(&mut self, owner: JidRef<'_>) {
        self.has_changed = true;
        self.archives.remove(owner.bare_str());
    }

    /// Drops an archive whose messages have changed in another way than by additions.
    pub(crate) fn forget_archive(&mut self, id: i64) {
        self.has_changed = true;
        self.archives.retain(|_, archive| archive.id != id);
    }

    /// Notes that unknown archives have lost messages.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), expect(dead_code, reason = "left out of this build"))]
    pub(crate) fn forget_changed(&mut self) {
        self.has_changed = true;
        self.forget_known();
    }

    /// Returns whether archives have changed in another way than by additions since the last call.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "left out of this build"))]
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Drops the notes of conversations, which may have been removed.
    pub(crate) fn forget_conversations(&mut self) {
        let conversations = self.archives.values_mut().flat_map(|archive| &mut archive.conversations);
        conversations.for_each(|conversation| conversation.noted = NO_STRETCH);
    }

    /// Drops everything, since anything may have changed or been undone.
    pub(crate) fn forget_all(&mut self) {
        self.has_changed = false;
        self.forget_known();
    }

    /// Drops everything because others have changed data.
    pub(crate) fn forget_known(&mut self) {
        self.archives.clear();
    }
}

/// A cached archive.
#[derive(Debug, Default)]
pub(crate) struct ArchiveNoted {
    id: i64,
    /// The highest id of its messages, or a higher one.
    newest: u64,
    /// The bytes that all of its messages take.
    bytes: u64,
    /// The id up to which messages are counted in the database.
    counted: u64,
    /// The number of messages above that id.
    uncounted: u32,
    /// The conversations that messages were added to recently.
    conversations: Vec<Conversation>,
    /// True once it has lost messages because it was full.
    is_full: bool,
}

/// The state of an archive after a message was added.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArchiveCounts {
    pub(crate) bytes: u64,
    /// True if the counts should be written.
    pub(crate) is_due: bool,
}

/// The state of an archive to be written.
#[derive(Debug)]
pub(crate) struct Settlement {
    pub(crate) archive: i64,
    pub(crate) bytes: u64,
    pub(crate) counted: u64,
    /// The conversations that have grown, with the bytes.
    pub(crate) shares: Vec<(i64, u64)>,
}

impl ArchiveNoted {
    /// Returns an archive in its state in the database: its id, and the bytes of its messages up to
    /// and including the id `counted`.
    pub(crate) fn new(id: i64, bytes: u64, counted: u64) -> Self {
        Self { id, newest: counted, bytes, counted, ..Self::default() }
    }

    /// Adds a message that is not counted in the database.
    pub(crate) fn add(&mut self, id: u64, contact_key: i64, bytes: u64) {
        self.newest = self.newest.max(id);
        self.bytes += bytes;
        self.uncounted += 1;
        self.grow(contact_key, bytes);
    }

    fn grow(&mut self, contact_key: i64, bytes: u64) {
        self.conversation(contact_key).grown += bytes;
    }

    /// Returns the cached data of a conversation. It may exist twice if an archive has grown a lot
    /// within a transaction, since only the last ones are looked at then; both count.
    fn conversation(&mut self, key: i64) -> &mut Conversation {
        let older = self.conversations.len().saturating_sub(2 * MOST_CONVERSATIONS);
        let known = self.conversations[older..].iter().position(|conversation| conversation.key == key);
        let at = known.map_or(self.conversations.len(), |at| older + at);
        if known.is_none() {
            self.conversations.push(Conversation { key, grown: 0, noted: NO_STRETCH });
        }
        &mut self.conversations[at]
    }
}

/// A cached conversation of an archive.
#[derive(Debug)]
struct Conversation {
    /// The number of the contact: see [`contact_key`].
    key: i64,
    /// The bytes by which it has grown since its size was last written.
    grown: u64,
    /// The stretch that the database last noted for it; [`NO_STRETCH`] if that isn't known.
    noted: u64,
}

/// The most messages of an archive that aren't counted in the database yet: as many are read at
/// most when an archive is loaded, and the count is written once per this many.
const MOST_UNCOUNTED: u32 = 64;
/// The bytes by which a conversation has grown when its size is written.
const SHARE_BYTES: u64 = 16 << 10;
/// A number that no stretch has.
const NO_STRETCH: u64 = u64::MAX;
/// The most conversations of an archive that are cached: if there are more, their growth is written
/// with the next count, and they are dropped.
const MOST_CONVERSATIONS: usize = 32;
/// The most archives that are cached: about 3 MB, and 24 bytes for each conversation.
const MOST_ARCHIVES: usize = 32_768;
