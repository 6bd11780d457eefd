//! The rooms that exist, in memory and in the store. Lists and the limits on their number need
//! them, and a stanza to a room that doesn't exist costs no query of the store.
//!
//! The directory is shared by all shards, since a room's home may be any of them and a list
//! contains them all; each node has one, and `spread` keeps them in sync. It changes when a room is
//! created, renamed or removed; activity in rooms doesn't touch it.

use rookery_base::Map;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_modkit::rsm::{Part, RsmAnswer, RsmRequest};
use rookery_store::{ListedRoom, StoreError};
use rookery_stream::error::Condition;
use serde::{Deserialize, Serialize};

use super::holdings::RoomHoldings;

/// The rooms of all services, and the accounts that were removed. Clones share the data.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    hosts: Arc<Mutex<Map<String, Hosted>>>,
    removed: Arc<RemovedAccounts>,
    /// The seats, letters and requests of each account in all rooms together.
    pub(crate) holdings: RoomHoldings,
}

/// Accounts that were removed and that rooms may still know.
#[derive(Debug, Default)]
struct RemovedAccounts {
    /// The number of accounts removed since the start.
    count: AtomicUsize,
    unheeded: Mutex<Unheeded>,
}

/// The latest removed accounts, in their order, that the rooms of some shard may not have
/// forgotten.
#[derive(Debug, Default)]
struct Unheeded {
    /// The number of accounts removed before them.
    before: usize,
    users: VecDeque<Jid>,
    /// The number of accounts that the rooms of each shard have forgotten.
    heeded: Map<usize, usize>,
    /// The accounts that were removed lately, each with the time of that on the shards' clock, in
    /// milliseconds: a room that is about to continue here may still know them.
    lately: VecDeque<(u64, Jid)>,
}

/// The reason why a service has no place for one more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The service has as many rooms as it may.
    Service,
    /// The room's creator has as many as an account may.
    Account,
    /// The creator's domain, on another server, has as many as it may.
    Domain,
}

/// The limits that apply when a room is added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MostRooms {
    /// The most rooms of the service.
    pub all: usize,
    /// The most rooms of the new room's creator.
    pub of_account: usize,
    /// The most rooms of all creators of the same domain.
    pub of_domain: usize,
}

/// The rooms of one service.
#[derive(Debug, Default)]
struct Hosted {
    rooms: BTreeMap<String, RoomEntry>,
    /// The number of rooms that each account, and each domain, has created; the key of an account
    /// is its bare JID.
    created: Map<String, usize>,
    /// The number of public rooms.
    public: usize,
    /// Rooms that were removed while the list was being loaded from the store; `None` afterwards.
    gone: Option<BTreeSet<String>>,
    is_filled: bool,
}

/// A room in an operator's list, whether public or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomListing {
    /// Its bare JID.
    pub room: Jid,
    /// Its name for display.
    pub name: String,
    /// True if lists of the service's rooms show it (XEP-0045 §6.3).
    pub is_public: bool,
    /// True if it stays when all occupants have left.
    pub is_persistent: bool,
}

/// The directory's entry for a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoomEntry {
    pub name: String,
    pub is_public: bool,
    /// True if the store has the room, so that it outlives its occupants and this process.
    pub is_stored: bool,
    /// The account against whose limit it counts.
    pub creator: Option<Jid>,
}

/// Runs `then` once the list of a service's rooms is loaded.
pub fn with_list(world: &mut World, host: &str, then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static) {
    if world.state::<Directory>().is_filled(host) {
        return then(world, Ok(()));
    }
    let (list, host) = (world.stores.rooms.list(host), host.to_owned());
    world.wait(list, move |world, list| {
        let filled = list.map(|list| world.state::<Directory>().fill(&host, list));
        then(world, filled);
    });
}

