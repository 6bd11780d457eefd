//! The timed work of a shard's streams.

use std::cmp::Reverse;

use crate::servers::{ConnectionKey, ServerStreams};

/// A time at which something has to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StreamTimer {
    /// An incoming stream must have proven something.
    Login(ConnectionKey, u32),
    /// The time for connecting to one address is over.
    Connect(ConnectionKey, u32),
    /// The time for a handshake is over.
    Handshake(ConnectionKey, u32),
    /// The other server must have taken the output, and acknowledge it.
    Watch(ConnectionKey, u32),
    /// A stream that carries nothing may have been idle for long enough to be ended.
    Idle(ConnectionKey, u32),
    /// An incoming stream has had time to agree on acknowledgements.
    Carry(ConnectionKey, u32),
    /// The store may have everything that a stream waits for; the number of checks so far.
    Settle(ConnectionKey, u32, u8),
    /// The next address of a way is tried in parallel.
    NextAddress(usize, u32),
    /// A stream that was too fast is read from again.
    Read(ConnectionKey, u32),
    /// Stanzas have waited for a way for long enough.
    Patience(usize, u32),
    /// A way whose stream has broken is tried again.
    Retry(usize, u32),
    /// A way that has failed, or was used, is forgotten if it isn't needed.
    Forget(usize, u32),
    /// Streams that were not resumed are forgotten.
    Broken,
}

impl ServerStreams {
    /// Returns when the next timer is due.
    pub fn next_timer(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Runs the timers that are due.
    pub fn run_timers(&mut self) {
        while let Some(&Reverse((due, timer))) = self.timers.peek() {
            if due > self.now_ms {
                return;
            }
            self.timers.pop();
            match timer {
                StreamTimer::Login(key, serial) => self.login_timed_out(key, serial),
                StreamTimer::Connect(key, serial) => {
                    if self.is_at(key, serial) {
                        self.connect_timed_out(key);
                    }
                }
                StreamTimer::Handshake(key, serial) => {
                    if self.is_at(key, serial) {
                        self.handshake_timed_out(key);
                    }
                }
                StreamTimer::Watch(key, serial) => {
                    if self.is_at(key, serial) {
                        self.look_after(key, serial);
                    }
                }
                StreamTimer::Idle(key, serial) => self.look_whether_idle(key, serial),
                StreamTimer::Read(key, serial) => {
                    if self.is_at(key, serial) {
                        self.read_again(key);
                    }
                }
                StreamTimer::Settle(key, serial, looks) => {
                    if self.is_at(key, serial) {
                        self.look_whether_settled(key, serial, looks);
                    }
                }
                StreamTimer::Carry(key, serial) => self.carries_by_now(key, serial),
                StreamTimer::NextAddress(route, serial) => self.next_address(route, serial),
                StreamTimer::Patience(route, serial) => self.patience_ends(route, serial),
                StreamTimer::Retry(route, serial) => self.retry(route, serial),
                StreamTimer::Forget(route, serial) => self.forget(route, serial),
                StreamTimer::Broken => self.forget_broken(),
            }
        }
    }

    pub(crate) fn set_timer(&mut self, delay_ms: u64, timer: StreamTimer) {
        self.timers.push(Reverse((self.now_ms + delay_ms, timer)));
    }
}
