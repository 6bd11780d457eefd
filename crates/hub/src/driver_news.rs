//! News that the drivers of shards tell those of other nodes, by the worlds' memos.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::World;
use crate::event::Event;
use crate::memo::Memo;

/// Tells the driver of another node what was counted here, in a form that only drivers read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverNews(pub ByteBuf);

impl Memo for DriverNews {
    const NAME: &'static str = "driver news";
    const SINCE: u16 = 2;

    fn open(self, world: &mut World) {
        world.out.events.push_back(Event::Told(self.0.into_vec()));
    }
}
