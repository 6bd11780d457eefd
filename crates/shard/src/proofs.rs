//! Sessions that end with their clients' proof: a token of an issuer is valid until a certain time.
//!
//! Each session has only that time, and no timer. The shard knows the earliest of all these times,
//! and checks its sessions when that has come, at most once in [`ROUND_S`] seconds.

use std::num::NonZeroU32;

use rookery_fanout::Link;
use rookery_stream::error::StreamError;

use crate::connection::ConnectionStage;
use crate::driver::Driver;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Returns the time until which a session may continue that a connection has begun, in seconds
    /// since 1970, and schedules the check.
    pub(crate) fn ends_with_its_proof(&mut self, link: Link) -> Option<NonZeroU32> {
        let until_s = self.with_machine(link, |machine| machine.holds_until()).flatten()?;
        let until_s = NonZeroU32::new(u32::try_from(until_s).ok()?)?;
        let first = self.timing.proofs_until_s.map_or(until_s, |first| first.min(until_s));
        self.timing.proofs_until_s = Some(first);
        Some(until_s)
    }

    /// Returns the time at which the first session ends this way, by the clock of timers.
    pub(crate) fn next_proof_ms(&self) -> Option<u64> {
        let first = self.timing.proofs_until_s?.get();
        let due_ms = u64::from(first.div_ceil(ROUND_S)) * u64::from(ROUND_S) * 1000;
        Some(self.timing.now_ms + due_ms.saturating_sub(self.world.time()))
    }

    /// Ends the sessions whose time has come. Their clients log in again (RFC 6120 §4.9.3.16).
    pub(crate) fn end_with_proofs(&mut self) {
        if self.next_proof_ms().is_none_or(|due_ms| due_ms > self.timing.now_ms) {
            return;
        }
        let now_s = u32::try_from(self.world.time() / 1000).unwrap_or(u32::MAX);
        let until = |stage: &ConnectionStage| match stage {
            ConnectionStage::Bound { until_s, .. } => *until_s,
            _ => None,
        };
        let all = self.connections.iter().filter_map(|(link, connection)| Some((link, until(&connection.stage)?)));
        let (due, left): (Vec<_>, Vec<_>) = all.partition(|(_, until_s)| until_s.get() <= now_s);
        self.timing.proofs_until_s = left.into_iter().map(|(_, until_s)| until_s).min();
        for (link, _) in due {
            self.fail(link, &StreamError::Reset, Some("the token of the login has expired"));
        }
    }
}

/// The seconds between two looks.
const ROUND_S: u32 = 10;
