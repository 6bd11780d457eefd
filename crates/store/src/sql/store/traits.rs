//! Implements the traits of the stores: each method chooses the lane for its operation, and the
//! code to run there.

use super::SqlStore;
use crate::documents::{DocumentRoom, DocumentsPut};
use crate::pubsub::{
    Created, Item, Items, ItemsKept, News, NodeAffiliation, NodeListed, NodeRecord, NodeRoom, NodeSubscription,
    Published, SetOutcome, WantedItems,
};
use crate::sql::{
    accounts, archive, browsing, documents, invitations, meta, offline, presence, pubsub, rooms, rosters, slots,
};
use crate::{
    Accounts, Activity, Added, Affiliated, Archive, ArchivePage, ArchiveQuery, ArchivedMessage, Browsed, Changed,
    Changes, Choice, Documents, EditRoster, Invitation, Invitations, LastPresence, LastSeen, ListedRoom, Meta, Offline,
    OfflineMessage, OfflineRoom, Pending, Pubsub, Pushed, Reserved, Retention, RoomDocument, RoomStore, Roster,
    RosterItem, Rosters, Slot, SlotQuota, SlotStage, Slots, StatementTimes, StoreError, StoredDocument, StoredRoom,
    Subscription, Swept,
};
use rookery_jid::{Jid, JidRef};
use rookery_sasl::Credentials;
use std::sync::Arc;

impl Accounts for SqlStore {
    fn credentials(&self, account: JidRef<'_>) -> Pending<Option<Credentials>> {
        let account = account.bare().to_jid();
        self.glance(self.lanes.login(account.as_str()), 0, move |c| accounts::credentials(c, account.as_ref()))
    }

    fn for_login(&self, account: JidRef<'_>) -> Pending<Option<(Credentials, bool)>> {
        let account = account.bare().to_jid();
        self.glance(self.lanes.login(account.as_str()), 0, move |c| accounts::for_login(c, account.as_ref()))
    }

    fn create(&self, account: JidRef<'_>, credentials: Credentials) -> Pending<bool> {
        let account = account.bare().to_jid();
        self.write(self.of(account.as_ref()), 0, move |c| accounts::create(c, account.as_ref(), &credentials))
    }

    fn create_many(&self, accounts: Vec<(Jid, Credentials)>) -> Pending<Vec<bool>> {
        self.write(
            self.lanes.write_of(accounts.iter().map(|(account, _)| account.bare_str())),
            accounts.len().saturating_mul(BYTES_PER_ACCOUNT),
            move |c| accounts::create_many(c, &accounts),
        )
    }

    fn set_credentials(&self, account: JidRef<'_>, credentials: Credentials) -> Pending<bool> {
        let account = account.bare().to_jid();
        self.write(self.of(account.as_ref()), 0, move |c| accounts::set_credentials(c, account.as_ref(), &credentials))
    }

    fn remove(&self, account: JidRef<'_>) -> Pending<bool> {
        let account = account.bare().to_jid();
        self.write(self.lanes.everybody(), 0, move |c| accounts::remove(c, account.as_ref()))
    }

    fn exists(&self, account: JidRef<'_>) -> Pending<bool> {
        let account = account.bare().to_jid();
        self.glance(self.of(account.as_ref()), 0, move |c| accounts::exists(c, account.as_ref()))
    }

    fn list(&self, domain: &str, after: Option<JidRef<'_>>, limit: usize) -> Pending<Vec<Jid>> {
        let (domain, after) = (domain.to_owned(), after.map(JidRef::to_jid));
        self.read(self.lanes.list(), 0, move |c| accounts::list(c, &domain, after.as_ref().map(Jid::as_ref), limit))
    }

    fn set_disabled(&self, account: JidRef<'_>, disabled: bool) -> Pending<bool> {
        let account = account.bare().to_jid();
        self.write(self.of(account.as_ref()), 0, move |c| accounts::set_disabled(c, account.as_ref(), disabled))
    }

    fn is_disabled(&self, account: JidRef<'_>) -> Pending<bool> {
        let account = account.bare().to_jid();
        self.glance(self.of(account.as_ref()), 0, move |c| accounts::is_disabled(c, account.as_ref()))
    }

