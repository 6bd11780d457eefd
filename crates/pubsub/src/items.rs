//! Retrieving items: XEP-0060 §6.5.

use std::rc::Rc;

use rookery_hub::World;
use rookery_modkit::rsm::{self, Part};
use rookery_store::pubsub::{Items, WantedItems};
use rookery_stream::error::Condition;
use rookery_xml::ns;

use super::config::since;
use super::error::{store_failure, unsupported};
use super::event::write_item;
use super::node::{NodeKey, PubsubNode};
use super::request::PubsubCall;

/// Retrieves items (§6.5), for an asker whose relation to the owner is known if it matters.
pub(super) fn retrieve(
    world: &mut World,
    call: PubsubCall,
    key: NodeKey,
    node: &Rc<PubsubNode>,
    ids: Vec<String>,
    max_items: Option<usize>,
    page: Option<rsm::RsmRequest>,
) {
    if let Err(error) = node.lets_retrieve(call.from(), &call.relation()) {
        return call.refuse(world, error);
    }
    if !node.config.persist_items {
        return call.refuse(world, unsupported("persistent-items"));
    }
    let is_cut = ids.is_empty() && max_items.is_none();
    let wanted = match &page {
        _ if !ids.is_empty() => WantedItems::Ids(ids),
        Some(page) => part(page, max_items),
        None => WantedItems::Newest(max_items.unwrap_or(MAX_PAGE).min(MAX_PAGE)),
    };
    let found = world.stores.pubsub.items(key.0.as_ref(), &key.1, wanted, since(&node.config, world.time()));
    let (node, asks_page) = (node.clone(), page.is_some());
    world.wait(found, move |world, found| match found {
        Ok(Some(found)) if !found.lost => {
            // §6.5.4: an incomplete reply says so.
            let tells_page = asks_page || (is_cut && found.items.len() < found.total);
            reply(world, &call, &key, &node, &found, tells_page);
        }
        Ok(_) => call.refuse(world, Condition::ItemNotFound),
        Err(error) => {
            world.store_failed("retrieving items", &key.0, &error);
            call.refuse(world, store_failure(&error));
        }
    });
}

fn part(page: &rsm::RsmRequest, max_items: Option<usize>) -> WantedItems {
    let most = page.max.unwrap_or(MAX_PAGE).min(max_items.unwrap_or(MAX_PAGE)).min(MAX_PAGE);
    match &page.part {
        Part::First => WantedItems::After(None, most),
        Part::After(id) => WantedItems::After(Some(id.clone()), most),
        Part::Before(id) => WantedItems::Before(Some(id.clone()), most),
        Part::Last => WantedItems::Before(None, most),
        Part::Index(index) => WantedItems::From(*index, most),
    }
}

fn reply(world: &mut World, call: &PubsubCall, key: &NodeKey, node: &PubsubNode, found: &Items, tells_page: bool) {
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB).start("items").attr("node", &key.1);
    for item in &found.items {
        write_item(&mut reply, item, true, node.config.publisher);
    }
    reply.end();
    if tells_page {
        let ends = found.items.first().zip(found.items.last());
        let ends = ends.map(|(first, last)| (first.id.clone(), last.id.clone()));
        rsm::RsmAnswer { ends, index: Some(found.index), count: Some(found.total) }.write(&mut reply);
    }
    world.reply(&call.iq, reply);
}

/// The most items in one reply.
const MAX_PAGE: usize = 1000;
