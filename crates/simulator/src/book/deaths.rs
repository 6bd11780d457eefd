//! Deaths of nodes as the book has them, and what may be lost or come again by them.
//!
//! The rules are those of the operators' page about nodes, which says word for word what a death
//! takes along.

use super::{Book, BookMessage, BookedRecipient};

/// Somebody whom a room may take for an occupant, though its session ended with a node.
#[derive(Debug)]
pub(super) struct Ghost {
    device: usize,
    /// The time at which its session ended, in milliseconds.
    ended_ms: u64,
    /// True once another session has its address, before the room could miss it.
    is_raised: bool,
}

impl Book {
    /// Returns whether a message may come once more under another id: what was under way when a
    /// node died comes from its successor, too. An archive looks for it among those of the last
    /// minutes, by the time of day.
    pub fn may_have_other_ids(&self, number: usize) -> bool {
        let is_missed = number < self.jumped_at && self.doubtful.contains(&number);
        self.lossy_node_deaths > 0 || self.loose.contains(&number) || is_missed
    }

    /// Returns the number of times that something under way may have been lost: deaths of
    /// processes, but for those of nodes with whose journal others go on.
    pub fn losses(&self) -> usize {
        self.deaths - self.node_deaths + self.lossy_node_deaths
    }

    /// Takes down that a node has died, with what lived there: all of it, or what its journal
    /// lacks.
    pub fn node_dies(&mut self, is_lossy: bool) {
        (self.deaths, self.node_deaths) = (self.deaths + 1, self.node_deaths + 1);
        self.lossy_node_deaths += usize::from(is_lossy);
        self.last_death_ms = Some(self.now_ms);
        self.unsettled.extend(self.stirred.keys());
        let messages = self.messages.iter().enumerate();
        self.doubtful.extend(messages.filter(|(_, message)| !message.is_handled).map(|(number, _)| number));
        self.end_sessions(|_| true);
    }

    /// Takes down that somebody changes who is in a room.
    pub fn stir(&mut self, room: usize) {
        self.stirred.insert(room, None);
    }

    /// Takes down that the server has nothing left to do at this moment. A room has written down
    /// who is there a little later.
    pub fn come_to_rest(&mut self) {
        let now_ms = self.now_ms;
        self.stirred.retain(|_, since| now_ms < *since.get_or_insert(now_ms) + ROOM_WRITES_MS);
    }

    /// Takes down that a session ended that was in a room. If that may have been with a node,
    /// nobody else says that it is gone, should another session have its address before a room
    /// misses it.
    pub fn leave_ghost(&mut self, device: usize, room: usize, nick: &str) {
        let ended_ms = self.now_ms;
        if self.last_death_ms.is_some_and(|died| ended_ms < died + MISSED_MS) {
            self.ghosts.insert((room, nick.to_owned()), Ghost { device, ended_ms, is_raised: false });
        }
    }

    /// Takes down that a device has another session: what it left in rooms just now may stay there.
    pub(super) fn raise_ghosts(&mut self, device: usize) {
        let now_ms = self.now_ms;
        self.ghosts.retain(|_, ghost| {
            let is_back = ghost.device == device && !ghost.is_raised;
            ghost.is_raised |= is_back;
            !is_back || now_ms < ghost.ended_ms + MISSED_MS
        });
    }

    /// Returns whether an occupant of a room may be somebody whose session is gone.
    pub fn is_ghost(&self, room: usize, nick: &str) -> bool {
        self.ghosts.get(&(room, nick.to_owned())).is_some_and(|ghost| ghost.is_raised)
    }

    /// Takes down that those who had got a message of which its sender knows nothing lost their
    /// node.
    pub fn loosen(&mut self, session: usize) {
        let heard = self.sessions[session].heard.keys().map(|(number, _)| *number);
        let in_rooms = self.stays.iter().filter(|stay| stay.session == session).flat_map(|stay| stay.heard.clone());
        let open = heard.chain(in_rooms).filter(|number| !self.messages[*number].is_handled);
        let open: Vec<usize> = open.collect();
        self.loose.extend(open);
    }

    /// Takes down that a node died whose journal lacked something: what it had just kept for those
    /// who weren't there, with an id that nobody else knows, comes once more.
    pub fn loosen_kept(&mut self) {
        let is_there = |account: usize| {
            self.sessions.iter().any(|session| session.account == account && session.takes && !session.is_over)
        };
        let is_kept = |message: &BookMessage| match message.to {
            BookedRecipient::Account(to) | BookedRecipient::Device(to, _) => !message.is_handled && !is_there(to),
            BookedRecipient::Room(_) => false,
        };
        let messages = self.messages.iter().enumerate();
        let kept: Vec<usize> = messages.filter(|(_, message)| is_kept(message)).map(|(number, _)| number).collect();
        self.loose.extend(kept);
    }

    /// Takes down that what happens now may end sessions that go on from a journal.
    pub fn forget_going_on(&mut self) {
        self.sessions.iter_mut().for_each(|session| session.goes_on_ms = 0);
    }

    /// Takes down that a client says a message again. A room knows it again for a minute, and the
    /// archive of an account for ten.
    pub fn say_again(&mut self, number: usize) {
        let message = &self.messages[number];
        let known_ms = match message.to {
            BookedRecipient::Room(_) => ROOM_KNOWS_MS,
            BookedRecipient::Account(_) | BookedRecipient::Device(..) => ARCHIVE_KNOWS_MS,
        };
        if self.now_ms > message.sent_ms + known_ms {
            self.loose.insert(number);
        }
    }

    /// Takes down that nodes are late while homes move: they go on without what isn't done in time,
    /// once for all that moves together.
    pub fn moves_late(&mut self) {
        if !std::mem::replace(&mut self.is_late, true) {
            self.node_dies(true);
        }
    }

    /// Takes down that all has moved.
    pub fn moves_end(&mut self) {
        if std::mem::take(&mut self.is_late) {
            self.node_dies(true);
        }
    }
}

/// The time within which a room has written down who is there, in milliseconds.
const ROOM_WRITES_MS: u64 = 60;
/// The time within which a room misses those whose sessions ended with a node, in milliseconds:
/// that of a lease, of the others' patience, of homes that move, and 15 seconds.
const MISSED_MS: u64 = 60_000;
/// The time for which a room knows a message again, less than it says, in milliseconds.
const ROOM_KNOWS_MS: u64 = 50_000;
/// The time for which the archive of an account knows a message again, less than it says, in
/// milliseconds.
const ARCHIVE_KNOWS_MS: u64 = 590_000;
