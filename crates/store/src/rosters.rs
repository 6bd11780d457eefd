//! Rosters (RFC 6121 §2) with versions (§2.6).
//!
//! Every change that a client can see increments the owner's version. Changes since an older
//! version are found by the items' own versions and a bounded list of removed contacts; for a
//! version that is older than that list, or was never assigned, there is only the whole roster.
//! Versions never repeat, not even when an account is removed and created again, so a client's
//! cache of the old account never counts as a part of the new one.

use crate::Pending;
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;

/// The rosters of all accounts. Every method returns [`NoAccount`](crate::StoreError::NoAccount) if
/// the owner isn't one.
pub trait Rosters: Send + Sync {
    /// Returns the whole roster, ordered by the bytes of the contacts' JIDs, including the items
    /// that clients must not see.
    fn get(&self, owner: JidRef<'_>) -> Pending<Roster>;

    /// Returns the changes for a client that has `version` (RFC 6121 §2.6.3); `None` if it has to
    /// get the whole roster.
    fn since(&self, owner: JidRef<'_>, version: u64) -> Pending<Option<Changes>>;

    /// Returns the contacts with a subscription in either direction, without the data that is only
    /// for display: for presence.
    fn contacts(&self, owner: JidRef<'_>) -> Pending<Vec<(Jid, Subscription)>>;

    /// Returns one item, whether or not clients see it. `contact` is used as it is, with its
    /// resource if it has one.
    fn item(&self, owner: JidRef<'_>, contact: JidRef<'_>) -> Pending<Option<RosterItem>>;

    /// Reads one item, calls `edit` for a decision, and writes the result, all in one step that
    /// nothing overtakes.
    ///
    /// `contact` is used as it is, with its resource if it has one. `edit` runs on the store's
    /// thread: it must be quick and must not use this store. If it panics, nothing changes and the
    /// result is [`Panicked`](crate::StoreError::Panicked).
    fn change(&self, owner: JidRef<'_>, contact: JidRef<'_>, edit: EditRoster) -> Pending<Changed>;

    /// Writes many items at once, as an import does, in one step: each replaces the item of the
    /// same address, except for a contact's request that waits for the owner's decision. Of several
    /// items with one address the last one counts. The version increases for each item that clients
    /// see differently.
    ///
    /// The caller bounds their number, since all of them are one operation.
    fn put_many(&self, owner: JidRef<'_>, items: Vec<RosterItem>) -> Pending<()>;

    /// Returns the subscription requests that wait for the owner's decision (RFC 6121 §3.1.3), with
    /// the stanza of each: in the order of the contacts' JIDs, at most `limit` after `after`.
    fn pending_in(&self, owner: JidRef<'_>, after: Option<Jid>, limit: usize) -> Pending<Vec<(Jid, Vec<u8>)>>;
}

/// Decides about one roster item, given its current state (if it exists) and the size of the
/// roster, which is computed only on demand. It may be called again with a newer state; the last
/// decision counts.
pub type EditRoster = Box<dyn FnMut(Option<&RosterItem>, SizeOf<'_>) -> Edit + Send>;

/// A function that determines the size of a roster.
pub type SizeOf<'a> = &'a mut dyn FnMut() -> RosterSize;

/// The counts by which the limits of a roster are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RosterSize {
    /// Items that clients see.
    pub items: usize,
    /// Items hidden from clients: requests from users who aren't contacts.
    pub requests: usize,
    /// Bytes of the items that clients see: see [`RosterItem::bytes`].
    pub bytes: usize,
}

/// The decision of an [`EditRoster`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Leave everything as it is.
    Keep,
    /// Write this item. Its JID is set to the contact's.
    Put(RosterItem),
    /// Remove the item, if there is one.
    Remove,
}

/// The effect of [`Rosters::change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The roster's version now; it only increases if a client sees a difference.
    pub version: u64,
    /// The item before.
    pub before: Option<RosterItem>,
    /// The item now.
    pub after: Option<RosterItem>,
}

/// A whole roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// The version after the newest change that clients can see (RFC 6121 §2.6).
    pub version: u64,
    /// Its items; clients may see the [visible](RosterItem::visible) ones.
    pub items: Vec<RosterItem>,
}

/// The changes of a roster since a version, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The roster's version now.
    pub version: u64,
    /// One change per contact, each with the version that it made: one roster push each (RFC 6121
    /// §2.6.3).
    pub changes: Vec<(u64, RosterChange)>,
}

/// The latest change of one contact, as a client must see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RosterChange {
    /// The item is new or different, and visible.
    Put(RosterItem),
    /// The item is gone, or clients must not see it any more.
    Removed(Jid),
}

/// A contact in a roster (RFC 6121 §2.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterItem {
    /// The contact.
    pub jid: Jid,
    /// The owner's name for the contact.
    pub name: Option<String>,
    /// The groups that the contact is in, in the owner's order.
    pub groups: Vec<String>,
    /// The directions in which presence is seen.
    pub subscription: Subscription,
    /// True if the owner asked to see the contact's presence and has no answer yet
    /// (`ask='subscribe'`).
    pub ask: bool,
    /// True if the owner approved a request before it arrived (RFC 6121 §3.4).
    pub approved: bool,
    /// The contact's subscription request that the owner hasn't answered: the whole stanza (RFC
    /// 6121 §3.1.3).
    pub pending_in: Option<Vec<u8>>,
    /// True if the owner has the contact in the roster, regardless of the subscription. It is false
    /// only for an item that a request from the contact created.
    pub listed: bool,
}

