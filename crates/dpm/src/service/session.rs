//! Sessions: the proof of a client, and those of its settings that wait for front-ends.

use super::share::ClientAddress;
use crate::acnet::setsdb;
use crate::authority::{Attempt, ProofConversation, ProvenPeer};

/// The part of a list that depends on its client's proof. Lists that only read have none.
#[derive(Debug, Default)]
pub(super) struct ProvenSession {
    pub(super) conversation: Option<Box<dyn ProofConversation>>,
    pub(super) peer: Option<ProvenPeer>,
    /// The time when the proof ends, in milliseconds.
    pub(super) expires: Option<u64>,
    pub(super) is_enabled: bool,
    /// All roles that name its client count.
    pub(super) in_any_role: bool,
    /// As the client states it; the roles decide its rights.
    pub(super) role: Option<String>,
}

/// Settings that are answered together.
#[derive(Debug)]
pub(super) struct SettingBatch {
    pub(super) list_id: i32,
    pub(super) settings: Vec<(i64, Attempt)>,
    /// The number of the first of them that are written to the log.
    pub(super) logged: usize,
    /// The number of them that have no status yet.
    pub(super) open: usize,
    /// The bytes that count meanwhile for its client and the client's address.
    pub(super) bytes: usize,
    pub(super) address: ClientAddress,
    /// The entries that front-ends have accepted.
    pub(super) written: Vec<setsdb::SettingEntry>,
}
