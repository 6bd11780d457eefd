//! Watchers of the service at work.

use super::keys::ClientKey;
use super::lines::FrontEndLine;

/// The clients that watch.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    pub(super) clients: Vec<ClientKey>,
    /// The time of the next update, in milliseconds.
    pub(super) due: u64,
}

impl Watchers {
    /// Returns the time of the next update, if there are any watchers.
    pub(super) fn deadline(&self) -> Option<u64> {
        (!self.clients.is_empty()).then_some(self.due)
    }
}

/// The latest overview, which is reused while it is fresh.
#[derive(Debug, Default)]
pub(super) struct LastOverview {
    pub(super) made: Option<u64>,
    pub(super) text: String,
    /// The front-ends in the latest overview, for `/metrics`.
    pub(super) front_ends: Vec<FrontEndLine>,
}
