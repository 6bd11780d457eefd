//! Redis as nodes see it: inboxes that only their owners empty, leases that expire, and journals. A
//! run may make it unavailable or empty.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rookery_cluster::courier::AppendOutcome;
use rookery_cluster::engine::FoundLease;
use rookery_cluster::reading::{ClosedJournal, JournalPart};
use rookery_cluster::wire::NodeProcess;
use rookery_hub::{JournalFields, JournalWrite};

/// Inboxes, leases and journals.
#[derive(Default)]
pub(crate) struct SimRedis {
    inboxes: BTreeMap<NodeProcess, Inbox>,
    leases: BTreeMap<u16, Lease>,
    journals: BTreeMap<NodeProcess, SimJournal>,
    /// True while Redis is unavailable.
    pub is_away: bool,
    /// The number of times that Redis broke all connections.
    pub breaks: u64,
    now_ms: u64,
}

#[derive(Default)]
struct Inbox {
    entries: VecDeque<(u64, Vec<u8>)>,
    last: u64,
}

/// The journal of a process: its state and its parts, both of which expire.
#[derive(Default)]
struct SimJournal {
    state: Option<SimJournalState>,
    /// The fields by era and slot.
    parts: BTreeMap<(u64, u16), SimPart>,
}

struct SimJournalState {
    /// The era in progress; `None` if the process has ended in good order.
    era: Option<u64>,
    is_closed: bool,
    until_ms: u64,
}

#[derive(Default)]
struct SimPart {
    fields: BTreeMap<Vec<u8>, Vec<u8>>,
    until_ms: u64,
}

struct Lease {
    text: String,
    until_ms: u64,
}

