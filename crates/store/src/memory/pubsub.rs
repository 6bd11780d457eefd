//! The operations on nodes in memory.

use super::Memory;
use super::key::key;
use super::nodes::MemoryNode;
use super::world::MemoryWorld;
use crate::pending::ready;
use crate::pubsub::*;
use crate::{Pending, Pubsub};
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;

impl Pubsub for Memory {
    fn node(&self, host: JidRef<'_>, node: &str) -> Pending<Option<NodeRecord>> {
        let world = self.world();
        ready(Ok(world.pubsub.get(host, node).map(|row| NodeRecord {
            config: row.config.clone(),
            creator: row.creator.clone(),
            affiliations: row.affiliations.iter().map(|(jid, affiliation)| (jid.clone(), *affiliation)).collect(),
            subscriptions: row.subscriptions.iter().map(|(jid, found)| (jid.clone(), found.clone())).collect(),
        })))
    }

    fn nodes(&self, host: JidRef<'_>, asker: JidRef<'_>, after: &str, limit: usize) -> Pending<Vec<NodeListed>> {
        let world = self.world();
        let asker = asker.bare().to_jid();
        let listed = world.pubsub.of(host).filter(|(node, _)| *node > after).take(limit);
        ready(Ok(listed
            .map(|(node, row)| NodeListed {
                node: node.to_owned(),
                config: row.config.clone(),
                affiliation: row.affiliations.get(&asker).copied(),
            })
            .collect()))
    }

    fn create_node(
        &self,
        host: JidRef<'_>,
        node: &str,
        config: Vec<u8>,
        owner: JidRef<'_>,
        room: NodeRoom,
    ) -> Pending<Created> {
        let mut world = self.world();
        ready(Ok(create(&mut world, host, node, config, owner, room)))
    }

    fn configure_node(&self, host: JidRef<'_>, node: &str, config: Vec<u8>, kept: ItemsKept) -> Pending<bool> {
        let mut world = self.world();
        let row = world.pubsub.get_mut(host, node);
        ready(Ok(row
            .map(|row| {
                row.config = config;
                row.trim(kept);
            })
            .is_some()))
    }

    fn delete_node(&self, host: JidRef<'_>, node: &str) -> Pending<bool> {
        ready(Ok(self.world().pubsub.nodes.remove(&(host.bare().to_jid(), node.to_owned())).is_some()))
    }

    fn set_affiliation(
        &self,
        host: JidRef<'_>,
        node: &str,
        entity: JidRef<'_>,
        affiliation: Option<NodeAffiliation>,
        room: NodeRoom,
    ) -> Pending<SetOutcome> {
        let mut world = self.world();
        let Some(row) = world.pubsub.get(host, node) else { return ready(Ok(SetOutcome::NoNode)) };
        if affiliation.is_some() && !row.affiliations.contains_key(&entity.bare().to_jid()) {
            let size = entity.bare_str().len() as u64 + OVERHEAD;
            let (_, used) = world.pubsub.made_by(host, row.creator.as_ref());
            if row.bytes().saturating_add(size) > room.node_bytes || used.saturating_add(size) > room.creator_bytes {
                return ready(Ok(SetOutcome::Full));
            }
        }
        let Some(row) = world.pubsub.get_mut(host, node) else { return ready(Ok(SetOutcome::NoNode)) };
        match affiliation {
            Some(affiliation) => row.affiliations.insert(entity.bare().to_jid(), affiliation),
            None => row.affiliations.remove(&entity.bare().to_jid()),
        };
        ready(Ok(SetOutcome::Done))
    }

    fn set_subscription(
        &self,
        host: JidRef<'_>,
        node: &str,
        subscriber: JidRef<'_>,
        subscription: Option<NodeSubscription>,
        most: usize,
    ) -> Pending<SetOutcome> {
        let mut world = self.world();
        let own = world.pubsub.of(host).flat_map(|(_, row)| row.subscriptions.keys());
        let own = own.filter(|other| other.bare() == subscriber.bare()).count();
        let Some(row) = world.pubsub.get_mut(host, node) else { return ready(Ok(SetOutcome::NoNode)) };
        if subscription.is_some() && !row.subscriptions.contains_key(&subscriber.to_jid()) && own >= most {
            return ready(Ok(SetOutcome::Full));
        }
        match subscription {
            Some(subscription) => row.subscriptions.insert(subscriber.to_jid(), subscription),
            None => row.subscriptions.remove(&subscriber.to_jid()),
        };
        ready(Ok(SetOutcome::Done))
    }

    fn publish(&self, host: JidRef<'_>, node: &str, item: Item, kept: ItemsKept, room: NodeRoom) -> Pending<Published> {
        let mut world = self.world();
        let Some(row) = world.pubsub.get(host, node) else { return ready(Ok(Published::NoNode)) };
        let (creator, before, items) = (row.creator.clone(), row.bytes(), row.items.clone());
        let (_, used) = world.pubsub.made_by(host, creator.as_ref());
        let Some(row) = world.pubsub.get_mut(host, node) else { return ready(Ok(Published::NoNode)) };
        row.items.retain(|other| other.id != item.id);
        row.items.push(item);
        row.trim(kept);
        let after = row.bytes();
        let of_node = after.saturating_sub(room.node_bytes);
        let of_creator = (used - before + after).saturating_sub(room.creator_bytes);
        if after > before && of_node.max(of_creator) > 0 {
            row.items = items;
            return ready(Ok(if of_node >= of_creator { Published::NodeFull } else { Published::CreatorFull }));
        }
        ready(Ok(Published::Kept))
    }

