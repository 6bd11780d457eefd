//! A process that replaces the previous one: after a stop in order, with the sessions that
//! continue, or after a crash.

use rookery_shard::handover::MOST_BYTES;

use super::Server;

impl Server {
    /// Starts a new server in the place of this one, which ends without another word. The store
    /// stays.
    pub fn restart(&self) {
        let mut running = self.0.borrow_mut();
        running.settle();
        running.kill();
    }

    /// Stops in order, as SIGTERM does, and starts a new server in the place of this one after so
    /// many milliseconds, which goes on with the sessions of clients that may come back. Returns
    /// their cards. The store stays.
    pub fn hand_over(&self, after_ms: u64) -> Vec<Vec<u8>> {
        self.hand_over_with(after_ms, |cards| cards)
    }

    /// Does the same, but something happens to the cards meanwhile.
    pub fn hand_over_with(&self, after_ms: u64, change: impl FnOnce(Vec<Vec<u8>>) -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let (cards, go_on) = self.hand_over_by(after_ms, MOST_BYTES / self.shards(), || {}, change);
        assert!(go_on, "all sessions go on");
        cards
    }

    /// Does the same, and something happens while the server stops: it must have nothing left to do
    /// then.
    pub fn hand_over_while(&self, after_ms: u64, meanwhile: impl FnOnce()) -> Vec<Vec<u8>> {
        let (cards, go_on) = self.hand_over_by(after_ms, MOST_BYTES / self.shards(), meanwhile, |cards| cards);
        assert!(go_on, "all sessions go on");
        cards
    }

    /// Does the same where the cards of a shard may have so many bytes.
    pub fn hand_over_within(&self, after_ms: u64, most_bytes: usize) -> Vec<Vec<u8>> {
        let (cards, go_on) = self.hand_over_by(after_ms, most_bytes, || {}, |cards| cards);
        assert!(go_on, "all sessions go on");
        cards
    }

    /// Does the same with a store that may be slow or away at the start: others are let in before
    /// all sessions go on. `meanwhile` happens between stop and start. Returns whether all sessions
    /// go on already.
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
        // What sessions that go on still get has a quarter.
        running.end_others(most_bytes / 4 * 3);
        let cards = running.hand_on(most_bytes);
        // The process is still there for a while.
        let lingers_ms = after_ms.min(LINGERS_MS);
        running.linger(lingers_ms);
        let cards = change(cards);
        running.now_ms += after_ms - lingers_ms;
        running.kill();
        let go_on = running.go_on(&cards);
        (cards, go_on)
    }

    /// Begins to stop for another process that goes on with the sessions: for tests that choose the
    /// order themselves. Once it [rests](Server::is_resting), [`Server::end_others`] and
    /// [`Server::replace`] follow.
    pub fn stop_for_next(&self) {
        self.0.borrow_mut().stop_for_next();
    }

    /// Returns whether a server that stops for another process has nothing left to do.
    pub fn is_resting(&self) -> bool {
        self.0.borrow().is_resting()
    }

    /// Ends the sessions that another process can't go on with. The server has to rest.
    pub fn end_others(&self) {
        let most_bytes = MOST_BYTES / self.shards() / 4 * 3;
        self.0.borrow_mut().end_others(most_bytes);
    }

    /// Starts a new server in the place of this one, which goes on with its sessions and its rooms.
    /// This one has to rest, with all others [ended](Server::end_others).
    pub fn replace(&self) {
        let mut running = self.0.borrow_mut();
        let most_bytes = MOST_BYTES / running.shards.len();
        let cards = running.hand_on(most_bytes);
        running.kill();
        running.go_on(&cards);
    }

    /// Starts a new server in the place of this one, in the middle of whatever that does.
    pub fn kill(&self) {
        self.0.borrow_mut().kill();
    }
}

/// Milliseconds for which a server is there yet that has handed on its sessions.
const LINGERS_MS: u64 = 1000;
