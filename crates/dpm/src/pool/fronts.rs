//! All kinds of front-ends, and which of them a node belongs to.

use super::acnet::Acnet;
use super::front_end::FrontEnd;
use super::readers::{Counters, Deliver, Readers};
use crate::database::Node;
use crate::time::Moment;

/// The front-ends of all kinds.
#[derive(Debug)]
pub(super) struct Fronts {
    pub(super) acnet: Acnet,
}

/// A kind of front-ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Asked by datagrams of ACNET.
    Acnet,
}

/// Evaluates an expression for the front-end that a node belongs to. It is chosen by a match and
/// not by a virtual call, so that readings are given to their readers without one.
macro_rules! of_node {
    (&mut $fronts:expr, $node:expr, $front:ident => $what:expr) => {
        match $fronts.kind($node) {
            $crate::pool::fronts::Kind::Acnet => {
                let $front = &mut $fronts.acnet;
                $what
            }
        }
    };
    (&$fronts:expr, $node:expr, $front:ident => $what:expr) => {
        match $fronts.kind($node) {
            $crate::pool::fronts::Kind::Acnet => {
                let $front = &$fronts.acnet;
                $what
            }
        }
    };
}

pub(super) use of_node;

impl Fronts {
    /// Asks these nodes, from the node `address` of ACNET. What is asked once may take `once`
    /// milliseconds.
    pub(super) fn new(nodes: &[Node], address: u16, once: u64) -> Self {
        Self { acnet: Acnet::new(nodes, address, once) }
    }

    /// Returns the kind of a node.
    pub(super) fn kind(&self, _: usize) -> Kind {
        Kind::Acnet
    }

    /// Returns the figures of what all did.
    pub(super) fn counters(&self) -> Counters {
        self.acnet.counters()
    }

    /// Returns the number of requests that are outstanding.
    pub(super) fn outstanding(&self) -> usize {
        self.acnet.outstanding()
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Moment, readers: &mut Readers<'_, impl Deliver>) {
        self.acnet.tick(now, readers);
    }

    /// Returns when [`tick`](Self::tick) has something to do next, in milliseconds.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.acnet.deadline()
    }

    /// Takes on the nodes of another database.
    pub(super) fn replace_nodes(&mut self, nodes: &[Node]) {
        self.acnet.replace_nodes(nodes);
    }
}