    fn list_disabled(&self, domain: &str, after: Option<JidRef<'_>>, limit: usize) -> Pending<Vec<Jid>> {
        let (domain, after) = (domain.to_owned(), after.map(JidRef::to_jid));
        self.read(self.lanes.list(), 0, move |c| {
            accounts::list_disabled(c, &domain, after.as_ref().map(Jid::as_ref), limit)
        })
    }

    fn browse(&self, domain: &str, choice: Choice) -> Pending<Browsed> {
        let domain = domain.to_owned();
        self.read(self.lanes.list(), 0, move |c| browsing::browse(c, &domain, &choice))
    }

    fn iterations(&self) -> Pending<Vec<(u32, u64)>> {
        self.read(self.lanes.list(), 0, accounts::iterations)
    }

    fn count_disabled(&self, domain: &str) -> Pending<u64> {
        let domain = domain.to_owned();
        self.read(self.lanes.list(), 0, move |c| accounts::count_disabled(c, &domain))
    }

    fn count(&self, domain: Option<&str>) -> Pending<u64> {
        let domain = domain.map(str::to_owned);
        self.read(self.lanes.list(), 0, move |c| accounts::count(c, domain.as_deref()))
    }
}

impl Rosters for SqlStore {
    fn get(&self, owner: JidRef<'_>) -> Pending<Roster> {
        let owner = owner.bare().to_jid();
        self.glance(self.of(owner.as_ref()), 0, move |c| rosters::get(c, owner.as_ref()))
    }

    fn since(&self, owner: JidRef<'_>, version: u64) -> Pending<Option<Changes>> {
        let owner = owner.bare().to_jid();
        self.read(self.of(owner.as_ref()), 0, move |c| rosters::since(c, owner.as_ref(), version))
    }

    fn contacts(&self, owner: JidRef<'_>) -> Pending<Vec<(Jid, Subscription)>> {
        let owner = owner.bare().to_jid();
        self.glance(self.of(owner.as_ref()), 0, move |c| rosters::contacts(c, owner.as_ref()))
    }

    fn item(&self, owner: JidRef<'_>, contact: JidRef<'_>) -> Pending<Option<RosterItem>> {
        let (owner, contact) = (owner.bare().to_jid(), contact.to_jid());
        self.glance(self.of(owner.as_ref()), 0, move |c| rosters::item(c, owner.as_ref(), contact.as_ref()))
    }

    fn change(&self, owner: JidRef<'_>, contact: JidRef<'_>, mut edit: EditRoster) -> Pending<Changed> {
        let (owner, contact) = (owner.bare().to_jid(), contact.to_jid());
        // The size of the closure's data is unknown; usually it is at most a whole request stanza.
        self.write(self.of(owner.as_ref()), BYTES_PER_EDIT, move |c| {
            rosters::change(c, owner.as_ref(), contact.as_ref(), &mut edit)
        })
    }

    fn put_many(&self, owner: JidRef<'_>, items: Vec<RosterItem>) -> Pending<()> {
        let owner = owner.bare().to_jid();
        let bytes = items.iter().map(|item| item.jid.as_str().len() + item.bytes()).sum();
        let items = crate::rosters::last_of_each(items);
        self.write(self.of(owner.as_ref()), bytes, move |c| rosters::put_many(c, owner.as_ref(), &items))
    }

    fn pending_in(&self, owner: JidRef<'_>, after: Option<Jid>, limit: usize) -> Pending<Vec<(Jid, Vec<u8>)>> {
        let owner = owner.bare().to_jid();
        self.glance(self.of(owner.as_ref()), 0, move |c| rosters::pending_in(c, owner.as_ref(), after.as_ref(), limit))
    }
}

impl Offline for SqlStore {
    fn push(
        &self,
        to: JidRef<'_>,
        sender: JidRef<'_>,
        stanza: Vec<u8>,
        unix_ms: u64,
        room: OfflineRoom,
    ) -> Pending<Pushed> {
        let (to, sender) = (to.bare().to_jid(), sender.bare().to_jid());
        self.write(self.of(to.as_ref()), stanza.len(), move |c| {
            offline::push(c, to.as_ref(), sender.as_ref(), &stanza, unix_ms, room)
        })
    }

