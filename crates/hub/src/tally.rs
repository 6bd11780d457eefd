//! Each module's share in the work of a shard: calls, their time and memory; and the stanzas that
//! sessions send. Nothing is tallied unless somebody watches.
//!
//! # Invariants
//!
//! * All calls are counted while somebody watches; of those from outside any module, one in
//!   [`SAMPLED_CALLS`] is timed, with everything that it leads to.
//! * A module's time excludes the time of the calls of other modules that it causes.

use std::time::Duration;

use rookery_fanout::Link;
use rookery_observe::allocated::allocated_bytes;
use rookery_observe::{Bound, Most, Per, SAMPLED_CALLS, Since, StanzaStage, Unit};

use crate::World;

impl World {
    /// Tallies the calls of modules for this time.
    pub fn watch_modules(&mut self, lasts_ms: u64) {
        self.watched.modules.until_ms = self.clock.now_ms + lasts_ms;
    }

    /// Counts what sessions send for this time. Returns the sessions that have sent something since
    /// the counting began, with their stanzas and bytes.
    pub fn watch_senders(&mut self, lasts_ms: u64) -> impl Iterator<Item = (Link, u64, u64)> {
        let now_ms = self.clock.now_ms;
        if now_ms >= self.watched.senders.until_ms {
            self.watched.senders.sent.clear();
        }
        self.watched.senders.until_ms = now_ms + lasts_ms;
        self.watched.senders.sent.iter().map(|(link, (stanzas, bytes))| (*link, *stanzas, *bytes))
    }

    /// Counts a stanza of a session, if somebody watches.
    #[inline]
    pub(crate) fn tally_sender(&mut self, link: Link, bytes: usize) {
        if self.clock.now_ms < self.watched.senders.until_ms {
            self.count_sender(link, bytes as u64);
        }
    }

    #[inline(never)]
    fn count_sender(&mut self, link: Link, bytes: u64) {
        let sent = &mut self.watched.senders.sent;
        if sent.len() < MOST_SENDERS || sent.contains_key(&link) {
            let (stanzas, sum) = sent.entry(link).or_default();
            (*stanzas, *sum) = (*stanzas + 1, *sum + bytes);
        }
    }

    /// Makes a call of a module.
    #[inline]
    pub(crate) fn call_module<T>(&mut self, module: &'static str, call: impl FnOnce(&mut World) -> T) -> T {
        if self.clock.now_ms >= self.watched.modules.until_ms && !self.counters.path.is_measured() {
            return call(self);
        }
        let outer = self.counters.path.enter(StanzaStage::Modules);
        let done =
            if self.clock.now_ms >= self.watched.modules.until_ms { call(self) } else { self.tally_call(module, call) };
        self.counters.path.back(outer);
        done
    }

    #[inline(never)]
    fn tally_call<T>(&mut self, module: &'static str, call: impl FnOnce(&mut World) -> T) -> T {
        let tally = &mut self.watched.modules;
        if tally.depth == 0 {
            tally.turn += 1;
            tally.is_timed = tally.turn.is_multiple_of(SAMPLED_CALLS);
        }
        tally.depth += 1;
        let outer = (std::mem::take(&mut tally.inner), std::mem::take(&mut tally.inner_bytes));
        let since = tally.is_timed.then(|| (Since::now(), allocated_bytes()));
        let done = call(self);
        let taken = since.map(|(since, before)| (since.elapsed(), allocated_bytes().saturating_sub(before)));
        let (lasted, bytes) = taken.unwrap_or_default();
        let tally = &mut self.watched.modules;
        let own = (lasted.saturating_sub(tally.inner), bytes.saturating_sub(tally.inner_bytes));
        self.counters.modules.add(module, own.0, own.1);
        (tally.inner, tally.inner_bytes) = (outer.0 + lasted, outer.1 + bytes);
        self.watched.modules.depth -= 1;
        if self.watched.modules.depth == 0 {
            (self.watched.modules.inner, self.watched.modules.inner_bytes) = (Duration::ZERO, 0);
        }
        done
    }
}

/// The most sessions of a shard that are counted: a busy one is among the first that send.
const MOST_SENDERS: usize = 10_000;

/// The bound of the counts, for the page of limits.
pub const BOUNDS: &[Bound] = &[Bound::on(
    "sessions whose stanzas are counted while somebody watches the senders",
    Per::Shard,
    Most::Fixed(MOST_SENDERS as u64),
    Unit::Number,
)
.or("further ones are left out")];