impl Hosted {
    fn insert(&mut self, local: String, entry: RoomEntry) {
        self.count(entry.creator.as_ref(), |count| count + 1);
        self.public += usize::from(entry.is_public);
        if let Some(old) = self.rooms.insert(local, entry) {
            debug_assert!(self.public >= usize::from(old.is_public), "a public room was counted");
            self.public -= usize::from(old.is_public);
            self.count(old.creator.as_ref(), |count| count.saturating_sub(1));
        }
    }

    fn remove(&mut self, local: &str) -> bool {
        let Some(old) = self.rooms.remove(local) else { return false };
        debug_assert!(self.public >= usize::from(old.is_public), "a public room was counted");
        self.public -= usize::from(old.is_public);
        self.count(old.creator.as_ref(), |count| count.saturating_sub(1));
        true
    }

    /// Returns the public rooms with localparts in a range.
    fn public(&self, range: (Bound<&str>, Bound<&str>)) -> impl DoubleEndedIterator<Item = (&String, &RoomEntry)> {
        self.rooms.range::<str, _>(range).filter(|(_, entry)| entry.is_public)
    }

    /// Returns the localpart of a public room, by its address.
    fn find(&self, id: &str, host: &str) -> Result<String, Condition> {
        let local = id.strip_suffix(host).and_then(|id| id.strip_suffix('@')).ok_or(Condition::ItemNotFound)?;
        let is_there = self.rooms.get(local).is_some_and(|entry| entry.is_public);
        is_there.then(|| local.to_owned()).ok_or(Condition::ItemNotFound)
    }

    fn rooms_created(&self, name: &str) -> usize {
        self.created.get(name).copied().unwrap_or_default()
    }

    fn count(&mut self, creator: Option<&Jid>, change: impl Fn(usize) -> usize) {
        for name in creator.into_iter().flat_map(|creator| [creator.as_str(), creator.domain()]) {
            match change(self.rooms_created(name)) {
                0 => drop(self.created.remove(name)),
                count => drop(self.created.insert(name.to_owned(), count)),
            }
        }
    }

    /// Forgets an account. Rooms that it has created stay, and count against no limit.
    fn forget(&mut self, user: &Jid) {
        if self.created.remove(user.as_str()).is_none() {
            return;
        }
        let theirs = self.rooms.values_mut().filter(|entry| entry.creator.as_ref() == Some(user));
        let count = theirs.map(|entry| entry.creator = None).count();
        match self.rooms_created(user.domain()).saturating_sub(count) {
            0 => drop(self.created.remove(user.domain())),
            left => drop(self.created.insert(user.domain().to_owned(), left)),
        }
    }
}

impl Directory {
    /// Adds a service's rooms from the store. Rooms that were added since keep their entries, and
    /// rooms that were removed stay away.
    pub(crate) fn fill(&self, host: &str, list: Vec<ListedRoom>) {
        let mut hosts = self.hosts();
        let hosted = hosts.entry(host.to_owned()).or_default();
        if std::mem::replace(&mut hosted.is_filled, true) {
            return;
        }
        let gone = hosted.gone.take().unwrap_or_default();
        for listed in list {
            let local = listed.room.local().unwrap_or_default();
            if !gone.contains(local) && !hosted.rooms.contains_key(local) {
                let ListedRoom { name, is_public, creator, .. } = listed;
                hosted.insert(local.to_owned(), RoomEntry { name, is_public, is_stored: true, creator });
            }
        }
    }

    /// Returns whether the list of a service has been loaded from the store.
    fn is_filled(&self, host: &str) -> bool {
        self.hosts().get(host).is_some_and(|hosted| hosted.is_filled)
    }

    /// Returns at most `limit` rooms of a service, public or not, with localparts that sort after
    /// `after`.
    pub fn part(&self, host: &str, after: &str, limit: usize) -> Vec<RoomListing> {
        let hosts = self.hosts();
        let Some(hosted) = hosts.get(host) else { return Vec::new() };
        let behind = hosted.rooms.range::<str, _>((Bound::Excluded(after), Bound::Unbounded)).take(limit);
        let listed = behind.filter_map(|(local, entry)| {
            let room = Jid::new(Some(local), host, None).ok()?;
            let RoomEntry { name, is_public, is_stored, .. } = entry.clone();
            Some(RoomListing { room, name, is_public, is_persistent: is_stored })
        });
        listed.collect()
    }

