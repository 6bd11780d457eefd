//! The audience of a room, kept ready by next hop: it changes when somebody enters or leaves, and
//! isn't computed for each message.
//!
//! Addresses are in shared chunks, so that a parcel for another shard refers to a chunk instead of
//! copying it. Adding an address writes into the last chunk of its shard; removing one rewrites one
//! chunk. Leaving an address out of one packet costs a copy of its chunk only.

use std::collections::BTreeMap;
use std::sync::Arc;

use rookery_fanout::Addresses;
use rookery_jid::{Jid, JidRef};

/// Full JIDs, by next hop.
#[derive(Debug, Default)]
pub struct Roll {
    /// Accounts of this server, by home shard.
    pub(crate) shards: Vec<Vec<Arc<Addresses>>>,
    /// The addresses on other servers, by domain.
    pub(crate) away: BTreeMap<String, Vec<Jid>>,
    /// Services and domains of this server.
    pub(crate) others: Vec<Jid>,
    pub(crate) len: usize,
}

impl Roll {
    /// Returns the number of addresses.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the accounts of this server with their home shards.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (usize, &Arc<Addresses>)> {
        self.shards.iter().enumerate().flat_map(|(shard, chunks)| chunks.iter().map(move |chunk| (shard, chunk)))
    }

    /// Returns whether there is no address.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Adds a name to the last chunk of its shard.
pub(crate) fn push(chunks: &mut Vec<Arc<Addresses>>, hash: u64, jid: &str) {
    debug_assert!(
        chunks.last().is_none_or(|last| !last.is_empty() && last.len() <= CHUNK),
        "no chunk is empty or long"
    );
    match chunks.last_mut().filter(|last| last.len() < CHUNK) {
        // A parcel that is still on its way keeps its own copy.
        Some(last) => Arc::make_mut(last).push(hash, jid),
        None => {
            let mut names = Addresses::default();
            names.push(hash, jid);
            chunks.push(Arc::new(names));
        }
    }
}

/// Removes an address from a list, if it is there.
pub(crate) fn remove(jids: &mut Vec<Jid>, jid: JidRef<'_>) -> bool {
    let at = jids.iter().position(|other| other.as_ref() == jid);
    at.map(|at| jids.swap_remove(at)).is_some()
}

/// Removes a name from its chunk. Chunks that have become small are filled from the last one, so
/// that the number of chunks stays in proportion to that of names.
pub(crate) fn remove_from_chunk(chunks: &mut Vec<Arc<Addresses>>, hash: u64, jid: JidRef<'_>) -> bool {
    let has = |names: &Addresses| names.iter().any(|(other, name)| other == hash && name == jid.as_str());
    let Some(at) = chunks.iter().position(|names| has(names)) else { return false };
    let cut = chunks.get(at).map(|names| without(names, &[(hash, jid.as_str())]));
    let (Some(chunk), Some(cut)) = (chunks.get_mut(at), cut) else { return false };
    debug_assert!(cut.len() + 1 == chunk.len(), "an address is on a roll once");
    *chunk = cut;
    if chunk.len() >= CHUNK / 2 {
        return true;
    }
    // Only the last chunk may be small.
    let small = chunks.remove(at);
    small.iter().for_each(|(hash, name)| push(chunks, hash, name));
    true
}

/// Returns the names except for a few; the chunk itself if none of those is in it.
pub(crate) fn without(names: &Arc<Addresses>, except: &[(u64, &str)]) -> Arc<Addresses> {
    let is_out = |hash: u64, name: &str| except.iter().any(|(other, jid)| *other == hash && *jid == name);
    if except.is_empty() || !names.iter().any(|(hash, name)| is_out(hash, name)) {
        return names.clone();
    }
    let mut rest = Addresses::default();
    names.iter().filter(|(hash, name)| !is_out(*hash, name)).for_each(|(hash, name)| rest.push(hash, name));
    Arc::new(rest)
}

/// Addresses in one chunk: few enough that copying a chunk is cheap, many enough that a parcel for
/// each chunk is cheap too.
const CHUNK: usize = 128;

const _: () = assert!(CHUNK >= 4, "a chunk of which half is gone is not empty");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn jid(number: u64) -> Jid {
        Jid::parse(&format!("u{number}@example.org/r")).unwrap()
    }

    fn all(chunks: &[Arc<Addresses>]) -> Vec<String> {
        let mut all: Vec<_> =
            chunks.iter().flat_map(|names| names.iter().map(|(_, name)| name.to_owned()).collect::<Vec<_>>()).collect();
        all.sort();
        all
    }

    proptest! {
        /// An address that is added and not removed is there, once, and there are few chunks.
        #[test]
        fn a_roll_is_a_set(steps in proptest::collection::vec((any::<bool>(), 0u64..400), 0..800)) {
            let (mut chunks, mut wanted) = (Vec::new(), std::collections::BTreeSet::new());
            for (comes, number) in steps {
                let name = jid(number);
                if comes && wanted.insert(name.to_string()) {
                    push(&mut chunks, number, name.as_str());
                } else if !comes {
                    prop_assert_eq!(remove_from_chunk(&mut chunks, number, name.as_ref()), wanted.remove(name.as_str()));
                }
            }
            prop_assert_eq!(all(&chunks), wanted.iter().cloned().collect::<Vec<_>>());
            prop_assert!(chunks.len() <= wanted.len() / (CHUNK / 4) + 2);
        }
    }

    #[test]
    fn exceptions_leave_other_chunks_as_they_are() {
        let mut chunks = Vec::new();
        (0..300).for_each(|number| push(&mut chunks, number, jid(number).as_str()));
        let out = jid(5);
        let kept: Vec<_> = chunks.iter().map(|names| without(names, &[(5, out.as_str())])).collect();
        assert_eq!(all(&kept).len(), 299);
        assert!(!Arc::ptr_eq(&kept[0], &chunks[0]) && Arc::ptr_eq(&kept[1], &chunks[1]));
    }
}
