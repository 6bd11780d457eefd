//! One account's roster in memory, with versions.

use crate::rosters::{Effect, REMEMBERED_REMOVALS, effect, last_of_each, replacing};
use crate::{Changed, Changes, Edit, EditRoster, Roster, RosterChange, RosterItem, RosterSize, Subscription};
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;

/// A roster with the versions of its changes.
pub(super) struct Versioned {
    version: u64,
    /// The oldest version since which all changes are known.
    oldest: u64,
    /// By address, each with the version of its latest change that clients saw.
    items: BTreeMap<String, (u64, RosterItem)>,
    /// The contacts that vanished for clients, by the version of that change.
    removals: BTreeMap<u64, Jid>,
}

impl Versioned {
    pub(super) fn new(version: u64) -> Versioned {
        Versioned { version, oldest: version, items: BTreeMap::new(), removals: BTreeMap::new() }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self) -> Roster {
        Roster { version: self.version, items: self.items.values().map(|(_, item)| item.clone()).collect() }
    }

    pub(super) fn since(&self, version: u64) -> Option<Changes> {
        if version < self.oldest || version > self.version {
            return None;
        }
        let put = self.items.values().filter(|(_, item)| item.visible());
        let put = put.map(|(version, item)| (*version, RosterChange::Put(item.clone())));
        let removed = self.removals.iter().map(|(version, jid)| (*version, RosterChange::Removed(jid.clone())));
        let mut changes: Vec<_> = put.chain(removed).filter(|(changed, _)| *changed > version).collect();
        changes.sort_unstable_by_key(|(version, _)| *version);
        Some(Changes { version: self.version, changes })
    }

    pub(super) fn contacts(&self) -> Vec<(Jid, Subscription)> {
        let items = self.items.values().map(|(_, item)| item);
        let subscribed = items.filter(|item| item.subscription != Subscription::None);
        subscribed.map(|item| (item.jid.clone(), item.subscription)).collect()
    }

    pub(super) fn pending_in(&self, after: Option<&Jid>, limit: usize) -> Vec<(Jid, Vec<u8>)> {
        let items = self.items.values().map(|(_, item)| item);
        let items = items.filter(|item| after.is_none_or(|after| item.jid.as_str() > after.as_str()));
        items.filter_map(|item| Some((item.jid.clone(), item.pending_in.clone()?))).take(limit).collect()
    }

    fn size(&self) -> RosterSize {
        let seen = self.items.values().map(|(_, item)| item).filter(|item| item.visible());
        let (items, bytes) = seen.fold((0, 0), |(items, bytes), item| (items + 1, bytes + item.bytes()));
        RosterSize { items, requests: self.items.len() - items, bytes }
    }

    /// Returns the item of a contact, whether clients see it or not.
    pub(super) fn item(&self, contact: JidRef<'_>) -> Option<&RosterItem> {
        self.items.get(contact.as_str()).map(|(_, item)| item)
    }

    /// Returns whether the contact may see the owner's presence.
    pub(super) fn lets_see(&self, contact: JidRef<'_>) -> bool {
        self.items.get(contact.as_str()).is_some_and(|(_, item)| item.subscription.from())
    }

    pub(super) fn change(&mut self, contact: JidRef<'_>, edit: &mut EditRoster) -> Changed {
        let found = self.items.get(contact.as_str()).cloned();
        let (item_version, before) = found.map_or((0, None), |(version, item)| (version, Some(item)));
        let after = match edit(before.as_ref(), &mut || self.size()) {
            Edit::Keep => before.clone(),
            Edit::Put(item) => Some(RosterItem { jid: contact.to_jid(), ..item }),
            Edit::Remove => None,
        };
        let effect = effect(before.as_ref(), after.as_ref());
        self.version += u64::from(effect.is_seen());
        match &after {
            Some(item) => {
                let version = if effect == Effect::Put { self.version } else { item_version };
                self.items.insert(contact.as_str().to_owned(), (version, item.clone()));
            }
            None => {
                self.items.remove(contact.as_str());
            }
        }
        self.note_removal(contact, effect);
        Changed { version: self.version, before, after }
    }

    pub(super) fn put_many(&mut self, items: Vec<RosterItem>) {
        for item in last_of_each(items).into_values() {
            let contact = item.jid.clone();
            let mut edit: EditRoster = Box::new(move |before, _| Edit::Put(replacing(before, item.clone())));
            self.change(contact.as_ref(), &mut edit);
        }
    }

    fn note_removal(&mut self, contact: JidRef<'_>, effect: Effect) {
        match effect {
            Effect::Put => self.removals.retain(|_, removed| removed.as_ref() != contact),
            Effect::Removed => {
                self.removals.insert(self.version, contact.to_jid());
            }
            Effect::None | Effect::Unseen => {}
        }
        if self.removals.len() > REMEMBERED_REMOVALS
            && let Some((version, _)) = self.removals.pop_first()
        {
            self.oldest = version;
        }
    }
}
