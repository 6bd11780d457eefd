//! Makes stanzas for an account wait while earlier ones are still on their way through the store.
//!
//! A hold does for an account that receives what a backlog does for a session that sends: offline
//! messages come before new ones, and the presence that follows a `subscribed` does not overtake it
//! (RFC 6120 §10.1).

use std::collections::VecDeque;

use rookery_fanout::Packet;
use rookery_jid::JidRef;
use rookery_observe::{Bound, Most, Per, Unit};

use crate::World;
use crate::held::{HELD, HeldStanza, HeldStanzas, Hold};
use crate::passage::Notes;
use crate::share::Share;

impl World {
    /// Makes stanzas for an account that is here wait from now on. Returns `None` if it has no
    /// session, so that only the store's order matters; see also [`World::hold_absent`].
    pub fn hold(&mut self, account: JidRef<'_>) -> Option<Hold> {
        let serial = self.next_serial();
        let user = self.user_named(self.hash(account.bare_str()), account.bare_str())?;
        let user = self.people.users.get_mut(user as usize)?;
        let held = user.held.get_or_insert_with(|| {
            Box::new(HeldStanzas { serial, holders: 0, share: Share::new(HELD), queue: VecDeque::new() })
        });
        debug_assert!(held.holders > 0 || held.queue.is_empty(), "nothing waits that nobody holds");
        held.holders += 1;
        Some(Hold { account: account.bare().to_jid(), serial: Some(held.serial) })
    }

    /// Returns whether stanzas for a user wait.
    pub(crate) fn is_held(&self, user: Option<u32>) -> bool {
        user.and_then(|user| self.people.users.get(user as usize)).is_some_and(|user| user.held.is_some())
    }

    /// Ends a claim. After the last one the stanzas that waited are delivered, in their order.
    pub fn release(&mut self, hold: Hold) {
        let hash = self.hash(hold.account.as_str());
        let held = |world: &Self| world.user_named(hash, hold.account.as_str());
        let Some(user) = held(self).and_then(|user| self.people.users.get_mut(user as usize)) else { return };
        let Some(waiting) = user.held.as_mut().filter(|held| Some(held.serial) == hold.serial) else { return };
        debug_assert!(waiting.holders > 0, "a claim is given back once");
        waiting.holders -= 1;
        if waiting.holders > 0 {
            return;
        }
        let Some(HeldStanzas { mut queue, mut share, .. }) = user.held.take().map(|held| *held) else { return };
        debug_assert!(share.is_empty() == queue.is_empty(), "a line counts what waits in it");
        while let Some(waiting) = queue.pop_front() {
            share.give_back(&waiting.packet);
            self.deliver_held(hash, waiting);
            // One of the delivered stanzas may have made a new claim. Then the rest keeps waiting,
            // before later ones.
            let user = held(self).and_then(|user| self.people.users.get_mut(user as usize));
            if let Some(again) = user.and_then(|user| user.held.as_mut()) {
                share.add(&again.share);
                queue.append(&mut again.queue);
                (again.queue, again.share) = (queue, share);
                return;
            }
        }
    }

    /// Delivers a stanza that a filter has kept until it had a reply, ahead of the account's
    /// stanzas that have waited for it.
    pub fn deliver_first(&mut self, hold: Hold, packet: &Packet, to: JidRef<'_>, notes: Notes) {
        let hash = self.hash(to.bare_str());
        if hold.serial.is_none() {
            let waiting = self.end_absence(&hold.account);
            self.deliver(hash, packet, to, notes);
            return self.deliver_waiting(hash, waiting);
        }
        let custody = self.custody();
        let user = self.user_named(hash, to.bare_str()).and_then(|user| self.people.users.get_mut(user as usize));
        let held = user.and_then(|user| user.held.as_mut()).filter(|held| Some(held.serial) == hold.serial);
        if let Some(held) = held
            && held.share.take(packet)
        {
            held.queue.push_front(HeldStanza { packet: packet.clone(), to: to.to_jid(), notes, custody });
            return self.release(hold);
        }
        self.release(hold);
        self.deliver(hash, packet, to, notes);
    }

    /// Delivers a stanza that waited.
    pub(crate) fn deliver_held(&mut self, hash: u64, waiting: HeldStanza) {
        let HeldStanza { packet, to, notes, custody } = waiting;
        self.in_custody(custody, |world| match notes.is_bundled {
            true => world.bundle(vec![packet], &to),
            false => world.deliver(hash, &packet, to.as_ref(), notes),
        });
    }
}

/// The bounds of stanzas that wait for accounts, for the page of limits.
pub const BOUNDS: &[Bound] = &[
    Bound::on(
        "stanzas that wait for the store after earlier ones",
        Per::Account,
        Most::Fixed(HELD.number as u64),
        Unit::Number,
    )
    .or("the sender gets <resource-constraint/>; one sender has a quarter at most"),
    Bound::on(
        "stanzas that wait for the store after earlier ones",
        Per::Account,
        Most::Fixed(HELD.bytes as u64),
        Unit::Bytes,
    )
    .or("the sender gets <resource-constraint/>; one sender has a quarter at most"),
];
