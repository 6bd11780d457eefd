//! The journal of a shard of a cluster: data of [`crate::journal`], kept separate so that the
//! world can hold it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use rookery_base::{Map, Set};
use rookery_fanout::view::SLOTS;
use rookery_fanout::{CopiedStanzas, Link};
use rookery_jid::Jid;

use crate::acting::MovesProcess;
use crate::card::CardTally;
use crate::custody::Custody;
use crate::session::SessionRef;

/// Writes of a shard to the journal of its process, which are to be carried out together.
#[derive(Debug)]
pub struct JournalBatch {
    /// The era of the journal that they belong to, see [`crate::World::rewrite_journal`].
    pub era: u64,
    /// The writes of the batch, each of one field.
    pub writes: Vec<JournalWrite>,
    /// True if the journal has all that there is to write once these are carried out.
    pub is_whole: bool,
    /// Shares in the custody of the written data, to be kept until it is written.
    pub shares: Vec<Custody>,
}

/// A change of one field of the journal.
#[derive(Debug)]
pub struct JournalWrite {
    /// The slot of its home.
    pub slot: u16,
    /// The name of the field.
    pub field: Vec<u8>,
    /// Its new value; `None` if it goes.
    pub value: Option<Vec<u8>>,
}

/// A part of another process's journal, to be read or to be removed.
#[derive(Debug)]
pub struct JournalLookup {
    /// The node of that process, and its number among those of the node.
    pub process: (u16, u32),
    /// Processes of the same node before that one, newest first: the first of them that has left a
    /// journal is read.
    pub earlier: Vec<(u16, u32)>,
    /// The slots in question, whose homes are here now.
    pub slots: Vec<u16>,
}

/// The fields of a journal, with their values.
pub type JournalFields = Vec<(Vec<u8>, Vec<u8>)>;

/// The journal, as far as this shard writes it.
#[derive(Debug, Default)]
pub(crate) struct ShardJournal {
    pub(crate) era: u64,
    /// True if a batch has to follow, even an empty one.
    pub(crate) owes: bool,
    pub(crate) sessions: Map<Link, JournaledSession>,
    /// Sessions whose state may have changed.
    pub(crate) touched: Set<Link>,
    /// Letters that are to be written, or taken back.
    pub(crate) notes: Vec<JournalWrite>,
    /// Shares in the custody of data that isn't written yet, except for homes.
    pub(crate) shares: Vec<Custody>,
    pub(crate) homes: JournalHomes,
    pub(crate) batches: JournalBatches,
    pub(crate) others: OtherJournals,
    /// Sessions that continue from a journal, and whose clients haven't come back yet.
    pub(crate) recovered: Set<SessionRef>,
    /// Recovered sessions whose clients have come back, and repeat their unacknowledged stanzas,
    /// each with the time since which they do; `None` if they haven't begun.
    pub(crate) repeating: Map<SessionRef, Cell<Option<u64>>>,
    /// The numbers of the connections that sessions have on other nodes, or had last.
    pub(crate) lines: Map<SessionRef, u64>,
}

/// The journals of dead processes that this shard reads.
#[derive(Debug, Default)]
pub(crate) struct OtherJournals {
    /// Journals that are still to be looked up.
    pub(crate) lookups: Vec<JournalLookup>,
    /// Journals that are being read, or whose contents this process's journal doesn't have yet.
    pub(crate) open: BTreeMap<MovesProcess, JournalReading>,
    /// Journals that have been read, and may be removed.
    pub(crate) read: Vec<JournalLookup>,
}

/// The journal of a dead process that a shard reads.
#[derive(Debug, Default)]
pub(crate) struct JournalReading {
    /// The slots for which it is read.
    pub(crate) slots: BTreeSet<u16>,
    /// True if the note about it is taken back by a batch under way.
    pub(crate) is_ending: bool,
}

