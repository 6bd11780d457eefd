//! Our users in rooms of other servers: when such a server is lost, they are told whether they are
//! still in there (XEP-0410, XEP-0045 §18.1).
//!
//! A client can't see that the server of a room has died, or has restarted and forgotten its
//! occupants: it just gets no more stanzas. So when a stream with a server breaks, this server asks
//! in the name of each session that has entered a room there whether the session is in it. If the
//! room says no, or its server can't be reached for some minutes, the client gets the presence that
//! a room sends when it removes an occupant for a technical reason: unavailable, with 110 and 333.
//! Then it may enter again.
//!
//! # Invariants
//!
//! * A session is told to be out only if the room's server says so, or can't be reached several
//!   times in a row. Other replies may be about a nick that was changed since (XEP-0410 §3).
//! * Pings are paced, and there is one round of them for a domain at a time.
//! * A stream that ends because it was idle causes no pings.

use std::collections::{BTreeMap, BTreeSet};

use rookery_base::{Map, Set};
use rookery_fanout::{Link, StanzaType};
use rookery_hub::{
    Answer, Bound, Carry, Delivery, Hooks, Memo, Module, Most, Passage, Per, Phase, Stanzas, Unit, Wanted, World,
};
use rookery_jid::{Jid, JidRef};
use rookery_xml::{Element, Kind, Writer, ns};
use serde::{Deserialize, Serialize};

/// The module that tells users that they are no longer in a room of another server.
#[derive(Debug)]
pub struct Visits;

/// The rooms that the sessions of a shard have entered.
#[derive(Debug, Default)]
struct Visiting {
    /// The rooms of each session, with its nick.
    rooms: Map<Jid, BTreeMap<Jid, String>>,
    /// The sessions with rooms of a domain.
    sessions: Map<Box<str>, BTreeSet<Jid>>,
    number: usize,
    /// Domains whose rooms are being pinged.
    asking: Set<Box<str>>,
}

impl Visiting {
    fn enter(&mut self, session: Jid, room: Jid, nick: &str) {
        if self.number >= MOST_VISITS {
            return;
        }
        self.sessions.entry(room.domain().into()).or_default().insert(session.clone());
        let before = self.rooms.entry(session).or_default().insert(room, nick.to_owned());
        self.number += usize::from(before.is_none());
    }

    fn leave(&mut self, session: &Jid, room: &Jid) {
        let Some(rooms) = self.rooms.get_mut(session) else { return };
        if rooms.remove(room).is_none() {
            return;
        }
        debug_assert!(self.number > 0, "a visit was counted");
        self.number -= 1;
        let is_last = !rooms.keys().any(|other| other.domain() == room.domain());
        if rooms.is_empty() {
            self.rooms.remove(session);
        }
        if is_last {
            self.take_off(session, room.domain());
        }
    }

    fn end(&mut self, session: &Jid) {
        let rooms = self.rooms.remove(session).unwrap_or_default();
        debug_assert!(self.number >= rooms.len(), "visits were counted");
        self.number -= rooms.len();
        rooms.keys().for_each(|room| self.take_off(session, room.domain()));
    }

    fn take_off(&mut self, session: &Jid, domain: &str) {
        if let Some(sessions) = self.sessions.get_mut(domain) {
            sessions.remove(session);
            if sessions.is_empty() {
                self.sessions.remove(domain);
            }
        }
    }

    /// Returns the visits to the rooms of a domain.
    fn of(&self, domain: &str) -> Vec<(Jid, Jid)> {
        let sessions = self.sessions.get(domain).into_iter().flatten();
        let rooms = sessions.flat_map(|session| {
            let rooms = self.rooms.get(session).into_iter().flat_map(BTreeMap::keys);
            rooms.filter(|room| room.domain() == domain).map(|room| (session.clone(), room.clone()))
        });
        rooms.collect()
    }
}

/// Tells all shards that a server is lost.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LostVisits(String);

impl Memo for LostVisits {
    const NAME: &'static str = "visits lost";

    fn open(self, world: &mut World) {
        let Self(domain) = self;
        let visiting = world.state_mut::<Visiting>();
        if !visiting.sessions.contains_key(&*domain) || !visiting.asking.insert(domain.as_str().into()) {
            return;
        }
        // A server that restarts needs a moment.
        world.after(FIRST_MS, move |world| {
            let visits = world.state::<Visiting>().of(&domain);
            ask_some(world, domain, visits);
        });
    }
}

impl Module for Visits {
    fn name(&self) -> &'static str {
        "visits"
    }

    fn summary(&self) -> &'static str {
        "users learn that they are no longer in a room whose server has gone"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0410", "1.1.0")]
    }

    fn bounds(&self) -> &'static [Bound] {
        &BOUNDS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(Visiting::default());
        hooks.memo::<LostVisits>();
        let entering = Wanted::from(Stanzas::of(Kind::Presence, &[StanzaType::Available])).naming(&[ns::MUC]);
        hooks.before_route(Phase::Record, entering, entered);
        hooks.before_route(Phase::Record, Stanzas::of(Kind::Presence, &[StanzaType::Unavailable]), left);
        hooks.session_ended(ended);
        hooks.session_carried(save, restore);
        hooks.lost(|world, domain| {
            for shard in 0..world.shards() {
                world.send_memo(shard, LostVisits(domain.to_owned()));
            }
        });
    }
}

