//! Hash tables whose order is random ([`chance`]), as it must be where strangers choose the keys,
//! and which a seed can fix.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use ahash::RandomState;

use crate::chance;

/// A hash map. Made by `default()`.
pub type Map<K, V> = HashMap<K, V, Keyed>;
/// A hash set. Made by `default()`.
pub type Set<T> = HashSet<T, Keyed>;

/// A source of hashers that all have the same keys.
#[derive(Debug, Clone)]
pub struct Keyed(RandomState);

impl Keyed {
    /// Returns one with given keys, which others may know as well.
    pub fn with([a, b, c, d]: [u64; 4]) -> Self {
        Self(RandomState::with_seeds(a, b, c, d))
    }
}

impl Default for Keyed {
    /// Draws new keys.
    fn default() -> Self {
        match [chance::next_of_seed(), chance::next_of_seed(), chance::next_of_seed(), chance::next_of_seed()] {
            [Some(a), Some(b), Some(c), Some(d)] => Self::with([a, b, c, d]),
            _ => Self(RandomState::new()),
        }
    }
}

impl BuildHasher for Keyed {
    type Hasher = ahash::AHasher;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}
