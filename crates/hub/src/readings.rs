//! The journals of dead processes that are read here, until this process's journal has what is
//! in them.
//!
//! A journal isn't removed by being read, since its reader may die before its own journal has what
//! it has read. So a shard writes down whose journal it reads, and for which slots; if it dies as
//! well, those that read its journal continue with that one. The batch that completes its own
//! journal takes the note back, and then the other journal is removed.
//!
//! # Invariants
//!
//! * A session or a home that is in two of these journals continues from the later one.
//! * A journal is removed, for the slots of a shard, only when the journal of that shard's process
//!   has everything from it.

use std::collections::{BTreeMap, BTreeSet};

use rookery_fanout::view::SLOTS;

use crate::World;
use crate::acting::MovesProcess;
use crate::journaled::{COUNTS, JournalFields, JournalLookup, JournalWrite, LETTERS, STANZA, STATE};

/// The place of the notes about other journals, among the slots of a journal.
pub const READINGS: u16 = SLOTS as u16;

impl World {
    /// Notes that the journal of a process is read for some slots.
    pub(crate) fn begin_reading(&mut self, process: MovesProcess, slots: &[u16]) {
        let Some(journal) = &mut self.people.journal else { return };
        let reading = journal.others.open.entry(process).or_default();
        reading.slots.extend(slots);
        reading.is_ending = false;
        self.note_reading(process);
    }

    /// Writes the notes about all journals that are being read into a new era.
    pub(crate) fn note_readings(&mut self) {
        let Some(journal) = &mut self.people.journal else { return };
        let processes: Vec<MovesProcess> = journal.others.open.keys().copied().collect();
        journal.others.open.values_mut().for_each(|reading| reading.is_ending = false);
        processes.into_iter().for_each(|process| self.note_reading(process));
    }

    fn note_reading(&mut self, process: MovesProcess) {
        let field = field_of(process, self.shard());
        let Some(journal) = &mut self.people.journal else { return };
        let Some(reading) = journal.others.open.get(&process) else { return };
        let value = postcard::to_allocvec(&reading.slots).ok();
        journal.notes.push(JournalWrite { slot: READINGS, field, value });
    }

    /// Returns whether some journals need not be read by anyone else once everything that is known
    /// here is written.
    pub(crate) fn has_read_all(&self) -> bool {
        let Some(journal) = self.people.journal.as_ref().filter(|journal| !journal.others.open.is_empty()) else {
            return false;
        };
        let has_come = self.people.moves.as_ref().is_none_or(|moves| {
            let waits = !moves.journals.is_empty() || !moves.awaited.is_empty() || moves.arrived.are_there();
            !waits && !moves.sending.is_under_way
        });
        let are_written = journal.homes.noted.is_empty() && journal.homes.later.is_empty();
        let any = journal.others.open.values().any(|reading| !reading.is_ending);
        any && has_come && are_written && self.people.returning.is_empty()
    }

    /// Takes back the notes about journals that have been read, with a batch after which this one
    /// has everything. Returns their processes.
    pub(crate) fn end_readings(&mut self, writes: &mut Vec<JournalWrite>) -> Vec<MovesProcess> {
        if !self.has_read_all() {
            return Vec::new();
        }
        let shard = self.shard();
        let Some(journal) = &mut self.people.journal else { return Vec::new() };
        let ending = journal.others.open.iter_mut().filter(|(_, reading)| !reading.is_ending);
        let ending = ending.map(|(process, reading)| {
            reading.is_ending = true;
            writes.push(JournalWrite { slot: READINGS, field: field_of(*process, shard), value: None });
            *process
        });
        ending.collect()
    }

    /// Lets journals be removed that have been read, when this one has everything.
    pub(crate) fn have_read(&mut self, processes: Vec<MovesProcess>) {
        let Some(journal) = &mut self.people.journal else { return };
        for process in processes {
            if let Some(reading) = journal.others.open.remove(&process) {
                match reading.is_ending {
                    true => {
                        let slots = reading.slots.into_iter().collect();
                        journal.others.read.push(JournalLookup { process, earlier: Vec::new(), slots });
                    }
                    // The journal is read for more slots.
                    false => _ = journal.others.open.insert(process, reading),
                }
            }
        }
    }

    /// Takes the journals of others, or parts of them, that are to be removed: this shard has what
    /// was in them.
    pub fn take_read(&mut self) -> Vec<JournalLookup> {
        self.people.journal.as_mut().map(|journal| std::mem::take(&mut journal.others.read)).unwrap_or_default()
    }
}

