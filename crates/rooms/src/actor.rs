//! A room is an actor: one stanza at a time, in order, at its home shard.
//!
//! While a room processes a stanza it is taken out of the table, because the consequences may reach
//! it at once, as when a message to a session that has ended bounces; such stanzas wait for their
//! turn. The same queue holds stanzas that arrive while a room is loaded from the store, so nothing
//! overtakes.
//!
//! # Layout
//!
//! `upkeep`: work on all rooms of a shard, at intervals and when homes move.

use rookery_base::Map;
use std::collections::VecDeque;

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::failure::condition;
use rookery_hub::{Bound, Bounds, Custody, Most, Per, QuestionReply, Share, Unit, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{StoreError, StoredRoom};
use rookery_stream::error::Condition;
use tracing::warn;

use super::absent;
use super::directory::Directory;
use super::refusal::turn_away;
use super::room::Room;
use super::spread;
use super::work::{Arranged, FoundRoom, RoomTask, RoomWork, Size, WantedSettings};

pub(crate) mod upkeep;

/// The rooms whose home is this shard.
#[derive(Debug)]
pub(super) struct Actors {
    slots: Map<Jid, ActorSlot>,
    /// The senders' shares of the space for stanzas that wait for rooms and their lists.
    waiting: Share,
    /// The stanzas that wait for the list of a service's rooms; `None` once the list is loaded.
    listed: Map<String, Option<ActorQueue>>,
    /// Rooms that are being loaded from the store, with the number of accounts that had been
    /// removed when they were requested.
    loading: Map<Jid, usize>,
    /// The number of removed accounts that all rooms here have forgotten.
    heeded: usize,
}

type ActorQueue = VecDeque<WaitingStanza>;

/// A waiting stanza, and its recipient.
type WaitingStanza = (Packet, Jid, Option<Custody>);

/// A thing for a room to do, in its turn.
#[derive(Debug)]
enum ActorTurn {
    Stanza(WaitingStanza),
    Work(RoomWork),
}

#[derive(Debug)]
enum ActorSlot {
    Here(Box<Room>),
    /// At work, or being loaded from the store.
    Busy(VecDeque<ActorTurn>),
}

/// The outcome of taking a room out of the table.
enum TakenRoom {
    /// The room, whose place is busy from now on.
    Room(Box<Room>),
    Busy,
    Absent,
}

impl Default for Actors {
    fn default() -> Self {
        Self {
            slots: Map::default(),
            waiting: Share::new(WAITING),
            listed: Map::default(),
            loading: Map::default(),
            heeded: 0,
        }
    }
}

impl Actors {
    /// Returns the sessions of some domains, each with the room that it is in.
    pub(super) fn seats_of(&self, is_meant: impl Fn(&str) -> bool) -> Vec<(Jid, Jid)> {
        let rooms = self.slots.values().filter_map(|slot| match slot {
            ActorSlot::Here(room) => Some(room),
            ActorSlot::Busy(_) => None,
        });
        let seats = rooms.flat_map(|room| room.seats.keys().map(|session| (room.jid.clone(), session.clone())));
        let mut seats: Vec<_> = seats.filter(|(_, session)| is_meant(session.domain())).collect();
        seats.sort();
        seats
    }

    /// Counts something of all rooms that are loaded and not at work.
    pub(super) fn count(&self, of: impl Fn(&Room) -> usize) -> u64 {
        let here = self.slots.values().filter_map(|slot| match slot {
            ActorSlot::Here(room) => Some(of(room) as u64),
            ActorSlot::Busy(_) => None,
        });
        here.sum()
    }

    /// Returns the rooms that are loaded and not at work, in their order.
    pub(super) fn here(&self) -> Vec<Jid> {
        let here = self.slots.iter().filter(|(_, slot)| matches!(slot, ActorSlot::Here(_)));
        let mut here: Vec<_> = here.map(|(jid, _)| jid.clone()).collect();
        here.sort();
        here
    }

    /// Returns the rooms that are at work, or being loaded from the store.
    pub(super) fn at_work(&self) -> impl Iterator<Item = &Jid> {
        self.slots.iter().filter(|(_, slot)| matches!(slot, ActorSlot::Busy(_))).map(|(jid, _)| jid)
    }

    /// Returns the recipients of the stanzas that wait for lists.
    pub(super) fn waiting_for_lists(&self) -> impl Iterator<Item = &Jid> {
        self.listed.values().flatten().flatten().map(|(_, to, _)| to)
    }

    /// Takes a room that is loaded and not at work out of the table.
    pub(super) fn take_out(&mut self, jid: &Jid) -> Option<Box<Room>> {
        match self.slots.remove(jid)? {
            ActorSlot::Here(room) => Some(room),
            busy @ ActorSlot::Busy(_) => {
                self.slots.insert(jid.clone(), busy);
                None
            }
        }
    }

    /// Returns whether a room is loaded, or being loaded.
    pub(super) fn has(&self, jid: &str) -> bool {
        self.slots.contains_key(jid)
    }

    /// Returns a room that is loaded and not at work.
    pub(super) fn room(&self, jid: &str) -> Option<&Room> {
        match self.slots.get(jid)? {
            ActorSlot::Here(room) => Some(room),
            ActorSlot::Busy(_) => None,
        }
    }

    /// Makes a place for a room that another process hands on.
    pub(super) fn expect(&mut self, jid: Jid) {
        self.occupy(jid, None);
    }

    /// Notes that a room is being loaded from the store, and that `removed` accounts had been
    /// removed by then.
    pub(super) fn begin_loading(&mut self, jid: Jid, removed: usize) {
        self.loading.insert(jid, removed);
    }

    /// Notes that a room is no longer being loaded.
    pub(super) fn end_loading(&mut self, jid: &Jid) {
        self.loading.remove(jid);
    }

    /// Returns the rooms with the most sessions, the largest first, without those at work.
    pub(super) fn largest(&self, most: usize) -> Vec<Size> {
        let rooms = self.slots.values().filter_map(|slot| match slot {
            ActorSlot::Here(room) => Some(&**room),
            ActorSlot::Busy(_) => None,
        });
        let mut sizes: Vec<_> = rooms.map(|room| (room.seats.len(), room)).collect();
        sizes.sort_unstable_by(|(some, room), (others, other)| others.cmp(some).then_with(|| room.jid.cmp(&other.jid)));
        let size = |(sessions, room): (usize, &Room)| Size {
            room: room.jid.clone(),
            sessions,
            occupants: room.occupants.len(),
            affiliations: room.affiliations.len(),
        };
        sizes.into_iter().take(most).map(size).collect()
    }

    fn take(&mut self, jid: &str) -> TakenRoom {
        let Some(slot) = self.slots.get_mut(jid) else { return TakenRoom::Absent };
        match std::mem::replace(slot, ActorSlot::Busy(VecDeque::new())) {
            ActorSlot::Here(room) => TakenRoom::Room(room),
            busy @ ActorSlot::Busy(_) => {
                *slot = busy;
                TakenRoom::Busy
            }
        }
    }

    /// Queues a turn for a room that is busy.
    fn queue(&mut self, jid: &str, turn: ActorTurn) {
        if let Some(ActorSlot::Busy(queue)) = self.slots.get_mut(jid) {
            queue.push_back(turn);
        }
    }

    /// Makes a busy place for a room that isn't loaded, with the first turn to wait in it.
    fn occupy(&mut self, jid: Jid, first: Option<ActorTurn>) {
        self.slots.insert(jid, ActorSlot::Busy(first.into_iter().collect()));
    }

    fn next(&mut self, jid: &Jid) -> Option<ActorTurn> {
        let next = match self.slots.get_mut(jid) {
            Some(ActorSlot::Busy(queue)) => queue.pop_front(),
            _ => None,
        };
        next.iter().for_each(|turn| self.end_wait(turn));
        next
    }

    fn take_queue(&mut self, jid: &Jid) -> VecDeque<ActorTurn> {
        let queue = match self.slots.remove(jid) {
            Some(ActorSlot::Busy(queue)) => queue,
            _ => VecDeque::new(),
        };
        queue.iter().for_each(|turn| self.end_wait(turn));
        queue
    }

    /// Stops counting a turn that has waited.
    fn end_wait(&mut self, turn: &ActorTurn) {
        if let ActorTurn::Stanza((packet, ..)) = turn {
            self.waiting.give_back(packet);
        }
    }
}

/// Runs `then` with the stanza once the service's list of rooms is loaded: at once, except just
/// after the start.
pub(super) fn when_listed(
    world: &mut World,
    packet: &Packet,
    to: JidRef<'_>,
    then: fn(&mut World, &Packet, JidRef<'_>),
) {
    let host = to.domain();
    let is_asked = match world.state::<Actors>().listed.get(host) {
        Some(None) => return then(world, packet, to),
        Some(Some(_)) => true,
        None => false,
    };
    let Some(waiting) = waiting_stanza(world, packet, to) else { return };
    let listed = &mut world.state_mut::<Actors>().listed;
    listed.entry(host.to_owned()).or_insert_with(|| Some(VecDeque::new())).get_or_insert_default().push_back(waiting);
    if is_asked {
        return;
    }
    let (host, list) = (host.to_owned(), world.stores.rooms.list(host));
    world.wait(list, move |world, list| {
        let actors = world.state_mut::<Actors>();
        let listed = match &list {
            Ok(_) => actors.listed.insert(host.clone(), None),
            Err(_) => actors.listed.remove(&host),
        };
        let queue = listed.flatten().unwrap_or_default();
        queue.iter().for_each(|(packet, ..)| actors.waiting.give_back(packet));
        match list {
            Ok(list) => {
                world.state::<Directory>().fill(&host, list);
                for (packet, to, custody) in queue {
                    world.in_custody(custody, |world| then(world, &packet, to.as_ref()));
                }
            }
            Err(error) => {
                let condition = condition(&error);
                for (packet, to, custody) in queue {
                    world.in_custody(custody, |world| turn_away(world, &packet, to.as_ref(), condition.clone()));
                }
            }
        }
    });
}

/// Passes a stanza to the room that it is for, or to an occupant of it.
pub(super) fn receive(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    give(world, packet, to, begin);
}

/// Passes a stanza to its room, or calls `absent` if the room isn't loaded.
fn give(world: &mut World, packet: &Packet, to: JidRef<'_>, absent: fn(&mut World, &Packet, JidRef<'_>)) {
    match world.state_mut::<Actors>().take(to.bare_str()) {
        TakenRoom::Room(mut room) if !room.lost.is_empty() && packet.type_() != StanzaType::Error => {
            // Without its lost occupants, the room may be dropped.
            room.drop_lost(world);
            go_on(world, room);
            give(world, packet, to, absent);
        }
        TakenRoom::Room(mut room) => {
            room.receive(world, packet, to);
            go_on(world, room);
        }
        TakenRoom::Busy => {
            if let Some(waiting) = waiting_stanza(world, packet, to) {
                world.state_mut::<Actors>().queue(to.bare_str(), ActorTurn::Stanza(waiting));
            }
        }
        TakenRoom::Absent => absent(world, packet, to),
    }
}

/// Lets a room work for an operator, or continue with a request.
pub(super) fn operate(world: &mut World, work: RoomWork) {
    employ(world, work, |world, work| {
        if !may_be_stored(world, work.room.as_ref()) {
            return without_room(world, work);
        }
        let room = work.room.clone();
        world.state_mut::<Actors>().occupy(room.clone(), Some(ActorTurn::Work(work)));
        load(world, room);
    });
}

/// Lets a room work, or calls `absent` if it isn't loaded.
fn employ(world: &mut World, work: RoomWork, absent: fn(&mut World, RoomWork)) {
    match world.state_mut::<Actors>().take(work.room.as_str()) {
        TakenRoom::Room(mut room) => {
            room.operate(world, work);
            go_on(world, room);
        }
        TakenRoom::Busy => {
            let room = work.room.clone();
            world.state_mut::<Actors>().queue(room.as_str(), ActorTurn::Work(work));
        }
        TakenRoom::Absent => absent(world, work),
    }
}

/// Does work for a room that doesn't exist: to create it, if the work is that.
fn without_room(world: &mut World, work: RoomWork) {
    match work.what {
        RoomTask::Arrange(wanted, Some(owner), reply) => make(world, work.room, (wanted, owner), reply),
        what => RoomWork { what, ..work }.without_room(world, None),
    }
}

/// Returns whether the store has to be asked for a room: another node may have stored it just as
/// its home moved here.
fn may_be_stored(world: &World, room: JidRef<'_>) -> bool {
    world.shards() > world.own_shards() || world.state::<Directory>().is_stored(room)
}

/// Makes a room for an operator.
fn make(
    world: &mut World,
    jid: Jid,
    (wanted, owner): (WantedSettings, Jid),
    reply: QuestionReply<FoundRoom<Arranged>>,
) {
    match absent::make(world, jid.clone(), &owner, true) {
        Ok(mut room) => {
            world.state_mut::<Actors>().occupy(jid, None);
            room.arrange(world, &wanted, true, reply);
            go_on(world, Box::new(room));
        }
        Err(error) => {
            let why = error.text.map_or_else(|| "there are no rooms here".to_owned(), |text| text.into_owned());
            reply.answer(world, Ok(Some(Arranged::Full(why))));
        }
    }
}

/// Passes on a stanza for a room that isn't loaded: it may be in the store, or be created.
fn begin(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    if may_be_stored(world, to) {
        let Some(first) = waiting_stanza(world, packet, to) else { return };
        world.state_mut::<Actors>().occupy(to.bare().to_jid(), Some(ActorTurn::Stanza(first)));
        return load(world, to.bare().to_jid());
    }
    create(world, packet, to);
}

/// Passes on a stanza for a room that doesn't exist and may be created.
fn create(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    if let Some(mut room) = absent::receive(world, packet, to) {
        world.state_mut::<Actors>().occupy(to.bare().to_jid(), None);
        room.receive(world, packet, to);
        go_on(world, room);
    }
}

fn load(world: &mut World, jid: Jid) {
    let removed = world.state::<Directory>().removed_count();
    world.state_mut::<Actors>().begin_loading(jid.clone(), removed);
    let loaded = world.stores.rooms.load(jid.as_ref());
    world.wait(loaded, move |world, loaded| arrived(world, &jid, loaded, removed));
}

/// Gives a room that was loaded from the store the turns that wait for it. It counts as being
/// loaded until its history is loaded, too.
pub(super) fn arrived(world: &mut World, jid: &Jid, loaded: Result<Option<StoredRoom>, StoreError>, removed: usize) {
    match loaded {
        // Its home has moved to another node meanwhile.
        _ if !world.acts_for(jid.as_str()) => {
            for turn in world.state_mut::<Actors>().take_queue(jid) {
                match turn {
                    ActorTurn::Stanza((packet, to, custody)) => {
                        world.in_custody(custody, |world| _ = world.serve_at_home(jid.as_str(), &packet, to.as_ref()));
                    }
                    ActorTurn::Work(work) => work.without_room(world, None),
                }
            }
        }
        Ok(Some(stored)) => match Room::from_stored(world, jid, (&stored, removed)) {
            Some(room) => {
                return room.with_past(world, false, |world, room| {
                    let jid = room.jid.clone();
                    go_on(world, Box::new(room));
                    world.state_mut::<Actors>().end_loading(&jid);
                });
            }
            None => {
                warn!(room = %jid, "a room's configuration in the store is damaged");
                turn_all_away(world, jid, (&Condition::InternalServerError, None));
            }
        },
        Ok(None) => {
            spread::remove(world, jid.as_ref());
            for turn in world.state_mut::<Actors>().take_queue(jid) {
                match turn {
                    ActorTurn::Stanza((packet, to, custody)) => {
                        world.in_custody(custody, |world| give(world, &packet, to.as_ref(), create));
                    }
                    ActorTurn::Work(work) => employ(world, work, without_room),
                }
            }
        }
        Err(error) => {
            world.store_failed("loading a room", jid, &error);
            turn_all_away(world, jid, (&condition(&error), Some(&error)));
        }
    }
    world.state_mut::<Actors>().end_loading(jid);
}

/// Refuses all turns that wait for a room that can't be loaded.
pub(super) fn turn_all_away(world: &mut World, jid: &Jid, (condition, failed): (&Condition, Option<&StoreError>)) {
    for turn in world.state_mut::<Actors>().take_queue(jid) {
        match turn {
            ActorTurn::Stanza((packet, to, custody)) => {
                world.in_custody(custody, |world| turn_away(world, &packet, to.as_ref(), condition.clone()));
            }
            ActorTurn::Work(work) => work.without_room(world, failed.cloned()),
        }
    }
}

/// Lets a room take the turns that have queued up meanwhile, and puts it back into the table.
pub(super) fn go_on(world: &mut World, mut room: Box<Room>) {
    while let Some(turn) = world.state_mut::<Actors>().next(&room.jid) {
        match turn {
            ActorTurn::Stanza((packet, to, custody)) => {
                world.in_custody(custody, |world| room.receive(world, &packet, to.as_ref()));
            }
            ActorTurn::Work(work) => room.operate(world, work),
        }
        room.assert_whole();
    }
    room.keep_changes(world);
    world.note_home(room.jid.as_str(), false);
    if !room.is_idle(world) {
        world.state_mut::<Actors>().slots.insert(room.jid.clone(), ActorSlot::Here(room));
        return;
    }
    world.state_mut::<Actors>().slots.remove(&room.jid);
    if !room.is_stored() && !room.is_over {
        room.forget_past(world);
        spread::remove(world, room.jid.as_ref());
    }
}

/// Drops a room that isn't needed any more, now that the store is done with it.
pub(super) fn drop_if_idle(world: &mut World, jid: &Jid) {
    if let TakenRoom::Room(room) = world.state_mut::<Actors>().take(jid.as_str()) {
        go_on(world, room);
    }
}

/// Lets a room do something, if it is loaded.
pub(super) fn with(world: &mut World, jid: &Jid, work: fn(&mut Room, &mut World)) {
    if let TakenRoom::Room(mut room) = world.state_mut::<Actors>().take(jid.as_str()) {
        work(&mut room, world);
        go_on(world, room);
    }
}

/// Returns a stanza in the form in which it waits, or `None` if there is no space for it; its
/// sender has got an error then.
fn waiting_stanza(world: &mut World, packet: &Packet, to: JidRef<'_>) -> Option<WaitingStanza> {
    if !world.state_mut::<Actors>().waiting.take(packet) {
        turn_away(world, packet, to, Condition::ResourceConstraint);
        return None;
    }
    Some((packet.clone(), to.to_jid(), world.custody()))
}

/// The stanzas that may wait for the rooms of a shard while they are loaded.
const WAITING: Bounds = Bounds { number: 65_536, bytes: 64 << 20 };

/// The same for the page of limits.
pub(super) const BOUNDS: [Bound; 2] = [
    Bound::on("stanzas that wait while a room is loaded", Per::Shard, Most::Fixed(WAITING.number as u64), Unit::Number)
        .or("the sender gets <resource-constraint/>; one sender has a quarter at most"),
    Bound::on("stanzas that wait while a room is loaded", Per::Shard, Most::Fixed(WAITING.bytes as u64), Unit::Bytes)
        .or("the sender gets <resource-constraint/>; one sender has a quarter at most"),
];
