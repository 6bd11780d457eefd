//! Continues rooms in another process with all their occupants, who don't notice the interruption.
//! If the store has the room, its configuration is read from there; otherwise the whole room is
//! handed over.
//!
//! Occupants that did not outlive the restart leave as they would at any other time: sessions of
//! this server when they expire, or at once if their home doesn't know them, see [`super::seated`];
//! those of other servers when a message bounces, see [`super::ghosts`]. If the room itself doesn't
//! continue, because it doesn't exist any more or another room has its name, all occupants are told
//! that they have left it.

use rookery_base::Map;
use rookery_fanout::Packet;
use rookery_hub::failure::condition;
use rookery_hub::{Memo, World};
use rookery_jid::Jid;
use rookery_store::{Affiliated, RoomDocument, StoreError, StoredRoom};
use rookery_xml::{Writer, ns};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::actor::{self, Actors};
use super::directory::Directory;
use super::ghosts;
use super::kept::{forget_removed, is_of_same_room};
use super::occupant::{Occupant, OccupantSeat, nick_key, occupant_id};
use super::rate::RoomBucket;
use super::role::{RoomRole, affiliation_name, affiliation_named};
use super::room::Room;
use super::seated;
use super::unsaved::{Unsaved, UnsavedChanges};

/// A room that another process continues.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Continued {
    pub jid: Jid,
    /// The whole room, if the store lacks it or has an older state of it.
    whole: Option<Whole>,
    is_locked: bool,
    invitations: Vec<(Jid, Jid)>,
    last_number: u64,
    occupants: Vec<CarriedOccupant>,
    history: Vec<(Packet, String, String, u64)>,
    /// The users whose affiliations the store lacks, if the room is stored and incomplete there.
    /// The field is last, so that an older process doesn't read it.
    unsaved: Option<Vec<Jid>>,
    /// True if it comes from the journal of a node that has died.
    #[serde(skip)]
    is_recovered: bool,
}

/// An occupant: the address, the role, and its sessions with presence and number.
#[derive(Debug, Serialize, Deserialize)]
struct CarriedOccupant {
    jid: Jid,
    role: String,
    seats: Vec<(Jid, Packet, u64)>,
}

/// The part of a room that is otherwise read from the store.
#[derive(Debug, Serialize, Deserialize)]
struct Whole {
    name: String,
    is_public: bool,
    creator: Option<Jid>,
    config: ByteBuf,
    archive_days: u64,
    subject: Option<ByteBuf>,
    vcard: Option<ByteBuf>,
    of_users: Vec<(Jid, ByteBuf)>,
    /// The user, the affiliation, the reserved nick and the reason.
    affiliations: Vec<(Jid, String, Option<String>, Option<String>)>,
}

impl Memo for Continued {
    const NAME: &'static str = "rooms continued";

    fn open(self, world: &mut World) {
        go_on_with(world, self);
    }
}

/// A room from the journal of a node that has died: the archive knows better which messages were
/// the last.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recovered(Continued);

impl Memo for Recovered {
    const NAME: &'static str = "rooms recovered";

    fn open(self, world: &mut World) {
        let mut continued = self.0;
        continued.is_recovered = true;
        go_on_with(world, continued);
    }
}

/// Hands on the rooms that the shard gives up, if they are occupied or have unsaved changes.
pub(super) fn hand_on(world: &mut World) {
    for jid in world.state::<Actors>().here() {
        if !world.parts_with(jid.as_str()) {
            continue;
        }
        let Some(room) = world.state_mut::<Actors>().take_out(&jid) else { continue };
        if !room.is_over {
            let unsaved = world.state_mut::<Unsaved>().take_of(&room.jid).filter(|_| room.is_stored());
            if !room.occupants.is_empty() || unsaved.is_some() {
                world.hand_on(room.jid.as_str(), &Continued::of(&room, unsaved));
            }
        }
        for session in room.seats.keys() {
            let is_here = world.is_here(session.domain());
            world.state::<Directory>().holdings.leave_seat(session.as_ref(), is_here);
        }
    }
}

/// Writes down what a room would need if the process died; the room stays as it is.
pub(super) fn write_down(world: &mut World, home: &str) {
    let unsaved = world.state::<Unsaved>().users_of(home);
    let continued = world.state::<Actors>().room(home).and_then(|room| {
        let unsaved = unsaved.filter(|_| room.is_stored());
        (!room.is_over && !room.occupants.is_empty()).then(|| Continued::of(room, unsaved))
    });
    if let Some(continued) = continued {
        world.hand_on(home, &Recovered(continued));
    }
}

/// Returns whether none of the rooms that the shard gives up is being loaded or written, or will be
/// loaded for a stanza that waits for the list of rooms.
pub(super) fn are_resting(world: &World) -> bool {
    let actors = world.state::<Actors>();
    let mut all = actors.at_work().chain(world.state::<Unsaved>().pending()).chain(actors.waiting_for_lists());
    !all.any(|room| room.local().is_some() && world.parts_with(room.bare_str()))
}

