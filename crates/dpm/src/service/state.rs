//! The state of the service: its clients, their lists, and the readings for them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use slab::Slab;

use super::client::DpmClient;
use super::gauges::Gauges;
use super::keys::ClientKey;
use super::list::ClientList;
use super::options::ServiceOptions;
use super::passing::Passing;
use super::playlist::Questions;
use super::recorder::Recorder;
use super::remotes::RemoteClients;
use super::room::RoomSteps;
use super::scrapers::ScrapeNetwork;
use super::session::SettingBatch;
use super::share::Shares;
use super::traffic::Traffic;
use super::watchers::{LastOverview, Watchers};
use crate::authority::SettingAuthority;
use crate::database::Database;
use crate::plot::Plots;
use crate::pool::{DevicePool, PoolCounters};
use crate::setting::Setter;
use crate::time::Moment;

/// Clients, lists and pool.
#[derive(Debug)]
pub struct Dpm {
    pub(super) options: ServiceOptions,
    pub(super) database: Arc<Database>,
    pub(super) pool: DevicePool,
    pub(super) plots: Plots,
    pub(super) passing: Passing,
    pub(super) remotes: RemoteClients,
    /// Replies and messages to other nodes.
    pub(super) answers: Vec<(usize, Vec<u8>)>,
    pub(super) traffic: Traffic,
    pub(super) outlets: Outlets,
    pub(super) list_ids: HashMap<i32, usize, ahash::RandomState>,
    pub(super) next_list: i32,
    pub(super) heartbeats: BinaryHeap<Reverse<(u64, i32)>>,
    pub(super) authority: SettingAuthority,
    pub(super) setter: Setter,
    pub(super) batches: Slab<SettingBatch>,
    /// Requests on all lists.
    pub(super) requests: usize,
    /// The shares of clients and their addresses in the common resources.
    pub(super) shares: Shares,
    /// Connections that have to complete a frame, by their deadlines, with one entry each.
    pub(super) patience: BinaryHeap<Reverse<(u64, ClientKey)>>,
    /// Connections that are over.
    pub(super) closing: Vec<ClientKey>,
    pub(super) watchers: Watchers,
    pub(super) last_overview: LastOverview,
    pub(super) scrapers: Vec<ScrapeNetwork>,
}

/// The outlets of readings, which are separate so that the pool can deliver while it is borrowed.
#[derive(Debug)]
pub(crate) struct Outlets {
    pub(super) clients: Slab<DpmClient>,
    pub(super) lists: Slab<ClientList>,
    /// Clients with output to be sent.
    pub(super) dirty: Vec<ClientKey>,
    /// Clients on other nodes with output to be sent.
    pub(super) dirty_remotes: Vec<ClientKey>,
    pub(super) now: Moment,
    /// The number of bytes that a client may have waiting.
    pub(super) queue: usize,
    /// The room that all clients share.
    pub(super) room: RoomSteps,
    /// Readings that were dropped.
    pub(super) dropped: u64,
    pub(super) recorder: Recorder,
    /// Devices in `/metrics`.
    pub(super) gauges: Gauges,
    /// Requests to the archive.
    pub(super) questions: Questions,
    /// The last epoch of a list.
    pub(super) epoch: u32,
}

/// The figures of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// The figures of the pool.
    pub pool: PoolCounters,
    /// Requests that are passed on to other nodes.
    pub passed: usize,
    /// Values that are being read.
    pub entries: usize,
    /// Outstanding requests to front-ends.
    pub groups: usize,
    /// Fast plots that front-ends collect.
    pub plots: usize,
    /// Process variables that are read or set.
    pub variables: usize,
    /// Process variables whose server was found.
    pub connected: usize,
    /// Circuits to servers of EPICS.
    pub circuits: usize,
    /// Topics of MQTT that are read.
    pub topics: usize,
    /// Topics with a message.
    pub topics_known: usize,
    /// Brokers that are connected.
    pub brokers: usize,
    /// Connections, and tasks of other nodes.
    pub clients: usize,
    /// Tasks of other nodes, which are included above.
    pub remotes: usize,
    /// Open lists of all clients.
    pub lists: usize,
    /// Deadlines: of lists' heartbeats, and of clients that must complete a frame.
    pub timers: usize,
    /// Counts of the shared resources that clients and addresses hold; 0 if there are no clients.
    pub shares: usize,
    /// Readings that were dropped because their client did not take them.
    pub dropped: u64,
    /// Readings that were not recorded because the disk was too slow.
    pub unrecorded: u64,
    /// Packets on the network.
    pub traffic: Traffic,
}
