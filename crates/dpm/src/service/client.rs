//! A client's connection: its protocol, its unparsed input and its queued output.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::caller::RawState;
use super::outbox::Outbox;
use super::remotes::RemoteTask;
use super::share::{ClientAddress, Holdings};
use crate::authority::ClientPlace;

/// A client with its lists, its unread input and the replies that wait for it.
#[derive(Debug, Default)]
pub(super) struct DpmClient {
    pub(super) speaks: Speaks,
    /// Bytes of an incomplete frame.
    pub(super) input: Vec<u8>,
    pub(super) outbox: Outbox,
    pub(super) lists: BTreeSet<usize>,
    /// The client's address and port; `None` for a client without a socket in this process.
    pub(super) from: Option<SocketAddr>,
    /// The place of a client that has no socket here: another thread connects on behalf of it, or
    /// it is on another node.
    pub(super) calls_from: Option<ClientPlace>,
    /// The protocol of a client that another thread brought.
    pub(super) brought: Option<BroughtBy>,
    /// The address that it counts for.
    pub(super) address: ClientAddress,
    /// Its share of the common resources.
    pub(super) held: Holdings,
    /// The steps of room that it has taken for its queued output.
    pub(super) steps: usize,
    /// True if no room was left when it needed a step.
    pub(super) is_full: bool,
    /// True if readings were dropped and it hasn't been told.
    pub(super) has_lost: bool,
    /// The time by which it has to name its protocol, or to complete the frame that it began, in
    /// milliseconds.
    pub(super) speaks_by: Option<u64>,
    /// True if it has an entry among the clients with deadlines.
    pub(super) is_waited_for: bool,
    /// The number of its proofs of identity that failed.
    pub(super) failures: u32,
    /// The number of its settings without a proof that were logged.
    pub(super) unproved: usize,
    pub(super) is_dirty: bool,
}

/// The protocol of a client that another thread of this process brings, whatever that thread speaks
/// with the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BroughtBy {
    /// gRPC, whose calls arrive on a port of their own.
    Grpc,
    /// Channel Access, the protocol of EPICS.
    ChannelAccess,
    /// pvAccess, the newer protocol of EPICS.
    PvAccess,
    /// HTTP: the API and its events.
    Http,
}

impl BroughtBy {
    /// Returns the name of the protocol for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::ChannelAccess | Self::PvAccess => "EPICS",
            Self::Http => "HTTP",
        }
    }
}

/// The language that a client speaks.
#[derive(Debug, Default)]
pub(super) enum Speaks {
    /// Not yet known.
    #[default]
    Unknown,
    /// DPM over TCP, with one list.
    Dpm,
    /// acnetd's client protocol.
    Raw(RawState),
    /// gRPC: the client sends no further input.
    Daq,
    /// None: the client watches, and sends nothing.
    Top,
    /// Packets of a task of another node.
    Node(RemoteTask),
}

impl DpmClient {
    /// Returns a client of an address, or one of this process.
    pub(super) fn new(from: Option<SocketAddr>, address: ClientAddress) -> Self {
        Self { from, address, ..Self::default() }
    }

    /// Returns the place from which it acts; `None` for a client of this process.
    pub(super) fn place(&self) -> Option<ClientPlace> {
        self.from.map(ClientPlace::Socket).or(self.calls_from)
    }

    /// Returns the name of the protocol that it speaks, for people.
    pub(super) fn protocol(&self) -> &'static str {
        self.brought.map_or_else(|| self.speaks.name(), BroughtBy::name)
    }
}

impl Speaks {
    /// Returns the name of the protocol, for people.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Unknown => "nothing yet",
            Self::Dpm => "DPM",
            Self::Raw(_) => "acnetd",
            Self::Daq => "gRPC",
            Self::Top => "top",
            Self::Node(_) => "ACNET",
        }
    }

    /// Returns whether it is a client on another node.
    pub(super) fn is_node(&self) -> bool {
        matches!(self, Self::Node(_))
    }
}