    /// Adds a new room, if no limit is reached.
    pub(crate) fn add(&self, room: JidRef<'_>, entry: RoomEntry, most: MostRooms) -> Result<(), Full> {
        let mut hosts = self.hosts();
        let hosted = hosts.entry(room.domain().to_owned()).or_default();
        let created = |name: Option<&str>| name.map_or(0, |name| hosted.rooms_created(name));
        match () {
            () if created(entry.creator.as_ref().map(Jid::as_str)) >= most.of_account => return Err(Full::Account),
            () if created(entry.creator.as_ref().map(Jid::domain)) >= most.of_domain => return Err(Full::Domain),
            () if hosted.rooms.len() >= most.all => return Err(Full::Service),
            () => {}
        }
        hosted.insert(local(room), entry);
        Ok(())
    }

    /// Replaces the entry of a room.
    pub(crate) fn set(&self, room: JidRef<'_>, entry: RoomEntry) {
        self.hosts().entry(room.domain().to_owned()).or_default().insert(local(room), entry);
    }

    /// Removes a room. Returns whether it was known.
    pub(crate) fn remove(&self, room: JidRef<'_>) -> bool {
        let mut hosts = self.hosts();
        let Some(hosted) = hosts.get_mut(room.domain()) else { return false };
        if !hosted.is_filled {
            hosted.gone.get_or_insert_default().insert(local(room));
        }
        hosted.remove(room.local().unwrap_or_default())
    }

    /// Returns the rooms that the store doesn't have.
    pub(crate) fn unstored_rooms(&self) -> Vec<(Jid, RoomEntry)> {
        let hosts = self.hosts();
        let of_host = |(host, hosted): (&String, &Hosted)| -> Vec<(Jid, RoomEntry)> {
            let unstored = hosted.rooms.iter().filter(|(_, entry)| !entry.is_stored);
            unstored
                .filter_map(|(local, entry)| Some((Jid::new(Some(local), host, None).ok()?, entry.clone())))
                .collect()
        };
        hosts.iter().flat_map(of_host).collect()
    }

    /// Returns whether the store has a room.
    pub(crate) fn is_stored(&self, room: JidRef<'_>) -> bool {
        let hosts = self.hosts();
        let entry = hosts.get(room.domain()).and_then(|hosted| hosted.rooms.get(room.local().unwrap_or_default()));
        entry.is_some_and(|entry| entry.is_stored)
    }

    /// Returns as many of the public rooms as are requested and fit, each as address and name, in
    /// the order of their localparts. Only the returned ones are copied, however many rooms there
    /// are.
    ///
    /// # Errors
    /// The errors of [`RsmRequest::page`].
    pub(crate) fn public(
        &self,
        host: &str,
        request: &RsmRequest,
        (most, most_bytes): (usize, usize),
        bytes: impl Fn(&str, &str) -> usize,
    ) -> Result<(Vec<(Jid, String)>, RsmAnswer), Condition> {
        let hosts = self.hosts();
        let none = Hosted::default();
        let hosted = hosts.get(host).unwrap_or(&none);
        let max = request.max.unwrap_or(usize::MAX).min(most);
        let mut sum = 0;
        let mut found = Vec::new();
        let mut take = |local: &str, entry: &RoomEntry| {
            let Ok(room) = Jid::new(Some(local), host, None) else { return true };
            sum += bytes(room.as_str(), &entry.name);
            let fits = found.len() < max && (found.is_empty() || sum <= most_bytes);
            if fits {
                found.push((room, entry.name.clone()));
            }
            fits
        };
        let mut forward = |from: Bound<&str>, skipped: usize| {
            let behind = hosted.public((from, Bound::Unbounded)).skip(skipped);
            behind.map_while(|(local, entry)| take(local, entry).then_some(())).count()
        };
        let start = match &request.part {
            Part::First | Part::Index(0) => {
                forward(Bound::Unbounded, 0);
                0
            }
            Part::After(id) => {
                let local = hosted.find(id, host)?;
                forward(Bound::Excluded(&local), 0);
                hosted.public((Bound::Unbounded, Bound::Included(&local))).count()
            }
            Part::Index(index) if *index < hosted.public => {
                forward(Bound::Unbounded, *index);
                *index
            }
            Part::Index(_) => return Err(Condition::ItemNotFound),
            Part::Before(_) | Part::Last => {
                let end = if let Part::Before(id) = &request.part { Some(hosted.find(id, host)?) } else { None };
                let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let before = hosted.public((Bound::Unbounded, end));
                let taken = before.rev().map_while(|(local, entry)| take(local, entry).then_some(())).count();
                hosted.public((Bound::Unbounded, end)).count() - taken
            }
        };
        if matches!(request.part, Part::Before(_) | Part::Last) {
            found.reverse();
        }
        let ends = found.first().zip(found.last()).map(|((first, _), (last, _))| (first.to_string(), last.to_string()));
        Ok((found, RsmAnswer { ends, index: Some(start), count: Some(hosted.public) }))
    }

