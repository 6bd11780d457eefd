//! The homes of accounts and rooms, each on a shard of a node.
//!
//! A *slot* is a part of all addresses, by their hash; each slot has one node, and within the node
//! one shard. A *hop* is the number that a process has for a shard: its own come first, those of
//! other nodes follow. Two processes number the same shards differently, so a [`Station`] names a
//! shard to another process.
//!
//! # Invariants
//!
//! * A hop means the same shard for as long as the process lives: members of later views come
//!   after those of earlier ones.
//! * Without other nodes there are no slots: the hash names the shard.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The number of slots.
pub const SLOTS: usize = 1 << 14;

/// Names a shard to all processes of a cluster. A process that is its own cluster is node 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Station {
    /// The number of the node.
    pub node: u16,
    /// The number of its processes so far: mail for an earlier one is not for this one.
    pub incarnation: u32,
    /// The shard within the node.
    pub shard: u16,
}

impl fmt::Display for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.node, self.incarnation, self.shard)
    }
}

impl FromStr for Station {
    type Err = NoStation;

    fn from_str(text: &str) -> Result<Self, NoStation> {
        let mut parts = text.splitn(3, '.');
        let mut next = || parts.next().ok_or(NoStation);
        Ok(Self {
            node: next()?.parse().map_err(|_| NoStation)?,
            incarnation: next()?.parse().map_err(|_| NoStation)?,
            shard: next()?.parse().map_err(|_| NoStation)?,
        })
    }
}

/// The error for a text that names no shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoStation;

/// A process of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The number of its node.
    pub node: u16,
    /// The number of the node's processes so far.
    pub incarnation: u32,
    /// The number of its shards, at least one.
    pub shards: u16,
    /// The version of the letters that it understands.
    pub letters: u16,
}

/// The home of every address, as one process sees it.
#[derive(Debug, Clone)]
pub struct View {
    /// The number of this process's own shards.
    own: usize,
    /// The members, this process first.
    members: Vec<Member>,
    /// The names of the members' nodes in their configurations, in the order of the members; empty
    /// if they aren't known.
    node_names: Vec<Box<str>>,
    /// The hop of each slot.
    slots: Option<Box<[u16]>>,
    /// The name of the view: processes that use the same homes give it the same name.
    name: u64,
    /// The members that are no longer nodes: their hops are kept, and lead nowhere.
    absent: Vec<Member>,
    /// The first process of this node whose journal counts.
    journals_from: u32,
    /// The latest time of day by which others may have acted for the homes of this process.
    not_before_ms: u64,
}

impl View {
    /// Returns the view of a process that is alone.
    #[inline]
    pub fn alone(shards: usize) -> Arc<Self> {
        let own = shards.max(1);
        let shards = u16::try_from(own).unwrap_or(u16::MAX);
        Arc::new(Self {
            own,
            members: vec![Member { node: 0, incarnation: 0, shards, letters: u16::MAX }],
            node_names: Vec::new(),
            slots: None,
            name: 0,
            absent: Vec::new(),
            journals_from: 0,
            not_before_ms: 0,
        })
    }

    /// Returns the view of the first of these members, where `owner` returns the place, among them,
    /// of the owner of a slot.
    pub fn among(members: Vec<Member>, owner: impl Fn(usize) -> usize) -> Arc<Self> {
        let mut firsts = Vec::with_capacity(members.len());
        let mut hops = 0;
        for member in &members {
            firsts.push(hops);
            hops += usize::from(member.shards.max(1));
        }
        let hop = |slot: usize| {
            let at = owner(slot);
            let (first, shards) = match (firsts.get(at), members.get(at)) {
                (Some(&first), Some(member)) => (first, usize::from(member.shards.max(1))),
                _ => (0, 1),
            };
            u16::try_from(first + slot % shards).unwrap_or_default()
        };
        let slots = (0..SLOTS).map(hop).collect();
        let own = members.first().map_or(1, |member| usize::from(member.shards.max(1)));
        Arc::new(Self {
            own,
            members,
            node_names: Vec::new(),
            slots: Some(slots),
            name: 0,
            absent: Vec::new(),
            journals_from: 0,
            not_before_ms: 0,
        })
    }

