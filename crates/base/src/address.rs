//! Hashes of addresses, from which their homes follow.

use std::fmt;
use std::hash::Hasher;

use ahash::RandomState;
use siphasher::sip::SipHasher13;

/// A hash of addresses under keys that strangers don't know, so that nobody can aim at one shard.
#[derive(Clone)]
pub enum AddressHash {
    /// A hash for one process: fast, and different between processors and versions.
    Process(RandomState),
    /// A hash for many processes: the same wherever it is computed.
    Cluster(SipHasher13),
}

impl AddressHash {
    /// Returns the hash of one process, under its keys.
    pub fn of_process([a, b, c, d]: [u64; 4]) -> Self {
        Self::Process(RandomState::with_seeds(a, b, c, d))
    }

    /// Returns the hash that all nodes of a cluster compute, under the cluster's key.
    pub fn of_cluster(key: [u8; 16]) -> Self {
        Self::Cluster(SipHasher13::new_with_key(&key))
    }

    /// Returns the hash of one process, under random keys.
    pub fn of_chance() -> Self {
        Self::Process(RandomState::new())
    }

    /// Returns the hash of a value combined with one that was hashed already.
    pub fn beside(&self, first: u64, second: &[u8]) -> u64 {
        match self {
            Self::Process(keys) => keys.hash_one((first, second)),
            Self::Cluster(keyed) => {
                let mut hasher = *keyed;
                hasher.write(&first.to_le_bytes());
                hasher.write(second);
                hasher.finish()
            }
        }
    }

    /// Returns the hash of an address, given in the prepared form in which addresses are compared.
    #[inline]
    pub fn of(&self, address: &str) -> u64 {
        match self {
            Self::Process(keys) => keys.hash_one(address),
            Self::Cluster(keyed) => {
                let mut hasher = *keyed;
                hasher.write(address.as_bytes());
                hasher.finish()
            }
        }
    }
}

impl fmt::Debug for AddressHash {
    /// Writes the kind of hash, without its keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process(_) => "AddressHash::Process",
            Self::Cluster(_) => "AddressHash::Cluster",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nodes_find_the_same_hash() {
        let key = std::array::from_fn(|at| at as u8);
        let hash = AddressHash::of_cluster(key).of("romeo@example.org");
        assert_eq!(hash, AddressHash::of_cluster(key).of("romeo@example.org"));
        assert_ne!(hash, AddressHash::of_cluster([0; 16]).of("romeo@example.org"), "the key matters");
        // Nodes of different versions have to agree on this value: another one would give every
        // account another home.
        assert_eq!(AddressHash::of_cluster(key).of(""), 0xabac_0158_050f_c4dc, "SipHash-1-3 of nothing");
    }
}
