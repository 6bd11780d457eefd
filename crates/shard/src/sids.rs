//! The shards of all BOSH sessions (XEP-0124), by their ids: requests arrive anywhere.
//!
//! In a cluster an id names the node on which its session began, under a seal that only nodes of
//! the cluster can make: a request that arrives on another node finds its way, and an invented id
//! costs the others nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock};

use rookery_base::AddressHash;
use rookery_base::lock::lock;
use rookery_fanout::{Link, Station};

/// The places of the sessions: looked up once for each request.
#[derive(Debug, Default)]
pub(crate) struct Sids {
    places: Mutex<HashMap<u128, SidPlace>>,
    seal: OnceLock<SidSeal>,
}

/// The place of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SidPlace {
    /// The shard; for a session of another node the one that passes its requests on.
    pub shard: usize,
    /// The link; `None` while the session is on its way there: then it is in the shard's mailbox,
    /// ahead of any query about it.
    pub link: Option<Link>,
    /// The shard of another node that has the session, which began here.
    pub home: Option<Station>,
}

/// Writes the number of a node into ids.
#[derive(Debug)]
struct SidSeal {
    addresses: AddressHash,
    node: u16,
}

impl SidSeal {
    /// Returns an id for a number that nobody can guess: this node, 48 bits that prove it, and 64
    /// bits of the number.
    fn seal(&self, number: u128) -> u128 {
        let chance = number as u64;
        let upper = u64::from(self.node) << 48 | self.proof(self.node, chance);
        u128::from(upper) << 64 | u128::from(chance)
    }

    /// Returns the node that has made an id; `None` if none has.
    fn node_of(&self, sid: u128) -> Option<u16> {
        let (upper, chance) = ((sid >> 64) as u64, sid as u64);
        let node = (upper >> 48) as u16;
        (upper & PROOF == self.proof(node, chance)).then_some(node)
    }

    fn proof(&self, node: u16, chance: u64) -> u64 {
        self.addresses.of(&format!("session of BOSH {node} {chance}")) & PROOF
    }
}

impl Sids {
    /// Makes new ids name this node from now on.
    pub fn seal_as(&self, node: u16, addresses: &AddressHash) {
        _ = self.seal.set(SidSeal { addresses: addresses.clone(), node });
    }

    /// Returns the id of a new session, from a number that nobody can guess.
    pub fn new_sid(&self, number: u128) -> u128 {
        self.seal.get().map_or(number, |seal| seal.seal(number))
    }

    /// Returns the other node on which the session of an id began; `None` if it was this node, or
    /// no node has made the id.
    pub fn node_of(&self, sid: u128) -> Option<u16> {
        let seal = self.seal.get()?;
        seal.node_of(sid).filter(|node| *node != seal.node)
    }

    pub fn find(&self, sid: u128) -> Option<SidPlace> {
        self.lock().get(&sid).copied()
    }

    /// Returns the shard that handles a request; `None` if there is no such session.
    pub fn shard_for(&self, sid: u128, shards: usize) -> Option<usize> {
        let elsewhere = || self.node_of(sid).map(|_| shard_of(sid, shards));
        self.find(sid).map(|place| place.shard).or_else(elsewhere)
    }

    pub fn place(&self, sid: u128, shard: usize, link: Link) {
        self.lock().insert(sid, SidPlace { shard, link: Some(link), home: None });
    }

    /// Notes that a session is on its way to a shard. If the session has arrived meanwhile, that is
    /// recorded already.
    pub fn moves(&self, sid: u128, shard: usize) {
        if let Some(place) = self.lock().get_mut(&sid)
            && place.shard != shard
        {
            *place = SidPlace { shard, link: None, home: None };
        }
    }

    /// Notes that a session is on its way to a shard of another node, to which this one passes its
    /// requests on.
    pub fn moves_away(&self, sid: u128, shard: usize, home: Station) {
        self.lock().insert(sid, SidPlace { shard, link: None, home: Some(home) });
    }

    pub fn forget(&self, sid: u128) {
        self.lock().remove(&sid);
    }

    /// Forgets the sessions of a process that is gone, to which a shard has passed requests on.
    /// Returns them.
    pub fn depart(&self, shard: usize, node: u16, incarnation: u32) -> Vec<u128> {
        let is_of = |home: Station| (home.node, home.incarnation) == (node, incarnation);
        let gone = |place: &SidPlace| place.shard == shard && place.home.is_some_and(is_of);
        self.lock().extract_if(|_, place| gone(place)).map(|(sid, _)| sid).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, SidPlace>> {
        lock(&self.places)
    }
}

/// Returns the shard that stands for a session of which its node knows nothing.
pub(crate) fn shard_of(sid: u128, shards: usize) -> usize {
    sid as usize % shards.max(1)
}

/// The bits of the upper half of an id that prove its node.
const PROOF: u64 = (1 << 48) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn sids(node: u16, key: u8) -> Sids {
        let sids = Sids::default();
        sids.seal_as(node, &AddressHash::of_cluster([key; 16]));
        sids
    }

    #[test]
    fn an_id_leads_to_the_node_that_has_given_it_and_to_no_other() {
        let (here, there, strange) = (sids(1, 7), sids(2, 7), sids(3, 8));
        let sid = there.new_sid(5);
        assert_eq!((here.node_of(sid), there.node_of(sid), strange.node_of(sid)), (Some(2), None, None));
        for bit in 0..128 {
            assert_eq!(here.node_of(sid ^ (1 << bit)), None, "somebody has made it up: bit {bit}");
        }
        assert_eq!(Sids::default().new_sid(5), 5, "a process alone");
    }
}
