//! Takes nodes out of a run: they die, or stand still, and clients lose their connections.
//!
//! A node dies between any two ticks, or in a moment that its journal is for: clients have just
//! heard how much of theirs is handled, while nothing reaches Redis; or others have just written to
//! clients of its homes, and neither archives nor the clients themselves have all of that.

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
            SimulatedEventKind::NodeDrain => {
                if event.b.is_multiple_of(2) && self.is_calm() {
                    self.speak(event.b / 2);
                }
                self.nodes.drain(node)
            }
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
                true
            }
            _ => {
                self.nodes.lose_answer(node);
                true
            }
        };
        let how = self.nodes.describe();
        self.book.note(format_args!("nodes: {how}"));
        self.does_overlap |= is_changed && was_moving;
        self.is_moving |= is_changed;
        if is_changed && event.what != SimulatedEventKind::NodeKill {
            self.book.forget_going_on();
        }
        is_changed
    }

    /// Kills a node, in the middle of something that the choice says. Returns whether there was a
    /// process.
    fn kill_node(&mut self, node: usize, choice: usize) -> bool {
        if self.is_firm {
            self.prepare(choice);
        }
        if self.is_calm() {
            self.say_last(node, choice);
        }
        let journaled = if self.is_calm() { self.nodes.journaled(node) } else { None };
        let owes = self.nodes.owes_journal(node);
        if !self.nodes.kill(node) {
            return false;
        }
        self.book.node_dies(journaled.is_none());
        self.book.forget_going_on();
        if owes {
            self.book.loosen_kept();
        }
        for device in &self.devices {
            let Some(session) = device.session else { continue };
            // What its shards had for its own clients leaves a moment before the journal has it.
            if device.node == node && owes {
                self.book.loosen(session);
            }
            let goes_on = journaled.as_ref().is_some_and(|journaled| journaled.contains(&device.full()));
            if goes_on && device.can_resume() && device.is_connected() {
                self.book.sessions[session].goes_on_ms = self.book.now_ms + COMES_BACK_MS;
            }
        }
        self.statistics.count_death(journaled.is_some());
        self.bereave_of(node);
        true
    }

    /// Has all nodes be there and come to rest, and some people meet in a room.
    fn prepare(&mut self, choice: usize) {
        for (at, device) in self.devices.iter_mut().enumerate().filter(|(at, _)| (at + choice).is_multiple_of(2)) {
            let join = SimulatedEvent { what: SimulatedEventKind::Join, who: at, a: 0, b: at };
            device.act(&join, &self.people, &mut self.book);
        }
        self.unstall();
        for _ in 0..MOST_PAUSES {
            if self.nodes.mend() && self.is_calm() {
                break;
            }
            self.pass(PAUSE_MS);
        }
    }

    /// Returns whether nothing is under way among nodes, and nobody is late. A node still takes
    /// over what its journal doesn't have yet, and loses that when it dies.
    fn is_calm(&mut self) -> bool {
        let is_taken = self.moved_ms == 0 || self.rested_ms >= self.moved_ms + TAKEN_MS;
        is_taken && !self.is_moving && !self.is_stalled && !self.nodes.is_hindered() && !self.nodes.is_moving()
    }

    /// Lets people say something right before a node dies, and the server work on that.
    fn say_last(&mut self, node: usize, choice: usize) {
        match choice % 4 {
            0 => {}
            1 => self.count_last(node),
            kind => self.speak_last(node, choice / 4, kind == 3),
        }
    }

    /// Has the clients of a node ask how much of theirs is handled, and hear of it, while nothing
    /// that the node says reaches Redis.
    fn count_last(&mut self, node: usize) {
        // What they have said so far is stored, and counts.
        self.pass(PAUSE_MS);
        for device in self.devices.iter_mut().filter(|device| device.node == node) {
            for what in [SimulatedEventKind::Ping, SimulatedEventKind::Acknowledge] {
                device.act(&SimulatedEvent { what, who: 0, a: 0, b: 0 }, &self.people, &mut self.book);
            }
        }
        for _ in 0..LAST_ROUNDS {
            self.nodes.step_node(node);
            while self.nodes.run_store(0) {}
            for device in self.devices.iter_mut().filter(|device| device.node == node) {
                device.read(usize::MAX, &mut self.book);
            }
        }
    }

    /// Has everybody write to somebody and in a room.
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

    /// Has everybody write to somebody and in a room, and lets the server work as long as it takes
    /// no time. Some clients of the node may read nothing meanwhile.
    fn speak_last(&mut self, node: usize, choice: usize, some_are_slow: bool) {
        let slow: Vec<usize> = (0..self.devices.len())
            .filter(|at| some_are_slow && self.devices[*at].node == node && (at + choice).is_multiple_of(2))
            .collect();
        slow.iter().for_each(|at| self.devices[*at].reads = false);
        self.speak(choice);
        self.settle();
    }

    pub(crate) fn node_died(&mut self, node: usize) {
        self.does_overlap |= self.is_moving;
        self.book.node_dies(true);
        self.statistics.count_death(false);
        self.bereave_of(node);
    }

    pub(crate) fn bereave_of(&mut self, node: usize) {
        self.is_moving = true;
        let book = &mut self.book;
        self.devices.iter_mut().filter(|device| device.node == node).for_each(|device| device.bereave(book));
    }
}

/// Pauses until nodes have come to rest, at most, and their length in milliseconds.
const MOST_PAUSES: usize = 30;
const PAUSE_MS: u64 = 2_000;
/// The time within which a journal has what its node has taken over, in milliseconds.
const TAKEN_MS: u64 = 60;
/// Rounds in which a node works that reaches nobody.
const LAST_ROUNDS: usize = 4;
/// The time in which clients may come back to their sessions, at least.
const COMES_BACK_MS: u64 = 300_000;
