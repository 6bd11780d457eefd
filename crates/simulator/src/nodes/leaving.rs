//! The end of a process that leaves its cluster in good order, in the same steps as the server's.

use rookery_cluster::members;

use crate::nodes::agent::{Agent, AgentNews};
use crate::nodes::journal;

/// The stages on the way of a process to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentEnd {
    Runs,
    /// Its homes go to other nodes, since this time in milliseconds.
    Leaves(u64),
    /// Its shards stop, since this time in milliseconds. True if all homes had left by then.
    Stops(u64, bool),
    /// Its row is being removed. True if everything was done in time.
    Withdraws(bool),
    /// It is over: in good order (true), or because other nodes have taken over or it was late.
    Over(bool),
}

impl Agent {
    /// Takes the next step on the way out, if it is possible now. Returns whether it was.
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

/// The time in which a node has to hand on its data, and the time in which it has to send its last
/// letters, in milliseconds.
const MOVES_MS: u64 = 30_000;
const FAREWELL_MS: u64 = 9_000;
