//! XEP-0398: User Avatar to vCard-Based Avatars Conversion, both ways.
//!
//! An avatar (XEP-0084) becomes the photo of the vCard, which everybody may see, only if everybody may see the avatar too.

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::pubsub::{Item, Wanted};
use rookery_xml::{Element, Writer, ns};

use super::config::{Access, Config};
use super::node::Node;
use super::state::{Key, Sent, defaults};
use super::vcard::{self, Photo};
use super::{create, pep, publish};

/// §3.1: an item was published to a node of an account. If it is about the avatar, the photo follows.
pub(super) fn published(world: &mut World, key: &Key, node: &Node, item: &Item) {
    let is_it = key.1 == ns::AVATAR_METADATA && key.0.local().is_some() && node.config.access == Access::Open;
    if !is_it || !vcard::is_on(world, key.0.as_ref()) {
        return;
    }
    let Ok(metadata) = Element::parse(&item.payload) else { return };
    let mut infos = metadata.children().filter(|child| child.is("info", ns::AVATAR_METADATA)).peekable();
    if infos.peek().is_none() {
        return vcard::set_photo(world, key.0.clone(), None);
    }
    // The one that is kept here, and not elsewhere.
    let Some(info) = infos.find(|info| info.attr("url").is_none()) else { return };
    let id = info.attr("id").unwrap_or(&item.id).to_owned();
    let type_ = info.attr("type").unwrap_or("image/png").to_owned();
    with_data(world, key.0.clone(), id.clone(), move |world, account, data| {
        if let Some(photo) = Photo::new(&type_, &data).filter(|photo| photo.hash == id) {
            vcard::set_photo(world, account, Some(photo));
        }
    });
}

/// Goes on with the data of an avatar, in Base64, if everybody may see it.
fn with_data(world: &mut World, account: Jid, id: String, then: impl FnOnce(&mut World, Jid, String) + 'static) {
    let node = world.stores.pubsub.node(account.as_ref(), ns::AVATAR_DATA);
    let items = world.stores.pubsub.items(account.as_ref(), ns::AVATAR_DATA, Wanted::Ids(vec![id]), 0);
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

/// §3.2: the vCard of an account has another photo, or none: the avatar follows, where accounts have nodes.
pub(super) fn photo(world: &mut World, account: Jid, photo: Option<Photo>) {
    if !pep::is_on(world, account.as_ref()) {
        return;
    }
    let Some(photo) = photo else {
        let empty = Element::new("metadata", ns::AVATAR_METADATA);
        let id = world.unique_text();
        return put(world, account, ns::AVATAR_METADATA, id, &empty, |_, _| {});
    };
    let data = Element::new("data", ns::AVATAR_DATA).with_text(&photo.base64);
    let info = Element::new("info", ns::AVATAR_METADATA)
        .with_attr("id", &photo.hash)
        .with_attr("type", &photo.type_)
        .with_attr("bytes", photo.bytes.to_string());
    let metadata = Element::new("metadata", ns::AVATAR_METADATA).with_child(info);
    put(world, account, ns::AVATAR_DATA, photo.hash.clone(), &data, move |world, account| {
        put(world, account, ns::AVATAR_METADATA, photo.hash, &metadata, |_, _| {});
    });
}

fn put(
    world: &mut World,
    account: Jid,
    node: &str,
    id: String,
    payload: &Element,
    then: impl FnOnce(&mut World, Jid) + 'static,
) {
    let key = (account.clone(), node.to_owned());
    let config = Config { access: Access::Open, ..Config::of_account(node) };
    let payload = Writer::write(payload).into_bytes();
    let sent = Sent { from: account, bytes: payload.len() };
    create::ensure(world, key.clone(), sent, config, move |world, sent, node| {
        if let Ok(node) = node {
            publish::put(world, key, node, id, payload, |world, kept| {
                if kept.is_ok() {
                    then(world, sent.from);
                }
            });
        }
    });
}
