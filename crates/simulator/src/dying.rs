//! Removes nodes from a run: they die or pause, and clients lose their connections.
//!
//! A node dies between any two ticks, or at one of the moments for which there is a journal: its
//! clients have just got acknowledgements while nothing from it reaches Redis, or others have just
//! written to its clients, and neither the archives nor the clients have all of these messages. A
//! node that is to leave may be the last to learn that.

use crate::device::UserDevice;
use crate::event::{SimulatedEvent, SimulatedEventKind};
use crate::run::SimulatedRun;

impl SimulatedRun {
    pub(crate) fn change_nodes(&mut self, event: &SimulatedEvent) -> bool {
        let (count, was_moving) = (self.nodes.count(), self.is_moving);
        let node = event.a % count;
        let is_changed = match event.what {
            _ if count == 1 => false,
            SimulatedEventKind::Carry => return self.nodes.carry(node),
            SimulatedEventKind::NodeKill => self.kill_node(node, event.b),
            SimulatedEventKind::NodeJoin => self.nodes.join(node),
            SimulatedEventKind::NodeDrain => self.drain_node(node, event.b),
            SimulatedEventKind::NodePause => {
                self.nodes.pause(node);
                true
            }
            SimulatedEventKind::NodeCut => {
                self.nodes.cut_off(node);
                true
            }
            SimulatedEventKind::RedisAway => {
                self.nodes.let_redis_go();
                true
            }
            SimulatedEventKind::RedisForget => {
                self.nodes.forget_redis();
                if was_moving {
                    self.book.forget_journals(self.moved_ms);
                }
                true
            }
            _ => {
                self.nodes.lose_answer(node);
                true
            }
        };
        let how = self.nodes.describe();
        self.book.note(format_args!("nodes: {how}"));
        let kills = event.what == SimulatedEventKind::NodeKill;
        self.does_overlap |= is_changed && was_moving && !kills;
        if is_changed {
            self.begin_moves();
        }
        if is_changed && !kills {
            self.book.forget_going_on();
        }
        is_changed
    }

    /// Kills a node, at a moment that `choice` selects. Returns whether it had a process.
    fn kill_node(&mut self, node: usize, choice: usize) -> bool {
        if self.is_firm {
            self.prepare(choice);
        }
        if self.is_calm() {
            self.say_last(node, choice);
        }
        let journaled = if self.is_calm() { self.nodes.journaled_sessions(node) } else { None };
        let owes = self.nodes.owes_journal(node);
        let (here, waiting) = (self.nodes.sessions(node), self.nodes.waiting_sessions());
        self.nodes.let_sleep(None);
        if !self.nodes.kill(node) {
            return false;
        }
        self.does_overlap |= self.is_moving;
        if owes {
            self.book.loosen_kept();
        }
        self.book.node_dies(journaled.is_none());
        self.book.forget_going_on();
        for device in &self.devices {
            let Some(session) = device.session else { continue };
            // The output of its shards for its own clients leaves a moment before the journal has
            // it.
            if device.node == node && owes {
                self.book.loosen(session);
            }
            let goes_on = journaled.as_ref().is_some_and(|journaled| journaled.contains(&device.full()));
            if goes_on && device.can_resume() && device.is_connected() {
                // The server may have given up the connection of a silent client a while ago.
                let left_ms = waiting.get(&device.full()).map_or(COMES_BACK_MS, |left_ms| COMES_BACK_MS.min(*left_ms));
                self.book.sessions[session].goes_on_ms = self.book.now_ms + left_ms;
            }
        }
        // Some of their clients may have given them up.
        for (at, device) in self.devices.iter().enumerate() {
            let full = device.full();
            if here.contains(&full) && journaled.as_ref().is_some_and(|journaled| !journaled.contains(&full)) {
                self.book.lose_session_of(at);
            }
        }
        self.statistics.count_death(journaled.is_some());
        self.bereave_of(node);
        true
    }

    /// Makes a node leave in good order, at a moment that `choice` selects. Returns whether it
    /// does.
    fn drain_node(&mut self, node: usize, choice: usize) -> bool {
        let learns_last = choice % 4 == 1;
        if learns_last && self.is_firm {
            self.prepare(choice);
        }
        let is_calm = self.is_calm();
        if is_calm && choice.is_multiple_of(2) {
            self.speak(choice / 2);
        }
        let leaves = self.nodes.drain(node);
        if leaves && is_calm && learns_last {
            self.begin_moves();
            self.learn_last(node, choice / 4);
        }
        leaves
    }

