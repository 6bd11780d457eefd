//! Chooses the node of each slot: the one for which the hash of its name and the slot's number is
//! the highest. So a node that joins or leaves moves its own share of the slots and no other.

use std::hash::Hasher;
use std::sync::Arc;

use rookery_fanout::view::SLOTS;
use siphasher::sip::SipHasher13;

/// The weight of a node for each slot. It follows from the node's name alone.
#[derive(Debug, Clone)]
pub struct NodeWeights(Arc<[u64]>);

impl NodeWeights {
    /// Returns the weights of a node of this name.
    pub fn of(name: &str) -> Self {
        let weigh = |slot: usize| {
            // The key isn't secret: all versions have to agree on it, and users can't choose the
            // number of a slot.
            let mut hasher = SipHasher13::new_with_keys(0, slot as u64);
            hasher.write(name.as_bytes());
            hasher.finish()
        };
        Self((0..SLOTS).map(weigh).collect())
    }
}

/// Returns, for each slot, the index of its owner among these nodes with their names; 0 if there is
/// none.
pub fn owners(nodes: &[(&str, &NodeWeights)]) -> Vec<usize> {
    let mut owners = vec![0; SLOTS];
    let Some((first, others)) = nodes.split_first() else { return owners };
    let mut highest = first.1.0.to_vec();
    for (at, (name, weights)) in others.iter().enumerate() {
        for ((highest, owner), weight) in highest.iter_mut().zip(&mut owners).zip(&*weights.0) {
            // Equal weights are ordered by name, which is the same everywhere.
            let is_higher = weight > highest || weight == highest && nodes.get(*owner).is_some_and(|own| *name > own.0);
            if is_higher {
                (*highest, *owner) = (*weight, at + 1);
            }
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_joins_takes_its_share_and_nothing_else_moves() {
        let weighed = |name| (name, NodeWeights::of(name));
        let (before, after) = (["n1", "n2", "n3"].map(weighed), ["n4", "n3", "n1", "n2"].map(weighed));
        let owner_names = |nodes: &[(&'static str, NodeWeights)]| {
            let weighed: Vec<_> = nodes.iter().map(|(name, weights)| (*name, weights)).collect();
            owners(&weighed).into_iter().map(|owner| nodes[owner].0).collect::<Vec<_>>()
        };
        let mut taken = 0;
        for (slot, (old, new)) in owner_names(&before).into_iter().zip(owner_names(&after)).enumerate() {
            assert!(new == old || new == "n4", "slot {slot} moves from {old} to {new}");
            taken += usize::from(new == "n4");
        }
        assert!((SLOTS / 5..SLOTS / 3).contains(&taken), "{taken}");
    }
}
