//! Persistent rooms in memory.

use super::key::key;
use crate::{Affiliated, Affiliation, ListedRoom, RoomDocument, StoredRoom};
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;

/// All rooms, by host and localpart.
#[derive(Default)]
pub(super) struct AllRooms(BTreeMap<(String, String), MemoryRoom>);

struct MemoryRoom {
    room: Jid,
    document: RoomDocument,
    affiliations: BTreeMap<String, Affiliated>,
}

impl AllRooms {
    pub(super) fn list(&self, host: &str) -> Vec<ListedRoom> {
        let start = (host.to_owned(), String::new());
        let of_host = self.0.range(start..).take_while(|(key, _)| key.0 == host);
        let listed = of_host.map(|(_, kept)| ListedRoom {
            room: kept.room.clone(),
            name: kept.document.name.clone(),
            is_public: kept.document.is_public,
            creator: kept.document.creator.clone(),
        });
        listed.collect()
    }

    pub(super) fn load(&self, room: JidRef<'_>) -> Option<StoredRoom> {
        let kept = self.0.get(&key(room))?;
        Some(StoredRoom {
            document: kept.document.clone(),
            affiliations: kept.affiliations.values().cloned().collect(),
        })
    }

    /// Returns the days for which a room keeps its messages.
    pub(super) fn archive_days(&self, key: &(String, String)) -> Option<u64> {
        Some(self.0.get(key)?.document.archive_days)
    }

    pub(super) fn put(&mut self, room: JidRef<'_>, document: RoomDocument) {
        let new = || MemoryRoom {
            room: room.bare().to_jid(),
            document: RoomDocument::default(),
            affiliations: BTreeMap::new(),
        };
        self.0.entry(key(room)).or_insert_with(new).document = document;
    }

    pub(super) fn affiliate(&mut self, room: JidRef<'_>, changes: Vec<Affiliated>) -> bool {
        let Some(kept) = self.0.get_mut(&key(room)) else { return false };
        for mut change in changes {
            change.user = change.user.to_bare();
            let user = change.user.as_str().to_owned();
            if change.affiliation == Affiliation::None {
                kept.affiliations.remove(&user);
            } else {
                kept.affiliations.insert(user, change);
            }
        }
        true
    }

    pub(super) fn remove(&mut self, room: JidRef<'_>) -> bool {
        self.0.remove(&key(room)).is_some()
    }

    pub(super) fn known_in(&self, user: JidRef<'_>) -> u64 {
        let user = user.bare_str();
        let knows = |kept: &&MemoryRoom| {
            kept.affiliations.contains_key(user) || kept.document.of_users.iter().any(|(of, _)| of.bare_str() == user)
        };
        self.0.values().filter(knows).count() as u64
    }

    /// Removes a user from all rooms.
    pub(super) fn forget(&mut self, user: JidRef<'_>) {
        for kept in self.0.values_mut() {
            kept.affiliations.remove(user.bare_str());
            kept.document.of_users.retain(|(member, _)| member.bare_str() != user.bare_str());
            kept.document.creator.take_if(|creator| creator.bare_str() == user.bare_str());
        }
    }
}
