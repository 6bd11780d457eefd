//! The right to know that an account exists (XEP-0030 §8, RFC 6121 §8.5.1).
//!
//! For every asker but the account itself, the store is asked whether the account exists, even
//! while it is online. So the time until a reply reveals no more than the reply does.

use rookery_hub::failure::condition;
use rookery_hub::{Iq, World};
use rookery_store::{StoreError, Subscription};

/// The things that an asker may learn about the account that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// The account's existence and the state of its resources. The asker is the account itself, or
    /// a contact that gets its presence.
    Trusted,
    /// Nothing, not even whether it exists.
    Stranger,
}

/// Continues with a request to an account once the rights of its sender are known.
pub fn with_asker(world: &mut World, iq: Iq, then: impl FnOnce(&mut World, Iq, Asker) + 'static) {
    if iq.is_own() {
        return then(world, iq, Asker::Trusted);
    }
    let item = world.stores.rosters.item(iq.to.bare(), iq.from.bare());
    world.wait(item, move |world, item| match item {
        Ok(item) => {
            let subscription = item.map_or(Subscription::None, |item| item.subscription);
            let is_shown = subscription.from() || world.shared_relation(iq.to.as_ref(), iq.from.as_ref()).from();
            let asker = if is_shown { Asker::Trusted } else { Asker::Stranger };
            then(world, iq, asker);
        }
        Err(StoreError::NoAccount) => then(world, iq, Asker::Stranger),
        Err(error) => {
            world.store_failed("looking up who may know of an account", &iq.to, &error);
            world.reply_error(&iq, condition(&error));
        }
    });
}