/// Continues a room of another process.
fn go_on_with(world: &mut World, continued: Continued) {
    if world.state::<Actors>().has(continued.jid.as_str()) {
        return;
    }
    world.state_mut::<Actors>().expect(continued.jid.clone());
    world.in_turn(move |world| load(world, continued, 0));
}

/// Looks for the room in the store, where another one of that name may exist by now. `failures`
/// counts the failed attempts.
fn load(world: &mut World, continued: Continued, failures: u32) {
    let jid = continued.jid.clone();
    let removed = world.state::<Directory>().removed_count();
    world.state_mut::<Actors>().begin_loading(jid.clone(), removed);
    let loaded = world.stores.rooms.load(jid.as_ref());
    world.wait(loaded, move |world, loaded| match loaded {
        Err(error) if error.is_temporary() => {
            load_again(world, continued, failures, &error);
            world.state_mut::<Actors>().end_loading(&jid);
        }
        loaded => loaded_with(world, continued, loaded, removed),
    });
}

/// Tries again in a while, so that occupants don't lose the room because the store was unavailable.
/// Users who write to it meanwhile get that error.
fn load_again(world: &mut World, continued: Continued, failures: u32, error: &StoreError) {
    let jid = &continued.jid;
    world.store_failed("continuing a room", jid, error);
    actor::turn_all_away(world, jid, (&condition(error), Some(error)));
    world.state_mut::<Actors>().expect(jid.clone());
    let custody = world.custody();
    let delay_ms = AGAIN_MS << failures.min(MOST_DOUBLINGS);
    world.after(delay_ms, move |world| {
        world.in_custody(custody, |world| load(world, continued, failures + 1));
    });
}

fn loaded_with(
    world: &mut World,
    mut continued: Continued,
    loaded: Result<Option<StoredRoom>, StoreError>,
    removed: usize,
) {
    let jid = continued.jid.clone();
    let (mut whole, unsaved) = (continued.take_whole(), continued.unsaved.take());
    let mut is_another = false;
    if let (Ok(stored), Some(whole)) = (&loaded, &mut whole) {
        is_another = stored.as_ref().is_some_and(|stored| !is_of_same_room(&stored.document, &whole.document));
        let lately = world.state::<Directory>().removed_lately(world.uptime_ms());
        forget_removed(whole, stored.as_ref(), unsaved.as_deref().unwrap_or_default(), &lately);
    }
    let room = match (&loaded, &whole) {
        (Ok(None), Some(whole)) => {
            Room::from_stored(world, &jid, (whole, removed)).map(|room| (room, unsaved.is_some()))
        }
        // Another room of that name.
        (Ok(Some(_)), Some(_)) if is_another => None,
        // The occupants have seen changes that the store has not taken.
        (Ok(Some(_)), Some(whole)) if unsaved.is_some() => {
            Room::from_stored(world, &jid, (whole, removed)).map(|room| (room, true))
        }
        (Ok(Some(stored)), _) => Room::from_stored(world, &jid, (stored, removed)).map(|room| (room, true)),
        _ => None,
    };
    match room {
        Some((mut room, is_stored)) => {
            let is_recovered = continued.is_recovered && room.is_archived(world);
            if is_recovered {
                continued.history.clear();
            }
            room.go_on(world, continued);
            room.set_stored(world, is_stored);
            if let Some(users) = unsaved {
                let lack = UnsavedChanges::for_users(users);
                world.state_mut::<Unsaved>().put_back(jid.clone(), lack);
            }
            let then = move |world: &mut World, mut room: Room| {
                // Homes may have moved while the history was loaded.
                room.sort_again(world);
                seated::ask_homes(world, room.seats_here(world));
                // If this process dies as well, nobody else has the room.
                world.in_custody(None, |world| world.note_home(jid.as_str(), true));
                actor::go_on(world, Box::new(room));
                world.state_mut::<Actors>().end_loading(&jid);
            };
            match is_recovered {
                true => room.with_past(world, true, then),
                false => then(world, room),
            }
        }
        None => {
            // The other room is being loaded, and ends that itself.
            actor::arrived(world, &jid, loaded, removed);
            continued.tell_all_out(world);
        }
    }
}

impl Continued {
    fn of(room: &Room, unsaved: Option<Vec<Jid>>) -> Self {
        let occupants = room.occupants.iter().map(|(_, occupant)| CarriedOccupant {
            jid: occupant.jid.clone(),
            role: occupant.role.name().to_owned(),
            seats: occupant.seats.iter().map(|seat| (seat.jid.clone(), seat.presence.clone(), seat.number)).collect(),
        });
        Self {
            jid: room.jid.clone(),
            whole: (!room.is_stored() || unsaved.is_some()).then(|| Whole::of(room)),
            unsaved,
            is_recovered: false,
            is_locked: room.is_locked,
            invitations: room.invitations.iter().cloned().collect(),
            last_number: room.last_number(),
            occupants: occupants.collect(),
            history: room
                .history
                .messages()
                .map(|(packet, id, sender, at)| (packet, id.into(), sender.into(), at))
                .collect(),
        }
    }

