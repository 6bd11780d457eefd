//! Notifications: one message for each form, built once, for all recipients (XEP-0060 §12).
//!
//! The recipients are the subscribers and, for a node of an account, the interested contacts
//! (XEP-0163 §4.3), whom `news` knows. If the node is for contacts in its owner's roster only, a
//! subscriber must still be one.

use std::rc::Rc;

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::StoreError;
use rookery_store::pubsub::Item;
use rookery_xml::ns;

use super::config::Access;
use super::event::{event, fleeting, has_payload, write_item};
use super::node::{Contacts, NodeKey, PubsubNode, Relation};
use super::relation::local_owner;
use super::{legacy, news};

/// Notifies subscribers of an item that was published (§7.1.2).
pub(super) fn published(world: &mut World, key: &NodeKey, node: &Rc<PubsubNode>, item: &Item) {
    if !node.config.deliver_notifications {
        return;
    }
    let config = &node.config;
    let packet = event(world, key, config, |event| {
        event.start("items").attr("node", &key.1);
        if config.persist_items || config.deliver_payloads {
            write_item(event, item, has_payload(config, item), config.publisher);
        }
    });
    send(world, key, node, packet);
}

/// Notifies subscribers of items that were removed (§7.2.2.1).
pub(super) fn retracted(world: &mut World, key: &NodeKey, node: &Rc<PubsubNode>, ids: &[String]) {
    let packet = event(world, key, &node.config, |event| {
        event.start("items").attr("node", &key.1);
        for id in ids {
            event.start("retract").attr("id", id).end();
        }
    });
    send(world, key, node, packet);
}

/// Notifies subscribers that all items were removed (§8.5.2).
pub(super) fn purged(world: &mut World, key: &NodeKey, node: &Rc<PubsubNode>) {
    let packet = event(world, key, &node.config, |event| {
        event.start("purge").attr("node", &key.1);
    });
    send(world, key, node, packet);
}

/// Notifies subscribers that the node was deleted (§8.4.2).
pub(super) fn deleted(world: &mut World, key: &NodeKey, node: &Rc<PubsubNode>, redirect: Option<&str>) {
    let packet = event(world, key, &node.config, |event| {
        event.start("delete").attr("node", &key.1);
        if let Some(uri) = redirect {
            event.start("redirect").attr("uri", uri).end();
        }
    });
    send(world, key, node, packet);
}

/// Notifies subscribers that the node was configured (§8.2.5.3).
pub(super) fn configured(world: &mut World, key: &NodeKey, node: &Rc<PubsubNode>) {
    let packet = event(world, key, &node.config, |event| {
        event.start("configuration").attr("node", &key.1);
        if node.config.deliver_payloads {
            event.element(&node.config.form("result").element());
        }
    });
    send(world, key, node, packet);
}

fn send(world: &mut World, key: &NodeKey, node: &Rc<PubsubNode>, packet: Option<Packet>) {
    let Some(packet) = packet else { return };
    let is_account = key.0.local().is_some();
    if is_account && key.1 == ns::BOOKMARKS {
        legacy::tell(world, key.0.clone(), None);
    }
    let is_for_roster = matches!(node.config.access, Access::Presence | Access::Roster);
    if !is_account && !is_for_roster {
        return to_subscribers(world, node, &packet, &Contacts::default());
    }
    let owner = if is_account { Some(key.0.clone()) } else { local_owner(world, node) };
    let (key, node) = (key.clone(), node.clone());
    with_contacts(world, owner, node.config.access == Access::Roster, move |world, contacts| {
        to_subscribers(world, &node, &packet, &contacts);
        if key.0.local().is_some() {
            news::tell(world, &key, &node, &fleeting(&packet), &contacts);
        }
    });
}

fn to_subscribers(world: &mut World, node: &PubsubNode, packet: &Packet, contacts: &Contacts) {
    let nobody = Relation::default();
    let mut subscribers: Vec<(&Jid, bool)> = Vec::new();
    for (jid, subscription) in &node.subscriptions {
        let relation = contacts.get(&jid.to_bare()).unwrap_or(&nobody);
        // Subscribers who have lost access to the node aren't notified any more.
        let may = node.lets_subscribe(jid.as_ref(), relation).is_ok();
        if may && subscription.deliver && !subscription.pending {
            subscribers.push((jid, subscription.offline));
        }
    }
    if let Some(host) = packet.sender().filter(|host| host.local().is_some()) {
        subscribers.retain(|(jid, _)| !world.conceals(host.as_ref(), None, jid.bare()));
    }
    let is_headline = packet.type_() == StanzaType::Headline;
    let (kept, others): (Vec<_>, Vec<_>) = subscribers.into_iter().partition(|(_, offline)| is_headline || *offline);
    world.fan_out(packet, kept.into_iter().map(|(jid, _)| jid.as_ref()));
    if !others.is_empty() {
        world.fan_out(&fleeting(packet), others.into_iter().map(|(jid, _)| jid.as_ref()));
    }
}

/// Continues with the accounts that see the owner's presence: from memory if they are online and
/// that is enough, otherwise from the store.
pub(super) fn with_contacts(
    world: &mut World,
    owner: Option<Jid>,
    groups: bool,
    then: impl FnOnce(&mut World, Contacts) + 'static,
) {
    let Some(owner) = owner else { return then(world, Contacts::default()) };
    let relation = |groups: Vec<String>| Relation { sees_presence: true, groups };
    if groups {
        let roster = world.stores.rosters.get(owner.as_ref());
        return world.wait(roster, move |world, roster| {
            let items = roster.map(|roster| roster.items).unwrap_or_else(|error| no_contacts(world, &owner, &error));
            let seeing = items.into_iter().filter(|item| item.subscription.from());
            then(world, seeing.map(|item| (item.jid, relation(item.groups))).collect());
        });
    }
    if !world.links_of(owner.as_ref()).is_empty() {
        let watchers = world.watchers(owner.as_ref());
        return then(world, watchers.into_iter().map(|jid| (jid, relation(Vec::new()))).collect());
    }
    let contacts = world.stores.rosters.contacts(owner.as_ref());
    world.wait(contacts, move |world, contacts| {
        let contacts = contacts.unwrap_or_else(|error| no_contacts(world, &owner, &error));
        let seeing = contacts.into_iter().filter(|(_, subscription)| subscription.from());
        then(world, seeing.map(|(jid, _)| (jid, relation(Vec::new()))).collect());
    });
}

/// Logs that the store failed to list the owner's contacts, and returns an empty list: then only
/// recipients who don't depend on it are notified.
fn no_contacts<T>(world: &mut World, owner: &Jid, error: &StoreError) -> Vec<T> {
    world.store_failed("looking up the recipients of a node's news", owner, error);
    Vec::new()
}
