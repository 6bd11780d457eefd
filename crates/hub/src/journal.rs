//! The journal of a node: the data about its sessions and rooms that others need when it dies.
//!
//! A shard of a cluster records for each session that its client may resume (XEP-0198 §5) the
//! state, the counts, and each unacknowledged stanza, and removes acknowledged ones. Modules add
//! the data that they would [hand on](World::hand_on). The driver keeps the journal outside the
//! process; `recovering` is the reader's side.
//!
//! # Invariants
//!
//! * A stanza that was put into the outbox of such a session stays in the custody of its sender
//!   until the journal has it, and a client is told that its stanzas were handled once the journal
//!   has that count. So stanzas that the journal lacks are sent again by their sender, and no
//!   client is told a lower count than before.
//! * All writes of a batch are applied atomically, and batches one after the other: the journal is
//!   always the state of the shard at the end of some tick. A tick's mail for other nodes leaves
//!   after its batch.
//! * A session that can't continue in another process has no place in the journal: its client is
//!   told that it is gone, and asks the archive.
//! * An era of the journal begins empty: nobody knows which writes of an older one were lost.
//! * Without a cluster there is no journal, and each check for one tests a pointer.

use std::hash::BuildHasher;
use std::net::SocketAddr;

use rookery_fanout::{CopiedStanzas, Link, View};
use rookery_xml::Kind;
use serde_bytes::ByteBuf;

use crate::World;
use crate::card::{Card, CardCounts, CardTally, SessionCard, encode_stanza};
use crate::custody::Custody;
use crate::journaled::{
    BatchUnderWay, JournalBatch, JournalLookup, JournalWrite, JournaledSession, counts_field, memos_field,
    stanza_field, state_field,
};
use crate::memo::Memo;
use crate::session::SessionRef;

impl World {
    /// Keeps a journal from now on.
    pub(crate) fn begin_journal(&mut self) {
        self.people.journal.get_or_insert_default();
        self.outboxes.note_changes();
    }

    /// Returns whether this shard keeps a journal, as the shards of a cluster do.
    pub fn has_journal(&self) -> bool {
        self.people.journal.is_some()
    }

    /// Begins an era of the journal: its previous contents are gone.
    pub fn rewrite_journal(&mut self, era: u64) {
        let Some(journal) = &mut self.people.journal else { return };
        journal.era = era;
        journal.owes = true;
        journal.batches.under_way.clear();
        journal.sessions.clear();
        journal.batches.telling.clear();
        journal.homes.noted.append(&mut journal.homes.written);
        for link in self.people.sessions.links().collect::<Vec<_>>() {
            self.touch(link);
        }
        self.note_readings();
    }

    /// Notes that the state of a session may have changed.
    #[inline]
    pub(crate) fn touch(&mut self, link: Link) {
        if let Some(journal) = &mut self.people.journal {
            journal.touched.insert(link);
            self.outboxes.note(link);
        }
    }

    /// Notes that the data which modules would hand on at the home of a text may have changed: see
    /// [`Hooks::on_journal`](crate::Hooks::on_journal). If `is_lasting`, the current work isn't
    /// handled until the data is written; otherwise it is written within a second or so.
    pub fn note_home(&mut self, home: &str, is_lasting: bool) {
        let Some(journal) = &mut self.people.journal else { return };
        let homes = match is_lasting {
            true => &mut journal.homes.noted,
            false => &mut journal.homes.later,
        };
        if !homes.contains(home) {
            homes.insert(home.to_owned());
        }
        if is_lasting {
            journal.homes.shares.extend(self.waiting.custody.clone());
        }
        self.write_homes_in(if is_lasting { HOMES_MS } else { LATER_MS });
    }

    /// Sets a timer for homes, unless one ends by then. Homes that can wait must not delay those
    /// for which somebody waits.
    fn write_homes_in(&mut self, delay_ms: u64) {
        let due_ms = self.clock.now_ms + delay_ms;
        let Some(journal) = &mut self.people.journal else { return };
        if journal.homes.due_ms.is_none_or(|earlier_ms| due_ms < earlier_ms) {
            journal.homes.due_ms = Some(due_ms);
            self.after(delay_ms, World::write_homes);
        }
    }