    /// Returns the same view under a name, which all processes that use the same homes have to give
    /// it, and no others. `absent`: its members that are no longer nodes.
    pub fn with_name(self: Arc<Self>, name: u64, absent: Vec<Member>) -> Arc<Self> {
        Arc::new(Self { name, absent, ..Arc::unwrap_or_clone(self) })
    }

    /// Returns the same view with the names of the members' nodes, in the order of the members.
    pub fn with_node_names(self: Arc<Self>, node_names: Vec<Box<str>>) -> Arc<Self> {
        Arc::new(Self { node_names, ..Arc::unwrap_or_clone(self) })
    }

    /// Returns the name of the node behind a hop; `None` if it isn't known.
    pub fn node_name(&self, hop: usize) -> Option<&str> {
        let mut shard = hop;
        for (member, name) in self.members.iter().zip(&self.node_names) {
            if shard < usize::from(member.shards.max(1)) {
                return Some(name);
            }
            shard -= usize::from(member.shards.max(1));
        }
        None
    }

    /// Returns the same view with the first process of this node whose journal counts: other nodes
    /// have had its homes before that.
    pub fn with_journals_from(self: Arc<Self>, incarnation: u32) -> Arc<Self> {
        Arc::new(Self { journals_from: incarnation, ..Arc::unwrap_or_clone(self) })
    }

    /// Returns the same view with the latest time of day by which others may have acted for the
    /// homes of this process, in milliseconds since 1970.
    pub fn not_before(self: Arc<Self>, unix_ms: u64) -> Arc<Self> {
        Arc::new(Self { not_before_ms: unix_ms, ..Arc::unwrap_or_clone(self) })
    }

    /// Returns the latest time of day by which others may have acted for the homes of this process,
    /// in milliseconds since 1970; 0 if none have.
    pub fn not_before_ms(&self) -> u64 {
        self.not_before_ms
    }

    /// Returns the first process of this node whose journal counts: other nodes have had its homes
    /// before that. 0 if that isn't known.
    pub fn journals_from(&self) -> u32 {
        self.journals_from
    }

    /// Returns whether the homes are those of a cluster.
    pub fn is_shared(&self) -> bool {
        self.slots.is_some()
    }

    /// Returns the members that are nodes.
    pub fn present(&self) -> impl Iterator<Item = Member> {
        self.members.iter().copied().filter(|member| !self.absent.contains(member))
    }

    /// Returns the members that are no longer nodes.
    pub fn absent(&self) -> &[Member] {
        &self.absent
    }

    /// Returns whether a process is a node.
    pub fn is_present(&self, node: u16, incarnation: u32) -> bool {
        self.present().any(|member| (member.node, member.incarnation) == (node, incarnation))
    }

    /// Returns the name of these homes, which is the same for all processes that use them; 0 for a
    /// view that was not [named](Self::with_name).
    pub fn name(&self) -> u64 {
        self.name
    }

    /// Returns the slot of an address with this keyed hash.
    pub fn slot(hash: u64) -> usize {
        (hash >> 32) as usize % SLOTS
    }

    /// Returns the hop to the home of a slot; 0 without slots.
    pub fn home(&self, slot: usize) -> usize {
        let hop = self.slots.as_ref().and_then(|slots| slots.get(slot));
        hop.copied().map_or(0, usize::from)
    }

    /// Returns the hop to the home of an address with this keyed hash. The upper half decides, so
    /// that the lower half stays evenly spread inside the shard's own tables.
    #[inline]
    pub fn hop(&self, hash: u64) -> usize {
        let upper = (hash >> 32) as usize;
        match &self.slots {
            None => upper % self.own,
            Some(slots) => slots.get(upper % SLOTS).copied().map_or(0, usize::from),
        }
    }

    /// Returns the shard of this process that stands for an address with this keyed hash: its home,
    /// if that is in this process.
    #[inline]
    pub fn own_hop(&self, hash: u64) -> usize {
        let upper = (hash >> 32) as usize;
        if self.slots.is_some() { upper % SLOTS % self.own } else { upper % self.own }
    }

    /// Returns the number of this process's own shards: hops below it lead to them.
    #[inline]
    pub fn own(&self) -> usize {
        self.own
    }

