//! The nodes in memory.

use crate::pubsub::*;
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;

/// All nodes, by host and id.
#[derive(Default)]
pub(super) struct NodesByHost {
    pub(super) nodes: BTreeMap<(Jid, String), MemoryNode>,
    pub(super) last_number: u64,
}

/// A node with its items, as the store in memory has it.
pub(super) struct MemoryNode {
    pub(super) number: u64,
    pub(super) config: Vec<u8>,
    pub(super) creator: Option<Jid>,
    pub(super) affiliations: BTreeMap<Jid, NodeAffiliation>,
    pub(super) subscriptions: BTreeMap<Jid, NodeSubscription>,
    /// The items, oldest first.
    pub(super) items: Vec<Item>,
}

impl NodesByHost {
    /// Removes an account's data: its nodes, the nodes of services that it alone owned, and its
    /// affiliations and subscriptions.
    pub(super) fn forget(&mut self, account: JidRef<'_>) {
        self.nodes.retain(|(host, _), row| {
            let owners = row.affiliations.iter().filter(|(_, affiliation)| **affiliation == NodeAffiliation::Owner);
            let mut owners = owners.map(|(owner, _)| owner.as_ref() == account.bare());
            let is_orphan = owners.clone().any(|is_it| is_it) && owners.all(|is_it| is_it);
            host.as_ref() != account.bare() && !is_orphan
        });
        for row in self.nodes.values_mut() {
            row.affiliations.retain(|entity, _| entity.bare() != account.bare());
            if row.creator.as_ref().is_some_and(|creator| creator.as_ref() == account.bare()) {
                let mut owners = row.affiliations.iter().filter(|(_, found)| **found == NodeAffiliation::Owner);
                row.creator = owners.next().map(|(owner, _)| owner.clone());
            }
            row.subscriptions.retain(|subscriber, _| subscriber.bare() != account.bare());
        }
    }

    pub(super) fn of<'a>(&'a self, host: JidRef<'_>) -> impl Iterator<Item = (&'a str, &'a MemoryNode)> {
        let host = host.bare().to_jid();
        let rows = self.nodes.range((host.clone(), String::new())..);
        rows.take_while(move |((of, _), _)| *of == host).map(|((_, node), row)| (node.as_str(), row))
    }

    pub(super) fn get(&self, host: JidRef<'_>, node: &str) -> Option<&MemoryNode> {
        self.nodes.get(&(host.bare().to_jid(), node.to_owned()))
    }

    /// Returns the number of a host's nodes that an account has created, and of their bytes.
    pub(super) fn made_by(&self, host: JidRef<'_>, creator: Option<&Jid>) -> (usize, u64) {
        let made = self.of(host).filter(|(_, row)| row.creator.as_ref() == creator);
        made.fold((0, 0), |(nodes, bytes), (_, row)| (nodes + 1, bytes + row.bytes()))
    }

    pub(super) fn get_mut(&mut self, host: JidRef<'_>, node: &str) -> Option<&mut MemoryNode> {
        self.nodes.get_mut(&(host.bare().to_jid(), node.to_owned()))
    }
}

impl MemoryNode {
    pub(super) fn bytes(&self) -> u64 {
        let affiliations = self.affiliations.keys().map(|entity| entity.as_str().len() as u64 + OVERHEAD);
        self.config.len() as u64 + affiliations.sum::<u64>() + self.items.iter().map(Item::bytes).sum::<u64>()
    }

    pub(super) fn trim(&mut self, kept: ItemsKept) {
        self.items.retain(|item| item.unix_ms >= kept.since_ms);
        let excess = self.items.len().saturating_sub(kept.items);
        self.items.drain(..excess);
    }

    pub(super) fn items(&self, wanted: WantedItems, since_ms: u64) -> Items {
        let items: Vec<&Item> = self.items.iter().filter(|item| item.unix_ms >= since_ms).collect();
        let total = items.len();
        let position = |id: &str| items.iter().position(|item| item.id == id);
        let (range, is_backwards) = match wanted {
            WantedItems::Ids(ids) => {
                let found = ids.iter().filter_map(|id| items.get(position(id)?).copied());
                return Items { items: fitting(found), index: 0, total, lost: false };
            }
            WantedItems::Newest(limit) | WantedItems::Before(None, limit) => {
                (Some(total.saturating_sub(limit)..total), true)
            }
            WantedItems::Before(Some(id), limit) => (position(&id).map(|at| at.saturating_sub(limit)..at), true),
            WantedItems::After(None, limit) => (Some(0..limit.min(total)), false),
            WantedItems::After(Some(id), limit) => {
                (position(&id).map(|at| at + 1..(at + 1).saturating_add(limit).min(total)), false)
            }
            WantedItems::From(index, limit) => (Some(index.min(total)..index.saturating_add(limit).min(total)), false),
        };
        let Some(range) = range else { return Items { total, lost: true, ..Items::default() } };
        let (start, end) = (range.start, range.end);
        let chosen = items[range].iter().copied();
        let (items, index) = if is_backwards {
            let mut newest = fitting(chosen.rev());
            newest.reverse();
            let index = end - newest.len();
            (newest, index)
        } else {
            (fitting(chosen), start)
        };
        let index = if items.is_empty() { 0 } else { index };
        Items { items, index, total, lost: false }
    }
}

/// Returns as many items as fit a page, at least one if there are any.
fn fitting<'a>(items: impl Iterator<Item = &'a Item>) -> Vec<Item> {
    let mut room = PAGE_BYTES;
    let mut first = true;
    let fit = items.take_while(|item| {
        let fits = std::mem::take(&mut first) || item.bytes() <= room;
        room = room.saturating_sub(item.bytes());
        fits
    });
    fit.cloned().collect()
}