    /// Records a memo that a module is to get at the home of a text if the process dies, or takes
    /// it back. There is one memo for each tag.
    pub fn note_memo<L: Memo>(&mut self, home: &str, tag: u64, memo: Option<&L>) {
        if self.people.journal.is_none() {
            return;
        }
        let card = memo.and_then(|memo| postcard::to_allocvec(memo).ok()).and_then(|bytes| {
            let card = Card::Memo(home.to_owned(), L::NAME.to_owned(), ByteBuf::from(bytes)).encode().ok()?;
            postcard::to_allocvec(&[ByteBuf::from(card)].as_slice()).ok()
        });
        let slot = View::slot(self.hash(home)) as u16;
        let (field, custody) = (memos_field(&format!("{home} {tag:x}")), self.custody());
        let Some(journal) = &mut self.people.journal else { return };
        journal.shares.extend(custody.filter(|_| card.is_some()));
        journal.notes.push(JournalWrite { slot, field, value: card });
    }

    /// Allows the noted homes to be written.
    fn write_homes(&mut self) {
        let now_ms = self.clock.now_ms;
        let Some(journal) = &mut self.people.journal else { return };
        if journal.homes.due_ms.is_none_or(|due_ms| now_ms < due_ms) {
            // An earlier timer has done the work of this one.
            return;
        }
        journal.homes.due_ms = None;
        if now_ms >= journal.homes.later_from_ms {
            journal.homes.later_from_ms = now_ms + LATER_MS;
            journal.homes.noted.append(&mut journal.homes.later);
        }
        journal.homes.may_write = !journal.homes.noted.is_empty();
        if !journal.homes.later.is_empty() {
            let left_ms = journal.homes.later_from_ms.saturating_sub(now_ms);
            self.write_homes_in(left_ms);
        }
    }

    /// Keeps a share in a custody in which something was put into outboxes, until the journal has
    /// it.
    #[cold]
    pub(crate) fn keep_until_journaled(&mut self, custody: Option<Custody>) {
        self.people.journal.iter_mut().for_each(|journal| journal.shares.extend(custody.clone()));
    }

    /// Returns whether there is something to be written.
    pub fn has_to_journal(&self) -> bool {
        self.people.journal.as_ref().is_some_and(|journal| {
            let has_homes = journal.owes || journal.homes.may_write;
            let has_notes = !journal.shares.is_empty() || !journal.notes.is_empty();
            self.outboxes.has_changed() || has_homes || has_notes || self.has_read_all()
        })
    }

    /// Returns whether so little is under way that more may be written. The end of a batch wakes
    /// the shard.
    pub fn may_journal(&self) -> bool {
        self.people.journal.as_ref().is_none_or(|journal| journal.batches.under_way.len() < MOST_UNDER_WAY)
    }

    /// Returns the writes that are due now, or the first of them if they are large; `None` if there
    /// are none.
    pub fn journal(&mut self, peer_of: impl Fn(Link) -> Option<SocketAddr>) -> Option<JournalBatch> {
        if !self.has_to_journal() {
            return None;
        }
        let journal = self.people.journal.as_mut()?;
        let mut with_homes = journal.owes || journal.homes.may_write;
        let (mut writes, mut bytes) = (std::mem::take(&mut journal.notes), 0);
        while bytes < AT_ONCE_BYTES
            && let Some(link) = self.outboxes.take_changed()
        {
            let before = writes.len();
            self.journal_session(link, &peer_of, &mut writes);
            bytes += writes.iter().skip(before).map(JournalWrite::size).sum::<usize>();
        }
        let is_whole = !self.outboxes.has_changed();
        with_homes &= is_whole;
        if with_homes {
            self.journal_homes(&mut writes);
        }
        let read = if is_whole { self.end_readings(&mut writes) } else { Vec::new() };
        let journal = self.people.journal.as_mut()?;
        let mut shares = if is_whole { std::mem::take(&mut journal.shares) } else { Vec::new() };
        if with_homes {
            journal.homes.may_write = false;
            shares.append(&mut journal.homes.shares);
        }
        let era = journal.era;
        if is_whole && !std::mem::take(&mut journal.owes) && writes.is_empty() {
            // A session that can't continue has no place in the journal.
            debug_assert!(journal.batches.telling.is_empty(), "a count is written");
            return None;
        }
        journal.batches.last += 1;
        let number = journal.batches.last;
        journal.batches.waits += 1;
        let telling = std::mem::take(&mut journal.batches.telling);
        journal.batches.under_way.insert(number, BatchUnderWay { telling, read });
        let (own, settled) = Custody::apart();
        shares.push(own);
        self.in_custody(None, |world| world.wait(settled, move |world, _| world.journaled(number)));
        Some(JournalBatch { era, writes, is_whole, shares })
    }

