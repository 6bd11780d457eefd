//! Passing on: requests of acnetd's clients to tasks of other nodes go to those nodes, and the
//! replies come back.
//!
//! Requests are only passed on to tasks that read: settings go through DPM, which checks
//! permissions. Such requests are not pooled, so their number is bounded for each client, each
//! address and in total, and each of them ends.
//!
//! Invariants:
//! - A reply counts only if its id is outstanding and it comes from the node that was asked; any
//!   other is answered with a cancel.
//! - A single request ends with the first reply other than "pending", or with `[1 -6]` when its
//!   time is up. A request for many replies continues, and its client gets a status whenever it is
//!   pending.
//! - A request is cancelled on its node if its client cancels it or disconnects.

use super::Dpm;
use super::caller::Caller;
use super::keys::ClientKey;
use super::packets;
use super::passing::Passed;
use super::share::Good;
use crate::acnet::{AcnetHeader, AcnetPacket, PacketKind, gets32, retdat, sets32};
use crate::database::DeviceNode;
use crate::rad50::Rad50;
use crate::status::Status;
use crate::time::Moment;

/// Reads the name of a task that requests may be passed on to.
///
/// # Errors
/// A text with the reason: the name is invalid, or the task sets.
pub fn read_passed_task(name: &str) -> Result<Rad50, &'static str> {
    match Rad50::parse(name) {
        Ok(retdat::SETTING_TASK | sets32::TASK) => {
            Err("a task that sets nothing: settings go through DPM, which checks permissions")
        }
        Ok(task) if task != Rad50::default() => Ok(task),
        _ => Err("the name of a task, up to six of A-Z, 0-9, $, . and %"),
    }
}

/// A request of a client to another node.
pub(super) struct PassedErrand<'a> {
    pub(super) node: u16,
    pub(super) task: Rad50,
    pub(super) is_multiple: bool,
    /// The time for which the node may be silent, in milliseconds, if the client set one.
    pub(super) patience: Option<u32>,
    pub(super) body: &'a [u8],
}

impl Dpm {
    /// Lets clients of acnetd's protocol ask these tasks of other nodes, and no others.
    pub fn pass_on_to(&mut self, tasks: Vec<Rad50>) {
        self.passing.tasks = tasks;
    }

    /// Passes a request on to another node. Errors are the statuses with which the client's command
    /// is acknowledged.
    pub(super) fn pass_on(&mut self, caller: Caller, errand: &PassedErrand<'_>, now: Moment) -> Result<(), Status> {
        let PassedErrand { node, task, is_multiple, patience, body } = *errand;
        let place = self.database.at_address(node).ok_or(Status::NO_NODE)?;
        // The sixth byte says whether values are set, for which this task isn't meant.
        let sets = task == gets32::TASK && body.get(5).is_some_and(|setting| *setting != 0);
        if sets || !self.passing.tasks.contains(&task) {
            return Err(Status::REQREJ);
        }
        if body.len() > LARGEST {
            return Err(Status::TRUNC_REQ);
        }
        self.check_share(caller.client, Good::Passed, 1)?;
        let patience = patience.unwrap_or(LONGEST).clamp(SHORTEST, LONGEST).into();
        let due = now.millis + patience;
        let request = Passed { caller, node: place, task, is_multiple, patience, due };
        let id = self.passing.requests.open(request).ok_or(Status::BUSY)?;
        self.passing.due.insert((due, id));
        self.count(caller.client, Good::Passed, 1);
        if let Some(state) = self.raw(caller.client) {
            state.passed.insert(caller.message, id);
        }
        let kind = if is_multiple { PacketKind::MultipleRequest } else { PacketKind::Request };
        let header = self.header_to(node, task, kind, id);
        self.passing.out.push((place, header.datagram(body)));
        Ok(())
    }