    fn load(&self, owner: JidRef<'_>, after: u64, max_bytes: usize) -> Pending<Vec<OfflineMessage>> {
        let owner = owner.bare().to_jid();
        self.glance(self.of(owner.as_ref()), 0, move |c| offline::load(c, owner.as_ref(), after, max_bytes))
    }

    fn remove(&self, owner: JidRef<'_>, up_to: u64) -> Pending<u64> {
        let owner = owner.bare().to_jid();
        self.write(self.of(owner.as_ref()), 0, move |c| offline::remove(c, owner.as_ref(), up_to))
    }

    fn count(&self, owner: JidRef<'_>) -> Pending<u64> {
        let owner = owner.bare().to_jid();
        self.glance(self.of(owner.as_ref()), 0, move |c| offline::count(c, owner.as_ref()))
    }
}

impl Documents for SqlStore {
    fn get(&self, owner: JidRef<'_>, name: &str) -> Pending<Option<Vec<u8>>> {
        let (owner, name) = (owner.bare().to_jid(), name.to_owned());
        self.glance(self.of(owner.as_ref()), name.len(), move |c| documents::get(c, owner.as_ref(), &name))
    }

    fn put(&self, owner: JidRef<'_>, name: &str, bytes: Option<Vec<u8>>) -> Pending<()> {
        let (owner, name) = (owner.bare().to_jid(), name.to_owned());
        let carried = name.len() + bytes.as_ref().map_or(0, Vec::len);
        self.write(self.of(owner.as_ref()), carried, move |c| {
            documents::put(c, owner.as_ref(), &name, bytes.as_deref())
        })
    }

    fn put_within(
        &self,
        owner: JidRef<'_>,
        prefix: &str,
        documents: Vec<StoredDocument>,
        room: DocumentRoom,
    ) -> Pending<DocumentsPut> {
        let (owner, prefix) = (owner.bare().to_jid(), prefix.to_owned());
        let carried = documents.iter().map(|document| document.name.len() + document.bytes.len()).sum();
        self.write(self.of(owner.as_ref()), carried, move |c| {
            documents::put_within(c, owner.as_ref(), &prefix, &documents, room)
        })
    }

    fn starting(&self, owner: JidRef<'_>, prefix: &str) -> Pending<Vec<StoredDocument>> {
        let (owner, prefix) = (owner.bare().to_jid(), prefix.to_owned());
        self.glance(self.of(owner.as_ref()), prefix.len(), move |c| documents::starting(c, owner.as_ref(), &prefix))
    }

    fn of(&self, owners: Vec<Jid>, name: &str) -> Pending<Vec<(Jid, Vec<u8>)>> {
        let name = name.to_owned();
        let bytes = owners.iter().map(|owner| owner.as_str().len()).sum();
        // They belong to several lanes: the first one's is as good as any.
        let first = owners.first().map_or("", Jid::bare_str);
        self.glance(self.lanes.owner(first), bytes, move |c| documents::of(c, &owners, &name))
    }
}

impl Archive for SqlStore {
    fn append(&self, messages: Arc<[ArchivedMessage]>) -> Pending<()> {
        let bytes = messages.iter().map(|message| message.stanza.len() + BYTES_PER_MESSAGE).sum();
        self.write(self.lanes.archive(messages.iter().map(|message| message.owner.bare_str())), bytes, move |c| {
            archive::append(c, &messages)
        })
    }

    fn page(&self, owner: JidRef<'_>, query: ArchiveQuery) -> Pending<Option<ArchivePage>> {
        let owner = owner.bare().to_jid();
        let route = self.lanes.page(owner.as_str());
        // An id in the request is looked up first, and must not be removed in between; an index is
        // searched with settings of a transaction.
        match query.ids.is_none() && query.terms.is_empty() {
            true => self.glance(route, 0, move |c| archive::page(c, owner.as_ref(), &query)),
            false => self.read(route, 0, move |c| archive::page(c, owner.as_ref(), &query)),
        }
    }

    fn replace(&self, owner: JidRef<'_>, id: u64, stanza: Vec<u8>) -> Pending<bool> {
        let owner = owner.bare().to_jid();
        self.write(self.lanes.archive([owner.as_str()].into_iter()), stanza.len(), move |c| {
            archive::replace(c, owner.as_ref(), id, &stanza)
        })
    }

