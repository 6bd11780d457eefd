//! Connections in acnetd's client protocol, and the callers whose requests are passed on.

use std::collections::HashMap;

use super::keys::ClientKey;
use crate::rad50::Rad50;

/// The state of a connection.
#[derive(Debug, Default)]
pub(super) struct RawState {
    pub(super) handle: Rad50,
    /// The number of the client's process, as it states it.
    pub(super) process: u32,
    pub(super) last_request: u16,
    /// The ids of requests that were passed on, by the ids that the client knows.
    pub(super) passed: HashMap<u16, u16, ahash::RandomState>,
}

/// A client's task and one of its requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    pub(super) client: ClientKey,
    /// The number of its task.
    pub(super) task_id: u16,
    /// The client's id of the request.
    pub(super) message: u16,
}
