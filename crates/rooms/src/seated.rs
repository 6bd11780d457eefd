//! Occupants whose home is in another process than before: their sessions may have ended there
//! without a word, as those do that can't be resumed when their node dies.
//!
//! # Invariants
//!
//! * The home is asked about a seat each time that it is in another process, and when the room
//!   itself continues in another one. So nobody stays in a silent room whose session is gone,
//!   although a process that is asked may die as well.
//! * Only the home that acts for an account says that a session is gone, and not before sessions
//!   have had the time to arrive there.

use std::collections::BTreeMap;

use rookery_hub::{Memo, World};
use rookery_jid::Jid;
use rookery_xml::Writer;
use serde::{Deserialize, Serialize};

use super::room::Room;

/// Asks the home of some sessions whether they continue; those that don't leave.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Seated {
    /// The sessions, each with its address in the room.
    seats: Vec<(Jid, Jid)>,
}

impl Memo for Seated {
    const NAME: &'static str = "rooms seated";

    fn open(self, world: &mut World) {
        if world.other_nodes().is_empty() {
            return self.look(world);
        }
        // Some sessions may be on their way here.
        world.after(SEATED_MS, move |world| self.look(world));
    }
}

impl Seated {
    fn look(self, world: &mut World) {
        let mut elsewhere = Vec::new();
        for (session, occupant) in self.seats {
            if !world.acts_for(session.bare_str()) {
                elsewhere.push((session, occupant));
            } else if !world.goes_on(session.as_ref(), occupant.as_ref()) {
                let mut presence = Writer::new("presence");
                presence.attr("type", "unavailable").attr("from", session.as_str());
                world.route_built(&presence.finish(), &occupant);
            }
        }
        ask_homes(world, elsewhere);
    }
}

/// Asks the homes of some sessions, each with its address in a room, whether they continue.
pub(super) fn ask_homes(world: &mut World, mut seats: Vec<(Jid, Jid)>) {
    // In an order that is the same for the same seed.
    seats.sort();
    let mut homes = BTreeMap::<usize, Vec<(Jid, Jid)>>::new();
    for (session, occupant) in seats {
        homes.entry(world.home_of(session.as_ref())).or_default().push((session, occupant));
    }
    for (home, mut seats) in homes {
        while !seats.is_empty() {
            let rest = seats.split_off(seats.len().min(AT_ONCE));
            world.send_memo(home, Seated { seats });
            seats = rest;
        }
    }
}

impl Room {
    /// Returns the sessions of this server in the room, each with its address in it.
    pub(super) fn seats_here(&self, world: &World) -> Vec<(Jid, Jid)> {
        let seats = self
            .occupants
            .iter()
            .flat_map(|(_, occupant)| occupant.seats.iter().map(|seat| (seat.jid.clone(), occupant.jid.clone())));
        seats.filter(|(session, _)| world.is_here(session.domain())).collect()
    }

    /// Sorts the occupants by the homes that their accounts have now. Returns the sessions whose
    /// home is in another process than before, each with its address in the room.
    pub(super) fn sort_again(&mut self, world: &World) -> Vec<(Jid, Jid)> {
        let mut moved = world.sort_again(&mut self.moderators);
        moved.append(&mut world.sort_again(&mut self.others));
        let seats = moved.iter().filter_map(|name| {
            let (session, at) = self.seats.get_key_value(name.as_str())?;
            Some((session.clone(), self.occupants.get(*at)?.jid.clone()))
        });
        seats.collect()
    }
}

/// Milliseconds after which the home of a session has to know it, in a cluster.
const SEATED_MS: u64 = 15_000;
/// The most sessions in one memo.
const AT_ONCE: usize = 500;