    fn ends(&self, owner: JidRef<'_>) -> Pending<Option<(u64, u64)>> {
        let owner = owner.bare().to_jid();
        self.glance(self.lanes.page(owner.as_str()), 0, move |c| archive::ends(c, owner.as_ref()))
    }

    fn purge(&self, owner: JidRef<'_>) -> Pending<()> {
        let owner = owner.bare().to_jid();
        self.write(self.lanes.archive([owner.as_str()].into_iter()), 0, move |c| archive::purge(c, owner.as_ref()))
    }

    fn clear(&self, limit: usize) -> Pending<bool> {
        self.write(self.lanes.archive([].into_iter()), 0, move |c| archive::clear(c, limit as u64))
    }

    fn sweep(&self, after: u64, retention: Retention, limit: usize) -> Pending<Swept> {
        self.write(self.lanes.archive([].into_iter()), 0, move |c| archive::sweep(c, after, &retention, limit))
    }

    fn expire(&self, owner: JidRef<'_>, before: u64, limit: usize) -> Pending<u64> {
        let owner = owner.bare().to_jid();
        self.write(self.lanes.archive([owner.as_str()].into_iter()), 0, move |c| {
            archive::expire(c, owner.as_ref(), before, limit as u64)
        })
    }

    fn months(&self, retention: Retention) -> Pending<u64> {
        self.keep_months(retention)
    }
}

impl Invitations for SqlStore {
    fn put(&self, invitation: Invitation, now_ms: u64, limit: usize) -> Pending<bool> {
        let owner = invitation.owner.as_ref().map(Jid::bare_str);
        let route = self.lanes.write_of(owner.into_iter().chain([invitation.token.as_str()]));
        self.write(route, BYTES_PER_EDIT, move |c| invitations::put(c, &invitation, now_ms, limit as u64))
    }

    fn get(&self, token: &str, now_ms: u64) -> Pending<Option<Invitation>> {
        let token = token.to_owned();
        self.glance(self.lanes.owner(&token), token.len(), move |c| invitations::get(c, &token, now_ms))
    }

    fn take(&self, token: &str, now_ms: u64) -> Pending<Option<Invitation>> {
        let token = token.to_owned();
        self.write(self.lanes.owner(&token), token.len(), move |c| invitations::take(c, &token, now_ms))
    }

    fn open(&self, domain: &str, now_ms: u64, limit: usize) -> Pending<Vec<Invitation>> {
        let domain = domain.to_owned();
        self.read(self.lanes.list(), 0, move |c| invitations::open(c, &domain, now_ms, limit))
    }

    fn is_reserved(&self, account: JidRef<'_>, now_ms: u64) -> Pending<bool> {
        let account = account.bare().to_jid();
        self.read(self.lanes.list(), 0, move |c| invitations::is_reserved(c, account.as_ref(), now_ms))
    }
}

impl Slots for SqlStore {
    fn reserve(&self, slot: Slot, quota: SlotQuota) -> Pending<Reserved> {
        self.write(
            self.lanes.write_of([slot.owner.bare_str(), slot.token.as_str()].into_iter()),
            BYTES_PER_EDIT,
            move |c| slots::reserve(c, &slot, quota),
        )
    }

    fn slot(&self, token: &str, now_ms: u64) -> Pending<Option<Slot>> {
        let token = token.to_owned();
        self.glance(self.lanes.owner(&token), token.len(), move |c| slots::slot(c, &token, now_ms))
    }

    fn files_of(&self, owner: JidRef<'_>, now_ms: u64, limit: usize) -> Pending<Vec<Slot>> {
        let owner = owner.bare().to_jid();
        self.read(self.lanes.list(), 0, move |c| slots::files_of(c, owner.as_ref(), now_ms, limit as u64))
    }

    fn advance(&self, token: &str, from: SlotStage, to: SlotStage, now_ms: u64, until_ms: u64) -> Pending<bool> {
        let token = token.to_owned();
        self.write(self.lanes.owner(&token), token.len(), move |c| {
            slots::advance(c, &token, from, to, now_ms, until_ms)
        })
    }

    fn list_expired(&self, now_ms: u64, limit: usize) -> Pending<Vec<String>> {
        self.read(self.lanes.list(), 0, move |c| slots::list_expired(c, now_ms, limit as u64))
    }

