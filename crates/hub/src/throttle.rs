//! Delays reading from sessions that send faster than they may.

use rookery_fanout::Link;

use crate::event::Event;
use crate::rate::SECOND_US;
use crate::session::SessionRef;
use crate::{Intake, World};

impl World {
    /// Charges a session for a stanza; returns the milliseconds that it has to wait if that was too
    /// much.
    pub(crate) fn charge(&mut self, link: Link, bytes: usize) -> Option<u64> {
        let rate = self.catalogue.settings.rate;
        let now_us = self.clock.now_ms * 1000;
        let ahead = self.people.paid.0.get_mut(link)?.put(rate.cost_us(bytes), now_us);
        let burst = rate.burst_seconds.saturating_mul(SECOND_US);
        (ahead > burst).then(|| (ahead - burst).div_ceil(1000))
    }

    /// Returns the milliseconds since a session was bound or resumed, or last sent a stanza, read
    /// from the bucket of its rate: for up to the burst that it may send at once, it seems busy for
    /// longer. `None` if there is no session.
    pub fn idle_ms(&self, link: Link) -> Option<u64> {
        self.session_at(link)?;
        Some(self.people.paid.0.get(link)?.idle(self.clock.now_ms * 1000) / 1000)
    }

    /// Pauses reading from a session that was too fast.
    pub(crate) fn throttle(&mut self, link: Link, wait_ms: u64) -> Intake {
        let Some(session) = self.reference(link) else { return Intake::Open };
        let Some(found) = self.session_mut(session) else { return Intake::Open };
        let backlog = &mut found.rare().backlog;
        if backlog.throttled {
            return Intake::Open;
        }
        backlog.throttled = true;
        backlog.paused = true;
        self.counters.throttled += 1;
        self.sight_session(link, || format!("it sends faster than allowed: nothing is read for {wait_ms} ms"));
        self.after(wait_ms, move |world| world.read_again(session));
        Intake::Full
    }

    fn read_again(&mut self, session: SessionRef) {
        let Some(found) = self.session_mut(session) else { return };
        let (is_busy, ending) = (found.is_busy(), found.ending);
        let Some(rare) = &mut found.rare else { return };
        rare.backlog.throttled = false;
        // If the session also waits for the store, the end of that wait lets it continue.
        if is_busy || !std::mem::take(&mut rare.backlog.paused) {
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
