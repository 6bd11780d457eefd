//! A process of a cluster that a test simulates: the test assigns the homes and carries the
//! letters.

use std::sync::Arc;

use rookery_base::AddressHash;
use rookery_fanout::View;
use rookery_hub::Place;
use rookery_shard::Outlet;

/// The seat of a process in its cluster at its start.
#[derive(Clone)]
pub struct Seat {
    /// The homes of all addresses, in the view of this process.
    pub view: Arc<View>,
    /// The hash of addresses.
    pub addresses: AddressHash,
    /// True if others may still have the content of this process's homes.
    pub is_joining: bool,
    /// The outlet for letters to other nodes.
    pub outlet: Arc<dyn Outlet>,
}

impl Seat {
    /// Returns the place of a shard.
    pub(crate) fn place(&self, shard: usize, keys: [u64; 4]) -> Place {
        let number = self.number();
        let secrets = keys.map(|key| key ^ number << 32);
        let (view, addresses, is_joining) = (self.view.clone(), self.addresses.clone(), self.is_joining);
        Place { shard, view, is_joining, addresses, secrets }
    }

    /// Returns a number that no other process of the cluster has.
    pub(crate) fn number(&self) -> u64 {
        let own = self.view.members().first().map(|own| (u64::from(own.node), u64::from(own.incarnation)));
        own.map_or(0, |(node, incarnation)| node << 24 | incarnation & 0xff_ffff)
    }
}