    fn forget(&self, token: &str) -> Pending<()> {
        let token = token.to_owned();
        self.write(self.lanes.owner(&token), token.len(), move |c| slots::forget(c, &token))
    }
}

impl LastPresence for SqlStore {
    fn put(&self, owner: JidRef<'_>, unix_ms: u64, stanza: Vec<u8>) -> Pending<()> {
        let owner = owner.bare().to_jid();
        self.write(self.of(owner.as_ref()), stanza.len(), move |c| presence::put(c, owner.as_ref(), unix_ms, &stanza))
    }

    fn last(&self, owner: JidRef<'_>) -> Pending<Option<LastSeen>> {
        let owner = owner.bare().to_jid();
        self.glance(self.of(owner.as_ref()), 0, move |c| presence::last(c, owner.as_ref()))
    }

    fn of(&self, asker: JidRef<'_>, owners: Vec<Jid>, document: &str) -> Pending<Vec<crate::presence::SeenWith>> {
        let (asker, document) = (asker.bare().to_jid(), document.to_owned());
        let bytes = owners.iter().map(|owner| owner.as_str().len()).sum();
        self.glance(self.of(asker.as_ref()), bytes, move |c| presence::of(c, asker.as_ref(), &owners, &document))
    }
}

impl Pubsub for SqlStore {
    fn node(&self, host: JidRef<'_>, node: &str) -> Pending<Option<NodeRecord>> {
        let (host, node) = (host.bare().to_jid(), node.to_owned());
        self.read(self.of(host.as_ref()), 0, move |c| pubsub::node(c, host.as_ref(), &node))
    }

    fn nodes(&self, host: JidRef<'_>, asker: JidRef<'_>, after: &str, limit: usize) -> Pending<Vec<NodeListed>> {
        let (host, asker, after) = (host.bare().to_jid(), asker.bare().to_jid(), after.to_owned());
        self.read(self.of(host.as_ref()), 0, move |c| pubsub::nodes(c, host.as_ref(), asker.as_ref(), &after, limit))
    }

    fn create_node(
        &self,
        host: JidRef<'_>,
        node: &str,
        config: Vec<u8>,
        owner: JidRef<'_>,
        room: NodeRoom,
    ) -> Pending<Created> {
        let (host, node, owner) = (host.bare().to_jid(), node.to_owned(), owner.bare().to_jid());
        let bytes = config.len();
        self.write(self.of(host.as_ref()), bytes, move |c| {
            pubsub::create(c, host.as_ref(), &node, &config, owner.as_ref(), room)
        })
    }

    fn configure_node(&self, host: JidRef<'_>, node: &str, config: Vec<u8>, kept: ItemsKept) -> Pending<bool> {
        let (host, node) = (host.bare().to_jid(), node.to_owned());
        let bytes = config.len();
        self.write(self.of(host.as_ref()), bytes, move |c| pubsub::configure(c, host.as_ref(), &node, &config, kept))
    }

    fn delete_node(&self, host: JidRef<'_>, node: &str) -> Pending<bool> {
        let (host, node) = (host.bare().to_jid(), node.to_owned());
        self.write(self.of(host.as_ref()), 0, move |c| pubsub::delete(c, host.as_ref(), &node))
    }

    fn set_affiliation(
        &self,
        host: JidRef<'_>,
        node: &str,
        entity: JidRef<'_>,
        affiliation: Option<NodeAffiliation>,
        room: NodeRoom,
    ) -> Pending<SetOutcome> {
        let (host, node, entity) = (host.bare().to_jid(), node.to_owned(), entity.bare().to_jid());
        self.write(self.of(host.as_ref()), 0, move |c| {
            pubsub::set_affiliation(c, host.as_ref(), &node, entity.as_ref(), affiliation, room)
        })
    }

    fn set_subscription(
        &self,
        host: JidRef<'_>,
        node: &str,
        subscriber: JidRef<'_>,
        subscription: Option<NodeSubscription>,
        most: usize,
    ) -> Pending<SetOutcome> {
        let (host, node, subscriber) = (host.bare().to_jid(), node.to_owned(), subscriber.to_jid());
        self.write(self.of(host.as_ref()), 0, move |c| {
            pubsub::set_subscription(c, host.as_ref(), &node, subscriber.as_ref(), subscription.as_ref(), most)
        })
    }

