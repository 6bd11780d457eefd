//! Reads the journals of dead processes: their sessions and rooms are restored from them at the
//! new homes.
//!
//! # Invariants
//!
//! * A journal is read when the process that wrote it can't write any more, and each field by the
//!   home that its slot has then. Until it has been read, stanzas for the slot are kept, as while
//!   homes move ([`crate::moves`]).
//! * Nobody knows how many more stanzas than the journal has a client had received: the count that
//!   it reports is accepted, once.
//! * A journal is read until this process's journal has what was in it (`readings`), and no longer.
//! * Any bytes are a valid journal or are skipped.

use std::cell::Cell;
use std::collections::BTreeMap;

use rookery_fanout::Link;
use rookery_fanout::view::SLOTS;
use serde_bytes::ByteBuf;
use tracing::{info, warn};

use crate::World;
use crate::acting::MovesProcess;
use crate::card::{Card, CardStanza, CardTally, SessionCard};
use crate::journaled::{COUNTS, JournalFields, JournalLookup, LETTERS, STANZA, STATE};
use crate::session::SessionRef;

/// The fields that a journal has about one session, until a card can be made of them.
#[derive(Default)]
struct SessionFields {
    state: Option<Vec<u8>>,
    counts: Option<Vec<u8>>,
    stanzas: BTreeMap<[u8; 8], Vec<u8>>,
}

impl World {
    /// Looks up the data of this shard's homes in the journals of earlier processes of this node,
    /// newest first.
    pub(crate) fn look_back(&mut self, past: Vec<MovesProcess>, slots: &[u16]) {
        let mut past = past.into_iter();
        if let Some(last) = past.next() {
            self.look_into(last, past.collect(), slots.to_vec());
        }
    }

    /// Looks up the data of the homes of some slots in the journal of a process that has died.
    pub(crate) fn read_journal(&mut self, process: MovesProcess, slots: Vec<u16>) {
        self.look_into(process, Vec::new(), slots);
    }

    fn look_into(&mut self, process: MovesProcess, earlier: Vec<MovesProcess>, slots: Vec<u16>) {
        debug_assert!(slots.iter().all(|slot| usize::from(*slot) < SLOTS), "a slot is one of so many");
        for process in std::iter::once(&process).chain(&earlier) {
            self.begin_reading(*process, &slots);
        }
        if let Some(journal) = &mut self.people.journal
            && let Some(moves) = &mut self.people.moves
        {
            moves.journals.push(process);
            journal.others.lookups.push(JournalLookup { process, earlier, slots });
        }
    }

    /// Takes the contents of a process's journal for the requested homes.
    pub fn recovered(&mut self, process: (u16, u32), fields: JournalFields) {
        let cards = assemble(fields);
        let Some(moves) = &mut self.people.moves else { return };
        if let Some(at) = moves.journals.iter().position(|asked| *asked == process) {
            moves.journals.swap_remove(at);
        }
        if !cards.is_empty() {
            info!(
                node = process.0,
                incarnation = process.1,
                count = cards.len(),
                "sessions and rooms of a node that died continue here"
            );
        }
        moves.arrived.recovered.extend(cards);
    }

    /// Notes that a session continues from a journal.
    pub(crate) fn set_recovered(&mut self, session: SessionRef) {
        self.people.journal.iter_mut().for_each(|journal| _ = journal.recovered.insert(session));
    }

    /// Returns whether a session continues from a journal and its client hasn't come back yet.
    pub(crate) fn is_recovered(&self, link: Link) -> bool {
        let Some(journal) = self.people.journal.as_ref().filter(|journal| !journal.recovered.is_empty()) else {
            return false;
        };
        self.reference(link).is_some_and(|session| journal.recovered.contains(&session))
    }

    /// Notes the number of stanzas that a client which resumes its session says it has
    /// handled.
    pub(crate) fn recount(&mut self, link: Link, h: u32) {
        let Some(session) = self.reference(link) else { return };
        if self.is_recovered(link) {
            self.outboxes.recount(link, h);
            // Waiting stanzas are sent from now on.
            self.outboxes.note(link);
        } else if !self.is_repeating(session) {
            return;
        }
        self.expect_repetitions(session);
    }

    /// Notes that the client of a session that continues from a journal is back: its first stanzas
    /// may be repetitions, whenever it reads that it is back.
    pub(crate) fn expect_repetitions(&mut self, session: SessionRef) {
        self.people.journal.iter_mut().for_each(|journal| {
            journal.recovered.remove(&session);
            journal.repeating.insert(session, Cell::new(None));
        });
        self.end_repetitions_later(session, REPEATING_MS);
    }

