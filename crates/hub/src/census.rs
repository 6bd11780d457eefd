//! Counts what a shard remembers about sessions that are here; none of it outlives them.

use crate::World;

/// The numbers of things that a shard holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    /// Accounts with a session.
    pub users: usize,
    /// Bare JIDs that a user or a user's roster refers to.
    pub names: usize,
    /// Requests that wait for a reply.
    pub requests: usize,
    /// Questions to shards that have no answer yet.
    pub questions: usize,
    /// Logins that wait for the store.
    pub logins: usize,
    /// Mail for other shards, errors among it that wait for their homes, and events for the driver.
    pub outgoing: usize,
    /// Calls that are to be made later. Recurring ones are included.
    pub timers: usize,
}

impl World {
    /// Counts what the shard holds.
    pub fn census(&self) -> Census {
        let waiting = &self.waiting;
        let mail: usize = self.out.mail.iter().map(Vec::len).sum();
        Census {
            users: self.people.users.len(),
            names: self.people.names.len(),
            requests: waiting.asked.0.len(),
            questions: waiting.gatherings.waiting.len(),
            logins: waiting.logins.under_way + waiting.logins.queue.len(),
            outgoing: mail
                + waiting.untold.waiting.len()
                + self.out.events.len()
                + self.out.given_back.as_ref().map_or(0, |back| back.len()),
            timers: waiting.timers.calls.len(),
        }
    }
}