    fn publish(&self, host: JidRef<'_>, node: &str, item: Item, kept: ItemsKept, room: NodeRoom) -> Pending<Published> {
        let (host, node) = (host.bare().to_jid(), node.to_owned());
        let bytes = item.payload.len();
        self.write(self.of(host.as_ref()), bytes, move |c| pubsub::publish(c, host.as_ref(), &node, &item, kept, room))
    }

    fn items(&self, host: JidRef<'_>, node: &str, wanted: WantedItems, since_ms: u64) -> Pending<Option<Items>> {
        let (host, node) = (host.bare().to_jid(), node.to_owned());
        self.read(self.of(host.as_ref()), 0, move |c| pubsub::items(c, host.as_ref(), &node, &wanted, since_ms))
    }

    fn retract(&self, host: JidRef<'_>, node: &str, ids: Vec<String>) -> Pending<Vec<String>> {
        let (host, node) = (host.bare().to_jid(), node.to_owned());
        self.write(self.of(host.as_ref()), 0, move |c| pubsub::retract(c, host.as_ref(), &node, &ids))
    }

    fn purge(&self, host: JidRef<'_>, node: &str) -> Pending<u64> {
        let (host, node) = (host.bare().to_jid(), node.to_owned());
        self.write(self.of(host.as_ref()), 0, move |c| pubsub::purge(c, host.as_ref(), &node))
    }

    fn subscriptions_of(&self, host: JidRef<'_>, entity: JidRef<'_>) -> Pending<Vec<(String, Jid, NodeSubscription)>> {
        let (host, entity) = (host.bare().to_jid(), entity.bare().to_jid());
        self.read(self.of(host.as_ref()), 0, move |c| pubsub::subscriptions_of(c, host.as_ref(), entity.as_ref()))
    }

    fn affiliations_of(&self, host: JidRef<'_>, entity: JidRef<'_>) -> Pending<Vec<(String, NodeAffiliation)>> {
        let (host, entity) = (host.bare().to_jid(), entity.bare().to_jid());
        self.read(self.of(host.as_ref()), 0, move |c| pubsub::affiliations_of(c, host.as_ref(), entity.as_ref()))
    }

    fn news(
        &self,
        asker: JidRef<'_>,
        owners: Vec<Jid>,
        nodes: Vec<String>,
        after: Option<(Jid, String)>,
    ) -> Pending<(Vec<News>, bool)> {
        let asker = asker.bare().to_jid();
        let bytes = owners.iter().map(|owner| owner.as_str().len()).sum();
        self.read(self.of(asker.as_ref()), bytes, move |c| {
            pubsub::news(c, asker.as_ref(), &owners, &nodes, after.clone())
        })
    }

    fn accounts_nodes(&self, after: u64, limit: usize) -> Pending<Vec<(u64, Jid, String)>> {
        self.read(self.lanes.list(), 0, move |c| pubsub::accounts_nodes(c, after, limit))
    }
}

impl RoomStore for SqlStore {
    fn list(&self, host: &str) -> Pending<Vec<ListedRoom>> {
        let host = host.to_owned();
        self.read(self.lanes.list(), 0, move |c| rooms::list(c, &host))
    }

    fn load(&self, room: JidRef<'_>) -> Pending<Option<StoredRoom>> {
        let room = room.bare().to_jid();
        self.read(self.of(room.as_ref()), 0, move |c| rooms::load(c, room.as_ref()))
    }

    fn put(&self, room: JidRef<'_>, document: RoomDocument) -> Pending<()> {
        let room = room.bare().to_jid();
        let optional = [&document.subject, &document.vcard].map(|bytes| bytes.as_ref().map_or(0, Vec::len));
        let of_users = document.of_users.iter().map(|(user, said)| user.as_str().len() + said.len());
        let parts = optional.into_iter().chain(of_users).sum::<usize>();
        let bytes = document.name.len() + document.config.len() + parts;
        self.write(self.of(room.as_ref()), bytes, move |c| rooms::put(c, room.as_ref(), &document))
    }

