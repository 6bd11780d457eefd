//! A Redis as nodes see it: inboxes that only their owners empty, leases that run out, and all of
//! it away or forgotten when a run says so.

use std::collections::{BTreeMap, VecDeque};

use rookery_cluster::courier::AppendOutcome;
use rookery_cluster::wire::NodeProcess;

/// Inboxes and leases.
#[derive(Default)]
pub(crate) struct SimRedis {
    inboxes: BTreeMap<NodeProcess, Inbox>,
    leases: BTreeMap<u16, Lease>,
    /// Set while nobody reaches it.
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

struct Lease {
    text: String,
    until_ms: u64,
}

impl SimRedis {
    /// Lets time pass. Leases are over by that.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.leases.retain(|_, lease| lease.until_ms > now_ms);
    }

    /// Loses all that it had, and all connections.
    pub fn forget(&mut self) {
        self.inboxes.clear();
        self.leases.clear();
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

    /// Removes it.
    pub fn remove_inbox(&mut self, own: NodeProcess) {
        self.inboxes.remove(&own);
    }

    /// Returns the entry behind a position, and its own; what is before that position goes.
    pub fn read(&mut self, own: NodeProcess, after: u64) -> Option<(u64, Vec<u8>)> {
        let inbox = self.inboxes.get_mut(&own)?;
        while inbox.entries.front().is_some_and(|(at, _)| *at < after) {
            inbox.entries.pop_front();
        }
        inbox.entries.iter().find(|(at, _)| *at > after).cloned()
    }

    /// Takes the lease of a node, if nobody has it.
    pub fn take_lease(&mut self, node: u16, text: &str) -> bool {
        if self.leases.contains_key(&node) {
            return false;
        }
        self.set_lease(node, text);
        true
    }

    /// Renews the lease of a process, or takes it again. `false` if another process has it.
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

    /// Returns the lease of a node.
    pub fn lease(&self, node: u16) -> Option<&str> {
        self.leases.get(&node).map(|lease| &*lease.text)
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
