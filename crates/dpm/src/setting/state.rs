//! Settings that are under way, and their outcomes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::change::AlarmPart;
use crate::acnet::{DeviceItem, RequestsById, setsdb};
use crate::database::{AcnetNode, DeviceRecord};
use crate::status::Status;

/// The mark of a setting for its outcome: its batch, and its place there.
pub type SettingTicket = (usize, usize);

/// Settings on their way.
#[derive(Debug)]
pub struct Setter {
    /// The nodes by number; `None` for those with other protocols.
    pub(super) nodes: Vec<Option<AcnetNode>>,
    /// Our own node: trunk and node.
    pub(super) address: u16,
    pub(super) writes: Vec<(usize, Write)>,
    pub(super) edits: Vec<(usize, BlockEdit)>,
    /// The place in `edits` of each item that is to be changed.
    pub(super) places: HashMap<(usize, DeviceItem), usize, ahash::RandomState>,
    /// Blocks that are being changed.
    pub(super) editing: HashSet<Block, ahash::RandomState>,
    /// Blocks of unanswered requests, until they answer.
    pub(super) doubtful: HashSet<Block, ahash::RandomState>,
    pub(super) exchanges: RequestsById<SettingExchange>,
    /// One timer for each exchange.
    pub(super) timers: BTreeSet<(u64, u16)>,
    pub(super) out: Vec<(usize, Vec<u8>)>,
    pub(super) done: Vec<SettingOutcome>,
}

/// The end of a setting, whether the front-end has taken it or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingOutcome {
    /// The mark by which it is answered.
    pub ticket: SettingTicket,
    /// The status that the front-end returned, or the reason why it wasn't asked or didn't answer.
    pub status: Status,
    /// The value that was sent to the front-end, if one was: for a part of an alarm block, the
    /// whole block.
    pub written: Option<setsdb::SettingEntry>,
}

/// Bytes to set.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) item: DeviceItem,
    pub(super) bytes: Vec<u8>,
    pub(super) tickets: Vec<SettingTicket>,
    /// The block that is changed by this, if there is one.
    pub(super) block: Option<Block>,
}

/// Parts of a block to set.
#[derive(Debug)]
pub(super) struct BlockEdit {
    pub(super) item: DeviceItem,
    pub(super) device: Arc<DeviceRecord>,
    pub(super) parts: Vec<(AlarmPart, SettingTicket)>,
}

/// Node, device and property of an alarm block.
pub(super) type Block = (usize, u32, u8);

/// Our task's number on our node: answers to settings come to this one, answers to readings to
/// another.
pub const TASK_ID: u16 = 0x5e7;

/// The longest time until an answer, in milliseconds.
pub const PATIENCE: u64 = 5000;

/// The longest time if the front-end has announced an answer, in milliseconds.
pub(super) const MOST_PATIENCE: u64 = 30_000;

/// A request that is outstanding.
#[derive(Debug)]
pub(super) struct SettingExchange {
    pub(super) node: usize,
    pub(super) phase: SettingPhase,
    /// The time when it was sent, in milliseconds.
    pub(super) sent: u64,
    /// The time at which it is given up, in milliseconds, and the time for which its timer is set:
    /// the same or earlier.
    pub(super) deadline: u64,
    pub(super) timer: u64,
}

/// The phase of a request.
#[derive(Debug)]
pub(super) enum SettingPhase {
    /// Reading blocks that are to be changed.
    Reading(Vec<BlockEdit>),
    /// Setting values.
    Writing(Vec<Write>),
}
