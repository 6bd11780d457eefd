//! Changes of an account's contacts by operators: the name and the groups, or the contact itself.
//! The store and the account's clients treat them as the account's own roster set (RFC 6121 §2.3
//! to §2.5).

use rookery_jid::Jid;
use rookery_store::{Changed, Edit, RosterItem, SizeOf, StoreError};
use serde::{Deserialize, Serialize};

use crate::World;
use crate::roster::RosterSet;

/// A contact as an operator wants it to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedContact {
    /// The contact's bare JID.
    pub contact: Jid,
    /// The owner's name for the contact.
    pub name: Option<String>,
    /// The names of the groups; an empty list takes the contact out of all of them.
    pub groups: Vec<String>,
    /// True if the contact is to be removed.
    pub is_removal: bool,
}

/// The outcome of changing a contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContactOutcome {
    /// The roster is now as requested.
    Done,
    /// The account has no such contact.
    Missing,
    /// The roster is full, or a text is longer than texts of rosters may be.
    Full,
    /// It is a contact by a group, which can't be removed here.
    Shared,
}

impl World {
    /// Changes a contact of an account whose home this is, and pushes the change to its clients.
    pub fn change_contact(
        &mut self,
        owner: Jid,
        wanted: WantedContact,
        then: impl FnOnce(&mut World, Result<ContactOutcome, StoreError>) + 'static,
    ) {
        let limits = self.catalogue.settings.roster;
        let WantedContact { contact, name, groups, is_removal } = wanted;
        if is_removal && self.join_parts(owner.as_ref(), &contact, None).is_some() {
            return then(self, Ok(ContactOutcome::Shared));
        }
        let is_long = name.as_ref().is_some_and(|name| name.len() > limits.name_bytes)
            || groups.len() > limits.groups
            || groups.iter().any(|group| group.is_empty() || group.len() > limits.group_bytes);
        if is_long || contact == owner {
            return then(self, Ok(ContactOutcome::Full));
        }
        let set = RosterSet { jid: contact.clone(), name: name.clone(), groups: groups.clone(), remove: is_removal };
        let edit = move |item: Option<&RosterItem>, size: SizeOf<'_>| -> Edit { set.edit(item, size, &limits) };
        let changed = self.stores.rosters.change(owner.as_ref(), contact.as_ref(), Box::new(edit));
        self.wait(changed, move |world, changed| {
            let outcome = changed.map(|changed| {
                let outcome = outcome(&changed, is_removal, |item| item.name == name && item.groups == groups);
                if outcome == ContactOutcome::Done {
                    world.roster_changed(&owner, &contact, &changed);
                    if is_removal {
                        world.end_subscriptions(&owner, &contact, &changed);
                    }
                }
                outcome
            });
            then(world, outcome);
        });
    }
}

fn outcome(changed: &Changed, is_removal: bool, is_wanted: impl Fn(&RosterItem) -> bool) -> ContactOutcome {
    let was_there = changed.before.as_ref().is_some_and(RosterItem::visible);
    match is_removal {
        true if !was_there => ContactOutcome::Missing,
        true => ContactOutcome::Done,
        false if changed.after.as_ref().is_some_and(|item| item.listed && is_wanted(item)) => ContactOutcome::Done,
        false => ContactOutcome::Full,
    }
}