impl SimRedis {
    /// Advances the clock, by which leases and journals expire.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.leases.retain(|_, lease| lease.until_ms > now_ms);
        for journal in self.journals.values_mut() {
            journal.state.take_if(|state| state.until_ms <= now_ms);
            journal.parts.retain(|_, part| part.until_ms > now_ms);
        }
        self.journals.retain(|_, journal| journal.state.is_some() || !journal.parts.is_empty());
    }

    /// Loses all data and all connections.
    pub fn forget(&mut self) {
        self.inboxes.clear();
        self.leases.clear();
        self.journals.clear();
        self.breaks += 1;
    }

    /// Appends an entry to an inbox.
    pub fn append(&mut self, to: NodeProcess, entry: Vec<u8>) -> AppendOutcome {
        let Some(inbox) = self.inboxes.get_mut(&to) else { return AppendOutcome::NoInbox };
        inbox.last += 1;
        inbox.entries.push_back((inbox.last, entry));
        AppendOutcome::Taken
    }

    /// Returns whether a process has an inbox.
    pub fn has_inbox(&self, own: NodeProcess) -> bool {
        self.inboxes.contains_key(&own)
    }

    /// Makes the inbox of a process, empty.
    pub fn create_inbox(&mut self, own: NodeProcess) {
        self.inboxes.insert(own, Inbox::default());
    }

    /// Removes the inbox of a process, with all letters in it.
    pub fn remove_inbox(&mut self, own: NodeProcess) {
        self.inboxes.remove(&own);
    }

    /// Returns the entry after a position, and that entry's position. Removes the entries before
    /// `after`.
    pub fn read(&mut self, own: NodeProcess, after: u64) -> Option<(u64, Vec<u8>)> {
        let inbox = self.inboxes.get_mut(&own)?;
        while inbox.entries.front().is_some_and(|(at, _)| *at < after) {
            inbox.entries.pop_front();
        }
        inbox.entries.iter().find(|(at, _)| *at > after).cloned()
    }

    /// Takes the lease of a node, if it is free.
    pub fn take_lease(&mut self, node: u16, text: &str) -> bool {
        if self.leases.contains_key(&node) {
            return false;
        }
        self.set_lease(node, text);
        true
    }

    /// Renews the lease of a process, or takes it again. Returns false if another process has it.
    pub fn renew_lease(&mut self, own: NodeProcess, text: &str) -> bool {
        if self.leases.get(&own.node).is_some_and(|lease| !is_of(&lease.text, own)) {
            return false;
        }
        self.set_lease(own.node, text);
        true
    }

    fn set_lease(&mut self, node: u16, text: &str) {
        let until_ms = self.now_ms + LEASE_MS;
        self.leases.insert(node, Lease { text: text.to_owned(), until_ms });
    }

    /// Ends the lease of a process, unless another one has it.
    pub fn end_lease(&mut self, own: NodeProcess) {
        if self.has_lease(own) {
            self.leases.remove(&own.node);
        }
    }

    /// Begins an era of a process's journal. Returns false if other nodes have closed the journal.
    pub fn begin_journal(&mut self, own: NodeProcess, era: u64) -> bool {
        let until_ms = self.now_ms + KEPT_MS;
        let journal = self.journals.entry(own).or_default();
        let is_closed = journal.state.as_ref().is_some_and(|state| state.is_closed);
        if !is_closed {
            journal.state = Some(SimJournalState { era: Some(era), is_closed, until_ms });
        }
        !is_closed
    }

    /// Carries out writes to a process's journal. Returns whether they count: they don't once
    /// another era has begun or other nodes have closed the journal.
    pub fn write_journal(&mut self, own: NodeProcess, era: u64, writes: Vec<JournalWrite>) -> bool {
        let until_ms = self.now_ms + KEPT_MS;
        let journal = self.journals.entry(own).or_default();
        for JournalWrite { slot, field, value } in writes {
            let part = journal.parts.entry((era, slot)).or_default();
            match value {
                Some(value) => {
                    part.fields.insert(field, value);
                    part.until_ms = until_ms;
                }
                None => drop(part.fields.remove(&field)),
            }
        }
        journal.parts.retain(|_, part| !part.fields.is_empty());
        journal.is_open(era)
    }

    /// Keeps an era of a process's journal from expiring.
    pub fn renew_journal(&mut self, own: NodeProcess, era: u64) {
        let until_ms = self.now_ms + KEPT_MS;
        let Some(journal) = self.journals.get_mut(&own).filter(|journal| journal.is_open(era)) else { return };
        journal.state.iter_mut().for_each(|state| state.until_ms = until_ms);
        journal.parts.iter_mut().filter(|(key, _)| key.0 == era).for_each(|(_, part)| part.until_ms = until_ms);
    }

    /// Removes an era of a process's journal, or only these slots of it.
    pub fn forget_journal(&mut self, own: NodeProcess, era: u64, slots: Option<&[u16]>) {
        let is_forgotten = |slot: u16| slots.is_none_or(|slots| slots.contains(&slot));
        let journal = self.journals.get_mut(&own);
        journal
            .into_iter()
            .for_each(|journal| journal.parts.retain(|(of, slot), _| *of != era || !is_forgotten(*slot)));
    }

    /// Closes the journal of a process, whose writes don't count any more. Returns its state.
    pub fn close_journal(&mut self, of: NodeProcess) -> ClosedJournal {
        let until_ms = self.now_ms + CLOSED_MS;
        let state = self.journals.get_mut(&of).and_then(|journal| journal.state.as_mut());
        let Some(state) = state else { return ClosedJournal::Missing };
        if !std::mem::replace(&mut state.is_closed, true) {
            state.until_ms = until_ms;
        }
        state.era.map_or(ClosedJournal::Ended, ClosedJournal::Era)
    }

    /// Ends the journal of a process, after which nobody reads it any more.
    pub fn end_journal(&mut self, own: NodeProcess) {
        let state = SimJournalState { era: None, is_closed: true, until_ms: self.now_ms + CLOSED_MS };
        self.journals.insert(own, SimJournal { state: Some(state), parts: BTreeMap::new() });
    }

    /// Returns the data of a part of a process's journal.
    pub fn read_journal(&self, JournalPart { process, era, slots }: &JournalPart) -> JournalFields {
        let Some(journal) = self.journals.get(process) else { return JournalFields::new() };
        let parts = slots.iter().filter_map(|slot| journal.parts.get(&(*era, *slot)));
        parts.flat_map(|part| part.fields.clone()).collect()
    }

    /// Returns the full JIDs of the sessions that the journal of a process has.
    pub fn journaled_sessions(&self, of: NodeProcess) -> Vec<String> {
        let Some(journal) = self.journals.get(&of) else { return Vec::new() };
        let Some(own) = journal.state.as_ref().and_then(|state| state.era) else { return Vec::new() };
        let fields =
            || journal.parts.iter().filter(|((era, _), _)| *era == own).flat_map(|(_, part)| part.fields.keys());
        let names = |kind: u8| {
            let of_kind = move |field: &Vec<u8>| String::from_utf8(field.strip_prefix(&[kind])?.to_vec()).ok();
            fields().filter_map(of_kind).collect::<BTreeSet<_>>()
        };
        names(b'c').intersection(&names(b'n')).cloned().collect()
    }

    /// Returns the lease of a node.
    pub fn lease(&self, node: u16) -> Option<&str> {
        self.leases.get(&node).map(|lease| &*lease.text)
    }

    /// Returns the lease of a node with the time until it expires.
    pub fn find_lease(&self, node: u16) -> Option<FoundLease> {
        let Lease { text, until_ms } = self.leases.get(&node)?;
        Some(FoundLease { text: text.clone(), remaining_ms: until_ms.saturating_sub(self.now_ms) as i64 })
    }

    /// Returns whether a process has the lease of its node.
    pub fn has_lease(&self, process: NodeProcess) -> bool {
        self.lease(process.node).is_some_and(|text| is_of(text, process))
    }
}

impl SimJournal {
    /// Returns whether writes of the process to this era count.
    fn is_open(&self, era: u64) -> bool {
        self.state.as_ref().is_some_and(|state| state.era == Some(era) && !state.is_closed)
    }
}

fn is_of(text: &str, process: NodeProcess) -> bool {
    text.split_once(':').is_some_and(|(incarnation, _)| incarnation.parse() == Ok(process.incarnation))
}

/// The time that a lease lasts, in milliseconds.
pub(crate) const LEASE_MS: u64 = 4_000;
/// The times for which a journal is kept, in milliseconds: after its last renewal, and after other
/// nodes have closed it.
const KEPT_MS: u64 = 24 * 3_600_000;
const CLOSED_MS: u64 = 3_600_000;
