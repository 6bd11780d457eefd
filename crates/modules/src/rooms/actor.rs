//! A room is an actor: one stanza at a time, in order, at its home shard.
//!
//! While a room works on a stanza it is taken out of the table, because what it sends may come back to it at once, as when a message to a
//! session that is gone bounces; such stanzas wait for their turn. The same queue holds those that come while a room is loaded from the store,
//! and so nothing overtakes.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use rookery_fanout::Packet;
use rookery_hub::{Bound, Bounds, Custody, Most, Per, Share, Unit, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::asker::condition;
use rookery_store::{StoreError, StoredRoom};
use rookery_stream::error::Condition;
use tracing::warn;

use super::absent;
use super::directory::Directory;
use super::join::turn_away;
use super::logs::Logs;
use super::operate::Work;
use super::room::Room;
use super::unsaved::Unsaved;

/// The rooms whose home is this shard.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) directory: Directory,
    pub(crate) logs: Rc<Logs>,
    pub(crate) unsaved: Unsaved,
    slots: RefCell<HashMap<Jid, Slot>>,
    /// The share that each sender has of what waits for rooms and their lists.
    waiting: RefCell<Share>,
    /// What waits for the list of a service's rooms; `None` once that is here.
    listed: RefCell<HashMap<String, Option<Queue>>>,
    /// Rooms that are on their way from the store, with the number of accounts that had been
    /// removed when they were asked for.
    loading: RefCell<HashMap<Jid, usize>>,
    /// The number of removed accounts that all rooms here have forgotten.
    heeded: Cell<usize>,
}

type Queue = VecDeque<Waiting>;

/// A stanza that waits, and for whom.
type Waiting = (Packet, Jid, Option<Custody>);

/// What is next for a room.
#[derive(Debug)]
enum Turn {
    Stanza(Waiting),
    Work(Work),
}

#[derive(Debug)]
enum Slot {
    Here(Box<Room>),
    /// At work, or on its way from the store.
    Busy(VecDeque<Turn>),
}

impl State {
    pub(crate) fn new(directory: Directory) -> Rc<Self> {
        Rc::new(Self {
            directory,
            logs: Rc::default(),
            unsaved: Unsaved::default(),
            slots: RefCell::default(),
            waiting: RefCell::new(Share::new(WAITING)),
            listed: RefCell::default(),
            loading: RefCell::default(),
            heeded: Cell::default(),
        })
    }

    /// Runs `then` with the stanza when it is known which rooms the service has; at once, but for the first moment after the start.
    pub(crate) fn when_listed(
        self: &Rc<Self>,
        world: &mut World,
        packet: &Packet,
        to: JidRef<'_>,
        then: fn(&Rc<Self>, &mut World, &Packet, JidRef<'_>),
    ) {
        let host = to.domain();
        match self.listed.borrow_mut().get_mut(host) {
            Some(None) => {}
            Some(Some(queue)) => return queue.extend(self.waits(world, packet, to)),
            None => {}
        }
        if self.listed.borrow().contains_key(host) {
            return then(self, world, packet, to);
        }
        let Some(first) = self.waits(world, packet, to) else { return };
        self.listed.borrow_mut().insert(host.to_owned(), Some(VecDeque::from([first])));
        let (state, host) = (self.clone(), host.to_owned());
        let list = world.stores.rooms.list(&host);
        world.wait(list, move |world, list| {
            let listed = match &list {
                Ok(_) => state.listed.borrow_mut().insert(host.clone(), None),
                Err(_) => state.listed.borrow_mut().remove(&host),
            };
            let queue = listed.flatten().unwrap_or_default();
            queue.iter().for_each(|(packet, ..)| state.waiting.borrow_mut().give_back(packet));
            match list {
                Ok(list) => {
                    state.directory.fill(&host, list);
                    for (packet, to, custody) in queue {
                        world.in_custody(custody, |world| then(&state, world, &packet, to.as_ref()));
                    }
                }
                Err(error) => {
                    let condition = condition(&error);
                    queue.iter().for_each(|(packet, to, _)| turn_away(world, packet, to.as_ref(), condition.clone()));
                }
            }
        });
    }

    /// A stanza for a room or somebody in it.
    pub(crate) fn receive(self: &Rc<Self>, world: &mut World, packet: &Packet, to: JidRef<'_>) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(to.bare_str()) else {
            drop(slots);
            return self.begin(world, packet, to);
        };
        match std::mem::replace(slot, Slot::Busy(VecDeque::new())) {
            Slot::Here(mut room) => {
                drop(slots);
                room.receive(world, packet, to);
                self.go_on(world, room);
            }
            Slot::Busy(mut queue) => {
                let waits = self.waits(world, packet, to);
                queue.extend(waits.map(Turn::Stanza));
                *slot = Slot::Busy(queue);
            }
        }
    }

