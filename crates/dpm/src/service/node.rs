//! Our node as others on the network see it: it replies to pings and to requests for its version,
//! its tasks and its counters, has clients among the tasks of others ([`remote`](super::remote)),
//! and refuses requests to unknown tasks.
//!
//! Replies go only to nodes of the database, at the addresses that it gives, so that this node
//! can't be made to write to other machines. Beside an acnetd, they go to any node: acnetd has the
//! table of nodes, and sends them.

use std::net::SocketAddr;

use super::keys::TASK;
use super::traffic::Traffic;
use super::{Dpm, ServiceOptions};
use crate::acnet::{ACNET, AcnetHeader, AcnetPacket, MULTICAST_NODE, PacketKind, SCALE, SYNC};
use crate::database::{AcnetNode, DeviceNode, Protocol};
use crate::rad50::Rad50;
use crate::status::Status;
use crate::time::Moment;

impl Dpm {
    /// Returns the number of the node with an address whose packets come from a socket. The service
    /// replies to it by this number.
    pub(super) fn number_of_node(&self, from: SocketAddr, address: u16) -> Option<usize> {
        // Several nodes may share a socket.
        let is_it = |node: &DeviceNode| node.acnet().is_some_and(|node| node.socket == from && node.address == address);
        let known = self.database.nodes().iter().position(is_it);
        known.or_else(|| (self.options.acnetd == Some(from)).then_some(FOREIGN + usize::from(address)))
    }

    /// Returns the node with a number, which the database need not have beside an acnetd.
    pub(super) fn network_node(&self, number: usize) -> Option<AcnetNode> {
        network_node(self.database.nodes(), &self.options, number)
    }

    /// Answers a request that came from the node of a number, over the network.
    pub(super) fn answer_node(&mut self, node: usize, packet: AcnetPacket<'_>, now: Moment) {
        let header = packet.header;
        let is_request = matches!(header.kind, PacketKind::Request | PacketKind::MultipleRequest);
        let has_lists = header.task == TASK || header.task == SYNC;
        let is_for_dpm = has_lists && (is_request || header.kind == PacketKind::Cancel);
        let is_known = self.network_node(node).is_some_and(|node| node.address == header.client);
        if !is_known || !(is_request || is_for_dpm) {
            return;
        }
        if is_for_dpm {
            return self.take_remote(node, packet, now);
        }
        let (status, body) = match header.task {
            ACNET => self.level_two(packet.body),
            SCALE => match self.scale(packet.body, header.server == MULTICAST_NODE) {
                Some(reply) => reply,
                None => return,
            },
            // A request to all nodes gets no refusal.
            _ if header.server == MULTICAST_NODE => return,
            _ => (Status::NO_TASK, Vec::new()),
        };
        let answer = AcnetHeader { server: self.options.address, ..header }.answer(status, false);
        self.answers.push((node, answer.datagram(&body)));
    }

    /// Returns the reply of the task `ACNET`: a status, and the body.
    ///
    /// The request types are those of the public daemon: 0 ping, 1 and 18 tasks by name and number,
    /// 2 the same in one word, 3 versions, 4 all tasks, 5 the resources of tasks, 6 statistics, 9
    /// the number of packets, 20 our address.
    pub(super) fn level_two(&self, body: &[u8]) -> (Status, Vec<u8>) {
        let words: Vec<u16> = match *body {
            [0, ..] => vec![0],
            [1, _, t0, t1, t2, t3, ..] => {
                let name = Rad50(u32::from_le_bytes([t0, t1, t2, t3]));
                match TASKS.iter().position(|task| *task == name) {
                    Some(number) => vec![number as u16],
                    None => return (Status::NO_TASK, Vec::new()),
                }
            }
            [2, number, ..] => return task_name(u16::from(number)),
            [3, ..] => VERSIONS.to_vec(),
            [4, 0, ..] => {
                let mut reply = (TASKS.len() as u16).to_le_bytes().to_vec();
                reply.extend(TASKS.iter().flat_map(|task| task.0.to_le_bytes()));
                reply.extend((0..).take(TASKS.len()));
                return (Status::SUCCESS, reply);
            }
            [5, ..] => {
                let (tasks, (_, requests)) = (TASKS.len() as u16, self.pool.size());
                vec![0, 0, tasks, tasks, u16::try_from(requests).unwrap_or(u16::MAX)]
            }
            // A request to reset the counters is answered but has no effect: others rely on them,
            // too.
            [6, ..] => {
                let Traffic { messages_in, requests_in, replies_in, messages_out, requests_out, replies_out } =
                    self.traffic;
                let counts = [messages_out, requests_out, replies_out, messages_in, requests_in, replies_in];
                // Only the lower halves fit. The four zeros before them were the counts of another
                // network.
                self.since_start().into_iter().chain([0; 4]).chain(counts.map(|count| count as u16)).collect()
            }
            [9, ..] => {
                let all = self.traffic.counts().iter().fold(0u32, |sum, count| sum.wrapping_add(*count));
                [all as u16, (all >> 16) as u16].into_iter().chain(self.since_start()).collect()
            }
            [18, _, low, high] => return task_name(u16::from_le_bytes([low, high])),
            [20, ..] => vec![self.options.address],
            _ => return (Status::LEVEL2, Vec::new()),
        };
        (Status::SUCCESS, words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// Returns the milliseconds for which packets have been counted, in 48 bits.
    fn since_start(&self) -> [u16; 3] {
        let millis = self.outlets.now.millis;
        [millis as u16, (millis >> 16) as u16, (millis >> 32) as u16]
    }
}

/// Returns the node with a number.
pub(super) fn network_node(nodes: &[DeviceNode], options: &ServiceOptions, number: usize) -> Option<AcnetNode> {
    let Some(address) = number.checked_sub(FOREIGN) else { return nodes.get(number)?.acnet() };
    let (address, socket) = (u16::try_from(address).ok()?, options.acnetd?);
    // Nothing is read from it.
    Some(AcnetNode { address, socket, protocol: Protocol::Retdat })
}

fn task_name(number: u16) -> (Status, Vec<u8>) {
    match TASKS.get(usize::from(number)) {
        Some(task) => (Status::SUCCESS, task.0.to_le_bytes().to_vec()),
        None => (Status::NO_TASK, Vec::new()),
    }
}

/// The number of a node that the database doesn't have is this, and its address.
pub(super) const FOREIGN: usize = usize::MAX - u16::MAX as usize;
/// Our tasks by number.
pub(super) const TASKS: [Rad50; 4] = [ACNET, TASK, SCALE, SYNC];
/// The versions of the protocol, of the daemon and of its interface, as reported by the daemon
/// whose behaviour this is.
const VERSIONS: [u16; 3] = [0x0915, 0x0103, 0x0900];
