//! Counts how much of a shard's memory each account holds by not reading.
//!
//! # Invariants
//! - Everything that an account's sessions above the soft limit hold counts. A client that reads
//!   counts for nothing, and a copy for its session costs nothing more than before.
//! - The one who exceeds a limit pays for it: the session that gets one more stanza if its account
//!   has too much, the account that holds most if the shard has.

use rookery_base::Map;
use rookery_jid::{Jid, JidRef};

use super::item::{OutboxItem, is_state};
use super::queue::OutboxQueue;
use super::{Link, OutboxLimits, Outboxes, PushOutcome};
use crate::packet::StanzaType;

impl OutboxLimits {
    /// Checks that a session above the soft limit can take one more item of this size.
    ///
    /// # Errors
    /// The outcome that the caller returns instead.
    pub(super) fn check(
        &self,
        held: &Map<Box<str>, usize>,
        queue: &OutboxQueue,
        item: &OutboxItem,
        address: &Jid,
        size: usize,
    ) -> Result<(), PushOutcome> {
        let of_account = held.get(address.bare_str()).copied().unwrap_or_default();
        // A session counts from the stanza that brings it above the soft limit.
        let of_account = of_account.saturating_sub(queue.fat()) + queue.held_bytes();
        let paced = queue.all_paced().bytes;
        let is_too_much = item.paced && paced > 0 && paced + size > self.paced;
        if !is_too_much && of_account + size <= self.account {
            return Ok(());
        }
        let may_be_left_out = is_state(&item.packet) && item.packet.type_() == StanzaType::Available;
        Err(if may_be_left_out { PushOutcome::Queued } else { PushOutcome::Overflow })
    }
}

impl Outboxes {
    /// Updates the bytes that a session adds to its account's.
    pub(super) fn weigh(&mut self, link: Link) {
        let Some(slot) = self.slots.get_mut(link) else { return };
        let (Some(queue), Some(address)) = (&mut slot.queue, &slot.address) else { return };
        let bytes = queue.held_bytes();
        if bytes <= self.limits.soft {
            return queue.leave_account(&mut self.held, address);
        }
        if let Some(held) = self.held.get_mut(address.bare_str()) {
            debug_assert!(*held >= queue.fat(), "an account holds what its sessions do");
            *held = held.saturating_sub(queue.fat()) + bytes;
        } else {
            self.held.insert(address.bare_str().into(), bytes);
        }
        queue.much.get_or_insert_default().fat = bytes;
        debug_assert!(self.held.get(address.bare_str()).is_some_and(|held| *held >= bytes), "it counts now");
    }

    /// Returns the account that holds most in sessions above the soft limit.
    pub fn fattest(&self) -> Option<JidRef<'_>> {
        let (account, bytes) = self.held.iter().max_by_key(|(_, bytes)| **bytes)?;
        debug_assert!(*bytes > 0 && self.waiting >= *bytes, "an account is known while it holds something");
        JidRef::parse_prepared(account)
    }

    /// Returns whether the shard as a whole holds more than it may.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.waiting > self.limits.total
    }
}
