//! Questions that the drivers of shards answer, about things that a world doesn't know of its
//! connections.
//!
//! Within a process, drivers are asked directly; these questions are for the drivers of other
//! nodes.

use serde::{Deserialize, Serialize};

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
}
