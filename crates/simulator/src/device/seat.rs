//! A device's views of rooms, and what it has asked of them.
//!
//! A room replies to an address. So a session also gets the replies for earlier sessions at the
//! same address, in order and before its own, if the room's node was away for a while.

use std::collections::BTreeMap;

/// A device's view of a room.
#[derive(Debug, Clone, Default)]
pub struct RoomSeat {
    /// Its own nick, once it is in the room.
    pub nick: Option<String>,
    /// The nicks with which it has tried to enter, while it has seen no presence of its own.
    pub(super) entering: Vec<String>,
    /// The nicks with which earlier sessions at the same address have tried to enter, while they
    /// saw no presence of their own. A room that is reached late answers these first.
    entering_before: Vec<String>,
    /// True if it has tried to leave, or the other occupants see it as gone.
    pub(super) leaves: bool,
    /// True if this session has tried to enter the room, and not an earlier session with the same
    /// address.
    pub(super) is_own: bool,
    /// All occupants, by nick, with affiliation and role.
    pub view: BTreeMap<String, (String, String)>,
    /// The number of its stay in the book.
    pub stay: usize,
}

impl RoomSeat {
    /// Forgets everything about the session, which has ended, but what a room may still answer to
    /// its address.
    pub(super) fn outlive_session(&mut self) {
        let mut entering_before = std::mem::take(&mut self.entering_before);
        entering_before.append(&mut self.entering);
        *self = Self { entering_before, ..Self::default() };
    }

    /// Forgets what earlier sessions have asked for: it was at another address.
    pub(super) fn forget_earlier(&mut self) {
        self.entering_before.clear();
    }

    /// Returns whether the room's reply about this nick may be for an earlier session with the same
    /// address. If so, the reply for this session is still to come.
    pub(super) fn take_reply_before(&mut self, nick: &str) -> bool {
        let at = self.entering_before.iter().position(|entering| entering == nick);
        at.map(|at| self.entering_before.remove(at)).is_some()
    }

    /// Records that it is out of the room. What it has asked for since its arrival is still to be
    /// answered.
    pub(super) fn leave(&mut self) {
        let (entering, entering_before) =
            (std::mem::take(&mut self.entering), std::mem::take(&mut self.entering_before));
        *self = Self { entering, entering_before, ..Self::default() };
    }
}
