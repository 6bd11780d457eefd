//! Assertions about a room between two turns. Builds for tests and simulations check them; others
//! don't.

use super::occupant::nick_key;
use super::role::RoomRole;
use super::room::Room;

impl Room {
    /// Asserts that the tables of occupants, nicks and sessions agree with each other.
    ///
    /// # Panics
    /// In builds with assertions, if they don't.
    pub(crate) fn assert_whole(&self) {
        if !cfg!(debug_assertions) || self.occupants.len() > MOST_ASSERTED {
            return;
        }
        let seats: usize = self.occupants.iter().map(|(_, occupant)| occupant.seats.len()).sum();
        debug_assert_eq!(seats, self.seats.len(), "each session in a room has its seat");
        debug_assert_eq!(seats, self.moderators.len() + self.others.len(), "each session is on one roll");
        debug_assert_eq!(self.nicks.len(), self.occupants.len(), "each occupant has its nick");
        for (at, occupant) in &self.occupants {
            debug_assert!(!occupant.seats.is_empty(), "an occupant has a session");
            let key = nick_key(occupant.nick());
            debug_assert_eq!(
                key.and_then(|key| self.nicks.get(&key).copied()),
                Some(at),
                "a nick leads to its occupant"
            );
            let is_moderator = occupant.role == RoomRole::Moderator;
            debug_assert_eq!(self.moderating.contains(&at), is_moderator, "moderators are known");
            for seat in &occupant.seats {
                debug_assert_eq!(self.seats.get(&seat.jid), Some(&at), "a session leads to its occupant");
                debug_assert!(seat.jid.bare_str() == occupant.account.as_str(), "a nick is one account's");
            }
        }
    }
}

/// The number of occupants above which a room isn't checked: each check goes through all of them.
const MOST_ASSERTED: usize = 60;
