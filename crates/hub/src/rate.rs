//! How fast a session may send. Whoever sends faster is read later; nothing is dropped, and nobody else notices.
//!
//! Each session has a bucket of bytes and stanzas that empties with time, kept as one number: the time until which what it has sent is paid for. If that
//! lies further ahead than the burst allows, reading pauses until it doesn't.

use rookery_fanout::{Link, Places};

use crate::session::SessionRef;
use crate::world::Event;
use crate::{Intake, World};

/// What one session may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Bytes of stanzas per second, 0 for no limit.
    pub bytes: u64,
    /// Stanzas per second, 0 for no limit.
    pub stanzas: u64,
    /// Seconds of either that it may send at once.
    pub burst_seconds: u64,
}

impl Default for Rate {
    fn default() -> Self {
        Self { bytes: 10 * 1024 * 1024, stanzas: 20_000, burst_seconds: 5 }
    }
}

impl Rate {
    /// For how many microseconds a stanza uses the rate up.
    fn cost_us(&self, bytes: usize) -> u64 {
        let of_bytes = (bytes as u64).saturating_mul(SECOND_US).checked_div(self.bytes).unwrap_or_default();
        of_bytes.max(SECOND_US.checked_div(self.stanzas).unwrap_or_default())
    }
}

/// Until when, in microseconds of the shard's clock, what each link has sent is paid for.
#[derive(Debug, Default)]
pub(crate) struct Paid(Places<u64>);

impl Paid {
    /// A new session begins with an empty bucket.
    pub(crate) fn open(&mut self, link: Link) {
        if let Some(until) = self.0.open(link) {
            *until = 0;
        }
    }
}

impl World {
    /// Charges a session for a stanza; the milliseconds that it has to wait if that was too much.
    pub(crate) fn charge(&mut self, link: Link, bytes: usize) -> Option<u64> {
        let rate = self.catalogue.settings.rate;
        let now_us = self.clock.now_ms * 1000;
        let until = self.people.paid.0.get_mut(link)?;
        *until = (*until).max(now_us).saturating_add(rate.cost_us(bytes));
        let ahead = *until - now_us;
        let burst = rate.burst_seconds.saturating_mul(SECOND_US);
        (ahead > burst).then(|| (ahead - burst).div_ceil(1000))
    }

    /// Pauses reading from a session that was too fast.
    pub(crate) fn throttle(&mut self, link: Link, wait_ms: u64) -> Intake {
        let Some(session) = self.reference(link) else { return Intake::Open };
        let Some(found) = self.session_mut(session) else { return Intake::Open };
        let lane = &mut found.rare().lane;
        if lane.throttled {
            return Intake::Open;
        }
        lane.throttled = true;
        lane.paused = true;
        self.counters.throttled += 1;
        self.after(wait_ms, move |world| world.read_again(session));
        Intake::Full
    }

    fn read_again(&mut self, session: SessionRef) {
        let Some(found) = self.session_mut(session) else { return };
        let (is_busy, ending) = (found.is_busy(), found.ending);
        let Some(rare) = &mut found.rare else { return };
        rare.lane.throttled = false;
        // If it waits for the store too, that lets it go on.
        if is_busy || !std::mem::take(&mut rare.lane.paused) {
            return;
        }
        if !rare.is_needed() {
            found.rare = None;
        }
        if !ending {
            self.out.events.push_back(Event::Resume(session.link));
        }
    }
}

const SECOND_US: u64 = 1_000_000;