/// The homes at which modules hand data on.
#[derive(Debug, Default)]
pub(crate) struct JournalHomes {
    /// Homes whose data may have changed.
    pub(crate) noted: BTreeSet<String>,
    /// Homes whose data may have changed and for which nobody waits, and the time from which they
    /// are written, in milliseconds.
    pub(crate) later: BTreeSet<String>,
    pub(crate) later_from_ms: u64,
    /// The homes in the journal.
    pub(crate) written: BTreeSet<String>,
    /// Shares in the custody of the work that noted homes.
    pub(crate) shares: Vec<Custody>,
    /// The time at which a timer for homes ends first, in milliseconds.
    pub(crate) due_ms: Option<u64>,
    /// True if homes are to be written now.
    pub(crate) may_write: bool,
}

/// Batches of a shard.
#[derive(Debug, Default)]
pub(crate) struct JournalBatches {
    /// The batches under way, by their numbers.
    pub(crate) under_way: BTreeMap<u64, BatchUnderWay>,
    pub(crate) last: u64,
    /// Continuations that wait for batches, also of earlier eras.
    pub(crate) waits: usize,
    /// The sessions whose counts are in the batch that is being made.
    pub(crate) telling: Vec<(SessionRef, u32)>,
}

/// A batch that the journal is not known to have.
#[derive(Debug)]
pub(crate) struct BatchUnderWay {
    /// The sessions whose counts are in it.
    pub(crate) telling: Vec<(SessionRef, u32)>,
    /// The processes whose journals count as read once it is written.
    pub(crate) read: Vec<MovesProcess>,
}

/// A session as the journal has it, so that only differences are written.
#[derive(Debug)]
pub(crate) struct JournaledSession {
    pub(crate) serial: u32,
    pub(crate) slot: u16,
    pub(crate) jid: Jid,
    pub(crate) stanzas: CopiedStanzas,
    /// The hash of the state that was written last.
    pub(crate) state: u64,
    /// The counts that were written last.
    pub(crate) counts: Option<CardTally>,
    /// The number of handled stanzas that the journal is known to have.
    pub(crate) handled: u32,
}

impl JournaledSession {
    /// Adds the writes that remove a session from the journal.
    pub(crate) fn erase(&self, writes: &mut Vec<JournalWrite>) {
        let stanzas = self.stanzas.places().map(|place| stanza_field(place, &self.jid));
        for field in [state_field(&self.jid), counts_field(&self.jid)].into_iter().chain(stanzas) {
            writes.push(JournalWrite { slot: self.slot, field, value: None });
        }
    }
}

/// Returns the processes of a node before this one, from this number on, that may have left a
/// journal, newest first.
pub(crate) fn before((node, incarnation): MovesProcess, from: u32) -> Vec<MovesProcess> {
    let lives = (from.max(1)..incarnation).rev().take(LIVES);
    lives.map(|at| (node, at)).collect()
}

/// Returns the name of the field that has the state of a session.
pub(crate) fn state_field(jid: &Jid) -> Vec<u8> {
    field_name(STATE, jid.as_str())
}

/// Returns the name of the field that has its counts.
pub(crate) fn counts_field(jid: &Jid) -> Vec<u8> {
    field_name(COUNTS, jid.as_str())
}

/// Returns the name of the field that has what modules hand on at the home of a text.
pub(crate) fn memos_field(home: &str) -> Vec<u8> {
    field_name(LETTERS, home)
}

fn field_name(kind: u8, name: &str) -> Vec<u8> {
    let mut field = vec![kind];
    field.extend_from_slice(name.as_bytes());
    field
}

/// Returns the name of the field that has a stanza of a session: the names of later ones are
/// higher.
pub(crate) fn stanza_field(place: u64, jid: &Jid) -> Vec<u8> {
    let mut field = vec![STANZA];
    field.extend_from_slice(&place.to_be_bytes());
    field.extend_from_slice(jid.as_str().as_bytes());
    field
}

/// The kinds of fields, by the first byte of their names.
pub(crate) const STATE: u8 = b'c';
pub(crate) const COUNTS: u8 = b'n';
pub(crate) const STANZA: u8 = b's';
pub(crate) const LETTERS: u8 = b'l';
/// Earlier processes of a node whose journals are looked for: some may have ended while they
/// joined.
const LIVES: usize = 8;

const _: () = assert!(SLOTS <= 1 << 16, "a slot has two bytes");
