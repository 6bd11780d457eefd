//! XEP-0398: User Avatar to vCard-Based Avatars Conversion: the avatar follows the photo of the
//! vCard; the other way is in `photo`.
//!
//! An avatar (XEP-0084) becomes the photo of the vCard, which is public, only if the avatar is
//! public too.

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_xml::{Element, Writer, ns};

use super::card::Photo;
use super::config::{Access, NodeConfig};
use super::state::SentOther;
use super::{create, holders, publish};

/// Updates the avatar when the photo in an account's vCard has changed or gone (§3.2), if accounts
/// have nodes.
pub(super) fn photo(world: &mut World, account: Jid, photo: Option<Photo>) {
    if !holders::is_on(world, account.as_ref()) {
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
    let config = NodeConfig { access: Access::Open, ..NodeConfig::of_account(node) };
    let payload = Writer::write(payload).into_bytes();
    let sent = SentOther { from: account, bytes: payload.len() };
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