    fn items(&self, host: JidRef<'_>, node: &str, wanted: WantedItems, since_ms: u64) -> Pending<Option<Items>> {
        ready(Ok(self.world().pubsub.get(host, node).map(|row| row.items(wanted, since_ms))))
    }

    fn retract(&self, host: JidRef<'_>, node: &str, ids: Vec<String>) -> Pending<Vec<String>> {
        let mut world = self.world();
        let Some(row) = world.pubsub.get_mut(host, node) else { return ready(Ok(Vec::new())) };
        let mut removed = Vec::new();
        for id in ids {
            if let Some(at) = row.items.iter().position(|item| item.id == id) {
                row.items.remove(at);
                removed.push(id);
            }
        }
        ready(Ok(removed))
    }

    fn purge(&self, host: JidRef<'_>, node: &str) -> Pending<u64> {
        let mut world = self.world();
        ready(Ok(world.pubsub.get_mut(host, node).map_or(0, |row| row.items.drain(..).count() as u64)))
    }

    fn subscriptions_of(&self, host: JidRef<'_>, entity: JidRef<'_>) -> Pending<Vec<(String, Jid, NodeSubscription)>> {
        let world = self.world();
        let mut found = Vec::new();
        for (node, row) in world.pubsub.of(host) {
            let own = row.subscriptions.iter().filter(|(subscriber, _)| subscriber.bare() == entity.bare());
            found.extend(own.map(|(jid, subscription)| (node.to_owned(), jid.clone(), subscription.clone())));
        }
        ready(Ok(found))
    }

    fn affiliations_of(&self, host: JidRef<'_>, entity: JidRef<'_>) -> Pending<Vec<(String, NodeAffiliation)>> {
        let (world, entity) = (self.world(), entity.bare().to_jid());
        let found =
            world.pubsub.of(host).filter_map(|(node, row)| Some((node.to_owned(), *row.affiliations.get(&entity)?)));
        ready(Ok(found.collect()))
    }

    fn news(
        &self,
        asker: JidRef<'_>,
        owners: Vec<Jid>,
        nodes: Vec<String>,
        mut after: Option<(Jid, String)>,
    ) -> Pending<(Vec<News>, bool)> {
        let (world, asker) = (self.world(), asker.bare().to_jid());
        let (mut found, mut bytes) = (Vec::new(), 0);
        for host in owners {
            for node in &nodes {
                if let Some((last_host, last_node)) = &after {
                    if *last_host == host && last_node == node {
                        after = None;
                    }
                    continue;
                }
                if bytes >= PAGE_BYTES {
                    return ready(Ok((found, true)));
                }
                let Some(row) = world.pubsub.get(host.as_ref(), node) else { continue };
                let Some(item) = row.items.last() else { continue };
                let account = world.account(host.as_ref());
                let contact = account.and_then(|account| account.roster.item(asker.as_ref()));
                bytes += item.bytes();
                found.push(News {
                    host: host.clone(),
                    node: node.clone(),
                    config: row.config.clone(),
                    affiliation: row.affiliations.get(&asker).copied(),
                    sees_presence: contact.is_some_and(|contact| contact.subscription.from()),
                    groups: contact.map(|contact| contact.groups.clone()).unwrap_or_default(),
                    item: item.clone(),
                });
            }
        }
        ready(Ok((found, false)))
    }

    fn accounts_nodes(&self, after: u64, limit: usize) -> Pending<Vec<(u64, Jid, String)>> {
        let world = self.world();
        let rows = world.pubsub.nodes.iter().filter(|((host, _), row)| host.local().is_some() && row.number > after);
        let mut rows: Vec<_> = rows.map(|((host, node), row)| (row.number, host.clone(), node.clone())).collect();
        rows.sort_unstable_by_key(|(number, ..)| *number);
        rows.truncate(limit);
        ready(Ok(rows))
    }
}

fn create(
    world: &mut MemoryWorld,
    host: JidRef<'_>,
    node: &str,
    config: Vec<u8>,
    owner: JidRef<'_>,
    room: NodeRoom,
) -> Created {
    if host.local().is_some() && !world.accounts.contains_key(&key(host)) {
        return Created::NoAccount;
    }
    if world.pubsub.get(host, node).is_some() {
        return Created::Exists;
    }
    if world.pubsub.of(host).count() >= room.host_nodes {
        return Created::Full;
    }
    let creator = Some(owner.bare().to_jid());
    let (made, used) = world.pubsub.made_by(host, creator.as_ref());
    let bytes = (config.len() + owner.bare_str().len()) as u64 + OVERHEAD;
    if made >= room.creator_nodes || used.saturating_add(bytes) > room.creator_bytes {
        return Created::OwnerFull;
    }
    world.pubsub.last_number += 1;
    let row = MemoryNode {
        number: world.pubsub.last_number,
        config,
        creator,
        affiliations: BTreeMap::from([(owner.bare().to_jid(), NodeAffiliation::Owner)]),
        subscriptions: BTreeMap::new(),
        items: Vec::new(),
    };
    world.pubsub.nodes.insert((host.bare().to_jid(), node.to_owned()), row);
    Created::Done
}