    /// Lets all nodes except `node` look at the database, and users write while `node` doesn't know
    /// yet that it is to leave.
    fn learn_last(&mut self, node: usize, choice: usize) {
        self.nodes.move_clock(self.nodes.now() + LOOK_MS);
        self.book.now_ms = self.nodes.now();
        for _ in 0..LAST_ROUNDS {
            for other in (0..self.nodes.count()).filter(|other| *other != node) {
                self.nodes.carry(other);
                self.nodes.step_node(other);
            }
            while self.nodes.run_store(0) {}
        }
        self.speak(choice);
        // Others answer these by the homes that they know.
        self.devices.iter_mut().for_each(|device| device.ask_about_rooms(&mut self.book));
        self.settle();
    }

    /// Makes all nodes present and at rest, with some users in a room.
    fn prepare(&mut self, choice: usize) {
        for (at, device) in self.devices.iter_mut().enumerate().filter(|(at, _)| (at + choice).is_multiple_of(2)) {
            let join = SimulatedEvent { what: SimulatedEventKind::Join, who: at, a: 0, b: at };
            device.act(&join, &self.people, &mut self.book);
        }
        self.unstall();
        // By then the room and its journal have the new occupants.
        self.pass(PAUSE_MS);
        for _ in 0..MOST_PAUSES {
            let are_all_there = self.nodes.mend();
            if are_all_there && self.is_calm() {
                break;
            }
            if !are_all_there {
                // Those that were missing return at once, and take homes.
                self.overlap_moves();
            }
            self.pass(PAUSE_MS);
        }
    }

    /// Returns whether nothing is in progress between nodes, and no node is late. While a node
    /// takes over, its journal doesn't have everything yet: if it died then, the rest would be
    /// lost.
    fn is_calm(&mut self) -> bool {
        let is_taken = self.moved_ms == 0 || self.rested_ms >= self.moved_ms + TAKEN_MS;
        is_taken && !self.is_moving && !self.is_stalled && !self.nodes.is_hindered() && !self.nodes.is_moving()
    }

    /// Makes users write messages right before a node dies, and the server work on these messages.
    fn say_last(&mut self, node: usize, choice: usize) {
        match choice % 4 {
            0 => {}
            1 => self.count_last(node, (choice / 4).is_multiple_of(2)),
            kind => self.speak_last(node, choice / 4, kind == 3),
        }
    }

    /// Makes the clients of a node request acknowledgements and get them, while nothing from the
    /// node reaches Redis. With `of_nothing`, their last stanzas do nothing except that they are
    /// counted.
    fn count_last(&mut self, node: usize, of_nothing: bool) {
        // Messages from before are stored by then, and must not be lost.
        self.pass(PAUSE_MS);
        for device in self.devices.iter_mut().filter(|device| device.node == node) {
            if of_nothing {
                device.say_nothing(&mut self.book);
            }
            let last = [SimulatedEventKind::Ping, SimulatedEventKind::Acknowledge];
            for what in last.into_iter().skip(usize::from(of_nothing)) {
                device.act(&SimulatedEvent { what, who: 0, a: 0, b: 0 }, &self.people, &mut self.book);
            }
        }
        self.write_unread(node, usize::from(of_nothing));
        for round in 0..LAST_ROUNDS {
            if round == COMES_BACK_ROUND {
                self.come_back(node);
            }
            self.nodes.step_node(node);
            while self.nodes.run_store(0) {}
            for device in self.devices.iter_mut().filter(|device| device.node == node) {
                device.read(usize::MAX, &mut self.book);
            }
        }
    }

    /// Makes clients of a node whose sessions can't be resumed write to some whose sessions can,
    /// and which read nothing for now. The writers are told at once what is handled, since no
    /// journal has their sessions: but not before the journal has what they have written.
    fn write_unread(&mut self, node: usize, choice: usize) {
        let here = |device: &UserDevice| device.node == node && device.is_ready();
        let readers = (0..self.devices.len()).filter(|at| here(&self.devices[*at]) && self.devices[*at].can_resume());
        let readers: Vec<usize> = readers.collect();
        let mut next = readers.iter().copied().cycle().skip(choice);
        for writer in 0..self.devices.len() {
            let device = &self.devices[writer];
            let Some(reader) = next.next().filter(|_| here(device) && device.is_managed() && !device.can_resume())
            else {
                continue;
            };
            self.devices[reader].reads = false;
            for (what, b) in [(SimulatedEventKind::ChatFull, 5 * (writer % 2)), (SimulatedEventKind::Acknowledge, 0)] {
                let event = SimulatedEvent { what, who: writer, a: reader, b };
                self.devices[writer].act(&event, &self.people, &mut self.book);
            }
        }
    }

