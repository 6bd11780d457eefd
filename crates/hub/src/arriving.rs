//! The new home of sessions and rooms that move here from other nodes.
//!
//! # Invariants
//!
//! * Stanzas for an account or a room that is moving here wait, within bounds, and are processed in
//!   order once everything has arrived: after the data that the old home has packed.
//! * This home waits for the old one until that has sent everything or is no longer a member. An
//!   old home that takes too long is reported, and fenced off. Only if nobody can fence it off, or
//!   if it runs an earlier version, does this home begin with the data that it has.

use std::collections::BTreeSet;

use rookery_fanout::view::SLOTS;
use tracing::warn;

use crate::World;
use crate::acting::{MovesProcess, process_of};
use crate::card::Card;
use crate::moves::{LATE_MS, PATIENCE_MS};

impl World {
    /// Returns whether this shard waits for homes that others are to send.
    pub fn awaits_homes(&self) -> bool {
        self.people.moves.as_ref().is_some_and(|moves| !moves.awaited.is_empty())
    }

    /// Takes the cards of everything that continues here, once all of it has arrived; `None` before
    /// that, and if nothing is awaited. The caller then calls [`World::go_on`] and
    /// [`World::arrived`]. If `fences`, the processes that [`World::take_overdue`] returns are
    /// fenced off.
    pub fn take_arrived(&mut self, fences: bool) -> Option<Vec<Card>> {
        let moves = self.people.moves.as_ref()?;
        let is_awaiting = !moves.awaited.is_empty();
        if !is_awaiting && !moves.arrived.are_there() {
            return None;
        }
        // A process that has just begun waits from then on.
        let since_ms = moves.times.awaiting_since_ms.max(self.clock.started_ms.unwrap_or(self.clock.now_ms));
        let is_late = self.clock.now_ms >= since_ms + LATE_MS + PATIENCE_MS;
        if is_awaiting && !self.have_all_sent() && (!is_late || fences && self.await_fence()) {
            return None;
        }
        if is_awaiting && is_late {
            warn!(
                "a node of the cluster hasn't confirmed that it sent everything; its accounts and rooms start without the rest"
            );
        }
        self.people.moves.iter_mut().for_each(|moves| moves.late.times += u64::from(is_awaiting && is_late));
        let cards = self.people.moves.as_mut()?.arrived.take();
        let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
        for encoded in cards {
            match Card::decode(&encoded) {
                Ok(card) if self.home_of_text(card.home()) == self.shard() => here.push(card),
                Ok(_) => elsewhere.push(encoded),
                Err(error) => warn!(%error, "a card from another node can't be read; the session or room in it ends"),
            }
        }
        if !elsewhere.is_empty() {
            self.send_cards_again(elsewhere);
        }
        let moves = self.people.moves.as_mut()?;
        for slot in (0..SLOTS).filter(|slot| moves.awaited.has(*slot)) {
            moves.acting.set(slot, true);
        }
        moves.awaited = Default::default();
        moves.late.since_ms = None;
        moves.forget_sources();
        Some(here)
    }

    /// Returns whether any of the late processes can be fenced off. If so, no home begins before
    /// that is done. They are reported only if they are still late a moment later, since this
    /// process may have been the late one.
    fn await_fence(&mut self) -> bool {
        let (view, now_ms) = (self.here.view.clone(), self.clock.now_ms);
        let Some(moves) = &mut self.people.moves else { return false };
        let is_awaited =
            |late: MovesProcess| moves.sources.keys().any(|source| (source.node, source.incarnation) == late);
        let members = view.present().filter(|member| member.letters >= HANDS_ON);
        let late: BTreeSet<_> = members.map(process_of).filter(|member| is_awaited(*member)).collect();
        if late.is_empty() {
            return false;
        }
        let since_ms = *moves.late.since_ms.get_or_insert(now_ms);
        if now_ms >= since_ms + OVERDUE_MS {
            warn!(
                ?late,
                "nodes of the cluster haven't handed on in time the accounts and rooms whose home is now here; they are fenced off"
            );
            moves.late.since_ms = Some(now_ms);
            moves.late.overdue.extend(late);
        }
        self.after(OVERDUE_MS + 1, |_| {});
        true
    }

    /// Takes the processes that have not handed on in time the data of homes that are here now.
    pub fn take_overdue(&mut self) -> BTreeSet<(u16, u32)> {
        self.people.moves.as_mut().map(|moves| std::mem::take(&mut moves.late.overdue)).unwrap_or_default()
    }

    /// Lets everything that has arrived begin, and processes the stanzas that have waited for it.
    pub fn arrived(&mut self) {
        self.proceed();
        self.call_all(|registry| &registry.rounds.arrived);
        self.open_kept();
    }
}

/// The first version of letters whose processes hand on the data of homes that move.
const HANDS_ON: u16 = 2;
/// The time that a late process still has before it is fenced off, and the time between two
/// attempts to fence it off, in milliseconds.
const OVERDUE_MS: u64 = 5_000;
