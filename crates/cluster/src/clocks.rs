//! The clocks of other nodes, as their leases show them.
//!
//! The ids of archived messages grow with the time of day, so the clocks of an account's former and
//! new home have to agree: a client that asks an archive for all messages after the last id that it
//! knows would miss those with lower ids. Each lease has its process's time of day, and its
//! remaining time tells how old that is.
//!
//! # Invariants
//!
//! * Whatever delays an observation makes the other clock seem to be behind, never ahead. So the
//!   largest of several differences counts.
//! * A node is reported as behind only after several observations.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::engine::FoundLease;
use crate::wire::NodeProcess;

/// The differences between the clocks of other processes and this one's.
#[derive(Debug, Default)]
pub struct PeerClocks {
    /// The last observations of each process, in milliseconds; positive if the other clock is
    /// ahead.
    seen: BTreeMap<NodeProcess, VecDeque<i64>>,
}

impl PeerClocks {
    /// Records the difference of a process's clock.
    pub fn observe(&mut self, process: NodeProcess, ahead_ms: i64) {
        let seen = self.seen.entry(process).or_default();
        seen.push_back(ahead_ms);
        if seen.len() > OBSERVATIONS {
            seen.pop_front();
        }
    }

    /// Drops the observations of all processes except these.
    pub fn keep(&mut self, processes: impl Fn(NodeProcess) -> bool) {
        self.seen.retain(|process, _| processes(*process));
    }

    /// Returns by how much a process's clock is ahead, in milliseconds, negative if it is behind;
    /// `None` if that is unknown.
    pub fn ahead_ms(&self, process: NodeProcess) -> Option<i64> {
        let seen = self.seen.get(&process)?;
        let largest = seen.iter().copied().max()?;
        (largest >= 0 || seen.len() == OBSERVATIONS).then_some(largest)
    }

    /// Returns the processes whose clocks are too far from this one's, with the differences.
    pub fn apart(&self) -> Vec<(NodeProcess, i64)> {
        let differences = self.seen.keys().filter_map(|process| Some((*process, self.ahead_ms(*process)?)));
        differences.filter(|(_, ahead_ms)| is_apart(*ahead_ms)).collect()
    }

    /// Returns the latest time of day that any of these clocks shows, if this machine's shows
    /// `unix_ms`, in milliseconds since 1970.
    pub fn latest(&self, unix_ms: u64) -> u64 {
        let largest = self.seen.values().flatten().copied().max().unwrap_or_default();
        unix_ms.saturating_add_signed(largest.max(0))
    }
}

/// Returns by how much the clock in a lease is ahead of this machine's, which shows `unix_ms`, in
/// milliseconds; `None` if the lease has none.
pub fn ahead_ms(found: &FoundLease, unix_ms: u64) -> Option<i64> {
    let mut parts = found.text.split(':').skip(1);
    let (theirs, lasts): (i64, i64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    // After these come the homes that the process uses.
    parts.next()?;
    let age = lasts.saturating_sub(found.remaining_ms).max(0);
    Some(theirs.saturating_add(age).saturating_sub(i64::try_from(unix_ms).ok()?))
}

/// Returns the text of a lease with a time of day, in milliseconds since 1970, and the time that it
/// lasts.
pub fn stamp(text: &str, unix_ms: u64, lasts: Duration) -> String {
    match text.split_once(':') {
        Some((incarnation, homes)) => format!("{incarnation}:{unix_ms}:{}:{homes}", lasts.as_millis()),
        None => text.to_owned(),
    }
}

/// Returns whether two clocks are so far apart that an operator should correct them.
pub fn is_apart(ahead_ms: i64) -> bool {
    ahead_ms.unsigned_abs() > APART_MS
}

/// Returns whether two clocks are so far apart that a process doesn't join.
pub fn is_far_apart(ahead_ms: i64) -> bool {
    ahead_ms.unsigned_abs() > FAR_APART_MS
}

/// The observations of one process that are kept, one a second.
const OBSERVATIONS: usize = 8;
/// The difference of clocks that is reported, in milliseconds.
const APART_MS: u64 = 2_000;
/// The difference of clocks with which no process joins, in milliseconds.
pub const FAR_APART_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeProcess = NodeProcess { node: 2, incarnation: 1 };

    #[test]
    fn a_late_observation_makes_no_clock_wrong() {
        let mut clocks = PeerClocks::default();
        for ahead in [-4_000, -9_000, -3_000] {
            clocks.observe(PEER, ahead);
        }
        assert_eq!((clocks.ahead_ms(PEER), clocks.apart()), (None, vec![]), "they may all be late");
        clocks.observe(PEER, 15);
        assert_eq!((clocks.ahead_ms(PEER), clocks.apart()), (Some(15), vec![]));
        for _ in 0..OBSERVATIONS {
            clocks.observe(PEER, -3_000);
        }
        assert_eq!(clocks.apart(), [(PEER, -3_000)]);
        clocks.observe(PEER, 20_000);
        assert_eq!(clocks.apart(), [(PEER, 20_000)], "no delay makes a clock go ahead");
        assert_eq!(clocks.latest(1_000_000), 1_020_000);
        clocks.keep(|_| false);
        assert_eq!((clocks.latest(1_000_000), clocks.apart()), (1_000_000, vec![]));
    }

    #[test]
    fn a_lease_has_the_clock_of_its_process_between_what_earlier_versions_read() {
        let text = stamp("7:00ff", 1_000_000, Duration::from_secs(4));
        assert!(text.starts_with("7:") && text.ends_with(":00ff"), "{text}");
        let found = |text: &str, remaining_ms| FoundLease { text: text.to_owned(), remaining_ms };
        assert_eq!(ahead_ms(&found(&text, 3_500), 1_000_500), Some(0), "it is half a second old");
        assert_eq!(ahead_ms(&found(&text, 4_000), 980_000), Some(20_000));
        assert_eq!(ahead_ms(&found("7:00ff", 3_500), 1), None, "one of an earlier version");
    }
}
