//! Our node as others on the network see it: it answers pings and questions for its version and tasks, and refuses requests to tasks that it has not.
//!
//! Answers go to nodes of the database only, and to where the database says that they are: nobody can make this node write to somebody else.

use super::{Dpm, TASK};
use crate::acnet::{ACNET, Header, Kind, MULTICAST_NODE, Packet};
use crate::rad50::Rad50;
use crate::status::Status;

/// Packets that came and went over the network, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Messages that nobody answers, from others.
    pub messages_in: u32,
    /// Requests from others.
    pub requests_in: u32,
    /// Replies to us.
    pub replies_in: u32,
    /// Messages of ours.
    pub messages_out: u32,
    /// Requests of ours.
    pub requests_out: u32,
    /// Replies of ours.
    pub replies_out: u32,
}

impl Traffic {
    /// Counts a packet that came.
    pub(super) fn came(&mut self, kind: Kind) {
        let counter = match kind {
            Kind::Message => &mut self.messages_in,
            Kind::Request | Kind::MultipleRequest => &mut self.requests_in,
            Kind::Reply | Kind::ReplyWithMore => &mut self.replies_in,
            Kind::Cancel => return,
        };
        *counter = counter.wrapping_add(1);
    }

    /// Counts a datagram of one packet that goes, by its flags.
    pub(super) fn goes(&mut self, datagram: &[u8]) {
        let counter = match datagram {
            [2, ..] => return,
            [_, flags, ..] if flags & 0x0e == 0x02 => &mut self.requests_out,
            [_, flags, ..] if flags & 0x0e == 0x04 => &mut self.replies_out,
            _ => &mut self.messages_out,
        };
        *counter = counter.wrapping_add(1);
    }

    /// In the order in which acnetd tells them; the last is requests that were refused because too many waited.
    pub(super) fn told(&self) -> [u32; 7] {
        let received = [self.messages_in, self.requests_in, self.replies_in];
        let sent = [self.messages_out, self.requests_out, self.replies_out];
        [received[0], received[1], received[2], sent[0], sent[1], sent[2], 0]
    }
}

impl Dpm {
    /// Answers a request that came from the node of a number, over the network.
    pub(super) fn answer_node(&mut self, node: usize, packet: Packet<'_>) {
        let header = packet.header;
        let is_request = matches!(header.kind, Kind::Request | Kind::MultipleRequest);
        let is_known = self.database.nodes().get(node).is_some_and(|node| node.address == header.client);
        if !is_request || !is_known {
            return;
        }
        let (status, body) = match header.task {
            ACNET => level_two(packet.body),
            // What is asked of everyone is refused by nobody.
            _ if header.server == MULTICAST_NODE => return,
            _ => (Status::NO_TASK, Vec::new()),
        };
        let answer = Header { server: self.options.address, ..header }.answer(status, false);
        self.answers.push((node, answer.datagram(&body)));
    }
}

/// What the task `ACNET` answers: a status, and the body of the reply.
pub(super) fn level_two(body: &[u8]) -> (Status, Vec<u8>) {
    let words: Vec<u8> = match *body {
        [0, ..] => vec![0, 0],
        [2, number, ..] => match TASKS.get(usize::from(number)) {
            Some(task) => task.0.to_le_bytes().to_vec(),
            None => return (Status::NO_TASK, Vec::new()),
        },
        [3, ..] => VERSIONS.to_vec(),
        [4, 0, ..] => {
            let mut reply = (TASKS.len() as u16).to_le_bytes().to_vec();
            reply.extend(TASKS.iter().flat_map(|task| task.0.to_le_bytes()));
            reply.extend((0..).take(TASKS.len()));
            reply
        }
        _ => return (Status::LEVEL2, Vec::new()),
    };
    (Status::SUCCESS, words)
}

/// Our tasks by number.
const TASKS: [Rad50; 2] = [ACNET, TASK];
/// Of the protocol, the daemon's inside and its interface: those of the daemon whose behaviour this is.
const VERSIONS: [u8; 6] = [0x15, 0x09, 0x03, 0x01, 0x00, 0x09];