    fn affiliate(&self, room: JidRef<'_>, changes: Vec<Affiliated>) -> Pending<bool> {
        let room = room.bare().to_jid();
        let texts = changes.iter().flat_map(|change| [&change.nick, &change.reason]).flatten().map(String::len);
        let bytes = changes.len().saturating_mul(BYTES_PER_EDIT).saturating_add(texts.sum());
        self.write(self.of(room.as_ref()), bytes, move |c| rooms::affiliate(c, room.as_ref(), &changes))
    }

    fn remove(&self, room: JidRef<'_>) -> Pending<bool> {
        let room = room.bare().to_jid();
        self.write(self.of(room.as_ref()), 0, move |c| rooms::remove(c, room.as_ref()))
    }

    fn known_in(&self, user: JidRef<'_>) -> Pending<u64> {
        let user = user.bare().to_jid();
        self.read(self.lanes.list(), 0, move |c| rooms::known_in(c, user.as_ref()))
    }
}

impl Meta for SqlStore {
    fn get(&self, key: &str) -> Pending<Option<Vec<u8>>> {
        let key = key.to_owned();
        self.glance(self.lanes.owner(&key), 0, move |c| meta::get(c, &key))
    }

    fn put(&self, key: &str, bytes: Vec<u8>) -> Pending<()> {
        let key = key.to_owned();
        self.write(self.lanes.owner(&key), bytes.len(), move |c| meta::put(c, &key, &bytes))
    }

    fn entries(&self, list: &str) -> Pending<Vec<(String, Vec<u8>)>> {
        let list = list.to_owned();
        self.glance(self.lanes.owner(&list), 0, move |c| meta::entries(c, &list))
    }

    fn put_entry(&self, list: &str, name: &str, bytes: Vec<u8>) -> Pending<()> {
        let (list, name) = (list.to_owned(), name.to_owned());
        self.write(self.lanes.owner(&list), bytes.len(), move |c| meta::put_entry(c, &list, &name, &bytes))
    }

    fn add_entry(&self, list: &str, name: &str, bytes: Vec<u8>, most: usize) -> Pending<Added> {
        let (list, name) = (list.to_owned(), name.to_owned());
        self.write(self.lanes.owner(&list), bytes.len(), move |c| meta::add_entry(c, &list, &name, &bytes, most as u64))
    }

    fn remove_entry(&self, list: &str, name: &str) -> Pending<bool> {
        let (list, name) = (list.to_owned(), name.to_owned());
        self.write(self.lanes.owner(&list), 0, move |c| meta::remove_entry(c, &list, &name))
    }

    fn replace_entry(&self, list: &str, name: &str, before: Vec<u8>, after: Option<Vec<u8>>) -> Pending<bool> {
        let (list, name) = (list.to_owned(), name.to_owned());
        let carried = before.len() + after.as_ref().map_or(0, Vec::len);
        self.write(self.lanes.owner(&list), carried, move |c| {
            meta::replace_entry(c, &list, &name, &before, after.as_deref())
        })
    }

    fn set_entries(&self, list: &str, entries: Vec<(String, Vec<u8>)>) -> Pending<()> {
        let list = list.to_owned();
        let carried = entries.iter().map(|(name, bytes)| name.len() + bytes.len()).sum();
        self.write(self.lanes.owner(&list), carried, move |c| meta::set_entries(c, &list, &entries))
    }

    fn look_over(&self) -> Pending<()> {
        self.write(self.lanes.owner(""), 0, meta::look_over)
    }

    fn trouble(&self) -> Option<StoreError> {
        self.obstacle()
    }

    fn activity(&self) -> Activity {
        self.activity_so_far()
    }

    fn statement_times(&self) -> Vec<StatementTimes> {
        self.times_of_statements()
    }

    fn logins_at_once(&self) -> usize {
        self.most_logins()
    }
}

/// The approximate bytes of an account with its credentials in the queue: nine allocations, three
/// structs and an address.
const BYTES_PER_ACCOUNT: usize = 768;

/// The bytes that a roster edit counts for.
const BYTES_PER_EDIT: usize = 1024;

/// The approximate bytes of an archived message in the queue besides its stanza: two addresses
/// and a struct.
const BYTES_PER_MESSAGE: usize = 256;