    /// What an operator asks of a room.
    pub(crate) fn operate(self: &Rc<Self>, world: &mut World, work: Work) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(&work.room) else {
            drop(slots);
            if !self.directory.is_stored(work.room.as_ref()) {
                return work.without_room(world, None);
            }
            let room = work.room.clone();
            self.slots.borrow_mut().insert(room.clone(), Slot::Busy(VecDeque::from([Turn::Work(work)])));
            return self.load(world, room);
        };
        match std::mem::replace(slot, Slot::Busy(VecDeque::new())) {
            Slot::Here(mut room) => {
                drop(slots);
                room.operated(world, work);
                self.go_on(world, room);
            }
            Slot::Busy(mut queue) => {
                queue.push_back(Turn::Work(work));
                *slot = Slot::Busy(queue);
            }
        }
    }

    /// A stanza for a room that is not here: it may be in the store, or be created.
    fn begin(self: &Rc<Self>, world: &mut World, packet: &Packet, to: JidRef<'_>) {
        if self.directory.is_stored(to) {
            let Some(first) = self.waits(world, packet, to) else { return };
            let queue = VecDeque::from([Turn::Stanza(first)]);
            self.slots.borrow_mut().insert(to.bare().to_jid(), Slot::Busy(queue));
            return self.load(world, to.bare().to_jid());
        }
        if let Some(mut room) = absent::receive(self, world, packet, to) {
            self.slots.borrow_mut().insert(to.bare().to_jid(), Slot::Busy(VecDeque::new()));
            room.receive(world, packet, to);
            self.go_on(world, room);
        }
    }

    fn load(self: &Rc<Self>, world: &mut World, jid: Jid) {
        let removed = self.directory.removed_count();
        self.loading.borrow_mut().insert(jid.clone(), removed);
        let (state, loaded) = (self.clone(), world.stores.rooms.load(jid.as_ref()));
        world.wait(loaded, move |world, loaded| {
            state.arrived(world, &jid, loaded, removed);
            state.loading.borrow_mut().remove(&jid);
        });
    }

    fn arrived(
        self: &Rc<Self>,
        world: &mut World,
        jid: &Jid,
        loaded: Result<Option<StoredRoom>, StoreError>,
        removed: usize,
    ) {
        match loaded {
            Ok(Some(stored)) => self.loaded(world, jid, (&stored, removed)),
            Ok(None) => {
                self.directory.remove(jid.as_ref());
                for turn in self.take_queue(jid) {
                    match turn {
                        Turn::Stanza((packet, to, custody)) => {
                            world.in_custody(custody, |world| self.receive(world, &packet, to.as_ref()));
                        }
                        Turn::Work(work) => work.without_room(world, None),
                    }
                }
            }
            Err(error) => {
                world.store_failed("loading a room", jid, &error);
                let condition = condition(&error);
                for turn in self.take_queue(jid) {
                    match turn {
                        Turn::Stanza((packet, to, _)) => turn_away(world, &packet, to.as_ref(), condition.clone()),
                        Turn::Work(work) => work.without_room(world, Some(error.clone())),
                    }
                }
            }
        }
    }

    fn loaded(self: &Rc<Self>, world: &mut World, jid: &Jid, stored: (&StoredRoom, usize)) {
        match Room::stored(self, world, jid, stored) {
            Some(room) => self.go_on(world, Box::new(room)),
            None => {
                warn!(room = %jid, "the configuration in the store is damaged");
                for turn in self.take_queue(jid) {
                    match turn {
                        Turn::Stanza((packet, to, _)) => {
                            turn_away(world, &packet, to.as_ref(), Condition::InternalServerError);
                        }
                        Turn::Work(work) => work.without_room(world, None),
                    }
                }
            }
        }
    }

    /// Lets a room do what has come meanwhile, and puts it back.
    fn go_on(self: &Rc<Self>, world: &mut World, mut room: Box<Room>) {
        while let Some(turn) = self.next(&room.jid) {
            match turn {
                Turn::Stanza((packet, to, custody)) => {
                    world.in_custody(custody, |world| room.receive(world, &packet, to.as_ref()));
                }
                Turn::Work(work) => room.operated(world, work),
            }
        }
        room.keep_changes(world);
        if !room.is_idle() {
            self.slots.borrow_mut().insert(room.jid.clone(), Slot::Here(room));
            return;
        }
        self.slots.borrow_mut().remove(&room.jid);
        if !room.is_stored() && !room.is_over {
            room.forget_past(world);
            self.directory.remove(room.jid.as_ref());
        }
    }

    /// Writes again what the store did not take, and forgets rooms that were only here because it had not.
    pub(crate) fn save_again(self: &Rc<Self>, world: &mut World) {
        for (jid, lack) in self.unsaved.take() {
            let mut slots = self.slots.borrow_mut();
            match slots.remove(&jid) {
                Some(Slot::Here(mut room)) => {
                    slots.insert(jid, Slot::Busy(VecDeque::new()));
                    drop(slots);
                    room.save_again(world, lack);
                    self.go_on(world, room);
                }
                Some(busy) => {
                    slots.insert(jid.clone(), busy);
                    self.unsaved.put_back(jid, lack);
                }
                // What is to stay is here as long as the store lacks something of it.
                None => {
                    drop(slots);
                    if lack.is_destroyed() {
                        self.unsaved.remove(world, &jid, |_, _| {});
                    }
                }
            }
        }
    }

    /// Lets rooms that nobody speaks to forget accounts that were removed, so that these need not be remembered.
    pub(crate) fn heed_removals(self: &Rc<Self>, world: &mut World) {
        let count = self.directory.removed_count();
        if count == self.heeded.get() {
            return;
        }
        let behind = |(jid, slot): (&Jid, &Slot)| match slot {
            Slot::Here(room) if room.has_removed() => Some(jid.clone()),
            _ => None,
        };
        let behind: Vec<_> = self.slots.borrow().iter().filter_map(behind).collect();
        for jid in behind {
            self.with_room(&jid, |room| room.forget_removed(world))
                .into_iter()
                .for_each(|room| self.go_on(world, room));
        }
        let loading = self.loading.borrow().values().min().copied().unwrap_or(count);
        self.heeded.set(count.min(loading));
        self.directory.heed(world.shard(), world.shards(), self.heeded.get());
    }

    /// Takes a room that is here out of the table and works on it.
    fn with_room(&self, jid: &Jid, work: impl FnOnce(&mut Room)) -> Option<Box<Room>> {
        let taken = self.slots.borrow_mut().insert(jid.clone(), Slot::Busy(VecDeque::new()));
        match taken {
            Some(Slot::Here(mut room)) => {
                work(&mut room);
                Some(room)
            }
            Some(busy) => {
                self.slots.borrow_mut().insert(jid.clone(), busy);
                None
            }
            None => {
                self.slots.borrow_mut().remove(jid);
                None
            }
        }
    }

    /// The server stops: occupants are told so (§18.2), those of other servers above all.
    pub(crate) fn shut_down(&self, world: &mut World) {
        let slots = std::mem::take(&mut *self.slots.borrow_mut());
        for slot in slots.into_values() {
            if let Slot::Here(mut room) = slot {
                room.remove_all(world, vec![332], None);
            }
        }
    }

    fn next(&self, jid: &Jid) -> Option<Turn> {
        let next = match self.slots.borrow_mut().get_mut(jid) {
            Some(Slot::Busy(queue)) => queue.pop_front(),
            _ => None,
        };
        next.iter().for_each(|turn| self.waited(turn));
        next
    }

    fn take_queue(&self, jid: &Jid) -> VecDeque<Turn> {
        let queue = match self.slots.borrow_mut().remove(jid) {
            Some(Slot::Busy(queue)) => queue,
            _ => VecDeque::new(),
        };
        queue.iter().for_each(|turn| self.waited(turn));
        queue
    }

    /// Returns a stanza as it waits. `None` if there is no place for it: its sender has been told then.
    fn waits(&self, world: &mut World, packet: &Packet, to: JidRef<'_>) -> Option<Waiting> {
        if !self.waiting.borrow_mut().take(packet) {
            turn_away(world, packet, to, Condition::ResourceConstraint);
            return None;
        }
        Some((packet.clone(), to.to_jid(), world.custody()))
    }

    /// Counts a turn no more that has waited.
    fn waited(&self, turn: &Turn) {
        if let Turn::Stanza((packet, ..)) = turn {
            self.waiting.borrow_mut().give_back(packet);
        }
    }
}

/// The stanzas that may wait for the rooms of a shard while the store is asked.
const WAITING: Bounds = Bounds { number: 65_536, bytes: 64 << 20 };

/// The same for the page of limits.
pub(super) const BOUNDS: [Bound; 2] = [
    Bound::on("stanzas that wait while a room is loaded", Per::Shard, Most::Fixed(WAITING.number as u64), Unit::Number)
        .or("the sender gets <resource-constraint/>; one sender has a quarter at most"),
    Bound::on("stanzas that wait while a room is loaded", Per::Shard, Most::Fixed(WAITING.bytes as u64), Unit::Bytes)
        .or("the sender gets <resource-constraint/>; one sender has a quarter at most"),
];
