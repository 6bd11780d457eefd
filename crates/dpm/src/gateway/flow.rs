//! The flow of updates to the client of a monitor, of which the newest is all that may wait.

use std::sync::Arc;

/// The updates of a monitor.
#[derive(Debug)]
pub(super) struct MonitorFlow {
    /// The updates that a client which counts them is ready to take; `None` for one that doesn't.
    credits: Option<u32>,
    /// The newest update, if it waits.
    newest: Option<Arc<[u8]>>,
    /// True if a waiting update was replaced by a newer one.
    is_overrun: bool,
    /// True until an update was sent; the first has all parts.
    pub(super) is_first: bool,
    /// True if it is in the queue of monitors whose updates may be sent.
    pub(super) is_queued: bool,
    /// The number of its request in the list, while it runs.
    pub(super) asked: Option<i64>,
}

impl MonitorFlow {
    /// Returns the flow to a client that has not started it.
    pub(super) fn new(credits: Option<u32>) -> Self {
        Self { credits, newest: None, is_overrun: false, is_first: true, is_queued: false, asked: None }
    }

    /// Returns the size of the update that waits.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.newest.as_ref().map_or(0, |update| update.len())
    }

    /// Replaces the waiting update by a newer one.
    pub(super) fn put(&mut self, update: Arc<[u8]>) {
        self.is_overrun |= self.newest.replace(update).is_some();
    }

    /// Lets the client take further updates.
    pub(super) fn acknowledge(&mut self, many: u32) {
        self.credits = self.credits.map(|credits| credits.saturating_add(many));
    }

    /// Returns whether an update waits that the client is ready to take.
    pub(super) fn is_ready(&self) -> bool {
        self.newest.is_some() && self.credits != Some(0)
    }

    /// Takes the update that may be sent, and whether older ones were left out before it.
    pub(super) fn take(&mut self) -> Option<(Arc<[u8]>, bool)> {
        if !self.is_ready() {
            return None;
        }
        self.credits = self.credits.map(|credits| credits - 1);
        self.is_first = false;
        let update = self.newest.take()?;
        Some((update, std::mem::take(&mut self.is_overrun)))
    }
}
