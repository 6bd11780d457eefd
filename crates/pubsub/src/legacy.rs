//! Bookmarks in the older form (XEP-0048), and the clients that are notified in that form.

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::pubsub::{Item, WantedItems};
use rookery_xml::{Element, Writer, ns};

use super::config::NodeConfig;
use super::event;
use super::interests::Interests;

/// Notifies the resources that want the older form of all bookmarks, when an account's bookmarks
/// have changed or a resource has become available.
pub(super) fn tell(world: &mut World, account: Jid, only: Option<Jid>) {
    let links = world.links_of(account.as_ref());
    let interests = world.state::<Interests>();
    let wanting = links.into_iter().filter(|&link| interests.has(link, &account, LEGACY));
    let mut addresses: Vec<_> = wanting.filter_map(|link| world.address(link).cloned()).collect();
    addresses.retain(|address| only.as_ref().is_none_or(|only| only == address));
    if addresses.is_empty() {
        return;
    }
    let found = world.stores.pubsub.items(account.as_ref(), ns::BOOKMARKS, WantedItems::Newest(MAX_BOOKMARKS), 0);
    world.wait(found, move |world, found| {
        let found = match found {
            Ok(Some(found)) => found,
            Ok(None) => return,
            Err(error) => return world.store_failed("reading bookmarks", &account, &error),
        };
        let payload = Writer::write(&legacy(&found.items)).into_bytes();
        let item = Item { id: CURRENT.to_owned(), publisher: account.clone(), unix_ms: world.time(), payload };
        let packet = event::items(world, &(account, LEGACY.to_owned()), &NodeConfig::of_account(LEGACY), &item);
        if let Some(packet) = packet {
            world.fan_out(&packet, addresses.iter().map(Jid::as_ref));
        }
    });
}

/// Returns bookmarks in the older form.
pub(super) fn legacy(items: &[Item]) -> Element {
    let mut storage = Element::new("storage", LEGACY);
    for item in items {
        let Ok(conference) = Element::parse(&item.payload) else { continue };
        let mut old = Element::new("conference", LEGACY)
            .with_attr("jid", &item.id)
            .with_opt_attr("name", conference.attr("name"))
            .with_opt_attr("autojoin", conference.attr("autojoin"));
        for name in ["nick", "password"] {
            if let Some(text) = conference.child_text(name, ns::BOOKMARKS) {
                old.push_child(Element::new(name, LEGACY).with_text(text));
            }
        }
        storage.push_child(old);
    }
    storage
}

/// The namespace of the older form, and the id of its node (XEP-0048).
pub const LEGACY: &str = "storage:bookmarks";
/// The id of its one item.
pub(super) const CURRENT: &str = "current";
/// The most bookmarks that are translated.
pub(super) const MAX_BOOKMARKS: usize = 1000;