fn entered(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    let is_elsewhere = !world.is_ours(to.domain()) && to.local().is_some();
    let Some((nick, session)) = to.resource().zip(packet.sender()).filter(|_| is_elsewhere) else {
        return Delivery::Pass;
    };
    if packet.stanza().child("x", ns::MUC).is_some() {
        world.state_mut::<Visiting>().enter(session, to.bare().to_jid(), nick);
    }
    Delivery::Pass
}

fn left(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    if let Some(session) = packet.sender().filter(|_| !world.is_ours(to.domain())) {
        world.state_mut::<Visiting>().leave(&session, &to.bare().to_jid());
    }
    Delivery::Pass
}

fn ended(world: &mut World, link: Link) {
    if let Some(session) = world.address(link).cloned() {
        world.state_mut::<Visiting>().end(&session);
    }
}

/// Returns the rooms of a session, for another process.
fn save(world: &World, link: Link) -> Carry {
    let rooms = world.address(link).and_then(|session| world.state::<Visiting>().rooms.get(session));
    rooms.map_or(Carry::Nothing, |rooms| postcard::to_allocvec(rooms).map_or(Carry::Nothing, Carry::State))
}

/// Restores the data that [`save`] has returned.
fn restore(world: &mut World, link: Link, state: Option<&[u8]>) {
    let rooms = state.and_then(|state| postcard::from_bytes::<BTreeMap<Jid, String>>(state).ok());
    let Some((rooms, session)) = rooms.zip(world.address(link).cloned()) else { return };
    for (room, nick) in rooms {
        world.state_mut::<Visiting>().enter(session.clone(), room, &nick);
    }
}

/// Pings rooms of a domain for some visits, and for the others later.
fn ask_some(world: &mut World, domain: String, mut visits: Vec<(Jid, Jid)>) {
    let rest = visits.split_off(visits.len().min(AT_ONCE));
    for (session, room) in visits {
        ask(world, session, room, 1);
    }
    world.after(NEXT_MS, move |world| match rest.is_empty() {
        true => _ = world.state_mut::<Visiting>().asking.remove(&*domain),
        false => ask_some(world, domain, rest),
    });
}

/// Pings a session's own occupant, to learn whether the session is still in the room (XEP-0410 §2).
fn ask(world: &mut World, session: Jid, room: Jid, attempt: u32) {
    let rooms = world.state::<Visiting>().rooms.get(&session);
    let nick = rooms.and_then(|rooms| rooms.get(&room)).cloned();
    // The session has left, or has ended.
    let Some(occupant) = nick.and_then(|nick| room.with_resource(&nick).ok()) else { return };
    let ping = Element::new("ping", ns::PING);
    let from = session.to_string();
    world.ask(&from, &occupant.clone(), false, &ping, move |world, answer| match standing(&answer) {
        Standing::In => {}
        Standing::Unknown if attempt < ATTEMPTS => {
            world.after(AGAIN_MS << (attempt - 1), move |world| ask(world, session, room, attempt + 1));
        }
        Standing::Out | Standing::Unknown => {
            world.state_mut::<Visiting>().leave(&session, &room);
            tell(world, &session, occupant.as_ref());
        }
    });
}

/// A visitor's state in a room, by a reply.
enum Standing {
    In,
    Out,
    Unknown,
}

/// Interprets a reply by the rules of XEP-0410 §3.
fn standing(answer: &Answer) -> Standing {
    match answer {
        Answer::Error { condition, .. } if condition == "not-acceptable" => Standing::Out,
        Answer::Error { condition, .. } if NOT_REACHED.contains(&condition.as_str()) => Standing::Unknown,
        Answer::Nothing => Standing::Unknown,
        Answer::Result(_) | Answer::Error { .. } => Standing::In,
    }
}

/// Tells a session that it has been removed from a room (XEP-0045 §18.1).
fn tell(world: &mut World, session: &Jid, occupant: JidRef<'_>) {
    let mut presence = Writer::new("presence");
    presence.attr("type", "unavailable").attr("from", occupant.as_str());
    presence.start_ns("x", ns::MUC_USER);
    presence.start("item").attr("affiliation", "none").attr("role", "none");
    presence.text_child("reason", "The room can't be reached, or doesn't know you any more.").end();
    for code in ["110", "333"] {
        presence.start("status").attr("code", code).end();
    }
    world.route_built(&presence.finish(), session);
}

/// Errors that say nothing about the room.
const NOT_REACHED: [&str; 4] =
    ["remote-server-timeout", "remote-server-not-found", "resource-constraint", "internal-server-error"];
/// Milliseconds from the loss of a server to the first pings.
const FIRST_MS: u64 = 15_000;
/// Milliseconds from the first inconclusive reply to the next ping; the time doubles then.
const AGAIN_MS: u64 = 60_000;
/// The most pings for one visit.
const ATTEMPTS: u32 = 3;
/// The number of pings that a shard sends to one domain at a time, and the milliseconds until the
/// next.
const AT_ONCE: usize = 100;
const NEXT_MS: u64 = 1000;
/// The most visits that a shard remembers.
const MOST_VISITS: usize = 100_000;

const BOUNDS: [Bound; 1] = [Bound::on(
    "sessions in rooms of other servers, each in one room",
    Per::Shard,
    Most::Fixed(MOST_VISITS as u64),
    Unit::Number,
)
.or("a session with one more isn't told when the room's server is lost")];
