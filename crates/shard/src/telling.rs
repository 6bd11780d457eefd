//! Reports the counts of this node's gate to other nodes; see [`crate::attempts::news`].
//!
//! Changes of the counts go out after a moment, together with all others that come meanwhile. A
//! server without other nodes does none of this.

use std::net::IpAddr;
use std::sync::Arc;

use rookery_hub::{DriverNews, World};
use serde_bytes::ByteBuf;
use tracing::warn;

use crate::door::Door;
use crate::driver::Driver;
use crate::gate::Gate;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Tells other nodes, after a moment, what the gate counts from now on.
    pub(crate) fn tell_others(&mut self) {
        tell(&self.common.gate, &mut self.world);
    }

    /// Applies the report of another node.
    pub(crate) fn told_by_node(&mut self, bytes: &[u8]) {
        let (now_ms, unix_ms) = (self.timing.now_ms, self.world.time());
        if let Err(error) = self.common.gate.hear(bytes, &self.common.generation.logins, now_ms, unix_ms) {
            warn!(%error, "news of another node about failed logins can't be read and is dropped");
        }
    }
}

impl Door {
    /// Tells other nodes, after a moment, what the gate counts from now on.
    pub fn tell_others(&self) {
        let gate = self.gate.clone();
        self.run_at(0, move |world| tell(&gate, world));
    }

    /// Counts a miss on the web: a token that doesn't exist, or a name that is taken.
    pub fn count_miss(&self, address: IpAddr, unix_ms: u64) {
        self.gate.guesses().count_miss(address, unix_ms);
        self.tell_others();
    }
}

/// Tells other nodes, after a moment, what a gate counts from now on.
pub(crate) fn tell(gate: &Arc<Gate>, world: &mut World) {
    if !world.has_other_nodes() || !gate.begins_to_tell() {
        return;
    }
    let gate = gate.clone();
    world.after(TELL_MS, move |world| {
        if let Some(news) = gate.take_news() {
            world.tell_other_nodes(&DriverNews(ByteBuf::from(news)));
        }
    });
}

/// The time for which changes wait for others, in milliseconds: a login has usually succeeded by
/// then, and somebody who guesses gains little.
const TELL_MS: u64 = 250;
