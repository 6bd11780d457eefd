//! All stores in this process's memory: for tests, and for servers whose data need not survive.
//!
//! Every operation is carried out, and its future is complete, when the method returns. Nothing is
//! random, so a test that runs twice sees the same ids and versions.
//!
//! # Layout
//!
//! `world` is the common data; `archives`, `nodes`, `rooms` and `roster` are its larger parts, and
//! `key` is the key of accounts and rooms in it. This file, `archive`, `invitations`, `pubsub` and
//! `slots` are the operations.

mod archive;
mod archives;
mod invitations;
mod key;
mod nodes;
mod pubsub;
mod rooms;
mod roster;
mod slots;
mod world;

use crate::offline::MOST_LOADED;
use crate::{
    Accounts, Added, Affiliated, Browsed, Changed, Changes, Choice, DocumentRoom, Documents, DocumentsPut, EditRoster,
    LastPresence, LastSeen, ListedRoom, Meta, Offline, OfflineMessage, OfflineRoom, Pending, Pushed, RoomDocument,
    RoomStore, Roster, RosterItem, Rosters, StoreError, StoredDocument, StoredRoom, Stores, Subscription,
    pending::catch, pending::ready,
};
use key::key;
use rookery_jid::{Jid, JidRef};
use rookery_sasl::Credentials;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;
use world::MemoryWorld;

/// The stores in memory.
pub struct Memory {
    world: Mutex<MemoryWorld>,
}

impl Memory {
    /// Returns empty stores.
    pub fn new() -> Memory {
        Memory { world: Mutex::new(MemoryWorld::default()) }
    }

    /// Returns empty stores, bundled.
    pub fn stores() -> Stores {
        Stores::of(Arc::new(Memory::new()))
    }

    /// Locks the world. A panic in a caller's code is caught before anything is changed, so the
    /// world is intact even if the lock is poisoned.
    fn world(&self) -> MutexGuard<'_, MemoryWorld> {
        lock(&self.world)
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

impl Accounts for Memory {
    fn credentials(&self, account: JidRef<'_>) -> Pending<Option<Credentials>> {
        ready(Ok(self.world().account(account).map(|account| account.credentials.clone())))
    }

    fn create(&self, account: JidRef<'_>, credentials: Credentials) -> Pending<bool> {
        ready(Ok(self.world().create(account, credentials)))
    }

    fn create_many(&self, accounts: Vec<(Jid, Credentials)>) -> Pending<Vec<bool>> {
        let mut world = self.world();
        let created = accounts.into_iter().map(|(account, credentials)| world.create(account.as_ref(), credentials));
        ready(Ok(created.collect()))
    }

    fn set_credentials(&self, account: JidRef<'_>, credentials: Credentials) -> Pending<bool> {
        let mut world = self.world();
        let account = world.account_mut(account);
        ready(Ok(account.map(|account| account.credentials = credentials).is_some()))
    }

    fn remove(&self, account: JidRef<'_>) -> Pending<bool> {
        let mut world = self.world();
        let removed = world.accounts.remove(&key(account));
        world.archives.remove(account);
        world.invitations.retain(|_, invitation| invitation.owner.as_ref().map(Jid::as_ref) != Some(account.bare()));
        for slot in world.slots.values_mut().filter(|slot| slot.owner.as_ref() == account.bare()) {
            slot.expires_ms = 0;
        }
        if let Some(removed) = &removed {
            world.pubsub.forget(account);
            world.rooms.forget(account);
            world.next_roster_version = world.next_roster_version.max(removed.roster.version() + 1);
        }
        ready(Ok(removed.is_some()))
    }

    fn exists(&self, account: JidRef<'_>) -> Pending<bool> {
        ready(Ok(self.world().account(account).is_some()))
    }

    fn list(&self, domain: &str, after: Option<JidRef<'_>>, limit: usize) -> Pending<Vec<Jid>> {
        let after = after.and_then(JidRef::local).unwrap_or_default();
        let start = Bound::Excluded((domain.to_owned(), after.to_owned()));
        let world = self.world();
        let of_domain = world.accounts.range((start, Bound::Unbounded)).take_while(|(key, _)| key.0 == domain);
        ready(Ok(of_domain.map(|(_, account)| account.jid.clone()).take(limit).collect()))
    }

    fn set_disabled(&self, account: JidRef<'_>, disabled: bool) -> Pending<bool> {
        let mut world = self.world();
        ready(Ok(world.account_mut(account).map(|account| account.disabled = disabled).is_some()))
    }

