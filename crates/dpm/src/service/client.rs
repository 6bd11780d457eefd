//! A client's connection: its protocol, what it has sent, and what waits for it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::caller::RawState;
use super::outbox::Outbox;
use super::remotes::RemoteTask;
use super::share::{ClientAddress, Holdings};

/// A client.
#[derive(Debug, Default)]
pub(super) struct DpmClient {
    pub(super) speaks: Speaks,
    /// Bytes that make no whole frame yet.
    pub(super) input: Vec<u8>,
    pub(super) outbox: Outbox,
    pub(super) lists: BTreeSet<usize>,
    /// The client's address and port; `None` for a client that this process has no socket of.
    pub(super) from: Option<SocketAddr>,
    /// The address of a client that another thread brought, for the log.
    pub(super) calls_from: Option<SocketAddr>,
    /// The address that it counts for.
    pub(super) address: ClientAddress,
    /// Its part of what all clients share.
    pub(super) held: Holdings,
    /// Steps of room that it has taken for what waits for it.
    pub(super) steps: usize,
    /// There was no more when it needed some.
    pub(super) is_full: bool,
    /// The time until when it has to say what it speaks, or end the frame that it began, in
    /// milliseconds.
    pub(super) speaks_by: Option<u64>,
    /// There is an entry for it among those who are waited for.
    pub(super) is_waited_for: bool,
    /// The number of its proofs of identity that failed.
    pub(super) failures: u32,
    /// Settings that it tried without a proof and that were logged.
    pub(super) unproved: usize,
    pub(super) is_dirty: bool,
}

/// The language that a client speaks.
#[derive(Debug, Default)]
pub(super) enum Speaks {
    /// It has not said.
    #[default]
    Unknown,
    /// DPM over TCP, with one list.
    Dpm,
    /// acnetd's client protocol.
    Raw(RawState),
    /// gRPC: nothing comes from it any more.
    Daq,
    /// It watches, and has nothing to say.
    Top,
    /// Packets, as a task of another node.
    Node(RemoteTask),
}

impl DpmClient {
    /// Returns a client of an address, or of this process.
    pub(super) fn new(from: Option<SocketAddr>, address: ClientAddress) -> Self {
        Self { from, address, ..Self::default() }
    }
}

impl Speaks {
    /// Returns whether it is a client on another node.
    pub(super) fn is_node(&self) -> bool {
        matches!(self, Self::Node(_))
    }
}
