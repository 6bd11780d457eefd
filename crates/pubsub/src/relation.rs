//! Finds out the relation of an asker to a node's owner.

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::StoreError;

use super::error::store_failure;
use super::node::{PubsubNode, Relation};
use super::request::PubsubCall;

/// Finds out how an account sees the asker, then calls `then`; with `None` if the store failed,
/// after the asker got an error.
pub(super) fn relation(
    world: &mut World,
    owner: &Jid,
    call: PubsubCall,
    then: impl FnOnce(&mut World, Option<PubsubCall>) + 'static,
) {
    let found = world.stores.rosters.item(owner.as_ref(), call.iq.from.bare());
    let owner = owner.clone();
    world.wait(found, move |world, found| {
        let item = match found {
            Ok(found) => world.join_parts(owner.as_ref(), &call.iq.from.to_bare(), found),
            Err(StoreError::NoAccount) => None,
            Err(error) => {
                world.store_failed("looking up who may use a node", &owner, &error);
                call.refuse(world, store_failure(&error));
                return then(world, None);
            }
        };
        let seen = item.filter(|item| item.subscription.from());
        let relation = seen.map(|item| Relation { sees_presence: true, groups: item.groups }).unwrap_or_default();
        then(world, Some(PubsubCall { relation: Some(relation), ..call }));
    });
}

/// Returns the owner of a node whose roster decides who may use it: the first with an account here.
pub(super) fn local_owner(world: &World, node: &PubsubNode) -> Option<Jid> {
    node.owners().find(|owner| owner.local().is_some() && world.domain(owner.domain()).is_some()).cloned()
}