    /// Looks later whether a client has had its time to repeat stanzas.
    fn end_repetitions_later(&mut self, session: SessionRef, delay_ms: u64) {
        let look = move |world: &mut Self| {
            let now_ms = world.clock.now_ms;
            let Some(journal) = world.people.journal.as_mut() else { return };
            match journal.repeating.get(&session).map(Cell::get) {
                None => {}
                Some(Some(since_ms)) if since_ms + REPEATING_MS <= now_ms => _ = journal.repeating.remove(&session),
                Some(Some(since_ms)) => world.end_repetitions_later(session, since_ms + REPEATING_MS - now_ms),
                Some(None) => world.end_repetitions_later(session, REPEATING_MS),
            }
        };
        self.in_custody(None, |world| world.after(delay_ms, look));
    }

    /// Notes that the client of a session has lost its connection. If it had just come back, it may
    /// not have learned of that, and repeats its stanzas when it comes the next time.
    pub(crate) fn expect_repetitions_later(&mut self, session: SessionRef) {
        self.people.journal.iter_mut().for_each(|journal| {
            if journal.repeating.remove(&session).is_some() {
                journal.recovered.insert(session);
            }
        });
    }

    /// Returns whether a client's stanza may repeat one that it sent to a node that has died. The
    /// first stanza since the client is back shows that it knows that, and begins to repeat.
    pub(crate) fn may_repeat(&self, link: Link) -> bool {
        let Some(journal) = self.people.journal.as_ref().filter(|journal| !journal.repeating.is_empty()) else {
            return false;
        };
        let since_ms = self.reference(link).and_then(|session| journal.repeating.get(&session));
        since_ms.is_some_and(|since_ms| {
            since_ms.set(since_ms.get().or(Some(self.clock.now_ms)));
            true
        })
    }

    fn is_repeating(&self, session: SessionRef) -> bool {
        self.people.journal.as_ref().is_some_and(|journal| journal.repeating.contains_key(&session))
    }

    /// Forgets that a session continued from a journal: it has ended.
    pub(crate) fn forget_recovered(&mut self, link: Link) {
        let Some((session, journal)) = self.reference(link).zip(self.people.journal.as_mut()) else { return };
        journal.recovered.remove(&session);
        journal.repeating.remove(&session);
    }
}

/// Milliseconds within which a client that knows that it is back repeats its unacknowledged
/// stanzas.
const REPEATING_MS: u64 = 30_000;

/// Makes cards of the fields of a journal.
fn assemble(fields: JournalFields) -> Vec<Vec<u8>> {
    let (mut sessions, mut cards) = (BTreeMap::<Vec<u8>, SessionFields>::new(), Vec::new());
    for (field, value) in fields {
        match field.split_first() {
            Some((&STATE, jid)) => sessions.entry(jid.to_vec()).or_default().state = Some(value),
            Some((&COUNTS, jid)) => sessions.entry(jid.to_vec()).or_default().counts = Some(value),
            Some((&STANZA, rest)) => {
                if let Some((place, jid)) = rest.split_first_chunk() {
                    sessions.entry(jid.to_vec()).or_default().stanzas.insert(*place, value);
                }
            }
            Some((&LETTERS, _)) => match postcard::from_bytes::<Vec<ByteBuf>>(&value) {
                Ok(kept) => cards.extend(kept.into_iter().map(ByteBuf::into_vec)),
                Err(error) => warn!(%error, "a part of a node that died can't be restored"),
            },
            // Written by a later version.
            _ => {}
        }
    }
    cards.extend(sessions.into_values().filter_map(|fields| {
        card_of(fields)
            .inspect_err(|error| warn!(%error, "a session of a node that died can't be restored"))
            .ok()
            .flatten()
    }));
    cards
}

/// Makes the card of a session; `None` if the journal has only parts of it.
fn card_of(fields: SessionFields) -> Result<Option<Vec<u8>>, crate::CardError> {
    let Some((state, counts)) = fields.state.zip(fields.counts) else { return Ok(None) };
    let malformed = |why: postcard::Error| crate::CardError::Malformed(why.to_string());
    let counts: CardTally = postcard::from_bytes(&counts).map_err(malformed)?;
    let stanzas = fields.stanzas.into_values().map(|stanza| postcard::from_bytes::<CardStanza>(&stanza));
    let stanzas = stanzas.collect::<Result<Vec<_>, _>>().map_err(malformed)?;
    let Card::Session(card) = Card::decode(&state)? else { return Ok(None) };
    let card: SessionCard = card.with_journal(stanzas, counts)?;
    Card::Session(Box::new(card)).encode().map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The contents of Redis are not trusted.
        #[test]
        fn any_bytes_are_a_journal_or_are_skipped(
            fields in proptest::collection::vec(
                (proptest::sample::select(vec![STATE, COUNTS, STANZA, LETTERS, b'?']), any::<Vec<u8>>(), any::<Vec<u8>>()),
                0..20,
            ),
        ) {
            let named = |(kind, mut name, value): (u8, Vec<u8>, Vec<u8>)| {
                name.insert(0, kind);
                (name, value)
            };
            for card in assemble(fields.into_iter().map(named).collect()) {
                // Anything that isn't a card is reported and left out.
                _ = Card::decode(&card);
            }
        }
    }
}
