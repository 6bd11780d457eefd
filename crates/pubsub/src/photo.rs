//! The photo of the vCard follows the avatar (XEP-0398 §3.1).

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::pubsub::{Item, WantedItems};
use rookery_xml::{Element, ns};

use super::card::{self, Photo};
use super::config::Access;
use super::node::{NodeKey, PubsubNode};
use super::state::defaults;

/// Reacts to an item published to a node of an account (§3.1). If it belongs to the avatar, the
/// photo follows.
pub(super) fn published(world: &mut World, key: &NodeKey, node: &PubsubNode, item: &Item) {
    let is_it = key.1 == ns::AVATAR_METADATA && key.0.local().is_some() && node.config.access == Access::Open;
    if !is_it || !card::is_on(world, key.0.as_ref()) {
        return;
    }
    let Ok(metadata) = Element::parse(&item.payload) else { return };
    let mut infos = metadata.children().filter(|child| child.is("info", ns::AVATAR_METADATA)).peekable();
    if infos.peek().is_none() {
        return card::set_photo(world, key.0.clone(), None);
    }
    // The image itself must be stored here; an address of one isn't followed.
    let Some(info) = infos.find(|info| info.attr("url").is_none()) else { return };
    let id = info.attr("id").unwrap_or(&item.id).to_owned();
    let type_ = info.attr("type").unwrap_or("image/png").to_owned();
    with_data(world, key.0.clone(), id.clone(), move |world, account, data| {
        if let Some(photo) = Photo::new(&type_, &data).filter(|photo| photo.hash == id) {
            card::set_photo(world, account, Some(photo));
        }
    });
}

/// Continues with the data of an avatar, in Base64, if the avatar is public.
fn with_data(world: &mut World, account: Jid, id: String, then: impl FnOnce(&mut World, Jid, String) + 'static) {
    let node = world.stores.pubsub.node(account.as_ref(), ns::AVATAR_DATA);
    let items = world.stores.pubsub.items(account.as_ref(), ns::AVATAR_DATA, WantedItems::Ids(vec![id]), 0);
    world.wait(node, move |world, node| {
        let node = match node {
            Ok(Some(node)) => node,
            Ok(None) => return,
            Err(error) => return world.store_failed("loading an avatar", &account, &error),
        };
        if defaults(&account, ns::AVATAR_DATA).read(&node.config).access != Access::Open {
            return;
        }
        world.wait(items, move |world, items| {
            let item = match items {
                Ok(items) => items.and_then(|items| items.items.into_iter().next()),
                Err(error) => return world.store_failed("loading an avatar", &account, &error),
            };
            let data = item.and_then(|item| Element::parse(&item.payload).ok());
            if let Some(data) = data.filter(|data| data.is("data", ns::AVATAR_DATA)) {
                then(world, account, data.text());
            }
        });
    });
}