    /// Makes every second client of a node that may resume its session lose its connection and
    /// return to the same node.
    fn come_back(&mut self, node: usize) {
        let Some((at, server)) = self.nodes.open(node).filter(|(at, _)| *at == node) else { return };
        let devices = self.devices.iter_mut().filter(|device| device.node == node);
        for device in devices.filter(|device| device.is_ready() && device.can_resume()).step_by(2) {
            device.cut(true, &mut self.book);
            device.connect(at, &server, &mut self.book);
        }
    }

    /// Makes every user write to another user and in a room.
    fn speak(&mut self, choice: usize) {
        for (at, device) in self.devices.iter_mut().enumerate() {
            let event = |what| SimulatedEvent { what, who: at, a: choice + at, b: choice / 3 + at };
            let unkept = SimulatedEvent { b: 5 + at % 3, ..event(SimulatedEventKind::ChatFull) };
            device.act(&unkept, &self.people, &mut self.book);
            device.act(&event(SimulatedEventKind::Chat), &self.people, &mut self.book);
            if device.is_in_room((choice + at) % self.people.rooms) {
                device.act(&event(SimulatedEventKind::Groupchat), &self.people, &mut self.book);
            }
            device.act(&event(SimulatedEventKind::Acknowledge), &self.people, &mut self.book);
        }
    }

    /// Makes every user write to another user and in a room, and the server work for as long as no
    /// time has to pass. If `some_are_slow`, some clients of the node don't read in the meantime.
    fn speak_last(&mut self, node: usize, choice: usize, some_are_slow: bool) {
        let slow: Vec<usize> = (0..self.devices.len())
            .filter(|at| some_are_slow && self.devices[*at].node == node && (at + choice).is_multiple_of(2))
            .collect();
        slow.iter().for_each(|at| self.devices[*at].reads = false);
        self.speak(choice);
        self.settle();
        // Output that waits for more to go with it is lost when the shards stop, while the part
        // beside them continues.
        self.nodes.let_sleep(Some(node));
        for _ in 0..LINGER_ROUNDS {
            self.nodes.move_clock(self.nodes.now() + LINGERS_MS + choice as u64 % 3);
            self.book.now_ms = self.nodes.now();
            self.settle();
        }
    }

    /// Records that homes move for several reasons at a time, from now on until all have moved.
    pub(crate) fn overlap_moves(&mut self) {
        if self.nodes.count() > 1 {
            self.does_overlap = true;
            self.begin_moves();
        }
    }

    /// Records that homes move from now on, and that sessions may end.
    pub(crate) fn begin_moves(&mut self) {
        (self.is_moving, self.book.do_homes_move) = (true, true);
        self.book.end_sessions(|_| true);
    }

    /// Records that the clients of a node may be believed lost while one of its shards does
    /// nothing: their homes on other nodes wait for replies that the shard doesn't pass on.
    pub(crate) fn neglect_clients(&mut self, shard: Option<usize>) {
        let (count, shards) = (self.nodes.count(), self.nodes.shards());
        let Some(node) = shard.filter(|_| count > 1).map(|shard| shard * count / shards) else { return };
        let devices = &self.devices;
        self.book.end_sessions(|session| devices[session.device].node == node);
    }

    pub(crate) fn node_died(&mut self, node: usize) {
        self.does_overlap |= self.is_moving;
        self.book.node_dies(true);
        self.statistics.count_death(false);
        self.bereave_of(node);
    }

    pub(crate) fn bereave_of(&mut self, node: usize) {
        self.begin_moves();
        let book = &mut self.book;
        self.devices.iter_mut().filter(|device| device.node == node).for_each(|device| device.bereave(book));
    }
}

/// The most pauses until nodes are at rest, and the length of a pause in milliseconds.
const MOST_PAUSES: usize = 30;
const PAUSE_MS: u64 = 2_000;
/// The time within which a journal has everything that its node has taken over, in milliseconds.
const TAKEN_MS: u64 = 60;
/// The rounds in which a node that can't reach Redis works, and the round in which clients come
/// back to it.
const LAST_ROUNDS: usize = 12;
const COMES_BACK_ROUND: usize = 4;
/// The milliseconds between two looks of a node at the database.
const LOOK_MS: u64 = 1_000;
/// The milliseconds for which letters and writes of a node linger, and the number of such waits in
/// a row until a sender knows that another node has handled a stanza.
const LINGERS_MS: u64 = 3;
const LINGER_ROUNDS: usize = 4;
/// The time for which clients may at least resume their sessions, in milliseconds.
const COMES_BACK_MS: u64 = 300_000;
