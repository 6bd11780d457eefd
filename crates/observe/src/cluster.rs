//! The cluster as this process sees it: the live nodes, and the traffic between them.
//!
//! The process has one such view, as it is part of at most one cluster. The thread that carries
//! letters writes it once a second; reading it doesn't wait for that thread.

use std::sync::{Mutex, PoisonError};

/// A process's view of its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterSeen {
    /// True while Redis can be reached.
    pub has_redis: bool,
    /// The number of processes that this one has found dead since its start, and whose homes other
    /// nodes or a new process have taken over.
    pub gone: u64,
    /// The journal of this process.
    pub journal: JournalSeen,
    /// All nodes, this one first.
    pub nodes: Vec<NodeSeen>,
}

/// A process's journal, from which other nodes restore its sessions and rooms if it dies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalSeen {
    /// True while Redis accepts it.
    pub is_kept: bool,
    /// The number of batches that were sent to Redis since the start.
    pub batches: u64,
    /// The number of writes in these batches: each field that was set or deleted counts once.
    pub writes: u64,
    /// The sum of the sizes of these writes.
    pub bytes: u64,
}

/// A node as another one sees it, or as it sees itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSeen {
    /// The name that the node's configuration gives it.
    pub name: String,
    /// False while the node is silent.
    pub is_up: bool,
    /// The number of slots, out of 16384, whose home is this node.
    pub slots: u64,
    /// The milliseconds by which the node's clock is ahead of this node's, negative if it is
    /// behind. `None` if that is unknown.
    pub clock_ms: Option<i64>,
    /// The traffic with the node; zero for this node itself.
    pub traffic: NodeTraffic,
}

/// The traffic between this process and a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeTraffic {
    /// The bytes of letters that the node hasn't received or handled yet.
    pub waiting_bytes: u64,
    /// The letters to it that Redis has accepted.
    pub sent: NodeCount,
    /// The letters from it.
    pub received: NodeCount,
    /// The number of letters to it that were refused, so that their senders got errors.
    pub refused: u64,
}

/// An amount of letters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCount {
    /// The number of letters. A stanza is one letter, for one recipient or for many.
    pub letters: u64,
    /// The number of entries in Redis that contained the letters.
    pub entries: u64,
    /// The bytes of these entries.
    pub bytes: u64,
}

impl NodeCount {
    /// Counts an entry.
    pub fn add(&mut self, letters: usize, bytes: usize) {
        self.letters += letters as u64;
        self.entries += 1;
        self.bytes += bytes as u64;
    }
}

static SEEN: Mutex<Option<ClusterSeen>> = Mutex::new(None);

/// Returns the latest view of the cluster, or `None` if this process isn't part of one.
pub fn latest() -> Option<ClusterSeen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Replaces the view that [`latest`] returns.
pub fn set_seen(seen: ClusterSeen) {
    *SEEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
}