/// Takes the notes out of the fields of a journal, which was read for some slots and [`READINGS`].
/// Returns the journals that have to be read as well.
pub fn take_notes(fields: &mut JournalFields, slots: &[u16]) -> Vec<JournalLookup> {
    let mut behind = BTreeMap::<MovesProcess, BTreeSet<u16>>::new();
    fields.retain(|(field, value)| {
        let Some((&READING, name)) = field.split_first() else { return true };
        let noted = || Some((process_in(name)?, postcard::from_bytes::<BTreeSet<u16>>(value).ok()?));
        if let Some((process, noted)) = noted() {
            behind.entry(process).or_default().extend(slots.iter().filter(|slot| noted.contains(slot)));
        }
        false
    });
    let mut lookups = Vec::<JournalLookup>::new();
    for (process, slots) in behind.into_iter().rev().filter(|(_, slots)| !slots.is_empty()) {
        match lookups.last_mut().filter(|lookup| lookup.process.0 == process.0) {
            Some(lookup) => lookup.earlier.push(process),
            None => {
                let slots = slots.into_iter().collect();
                lookups.push(JournalLookup { process, earlier: Vec::new(), slots });
            }
        }
    }
    lookups
}

/// Adds the fields of an earlier journal to those of a later one, except for sessions and homes
/// that the later one has.
pub fn add_earlier(later: &mut JournalFields, earlier: JournalFields) {
    let has = |field: &&(Vec<u8>, Vec<u8>)| field.0.first().is_some_and(|kind| matches!(*kind, STATE | LETTERS));
    let known: BTreeSet<Vec<u8>> = later.iter().filter(has).map(|(field, _)| field.clone()).collect();
    later.extend(earlier.into_iter().filter(|(field, _)| subject(field).is_none_or(|name| !known.contains(&name))));
}

/// Returns the name of the field that a session or a home always has, by any of its fields.
fn subject(field: &[u8]) -> Option<Vec<u8>> {
    let (kind, name) = match field.split_first()? {
        (&(STATE | COUNTS), jid) => (STATE, jid),
        (&STANZA, rest) => (STATE, rest.split_first_chunk::<8>()?.1),
        (&LETTERS, home) => (LETTERS, home),
        _ => return None,
    };
    Some([&[kind], name].concat())
}

/// Returns the name of the field that says that a shard reads the journal of a process.
fn field_of((node, incarnation): MovesProcess, shard: usize) -> Vec<u8> {
    let shard = u16::try_from(shard).unwrap_or_default();
    [&[READING], &node.to_be_bytes()[..], &incarnation.to_be_bytes(), &shard.to_be_bytes()].concat()
}

fn process_in(name: &[u8]) -> Option<MovesProcess> {
    let (node, rest) = name.split_first_chunk()?;
    let (incarnation, _) = rest.split_first_chunk()?;
    Some((u16::from_be_bytes(*node), u32::from_be_bytes(*incarnation)))
}

/// The kind of the fields that say whose journals a shard reads.
const READING: u8 = b'r';

#[cfg(test)]
mod tests {
    use rookery_jid::Jid;

    use super::*;
    use crate::journaled::{counts_field, memos_field, stanza_field, state_field};

    #[test]
    fn a_journal_names_those_that_are_read_with_it() {
        let note = |process, shard, slots: &[u16]| {
            let slots: BTreeSet<u16> = slots.iter().copied().collect();
            (field_of(process, shard), postcard::to_allocvec(&slots).unwrap())
        };
        let session = (state_field(&Jid::parse("a@x/r").unwrap()), vec![1]);
        let unreadable = (field_of((4, 1), 0), vec![0xff]);
        let mut fields =
            vec![note((2, 7), 0, &[1, 2]), session.clone(), note((2, 7), 1, &[3]), note((3, 1), 0, &[9]), unreadable];
        fields.push(note((2, 6), 0, &[1, 2]));
        let behind = take_notes(&mut fields, &[2, 3, 4]).into_iter();
        let behind: Vec<_> = behind.map(|found| (found.process, found.earlier, found.slots)).collect();
        assert_eq!(behind, [((2, 7), vec![(2, 6)], vec![2, 3])]);
        assert_eq!(fields, [session]);
    }

    #[test]
    fn what_a_later_journal_has_is_not_taken_from_an_earlier_one() {
        let [a, b] = ["a@x/r", "b@x/r"].map(|jid| Jid::parse(jid).unwrap());
        let fields = |value: u8, of: &[&Jid], homes: &[&str]| -> JournalFields {
            let sessions = of.iter().flat_map(|jid| [state_field(jid), counts_field(jid), stanza_field(3, jid)]);
            sessions.chain(homes.iter().map(|home| memos_field(home))).map(|field| (field, vec![value])).collect()
        };
        let mut later = fields(1, &[&a], &["room@x"]);
        add_earlier(&mut later, fields(2, &[&a, &b], &["room@x", "other@x"]));
        let expected: JournalFields =
            [fields(1, &[&a], &["room@x"]), fields(2, &[&b], &["other@x"])].into_iter().flatten().collect();
        assert_eq!(later, expected);
    }
}