    /// Tells all occupants of a room that doesn't continue that they are out of it (XEP-0045
    /// §15.6.2).
    fn tell_all_out(&self, world: &mut World) {
        for CarriedOccupant { jid, seats, .. } in &self.occupants {
            for (session, ..) in seats {
                let mut presence = Writer::new("presence");
                presence.attr("type", "unavailable").attr("from", jid.as_str());
                presence.start_ns("x", ns::MUC_USER);
                presence.start("item").attr("affiliation", "none").attr("role", "none").end();
                for code in ["110", "333"] {
                    presence.start("status").attr("code", code).end();
                }
                world.route_built(&presence.finish(), session);
            }
        }
    }

    /// Takes the whole room, if the store doesn't have it.
    fn take_whole(&mut self) -> Option<StoredRoom> {
        self.whole.take().map(Whole::into_stored)
    }
}

impl Whole {
    fn of(room: &Room) -> Self {
        let document = room.document();
        let of_users = document.of_users.into_iter().map(|(user, said)| (user, said.into()));
        let affiliations = room.affiliations.values().map(|affiliated| {
            let Affiliated { user, affiliation, nick, reason } = affiliated.clone();
            (user, affiliation_name(affiliation).to_owned(), nick, reason)
        });
        Self {
            name: document.name,
            is_public: document.is_public,
            creator: document.creator,
            config: document.config.into(),
            archive_days: document.archive_days,
            subject: document.subject.map(ByteBuf::from),
            vcard: document.vcard.map(ByteBuf::from),
            of_users: of_users.collect(),
            affiliations: affiliations.collect(),
        }
    }

    fn into_stored(self) -> StoredRoom {
        let affiliations = self.affiliations.into_iter().filter_map(|(user, affiliation, nick, reason)| {
            Some(Affiliated { user, affiliation: affiliation_named(&affiliation)?, nick, reason })
        });
        let document = RoomDocument {
            name: self.name,
            is_public: self.is_public,
            creator: self.creator,
            config: self.config.into_vec(),
            archive_days: self.archive_days,
            subject: self.subject.map(ByteBuf::into_vec),
            vcard: self.vcard.map(ByteBuf::into_vec),
            of_users: self.of_users.into_iter().map(|(user, said)| (user, said.into_vec())).collect(),
        };
        StoredRoom { document, affiliations: affiliations.collect() }
    }
}

impl Room {
    /// Continues where another process stopped. The occupants don't notice.
    pub(super) fn go_on(&mut self, world: &mut World, continued: Continued) {
        let Continued { is_locked, invitations, last_number, occupants, history, .. } = continued;
        self.is_locked = is_locked;
        self.invitations = invitations.into();
        self.set_last_number(last_number);
        self.history.restore(history);
        let mut elsewhere = Map::<String, ()>::default();
        for CarriedOccupant { jid, role, seats } in occupants {
            let (Some(key), Some(role)) = (jid.resource().and_then(nick_key), RoomRole::from_name(&role)) else {
                continue;
            };
            let Some(account) = seats.first().map(|(session, ..)| session.to_bare()) else { continue };
            if self.nicks.contains_key(&key) || jid.bare() != self.jid.as_ref() {
                continue;
            }
            let at = self.occupants.vacant_key();
            let mut taken = Vec::with_capacity(seats.len());
            for (session, presence, number) in seats {
                let is_here = world.is_here(session.domain());
                let may = !self.seats.contains_key(&session)
                    && session.bare() == account.as_ref()
                    && world.state::<Directory>().holdings.take_seat(session.as_ref(), is_here, &self.limits);
                if !may {
                    continue;
                }
                if !is_here {
                    elsewhere.insert(session.domain().to_owned(), ());
                }
                world.enroll(self.roll(role), session.as_ref());
                self.seats.insert(session.clone(), at);
                taken.push(OccupantSeat { jid: session, presence, number });
            }
            if taken.is_empty() {
                continue;
            }
            let occupant = Occupant {
                id: occupant_id(&self.secret, &account),
                affiliation: self.affiliation_of(world, account.as_ref()),
                jid,
                account,
                role,
                seats: taken,
                open: None,
                veiled: None,
                pace: RoomBucket::default(),
                stir: RoomBucket::default(),
            };
            self.occupants.insert(occupant);
            self.nicks.insert(key, at);
            if role == RoomRole::Moderator {
                self.moderating.insert(at);
            }
        }
        for domain in elsewhere.into_keys() {
            ghosts::look_at(world, domain);
        }
    }
}

/// Milliseconds until a store that has failed is asked again; the time doubles with each failure.
const AGAIN_MS: u64 = 1000;
const MOST_DOUBLINGS: u32 = 4;
