//! Work on all rooms of a shard, at intervals, when homes move and when the server stops.
//!
//! # Invariants
//!
//! * Nothing here waits for a room that is at work or being loaded: it is left out.

use rookery_hub::World;
use rookery_jid::Jid;

use super::{ActorSlot, Actors, TakenRoom, go_on};
use crate::directory::Directory;
use crate::unsaved::{self, Unsaved};
use crate::{seated, spread};

/// Writes again what the store has refused, and drops rooms that stayed in memory only because of
/// that.
pub(crate) fn save_again(world: &mut World) {
    for (jid, lack) in world.state_mut::<Unsaved>().take() {
        match world.state_mut::<Actors>().take(jid.as_str()) {
            TakenRoom::Room(mut room) => {
                room.save_again(world, lack);
                go_on(world, room);
            }
            TakenRoom::Busy => world.state_mut::<Unsaved>().put_back(jid, lack),
            // A room that is to stay is in memory as long as the store lacks part of it.
            TakenRoom::Absent if lack.is_destroyed => unsaved::remove(world, &jid, |_, _| {}),
            TakenRoom::Absent => {}
        }
    }
}

/// Lets rooms without traffic forget removed accounts, so that these need not be remembered.
pub(crate) fn heed_removals(world: &mut World) {
    let (actors, directory) = (world.state::<Actors>(), world.state::<Directory>());
    let count = directory.removed_count();
    if count == actors.heeded {
        return;
    }
    let behind = |(jid, slot): (&Jid, &ActorSlot)| match slot {
        ActorSlot::Here(room) if room.has_removed(directory) => Some(jid.clone()),
        _ => None,
    };
    let behind: Vec<_> = actors.slots.iter().filter_map(behind).collect();
    for jid in behind {
        if let TakenRoom::Room(mut room) = world.state_mut::<Actors>().take(jid.as_str()) {
            room.forget_removed(world);
            go_on(world, room);
        }
    }
    let actors = world.state_mut::<Actors>();
    let loading = actors.loading.values().min().copied().unwrap_or(count);
    let heeded = count.min(loading);
    actors.heeded = heeded;
    world.state::<Directory>().heed(world.shard(), world.own_shards(), heeded);
}

/// Removes messages that are older than the owner wants from the archives of rooms that the store
/// doesn't have; for other rooms, the store knows how long messages stay.
pub(crate) fn expire_archives(world: &mut World) {
    let due = |(jid, slot): (&Jid, &ActorSlot)| match slot {
        ActorSlot::Here(room) if !room.is_stored() && room.config.archive_days > 0 => {
            Some((jid.clone(), room.config.archive_days))
        }
        _ => None,
    };
    let due: Vec<_> = world.state::<Actors>().slots.iter().filter_map(due).collect();
    for (room, days) in due {
        rookery_archive::expire(world, room, days);
    }
}

/// Tells occupants, above all those of other servers, that the server stops (§18.2), unless the
/// next process goes on with the rooms. Stanzas that wait for rooms which are being loaded are
/// still answered, or passed on to the new homes.
pub(crate) fn shut_down(world: &mut World) {
    if world.hands_on() {
        return;
    }
    for jid in world.state::<Actors>().here() {
        if let Some(mut room) = world.state_mut::<Actors>().take_out(&jid) {
            room.remove_all(world, vec![332], None);
        }
    }
}

/// Sorts the occupants of all rooms by the homes that their accounts have now, and asks the new
/// homes for their sessions.
pub(crate) fn sort_again(world: &mut World) {
    let mut slots = std::mem::take(&mut world.state_mut::<Actors>().slots);
    let mut moved = Vec::new();
    for slot in slots.values_mut() {
        if let ActorSlot::Here(room) = slot {
            moved.append(&mut room.sort_again(world));
        }
    }
    world.state_mut::<Actors>().slots = slots;
    seated::ask_homes(world, moved);
}

/// Tells nodes that have joined which rooms here the store doesn't have, and forgets the rooms of
/// nodes that have left.
pub(crate) fn spread_again(world: &mut World) {
    let here = world.shard();
    for (room, entry) in world.state::<Directory>().unstored_rooms() {
        if world.home_of(room.as_ref()) != here || world.is_expected(room.as_str()) {
            continue;
        }
        if world.state::<Actors>().slots.contains_key(&room) {
            spread::tell(world, room.as_ref(), Some(entry));
        } else {
            spread::remove(world, room.as_ref());
        }
    }
}