    /// Records the changes of a session.
    fn journal_session(
        &mut self,
        link: Link,
        peer_of: impl Fn(Link) -> Option<SocketAddr>,
        writes: &mut Vec<JournalWrite>,
    ) -> Option<()> {
        let session = self.reference(link).filter(|_| self.is_lasting(link));
        let journal = self.people.journal.as_mut()?;
        let is_touched = journal.touched.remove(&link);
        let mut last = journal.sessions.remove(&link);
        if let Some(other) = last.take_if(|last| Some(last.serial) != session.map(|session| session.serial)) {
            other.erase(writes);
        }
        let session = session?;
        let is_new = last.is_none();
        let mut entry = match last {
            Some(entry) => entry,
            None => self.journal_entry(session)?,
        };
        let Some(delta) = self.outboxes.delta(link, &mut entry.stanzas) else {
            entry.erase(writes);
            return None;
        };
        let is_iq = delta.new.iter().any(|(_, stanza)| stanza.packet.kind() == Kind::Iq);
        if is_new || is_touched || is_iq {
            let Some(state) = self.journal_state(link, peer_of(link)) else {
                entry.erase(writes);
                return None;
            };
            let hash = self.here.secrets.hash_one(&state);
            if is_new || std::mem::replace(&mut entry.state, hash) != hash {
                entry.state = hash;
                writes.push(JournalWrite { slot: entry.slot, field: state_field(&entry.jid), value: Some(state) });
            }
        }
        if !self.ledger(link)?.is_settled() {
            // The count follows, though the client doesn't ask for it.
            self.settle(session);
        }
        let ledger = self.ledger(link)?;
        let (handled, doubtful) = (ledger.sure(), ledger.doubt());
        let unsent = match self.is_recovered(link) {
            true => entry.stanzas.places().count().saturating_sub(self.outboxes.sent_and_unacknowledged(link)?.1),
            false => 0,
        };
        let counts = CardTally { handled, doubtful, acknowledged: delta.acknowledged, unsent: unsent as u32 };
        if entry.counts != Some(counts) {
            entry.counts = Some(counts);
            let value = postcard::to_allocvec(&counts).ok();
            writes.push(JournalWrite { slot: entry.slot, field: counts_field(&entry.jid), value });
            self.people.journal.as_mut()?.batches.telling.push((session, handled));
        }
        for place in delta.gone {
            writes.push(JournalWrite { slot: entry.slot, field: stanza_field(place, &entry.jid), value: None });
        }
        let taken = &self.clock.taken;
        for (place, stanza) in delta.new {
            let value = encode_stanza(stanza, |number| taken.when(number));
            writes.push(JournalWrite { slot: entry.slot, field: stanza_field(place, &entry.jid), value });
        }
        self.people.journal.as_mut()?.sessions.insert(link, entry);
        Some(())
    }

    fn journal_entry(&mut self, session: SessionRef) -> Option<JournaledSession> {
        let jid = self.address(session.link)?.clone();
        let slot = View::slot(self.hash(jid.bare_str())) as u16;
        let handled = self.ledger(session.link)?.told();
        let (stanzas, counts) = (CopiedStanzas::default(), None);
        Some(JournaledSession { serial: session.serial, slot, jid, stanzas, state: 0, counts, handled })
    }

    /// Returns the state of a session, as it continues in another process.
    fn journal_state(&mut self, link: Link, peer: Option<SocketAddr>) -> Option<Vec<u8>> {
        let jid = self.address(link)?.clone();
        let (until_ms, mut state) = self.state_of(link, peer?)?;
        let CardCounts { id, seconds, .. } = state.stream;
        // These have a field of their own.
        state.stream = CardCounts { id, seconds, handled: 0, doubtful: None, acknowledged: 0, sent: 0 };
        let card = SessionCard::new(jid, until_ms, Default::default(), state, |_| None).ok()?;
        Card::Session(Box::new(card)).encode().ok()
    }

