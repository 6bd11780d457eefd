//! The last id that a shard has assigned. A shard that gives archives away tells the others, so
//! that ids keep growing at the archives' new home, whatever the clock there shows.

use rookery_hub::{Memo, World};
use serde::{Deserialize, Serialize};

use super::id::{self, Ids};

/// The last id of the shard that writes the memo.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LastId(pub(super) u64);

impl Memo for LastId {
    const NAME: &'static str = "archive last id";
    const SINCE: u16 = 2;

    fn open(self, world: &mut World) {
        // An id from a clock that is far ahead is ignored: all archives of this shard would get its
        // times.
        if id::time(self.0) <= world.time() + MOST_AHEAD_MS {
            world.state_mut::<Ids>().raise(self.0);
        }
    }
}

/// Tells all shards of other nodes the last id of a shard that gives archives away.
pub(super) fn hand_on(world: &mut World) {
    let last = world.state::<Ids>().last();
    if last > 0 {
        world.tell_shards_elsewhere(&LastId(last));
    }
}

/// The most by which the last id of another node may be ahead of this one's clock, in milliseconds:
/// a day, since a clock may have been set back by the hours of a time zone.
const MOST_AHEAD_MS: u64 = 86_400_000;
