//! Watchers of the service at work.

use super::keys::ClientKey;

/// The clients that watch.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    pub(super) clients: Vec<ClientKey>,
    /// The time when they are told next, in milliseconds.
    pub(super) due: u64,
}

impl Watchers {
    /// Returns the time when they are told next, if there are any.
    pub(super) fn deadline(&self) -> Option<u64> {
        (!self.clients.is_empty()).then_some(self.due)
    }
}

/// The overview that was made last, as those get it who look.
#[derive(Debug, Default)]
pub(super) struct LastOverview {
    pub(super) made: Option<u64>,
    pub(super) text: String,
}
