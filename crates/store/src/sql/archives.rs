//! What is known of the archives that are written to often: their ids, their newest messages, and the conversations in them.
//!
//! To look these up takes a statement or two for each message; so a connection remembers what it has seen. What it remembers holds until the
//! transaction is undone, an archive is removed or swept, or somebody else has written to the database: whoever does or notices that says so.

use std::collections::{HashMap, HashSet};

use rookery_jid::JidRef;

/// A conversation in a stretch of an archive: the archive's id, the contact's key, and the stretch.
pub(crate) type Conversation = (i64, i64, u64);

/// Archives by the bare JIDs of their owners, and conversations.
#[derive(Debug, Default)]
pub(crate) struct KnownArchives {
    archives: HashMap<Box<str>, Archive>,
    conversations: HashSet<Conversation>,
}

impl KnownArchives {
    /// The id of an owner's archive, if it is known, and whether a message with this id is newer than all in it; it counts as one of them then.
    pub(crate) fn place(&mut self, owner: JidRef<'_>, id: u64) -> Option<(i64, bool)> {
        let archive = self.archives.get_mut(owner.bare_str())?;
        let is_newest = id > archive.newest;
        archive.newest = archive.newest.max(id);
        Some((archive.id, is_newest))
    }

    /// Remembers an owner's archive, and the id of its newest message, 0 if there is none.
    pub(crate) fn learn(&mut self, owner: JidRef<'_>, id: i64, newest: u64) {
        if self.archives.len() >= MOST_ARCHIVES {
            // Those who write now will be known again after a look-up each.
            self.archives.clear();
        }
        self.archives.insert(owner.bare_str().into(), Archive { id, newest });
    }

    /// Remembers that a conversation is noted; whether that is new.
    pub(crate) fn learn_conversation(&mut self, conversation: Conversation) -> bool {
        if self.conversations.len() >= MOST_CONVERSATIONS {
            self.conversations.clear();
        }
        self.conversations.insert(conversation)
    }

    /// An owner's archive is removed. Its id is never given again, so that nobody asks for its conversations.
    pub(crate) fn forget(&mut self, owner: JidRef<'_>) {
        self.archives.remove(owner.bare_str());
    }

    /// Conversations may have lost their notes.
    pub(crate) fn forget_conversations(&mut self) {
        self.conversations.clear();
    }

    /// Anything may have changed.
    pub(crate) fn forget_all(&mut self) {
        self.archives.clear();
        self.conversations.clear();
    }
}

#[derive(Debug)]
struct Archive {
    id: i64,
    /// No message in it has an id above this one.
    newest: u64,
}

/// Archives that are remembered: about 3 MB of them.
const MOST_ARCHIVES: usize = 32_768;
/// Conversations that are: about 5 MB.
const MOST_CONVERSATIONS: usize = 131_072;
