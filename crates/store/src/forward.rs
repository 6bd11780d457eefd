//! Stores that wrap others and pass every operation on: see [`Forward`].
//!
//! For every method of every trait, this file also defines the owners by which the contract orders
//! its operations.

use crate::documents::{DocumentRoom, DocumentsPut};
use crate::pubsub::{
    Created, Item, Items, ItemsKept, News, NodeAffiliation, NodeListed, NodeRecord, NodeRoom, NodeSubscription,
    Published, SetOutcome, WantedItems,
};
use crate::{
    Accounts, Activity, Added, Affiliated, Archive, ArchivePage, ArchiveQuery, ArchivedMessage, Browsed, Changed,
    Changes, Choice, Documents, EditRoster, Invitation, Invitations, LastPresence, LastSeen, ListedRoom, Meta, Offline,
    OfflineMessage, OfflineRoom, Pending, Pubsub, Pushed, Reserved, Retention, RoomDocument, RoomStore, Roster,
    RosterItem, Rosters, Slot, SlotQuota, SlotStage, Slots, StatementTimes, StoreError, StoredDocument, StoredRoom,
    Stores, Subscription, Swept,
};
use rookery_jid::{Jid, JidRef};
use rookery_sasl::Credentials;
use std::sync::Arc;

/// Stores that wrap others: a type that implements this implements all traits of the stores.
pub trait Forward: Send + Sync {
    /// Returns the wrapped stores.
    fn inner(&self) -> &Stores;

    /// Returns the number of logins that may be in progress at a time: see
    /// [`Meta::logins_at_once`].
    fn most_logins(&self) -> usize {
        self.inner().meta.logins_at_once()
    }

    /// Passes an operation on, now or later, by calling `call`.
    fn forward<T: Send + 'static>(
        &self,
        owners: Owners,
        call: impl FnOnce(&Stores) -> Pending<T> + Send + 'static,
    ) -> Pending<T>;
}

/// The owners by which an operation is ordered: it takes effect after earlier operations that
/// share an owner with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Accounts, rooms, hosts of nodes, tokens and names of settings, in order.
    These(Vec<String>),
    /// The archives of these owners: only operations on archives wait for it.
    Archives(Vec<String>),
    /// All owners, since it changes data of many.
    All,
}

impl Owners {
    /// No owners: a list or a count, which shows the moment at which it is made.
    pub const NONE: Owners = Owners::These(Vec::new());

    /// Returns the owners of an operation on one bare JID or other name.
    fn one(owner: impl Into<String>) -> Owners {
        Owners::These(vec![owner.into()])
    }

    fn of(owner: JidRef<'_>) -> Owners {
        Owners::one(owner.bare_str())
    }

    fn many<'a>(owners: impl Iterator<Item = JidRef<'a>>) -> Owners {
        let mut owners: Vec<_> = owners.map(|owner| owner.bare_str().to_owned()).collect();
        owners.sort_unstable();
        owners.dedup();
        Owners::These(owners)
    }

    fn of_archives(self) -> Owners {
        match self {
            Owners::These(owners) => Owners::Archives(owners),
            other => other,
        }
    }

    /// Returns whether an operation takes effect after another one that was called before it.
    pub fn waits_for(&self, earlier: &Owners) -> bool {
        match (self, earlier) {
            (Owners::All, _) | (_, Owners::All) => true,
            (Owners::These(_), Owners::Archives(_)) => false,
            (Owners::These(own) | Owners::Archives(own), Owners::These(other) | Owners::Archives(other)) => {
                own.iter().any(|owner| other.contains(owner))
            }
        }
    }
}

