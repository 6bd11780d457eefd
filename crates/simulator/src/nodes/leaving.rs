//! The end of a process in a cluster that leaves in good order, in the steps of the server.

use rookery_cluster::members;

use crate::nodes::agent::{Agent, AgentNews};
use crate::nodes::journal;

/// The way of a process to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentEnd {
    Runs,
    /// Its homes go to others, since this time.
    Leaves(u64),
    /// Its shards stop, since this time. True if everything there has left.
    Stops(u64, bool),
    /// Its row is being removed.
    Withdraws(bool),
    /// It is over: in order, or because others have taken over.
    Over(bool),
}

impl Agent {
    /// Continues with leaving, as far as possible.
    pub(super) fn leave(&mut self) -> bool {
        let now_ms = self.now_ms;
        match self.end {
            AgentEnd::Runs | AgentEnd::Withdraws(_) | AgentEnd::Over(_) => false,
            AgentEnd::Leaves(since) => {
                let is_out = self.server.has_moved_out();
                if !is_out && now_ms < since + MOVES_MS {
                    return false;
                }
                self.is_deaf = true;
                self.server.begin_to_stop();
                self.end = AgentEnd::Stops(now_ms, is_out);
                true
            }
            AgentEnd::Stops(since, is_out) => {
                let is_done = self.server.is_finished() && self.courier.may_end();
                if !is_done && now_ms < since + FAREWELL_MS {
                    return false;
                }
                let (meta, me) = (self.members.meta.clone(), self.table.me());
                let (reach, has_connection) = (self.reach.clone(), self.connection.is_some());
                self.calls.push(Box::pin(async move {
                    journal::end(reach, has_connection, meta.clone(), me).await;
                    _ = members::withdraw(&*meta, me).await;
                    AgentNews::Withdrawn
                }));
                self.end = AgentEnd::Withdraws(is_out && is_done);
                true
            }
        }
    }
}

/// The times that a node has to hand on its data, and to send its last letters.
const MOVES_MS: u64 = 30_000;
const FAREWELL_MS: u64 = 9_000;
