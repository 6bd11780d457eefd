//! Rosters in memory, for the few accounts with documents that depend on the roster, such as
//! privacy lists by group (XEP-0016 §2.1).
//!
//! Such a roster is loaded after the documents, before anything is delivered, and follows every
//! change of an item, which happens at the home of the account. All other accounts have none.

use rookery_base::Set;
use rookery_jid::{Jid, JidRef};
use rookery_store::{Roster, RosterItem, StoreError};

use crate::World;
use crate::at_hand::{AtHand, KnownItems};
use crate::session::SessionRef;

impl World {
    /// Returns the roster item of a contact, of an account whose roster is in memory; see
    /// [`Document::needs_roster`](crate::Document::needs_roster).
    pub fn roster_item(&self, owner: JidRef<'_>, contact: JidRef<'_>) -> Option<&RosterItem> {
        self.at_hand(owner)?.roster.as_ref()?.get(contact.bare_str())
    }

    /// Returns the groups with members in a roster in memory and in the operator's groups.
    pub fn roster_groups(&self, owner: JidRef<'_>) -> Set<String> {
        let known = self.at_hand(owner).and_then(|at_hand| at_hand.roster.as_ref());
        let own = known.map(|known| known.values().cloned().collect()).unwrap_or_default();
        self.with_shared(owner, own).into_iter().flat_map(|item| item.groups).collect()
    }

    /// Loads the roster of an account that has a session, before a document is set that asks for
    /// it. `then` runs at once if it is in memory.
    pub fn load_roster(
        &mut self,
        session: SessionRef,
        account: &Jid,
        then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
    ) {
        if self.at_hand(account.as_ref()).is_some_and(|at_hand| at_hand.roster.is_some()) {
            return then(self, Ok(()));
        }
        let roster = self.stores.rosters.get(account.as_ref());
        let account = account.to_bare();
        self.wait_in_order(session, roster, move |world, roster| {
            let loaded = roster.map(|roster| {
                if let Some(at_hand) = world.at_hand_mut(account.as_ref()) {
                    at_hand.roster = Some(Box::new(known_items(roster)));
                }
            });
            then(world, loaded);
        });
    }

    /// Goes on with documents that were loaded, and with the roster if one of them asks for it.
    pub(crate) fn with_roster(
        &mut self,
        session: Option<SessionRef>,
        account: &Jid,
        mut at_hand: AtHand,
        then: impl FnOnce(&mut World, Result<AtHand, StoreError>) + 'static,
    ) {
        if !at_hand.needs_roster() {
            return then(self, Ok(at_hand));
        }
        let roster = self.stores.rosters.get(account.as_ref());
        let go_on = move |world: &mut World, roster: Result<Roster, StoreError>| {
            let loaded = roster.map(|roster| {
                at_hand.roster = Some(Box::new(known_items(roster)));
                at_hand
            });
            then(world, loaded);
        };
        match session {
            Some(session) => self.wait_in_order(session, roster, go_on),
            None => self.wait(roster, go_on),
        }
    }

    /// Brings a roster in memory up to date with an item that has changed.
    pub(crate) fn know(&mut self, owner: JidRef<'_>, contact: &Jid, item: Option<&RosterItem>) {
        if self.at_hand(owner).is_none_or(|at_hand| at_hand.roster.is_none()) {
            return;
        }
        let Some(known) = self.at_hand_mut(owner).and_then(|at_hand| at_hand.roster.as_mut()) else { return };
        match item {
            Some(item) => drop(known.insert(contact.clone(), slim(item.clone()))),
            None => drop(known.remove(contact)),
        }
    }
}

fn known_items(roster: Roster) -> KnownItems {
    roster.items.into_iter().map(|item| (item.jid.clone(), slim(item))).collect()
}

/// Removes the stanza of a request, which nobody needs, from an item.
fn slim(item: RosterItem) -> RosterItem {
    RosterItem { pending_in: None, ..item }
}
