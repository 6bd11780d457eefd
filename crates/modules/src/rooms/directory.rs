//! Which rooms there are, here and in the store: for lists, for the limit of their number, and so that naming a room that doesn't exist costs
//! nothing.
//!
//! The one thing that the shards share, since a room's home is any of them and a list names them all. It changes when a room is created,
//! renamed or removed, and is not touched by what goes on in rooms.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rookery_jid::{Jid, JidRef};
use rookery_store::ListedRoom;

/// The rooms of all services, and which accounts are no more. Clones mean the same.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    hosts: Arc<Mutex<HashMap<String, Hosted>>>,
    removed: Arc<Removed>,
}

/// Accounts that were removed since the start, in their order.
#[derive(Debug, Default)]
struct Removed {
    count: AtomicUsize,
    users: Mutex<Vec<Jid>>,
}

/// The rooms of one service.
#[derive(Debug, Default)]
struct Hosted {
    rooms: BTreeMap<String, Entry>,
    /// Rooms that went while the list was on its way from the store: `None` once it is here.
    gone: Option<BTreeSet<String>>,
    is_filled: bool,
}

/// A room as operators find it, whether others may or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its bare JID.
    pub room: Jid,
    /// Its name for people.
    pub name: String,
    /// Whether everybody may find it.
    pub is_public: bool,
    /// Whether it stays when everybody has left.
    pub is_persistent: bool,
}

/// What the directory knows of a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub is_public: bool,
    /// Whether the store has it.
    pub is_stored: bool,
}

impl Directory {
    /// Adds what the store has of a service. Rooms that have come since are as they are now, those that went stay away.
    pub(crate) fn fill(&self, host: &str, list: Vec<ListedRoom>) {
        let mut hosts = self.hosts();
        let hosted = hosts.entry(host.to_owned()).or_default();
        if std::mem::replace(&mut hosted.is_filled, true) {
            return;
        }
        let gone = hosted.gone.take().unwrap_or_default();
        for listed in list {
            let local = listed.room.local().unwrap_or_default();
            if !gone.contains(local) {
                let entry = Entry { name: listed.name, is_public: listed.is_public, is_stored: true };
                hosted.rooms.entry(local.to_owned()).or_insert(entry);
            }
        }
    }

    /// Whether what the store has of a service is here.
    pub(crate) fn is_filled(&self, host: &str) -> bool {
        self.hosts().get(host).is_some_and(|hosted| hosted.is_filled)
    }

    /// All rooms of a service, `limit` at most, in the order of their localparts behind this one.
    pub(crate) fn part(&self, host: &str, after: &str, limit: usize) -> Vec<Listed> {
        let hosts = self.hosts();
        let Some(hosted) = hosts.get(host) else { return Vec::new() };
        let behind = hosted.rooms.range::<str, _>((Bound::Excluded(after), Bound::Unbounded)).take(limit);
        let listed = behind.filter_map(|(local, entry)| {
            let room = Jid::new(Some(local), host, None).ok()?;
            let Entry { name, is_public, is_stored } = entry.clone();
            Some(Listed { room, name, is_public, is_persistent: is_stored })
        });
        listed.collect()
    }

    /// Adds a new room; `false` if the service has `limit` of them already.
    pub(crate) fn add(&self, room: JidRef<'_>, entry: Entry, limit: usize) -> bool {
        let mut hosts = self.hosts();
        let hosted = hosts.entry(room.domain().to_owned()).or_default();
        let may = hosted.rooms.len() < limit;
        if may {
            hosted.rooms.insert(local(room), entry);
        }
        may
    }

    /// Says what a room is now.
    pub(crate) fn set(&self, room: JidRef<'_>, entry: Entry) {
        self.hosts().entry(room.domain().to_owned()).or_default().rooms.insert(local(room), entry);
    }

    /// Removes a room.
    pub(crate) fn remove(&self, room: JidRef<'_>) {
        let mut hosts = self.hosts();
        let Some(hosted) = hosts.get_mut(room.domain()) else { return };
        hosted.rooms.remove(room.local().unwrap_or_default());
        if !hosted.is_filled {
            hosted.gone.get_or_insert_default().insert(local(room));
        }
    }

    /// Whether the store has a room.
    pub(crate) fn is_stored(&self, room: JidRef<'_>) -> bool {
        let hosts = self.hosts();
        let entry = hosts.get(room.domain()).and_then(|hosted| hosted.rooms.get(room.local().unwrap_or_default()));
        entry.is_some_and(|entry| entry.is_stored)
    }

    /// The rooms that everybody may find, in the order of their addresses: address and name.
    pub(crate) fn public(&self, host: &str) -> Vec<(Jid, String)> {
        let hosts = self.hosts();
        let rooms = hosts.get(host).into_iter().flat_map(|hosted| &hosted.rooms);
        let public = rooms.filter(|(_, entry)| entry.is_public);
        public
            .filter_map(|(local, entry)| Some((Jid::new(Some(local), host, None).ok()?, entry.name.clone())))
            .collect()
    }

    /// An account is no more: rooms that are here forget it, see [`Directory::removed_since`].
    pub(crate) fn account_removed(&self, user: Jid) {
        let mut users = self.removed.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.push(user);
        self.removed.count.store(users.len(), Ordering::Release);
    }

    /// How many accounts were removed so far: one look, for every stanza.
    pub(crate) fn removed_count(&self) -> usize {
        self.removed.count.load(Ordering::Acquire)
    }

    /// The accounts that were removed after that many others.
    pub(crate) fn removed_since(&self, seen: usize) -> Vec<Jid> {
        let users = self.removed.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.get(seen..).unwrap_or_default().to_vec()
    }

    fn hosts(&self) -> MutexGuard<'_, HashMap<String, Hosted>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn local(room: JidRef<'_>) -> String {
    room.local().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jid(local: &str) -> Jid {
        Jid::parse(&format!("{local}@chat.example")).unwrap()
    }

    fn entry(name: &str, is_stored: bool) -> Entry {
        Entry { name: name.into(), is_public: true, is_stored }
    }

    #[test]
    fn what_happens_before_the_list_is_here_wins() {
        let directory = Directory::default();
        assert!(directory.add(jid("new").as_ref(), entry("new", false), 2));
        directory.remove(jid("gone").as_ref());
        let listed = |local: &str| ListedRoom { room: jid(local), name: "stored".into(), is_public: true };
        directory.fill("chat.example", vec![listed("gone"), listed("new"), listed("old")]);
        let found: Vec<_> =
            directory.public("chat.example").into_iter().map(|(jid, name)| (jid.to_string(), name)).collect();
        let wanted = [("new@chat.example", "new"), ("old@chat.example", "stored")];
        assert_eq!(found, wanted.map(|(jid, name)| (jid.to_owned(), name.to_owned())));
        assert!(!directory.add(jid("more").as_ref(), entry("more", false), 2));
        assert!(directory.is_stored(jid("old").as_ref()) && !directory.is_stored(jid("new").as_ref()));
        assert_eq!(directory.public("other.example"), []);
        let part = |after: &str| directory.part("chat.example", after, 1).into_iter().map(|listed| listed.room);
        assert_eq!(part("").chain(part("new")).chain(part("old")).collect::<Vec<_>>(), [jid("new"), jid("old")]);
    }
}
