//! Delivers news of accounts' nodes to resources that want them without a subscription (XEP-0163
//! §4.3).

use std::collections::BTreeMap;

use rookery_fanout::Packet;
use rookery_hub::{Memo, World};
use rookery_jid::Jid;
use serde::{Deserialize, Serialize};

use super::afar::Afar;
use super::interests::Interests;
use super::node::{Contacts, NodeKey, PubsubNode, Relation, hears};

/// Delivers a packet to those resources of these accounts that want the node.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NodeNews {
    packet: Packet,
    node: String,
    to: Vec<Jid>,
}

impl Memo for NodeNews {
    const NAME: &'static str = "pep news";

    fn open(self, world: &mut World) {
        let Self { packet, node, to } = self;
        // The wishes of sessions on their way here are known once they have arrived.
        let (awaited, to): (Vec<_>, Vec<_>) = to.into_iter().partition(|account| is_awaited(world, account));
        if !awaited.is_empty() {
            world.keep_memo(Self { packet: packet.clone(), node: node.clone(), to: awaited });
        }
        let (moved, here): (Vec<_>, _) = to.into_iter().partition(|account| is_elsewhere(world, account));
        send(world, &packet, &node, moved);
        give(world, &packet, &node, here);
    }

    fn again(self, world: &mut World) {
        send(world, &self.packet, &self.node, self.to);
    }
}

fn is_awaited(world: &World, account: &Jid) -> bool {
    world.domain(account.domain()).is_some() && world.is_awaited(account.bare_str())
}

fn is_elsewhere(world: &World, account: &Jid) -> bool {
    world.domain(account.domain()).is_some() && !world.acts_for(account.bare_str())
}

/// Sends a notification to those who want it without a subscription.
pub(super) fn tell(world: &mut World, key: &NodeKey, node: &PubsubNode, packet: &Packet, contacts: &Contacts) {
    let own = Relation { sees_presence: true, groups: Vec::new() };
    let all = contacts.iter().chain([(&key.0, &own)]);
    let mut to = Vec::new();
    for (contact, relation) in all {
        let hears = hears(&node.config, node.affiliation(contact.as_ref()), relation);
        // §4.3.1: no recipient gets it twice, and a blocked contact doesn't get it at all.
        let hears = hears && !world.conceals(key.0.as_ref(), None, contact.as_ref());
        if hears && !node.is_subscribed(contact.as_ref()) {
            to.push(contact.clone());
        }
    }
    send(world, packet, &key.1, to);
}

/// Sends a notification to the homes of accounts that may want it.
fn send(world: &mut World, packet: &Packet, node: &str, to: Vec<Jid>) {
    let mut shards = BTreeMap::<usize, Vec<Jid>>::new();
    for contact in to {
        let home = match world.domain(contact.domain()) {
            Some(_) => world.home_of(contact.as_ref()),
            // The wishes of remote contacts are known at the shard where their presence arrives.
            None => world.home_of_text(contact.domain()),
        };
        shards.entry(home).or_default().push(contact);
    }
    for (shard, to) in shards {
        world.send_memo(shard, NodeNews { packet: packet.clone(), node: node.to_owned(), to });
    }
}

/// Delivers a notification to those resources of accounts that want it.
fn give(world: &mut World, packet: &Packet, node: &str, to: Vec<Jid>) {
    let Some(owner) = packet.sender() else { return };
    let mut wanting = Vec::new();
    for account in to {
        if world.domain(account.domain()).is_none() {
            wanting.extend(world.state::<Afar>().wanting(account.as_ref(), &owner, node));
            continue;
        }
        let links = world.links_of(account.as_ref());
        let interests = world.state::<Interests>();
        let links = links.into_iter().filter(|&link| interests.has(link, &owner, node));
        wanting.extend(links.filter_map(|link| world.address(link).cloned()));
    }
    world.fan_out(packet, wanting.iter().map(Jid::as_ref));
}
