//! A process that replaces the previous one: after a stop in order, with the sessions that
//! continue, or after a crash.

use rookery_shard::handover::MOST_BYTES;

use super::Server;

impl Server {
    /// Starts a new server in place of this one, which ends without further output. The store
    /// stays.
    pub fn restart(&self) {
        let mut running = self.0.borrow_mut();
        running.settle();
        running.kill();
    }

    /// Stops in order, as with SIGTERM, and starts a new server in place of this one after this
    /// many milliseconds, which continues the sessions that clients may resume. Returns their
    /// cards. The store stays.
    pub fn hand_over(&self, after_ms: u64) -> Vec<Vec<u8>> {
        self.hand_over_with(after_ms, |cards| cards)
    }

    /// Hands over as [`Server::hand_over`] does, with a change of the cards in between.
    pub fn hand_over_with(&self, after_ms: u64, change: impl FnOnce(Vec<Vec<u8>>) -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let (cards, go_on) = self.hand_over_by(after_ms, MOST_BYTES / self.shards(), || {}, change);
        assert!(go_on, "all sessions go on");
        cards
    }

    /// Hands over as [`Server::hand_over`] does, with an action while the server stops, after which
    /// it must have nothing left to do.
    pub fn hand_over_while(&self, after_ms: u64, meanwhile: impl FnOnce()) -> Vec<Vec<u8>> {
        let (cards, go_on) = self.hand_over_by(after_ms, MOST_BYTES / self.shards(), meanwhile, |cards| cards);
        assert!(go_on, "all sessions go on");
        cards
    }

    /// Hands over as [`Server::hand_over`] does, with a bound on the bytes of a shard's cards.
    pub fn hand_over_within(&self, after_ms: u64, most_bytes: usize) -> Vec<Vec<u8>> {
        let (cards, go_on) = self.hand_over_by(after_ms, most_bytes, || {}, |cards| cards);
        assert!(go_on, "all sessions go on");
        cards
    }

    /// Hands over as [`Server::hand_over`] does, to a server whose store may be slow or unavailable
    /// at the start: it accepts clients before all sessions continue. `meanwhile` runs between stop
    /// and start. Returns whether all sessions already continue.
    pub fn hand_over_early(&self, after_ms: u64, meanwhile: impl FnOnce()) -> bool {
        let (_, go_on) = self.hand_over_by(
            after_ms,
            MOST_BYTES / self.shards(),
            || {},
            |cards| {
                meanwhile();
                cards
            },
        );
        go_on
    }

    fn hand_over_by(
        &self,
        after_ms: u64,
        most_bytes: usize,
        at_stop: impl FnOnce(),
        change: impl FnOnce(Vec<Vec<u8>>) -> Vec<Vec<u8>>,
    ) -> (Vec<Vec<u8>>, bool) {
        self.settle();
        self.0.borrow_mut().stop_for_next();
        at_stop();
        self.settle();
        let mut running = self.0.borrow_mut();
        // A quarter is reserved for stanzas that continuing sessions still get.
        running.end_others(most_bytes / 4 * 3);
        let cards = running.hand_on(most_bytes);
        // The process stays for a while.
        let lingers_ms = after_ms.min(LINGERS_MS);
        running.linger(lingers_ms);
        let cards = change(cards);
        running.now_ms += after_ms - lingers_ms;
        running.kill();
        let go_on = running.go_on(&cards);
        (cards, go_on)
    }

    /// Begins to stop for another process that continues the sessions: for tests that choose the
    /// order themselves. Once it [rests](Server::is_resting), [`Server::end_others`] and
    /// [`Server::replace`] follow.
    pub fn stop_for_next(&self) {
        self.0.borrow_mut().stop_for_next();
    }

    /// Returns whether a server that stops for another process has nothing left to do.
    pub fn is_resting(&self) -> bool {
        self.0.borrow().is_resting()
    }

    /// Ends the sessions that another process can't continue. The server must be at rest.
    pub fn end_others(&self) {
        let most_bytes = MOST_BYTES / self.shards() / 4 * 3;
        self.0.borrow_mut().end_others(most_bytes);
    }

    /// Starts a new server in place of this one, which continues its sessions and its rooms. This
    /// one must be at rest, and the sessions that can't continue must have been
    /// [ended](Server::end_others).
    pub fn replace(&self) {
        let mut running = self.0.borrow_mut();
        let most_bytes = MOST_BYTES / running.shards.len();
        let cards = running.hand_on(most_bytes);
        running.kill();
        running.go_on(&cards);
    }

    /// Starts a new server in place of this one, whatever this one is doing.
    pub fn kill(&self) {
        self.0.borrow_mut().kill();
    }
}

/// The milliseconds for which a server stays after it has handed on its sessions.
const LINGERS_MS: u64 = 1000;