/// Returns the type of an argument: `jid`, `text`, both optionally with `maybe_`, or a type in
/// brackets that is passed on unchanged.
macro_rules! borrowed {
    (jid) => { JidRef<'_> };
    (text) => { &str };
    (maybe_jid) => { Option<JidRef<'_>> };
    (maybe_text) => { Option<&str> };
    ([$type:ty]) => { $type };
}

macro_rules! owned {
    (jid $arg:ident) => {
        $arg.to_jid()
    };
    (text $arg:ident) => {
        $arg.to_owned()
    };
    (maybe_jid $arg:ident) => {
        $arg.map(JidRef::to_jid)
    };
    (maybe_text $arg:ident) => {
        $arg.map(str::to_owned)
    };
    ([$type:ty] $arg:ident) => {
        $arg
    };
}

macro_rules! lent {
    (jid $arg:ident) => {
        $arg.as_ref()
    };
    (text $arg:ident) => {
        &$arg
    };
    (maybe_jid $arg:ident) => {
        $arg.as_ref().map(Jid::as_ref)
    };
    (maybe_text $arg:ident) => {
        $arg.as_deref()
    };
    ([$type:ty] $arg:ident) => {
        $arg
    };
}

/// Implements the methods of a trait, each with its arguments, its answer and its owners.
macro_rules! forward {
    ($Trait:ident in $field:ident {
        $($method:ident($($arg:ident: $kind:tt),* $(,)?) -> $answer:ty, of $owners:expr;)*
    } $($rest:tt)*) => {
        impl<F: Forward> $Trait for F {
            $(fn $method(&self, $($arg: borrowed!($kind)),*) -> Pending<$answer> {
                let owners = $owners;
                $(let $arg = owned!($kind $arg);)*
                self.forward(owners, move |stores| stores.$field.$method($(lent!($kind $arg)),*))
            })*
            $($rest)*
        }
    };
}

forward! { Accounts in accounts {
    credentials(account: jid) -> Option<Credentials>, of Owners::of(account);
    for_login(account: jid) -> Option<(Credentials, bool)>, of Owners::of(account);
    create(account: jid, credentials: [Credentials]) -> bool, of Owners::of(account);
    create_many(accounts: [Vec<(Jid, Credentials)>]) -> Vec<bool>,
        of Owners::many(accounts.iter().map(|(account, _)| account.as_ref()));
    set_credentials(account: jid, credentials: [Credentials]) -> bool, of Owners::of(account);
    remove(account: jid) -> bool, of { let _ = account; Owners::All };
    exists(account: jid) -> bool, of Owners::of(account);
    set_disabled(account: jid, disabled: [bool]) -> bool, of Owners::of(account);
    is_disabled(account: jid) -> bool, of Owners::of(account);
    list(domain: text, after: maybe_jid, limit: [usize]) -> Vec<Jid>, of Owners::NONE;
    list_disabled(domain: text, after: maybe_jid, limit: [usize]) -> Vec<Jid>, of Owners::NONE;
    browse(domain: text, choice: [Choice]) -> Browsed, of Owners::NONE;
    iterations() -> Vec<(u32, u64)>, of Owners::NONE;
    count_disabled(domain: text) -> u64, of Owners::NONE;
    count(domain: maybe_text) -> u64, of Owners::NONE;
}}

forward! { Rosters in rosters {
    get(owner: jid) -> Roster, of Owners::of(owner);
    since(owner: jid, version: [u64]) -> Option<Changes>, of Owners::of(owner);
    contacts(owner: jid) -> Vec<(Jid, Subscription)>, of Owners::of(owner);
    item(owner: jid, contact: jid) -> Option<RosterItem>, of Owners::of(owner);
    change(owner: jid, contact: jid, edit: [EditRoster]) -> Changed, of Owners::of(owner);
    put_many(owner: jid, items: [Vec<RosterItem>]) -> (), of Owners::of(owner);
    pending_in(owner: jid, after: [Option<Jid>], limit: [usize]) -> Vec<(Jid, Vec<u8>)>, of Owners::of(owner);
}}

forward! { Offline in offline {
    push(to: jid, sender: jid, stanza: [Vec<u8>], unix_ms: [u64], room: [OfflineRoom]) -> Pushed, of Owners::of(to);
    load(owner: jid, after: [u64], max_bytes: [usize]) -> Vec<OfflineMessage>, of Owners::of(owner);
    remove(owner: jid, up_to: [u64]) -> u64, of Owners::of(owner);
    count(owner: jid) -> u64, of Owners::of(owner);
}}

forward! { Documents in documents {
    get(owner: jid, name: text) -> Option<Vec<u8>>, of Owners::of(owner);
    put(owner: jid, name: text, bytes: [Option<Vec<u8>>]) -> (), of Owners::of(owner);
    put_within(owner: jid, prefix: text, documents: [Vec<StoredDocument>], room: [DocumentRoom]) -> DocumentsPut,
        of Owners::of(owner);
    starting(owner: jid, prefix: text) -> Vec<StoredDocument>, of Owners::of(owner);
    of(owners: [Vec<Jid>], name: text) -> Vec<(Jid, Vec<u8>)>, of Owners::NONE;
}}

forward! { Archive in archive {
    append(messages: [Arc<[ArchivedMessage]>]) -> (),
        of Owners::many(messages.iter().map(|message| message.owner.as_ref())).of_archives();
    page(owner: jid, query: [ArchiveQuery]) -> Option<ArchivePage>, of Owners::of(owner).of_archives();
    replace(owner: jid, id: [u64], stanza: [Vec<u8>]) -> bool, of Owners::of(owner).of_archives();
    ends(owner: jid) -> Option<(u64, u64)>, of Owners::of(owner).of_archives();
    purge(owner: jid) -> (), of Owners::of(owner).of_archives();
    clear(limit: [usize]) -> bool, of Owners::NONE;
    sweep(after: [u64], retention: [Retention], limit: [usize]) -> Swept, of Owners::NONE;
    expire(owner: jid, before: [u64], limit: [usize]) -> u64, of Owners::of(owner).of_archives();
    months(retention: [Retention]) -> u64, of Owners::NONE;
}}

forward! { Invitations in invitations {
    put(invitation: [Invitation], now_ms: [u64], limit: [usize]) -> bool, of {
        let owner = invitation.owner.as_ref().map(|owner| owner.bare_str().to_owned());
        Owners::These(owner.into_iter().chain([invitation.token.clone()]).collect())
    };
    get(token: text, now_ms: [u64]) -> Option<Invitation>, of Owners::one(token);
    take(token: text, now_ms: [u64]) -> Option<Invitation>, of Owners::one(token);
    open(domain: text, now_ms: [u64], limit: [usize]) -> Vec<Invitation>, of Owners::NONE;
    is_reserved(account: jid, now_ms: [u64]) -> bool, of { let _ = account; Owners::NONE };
}}

forward! { Slots in slots {
    reserve(slot: [Slot], quota: [SlotQuota]) -> Reserved,
        of Owners::These(vec![slot.owner.bare_str().to_owned(), slot.token.clone()]);
    slot(token: text, now_ms: [u64]) -> Option<Slot>, of Owners::one(token);
    files_of(owner: jid, now_ms: [u64], limit: [usize]) -> Vec<Slot>, of { let _ = owner; Owners::NONE };
    advance(token: text, from: [SlotStage], to: [SlotStage], now_ms: [u64], until_ms: [u64]) -> bool,
        of Owners::one(token);
    list_expired(now_ms: [u64], limit: [usize]) -> Vec<String>, of Owners::NONE;
    forget(token: text) -> (), of Owners::one(token);
}}

forward! { LastPresence in last_presence {
    put(owner: jid, unix_ms: [u64], stanza: [Vec<u8>]) -> (), of Owners::of(owner);
    last(owner: jid) -> Option<LastSeen>, of Owners::of(owner);
    of(asker: jid, owners: [Vec<Jid>], document: text) -> Vec<crate::presence::SeenWith>, of Owners::of(asker);
}}

forward! { Pubsub in pubsub {
    node(host: jid, node: text) -> Option<NodeRecord>, of Owners::of(host);
    nodes(host: jid, asker: jid, after: text, limit: [usize]) -> Vec<NodeListed>, of Owners::of(host);
    create_node(host: jid, node: text, config: [Vec<u8>], owner: jid, room: [NodeRoom]) -> Created, of Owners::of(host);
    configure_node(host: jid, node: text, config: [Vec<u8>], kept: [ItemsKept]) -> bool, of Owners::of(host);
    delete_node(host: jid, node: text) -> bool, of Owners::of(host);
    set_affiliation(host: jid, node: text, entity: jid, affiliation: [Option<NodeAffiliation>], room: [NodeRoom]) -> SetOutcome,
        of Owners::of(host);
    set_subscription(
        host: jid,
        node: text,
        subscriber: jid,
        subscription: [Option<NodeSubscription>],
        most: [usize],
    ) -> SetOutcome, of Owners::of(host);
    publish(host: jid, node: text, item: [Item], kept: [ItemsKept], room: [NodeRoom]) -> Published, of Owners::of(host);
    items(host: jid, node: text, wanted: [WantedItems], since_ms: [u64]) -> Option<Items>, of Owners::of(host);
    retract(host: jid, node: text, ids: [Vec<String>]) -> Vec<String>, of Owners::of(host);
    purge(host: jid, node: text) -> u64, of Owners::of(host);
    subscriptions_of(host: jid, entity: jid) -> Vec<(String, Jid, NodeSubscription)>, of Owners::of(host);
    affiliations_of(host: jid, entity: jid) -> Vec<(String, NodeAffiliation)>, of Owners::of(host);
    news(asker: jid, owners: [Vec<Jid>], nodes: [Vec<String>], after: [Option<(Jid, String)>]) -> (Vec<News>, bool),
        of Owners::of(asker);
    accounts_nodes(after: [u64], limit: [usize]) -> Vec<(u64, Jid, String)>, of Owners::NONE;
}}

forward! { RoomStore in rooms {
    list(host: text) -> Vec<ListedRoom>, of Owners::NONE;
    load(room: jid) -> Option<StoredRoom>, of Owners::of(room);
    put(room: jid, document: [RoomDocument]) -> (), of Owners::of(room);
    affiliate(room: jid, changes: [Vec<Affiliated>]) -> bool, of Owners::of(room);
    remove(room: jid) -> bool, of Owners::of(room);
    known_in(user: jid) -> u64, of { let _ = user; Owners::NONE };
}}

forward! { Meta in meta {
    get(key: text) -> Option<Vec<u8>>, of Owners::one(key);
    put(key: text, bytes: [Vec<u8>]) -> (), of Owners::one(key);
    entries(list: text) -> Vec<(String, Vec<u8>)>, of Owners::one(list);
    put_entry(list: text, name: text, bytes: [Vec<u8>]) -> (), of Owners::one(list);
    add_entry(list: text, name: text, bytes: [Vec<u8>], most: [usize]) -> Added, of Owners::one(list);
    remove_entry(list: text, name: text) -> bool, of Owners::one(list);
    replace_entry(list: text, name: text, before: [Vec<u8>], after: [Option<Vec<u8>>]) -> bool, of Owners::one(list);
    set_entries(list: text, entries: [Vec<(String, Vec<u8>)>]) -> (), of Owners::one(list);
}
    fn trouble(&self) -> Option<StoreError> {
        self.inner().meta.trouble()
    }

    fn activity(&self) -> Activity {
        self.inner().meta.activity()
    }

    fn statement_times(&self) -> Vec<StatementTimes> {
        self.inner().meta.statement_times()
    }

    fn logins_at_once(&self) -> usize {
        self.most_logins()
    }
}