impl RosterItem {
    /// Returns an item as a roster set creates it (RFC 6121 §2.3): no name, no groups, no
    /// subscription.
    pub fn new(jid: Jid) -> RosterItem {
        RosterItem {
            jid,
            name: None,
            groups: Vec::new(),
            subscription: Subscription::None,
            ask: false,
            approved: false,
            pending_in: None,
            listed: true,
        }
    }

    /// Returns an item that exists only because the contact requested a subscription with this
    /// stanza: clients don't see it.
    pub fn for_request(jid: Jid, stanza: Vec<u8>) -> RosterItem {
        RosterItem { pending_in: Some(stanza), listed: false, ..RosterItem::new(jid) }
    }

    /// Returns the bytes that the owner's choices take: address, name, and groups with a few bytes
    /// for each.
    pub fn bytes(&self) -> usize {
        let group = |group: &String| group.len() + 2 + group.len().checked_ilog10().unwrap_or_default() as usize;
        let name = self.name.as_ref().map_or(0, String::len);
        self.jid.as_str().len() + name + self.groups.iter().map(group).sum::<usize>()
    }

    /// Returns whether clients may see the item: not while it consists only of the contact's
    /// request (RFC 6121 §3.1.3).
    pub fn visible(&self) -> bool {
        self.listed
            || self.subscription != Subscription::None
            || self.ask
            || self.approved
            || self.name.is_some()
            || !self.groups.is_empty()
    }

    /// Returns whether two visible items look the same to a client.
    pub(crate) fn looks_like(&self, other: &RosterItem) -> bool {
        self.name == other.name
            && self.groups == other.groups
            && self.subscription == other.subscription
            && self.ask == other.ask
            && self.approved == other.approved
    }
}

/// The directions in which owner and contact see each other's presence (RFC 6121 §2.1.2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Subscription {
    /// Neither.
    #[default]
    None,
    /// The owner sees the contact's.
    To,
    /// The contact sees the owner's.
    From,
    /// Owner and contact see each other's.
    Both,
}

impl Subscription {
    /// Returns the value with these two directions.
    pub fn new(to: bool, from: bool) -> Subscription {
        match (to, from) {
            (false, false) => Subscription::None,
            (true, false) => Subscription::To,
            (false, true) => Subscription::From,
            (true, true) => Subscription::Both,
        }
    }

    /// Returns whether the owner sees the contact's presence.
    pub fn to(self) -> bool {
        matches!(self, Subscription::To | Subscription::Both)
    }

    /// Returns whether the contact sees the owner's presence.
    pub fn from(self) -> bool {
        matches!(self, Subscription::From | Subscription::Both)
    }

    /// Returns this subscription with the direction "owner sees contact" set to this value.
    pub fn with_to(self, to: bool) -> Subscription {
        Subscription::new(to, self.from())
    }

    /// Returns this subscription with the direction "contact sees owner" set to this value.
    pub fn with_from(self, from: bool) -> Subscription {
        Subscription::new(self.to(), from)
    }

    /// Returns the value of the `subscription` attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Subscription::None => "none",
            Subscription::To => "to",
            Subscription::From => "from",
            Subscription::Both => "both",
        }
    }
}

/// The effect of a changed item on clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// There is no change.
    None,
    /// There is a change, but clients can't see it.
    Unseen,
    /// Clients see a new or different item.
    Put,
    /// Clients see the item vanish.
    Removed,
}

impl Effect {
    /// Returns whether the change makes a new version.
    pub(crate) fn is_seen(self) -> bool {
        matches!(self, Effect::Put | Effect::Removed)
    }
}

/// Returns the effect on clients when an item changes from one state to another.
pub(crate) fn effect(before: Option<&RosterItem>, after: Option<&RosterItem>) -> Effect {
    if before == after {
        return Effect::None;
    }
    match (before.filter(|item| item.visible()), after.filter(|item| item.visible())) {
        (Some(before), Some(after)) if before.looks_like(after) => Effect::Unseen,
        (_, Some(_)) => Effect::Put,
        (Some(_), None) => Effect::Removed,
        (None, None) => Effect::Unseen,
    }
}

/// Returns the items by their addresses, of several with one address only the last.
pub(crate) fn last_of_each(items: Vec<RosterItem>) -> BTreeMap<String, RosterItem> {
    items.into_iter().map(|item| (item.jid.as_str().to_owned(), item)).collect()
}

/// Returns the item that results when [`Rosters::put_many`] writes over another one.
pub(crate) fn replacing(before: Option<&RosterItem>, item: RosterItem) -> RosterItem {
    RosterItem { pending_in: before.and_then(|before| before.pending_in.clone()), ..item }
}

/// The number of removed contacts per roster that are kept for [`Rosters::since`].
pub const REMEMBERED_REMOVALS: usize = 1000;
