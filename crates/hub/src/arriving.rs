//! The new home of sessions and rooms that move here from other nodes.
//!
//! # Invariants
//!
//! * Stanzas for an account or a room on its way wait, within bounds, and are processed in order
//!   when everything has arrived: after the data that the old home has packed.
//! * The old home is waited for as long as it is alive and not too late; then this home begins
//!   with the data that it has.

use rookery_fanout::view::SLOTS;
use tracing::warn;

use crate::World;
use crate::card::Card;
use crate::moves::{LATE_MS, PATIENCE_MS};

impl World {
    /// Takes the cards of everything that continues here, once all of it has arrived; `None`
    /// before, and if nothing is awaited. [`World::go_on`] comes next, then [`World::arrived`].
    pub fn take_arrived(&mut self) -> Option<Vec<Card>> {
        let moves = self.people.moves.as_ref()?;
        let is_awaiting = !moves.awaited.is_empty();
        if !is_awaiting && moves.cards.is_empty() {
            return None;
        }
        // A process that has just begun waits from then on.
        let since_ms = moves.awaiting_since_ms.max(self.clock.started_ms.unwrap_or(self.clock.now_ms));
        let is_late = self.clock.now_ms >= since_ms + LATE_MS + PATIENCE_MS;
        if is_awaiting && !is_late && !self.have_all_sent() {
            return None;
        }
        if is_awaiting && is_late {
            warn!(
                "a node of the cluster hasn't confirmed that it sent everything; its accounts and rooms start without the rest"
            );
        }
        self.people.moves.iter_mut().for_each(|moves| moves.lateness += u64::from(is_awaiting && is_late));
        let cards = std::mem::take(&mut self.people.moves.as_mut()?.cards);
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
        moves.forget_sources();
        Some(here)
    }

    /// Lets everything that has arrived begin, and processes the stanzas that have waited for it.
    pub fn arrived(&mut self) {
        self.proceed();
        self.call_all(|registry| &registry.rounds.arrived);
        self.open_kept();
    }
}
