//! Questions that the drivers of shards answer, about things that a world doesn't know of its
//! connections.
//!
//! Within a process, drivers are asked directly; these questions are for the drivers of other
//! nodes.

use serde::{Deserialize, Serialize};

use crate::trace::TraceExtent;

/// A question to the driver of a shard. The driver alone defines the form of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriverQuestion {
    /// Count everything.
    Count,
    /// List the streams with other servers and components.
    Streams,
    /// End the streams with a domain or component, and count them.
    CloseStreams {
        /// The domain or component.
        remote: String,
        /// The domains of this server that it concerns; `None` for all.
        locals: Option<Vec<String>>,
    },
    /// Report what was seen for a trace since the last question, and begin the trace with the first
    /// question.
    Trace {
        /// The number of the reader.
        reader: u128,
        /// The addresses, in the form that [`Subject::parse`](crate::Subject::parse) reads.
        subject: String,
        /// The number of stanzas, and the detail in which they are shown.
        extent: TraceExtent,
        /// The milliseconds until the trace ends.
        remaining_ms: u64,
    },
    /// End the trace of a reader.
    EndTrace {
        /// The number of the reader.
        reader: u128,
    },
}
