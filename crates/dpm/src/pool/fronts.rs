//! All kinds of front-ends, and the kind of each node.

use super::acnet::Acnet;
use super::channels::{CaWire, Channels, PvaWire};
use super::front_end::FrontEnd;
use super::readers::{Deliver, PoolCounters, PoolReaders};
use super::topics::Topics;
use crate::database::{DeviceNode, Reached};
use crate::time::Moment;

/// The front-ends of all kinds.
#[derive(Debug)]
pub(super) struct Fronts {
    pub(super) acnet: Acnet,
    pub(super) channel_access: Channels<CaWire>,
    pub(super) pv_access: Channels<PvaWire>,
    pub(super) topics: Topics,
    /// The kind of each node, by its number.
    kinds: Vec<FrontKind>,
}

/// A kind of front-ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrontKind {
    /// Asked by datagrams of ACNET.
    Acnet,
    /// Asked on circuits of Channel Access.
    ChannelAccess,
    /// Asked on circuits of pvAccess.
    PvAccess,
    /// Subscribed to at brokers of MQTT.
    Topics,
}

/// Evaluates an expression for the front-end that a node belongs to. A match chooses it, so that
/// passing readings to readers needs no virtual call.
macro_rules! of_node {
    (&mut $fronts:expr, $node:expr, $front:ident => $what:expr) => {
        match $fronts.kind($node) {
            $crate::pool::fronts::FrontKind::Acnet => {
                let $front = &mut $fronts.acnet;
                $what
            }
            $crate::pool::fronts::FrontKind::ChannelAccess => {
                let $front = &mut $fronts.channel_access;
                $what
            }
            $crate::pool::fronts::FrontKind::PvAccess => {
                let $front = &mut $fronts.pv_access;
                $what
            }
            $crate::pool::fronts::FrontKind::Topics => {
                let $front = &mut $fronts.topics;
                $what
            }
        }
    };
    (&$fronts:expr, $node:expr, $front:ident => $what:expr) => {
        match $fronts.kind($node) {
            $crate::pool::fronts::FrontKind::Acnet => {
                let $front = &$fronts.acnet;
                $what
            }
            $crate::pool::fronts::FrontKind::ChannelAccess => {
                let $front = &$fronts.channel_access;
                $what
            }
            $crate::pool::fronts::FrontKind::PvAccess => {
                let $front = &$fronts.pv_access;
                $what
            }
            $crate::pool::fronts::FrontKind::Topics => {
                let $front = &$fronts.topics;
                $what
            }
        }
    };
}

pub(super) use of_node;

impl Fronts {
    /// Returns the front-ends of these nodes, which are asked from the node `address` of ACNET. A
    /// single request may take `once` milliseconds.
    pub(super) fn new(nodes: &[DeviceNode], address: u16, once: u64) -> Self {
        Self {
            acnet: Acnet::new(nodes, address, once),
            channel_access: Channels::new(nodes, once),
            pv_access: Channels::new(nodes, once),
            topics: Topics::new(nodes, once),
            kinds: nodes.iter().map(FrontKind::of).collect(),
        }
    }

    /// Returns the kind of a node. For an unknown node it returns any kind, all of which refuse it.
    pub(super) fn kind(&self, node: usize) -> FrontKind {
        self.kinds.get(node).copied().unwrap_or(FrontKind::Acnet)
    }

    /// Returns the figures of all their work.
    pub(super) fn counters(&self) -> PoolCounters {
        self.acnet.counters() + self.channel_access.counters() + self.pv_access.counters() + self.topics.counters()
    }

    /// Returns the number of requests that are outstanding.
    pub(super) fn outstanding(&self) -> usize {
        let epics = self.channel_access.outstanding() + self.pv_access.outstanding();
        self.acnet.outstanding() + epics + self.topics.outstanding()
    }

    /// Does all due work.
    pub(super) fn tick(&mut self, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        self.acnet.tick(now, readers);
        self.channel_access.tick(now, readers);
        self.pv_access.tick(now, readers);
        self.topics.tick(now, readers);
    }

    /// Returns the time at which [`tick`](Self::tick) must be called next, in milliseconds.
    pub(super) fn deadline(&self) -> Option<u64> {
        let epics = self.channel_access.deadline().into_iter().chain(self.pv_access.deadline());
        self.acnet.deadline().into_iter().chain(epics).chain(self.topics.deadline()).min()
    }

    /// Replaces the nodes by those of another database.
    pub(super) fn replace_nodes(&mut self, nodes: &[DeviceNode]) {
        self.acnet.replace_nodes(nodes);
        self.channel_access.replace_nodes(nodes);
        self.pv_access.replace_nodes(nodes);
        self.topics.replace_nodes(nodes);
        self.kinds = nodes.iter().map(FrontKind::of).collect();
    }
}

impl FrontKind {
    fn of(node: &DeviceNode) -> Self {
        match node.reached {
            Reached::Acnet(_) => Self::Acnet,
            Reached::ChannelAccess(_) => Self::ChannelAccess,
            Reached::PvAccess(_) => Self::PvAccess,
            Reached::Mqtt(_) => Self::Topics,
        }
    }
}
