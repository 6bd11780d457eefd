//! Each module's share in the work of a shard: calls, and their time. Nothing is tallied unless
//! somebody watches.
//!
//! # Invariants
//!
//! * All calls are counted while somebody watches; of those from outside any module, one in
//!   [`SAMPLED_CALLS`] is timed, with everything that it leads to.
//! * A module's time excludes the time of the calls of other modules that it causes.

use std::time::Duration;

use rookery_observe::{SAMPLED_CALLS, Since, StanzaStage};

use crate::World;

impl World {
    /// Tallies the calls of modules for this time.
    pub fn watch_modules(&mut self, lasts_ms: u64) {
        self.tally.until_ms = self.clock.now_ms + lasts_ms;
    }

    /// Makes a call of a module.
    #[inline]
    pub(crate) fn call_module<T>(&mut self, module: &'static str, call: impl FnOnce(&mut World) -> T) -> T {
        if self.clock.now_ms >= self.tally.until_ms && !self.counters.path.is_measured() {
            return call(self);
        }
        let outer = self.counters.path.enter(StanzaStage::Modules);
        let done = if self.clock.now_ms >= self.tally.until_ms { call(self) } else { self.tally_call(module, call) };
        self.counters.path.back(outer);
        done
    }

    #[inline(never)]
    fn tally_call<T>(&mut self, module: &'static str, call: impl FnOnce(&mut World) -> T) -> T {
        let tally = &mut self.tally;
        if tally.depth == 0 {
            tally.turn += 1;
            tally.is_timed = tally.turn.is_multiple_of(SAMPLED_CALLS);
        }
        tally.depth += 1;
        let outer = std::mem::take(&mut tally.inner);
        let since = tally.is_timed.then(Since::now);
        let done = call(self);
        let lasted = since.map(Since::elapsed).unwrap_or_default();
        let own = lasted.saturating_sub(self.tally.inner);
        self.counters.modules.add(module, own);
        self.tally.inner = outer + lasted;
        self.tally.depth -= 1;
        if self.tally.depth == 0 {
            self.tally.inner = Duration::ZERO;
        }
        done
    }
}
