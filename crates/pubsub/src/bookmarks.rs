//! XEP-0402: PEP Native Bookmarks, and the older kinds, which are the same bookmarks in another
//! form.
//!
//! Bookmarks are stored as the items of the node `urn:xmpp:bookmarks:1` only. A client that asks
//! for bookmarks in private storage (XEP-0049), or for the one item of the node `storage:bookmarks`
//! (XEP-0048), gets them translated; bookmarks written there are split into items. So no two copies
//! can differ (XEP-0411). Bookmarks of web pages are not kept, as XEP-0402 has none.

use rookery_base::{Map, Set};
use rookery_hub::failure::condition;
use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_store::pubsub::{Item, WantedItems};
use rookery_stream::error::Condition;
use rookery_xml::{Element, Writer, ns};

use super::config::{Access, NodeConfig, SendLast};
pub use super::legacy::LEGACY;
use super::legacy::{CURRENT, MAX_BOOKMARKS, legacy};
use super::request::{PubsubCall, RequestAction};
use super::{create, publish};

/// Translates bookmarks of the older kind for an import, from either storage: returns the
/// configuration of the node [`ns::BOOKMARKS`], and each item's id and payload. Those without an
/// address are left out.
pub fn import(storage: &Element) -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
    let mut with_address = storage.clone();
    with_address.retain_children(|child| child.attr("jid").is_some_and(|jid| Jid::parse(jid).is_ok()));
    let items = conferences(&with_address).unwrap_or_default().into_iter().take(MAX_BOOKMARKS);
    (config().to_bytes(), items.map(|(id, conference)| (id, Writer::write(&conference).into_bytes())).collect())
}

/// Replies to a request for bookmarks in private storage (XEP-0049).
pub(super) fn private(world: &mut World, iq: Iq) {
    if iq.set {
        let storage = iq.payload.child("storage", LEGACY).cloned();
        return replace(world, iq, storage, |world, iq| world.reply_done(iq));
    }
    with_items(world, iq, |world, iq, items| {
        let mut reply = iq.result();
        reply.start_ns("query", ns::PRIVATE).element(&legacy(&items));
        world.reply(iq, reply);
    });
}

/// Handles a request that reads or writes the node of the older kind, and returns any other.
pub(super) fn node(world: &mut World, call: PubsubCall, action: RequestAction) -> Option<(PubsubCall, RequestAction)> {
    if action.node() != Some(LEGACY) || !call.iq.is_own() {
        return Some((call, action));
    }
    match action {
        RequestAction::Publish { item, .. } => {
            let storage = item.as_ref().and_then(|item| item.child("storage", LEGACY)).cloned();
            replace(world, call.iq, storage, |world, iq| {
                let mut reply = iq.result();
                reply.start_ns("pubsub", ns::PUBSUB).start("publish").attr("node", LEGACY);
                reply.start("item").attr("id", CURRENT);
                world.reply(iq, reply);
            });
        }
        RequestAction::Items { .. } => with_items(world, call.iq, |world, iq, items| {
            let mut reply = iq.result();
            reply.start_ns("pubsub", ns::PUBSUB).start("items").attr("node", LEGACY);
            reply.start("item").attr("id", CURRENT).element(&legacy(&items));
            world.reply(iq, reply);
        }),
        action => return Some((call, action)),
    }
    None
}

/// Continues with the asker's bookmarks.
fn with_items(world: &mut World, iq: Iq, then: impl FnOnce(&mut World, &Iq, Vec<Item>) + 'static) {
    let found = world.stores.pubsub.items(iq.to.bare(), ns::BOOKMARKS, WantedItems::Newest(MAX_BOOKMARKS), 0);
    world.wait(found, move |world, found| match found {
        Ok(found) => then(world, &iq, found.map(|found| found.items).unwrap_or_default()),
        Err(error) => {
            world.store_failed("reading bookmarks", &iq.to, &error);
            world.reply_error(&iq, condition(&error));
        }
    });
}

