//! The way from one of our domains to one remote domain: found, tried, in use, or given up for a
//! while.

use std::collections::VecDeque;
use std::time::Duration;

use rookery_hub::share::Bounds;
use rookery_hub::{Slow, slow};
use rookery_stream::error::Condition;

use crate::inbound::KeyQuestion;
use crate::outbound::StreamPurpose;
use crate::queue::Queue;
use crate::sent::{Broken, Sent};
use crate::servers::{Arrived, ConnectionKey};
use crate::settings::FederationSettings;
use crate::targets::{Address, NotFound};

/// A way, with its waiting stanzas.
#[derive(Debug)]
pub(crate) struct DomainRoute {
    pub local: Box<str>,
    pub remote: Box<str>,
    pub purpose: StreamPurpose,
    pub queue: Queue,
    /// The keys to be verified, each with its stream; for a way of [`StreamPurpose::Questions`].
    pub questions: Vec<(KeyQuestion, Arrived)>,
    pub state: RouteState,
    /// The last broken stream, which is to be resumed.
    pub broken: Option<Box<Broken>>,
    /// The sender, as a bare JID, for whose stanza the way is being looked for; `None` after the
    /// search.
    pub asker: Option<Box<str>>,
    /// Failures since the last success.
    pub failures: u32,
    /// A number that distinguishes its timers from those of earlier attempts.
    pub serial: u32,
    /// The reason for the last failure, for the operator.
    pub trouble: String,
    /// The time at which the search began, during the search.
    pub sought_ms: Option<u64>,
}

/// The steps of a way.
#[derive(Debug)]
pub(crate) enum RouteState {
    /// No stanza waits.
    Idle,
    /// DNS is being queried.
    Resolving,
    /// Addresses are tried, several at a time.
    Connecting { untried: VecDeque<Address>, trying: Vec<ConnectionKey> },
    /// One is connected, and its stream is being negotiated. The others are kept in case TLS fails.
    Negotiating { untried: VecDeque<Address>, key: ConnectionKey },
    /// The stream is ready. `sent` has the stanzas that may have to be sent again.
    Ready { key: ConnectionKey, sent: Sent, since_ms: u64, writing: Writing },
    /// A broken stream is to be resumed, but it is too soon for that; new stanzas wait.
    Paused,
    /// It has failed; nothing is tried before `until_ms`.
    Failed { until_ms: u64, cause: Cause },
}

/// A write that the connection is still taking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing {
    /// The time of the write.
    pub since_ms: u64,
    /// The time at which a timer checks whether it is taken, and acknowledged.
    pub watched_ms: u64,
}

impl Default for Writing {
    /// Returns a way without a write or a timer.
    fn default() -> Self {
        Self { since_ms: 0, watched_ms: u64::MAX }
    }
}

/// The reason why there is no way, for the sender of a stanza.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    NotFound,
    Timeout,
}

impl Cause {
    pub(crate) fn condition(self) -> Condition {
        match self {
            Self::NotFound => Condition::RemoteServerNotFound,
            Self::Timeout => Condition::RemoteServerTimeout,
        }
    }
}

impl From<NotFound> for Cause {
    fn from(found: NotFound) -> Self {
        match found {
            NotFound::NoServer => Self::NotFound,
            NotFound::NoAnswer => Self::Timeout,
        }
    }
}

impl DomainRoute {
    pub(crate) fn new(local: &str, remote: &str, purpose: StreamPurpose, settings: &FederationSettings) -> Self {
        let most = Bounds { number: settings.queue_stanzas, bytes: settings.queue_bytes };
        Self {
            local: local.into(),
            remote: remote.into(),
            purpose,
            queue: Queue::new(most),
            questions: Vec::new(),
            state: RouteState::Idle,
            broken: None,
            asker: None,
            failures: 0,
            serial: 0,
            trouble: String::new(),
            sought_ms: None,
        }
    }

    /// Logs the time and the outcome of the search, if it was long.
    pub(crate) fn log_search(&mut self, now_ms: u64, outcome: &str) {
        let Some(sought_ms) = self.sought_ms.take() else { return };
        slow().note(Slow::Stream, Duration::from_millis(now_ms.saturating_sub(sought_ms)), || {
            let waiting = self.waiting();
            (
                format!("from {}", self.local),
                self.remote.to_string(),
                format!("{outcome}; {waiting} stanzas waited for it"),
            )
        });
    }

    /// Returns the connection that is being negotiated or in use.
    pub(crate) fn key(&self) -> Option<ConnectionKey> {
        match &self.state {
            RouteState::Negotiating { key, .. } | RouteState::Ready { key, .. } => Some(*key),
            _ => None,
        }
    }

    /// Returns whether there is a connection and it has taken all that was written.
    pub(crate) fn rests(&self) -> bool {
        matches!(&self.state, RouteState::Ready { sent, .. } if sent.is_taken())
    }

    /// Returns the number of stanzas that wait for a stream, including those that left on a broken
    /// one and may have to be sent again.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.broken.as_ref().map_or(0, |broken| broken.len())
    }

    /// Returns whether stanzas wait, or have left and may not have arrived.
    pub(crate) fn is_needed(&self) -> bool {
        let is_sent = matches!(&self.state, RouteState::Ready { sent, .. } if sent.is_needed());
        is_sent || !self.queue.is_empty() || !self.questions.is_empty()
    }

    /// Returns whether a connection is ready.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self.state, RouteState::Ready { .. })
    }

    /// Returns whether a connection is being made.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.state, RouteState::Resolving | RouteState::Connecting { .. } | RouteState::Negotiating { .. })
    }

    /// Returns the time without attempts after a failure: it doubles each time, and varies
    /// randomly.
    pub(crate) fn pause_ms(&self, random: u32) -> u64 {
        let doubled = SHORTEST_PAUSE_MS << self.failures.saturating_sub(1).min(6);
        let shortest = doubled.min(LONGEST_PAUSE_MS / 3 * 2);
        shortest + shortest / 2 * u64::from(random) / u64::from(u32::MAX)
    }
}

const SHORTEST_PAUSE_MS: u64 = 5_000;
const LONGEST_PAUSE_MS: u64 = 300_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialback::Secret;

    #[test]
    fn pauses_double_up_to_five_minutes_and_no_two_servers_call_at_the_same_moment() {
        let settings = FederationSettings::new(Secret::new(b"secret"));
        let mut route = DomainRoute::new("a.example", "b.example", StreamPurpose::Stanzas, &settings);
        let expected =
            [(5, 7), (10, 15), (20, 30), (40, 60), (80, 120), (160, 240), (200, 300), (200, 300), (200, 300)];
        for (failures, (shortest, longest)) in (1..).zip(expected) {
            route.failures = failures;
            let pauses = [0, u32::MAX].map(|random| route.pause_ms(random) / 1000);
            assert_eq!(pauses, [shortest, longest], "after {failures} failures");
        }
        route.failures = u32::MAX;
        assert_eq!(route.pause_ms(u32::MAX), LONGEST_PAUSE_MS);
    }
}
