//! Traces whose reader is on another node.
//!
//! The reader asks all shards of other nodes again and again, and each answers with what it has
//! seen since. Nothing is sent unasked, so a reader that is slow costs no more than the sightings
//! that may wait for it.
//!
//! # Invariants
//!
//! * A trace ends soon after its reader has stopped asking, and at the time that the reader named.
//! * What another node asks for is bounded here as well: in traces, stanzas, time and bytes.

use std::sync::Arc;

use rookery_base::Awaited;
use rookery_hub::{Bound, DriverQuestion, Most, Per, Sighting, Subject, Trace, TraceExtent, Unit, World};
use serde::{Deserialize, Serialize};
use tracing::info;

use crate::door::Door;
use crate::driver::Driver;
use crate::elsewhere::AnswersElsewhere;
use crate::shard::Shard;

/// The answer of a shard to a reader on another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenElsewhere {
    /// The name of the shard's node.
    pub node: String,
    /// The sightings since the last question, in order.
    pub sightings: Vec<Sighting>,
    /// The number of sightings that found no room.
    pub left_out: u64,
    /// True if the shard has seen more stanzas than the trace may have.
    pub is_full: bool,
    /// True if as many traces as allowed are running there already, so that this one is not.
    pub is_refused: bool,
}

impl<D: Driver> Shard<D> {
    /// Returns what the shard has seen for a reader on another node, and traces for it from now on.
    pub(crate) fn trace_for_node(
        &mut self,
        reader: u128,
        subject: &str,
        extent: TraceExtent,
        remaining_ms: u64,
    ) -> SeenElsewhere {
        let until_ms = self.timing.now_ms + remaining_ms.min(SILENCE_MS);
        let world = &mut self.world;
        let node = world.node_name(world.shard()).unwrap_or_default().to_owned();
        let trace = world.trace_for(reader).or_else(|| begin(world, reader, subject, extent, until_ms));
        let Some(trace) = trace else {
            return SeenElsewhere { node, sightings: Vec::new(), left_out: 0, is_full: false, is_refused: true };
        };
        trace.set_until_ms(until_ms);
        let (sightings, left_out) = trace.take_within(ANSWER_BYTES);
        SeenElsewhere { node, sightings, left_out, is_full: trace.is_full(), is_refused: false }
    }
}

/// Begins a trace for a reader on another node; `None` if there are as many as allowed.
fn begin(world: &mut World, reader: u128, subject: &str, extent: TraceExtent, until_ms: u64) -> Option<Arc<Trace>> {
    let subject = Subject::parse(subject).ok()?;
    let trace = Arc::new(Trace::new(reader, subject, extent, until_ms, world.shard() + 1));
    // A reader that is refused asks again and again, and would fill the log.
    world.trace_while_asked(trace.clone()).then(|| {
        let subject = trace.subject().as_str();
        info!(subject, "traced for a reader on another node, whose action log names them");
        trace
    })
}

impl Door {
    /// Traces at the other nodes, and returns what each of their shards has seen since the last
    /// call for the same reader. The trace ends there a few seconds after the last call.
    pub fn trace_elsewhere(
        &self,
        reader: u128,
        subject: &Subject,
        extent: TraceExtent,
        remaining_ms: u64,
    ) -> Awaited<AnswersElsewhere<SeenElsewhere>> {
        let subject = subject.as_str().to_owned();
        self.ask_elsewhere(DriverQuestion::Trace { reader, subject, extent, remaining_ms })
    }

    /// Ends the trace of a reader at the other nodes.
    pub fn end_trace_elsewhere(&self, reader: u128) {
        drop(self.ask_elsewhere::<()>(DriverQuestion::EndTrace { reader }));
    }
}

/// Milliseconds for which a shard traces for a reader on another node that doesn't ask.
const SILENCE_MS: u64 = 10_000;
/// Bytes of sightings in an answer; more wait for the next question.
const ANSWER_BYTES: usize = 256 << 10;
/// The bounds of traces for other nodes.
pub const BOUNDS: &[Bound] = &[
    Bound::on(
        "sightings in an answer to a reader on another node",
        Per::Shard,
        Most::Fixed(ANSWER_BYTES as u64),
        Unit::Bytes,
    )
    .or("further ones wait for the next question"),
    Bound::on(
        "the time for which a reader on another node may be silent",
        Per::Shard,
        Most::Fixed(SILENCE_MS / 1000),
        Unit::Seconds,
    )
    .or("the trace ends there"),
];
