//! The directories of a cluster: each node lists the rooms of all, and tells the others about
//! changes of its own.
//!
//! # Invariants
//!
//! * The home of a room is authoritative: other nodes' entries are for lists and limits. With
//!   several nodes, the store is asked whether it has a room that isn't here.
//! * Rooms that aren't stored end with their node: the shard that is their next home
//!   removes them from all directories (`actor`).

use rookery_hub::{Memo, World};
use rookery_jid::{Jid, JidRef};
use serde::{Deserialize, Serialize};

use super::directory::{Directory, Full, MostRooms, RoomEntry};

/// Tells another node about one room: its entry now, or that it was removed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Noted(Jid, Option<RoomEntry>);

impl Memo for Noted {
    const NAME: &'static str = "rooms noted";

    fn open(self, world: &mut World) {
        let Self(room, entry) = self;
        let directory = world.state::<Directory>();
        match entry {
            Some(entry) => directory.set(room.as_ref(), entry),
            None => _ = directory.remove(room.as_ref()),
        }
    }
}

/// Tells another node that an account was removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RemovedElsewhere(Jid);

impl Memo for RemovedElsewhere {
    const NAME: &'static str = "rooms account removed";
    const SINCE: u16 = 2;

    fn open(self, world: &mut World) {
        world.state::<Directory>().account_removed(self.0, world.uptime_ms());
    }
}

/// Handles the removal of an account: the rooms of all nodes forget it, as the store has.
pub(super) fn account_removed(world: &mut World, user: JidRef<'_>) {
    let user = user.bare().to_jid();
    world.state::<Directory>().account_removed(user.clone(), world.uptime_ms());
    world.tell_other_nodes(&RemovedElsewhere(user));
}

/// Adds a new room to the directories, if no limit is reached.
pub(super) fn add(world: &mut World, room: JidRef<'_>, entry: RoomEntry, most: MostRooms) -> Result<(), Full> {
    world.state::<Directory>().add(room, entry.clone(), most)?;
    tell(world, room, Some(entry));
    Ok(())
}

/// Replaces a room's entry in the directories.
pub(super) fn set(world: &mut World, room: JidRef<'_>, entry: RoomEntry) {
    world.state::<Directory>().set(room, entry.clone());
    tell(world, room, Some(entry));
}

/// Takes a room out of the directories.
pub(super) fn remove(world: &mut World, room: JidRef<'_>) {
    if world.state::<Directory>().remove(room) {
        tell(world, room, None);
    }
}

/// Tells the other nodes a room's entry, or that it was removed.
pub(super) fn tell(world: &mut World, room: JidRef<'_>, entry: Option<RoomEntry>) {
    for shard in world.other_nodes() {
        world.send_memo(shard, Noted(room.to_jid(), entry.clone()));
    }
}