    /// Handles a reply to a request that was passed on.
    pub(super) fn take_passed(&mut self, node: usize, packet: AcnetPacket<'_>, now: Moment) {
        let header = packet.header;
        let is_its = |passed: &&Passed| passed.node == node && header.client == self.options.address;
        let Some(passed) = self.passing.requests.get(header.message).filter(is_its) else {
            return self.passing.cancel(node, header);
        };
        let is_pending = header.status == Status::PEND && header.kind == PacketKind::ReplyWithMore;
        let is_last = header.kind == PacketKind::Reply || !passed.is_multiple && !is_pending;
        let (caller, is_multiple) = (passed.caller, passed.is_multiple);
        let status = match header.status {
            Status::SUCCESS if is_last && is_multiple => Status::ENDMULT,
            status => status,
        };
        if is_last {
            self.end_passed(header.message);
        } else {
            self.passing.wait(header.message, now);
            if !self.outlets.makes_room(caller.client) {
                self.outlets.dropped += 1;
                return;
            }
        }
        self.tell(caller, AcnetHeader { status, ..header }, !is_last, packet.body);
    }

    /// Ends requests whose time is up, or informs their clients that they are still pending.
    pub(super) fn tick_passed(&mut self, now: Moment) {
        while let Some((_, id)) = self.passing.due.first().copied().filter(|(due, _)| *due <= now.millis) {
            let Some(passed) = self.passing.requests.get(id) else { return };
            let (caller, task, is_multiple, place) = (passed.caller, passed.task, passed.is_multiple, passed.node);
            let node = self.database.nodes().get(place).and_then(DeviceNode::acnet).map_or(0, |node| node.address);
            let header = self.header_to(node, task, PacketKind::Cancel, id);
            let status = if is_multiple { Status::PEND } else { Status::REQTMO };
            if is_multiple {
                self.passing.wait(id, now);
            } else {
                self.end_passed(id);
                self.passing.cancel(place, header);
            }
            self.tell(caller, AcnetHeader { status, ..header }, is_multiple, &[]);
        }
    }

    /// Cancels a request that was passed on for a client. Returns whether there was one.
    pub(super) fn cancel_passed(&mut self, client: ClientKey, message: u16) -> bool {
        let Some(id) = self.raw(client).and_then(|state| state.passed.get(&message).copied()) else { return false };
        let Some(passed) = self.end_passed(id) else { return false };
        let node = self.database.nodes().get(passed.node).and_then(DeviceNode::acnet).map_or(0, |node| node.address);
        let header = self.header_to(node, passed.task, PacketKind::Cancel, id);
        self.passing.cancel(passed.node, header);
        true
    }

    /// Cancels all requests that were passed on for a client.
    pub(super) fn cancel_all_passed(&mut self, client: ClientKey) {
        let messages: Vec<u16> =
            self.raw(client).map(|state| state.passed.keys().copied().collect()).unwrap_or_default();
        for message in messages {
            self.cancel_passed(client, message);
        }
    }

    fn end_passed(&mut self, id: u16) -> Option<Passed> {
        let passed = self.passing.close(id)?;
        self.count(passed.caller.client, Good::Passed, -1);
        if let Some(state) = self.raw(passed.caller.client) {
            state.passed.remove(&passed.caller.message);
        }
        Some(passed)
    }

    fn header_to(&self, node: u16, task: Rad50, kind: PacketKind, message: u16) -> AcnetHeader {
        let (client, status) = (self.options.address, Status::SUCCESS);
        AcnetHeader { kind, status, server: node, client, task, task_id: TASK_ID, message }
    }

    /// Sends a client a reply from another node, as a reply to its own request.
    fn tell(&mut self, caller: Caller, header: AcnetHeader, more: bool, body: &[u8]) {
        let Caller { client, message, task_id } = caller;
        let mut bytes = Vec::new();
        packets::data(&AcnetHeader { message, task_id, ..header }, more, &mut bytes, |bytes| {
            bytes.extend_from_slice(body)
        });
        self.outlets.frame(client, bytes);
    }
}

/// Returns whether a name stands for a node.
pub(super) fn is_called(node: &DeviceNode, name: Rad50) -> bool {
    node.name == name || node.aliases.contains(&name)
}

/// Our task's number on our node for these requests, whose ids differ from those of the pool, the
/// plots and settings.
pub(super) const TASK_ID: u16 = 4;
/// The largest request, in bytes: the capacity of a packet of the network.
const LARGEST: usize = 65_484;
/// The shortest time limit for a node, in milliseconds, as clients of acnetd know it.
const SHORTEST: u32 = 400;
/// The longest time limit, in milliseconds.
const LONGEST: u32 = 390_000;