    fn is_disabled(&self, account: JidRef<'_>) -> Pending<bool> {
        ready(Ok(self.world().account(account).is_some_and(|account| account.disabled)))
    }

    fn list_disabled(&self, domain: &str, after: Option<JidRef<'_>>, limit: usize) -> Pending<Vec<Jid>> {
        let after = after.and_then(JidRef::local).unwrap_or_default();
        let start = Bound::Excluded((domain.to_owned(), after.to_owned()));
        let world = self.world();
        let of_domain = world.accounts.range((start, Bound::Unbounded)).take_while(|(key, _)| key.0 == domain);
        let disabled = of_domain.filter(|(_, account)| account.disabled);
        ready(Ok(disabled.map(|(_, account)| account.jid.clone()).take(limit).collect()))
    }

    fn browse(&self, domain: &str, choice: Choice) -> Pending<Browsed> {
        ready(Ok(self.world().browse(domain, &choice)))
    }

    fn iterations(&self) -> Pending<Vec<(u32, u64)>> {
        let mut counted = BTreeMap::new();
        for account in self.world().accounts.values() {
            *counted.entry(account.credentials.sha256.iterations).or_default() += 1;
        }
        ready(Ok(counted.into_iter().collect()))
    }

    fn count_disabled(&self, domain: &str) -> Pending<u64> {
        let world = self.world();
        let counted = world.accounts.iter().filter(|(key, account)| key.0 == domain && account.disabled).count();
        ready(Ok(counted as u64))
    }

    fn count(&self, domain: Option<&str>) -> Pending<u64> {
        let world = self.world();
        let counted = world.accounts.keys().filter(|key| domain.is_none_or(|domain| key.0 == domain)).count();
        ready(Ok(counted as u64))
    }
}

impl Rosters for Memory {
    fn get(&self, owner: JidRef<'_>) -> Pending<Roster> {
        ready(self.world().owner(owner).map(|owner| owner.roster.get()))
    }

    fn since(&self, owner: JidRef<'_>, version: u64) -> Pending<Option<Changes>> {
        ready(self.world().owner(owner).map(|owner| owner.roster.since(version)))
    }

    fn contacts(&self, owner: JidRef<'_>) -> Pending<Vec<(Jid, Subscription)>> {
        ready(self.world().owner(owner).map(|owner| owner.roster.contacts()))
    }

    fn item(&self, owner: JidRef<'_>, contact: JidRef<'_>) -> Pending<Option<RosterItem>> {
        ready(self.world().owner(owner).map(|owner| owner.roster.item(contact).cloned()))
    }

    fn change(&self, owner: JidRef<'_>, contact: JidRef<'_>, mut edit: EditRoster) -> Pending<Changed> {
        let mut world = self.world();
        let owner = world.account_mut(owner).ok_or(StoreError::NoAccount);
        ready(owner.and_then(|owner| catch(|| Ok(owner.roster.change(contact, &mut edit)))))
    }

    fn put_many(&self, owner: JidRef<'_>, items: Vec<RosterItem>) -> Pending<()> {
        let mut world = self.world();
        let owner = world.account_mut(owner).ok_or(StoreError::NoAccount);
        ready(owner.map(|owner| owner.roster.put_many(items)))
    }

    fn pending_in(&self, owner: JidRef<'_>, after: Option<Jid>, limit: usize) -> Pending<Vec<(Jid, Vec<u8>)>> {
        ready(self.world().owner(owner).map(|owner| owner.roster.pending_in(after.as_ref(), limit)))
    }
}

impl Offline for Memory {
    fn push(
        &self,
        to: JidRef<'_>,
        sender: JidRef<'_>,
        stanza: Vec<u8>,
        unix_ms: u64,
        room: OfflineRoom,
    ) -> Pending<Pushed> {
        let mut world = self.world();
        let id = world.last_offline_id + 1;
        let Some(account) = world.account_mut(to) else { return ready(Ok(Pushed::NoAccount)) };
        let sum = |of: Option<JidRef<'_>>| {
            let counted = account.offline.values().filter(|(from, _)| of.is_none_or(|of| from.as_ref() == of.bare()));
            counted.fold((0, 0), |(count, bytes), (_, message)| (count + 1, bytes + message.stanza.len() as u64))
        };
        let (all, bytes) = (sum(None), stanza.len() as u64);
        let free = room.take(all.0, all.1).filter(|free| free.take(1, bytes).is_some());
        if !free.is_some_and(|free| free.is_fair(sum(Some(sender)), bytes)) {
            return ready(Ok(Pushed::Full));
        }
        account.offline.insert(id, (sender.bare().to_jid(), OfflineMessage { id, unix_ms, stanza }));
        world.last_offline_id = id;
        ready(Ok(Pushed::Kept))
    }