    /// Notes that an account was removed at this time: loaded rooms forget it, see
    /// [`Directory::removed_since`].
    pub(crate) fn account_removed(&self, user: Jid, now_ms: u64) {
        self.hosts().values_mut().for_each(|hosted| hosted.forget(&user));
        let mut unheeded = self.lock_unheeded();
        let is_old = |(at, _): &mut (u64, Jid)| *at + LATELY_MS < now_ms;
        while unheeded.lately.pop_front_if(is_old).is_some() {}
        if unheeded.lately.len() >= MOST_LATELY {
            unheeded.lately.pop_front();
        }
        unheeded.lately.push_back((now_ms, user.clone()));
        unheeded.users.push_back(user);
        self.removed.count.store(unheeded.before + unheeded.users.len(), Ordering::Release);
    }

    /// Returns the number of accounts removed so far: a single load, cheap enough for every stanza.
    pub(crate) fn removed_count(&self) -> usize {
        self.removed.count.load(Ordering::Acquire)
    }

    /// Returns the accounts that were removed after the first `seen`, as far as `is_known` is true.
    pub(crate) fn removed_since(&self, seen: usize, is_known: impl Fn(&Jid) -> bool) -> Vec<Jid> {
        let unheeded = self.lock_unheeded();
        let since = unheeded.users.iter().skip(seen.saturating_sub(unheeded.before));
        since.filter(|user| is_known(user)).cloned().collect()
    }

    /// Returns the accounts that were removed lately.
    pub(crate) fn removed_lately(&self, now_ms: u64) -> BTreeSet<Jid> {
        let unheeded = self.lock_unheeded();
        let lately = unheeded.lately.iter().filter(|(at, _)| at + LATELY_MS >= now_ms);
        lately.map(|(_, user)| user.clone()).collect()
    }

    /// Notes that the rooms of a shard have forgotten the first `count` accounts that were removed.
    /// An account that all shards have forgotten is dropped.
    pub(crate) fn heed(&self, shard: usize, shards: usize, count: usize) {
        let mut unheeded = self.lock_unheeded();
        unheeded.heeded.insert(shard, count);
        if unheeded.heeded.len() < shards {
            return;
        }
        let by_all = unheeded.heeded.values().min().copied().unwrap_or_default();
        let done = by_all.saturating_sub(unheeded.before).min(unheeded.users.len());
        unheeded.users.drain(..done);
        unheeded.before += done;
    }

    /// Returns the number of removed accounts that are kept because some room may know them.
    pub fn unheeded_removals(&self) -> usize {
        self.lock_unheeded().users.len()
    }

    fn lock_unheeded(&self) -> MutexGuard<'_, Unheeded> {
        lock(&self.removed.unheeded)
    }

    fn hosts(&self) -> MutexGuard<'_, Map<String, Hosted>> {
        lock(&self.hosts)
    }
}