/// Replaces the asker's bookmarks with those that a client has written in the older form.
fn replace(world: &mut World, iq: Iq, storage: Option<Element>, then: impl FnOnce(&mut World, &Iq) + 'static) {
    let Some(storage) = storage else { return world.reply_error(&iq, Condition::BadRequest) };
    if storage.children().filter(|child| child.is("conference", LEGACY)).count() > MAX_BOOKMARKS {
        return world.reply_error(&iq, Condition::PolicyViolation);
    }
    let Some(wanted) = conferences(&storage) else { return world.reply_error(&iq, Condition::JidMalformed) };
    let key = (iq.to.to_bare(), ns::BOOKMARKS.to_owned());
    create::ensure(world, key.clone(), iq, config(), move |world, iq, node| {
        let node = match node {
            Ok(node) if node.config.access == Access::Whitelist => node,
            // XEP-0411 §5: no one else may see them.
            Ok(_) => return world.reply_error(&iq, Condition::NotAllowed),
            Err(error) => return world.reply_error(&iq, error),
        };
        with_items(world, iq, move |world, iq, items| {
            let iq = iq.clone();
            let (changed, gone) = differences(wanted, &items);
            publish::replace(world, key, node, changed, gone, move |world, outcome| match outcome {
                Ok(()) => then(world, &iq),
                Err(error) => world.reply_error(&iq, error),
            });
        });
    });
}

/// Returns the items that are new or different, each with its payload, and the ids of those that
/// are gone.
fn differences(wanted: Vec<(String, Element)>, items: &[Item]) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
    let kept: Set<&str> = wanted.iter().map(|(id, _)| id.as_str()).collect();
    let gone = items.iter().filter(|item| !kept.contains(item.id.as_str())).map(|item| item.id.clone()).collect();
    let known: Map<&str, &Item> = items.iter().map(|item| (item.id.as_str(), item)).collect();
    let mut changed = Vec::new();
    for (id, mut conference) in wanted {
        let before = known.get(id.as_str());
        let known = before.and_then(|item| Element::parse(&item.payload).ok());
        // XEP-0402 §2: extensions that other clients have added stay.
        if let Some(extensions) = known.as_ref().and_then(|known| known.child("extensions", ns::BOOKMARKS)) {
            conference.push_child(extensions.clone());
        }
        let payload = Writer::write(&conference).into_bytes();
        if before.is_none_or(|before| before.payload != payload) {
            changed.push((id, payload));
        }
    }
    (changed, gone)
}

/// Returns the conferences of the older kind, each with its id and new form; `None` if any has no
/// address.
fn conferences(storage: &Element) -> Option<Vec<(String, Element)>> {
    let conferences = storage.children().filter(|child| child.is("conference", LEGACY));
    let mut found = Vec::<(String, Element)>::new();
    let mut places = Map::default();
    for conference in conferences {
        let id = Jid::parse(conference.attr("jid")?).ok()?.as_str().to_owned();
        let mut new = Element::new("conference", ns::BOOKMARKS)
            .with_opt_attr("name", conference.attr("name"))
            .with_opt_attr("autojoin", conference.attr("autojoin"));
        for name in ["nick", "password"] {
            if let Some(text) = conference.child_text(name, LEGACY) {
                new.push_child(Element::new(name, ns::BOOKMARKS).with_text(text));
            }
        }
        // The last entry for an address counts.
        match places.get(&id).and_then(|&place: &usize| found.get_mut(place)) {
            Some(earlier) => *earlier = (id, new),
            None => {
                places.insert(id.clone(), found.len());
                found.push((id, new));
            }
        }
    }
    Some(found)
}

/// Returns the configuration of the node of bookmarks (XEP-0402 §3.3).
fn config() -> NodeConfig {
    NodeConfig {
        access: Access::Whitelist,
        max_items: None,
        send_last: SendLast::Never,
        ..NodeConfig::of_account(ns::BOOKMARKS)
    }
}
