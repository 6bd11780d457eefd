//! Assertions about a session, its user and its outbox between two calls. Builds for tests and
//! simulations check them; others don't.

use rookery_fanout::Link;
use rookery_jid::Jid;

use crate::World;

impl World {
    /// Returns whether this may be the home shard of an address with this hash: nodes learn of
    /// other homes at different times.
    pub(crate) fn may_be_home(&self, hash: u64) -> bool {
        self.shards() > self.own_shards() || self.hop(hash) == self.shard()
    }

    /// Asserts that a session, its user and its outbox belong together.
    ///
    /// # Panics
    /// In builds with assertions, if they don't.
    pub(crate) fn assert_whole(&self, link: Link) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Some(session) = self.session_at(link) else { return };
        let address = self.outboxes.address(link).map(Jid::bare_str);
        debug_assert!(address.is_some(), "a session has an outbox");
        let user = self.people.users.get(session.user as usize);
        debug_assert!(user.is_some_and(|user| user.links.contains(&link)), "a user knows its sessions");
        let Some(user) = user else { return };
        let name = self.people.names.get(user.name).map(|(_, name)| name);
        debug_assert_eq!(name, address, "a user has the address of its sessions");
        debug_assert_eq!(self.people.names.user(user.name), Some(session.user), "a name leads to its user");
        debug_assert!(
            user.contacts.len() > MOST_ASSERTED || user.contacts.is_sorted_by_key(|contact| contact.name()),
            "contacts are sorted"
        );
        debug_assert!(user.held.as_ref().is_none_or(|held| held.holders > 0), "somebody holds what waits");
        debug_assert!(!session.gone || session.ending, "a session without its connection ends");
        let Some(rare) = &session.rare else { return };
        let backlog = &rare.backlog;
        debug_assert!(backlog.queue.len() <= MOST_ASSERTED || backlog.bytes == bytes(backlog), "bytes of a backlog");
        debug_assert!(!session.ending || session.gone || rare.managed.is_none() || address.is_some());
    }
}

fn bytes(backlog: &crate::session::SessionBacklog) -> usize {
    backlog.queue.iter().map(|(stanza, _)| stanza.len()).sum()
}

/// The number of items above which they are not checked: each check goes through all of them.
const MOST_ASSERTED: usize = 100;