/// The time for which removed accounts are remembered in any case, in milliseconds: longer than a
/// room is on its way from one home to the next.
const LATELY_MS: u64 = 10 * 60 * 1000;
/// The most accounts that are remembered for that time; of more, the latest.
pub(crate) const MOST_LATELY: usize = 10_000;

fn local(room: JidRef<'_>) -> String {
    room.local().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jid(local: &str) -> Jid {
        Jid::parse(&format!("{local}@chat.example")).unwrap()
    }

    fn entry(name: &str, is_stored: bool) -> RoomEntry {
        RoomEntry {
            name: name.into(),
            is_public: true,
            is_stored,
            creator: Some(Jid::parse("crone@example.org").unwrap()),
        }
    }

    fn all(directory: &Directory) -> Vec<(Jid, String)> {
        directory.public("chat.example", &RsmRequest::default(), (usize::MAX, usize::MAX), |_, _| 0).unwrap().0
    }

    fn most(all: usize) -> MostRooms {
        MostRooms { all, of_account: usize::MAX, of_domain: usize::MAX }
    }

    #[test]
    fn changes_before_the_list_is_loaded_win_over_it() {
        let directory = Directory::default();
        assert_eq!(directory.add(jid("new").as_ref(), entry("new", false), most(2)), Ok(()));
        directory.remove(jid("gone").as_ref());
        let listed =
            |local: &str| ListedRoom { room: jid(local), name: "stored".into(), is_public: true, creator: None };
        directory.fill("chat.example", vec![listed("gone"), listed("new"), listed("old")]);
        let found: Vec<_> = all(&directory).into_iter().map(|(jid, name)| (jid.to_string(), name)).collect();
        let wanted = [("new@chat.example", "new"), ("old@chat.example", "stored")];
        assert_eq!(found, wanted.map(|(jid, name)| (jid.to_owned(), name.to_owned())));
        assert_eq!(directory.add(jid("more").as_ref(), entry("more", false), most(2)), Err(Full::Service));
        assert!(directory.is_stored(jid("old").as_ref()) && !directory.is_stored(jid("new").as_ref()));
        let of_other = directory.public("other.example", &RsmRequest::default(), (9, 99), |_, _| 1).unwrap();
        assert_eq!(of_other, (vec![], RsmAnswer { ends: None, index: Some(0), count: Some(0) }));
        let part = |after: &str| directory.part("chat.example", after, 1).into_iter().map(|listed| listed.room);
        assert_eq!(part("").chain(part("new")).chain(part("old")).collect::<Vec<_>>(), [jid("new"), jid("old")]);
    }

    #[test]
    fn rooms_count_against_the_limits_of_their_creators() {
        let directory = Directory::default();
        let listed = |local: &str| {
            let creator = entry("", true).creator;
            ListedRoom { room: jid(local), name: local.into(), is_public: true, creator }
        };
        directory.fill("chat.example", vec![listed("a"), listed("b")]);
        let of_account = |of_account| MostRooms { all: 9, of_account, of_domain: usize::MAX };
        let of_domain = |of_domain| MostRooms { all: 9, of_account: usize::MAX, of_domain };
        let add = |local: &str, most| directory.add(jid(local).as_ref(), entry(local, false), most);
        assert_eq!(add("c", of_account(2)), Err(Full::Account));
        assert_eq!(add("c", of_domain(2)), Err(Full::Domain));
        assert_eq!(add("c", of_account(3)), Ok(()));
        // A room's own later entry counts, and counts once.
        directory.set(jid("c").as_ref(), entry("renamed", true));
        directory.remove(jid("a").as_ref());
        assert_eq!(add("d", of_account(2)), Err(Full::Account));
        assert_eq!(add("d", of_account(3)), Ok(()));
        directory.account_removed(Jid::parse("crone@example.org").unwrap(), 0);
        assert_eq!(all(&directory).len(), 3, "the rooms stay");
        assert_eq!(add("e", of_domain(1)), Ok(()), "and count for nobody");
        assert!(directory.hosts()["chat.example"].created.values().all(|&count| count == 1));
    }

    #[test]
    fn removed_accounts_are_kept_until_all_shards_have_forgotten_them() {
        let directory = Directory::default();
        let users: Vec<_> = (0..5).map(|number| jid(&format!("u{number}"))).collect();
        users.iter().for_each(|user| directory.account_removed(user.clone(), 0));
        assert_eq!(directory.removed_since(3, |_| true), users[3..]);
        directory.heed(0, 2, 5);
        assert_eq!(directory.unheeded_removals(), 5, "the other shard may know them");
        directory.heed(1, 2, 3);
        assert_eq!((directory.unheeded_removals(), directory.removed_count()), (2, 5));
        assert_eq!(directory.removed_since(3, |_| true), users[3..]);
        assert!(directory.removed_since(4, |user| *user == users[3]).is_empty());
        directory.account_removed(jid("u5"), 0);
        directory.heed(1, 2, 6);
        directory.heed(0, 2, 6);
        assert_eq!((directory.unheeded_removals(), directory.removed_count()), (0, 6));
    }

    /// A room may be on its way from another process meanwhile.
    #[test]
    fn removed_accounts_are_known_for_a_while_within_a_bound() {
        let directory = Directory::default();
        directory.account_removed(jid("a"), 1_000);
        directory.heed(0, 1, 1);
        directory.account_removed(jid("b"), 2_000);
        assert_eq!(directory.removed_lately(1_000 + LATELY_MS), BTreeSet::from([jid("a"), jid("b")]));
        assert_eq!(directory.removed_lately(1_001 + LATELY_MS), BTreeSet::from([jid("b")]));
        (0..2 * MOST_LATELY).for_each(|number| directory.account_removed(jid(&format!("u{number}")), 3_000));
        assert_eq!(directory.removed_lately(3_000).len(), MOST_LATELY);
        directory.account_removed(jid("c"), 4_000 + LATELY_MS);
        assert_eq!(directory.lock_unheeded().lately.len(), 1, "the old ones are dropped");
    }

    proptest! {
        /// Every part equals the same range of the whole list.
        #[test]
        fn parts_of_the_list_are_parts_of_a_list(
            rooms in prop::collection::btree_map("[a-c]{1,2}", (any::<bool>(), 0..9usize), 0..12),
            max in prop::option::of(0..6usize), most_bytes in 0..60usize, which in 0..5u8, id in "[a-c]{1,2}", at in 0..9usize,
        ) {
            let directory = Directory::default();
            for (local, (is_public, length)) in &rooms {
                directory.set(jid(local).as_ref(), RoomEntry { is_public: *is_public, ..entry(&"n".repeat(*length), true) });
            }
            let id = jid(&id).to_string();
            let part = [Part::First, Part::After(id.clone()), Part::Before(id), Part::Last, Part::Index(at)][which as usize].clone();
            let request = RsmRequest { max, part };
            let bytes = |jid: &str, name: &str| jid.len() + name.len();
            let public = rooms.iter().filter(|(_, (is_public, _))| *is_public);
            let list: Vec<_> = public.map(|(local, (_, length))| (jid(local), "n".repeat(*length))).collect();
            let limits = (5, most_bytes);
            let wanted = request.page_within(&list, limits, |(jid, _)| jid.as_str(), |(jid, name)| bytes(jid.as_str(), name));
            let found = directory.public("chat.example", &request, limits, bytes);
            match (found, wanted) {
                (Ok((found, answer)), Ok((page, wanted))) => {
                    prop_assert_eq!(found.as_slice(), page);
                    prop_assert_eq!(answer, wanted);
                }
                (Err(found), Err(wanted)) => prop_assert_eq!(found, wanted),
                (found, wanted) => prop_assert!(false, "{:?} {:?}", found, wanted),
            }
        }
    }
}
