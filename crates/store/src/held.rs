//! A store that is slow or broken at will: for tests of those who must cope with one.
//!
//! [`Held`] stands in front of other stores, usually [`Memory`](crate::memory::Memory). An operation reaches those
//! when it is called, as always; what is held back is its completion. So a test sees the same thing as with a slow
//! disk: the order is fixed, the answer is late.

use crate::documents::{DocumentRoom, DocumentsPut};
use crate::pending::{Completer, pending, ready};
use crate::pubsub::{
    Affiliation, Created, Item, Items, Kept, Listed, News, Node, NodeSubscription, Published, Room, Set, Wanted,
};
use crate::{
    Accounts, Affiliated, Archive, ArchivePage, ArchiveQuery, ArchivedMessage, Changed, Changes, Document, Documents,
    EditRoster, Expiry, Invitation, Invitations, LastPresence, LastSeen, ListedRoom, Meta, Offline, OfflineMessage,
    OfflineRoom, Pending, Pubsub, Pushed, Reserved, RoomDocument, Rooms, Roster, RosterItem, Rosters, Slot, SlotQuota,
    SlotStage, Slots, StoreError, StoredRoom, Stores, Subscription, Swept,
};
use rookery_jid::{Jid, JidRef};
use rookery_sasl::Credentials;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Stores whose completions are released by hand.
pub struct Held {
    inner: Stores,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    flows: bool,
    fault: Option<StoreError>,
    /// The operation that fails, counted from the next one, which is 0.
    fails_at: Option<(usize, StoreError)>,
    waiting: VecDeque<Completer<()>>,
}

impl Held {
    /// Holds every completion of these stores back.
    pub fn new(inner: Stores) -> Arc<Held> {
        Arc::new(Held { inner, state: Mutex::default() })
    }

    /// The stores as the code under test sees them.
    pub fn stores(self: &Arc<Held>) -> Stores {
        Stores::of(self.clone())
    }

    /// How many operations were called and not released.
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Completes the oldest operation. `false` if none waits.
    pub fn release_one(&self) -> bool {
        // The lock must be free when the waker runs: it may call the store.
        let next = self.state().waiting.pop_front();
        next.map(|next| next.complete(Ok(()))).is_some()
    }

    /// Completes all operations that wait now, oldest first; how many those were.
    pub fn release_all(&self) -> usize {
        let waiting = std::mem::take(&mut self.state().waiting);
        let released = waiting.len();
        waiting.into_iter().for_each(|next| next.complete(Ok(())));
        released
    }

    /// Whether later operations complete by themselves (`true`), or wait for a release as at the start (`false`).
    pub fn set_flowing(&self, flows: bool) {
        self.state().flows = flows;
    }

    /// Lets later operations change nothing and answer this error; with `None` they are carried out again.
    pub fn set_fault(&self, fault: Option<StoreError>) {
        self.state().fault = fault;
    }

    /// Lets one of the later operations, counted from 0, change nothing and answer this error. Whether it has is told by [`Held::has_failed`].
    pub fn fail_one(&self, at: usize, fault: StoreError) {
        self.state().fails_at = Some((at, fault));
    }

    /// Tells whether the operation that [`Held::fail_one`] was about has been called.
    pub fn has_failed(&self) -> bool {
        self.state().fails_at.is_none()
    }

