//! The counts of all shards, at one moment.

use std::collections::BTreeMap;
use std::time::Duration;

use rookery_base::Transport;
use rookery_hub::SourceSeen;
use rookery_observe::Counters;

use crate::attempts::AttemptTally;

/// The sums of the counts of all shards that have answered.
#[derive(Debug, Clone, Default)]
pub struct ShardCensus {
    /// The shards whose counts are summed.
    pub coverage: Coverage,
    /// The counts for which each session and room has to be visited; `None` if they aren't
    /// requested.
    pub details: Option<CensusDetails>,
    /// Attempts to log in, and the sources that vouch for them.
    pub logins: LoginCensus,
    /// The shards' counters since the start.
    pub counters: Counters,
    /// Accounts with a session.
    pub users: usize,
    /// Sessions, connected or not.
    pub sessions: usize,
    /// Connections in any state. Without details, the entries of sessions that wait for their
    /// clients are included.
    pub connections: usize,
    /// Stanzas that were given to sessions since the start.
    pub deliveries: u64,
    /// The outboxes of the sessions.
    pub unread: Unread,
    /// Streams with other servers and components.
    pub servers: rookery_federation::report::Tally,
    /// Continuations that wait, most of them for the store.
    pub tasks: usize,
}

/// The counts that take time in proportion to the number of counted things.
#[derive(Debug, Clone, Default)]
pub struct CensusDetails {
    /// Sessions by domain and by how they are connected.
    pub by_domain: BTreeMap<(String, Carrier), usize>,
    /// The counts of modules, by the name of their metric.
    pub gauges: BTreeMap<&'static str, GaugeRead>,
}

impl ShardCensus {
    /// Returns the sessions by domain and by how they are connected; none without details.
    pub fn by_domain(&self) -> impl Iterator<Item = (&(String, Carrier), usize)> {
        self.details.iter().flat_map(|details| &details.by_domain).map(|(key, count)| (key, *count))
    }
}

/// A count of a module, see [`ModuleGauge`](rookery_hub::ModuleGauge).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GaugeRead {
    /// Its meaning, for operators.
    pub help: &'static str,
    /// The sum over all shards.
    pub count: u64,
}

/// The counts of logins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginCensus {
    /// Attempts since the start, by their outcome.
    pub tally: AttemptTally,
    /// The outside sources that vouch for logins, by domain and the key of the configuration.
    pub sources: BTreeMap<(String, &'static str), SourceSeen>,
}

/// The stanzas that clients have not read yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unread {
    /// Bytes that wait for sessions, or for their acknowledgement.
    pub bytes: usize,
    /// Sessions whose outboxes exceed their soft limit.
    pub slow_readers: usize,
}

/// The part of the server that a census covers: a shard that is busy for too long is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The number of shards that there are.
    pub shards: usize,
    /// The number of shards that have answered.
    pub answered: usize,
    /// The time that counting took.
    pub took: Duration,
}

impl Coverage {
    /// Returns whether every shard has answered.
    pub fn is_whole(self) -> bool {
        self.answered == self.shards
    }
}

/// The way in which a session is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Carrier {
    /// `None` for a session that waits for its client to come back.
    pub transport: Option<Transport>,
    /// True if TLS ends here.
    pub tls: bool,
}
