//! The state of the simulated nodes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use super::event::{SimulatedClock, SimulatedTimes};
use super::play::Player;
use crate::acnet::ftpman::{Setup, SnapshotSetup};
use crate::acnet::{AcnetHeader, DeviceItem};
use crate::database::Database;

/// All simulated nodes.
#[derive(Debug)]
pub struct Simulator {
    pub(super) database: Database,
    pub(super) player: Player,
    pub(super) clock: Arc<SimulatedClock>,
    pub(super) streams: HashMap<StreamKey, SimulatedStream, ahash::RandomState>,
    pub(super) timers: BinaryHeap<Reverse<(u64, StreamKey)>>,
    pub(super) plots: HashMap<StreamKey, SimulatedPlot, ahash::RandomState>,
    pub(super) plot_timers: BinaryHeap<Reverse<(u64, StreamKey)>>,
    pub(super) snapshots: HashMap<StreamKey, Snapshot, ahash::RandomState>,
    pub(super) snapshot_timers: BinaryHeap<Reverse<(u64, StreamKey)>>,
    /// Delayed datagrams, by the time at which they leave, in milliseconds.
    pub(super) delayed: BinaryHeap<Reverse<(u64, SocketAddr, Vec<u8>)>>,
    pub(super) out: Vec<(SocketAddr, Vec<u8>)>,
    /// The number of requests so far, for tests and displays.
    pub(super) requests: u64,
}

/// The requester: its address, and the request's ids.
pub(super) type StreamKey = (SocketAddr, u16, u16);

/// A request that is answered repeatedly.
#[derive(Debug)]
pub(super) struct SimulatedStream {
    pub(super) header: AcnetHeader,
    pub(super) asked: SimulatedRequest,
    pub(super) when: SimulatedTimes,
    pub(super) due: u64,
    pub(super) sequence: u32,
    /// True if the device had the awaited state at the last look.
    pub(super) was_there: bool,
    /// The time at which the answer to a reached state is due.
    pub(super) answer_at: Option<u64>,
    /// The node's number of restarts when it began, by which a later restart is noticed.
    pub(super) born: u64,
}

/// The request, in the form of its protocol.
#[derive(Debug, Clone)]
pub(super) struct SimulatedRequest {
    pub(super) items: Vec<DeviceItem>,
    pub(super) with_times: bool,
}

/// A plot that is being sent.
#[derive(Debug)]
pub(super) struct SimulatedPlot {
    pub(super) header: AcnetHeader,
    pub(super) setup: Setup,
    pub(super) is_long: bool,
    pub(super) due: u64,
    /// The next point, in tens of microseconds of the simulator's time.
    pub(super) next: u64,
    /// The node's number of restarts when it began, by which a later restart is noticed.
    pub(super) born: u64,
}

/// A snapshot that was set up.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) header: AcnetHeader,
    pub(super) setup: SnapshotSetup,
    pub(super) devices: Vec<SimulatedDevice>,
    /// The time at which it is armed, in milliseconds; `None` if its event never occurs.
    pub(super) armed: Option<u64>,
    /// The time at which it is armed, in milliseconds since 1970.
    pub(super) armed_unix: i64,
    /// The time of the next report to its requester.
    pub(super) due: Option<u64>,
    /// The node's number of restarts when it was set up.
    pub(super) born: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SimulatedDevice {
    /// The size of a value in bytes; `None` if the device has no snapshots.
    pub(super) length: Option<u32>,
    /// The next point to return.
    pub(super) next: u32,
}
