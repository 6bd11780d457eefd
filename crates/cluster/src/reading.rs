//! Reads the journal of a dead process, and those that this process was reading itself when it
//! died, without I/O: decides what to ask Redis for, and what of it counts.
//!
//! Reading removes nothing, since the answers may be lost and the reader may die. The reader
//! reports afterwards which parts it has read, and these are removed when its own journal has them.

use std::collections::VecDeque;

use rookery_hub::readings::{READINGS, add_earlier, take_notes};
use rookery_hub::{JournalFields, JournalLookup};

use crate::wire::NodeProcess;

/// A journal that is being read.
#[derive(Debug)]
pub struct JournalReader {
    /// The journals that are still to be read; the first one is being read if it is open.
    waiting: VecDeque<JournalLookup>,
    open: Option<OpenJournal>,
    found: JournalFields,
    parts: Vec<JournalPart>,
    /// The number of journals so far: Redis may claim anything.
    count: usize,
}

/// A part of a process's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPart {
    /// The process.
    pub process: NodeProcess,
    /// The era of its journal.
    pub era: u64,
    /// The slots.
    pub slots: Vec<u16>,
}

/// A question for Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalQuestion {
    /// Close the journal of a process, and return its state, for [`JournalReader::handle_closed`].
    Close(NodeProcess),
    /// Return the fields of a part, for [`JournalReader::read`].
    Read(JournalPart),
}

/// The state of a journal that was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedJournal {
    /// There is none.
    Missing,
    /// Its process has ended in order.
    Ended,
    /// It lacks data that was acknowledged: the database says that this era doesn't count.
    Void(u64),
    /// It has this era.
    Era(u64),
}

#[derive(Debug)]
struct OpenJournal {
    part: JournalPart,
    /// The slots that have still to be read.
    left: VecDeque<u16>,
    fields: JournalFields,
}

impl JournalReader {
    /// Returns a reader that has read nothing.
    pub fn new(lookup: JournalLookup) -> Self {
        Self { waiting: [lookup].into(), open: None, found: JournalFields::new(), parts: Vec::new(), count: 0 }
    }

    /// Returns what to ask Redis now; `None` if everything has been read.
    pub fn question(&self) -> Option<JournalQuestion> {
        match &self.open {
            Some(OpenJournal { part, left, .. }) => {
                let slots = left.iter().copied().take(AT_ONCE).collect();
                Some(JournalQuestion::Read(JournalPart { slots, ..*part }))
            }
            None => self.waiting.front().map(|lookup| JournalQuestion::Close(of(lookup.process))),
        }
    }

    /// Takes the state of the journal that was to be closed.
    pub fn handle_closed(&mut self, state: ClosedJournal) {
        let Some(mut lookup) = self.waiting.pop_front() else { return };
        let part = |era| JournalPart { process: of(lookup.process), era, slots: lookup.slots.clone() };
        match state {
            ClosedJournal::Missing if !lookup.earlier.is_empty() => {
                lookup.process = lookup.earlier.remove(0);
                self.waiting.push_front(lookup);
            }
            ClosedJournal::Missing | ClosedJournal::Ended => {}
            ClosedJournal::Void(era) => self.parts.push(part(era)),
            ClosedJournal::Era(era) => {
                let left = std::iter::once(READINGS).chain(lookup.slots.iter().copied()).collect();
                self.open = Some(OpenJournal { part: part(era), left, fields: JournalFields::new() });
            }
        }
    }

    /// Takes the fields of the part that was to be read.
    pub fn read(&mut self, fields: JournalFields) {
        let Some(open) = &mut self.open else { return };
        open.fields.extend(fields);
        open.left.drain(..open.left.len().min(AT_ONCE));
        if open.left.is_empty() {
            self.close();
        }
    }

    /// Returns what was found, and where.
    pub fn finish(mut self) -> (JournalFields, Vec<JournalPart>) {
        self.close();
        (self.found, self.parts)
    }

    fn close(&mut self) {
        let Some(OpenJournal { part, mut fields, .. }) = self.open.take() else { return };
        let behind = take_notes(&mut fields, &part.slots);
        add_earlier(&mut self.found, fields);
        self.parts.push(part);
        self.count += 1;
        if self.count < MOST_JOURNALS {
            self.waiting.extend(behind);
        }
    }
}

fn of((node, incarnation): (u16, u32)) -> NodeProcess {
    NodeProcess { node, incarnation }
}

/// The number of slots that are read at once.
const AT_ONCE: usize = 64;
/// The most journals that are read one after another. All but the first belong to processes that
/// died while they took over from the next one.
const MOST_JOURNALS: usize = 32;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SLOT: u16 = 5;

    /// Lets a reader read journals, each of which has an era and a note about another process.
    fn read(lookup: JournalLookup, journals: &[(u32, ClosedJournal)]) -> (Vec<u32>, Vec<(u32, u64)>) {
        let journals: BTreeMap<u32, ClosedJournal> = journals.iter().copied().collect();
        let (mut reader, mut order) = (JournalReader::new(lookup), Vec::new());
        while let Some(question) = reader.question() {
            match question {
                JournalQuestion::Close(process) => {
                    let state = journals.get(&process.incarnation).copied();
                    reader.handle_closed(state.unwrap_or(ClosedJournal::Missing));
                }
                JournalQuestion::Read(part) => {
                    order.push(part.process.incarnation);
                    // Each journal has a session whose state is the number of its process.
                    reader.read(vec![(b"ca@x/r".to_vec(), part.process.incarnation.to_be_bytes().to_vec())]);
                }
            }
        }
        let (fields, parts) = reader.finish();
        assert!(fields.len() <= 1, "the session continues once: {fields:?}");
        (order, parts.into_iter().map(|part| (part.process.incarnation, part.era)).collect())
    }

    fn lookup(process: u32, earlier: &[u32]) -> JournalLookup {
        let earlier = earlier.iter().map(|earlier| (1, *earlier)).collect();
        JournalLookup { process: (1, process), earlier, slots: vec![SLOT] }
    }

    #[test]
    fn the_last_process_that_has_left_a_journal_is_read() {
        let all = [(4, ClosedJournal::Era(2)), (3, ClosedJournal::Era(9))];
        assert_eq!(read(lookup(5, &[4, 3]), &all), (vec![4], vec![(4, 2)]));
        assert_eq!(read(lookup(5, &[]), &all), (vec![], vec![]));
    }

    #[test]
    fn a_journal_that_does_not_count_hides_those_before_it() {
        let void = [(4, ClosedJournal::Void(2)), (3, ClosedJournal::Era(9))];
        assert_eq!(read(lookup(4, &[3]), &void), (vec![], vec![(4, 2)]), "it may be removed");
        let ended = [(4, ClosedJournal::Ended), (3, ClosedJournal::Era(9))];
        assert_eq!(read(lookup(4, &[3]), &ended), (vec![], vec![]));
    }
}
