//! News that the drivers of shards tell those of other nodes, by the worlds' letters.

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
