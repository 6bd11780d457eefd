//! Times at which a shard looks at connections: logins that take too long, peers that don't close,
//! sessions of BOSH without a request, and calls that wait for their turn.
//!
//! Invariant: a timer has the serial number of its connection, so that one that outlives it does
//! nothing to the next connection at the same link.

use std::cmp::Reverse;

use rookery_fanout::Link;

use crate::driver::Driver;
use crate::shard::{Shard, ShardTimer};

impl<D: Driver> Shard<D> {
    /// Does what is due for connections that are still there.
    pub(crate) fn timers(&mut self) {
        while let Some(&Reverse((due, link, serial, timer))) = self.timing.timers.peek() {
            if due > self.timing.now_ms {
                return;
            }
            self.timing.timers.pop();
            if self.connections.get(link).is_none_or(|connection| connection.serial != serial) {
                continue;
            }
            match timer {
                ShardTimer::Login => self.login_timed_out(link),
                ShardTimer::Linger => self.lost(link),
                ShardTimer::Leave => {
                    self.timing.leaving.retain(|&leaving| leaving != link);
                    self.say_goodbye(link);
                }
                ShardTimer::Bosh => self.look_at_bosh(link, due),
                ShardTimer::Attempt => self.turn_has_come(link),
            }
        }
    }

    /// Sets the time at which a session of BOSH is looked at.
    pub(crate) fn look_at(&mut self, link: Link, due_ms: u64) {
        let serial = self.connections.get(link).map_or(0, |connection| connection.serial);
        self.timing.timers.push(Reverse((due_ms, link, serial, ShardTimer::Bosh)));
    }

    /// Gives the peer time to close its side of a connection that this server has closed.
    pub(crate) fn linger(&mut self, link: Link) {
        let serial = self.connections.get(link).map_or(0, |connection| connection.serial);
        self.timing.timers.push(Reverse((self.timing.now_ms + LINGER_MS, link, serial, ShardTimer::Linger)));
    }
}

/// The time that a peer may take to close after we have.
const LINGER_MS: u64 = 5_000;
