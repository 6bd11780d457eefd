//! Occupants whose server was lost. Only an error for a stanza from the room shows that they are
//! gone (XEP-0045 §18.1), and a silent room would keep them for ever. So when a stream with a
//! server breaks, rooms send their occupants there an invisible message.
//!
//! # Invariants
//!
//! * No occupant is removed because of the loss itself: a server that is back, or was never gone,
//!   delivers the message or bounces it for users that it has forgotten.
//! * There is one round for all servers that are lost within a few seconds, and its messages are
//!   paced.

use rookery_base::Set;
use rookery_hub::{Memo, World};
use rookery_jid::Jid;
use rookery_xml::{Writer, ns};
use serde::{Deserialize, Serialize};

use super::actor::Actors;

/// The servers that a shard's rooms have lost.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    domains: Set<String>,
}

/// Tells the rooms of a shard that a server is lost.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ServerLost(String);

impl Memo for ServerLost {
    const NAME: &'static str = "rooms lost";

    fn open(self, world: &mut World) {
        let ghosts = world.state_mut::<Ghosts>();
        if ghosts.domains.len() >= MOST_DOMAINS {
            return;
        }
        let is_first = ghosts.domains.is_empty();
        ghosts.domains.insert(self.0);
        if is_first {
            // A server that restarts needs a moment.
            world.after(FIRST_MS, look);
        }
    }
}

/// Looks for the occupants of a server in the rooms of this shard.
pub(super) fn look_at(world: &mut World, domain: String) {
    ServerLost(domain).open(world);
}

/// Tells all rooms that a server is lost.
pub(super) fn lost(world: &mut World, domain: &str) {
    for shard in 0..world.shards() {
        world.send_memo(shard, ServerLost(domain.to_owned()));
    }
}

/// Looks for the occupants of the servers that were lost.
fn look(world: &mut World) {
    let domains = std::mem::take(&mut world.state_mut::<Ghosts>().domains);
    let seats = world.state::<Actors>().seats_of(|domain| domains.contains(domain));
    probe_some(world, seats);
}

/// Sends a message to some sessions, each from its room, and to the others later.
fn probe_some(world: &mut World, mut seats: Vec<(Jid, Jid)>) {
    let rest = seats.split_off(seats.len().min(AT_ONCE));
    for (room, session) in seats {
        look_for(world, &room, &session);
    }
    if !rest.is_empty() {
        world.after(NEXT_MS, move |world| probe_some(world, rest));
    }
}

/// Sends an invisible message to a session in a room, to see whether it bounces.
pub(super) fn look_for(world: &mut World, room: &Jid, session: &Jid) {
    let mut message = Writer::new("message");
    message.attr("type", "groupchat").attr("id", &world.unique_text()).attr("from", room.as_str());
    message.start_ns("no-store", ns::HINTS).end();
    world.route_built(&message.finish(), session);
}

/// Milliseconds from the first loss to the first messages.
const FIRST_MS: u64 = 15_000;
/// The most messages that a shard sends at a time, and the milliseconds until the next ones.
const AT_ONCE: usize = 200;
const NEXT_MS: u64 = 1000;
/// The most servers of a round. Occupants of further servers are found when an occupant speaks.
pub(super) const MOST_DOMAINS: usize = 10_000;