    /// Calls the operation, unless it is to fail, and holds its completion back, unless it is to flow.
    fn held<T: Send + 'static>(&self, call: impl FnOnce(&Stores) -> Pending<T>) -> Pending<T> {
        let fault = self.state().next_fault();
        let answer = fault.map_or_else(|| call(&self.inner), |error| ready(Err(error)));
        let mut state = self.state();
        if state.flows {
            return answer;
        }
        let (completer, released) = pending();
        state.waiting.push_back(completer);
        Box::pin(async move {
            released.await?;
            answer.await
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_fault(&mut self) -> Option<StoreError> {
        match self.fails_at.take() {
            Some((0, fault)) => return Some(fault),
            Some((at, fault)) => self.fails_at = Some((at - 1, fault)),
            None => {}
        }
        self.fault.clone()
    }
}

impl Accounts for Held {
    fn credentials(&self, account: JidRef<'_>) -> Pending<Option<Credentials>> {
        self.held(|stores| stores.accounts.credentials(account))
    }

    fn create(&self, account: JidRef<'_>, credentials: Credentials) -> Pending<bool> {
        self.held(|stores| stores.accounts.create(account, credentials))
    }

    fn create_many(&self, accounts: Vec<(Jid, Credentials)>) -> Pending<Vec<bool>> {
        self.held(|stores| stores.accounts.create_many(accounts))
    }

    fn set_credentials(&self, account: JidRef<'_>, credentials: Credentials) -> Pending<bool> {
        self.held(|stores| stores.accounts.set_credentials(account, credentials))
    }

    fn remove(&self, account: JidRef<'_>) -> Pending<bool> {
        self.held(|stores| stores.accounts.remove(account))
    }

    fn exists(&self, account: JidRef<'_>) -> Pending<bool> {
        self.held(|stores| stores.accounts.exists(account))
    }

    fn list(&self, domain: &str, after: Option<JidRef<'_>>, limit: usize) -> Pending<Vec<Jid>> {
        self.held(|stores| stores.accounts.list(domain, after, limit))
    }

    fn set_disabled(&self, account: JidRef<'_>, disabled: bool) -> Pending<bool> {
        self.held(|stores| stores.accounts.set_disabled(account, disabled))
    }

    fn is_disabled(&self, account: JidRef<'_>) -> Pending<bool> {
        self.held(|stores| stores.accounts.is_disabled(account))
    }

    fn list_disabled(&self, domain: &str, after: Option<JidRef<'_>>, limit: usize) -> Pending<Vec<Jid>> {
        self.held(|stores| stores.accounts.list_disabled(domain, after, limit))
    }

    fn iterations(&self) -> Pending<Vec<(u32, u64)>> {
        self.held(|stores| stores.accounts.iterations())
    }

    fn count_disabled(&self, domain: &str) -> Pending<u64> {
        self.held(|stores| stores.accounts.count_disabled(domain))
    }

    fn count(&self, domain: Option<&str>) -> Pending<u64> {
        self.held(|stores| stores.accounts.count(domain))
    }
}

impl Rosters for Held {
    fn get(&self, owner: JidRef<'_>) -> Pending<Roster> {
        self.held(|stores| stores.rosters.get(owner))
    }

    fn since(&self, owner: JidRef<'_>, version: u64) -> Pending<Option<Changes>> {
        self.held(|stores| stores.rosters.since(owner, version))
    }

    fn contacts(&self, owner: JidRef<'_>) -> Pending<Vec<(Jid, Subscription)>> {
        self.held(|stores| stores.rosters.contacts(owner))
    }

    fn item(&self, owner: JidRef<'_>, contact: JidRef<'_>) -> Pending<Option<RosterItem>> {
        self.held(|stores| stores.rosters.item(owner, contact))
    }

    fn change(&self, owner: JidRef<'_>, contact: JidRef<'_>, edit: EditRoster) -> Pending<Changed> {
        self.held(|stores| stores.rosters.change(owner, contact, edit))
    }

    fn pending_in(&self, owner: JidRef<'_>, after: Option<Jid>, limit: usize) -> Pending<Vec<(Jid, Vec<u8>)>> {
        self.held(|stores| stores.rosters.pending_in(owner, after, limit))
    }
}

impl Offline for Held {
    fn push(
        &self,
        to: JidRef<'_>,
        sender: JidRef<'_>,
        stanza: Vec<u8>,
        unix_ms: u64,
        room: OfflineRoom,
    ) -> Pending<Pushed> {
        self.held(|stores| stores.offline.push(to, sender, stanza, unix_ms, room))
    }

    fn load(&self, owner: JidRef<'_>, after: u64, max_bytes: usize) -> Pending<Vec<OfflineMessage>> {
        self.held(|stores| stores.offline.load(owner, after, max_bytes))
    }

    fn remove(&self, owner: JidRef<'_>, up_to: u64) -> Pending<u64> {
        self.held(|stores| stores.offline.remove(owner, up_to))
    }

    fn count(&self, owner: JidRef<'_>) -> Pending<u64> {
        self.held(|stores| stores.offline.count(owner))
    }
}

impl Documents for Held {
    fn get(&self, owner: JidRef<'_>, name: &str) -> Pending<Option<Vec<u8>>> {
        self.held(|stores| stores.documents.get(owner, name))
    }

    fn put(&self, owner: JidRef<'_>, name: &str, bytes: Option<Vec<u8>>) -> Pending<()> {
        self.held(|stores| stores.documents.put(owner, name, bytes))
    }

    fn put_within(
        &self,
        owner: JidRef<'_>,
        prefix: &str,
        documents: Vec<Document>,
        room: DocumentRoom,
    ) -> Pending<DocumentsPut> {
        self.held(|stores| stores.documents.put_within(owner, prefix, documents, room))
    }

    fn starting(&self, owner: JidRef<'_>, prefix: &str) -> Pending<Vec<Document>> {
        self.held(|stores| stores.documents.starting(owner, prefix))
    }

    fn of(&self, owners: Vec<Jid>, name: &str) -> Pending<Vec<(Jid, Vec<u8>)>> {
        self.held(|stores| stores.documents.of(owners, name))
    }
}

impl Archive for Held {
    fn append(&self, messages: Vec<ArchivedMessage>) -> Pending<()> {
        self.held(|stores| stores.archive.append(messages))
    }

    fn page(&self, owner: JidRef<'_>, query: ArchiveQuery) -> Pending<Option<ArchivePage>> {
        self.held(|stores| stores.archive.page(owner, query))
    }

    fn replace(&self, owner: JidRef<'_>, id: u64, stanza: Vec<u8>) -> Pending<bool> {
        self.held(|stores| stores.archive.replace(owner, id, stanza))
    }

    fn ends(&self, owner: JidRef<'_>) -> Pending<Option<(u64, u64)>> {
        self.held(|stores| stores.archive.ends(owner))
    }

    fn purge(&self, owner: JidRef<'_>) -> Pending<()> {
        self.held(|stores| stores.archive.purge(owner))
    }

    fn clear(&self, limit: usize) -> Pending<bool> {
        self.held(|stores| stores.archive.clear(limit))
    }

    fn sweep(&self, after: u64, expiry: Vec<Expiry>, limit: usize) -> Pending<Swept> {
        self.held(|stores| stores.archive.sweep(after, expiry, limit))
    }
}

impl Invitations for Held {
    fn put(&self, invitation: Invitation, now_ms: u64, limit: usize) -> Pending<bool> {
        self.held(|stores| stores.invitations.put(invitation, now_ms, limit))
    }

    fn get(&self, token: &str, now_ms: u64) -> Pending<Option<Invitation>> {
        self.held(|stores| stores.invitations.get(token, now_ms))
    }

    fn take(&self, token: &str, now_ms: u64) -> Pending<Option<Invitation>> {
        self.held(|stores| stores.invitations.take(token, now_ms))
    }

    fn is_reserved(&self, account: JidRef<'_>, now_ms: u64) -> Pending<bool> {
        self.held(|stores| stores.invitations.is_reserved(account, now_ms))
    }
}

impl Slots for Held {
    fn reserve(&self, slot: Slot, quota: SlotQuota) -> Pending<Reserved> {
        self.held(|stores| stores.slots.reserve(slot, quota))
    }

    fn slot(&self, token: &str, now_ms: u64) -> Pending<Option<Slot>> {
        self.held(|stores| stores.slots.slot(token, now_ms))
    }

    fn advance(&self, token: &str, from: SlotStage, to: SlotStage, now_ms: u64, until_ms: u64) -> Pending<bool> {
        self.held(|stores| stores.slots.advance(token, from, to, now_ms, until_ms))
    }

    fn expired(&self, now_ms: u64, limit: usize) -> Pending<Vec<String>> {
        self.held(|stores| stores.slots.expired(now_ms, limit))
    }

    fn forget(&self, token: &str) -> Pending<()> {
        self.held(|stores| stores.slots.forget(token))
    }
}

impl LastPresence for Held {
    fn put(&self, owner: JidRef<'_>, unix_ms: u64, stanza: Vec<u8>) -> Pending<()> {
        self.held(|stores| stores.last_presence.put(owner, unix_ms, stanza))
    }

    fn last(&self, owner: JidRef<'_>) -> Pending<Option<LastSeen>> {
        self.held(|stores| stores.last_presence.last(owner))
    }

    fn of(&self, asker: JidRef<'_>, owners: Vec<Jid>) -> Pending<Vec<LastSeen>> {
        self.held(|stores| stores.last_presence.of(asker, owners))
    }
}

impl Pubsub for Held {
    fn node(&self, host: JidRef<'_>, node: &str) -> Pending<Option<Node>> {
        self.held(|stores| stores.pubsub.node(host, node))
    }

    fn nodes(&self, host: JidRef<'_>, asker: JidRef<'_>, after: &str, limit: usize) -> Pending<Vec<Listed>> {
        self.held(|stores| stores.pubsub.nodes(host, asker, after, limit))
    }

    fn create_node(
        &self,
        host: JidRef<'_>,
        node: &str,
        config: Vec<u8>,
        owner: JidRef<'_>,
        room: Room,
    ) -> Pending<Created> {
        self.held(|stores| stores.pubsub.create_node(host, node, config, owner, room))
    }

    fn configure_node(&self, host: JidRef<'_>, node: &str, config: Vec<u8>, kept: Kept) -> Pending<bool> {
        self.held(|stores| stores.pubsub.configure_node(host, node, config, kept))
    }

    fn delete_node(&self, host: JidRef<'_>, node: &str) -> Pending<bool> {
        self.held(|stores| stores.pubsub.delete_node(host, node))
    }

    fn set_affiliation(
        &self,
        host: JidRef<'_>,
        node: &str,
        entity: JidRef<'_>,
        affiliation: Option<Affiliation>,
        room: Room,
    ) -> Pending<Set> {
        self.held(|stores| stores.pubsub.set_affiliation(host, node, entity, affiliation, room))
    }

    fn set_subscription(
        &self,
        host: JidRef<'_>,
        node: &str,
        subscriber: JidRef<'_>,
        subscription: Option<NodeSubscription>,
        most: usize,
    ) -> Pending<Set> {
        self.held(|stores| stores.pubsub.set_subscription(host, node, subscriber, subscription, most))
    }

    fn publish(&self, host: JidRef<'_>, node: &str, item: Item, kept: Kept, room: Room) -> Pending<Published> {
        self.held(|stores| stores.pubsub.publish(host, node, item, kept, room))
    }

    fn items(&self, host: JidRef<'_>, node: &str, wanted: Wanted, since_ms: u64) -> Pending<Option<Items>> {
        self.held(|stores| stores.pubsub.items(host, node, wanted, since_ms))
    }

    fn retract(&self, host: JidRef<'_>, node: &str, ids: Vec<String>) -> Pending<Vec<String>> {
        self.held(|stores| stores.pubsub.retract(host, node, ids))
    }

    fn purge(&self, host: JidRef<'_>, node: &str) -> Pending<u64> {
        self.held(|stores| stores.pubsub.purge(host, node))
    }

    fn subscriptions_of(&self, host: JidRef<'_>, entity: JidRef<'_>) -> Pending<Vec<(String, Jid, NodeSubscription)>> {
        self.held(|stores| stores.pubsub.subscriptions_of(host, entity))
    }

    fn affiliations_of(&self, host: JidRef<'_>, entity: JidRef<'_>) -> Pending<Vec<(String, Affiliation)>> {
        self.held(|stores| stores.pubsub.affiliations_of(host, entity))
    }

    fn news(
        &self,
        asker: JidRef<'_>,
        owners: Vec<Jid>,
        nodes: Vec<String>,
        after: Option<(Jid, String)>,
    ) -> Pending<(Vec<News>, bool)> {
        self.held(|stores| stores.pubsub.news(asker, owners, nodes, after))
    }

    fn accounts_nodes(&self, after: u64, limit: usize) -> Pending<Vec<(u64, Jid, String)>> {
        self.held(|stores| stores.pubsub.accounts_nodes(after, limit))
    }
}

impl Rooms for Held {
    fn list(&self, host: &str) -> Pending<Vec<ListedRoom>> {
        self.held(|stores| stores.rooms.list(host))
    }

    fn load(&self, room: JidRef<'_>) -> Pending<Option<StoredRoom>> {
        self.held(|stores| stores.rooms.load(room))
    }

    fn put(&self, room: JidRef<'_>, document: RoomDocument) -> Pending<()> {
        self.held(|stores| stores.rooms.put(room, document))
    }

    fn affiliate(&self, room: JidRef<'_>, changes: Vec<Affiliated>) -> Pending<bool> {
        self.held(|stores| stores.rooms.affiliate(room, changes))
    }

    fn remove(&self, room: JidRef<'_>) -> Pending<bool> {
        self.held(|stores| stores.rooms.remove(room))
    }

    fn known_in(&self, user: JidRef<'_>) -> Pending<u64> {
        self.held(|stores| stores.rooms.known_in(user))
    }
}

impl Meta for Held {
    fn get(&self, key: &str) -> Pending<Option<Vec<u8>>> {
        self.held(|stores| stores.meta.get(key))
    }

    fn put(&self, key: &str, bytes: Vec<u8>) -> Pending<()> {
        self.held(|stores| stores.meta.put(key, bytes))
    }

    fn trouble(&self) -> Option<StoreError> {
        self.inner.meta.trouble()
    }
}