    /// Returns the number of hops.
    #[inline]
    pub fn hops(&self) -> usize {
        self.members.iter().map(|member| usize::from(member.shards.max(1))).sum::<usize>().max(self.own)
    }

    /// Returns the members, this process first.
    #[inline]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the hop to the first shard of each other process.
    pub fn others(&self) -> impl Iterator<Item = usize> {
        let mut first = 0;
        let firsts = self.members.iter().map(move |member| {
            let own = first;
            first += usize::from(member.shards.max(1));
            own
        });
        firsts.skip(1)
    }

    /// Returns the name that other processes have for the shard behind a hop; `None` if there is no
    /// such hop.
    pub fn station(&self, hop: usize) -> Option<Station> {
        let mut shard = hop;
        for member in &self.members {
            if shard < usize::from(member.shards) {
                let Member { node, incarnation, .. } = *member;
                return Some(Station { node, incarnation, shard: u16::try_from(shard).ok()? });
            }
            shard -= usize::from(member.shards);
        }
        None
    }

    /// Returns the version of the letters that the process behind a hop understands.
    pub fn letters(&self, hop: usize) -> u16 {
        let mut shard = hop;
        for member in &self.members {
            if shard < usize::from(member.shards) {
                return member.letters;
            }
            shard -= usize::from(member.shards);
        }
        0
    }

    /// Returns the hop to a shard; `None` if its process is not, or no longer, in the view.
    pub fn hop_to(&self, station: Station) -> Option<usize> {
        let mut first = 0;
        for member in &self.members {
            if (member.node, member.incarnation) == (station.node, station.incarnation) {
                return (station.shard < member.shards).then_some(first + usize::from(station.shard));
            }
            first += usize::from(member.shards);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u16, shards: u16) -> Member {
        Member { node, incarnation: 7, shards, letters: 1 }
    }

    #[test]
    fn hops_lead_to_nodes_with_names() {
        let view = View::among(vec![member(1, 2), member(2, 1)], |_| 0);
        assert_eq!(view.node_name(0), None);
        let view = view.with_node_names(vec!["n1".into(), "n2".into()]);
        assert_eq!([0, 1, 2, 3].map(|hop| view.node_name(hop)), [Some("n1"), Some("n1"), Some("n2"), None]);
    }

    #[test]
    fn two_nodes_agree_about_every_home() {
        let owner_by_node = |slot: usize| slot % 3;
        let here = View::among(vec![member(1, 2), member(2, 3), member(3, 1)], owner_by_node);
        let there = View::among(vec![member(2, 3), member(1, 2), member(3, 1)], |slot| [1, 0, 2][owner_by_node(slot)]);
        for hash in (0..SLOTS as u64).map(|slot| slot << 32 | 5) {
            assert_eq!(here.station(here.hop(hash)), there.station(there.hop(hash)));
        }
        assert_eq!((here.own(), here.hops(), there.own()), (2, 6, 3));
    }

    #[test]
    fn every_hop_has_a_name_that_leads_back() {
        let view = View::among(vec![member(4, 2), member(2, 3)], |_| 0);
        for hop in 0..view.hops() {
            let station = view.station(hop).unwrap();
            assert_eq!(view.hop_to(station), Some(hop));
            assert_eq!(station.to_string().parse(), Ok(station));
        }
        assert_eq!(view.station(view.hops()), None);
        assert_eq!(view.hop_to(Station { node: 2, incarnation: 6, shard: 0 }), None, "an earlier process");
        assert_eq!(view.hop_to(Station { node: 2, incarnation: 7, shard: 3 }), None, "no such shard");
        for text in ["", "1", "1.2", "1.2.3.4", "1.2.x", "70000.1.1"] {
            assert_eq!(text.parse::<Station>(), Err(NoStation), "{text}");
        }
    }

    #[test]
    fn a_process_alone_spreads_over_its_shards() {
        let view = View::alone(3);
        assert_eq!((0..6).map(|upper| view.hop(upper << 32)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
        assert_eq!(view.station(2), Some(Station { node: 0, incarnation: 0, shard: 2 }));
    }
}
