//! Clients on other nodes, whose requests to the task `DPMD` arrive over the network of ACNET, as
//! their replies leave.
//!
//! Such a client is a task of a node of the database. It has an outbox as clients over TCP have,
//! whose messages leave as packets. A search for a DPM that is sent to everyone is answered after
//! as many milliseconds as there are lists, so that of several DPMs the least busy answers first,
//! and searchers take the first answer.
//!
//! Invariants:
//! - A task without lists is removed once its replies have left.
//! - A silent node loses its lists, since nothing else shows that a node is gone. A node whose task
//!   is gone cancels the replies that still arrive for it.

use super::client::{DpmClient, Speaks};
use super::keys::ClientKey;
use super::remotes::RemoteTask;
use super::share::{network, node_as_address};
use super::{Dpm, packets};
use crate::acnet::{ACNET, AcnetHeader, AcnetPacket, MULTICAST_NODE, PacketKind, SYNC, packet};
use crate::authority::ClientPlace;
use crate::database::AcnetNode;
use crate::sdd::request::Request;
use crate::sdd::{SddMessage, reply};
use crate::status::Status;
use crate::time::Moment;

impl Dpm {
    /// Handles a packet for our task from the node with a given number.
    pub(super) fn take_remote(&mut self, node: usize, packet: AcnetPacket<'_>, now: Moment) {
        let header = packet.header;
        let is_for_all = header.server == MULTICAST_NODE;
        if header.kind == PacketKind::Cancel {
            return self.cancel_remote(node, header.message);
        }
        let is_multiple = header.kind == PacketKind::MultipleRequest;
        let header = AcnetHeader { kind: PacketKind::Reply, server: self.options.address, ..header };
        let header = AcnetHeader { status: Status::SUCCESS, ..header };
        if header.task == SYNC {
            return self.sync_of_node(node, header, packet.body, (is_for_all, is_multiple), now);
        }
        match Request::decode(packet.body) {
            Ok(Request::ServiceDiscovery(_)) => self.answer_search(node, header, is_for_all, now),
            // A request to all nodes gets no refusal.
            _ if is_for_all => {}
            Err(_) => self.answers.push((node, AcnetHeader { status: Status::IVM, ..header }.datagram(&[]))),
            Ok(request) => match self.remote_client(node, header.task_id, now) {
                Ok(client) => {
                    self.close_stream(client, header.message);
                    self.answer(client, header, request, is_multiple, now);
                }
                Err(status) => self.answers.push((node, AcnetHeader { status, ..header }.datagram(&[]))),
            },
        }
    }

    /// Returns the load of this DPM: the number of its lists, at most the milliseconds for which a
    /// searcher waits.
    pub(super) fn load(&self) -> i16 {
        self.outlets.lists.len().min(LARGEST_LOAD) as i16
    }

    /// Answers a search for a DPM, unless there is no room for one more list.
    fn answer_search(&mut self, node: usize, header: AcnetHeader, is_for_all: bool, now: Moment) {
        if self.outlets.lists.len() >= self.options.all_lists {
            return;
        }
        let load = self.load();
        let mut body = Vec::new();
        let service_location = self.options.name.to_string();
        reply::Reply::from(reply::ServiceDiscovery { load, service_location }).encode(&mut body);
        let datagram = header.datagram(&body);
        if !is_for_all || load == 0 {
            self.answers.push((node, datagram));
        } else if self.remotes.delayed.len() < MOST_DELAYED {
            self.remotes.serial += 1;
            self.remotes.delayed.insert((now.millis + load as u64, self.remotes.serial), (node, datagram));
        }
    }

    /// Returns the client for a task of a node, which is created if there is none.
    pub(super) fn remote_client(&mut self, node: usize, task_id: u16, now: Moment) -> Result<ClientKey, Status> {
        if let Some(client) = self.remotes.by_task.get(&(node, task_id)) {
            return Ok(*client);
        }
        let AcnetNode { address, socket, .. } = self.network_node(node).ok_or(Status::NO_NODE)?;
        let of_node = self.remotes.by_task.range((node, 0)..=(node, u16::MAX)).count();
        if of_node >= MOST_TASKS || self.outlets.clients.len() >= self.options.clients {
            return Err(Status::BUSY);
        }
        // All nodes beside an acnetd have its address, and none of them takes the shares of others.
        let is_shared = self.options.acnetd == Some(socket);
        let (counts_for, place) = match is_shared {
            true => (node_as_address(address), ClientPlace::Node(address)),
            false => (network(socket.ip()), ClientPlace::Socket(socket)),
        };
        let mut client = DpmClient::new(None, Some(counts_for));
        client.calls_from = Some(place);
        client.speaks = Speaks::Node(RemoteTask { node, task_id });
        let client = self.outlets.clients.insert(client);
        self.remotes.by_task.insert((node, task_id), client);
        self.remotes.heard.insert(node, now.millis);
        // A task is checked when its replies leave, and is removed then if it has opened no list.
        self.outlets.touch(client);
        Ok(client)
    }

    /// Handles a node's cancellation of a request.
    fn cancel_remote(&mut self, node: usize, message: u16) {
        let clients = self.remotes.by_task.range((node, 0)..=(node, u16::MAX));
        for client in clients.map(|(_, client)| *client).collect::<Vec<_>>() {
            self.close_stream(client, message);
        }
    }

