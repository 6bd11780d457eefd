//! Requests that are passed on to other nodes.

use std::collections::BTreeSet;

use super::caller::Caller;
use crate::acnet::{ACNET, AcnetHeader, PacketKind, RequestsById, ftpman, gets32, requests, retdat};
use crate::rad50::Rad50;
use crate::status::Status;
use crate::time::Moment;

/// The tasks of other nodes that clients may ask unless the operator names others.
pub const PASSED_ON: [Rad50; 4] = [ACNET, retdat::TASK, gets32::TASK, ftpman::TASK];

/// All requests that are passed on.
#[derive(Debug)]
pub(super) struct Passing {
    pub(super) tasks: Vec<Rad50>,
    pub(super) requests: RequestsById<Passed>,
    /// The end of each request's time, with its id.
    pub(super) due: BTreeSet<(u64, u16)>,
    pub(super) out: Vec<(usize, Vec<u8>)>,
}

/// A request that was passed on.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) caller: Caller,
    pub(super) node: usize,
    pub(super) task: Rad50,
    pub(super) is_multiple: bool,
    /// The time for which the node may be silent, in milliseconds.
    pub(super) patience: u64,
    pub(super) due: u64,
}

impl Default for Passing {
    fn default() -> Self {
        Self {
            tasks: PASSED_ON.to_vec(),
            requests: RequestsById::within(requests::CLIENTS),
            due: BTreeSet::new(),
            out: Vec::new(),
        }
    }
}

impl Passing {
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| *due)
    }

    pub(super) fn flush(&mut self) -> std::vec::Drain<'_, (usize, Vec<u8>)> {
        self.out.drain(..)
    }

    /// Extends a request's time.
    pub(super) fn wait(&mut self, id: u16, now: Moment) {
        if let Some(passed) = self.requests.get_mut(id) {
            self.due.remove(&(passed.due, id));
            passed.due = now.millis + passed.patience;
            self.due.insert((passed.due, id));
        }
    }

    /// Removes a request.
    pub(super) fn close(&mut self, id: u16) -> Option<Passed> {
        let passed = self.requests.close(id)?;
        self.due.remove(&(passed.due, id));
        Some(passed)
    }

    pub(super) fn cancel(&mut self, node: usize, header: AcnetHeader) {
        let cancel = AcnetHeader { kind: PacketKind::Cancel, status: Status::SUCCESS, ..header };
        self.out.push((node, cancel.datagram(&[])));
    }
}
