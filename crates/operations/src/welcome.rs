//! The message that welcomes new accounts (XEP-0133 §4.27), stored for each domain.

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::{Pending, Stores};
use rookery_xml::Writer;

use crate::rights::ADMINISTRATION;

/// Welcomes a new account, if there is a message for that.
pub fn welcome(world: &mut World, account: &Jid) {
    if world.domain(account.domain()).is_none_or(|domain| domain.module(ADMINISTRATION).is_none()) {
        return;
    }
    let account = account.clone();
    let kept = world.stores.meta.get(&key(account.domain()));
    world.wait(kept, move |world, kept| match kept {
        Ok(Some(bytes)) if !bytes.is_empty() => {
            let mut message = Writer::new("message");
            message.attr("type", "normal").attr("id", &world.unique_text()).attr("from", account.domain());
            message.text_child("body", &String::from_utf8_lossy(&bytes));
            world.route_built(&message.finish(), &account);
        }
        Ok(_) => {}
        Err(error) => world.store_failed("reading the welcome message", &account, &error),
    });
}

/// Returns the message of a domain; `None` if none was ever set.
pub fn text(stores: &Stores, domain: &str) -> Pending<Option<String>> {
    let kept = stores.meta.get(&key(domain));
    Box::pin(async move { Ok(kept.await?.and_then(|bytes| String::from_utf8(bytes).ok())) })
}

/// Sets the message of a domain; an empty one switches it off.
pub fn set_text(stores: &Stores, domain: &str, text: String) -> Pending<()> {
    stores.meta.put(&key(domain), text.into_bytes())
}

fn key(domain: &str) -> String {
    format!("welcome/{domain}")
}
