//! The state of requests to front-ends of ACNET.

use std::collections::{BTreeSet, HashMap};

use indexmap::IndexSet;
use slab::Slab;

use super::group::{GroupKey, RequestGroup};
use super::silence::Silence;
use crate::acnet::RequestsById;
use crate::database::{AcnetNode, FrontRequest};
use crate::pool::keys::EntryKey;
use crate::pool::readers::PoolCounters;
use crate::when::When;

/// All current readings from front-ends of ACNET.
#[derive(Debug)]
pub(crate) struct Acnet {
    /// The nodes by number; `None` for those with other protocols.
    pub(super) nodes: Vec<Option<AcnetNode>>,
    /// Our own node: trunk and node.
    pub(super) address: u16,
    /// The time that a single request may take, in milliseconds.
    pub(super) once: u64,
    pub(super) asked: NumberedEntries,
    pub(super) polls: Slab<Poll>,
    pub(super) polls_by_key: HashMap<(usize, When), usize, ahash::RandomState>,
    pub(super) groups: Slab<RequestGroup>,
    /// Outstanding requests.
    pub(super) requests: RequestsById<GroupKey>,
    /// One front for each node.
    pub(super) fronts: Vec<Front>,
    pub(super) silence: Silence,
    /// Polls with ungrouped entries, or with too many groups.
    pub(super) unsettled: Vec<usize>,
    /// One timer for each group.
    pub(super) timers: BTreeSet<(u64, GroupKey)>,
    pub(crate) out: Vec<(usize, Vec<u8>)>,
    pub(crate) counters: PoolCounters,
}

impl Acnet {
    /// Returns the node of a number.
    pub(super) fn node(&self, number: usize) -> Option<AcnetNode> {
        *self.nodes.get(number)?
    }
}

/// An entry, and its request.
#[derive(Debug)]
pub(super) struct AcnetEntry {
    pub(super) wanted: FrontRequest,
    pub(super) poll: usize,
    /// Distinguishes it from later entries with the same number.
    pub(super) serial: u64,
    /// Its request, and its place there.
    pub(super) group: Option<(GroupKey, usize)>,
    /// Its place among the ungrouped entries.
    pub(super) waits_at: Option<usize>,
}

/// Entries by the pool's numbers, some of which belong to other kinds of front-ends.
#[derive(Debug, Default)]
pub(super) struct NumberedEntries(Vec<Option<AcnetEntry>>);

impl NumberedEntries {
    pub(super) fn get(&self, key: EntryKey) -> Option<&AcnetEntry> {
        self.0.get(key)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, key: EntryKey) -> Option<&mut AcnetEntry> {
        self.0.get_mut(key)?.as_mut()
    }

    pub(super) fn put(&mut self, key: EntryKey, asked: AcnetEntry) {
        if self.0.len() <= key {
            self.0.resize_with(key + 1, || None);
        }
        self.0[key] = Some(asked);
    }

    pub(super) fn take(&mut self, key: EntryKey) -> Option<AcnetEntry> {
        self.0.get_mut(key)?.take()
    }
}

/// All entries of a node with the same event.
#[derive(Debug)]
pub(super) struct Poll {
    pub(super) node: usize,
    pub(super) when: When,
    /// The ungrouped entries.
    pub(super) waiting: Vec<EntryKey>,
    pub(super) groups: IndexSet<GroupKey, ahash::RandomState>,
    pub(super) entries: usize,
    /// The time when its event was last seen, in milliseconds, if it waits for one.
    pub(super) event_at: Option<u64>,
    pub(super) is_unsettled: bool,
}

/// The state of a node, by its answers.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// The number of its replies with readings, and the time of the last one in milliseconds.
    pub(super) beats: u64,
    pub(super) beat_at: Option<u64>,
    /// Parts of unanswered requests that wait for its answer.
    pub(super) searching: usize,
    /// Requests for single silent devices, and how many of them are outstanding.
    pub(super) silent: usize,
    pub(super) alone: usize,
    /// Probes that wait for its answer.
    pub(super) probes: usize,
    /// The time when it may be asked for the next silent device, in milliseconds.
    pub(super) next: u64,
}
