//! Questions that the drivers of shards answer, and what they tell each other: what a world doesn't
//! know of its connections.
//!
//! Within a process the drivers are asked by their own words; these are for those of other nodes.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::World;
use crate::event::Event;
use crate::letter::Letter;

/// Tells the driver of another node what was counted here, in the drivers' words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverNews(pub ByteBuf);

impl Letter for DriverNews {
    const NAME: &'static str = "driver news";
    const SINCE: u16 = 2;

    fn open(self, world: &mut World) {
        world.out.events.push_back(Event::Told(self.0.into_vec()));
    }
}

/// A question to the driver of a shard. The answer is in the driver's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriverQuestion {
    /// Count what there is.
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
