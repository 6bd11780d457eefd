//! The clients on other nodes, by their tasks.

use std::collections::{BTreeMap, HashMap};

use super::keys::ClientKey;

/// The clients on other nodes.
#[derive(Debug, Default)]
pub(super) struct RemoteClients {
    /// By the number of the node and that of the task.
    pub(super) by_task: BTreeMap<(usize, u16), ClientKey>,
    /// The time of the last packet of a node with clients, in milliseconds.
    pub(super) heard: HashMap<usize, u64, ahash::RandomState>,
    /// The time of the next check of the nodes, in milliseconds.
    pub(super) review: u64,
    /// Answers to searches, by the time at which they leave and the order of arrival.
    pub(super) delayed: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    pub(super) serial: u64,
}

/// The node and task of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemoteTask {
    pub(super) node: usize,
    pub(super) task_id: u16,
}

impl RemoteClients {
    /// Returns the number of tasks that are clients.
    pub(super) fn len(&self) -> usize {
        self.by_task.len()
    }

    /// Returns the time of the next action, in milliseconds.
    pub(super) fn deadline(&self) -> Option<u64> {
        let review = (!self.by_task.is_empty()).then_some(self.review);
        self.delayed.first_key_value().map(|((due, _), _)| *due).into_iter().chain(review).min()
    }
}
