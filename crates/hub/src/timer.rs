//! Calls that the world makes later: once, or repeatedly.
//!
//! Time is the driver's monotonic clock, so that a corrected time of day neither delays nor
//! repeats anything. A call runs in the first tick at or after its time, never before the handler
//! that requested it has ended.

use std::cmp::Reverse;

use crate::World;
use crate::waiting::Timer;

impl World {
    /// Runs `call` in that many milliseconds, unless the timer is cancelled.
    pub fn after(&mut self, delay_ms: u64, call: impl FnOnce(&mut World) + 'static) -> Timer {
        self.waiting.timers.last += 1;
        let timer = self.waiting.timers.last;
        self.waiting.timers.due.push(Reverse((self.clock.now_ms.saturating_add(delay_ms), timer)));
        self.waiting.timers.calls.insert(timer, Box::new(call));
        debug_assert!(
            self.waiting.timers.due.len() >= self.waiting.timers.calls.len(),
            "each call has its time, and cancelled ones may have theirs"
        );
        Timer(timer)
    }

    /// Cancels a call. It isn't an error if the call has run already.
    pub fn cancel(&mut self, timer: Timer) {
        self.waiting.timers.calls.remove(&timer.0);
        // Cancelled ones must not accumulate after one that is far away.
        if self.waiting.timers.due.len() > 2 * self.waiting.timers.calls.len() + SLACK {
            let calls = &self.waiting.timers.calls;
            self.waiting.timers.due.retain(|Reverse((_, timer))| calls.contains_key(timer));
            debug_assert!(self.waiting.timers.due.len() == calls.len(), "a call has one time");
        }
    }

    /// Returns when the next call is due, on the clock of [`World::set_time`].
    pub fn next_timer(&self) -> Option<u64> {
        self.waiting.timers.due.peek().map(|Reverse((due, _))| *due)
    }

    /// Runs the calls that are due. Those that they request run in a later tick.
    pub fn run_timers(&mut self) {
        let last = self.waiting.timers.last;
        while let Some(&Reverse((due, timer))) = self.waiting.timers.due.peek() {
            if due > self.clock.now_ms || timer > last {
                return;
            }
            self.waiting.timers.due.pop();
            if let Some(call) = self.waiting.timers.calls.remove(&timer) {
                call(self);
            }
        }
    }

    /// Starts the recurring calls of modules.
    pub(crate) fn start_rounds(&mut self) {
        self.call_all(|registry| &registry.rounds.starting);
        for round in 0..self.catalogue.registry.rounds.every.len() {
            self.next_round(round);
        }
    }

    fn next_round(&mut self, round: usize) {
        let Some(&(period_ms, call)) = self.catalogue.registry.rounds.every.get(round) else { return };
        self.after(period_ms, move |world| {
            call(world);
            world.next_round(round);
        });
    }
}

/// The number of cancelled calls that may stay in any case.
const SLACK: usize = 64;
