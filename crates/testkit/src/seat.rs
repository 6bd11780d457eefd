//! A process of a cluster that a test plays: the test decides who has which homes and carries the
//! letters.

use std::sync::Arc;

use rookery_base::AddressHash;
use rookery_fanout::View;
use rookery_hub::Place;
use rookery_shard::Outlet;

/// The part of a process in its cluster, as it starts.
#[derive(Clone)]
pub struct Seat {
    /// The homes of all addresses, as this process sees them.
    pub view: Arc<View>,
    /// The hash that names them.
    pub addresses: AddressHash,
    /// True if others may have what lives at the homes of this process.
    pub is_joining: bool,
    /// Takes letters for other nodes.
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
