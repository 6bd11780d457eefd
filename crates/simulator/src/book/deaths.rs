//! Deaths of nodes in the book, with what they may lose or repeat.
//!
//! The rules are those of the operators' page about nodes, which says exactly what a death may
//! lose.

use super::{Book, BookMessage, BookedRecipient, BookedSession};

/// An occupant that a room may still have, although its session ended with a node.
#[derive(Debug)]
pub(super) struct Ghost {
    device: usize,
    /// The time at which its session ended, in milliseconds.
    ended_ms: u64,
    /// True once another session has its address, if the room hadn't noticed its absence by then.
    is_raised: bool,
}

impl Book {
    /// Returns whether a message may arrive once more with another id, because the successor of a
    /// dead node repeats the node's unfinished work. An archive looks for the earlier copy only
    /// among the messages of the last minutes, by the time of day.
    pub fn may_have_other_ids(&self, number: usize) -> bool {
        let is_missed = number < self.jumped_at && self.doubtful.contains(&number);
        self.lossy_node_deaths > 0 || self.loose.contains(&number) || is_missed
    }

    /// Returns how often unfinished work may have been lost: the number of deaths of processes,
    /// without those of nodes whose journal others continue from.
    pub fn losses(&self) -> usize {
        self.deaths - self.node_deaths + self.lossy_node_deaths
    }

    /// Returns the number of deaths after which a stanza that is sent now is in safe hands: nodes
    /// that are late count as dead already, and lose or repeat what is sent meanwhile.
    pub fn deaths_before(&self) -> usize {
        self.deaths - usize::from(self.is_late)
    }

    /// Records that a node has died. A lossy death may have lost everything on the node, any other
    /// only the data that its journal lacks.
    pub fn node_dies(&mut self, is_lossy: bool) {
        (self.deaths, self.node_deaths) = (self.deaths + 1, self.node_deaths + 1);
        self.lossy_node_deaths += usize::from(is_lossy);
        self.last_death_ms = Some(self.now_ms);
        self.unsettled.extend(self.stirred.keys());
        let messages = self.messages.iter().enumerate();
        self.doubtful.extend(messages.filter(|(_, message)| !message.is_handled).map(|(number, _)| number));
        self.end_sessions(|_| true);
    }

    /// Records that Redis forgets everything while homes move, as they do since `moved_ms` at the
    /// latest. The journal of a node that has died since then goes with it, if the new homes have
    /// not read it: "unless a node dies in the same seconds".
    pub fn forget_journals(&mut self, moved_ms: u64) {
        let is_unread = self.last_death_ms.is_some_and(|died_ms| died_ms >= moved_ms);
        self.lossy_node_deaths += usize::from(is_unread && self.lossy_node_deaths < self.node_deaths);
    }

    /// Records that the occupants of a room change.
    pub fn stir(&mut self, room: usize) {
        self.stirred.insert(room, None);
    }

    /// Records that the server has nothing left to do at this moment. The occupants of a room are
    /// stored a little later.
    pub fn come_to_rest(&mut self) {
        let now_ms = self.now_ms;
        self.forget_upload_limits();
        self.stirred.retain(|_, since| now_ms < *since.get_or_insert(now_ms) + ROOM_WRITES_MS);
    }

    /// Records that a session in a room has ended. If it ended with a node and another session gets
    /// its address before the room notices, nobody announces that the occupant is gone.
    pub fn leave_ghost(&mut self, device: usize, room: usize, nick: &str) {
        let ended_ms = self.now_ms;
        if self.last_death_ms.is_some_and(|died| ended_ms < died + MISSED_MS) {
            self.ghosts.insert((room, nick.to_owned()), Ghost { device, ended_ms, is_raised: false });
        }
    }

    /// Records that a device has another session: the occupants of its recent sessions may remain
    /// in rooms.
    pub(super) fn raise_ghosts(&mut self, device: usize) {
        let now_ms = self.now_ms;
        self.ghosts.retain(|_, ghost| {
            let is_back = ghost.device == device && !ghost.is_raised;
            ghost.is_raised |= is_back;
            !is_back || now_ms < ghost.ended_ms + MISSED_MS
        });
    }

    /// Returns whether an occupant of a room may belong to a session that is gone.
    pub fn is_ghost(&self, room: usize, nick: &str) -> bool {
        self.ghosts.get(&(room, nick.to_owned())).is_some_and(|ghost| ghost.is_raised)
    }

    /// Records that a session lost its node: the messages that it got and whose senders have no
    /// acknowledgement may come again with other ids.
    pub fn loosen(&mut self, session: usize) {
        let heard = self.sessions[session].heard.keys().map(|(number, _)| *number);
        let in_rooms = self.stays.iter().filter(|stay| stay.session == session).flat_map(|stay| stay.heard.clone());
        let open = heard.chain(in_rooms).filter(|number| !self.messages[*number].is_handled);
        let open: Vec<usize> = open.collect();
        self.loose.extend(open);
    }

    /// Records that the last session of a device ends with its node, whose journal lacks it, as it
    /// lacks sessions that have offline messages to read. The messages that it had, but its client
    /// did not get, are in the archive.
    pub fn lose_session_of(&mut self, device: usize) {
        let last = self.sessions.iter_mut().rev().find(|session| session.device == device);
        last.into_iter().for_each(|session| session.is_leaky = true);
    }

    /// Records that a node with an incomplete journal dies: messages that it has just stored for
    /// users without a session, with ids that no client knows, come once more. Sessions may have
    /// ended before their clients know that.
    pub fn loosen_kept(&mut self) {
        let is_available =
            |session: &BookedSession| session.takes && !session.is_over && !session.was_unavailable && !session.was_cut;
        let is_there =
            |account: usize| self.sessions.iter().any(|session| session.account == account && is_available(session));
        let is_kept = |message: &BookMessage| match message.to {
            BookedRecipient::Account(to) | BookedRecipient::Device(to, _) => !message.is_handled && !is_there(to),
            BookedRecipient::Room(_) => false,
        };
        let messages = self.messages.iter().enumerate();
        let kept: Vec<usize> = messages.filter(|(_, message)| is_kept(message)).map(|(number, _)| number).collect();
        self.loose.extend(kept);
    }

    /// Records that the event in progress may end sessions that continue from a journal.
    pub fn forget_going_on(&mut self) {
        self.sessions.iter_mut().for_each(|session| session.goes_on_ms = 0);
    }

    /// Records that a client repeats a message. A room recognises repetitions for a minute, and the
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

    /// Records that nodes are late while homes move: they continue without the work that isn't done
    /// in time, which counts once for all homes that move together.
    pub fn moves_late(&mut self) {
        if !std::mem::replace(&mut self.is_late, true) {
            self.node_dies(true);
        }
    }

    /// Records that all moves are complete.
    pub fn moves_end(&mut self) {
        self.do_homes_move = false;
        if std::mem::take(&mut self.is_late) {
            self.node_dies(true);
        }
    }
}

/// The time within which a room has its occupants stored, in milliseconds.
const ROOM_WRITES_MS: u64 = 60;
/// The time within which a room notices the absence of occupants whose sessions ended with a node,
/// in milliseconds: the sum of a lease, the patience of the other nodes, a move of homes, and 15
/// seconds.
const MISSED_MS: u64 = 60_000;
/// The time for which a room is sure to recognise a repetition, in milliseconds: a little less than
/// the minute that it promises.
const ROOM_KNOWS_MS: u64 = 50_000;
/// The time for which the archive of an account is sure to recognise a repetition, in milliseconds:
/// a little less than the ten minutes that it promises.
const ARCHIVE_KNOWS_MS: u64 = 590_000;
