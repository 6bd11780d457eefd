//! The sessions that have changed: data of [`changes`](super::changes).

use std::collections::VecDeque;

use crate::link::Link;

/// The sessions that have changed.
#[derive(Debug, Default)]
pub(super) struct OutboxChanges {
    pub links: VecDeque<Link>,
    /// The number of pushes so far.
    pub pushes: u64,
}