    fn load(&self, owner: JidRef<'_>, after: u64, max_bytes: usize) -> Pending<Vec<OfflineMessage>> {
        let world = self.world();
        let Some(account) = world.account(owner) else { return ready(Ok(Vec::new())) };
        let (mut messages, mut room) = (Vec::new(), max_bytes);
        for (_, (_, message)) in account.offline.range((Bound::Excluded(after), Bound::Unbounded)) {
            if messages.len() == MOST_LOADED || (message.stanza.len() > room && !messages.is_empty()) {
                break;
            }
            room = room.saturating_sub(message.stanza.len());
            messages.push(message.clone());
        }
        ready(Ok(messages))
    }

    fn remove(&self, owner: JidRef<'_>, up_to: u64) -> Pending<u64> {
        let mut world = self.world();
        let Some(account) = world.account_mut(owner) else { return ready(Ok(0)) };
        let before = account.offline.len();
        account.offline.retain(|id, _| *id > up_to);
        ready(Ok((before - account.offline.len()) as u64))
    }

    fn count(&self, owner: JidRef<'_>) -> Pending<u64> {
        ready(Ok(self.world().account(owner).map_or(0, |account| account.offline.len() as u64)))
    }
}

impl Documents for Memory {
    fn get(&self, owner: JidRef<'_>, name: &str) -> Pending<Option<Vec<u8>>> {
        ready(Ok(self.world().account(owner).and_then(|owner| owner.documents.get(name).cloned())))
    }

    fn put(&self, owner: JidRef<'_>, name: &str, bytes: Option<Vec<u8>>) -> Pending<()> {
        let mut world = self.world();
        let owner = world.account_mut(owner).ok_or(StoreError::NoAccount);
        ready(owner.map(|owner| match bytes {
            Some(bytes) => drop(owner.documents.insert(name.to_owned(), bytes)),
            None => drop(owner.documents.remove(name)),
        }))
    }

    fn put_within(
        &self,
        owner: JidRef<'_>,
        prefix: &str,
        documents: Vec<StoredDocument>,
        room: DocumentRoom,
    ) -> Pending<DocumentsPut> {
        let mut world = self.world();
        let Some(owner) = world.account_mut(owner) else { return ready(Err(StoreError::NoAccount)) };
        let starting = |all: &BTreeMap<String, Vec<u8>>| {
            let all = all.iter().filter(|(name, _)| name.starts_with(prefix));
            all.fold((0, 0), |(number, bytes), (name, text)| (number + 1, bytes + (name.len() + text.len()) as u64))
        };
        let before = starting(&owner.documents);
        let mut after = owner.documents.clone();
        after.extend(documents.into_iter().map(|document| (document.name, document.bytes)));
        let (number, bytes) = starting(&after);
        ready(Ok(match () {
            () if number > room.number.max(before.0) => DocumentsPut::TooMany,
            () if bytes > room.bytes.max(before.1) => DocumentsPut::TooLarge,
            () => {
                owner.documents = after;
                DocumentsPut::Done
            }
        }))
    }

    fn starting(&self, owner: JidRef<'_>, prefix: &str) -> Pending<Vec<StoredDocument>> {
        let world = self.world();
        let all = world.account(owner).into_iter().flat_map(|owner| &owner.documents);
        let found = all.filter(|(name, _)| name.starts_with(prefix));
        let found = found.map(|(name, bytes)| StoredDocument { name: name.clone(), bytes: bytes.clone() });
        ready(Ok(found.collect()))
    }

    fn of(&self, owners: Vec<Jid>, name: &str) -> Pending<Vec<(Jid, Vec<u8>)>> {
        let world = self.world();
        let bytes = |owner: &Jid| world.account(owner.as_ref())?.documents.get(name).cloned();
        ready(Ok(owners.into_iter().filter_map(|owner| bytes(&owner).map(|bytes| (owner, bytes))).collect()))
    }
}

