//! Sessions: the proof of a client, and those of its settings that wait for front-ends.

use super::share::ClientAddress;
use crate::acnet::setsdb;
use crate::authority::{Attempt, ProofConversation, ProvenPeer};

/// The part of a list that depends on its client's proof. Lists that only read have none.
#[derive(Debug, Default)]
pub(super) struct ProvenSession {
    pub(super) conversation: Option<Box<dyn ProofConversation>>,
    pub(super) peer: Option<ProvenPeer>,
    /// The time at which the proof expires, in milliseconds.
    pub(super) expires: Option<u64>,
    pub(super) is_enabled: bool,
    /// True if all roles that name its client count.
    pub(super) in_any_role: bool,
    /// The role that the client states; the configured roles decide its rights.
    pub(super) role: Option<String>,
}

/// Settings that are answered together.
#[derive(Debug)]
pub(super) struct SettingBatch {
    pub(super) list_id: i32,
    pub(super) settings: Vec<(i64, Attempt)>,
    /// The number of its settings that are logged, from the first on.
    pub(super) logged: usize,
    /// The number of its settings without a status.
    pub(super) open: usize,
    /// The bytes of its settings, which count towards the bounds of its client and address until
    /// the batch is finished.
    pub(super) bytes: usize,
    pub(super) address: ClientAddress,
    /// The values that front-ends have accepted.
    pub(super) written: Vec<setsdb::SettingEntry>,
}
