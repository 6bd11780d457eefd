//! The orderly end of a shard.
//!
//! Invariants:
//! * Data waiting for a client, and the acknowledgement of its stanzas (XEP-0198 §4), goes before
//!   the end of its stream: otherwise the client would send stored stanzas again.
//! * A client whose stanzas are not all stored yet stays until they are, or until
//!   [`LAST_ANSWER_MS`] have passed.

use std::cmp::Reverse;

use rookery_fanout::Link;
use rookery_stream::error::StreamError;

use crate::driver::Driver;
use crate::shard::{Shard, ShardTimer};

impl<D: Driver> Shard<D> {
    /// Ends all streams, or lets sessions wait for the next process if it `hands_on`.
    pub(crate) fn stop(&mut self, hands_on: bool) {
        self.timing.stopping = true;
        self.timing.hands_on = hands_on;
        self.world.stop(hands_on);
        self.stop_federating();
        self.leave(self.connections.links());
    }

    /// Ends the streams of some sessions in order, or lets those sessions wait for another process.
    pub(crate) fn leave(&mut self, links: Vec<Link>) {
        // Data waiting for the clients goes before the end of their streams, and the counts that
        // keep them from sending again.
        links.iter().for_each(|&link| self.world.say_handled(link));
        self.settle();
        self.flush();
        self.timing.leaving.extend(links);
        // A session may be among them twice, for two reasons.
        self.timing.leaving.sort_unstable();
        self.timing.leaving.dedup();
        self.dismiss_settled();
        for link in self.timing.leaving.clone() {
            self.pause(link, true);
            let serial = self.connections.get(link).map_or(0, |connection| connection.serial);
            self.timing.timers.push(Reverse((self.timing.now_ms + LAST_ANSWER_MS, link, serial, ShardTimer::Leave)));
        }
    }

    /// Ends the streams of a stopping shard, except if the client has yet to be told that the
    /// store has its stanzas. `true` if any ended.
    pub(crate) fn dismiss_settled(&mut self) -> bool {
        if self.timing.leaving.is_empty() {
            return false;
        }
        let all = std::mem::take(&mut self.timing.leaving);
        let (settled, waiting): (Vec<_>, _) = all.into_iter().partition(|&link| self.world.is_settled(link));
        self.timing.leaving = waiting;
        settled.iter().for_each(|&link| self.say_goodbye(link));
        !settled.is_empty()
    }

    pub(crate) fn say_goodbye(&mut self, link: Link) {
        let is_coming = !self.timing.stopping && self.moves.coming.is_some();
        let moves = !self.timing.stopping && self.world.is_leaving(link);
        if (self.timing.hands_on || is_coming || moves) && self.leave_to_next(link) {
            return;
        }
        let stays = if is_coming { self.moves.stays } else { moves && self.world.has_homes() };
        match stays {
            true => self.fail(link, &StreamError::Reset, Some("the account has its home on another node now")),
            false => self.fail(link, &StreamError::SystemShutdown, None),
        }
        // The client has to close the connection as well.
        self.pause(link, false);
    }
}

/// The longest time that a stream outlives the order to stop: its client has yet to be told that
/// the store has its stanzas.
const LAST_ANSWER_MS: u64 = 5_000;
