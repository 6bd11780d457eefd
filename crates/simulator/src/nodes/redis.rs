//! Redis in the view of nodes: inboxes that only their owners empty, leases that expire, and
//! journals; a run may make it unavailable or empty.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rookery_cluster::courier::AppendOutcome;
use rookery_cluster::engine::FoundLease;
use rookery_cluster::wire::NodeProcess;
use rookery_hub::{JournalFields, JournalWrite};

/// Inboxes, leases and journals.
#[derive(Default)]
pub(crate) struct SimRedis {
    inboxes: BTreeMap<NodeProcess, Inbox>,
    leases: BTreeMap<u16, Lease>,
    journals: BTreeMap<NodeProcess, SimJournal>,
    /// True while it is unavailable.
    pub is_away: bool,
    /// The number of times that it broke all connections.
    pub breaks: u64,
    now_ms: u64,
}

#[derive(Default)]
struct Inbox {
    entries: VecDeque<(u64, Vec<u8>)>,
    last: u64,
}

/// The journal of a process.
#[derive(Default)]
struct SimJournal {
    era: u64,
    is_closed: bool,
    /// The fields by era, slot and name.
    fields: BTreeMap<(u64, u16, Vec<u8>), Vec<u8>>,
}

struct Lease {
    text: String,
    until_ms: u64,
}

impl SimRedis {
    /// Advances the clock, by which leases expire.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.leases.retain(|_, lease| lease.until_ms > now_ms);
    }

    /// Loses all data, and all connections.
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

    /// Returns the entry after a position, and its own position; entries before that position are
    /// removed.
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

    /// Renews the lease of a process, or takes it again. Returns `false` if another process has it.
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

    /// Begins an era of a process's journal. Returns `false` if others have closed the journal.
    pub fn begin_journal(&mut self, own: NodeProcess, era: u64) -> bool {
        let journal = self.journals.entry(own).or_default();
        if !journal.is_closed {
            journal.era = era;
        }
        !journal.is_closed
    }

    /// Carries out writes to a process's journal. Returns whether they count, which they don't if
    /// another era has begun or others have closed the journal.
    pub fn write_journal(&mut self, own: NodeProcess, era: u64, writes: Vec<JournalWrite>) -> bool {
        let Some(journal) = self.journals.get_mut(&own) else { return false };
        for JournalWrite { slot, field, value } in writes {
            match value {
                Some(value) => drop(journal.fields.insert((era, slot, field), value)),
                None => drop(journal.fields.remove(&(era, slot, field))),
            }
        }
        journal.era == era && !journal.is_closed
    }

    /// Removes an era of a process's journal.
    pub fn forget_journal(&mut self, own: NodeProcess, era: u64) {
        let journal = self.journals.get_mut(&own);
        journal.into_iter().for_each(|journal| journal.fields.retain(|(of, ..), _| *of != era));
    }

    /// Closes the journal of a process. Returns its era, if there is one.
    pub fn close_journal(&mut self, of: NodeProcess) -> Option<u64> {
        let journal = self.journals.get_mut(&of)?;
        journal.is_closed = true;
        Some(journal.era)
    }

    /// Ends the journal of a process, which is not read any more.
    pub fn end_journal(&mut self, own: NodeProcess) {
        let journal = self.journals.entry(own).or_default();
        journal.is_closed = true;
        journal.fields.clear();
    }

    /// Takes the data of some slots from an era of a process's journal.
    pub fn take_journal(&mut self, of: NodeProcess, era: u64, slots: &[u16]) -> JournalFields {
        let Some(journal) = self.journals.get_mut(&of) else { return JournalFields::new() };
        let is_wanted = |key: &(u64, u16, Vec<u8>)| key.0 == era && slots.contains(&key.1);
        let (taken, kept) = std::mem::take(&mut journal.fields).into_iter().partition(|(key, _)| is_wanted(key));
        journal.fields = kept;
        let taken: BTreeMap<_, _> = taken;
        taken.into_iter().map(|((_, _, field), value)| (field, value)).collect()
    }

    /// Returns the full JIDs of the sessions that the journal of a process has.
    pub fn journaled(&self, of: NodeProcess) -> Vec<String> {
        let Some(journal) = self.journals.get(&of) else { return Vec::new() };
        let names = |kind: u8| {
            let of_kind = move |(era, _, field): &(u64, u16, Vec<u8>)| {
                let name = field.strip_prefix(&[kind]).filter(|_| *era == journal.era)?;
                String::from_utf8(name.to_vec()).ok()
            };
            journal.fields.keys().filter_map(of_kind).collect::<BTreeSet<_>>()
        };
        names(b'c').intersection(&names(b'n')).cloned().collect()
    }

    /// Returns the lease of a node.
    pub fn lease(&self, node: u16) -> Option<&str> {
        self.leases.get(&node).map(|lease| &*lease.text)
    }

    /// Returns the lease of a node with the time that it still lasts.
    pub fn find_lease(&self, node: u16) -> Option<FoundLease> {
        let Lease { text, until_ms } = self.leases.get(&node)?;
        Some(FoundLease { text: text.clone(), remaining_ms: until_ms.saturating_sub(self.now_ms) as i64 })
    }

    /// Returns whether a process has the lease of its node.
    pub fn has_lease(&self, process: NodeProcess) -> bool {
        self.lease(process.node).is_some_and(|text| is_of(text, process))
    }
}

fn is_of(text: &str, process: NodeProcess) -> bool {
    text.split_once(':').is_some_and(|(incarnation, _)| incarnation.parse() == Ok(process.incarnation))
}

/// The time that a lease lasts, in milliseconds.
pub(crate) const LEASE_MS: u64 = 4_000;
