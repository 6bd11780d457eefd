//! Counts the work of a shard in plain numbers that only this shard writes; totals are computed
//! from copies of all shards' numbers. Also here: the [bounds](bound) that the parts of the server
//! declare, and the consequences of a thread that [panics](mod@vital).
//!
//! # Layout
//!
//! Here: the counters. [`histogram`]: distributions. [`stages`], [`multicast`]: where the time of
//! a multicast goes. [`wait`]: durations. [`bound`]: limits, for operators. [`lines`]: the newest
//! lines of the log. [`modules`]: the work of modules. [`cluster`]: other nodes.
//! [`slow`](mod@slow): slow events. [`path`], [`clock`]: the stages on the path of every stanza.
//! [`spans`]: ticks for collectors of traces. [`vital`](mod@vital): threads without which the
//! process must end.

pub mod bound;
pub mod clock;
pub mod cluster;
pub mod histogram;
pub mod lines;
pub mod modules;
pub mod multicast;
pub mod path;
pub mod slow;
pub mod spans;
pub mod stages;
pub mod vital;
pub mod wait;

use std::collections::BTreeMap;
use std::ops::AddAssign;

pub use bound::{Bound, Most, Per, Unit};
pub use clock::StanzaPath;
pub use histogram::{Histogram, NamedHistograms};
pub use modules::{CallsOfModule, ModuleCalls, SAMPLED_CALLS};
pub use multicast::{MulticastStage, MulticastStages};
pub use path::StanzaStage;
pub use slow::{Slow, SlowEvent, slow};
pub use vital::vital;
pub use wait::Since;

/// The counters of one shard since its start.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Messages that came in from sessions.
    pub messages_in: u64,
    /// Presence stanzas that came in from sessions.
    pub presence_in: u64,
    /// IQ stanzas that came in from sessions.
    pub iqs_in: u64,
    /// Stanza errors that the server made.
    pub errors: u64,
    /// Sessions ended because they did not read what they were sent.
    pub overflows: u64,
    /// Pauses in reading from a session that sent too fast.
    pub throttled: u64,
    /// Answers of the store that were errors.
    pub store_errors: u64,
    /// Messages that are missing in an archive, since the store was busy or failed.
    pub archive_lost: u64,
    /// Stanzas to strangers that were refused to accounts of this server.
    pub outgoing_refused: u64,
    /// Stanzas that left for other servers.
    pub remote_out: u64,
    /// Sessions bound.
    pub bound: u64,
    /// The times that the stages of multicasts take, if they are measured.
    pub stages: MulticastStages,
    /// The times that the stages on the path of stanzas take, in some ticks.
    pub path: StanzaPath,
    /// From the beginning of the tick that read a stanza until its copies were written, on whatever
    /// shard, in nanoseconds: each copy once. What waits for the store, or for a slow reader,
    /// counts from when it goes on.
    pub delivery: Histogram,
    /// The times that letters waited for another shard, in nanoseconds.
    pub mailbox: Histogram,
    /// The times that answers of the store were waited for, in nanoseconds, by the module that
    /// waited.
    pub store_waits: NamedHistograms,
    /// The sizes of writes to connections, in bytes, by the kind of connection: one write of
    /// [`SAMPLED`] is counted.
    pub writes: NamedHistograms,
    /// The times that handshakes of TLS took, in nanoseconds, by what they were for.
    pub handshakes: NamedHistograms,
    /// Handshakes of TLS by what they were for, and whether an earlier session was resumed.
    pub sessions: CountedPairs,
    /// Logins that came to their end, by mechanism and result.
    pub authentications: CountedPairs,
    /// The calls of modules, while somebody watched.
    pub modules: ModuleCalls,
}

/// Counts under pairs of names that the code knows: a few dozen at most.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CountedPairs(BTreeMap<(&'static str, &'static str), u64>);

impl CountedPairs {
    /// Counts one.
    pub fn add(&mut self, first: &'static str, second: &'static str) {
        *self.0.entry((first, second)).or_default() += 1;
    }

    /// Returns all of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = ((&'static str, &'static str), u64)> {
        self.0.iter().map(|(names, count)| (*names, *count))
    }
}

impl AddAssign<&CountedPairs> for CountedPairs {
    fn add_assign(&mut self, other: &CountedPairs) {
        for (names, count) in other.iter() {
            *self.0.entry(names).or_default() += count;
        }
    }
}

/// Of so many writes one is counted: there may be one for each recipient of a stanza.
pub const SAMPLED: u64 = 16;

impl AddAssign<&Counters> for Counters {
    fn add_assign(&mut self, other: &Counters) {
        self.messages_in += other.messages_in;
        self.presence_in += other.presence_in;
        self.iqs_in += other.iqs_in;
        self.errors += other.errors;
        self.overflows += other.overflows;
        self.throttled += other.throttled;
        self.store_errors += other.store_errors;
        self.archive_lost += other.archive_lost;
        self.outgoing_refused += other.outgoing_refused;
        self.remote_out += other.remote_out;
        self.bound += other.bound;
        self.stages += &other.stages;
        self.path += &other.path;
        self.delivery += &other.delivery;
        self.mailbox += &other.mailbox;
        self.store_waits += &other.store_waits;
        self.writes += &other.writes;
        self.handshakes += &other.handshakes;
        self.sessions += &other.sessions;
        self.authentications += &other.authentications;
        self.modules += &other.modules;
    }
}
