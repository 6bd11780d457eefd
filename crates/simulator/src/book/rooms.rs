//! Rooms in the book: those for members only, and the messages that their archives must have.

use std::collections::{BTreeMap, BTreeSet};

use super::{Book, BookMessage, BookedRecipient};

/// Rooms as their owners want them.
#[derive(Debug, Default)]
pub struct RoomRules {
    /// The rooms whose owners want members only.
    pub for_members: BTreeSet<usize>,
    /// Those of these rooms whose owner knows that the configuration was accepted.
    pub closed: BTreeSet<usize>,
    /// The pairs of a room and an account that was ever its owner or member, or was about to become
    /// that.
    admitted: BTreeSet<(usize, usize)>,
    /// The number of the first message after a room was created last, as far as its creator knows.
    from: BTreeMap<usize, usize>,
}

impl Book {
    /// Records that an account knows that it has created a room.
    pub fn create_room(&mut self, room: usize, account: usize) {
        self.rooms.closed.remove(&room);
        self.rooms.from.insert(room, self.messages.len());
        self.admit(room, account);
    }

    /// Records that an account may become a member of a room.
    pub fn admit(&mut self, room: usize, account: usize) {
        self.rooms.admitted.insert((room, account));
    }

    /// Returns whether an account has no right to be in a room that is for members only (XEP-0045
    /// §7.2.7). The administrator of the server may be in all rooms.
    pub fn is_shut_out(&self, room: usize, account: usize) -> bool {
        account != ADMINISTRATOR && self.rooms.closed.contains(&room) && !self.rooms.admitted.contains(&(room, account))
    }

    /// Returns the number of the first message that belongs to the archive of the room's present
    /// incarnation.
    pub fn first_in_room(&self, room: usize) -> usize {
        self.rooms.from.get(&room).copied().unwrap_or_default()
    }

    /// Returns whether the archive of a room may lack a message that occupants got, because a
    /// process died before it was stored: it wasn't acknowledged, or it came again and was refused,
    /// since its sender was no occupant any more (XEP-0045 §7.4).
    pub fn may_lack_in_room(&self, number: usize) -> bool {
        let message = &self.messages[number];
        (!message.is_handled || message.is_refused) && message.deaths < self.deaths
    }

    /// Returns whether the archive of a room must have a message, even if nobody got it: its sender
    /// got an acknowledgement, and no error.
    pub fn is_owed_in_room(&self, room: usize, message: &BookMessage) -> bool {
        let is_for = matches!(message.to, BookedRecipient::Room(to) if to == room);
        let is_answered = !self.sessions[message.session].is_over && message.losses == self.losses();
        is_for && is_answered && message.is_handled && !message.is_refused
    }
}

/// The account of the server's administrator.
const ADMINISTRATOR: usize = 0;