impl LastPresence for Memory {
    fn put(&self, owner: JidRef<'_>, unix_ms: u64, stanza: Vec<u8>) -> Pending<()> {
        let mut world = self.world();
        let owner = world.account_mut(owner).ok_or(StoreError::NoAccount);
        ready(owner.map(|owner| owner.last_presence = Some((unix_ms, stanza))))
    }

    fn last(&self, owner: JidRef<'_>) -> Pending<Option<LastSeen>> {
        let world = self.world();
        let found = world.account(owner).and_then(|account| account.last_presence.clone());
        let owner = owner.bare().to_jid();
        ready(Ok(found.map(|(unix_ms, stanza)| LastSeen { owner, unix_ms, stanza })))
    }

    fn of(&self, asker: JidRef<'_>, owners: Vec<Jid>, document: &str) -> Pending<Vec<crate::presence::SeenWith>> {
        let world = self.world();
        let seen = owners.into_iter().filter_map(|owner| {
            let account = world.account(owner.as_ref())?;
            let (unix_ms, stanza) = account.last_presence.clone()?;
            let document = account.documents.get(document).cloned();
            account.roster.lets_see(asker.bare()).then_some((LastSeen { owner, unix_ms, stanza }, document))
        });
        ready(Ok(seen.collect()))
    }
}

impl RoomStore for Memory {
    fn list(&self, host: &str) -> Pending<Vec<ListedRoom>> {
        ready(Ok(self.world().rooms.list(host)))
    }

    fn load(&self, room: JidRef<'_>) -> Pending<Option<StoredRoom>> {
        ready(Ok(self.world().rooms.load(room)))
    }

    fn put(&self, room: JidRef<'_>, document: RoomDocument) -> Pending<()> {
        self.world().rooms.put(room, document);
        ready(Ok(()))
    }

    fn affiliate(&self, room: JidRef<'_>, changes: Vec<Affiliated>) -> Pending<bool> {
        ready(Ok(self.world().rooms.affiliate(room, changes)))
    }

    fn remove(&self, room: JidRef<'_>) -> Pending<bool> {
        ready(Ok(self.world().rooms.remove(room)))
    }

    fn known_in(&self, user: JidRef<'_>) -> Pending<u64> {
        ready(Ok(self.world().rooms.known_in(user)))
    }
}

impl Meta for Memory {
    fn get(&self, key: &str) -> Pending<Option<Vec<u8>>> {
        ready(Ok(self.world().meta.get(key).cloned()))
    }

    fn put(&self, key: &str, bytes: Vec<u8>) -> Pending<()> {
        self.world().meta.insert(key.to_owned(), bytes);
        ready(Ok(()))
    }

    fn entries(&self, list: &str) -> Pending<Vec<(String, Vec<u8>)>> {
        let world = self.world();
        let entries = world.lists.get(list).into_iter().flatten();
        ready(Ok(entries.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()))
    }

    fn put_entry(&self, list: &str, name: &str, bytes: Vec<u8>) -> Pending<()> {
        self.world().lists.entry(list.to_owned()).or_default().insert(name.to_owned(), bytes);
        ready(Ok(()))
    }

    fn add_entry(&self, list: &str, name: &str, bytes: Vec<u8>, most: usize) -> Pending<Added> {
        let mut world = self.world();
        let list = world.lists.entry(list.to_owned()).or_default();
        ready(Ok(match () {
            () if list.contains_key(name) => Added::Exists,
            () if list.len() >= most => Added::Full,
            () => {
                list.insert(name.to_owned(), bytes);
                Added::Done
            }
        }))
    }

    fn remove_entry(&self, list: &str, name: &str) -> Pending<bool> {
        let mut world = self.world();
        ready(Ok(world.lists.get_mut(list).is_some_and(|list| list.remove(name).is_some())))
    }

    fn replace_entry(&self, list: &str, name: &str, before: Vec<u8>, after: Option<Vec<u8>>) -> Pending<bool> {
        let mut world = self.world();
        let list = world.lists.entry(list.to_owned()).or_default();
        let is_there = list.get(name) == Some(&before);
        if is_there {
            match after {
                Some(after) => drop(list.insert(name.to_owned(), after)),
                None => drop(list.remove(name)),
            }
        }
        ready(Ok(is_there))
    }

    fn set_entries(&self, list: &str, entries: Vec<(String, Vec<u8>)>) -> Pending<()> {
        self.world().lists.insert(list.to_owned(), entries.into_iter().collect());
        ready(Ok(()))
    }
}
