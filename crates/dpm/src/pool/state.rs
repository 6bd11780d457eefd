//! All that is being read, and what the pool did.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use indexmap::IndexSet;
use slab::Slab;

use super::entry::Entry;
use super::group::Group;
use super::keys::{EntryKey, GroupKey, Reader};
use super::silence::Silence;
use crate::acnet::Requests;
use crate::database::{Node, Wanted};
use crate::sdd::Shared;
use crate::stages::Stages;
use crate::when::When;

/// Takes what the pool makes: once for each reader of a reading.
pub trait Deliver {
    /// A reading for a reader. `last` tells that no more will come.
    fn deliver(&mut self, reader: Reader, message: &Arc<Shared>, last: bool);
}

/// What the pool did since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Readers that came.
    pub asked: u64,
    /// Readers that found their entry running.
    pub shared: u64,
    /// Devices that front-ends were asked for.
    pub devices_requested: u64,
    /// Requests that were sent to front-ends.
    pub requests: u64,
    /// Replies that were taken.
    pub replies: u64,
    /// Readings in them.
    pub readings: u64,
    /// Readings that were scaled and encoded: once for each form.
    pub encoded: u64,
    /// Readings that were given to readers.
    pub delivered: u64,
    /// Requests that went unanswered.
    pub timeouts: u64,
    /// Divisions of an unanswered request, to find the silent device in it.
    pub divided: u64,
    /// Requests to silent nodes for single devices, beside that.
    pub probes: u64,
    /// Replies that nobody asked for, or that came from elsewhere.
    pub strays: u64,
}

/// All that is being read.
#[derive(Debug)]
pub struct Pool {
    pub(super) nodes: Vec<Node>,
    /// Our own node: trunk and node.
    pub(super) address: u16,
    /// The time that a request to be asked once may take, in milliseconds.
    pub(super) once: u64,
    pub(super) entries: Slab<Entry>,
    pub(super) by_key: HashMap<(Wanted, When), EntryKey, ahash::RandomState>,
    pub(super) polls: Slab<Poll>,
    pub(super) polls_by_key: HashMap<(usize, When), usize, ahash::RandomState>,
    /// The serial of the next entry.
    pub(super) serial: u64,
    pub(super) groups: Slab<Group>,
    /// Outstanding requests.
    pub(super) requests: Requests<GroupKey>,
    /// One for each node.
    pub(super) fronts: Vec<Front>,
    pub(super) silence: Silence,
    /// Polls with entries that no group asks for yet, or with too many groups.
    pub(super) unsettled: Vec<usize>,
    /// One for each group.
    pub(super) timers: BTreeSet<(u64, GroupKey)>,
    pub(super) out: Vec<(usize, Vec<u8>)>,
    pub(super) counters: Counters,
    pub(super) stages: Stages,
}

/// All entries of a node that have the same event.
#[derive(Debug)]
pub(super) struct Poll {
    pub(super) node: usize,
    pub(super) when: When,
    /// Entries that no group asks for yet.
    pub(super) waiting: Vec<EntryKey>,
    pub(super) groups: IndexSet<GroupKey, ahash::RandomState>,
    pub(super) entries: usize,
    /// When its event was seen last, in milliseconds, if it waits for one.
    pub(super) event_at: Option<u64>,
    pub(super) is_unsettled: bool,
}

/// A node as its answers show it.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// The number of replies with readings that it gave, and when the last came, in milliseconds.
    pub(super) beats: u64,
    pub(super) beat_at: Option<u64>,
    /// Parts of unanswered requests that wait for its answer.
    pub(super) searching: usize,
    /// Requests for single silent devices, and how many of them are outstanding.
    pub(super) silent: usize,
    pub(super) alone: usize,
    /// Probes that wait for its answer.
    pub(super) probes: usize,
    /// When it may be asked for the next silent device, in milliseconds.
    pub(super) next: u64,
}