    /// Closes the list whose messages are the replies to a request.
    pub(super) fn close_stream(&mut self, client: ClientKey, message: u16) {
        let lists = self.outlets.clients.get(client).map(|client| client.lists.clone()).unwrap_or_default();
        if let Some(list) = lists.into_iter().find(|list| self.request_of_list(*list) == Some(message)) {
            self.close_list(list);
            self.outlets.touch(client);
        }
    }

    /// Notes that a node is alive.
    pub(super) fn hear_node(&mut self, node: usize, now: Moment) {
        if let Some(heard) = self.remotes.heard.get_mut(&node) {
            *heard = now.millis;
        }
    }

    /// Sends messages for clients on other nodes, as many in one datagram as fit.
    pub(super) fn flush_remotes(&mut self, now: Moment) {
        while let Some(entry) = self.remotes.delayed.first_entry().filter(|entry| entry.key().0 <= now.millis) {
            self.answers.push(entry.remove());
        }
        for client in std::mem::take(&mut self.outlets.dirty_remotes) {
            let Some(Speaks::Node(task)) = self.outlets.clients.get(client).map(|client| &client.speaks) else {
                continue;
            };
            let task = *task;
            let mut frames = Vec::new();
            self.outlets.render(client, &mut frames, AT_ONCE);
            self.outlets.play_on_for(client);
            self.answers.extend(datagrams(&frames).map(|datagram| (task.node, datagram)));
            let Some(state) = self.outlets.clients.get(client) else { continue };
            if !state.outbox.is_empty() {
                self.outlets.touch(client);
            } else if state.lists.is_empty() {
                self.forget_remote(task, client);
            }
        }
    }

    fn forget_remote(&mut self, task: RemoteTask, client: ClientKey) {
        let RemoteTask { node, task_id } = task;
        self.disconnect(client);
        self.remotes.by_task.remove(&(node, task_id));
        if self.remotes.by_task.range((node, 0)..=(node, u16::MAX)).next().is_none() {
            self.remotes.heard.remove(&node);
        }
    }

    /// Pings nodes with clients, and ends the lists of those that are silent.
    pub(super) fn review_remotes(&mut self, now: Moment) {
        if self.remotes.by_task.is_empty() || self.remotes.review > now.millis {
            return;
        }
        self.remotes.review = now.millis + REVIEW;
        let silent = self.remotes.heard.iter().map(|(node, heard)| (*node, now.millis.saturating_sub(*heard)));
        let mut silent: Vec<_> = silent.filter(|(_, silence)| *silence >= REVIEW).collect();
        silent.sort_unstable();
        for (node, silence) in silent {
            if silence >= GONE {
                let clients = self.remotes.by_task.range((node, 0)..=(node, u16::MAX));
                for ((_, task_id), client) in clients.map(|(task, client)| (*task, *client)).collect::<Vec<_>>() {
                    self.forget_remote(RemoteTask { node, task_id }, client);
                }
            } else if let Some(acnet) = self.network_node(node) {
                let ping = AcnetHeader {
                    kind: PacketKind::Request,
                    status: Status::SUCCESS,
                    server: acnet.address,
                    client: self.options.address,
                    task: ACNET,
                    task_id: TASK_ID,
                    message: PING,
                };
                self.answers.push((node, ping.datagram(&[0, 0])));
            }
        }
    }
}

/// Returns the packets of frames as datagrams for the network.
fn datagrams(mut frames: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut packets = std::iter::from_fn(move || {
        let (length, rest) = frames.split_first_chunk::<4>()?;
        let frame = rest.get(..u32::from_be_bytes(*length) as usize)?;
        frames = &rest[frame.len()..];
        frame.get(packets::KIND..)
    })
    .peekable();
    std::iter::from_fn(move || {
        let mut datagram = packets.next()?.to_vec();
        while let Some(packet) = packets.next_if(|packet| datagram.len() + packet.len() <= DATAGRAM) {
            datagram.extend_from_slice(packet);
        }
        packet::swap(&mut datagram);
        Some(datagram)
    })
}

/// Our task's number on our node for pings, whose ids differ from those of all other requests.
pub(super) const TASK_ID: u16 = 5;
/// The id of each ping: it doesn't matter which ping is answered.
const PING: u16 = 1;
/// The most tasks of a node that may be clients at a time.
pub(crate) const MOST_TASKS: usize = 256;
/// The most answers to searches that may wait.
const MOST_DELAYED: usize = 1024;
/// The longest wait of an answer to a search, in milliseconds: searchers wait for 150.
const LARGEST_LOAD: usize = 100;
/// The most bytes of a datagram with several packets, which an Ethernet carries in one piece.
const DATAGRAM: usize = 1472;
/// The approximate number of bytes that a client gets in a turn.
const AT_ONCE: usize = 64 << 10;
/// The silence after which a node is pinged, and the interval of pings, in milliseconds.
const REVIEW: u64 = 15_000;
/// The silence after which the lists of a node are closed, in milliseconds.
pub(crate) const GONE: u64 = 60_000;