    /// Writes the data that modules would hand on, at the homes where it may have changed.
    fn journal_homes(&mut self, writes: &mut Vec<JournalWrite>) {
        let Some(journal) = &mut self.people.journal else { return };
        let homes = std::mem::take(&mut journal.homes.noted);
        for home in homes {
            debug_assert!(self.out.handed_on.is_empty(), "nothing is handed on at this moment");
            self.call_home(&home);
            let cards = std::mem::take(&mut self.out.handed_on);
            let cards: Vec<_> = cards.iter().filter_map(|card| card.encode().ok()).map(ByteBuf::from).collect();
            let slot = View::slot(self.hash(&home)) as u16;
            let value = if cards.is_empty() { None } else { postcard::to_allocvec(&cards).ok() };
            let Some(journal) = &mut self.people.journal else { return };
            match value.is_some() {
                true => _ = journal.homes.written.insert(home.clone()),
                false => _ = journal.homes.written.remove(&home),
            }
            writes.push(JournalWrite { slot, field: memos_field(&home), value });
        }
    }

    /// Notes that a batch was carried out, so that the journal has the counts in it.
    fn journaled(&mut self, number: u64) {
        let Some(journal) = &mut self.people.journal else { return };
        journal.batches.waits = journal.batches.waits.saturating_sub(1);
        let Some(BatchUnderWay { telling, read }) = journal.batches.under_way.remove(&number) else { return };
        for (session, handled) in &telling {
            let found = journal.sessions.get_mut(&session.link).filter(|found| found.serial == session.serial);
            found.into_iter().for_each(|found| found.handled = *handled);
        }
        for (session, _) in telling {
            if self.session(session).is_some() {
                self.tell_journaled(session.link);
                self.tell_line(session.link);
            }
        }
        self.have_read(read);
    }

    /// Returns whether the journal has the number of a session's handled stanzas; `true` if it
    /// doesn't have the session. If it lacks the number, that is written, and the client is told
    /// then.
    pub(crate) fn has_journaled(&mut self, link: Link) -> bool {
        let Some(found) = self.people.journal.as_ref().and_then(|journal| journal.sessions.get(&link)) else {
            return true;
        };
        let handled = found.handled;
        let is_written = self.ledger(link).is_none_or(|ledger| ledger.sure() == handled);
        if !is_written {
            self.outboxes.note(link);
        }
        is_written
    }

    /// Returns the number of a session's handled stanzas that the journal has, if it has the
    /// session.
    pub(crate) fn journaled_count(&self, link: Link) -> Option<u32> {
        Some(self.people.journal.as_ref()?.sessions.get(&link)?.handled)
    }

    /// Takes the questions that are to be asked of the journals of others.
    pub fn take_lookups(&mut self) -> Vec<JournalLookup> {
        self.people.journal.as_mut().map(|journal| std::mem::take(&mut journal.others.lookups)).unwrap_or_default()
    }

    /// Returns the number of continuations that wait for batches: nothing of the server but clients
    /// waits for those.
    pub(crate) fn journal_waits(&self) -> usize {
        self.people.journal.as_ref().map_or(0, |journal| journal.batches.waits)
    }
}

impl JournalWrite {
    /// Returns the size of the field and its value, in bytes.
    pub fn bytes(&self) -> usize {
        self.field.len() + self.value.as_ref().map_or(0, Vec::len)
    }

    fn size(&self) -> usize {
        self.bytes() + WRITE_BYTES
    }
}

/// Milliseconds until noted homes are written, if somebody waits for that, and if nobody does:
/// rooms may be large.
const HOMES_MS: u64 = 50;
const LATER_MS: u64 = 1_000;
/// The number of batches under way above which further writes wait, unless much else would wait for
/// them.
const MOST_UNDER_WAY: usize = 32;
/// Bytes of a batch, unless that is one session.
const AT_ONCE_BYTES: usize = 1 << 20;
/// Bytes of a write besides its field and its value.
const WRITE_BYTES: usize = 32;
