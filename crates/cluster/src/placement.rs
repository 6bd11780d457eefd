//! Chooses the node of each slot: the one for which the hash of its name and the slot's number is
//! the highest. So a node that joins or leaves moves its own share of the slots and no other.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Returns the index, among these names of nodes, of the one that a slot belongs to; 0 if there is
/// none.
pub fn owner<'a>(slot: usize, names: impl Iterator<Item = &'a str>) -> usize {
    let weigh = |name: &str| {
        // The key isn't secret: all versions have to agree on it, and users can't choose the number
        // of a slot.
        let mut hasher = SipHasher13::new_with_keys(0, slot as u64);
        hasher.write(name.as_bytes());
        hasher.finish()
    };
    // Equal weights are ordered by name, which is the same everywhere.
    let weighed = names.enumerate().map(|(at, name)| (weigh(name), name, at));
    weighed.max_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1))).map_or(0, |(_, _, at)| at)
}

#[cfg(test)]
mod tests {
    use rookery_fanout::view::SLOTS;

    use super::*;

    #[test]
    fn a_node_that_joins_takes_its_share_and_nothing_else_moves() {
        let before = ["n1", "n2", "n3"];
        let after = ["n4", "n3", "n1", "n2"];
        let mut taken = 0;
        for slot in 0..SLOTS {
            let (old, new) = (before[owner(slot, before.into_iter())], after[owner(slot, after.into_iter())]);
            assert!(new == old || new == "n4", "slot {slot} moves from {old} to {new}");
            taken += usize::from(new == "n4");
        }
        assert!((SLOTS / 5..SLOTS / 3).contains(&taken), "{taken}");
    }
}
