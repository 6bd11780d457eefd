//! The ids of archives that are written to often.
//!
//! To look one up takes a statement for each message; so a connection remembers those that it has seen. What it remembers holds until the
//! transaction is undone, an archive is removed, or somebody else has written to the database: whoever does or notices that says so.

use std::collections::HashMap;

use rookery_jid::JidRef;

/// Ids of archives by the bare JIDs of their owners, at most [`MOST`].
#[derive(Debug, Default)]
pub(crate) struct KnownArchives(HashMap<Box<str>, i64>);

impl KnownArchives {
    /// The id of an owner's archive, if it is known.
    pub(crate) fn get(&self, owner: JidRef<'_>) -> Option<i64> {
        self.0.get(owner.bare_str()).copied()
    }

    /// Remembers the id of an owner's archive.
    pub(crate) fn learn(&mut self, owner: JidRef<'_>, id: i64) {
        if self.0.len() >= MOST {
            // Those who write now will be known again after a look-up each.
            self.0.clear();
        }
        self.0.insert(owner.bare_str().into(), id);
    }

    /// An owner's archive is removed.
    pub(crate) fn forget(&mut self, owner: JidRef<'_>) {
        self.0.remove(owner.bare_str());
    }

    /// Anything may have changed.
    pub(crate) fn forget_all(&mut self) {
        self.0.clear();
    }
}

/// Archives that are remembered: about 3 MB of them.
const MOST: usize = 32_768;
