//! acnetd's client protocol over TCP: commands and their acknowledgements, and packets of ACNET,
//! with DPM as a task of this node. Requests to other nodes are passed on ([`pass`](super::pass)).
//!
//! Frames are a length, a type and a body. Every command is acknowledged once, in order, with the
//! code and length that clients insist on.

use super::caller::{Caller, RawState};
use super::client::Speaks;
use super::keys::{ClientKey, CloseClient, TASK};
use super::list::ListRoute;
use super::node::TASKS;
use super::pass::{PassedErrand, is_called};
use super::sync_route::SyncRoute;
use super::{Dpm, packets};
use crate::acnet::{ACNET, AcnetHeader, MCAST, MULTICAST_NODE, PacketKind, SCALE, SYNC};
use crate::rad50::Rad50;
use crate::sdd::request::Request;
use crate::sdd::{SddMessage, reply};
use crate::status::Status;
use crate::time::Moment;

impl Dpm {
    /// Handles a frame.
    pub(super) fn take_frame(&mut self, client: ClientKey, frame: &[u8], now: Moment) -> Result<(), CloseClient> {
        let Some((kind, body)) = frame.split_first_chunk::<2>() else { return Err(CloseClient) };
        if u16::from_be_bytes(*kind) != COMMAND {
            return Ok(());
        }
        let Some(command) = RawCommand::read(body) else {
            self.acknowledge(client, 0, Status::ARG, &[]);
            return Ok(());
        };
        let rest = command.rest;
        match command.code {
            1 | 16 | 21 | 23 => self.handle_connect(client, &command),
            2 => {
                let status = self.rename(client, rest);
                self.acknowledge(
                    client,
                    1,
                    status,
                    &[&[short(task_id(client))], handle(rest).unwrap_or_default().0.to_be_bytes().as_slice()].concat(),
                );
            }
            3 | 17 => {
                self.acknowledge(client, 0, Status::SUCCESS, &[]);
                self.cancel_all_passed(client);
                for list in self.outlets.clients.get(client).map(|client| client.lists.clone()).unwrap_or_default() {
                    self.close_list(list);
                }
            }
            5 | 18 => self.handle_request(client, &command, now),
            7 => self.acknowledge(client, 3, Status::NO_SUCH, &[0, 0]),
            8 => self.handle_cancel(client, rest),
            9 | 19 => self.acknowledge(client, 0, Status::IVM, &[]),
            10 => self.acknowledge(client, 0, Status::REQREJ, &[]),
            11 => {
                let found = handle(rest).and_then(|name| self.node_named(name));
                let status = if found.is_some() { Status::SUCCESS } else { Status::NO_NODE };
                self.acknowledge(client, 4, status, &found.unwrap_or_default().to_be_bytes());
            }
            12 => {
                let found = rest.first_chunk().and_then(|node| self.node_name(u16::from_be_bytes(*node)));
                let status = if found.is_some() { Status::SUCCESS } else { Status::NO_NODE };
                self.acknowledge(client, 5, status, &found.unwrap_or_default().0.to_be_bytes());
            }
            13 | 22 => self.acknowledge(client, 4, Status::SUCCESS, &self.options.address.to_be_bytes()),
            14 => {
                let found = handle(rest).and_then(|task| self.process_of(client, task));
                let status = if found.is_some() { Status::SUCCESS } else { Status::NO_TASK };
                self.acknowledge(client, 6, status, &found.unwrap_or_default().to_be_bytes());
            }
            15 => {
                let told = self.traffic.counts();
                let bytes: Vec<u8> = told.iter().flat_map(|count| count.to_be_bytes()).collect();
                self.acknowledge(client, 7, Status::SUCCESS, &bytes);
            }
            // Keep-alive, messages without an answer, and requests of others, which are never
            // accepted.
            0 | 4 | 6 | 20 => self.acknowledge(client, 0, Status::SUCCESS, &[]),
            _ => self.acknowledge(client, 0, Status::LEVEL2, &[]),
        }
        Ok(())
    }

    fn handle_connect(&mut self, client: ClientKey, command: &RawCommand<'_>) {
        // A client without a name gets one like those of acnetd: % and a port number.
        let given = Rad50::parse(&format!("%{:05}", client % 100_000)).unwrap_or_default();
        let name = if command.handle == Rad50::default() { given } else { command.handle };
        let Some(state) = self.raw(client) else { return };
        state.handle = name;
        state.process = command.rest.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let name = name.0.to_be_bytes();
        match command.code {
            16 | 23 => {
                let number = task_id(client).to_be_bytes();
                self.acknowledge(client, 16, Status::SUCCESS, &[&number, name.as_slice()].concat());
            }
            _ => {
                let number = short(task_id(client));
                self.acknowledge(client, 1, Status::SUCCESS, &[&[number], name.as_slice()].concat());
            }
        }
    }

    /// Returns the number of a task's process: ours, or that of the client that asks.
    fn process_of(&mut self, client: ClientKey, task: Rad50) -> Option<u32> {
        match task {
            task if TASKS.contains(&task) => Some(self.options.process),
            task => self.raw(client).filter(|state| state.handle == task).map(|state| state.process),
        }
    }

    fn rename(&mut self, client: ClientKey, rest: &[u8]) -> Status {
        match (handle(rest), self.raw(client)) {
            (Some(name), Some(state)) => {
                state.handle = name;
                Status::SUCCESS
            }
            _ => Status::ARG,
        }
    }

    fn handle_request(&mut self, client: ClientKey, command: &RawCommand<'_>, now: Moment) {
        let head = if command.code == 18 { 12 } else { 8 };
        let Some(body) = command.rest.get(head..) else { return self.acknowledge(client, 2, Status::ARG, &[0; 2]) };
        let [t0, t1, t2, t3, n0, n1, f0, f1, ..] = *command.rest else { return };
        let (task, node) = (Rad50(u32::from_be_bytes([t0, t1, t2, t3])), u16::from_be_bytes([n0, n1]));
        let is_multiple = u16::from_be_bytes([f0, f1]) & 1 == 1;
        if self.raw(client).is_none_or(|state| state.handle == Rad50::default()) {
            return self.acknowledge(client, 2, Status::NOT_CONNECTED, &[0; 2]);
        }
        let message = self.next_request(client);
        let here = self.options.address;
        let is_here = node == here || node == MULTICAST_NODE || node == 0;
        let number = task_id(client);
        if !is_here {
            let patience = command.rest.get(8..12).filter(|_| command.code == 18);
            let patience = patience.and_then(|bytes| bytes.first_chunk()).map(|bytes| u32::from_be_bytes(*bytes));
            let caller = Caller { client, task_id: number, message };
            let errand = PassedErrand { node, task, is_multiple, patience, body };
            return match self.pass_on(caller, &errand, now) {
                Ok(()) => self.acknowledge(client, 2, Status::SUCCESS, &message.to_be_bytes()),
                Err(status) => self.acknowledge(client, 2, status, &[0; 2]),
            };
        }
        self.acknowledge(client, 2, Status::SUCCESS, &message.to_be_bytes());
        let header = AcnetHeader {
            kind: PacketKind::Reply,
            status: Status::SUCCESS,
            server: here,
            client: here,
            task,
            task_id: number,
            message,
        };
        if task == ACNET {
            let (status, reply) = self.level_two(body);
            return self.reply_bytes(client, &AcnetHeader { status, ..header }, &reply);
        }
        match task {
            TASK => {}
            SCALE => {
                let (status, reply) = self.scale(body, false).unwrap_or((Status::IVM, Vec::new()));
                return self.reply_bytes(client, &AcnetHeader { status, ..header }, &reply);
            }
            SYNC => return self.sync(client, header, body, is_multiple, now),
            _ => return self.reply_status(client, &header, Status::NO_TASK),
        }
        match Request::decode(body) {
            Ok(request) => self.answer(client, header, request, is_multiple, now),
            Err(_) => self.reply_status(client, &header, Status::IVM),
        }
    }

    /// Returns an id for a request of a client that neither its open lists nor its passed-on
    /// requests use.
    fn next_request(&mut self, client: ClientKey) -> u16 {
        let lists = self.outlets.clients.get(client).map(|client| client.lists.clone()).unwrap_or_default();
        loop {
            let Some(state) = self.raw(client) else { return 0 };
            state.last_request = state.last_request.wrapping_add(1) & 0x1fff;
            let message = state.last_request | 0x2000;
            if !state.passed.contains_key(&message)
                && !lists.iter().any(|list| self.request_of_list(*list) == Some(message))
            {
                return message;
            }
        }
    }

    /// Returns the request to which a list's messages are replies.
    pub(super) fn request_of_list(&self, list: usize) -> Option<u16> {
        match self.outlets.lists.get(list)?.route {
            ListRoute::Acnet(header) | ListRoute::Sync(SyncRoute { header, .. }) => Some(header.message),
            ListRoute::Tcp | ListRoute::Daq | ListRoute::Settings(_) => None,
        }
    }

    pub(super) fn answer(
        &mut self,
        client: ClientKey,
        header: AcnetHeader,
        request: Request,
        is_multiple: bool,
        now: Moment,
    ) {
        let list = match &request {
            Request::ServiceDiscovery(_) => {
                let service_location = self.options.name.to_string();
                let load = self.load();
                return self.reply(client, &header, reply::ServiceDiscovery { load, service_location });
            }
            Request::OpenList(_) if is_multiple => {
                let stream = AcnetHeader { kind: PacketKind::ReplyWithMore, ..header };
                return match self.open_list(client, ListRoute::Acnet(stream)) {
                    Ok(_) => {}
                    Err(status) => self.reply_status(client, &header, status),
                };
            }
            Request::OpenList(_) => return self.reply_status(client, &header, Status::BAD_REQUEST),
            request => request.list_id().and_then(|id| self.list_ids.get(&id).copied()),
        };
        let list = list.filter(|list| self.outlets.lists.get(*list).is_some_and(|list| list.client == client));
        let list_id = request.list_id().unwrap_or_default();
        let known = if list.is_some() { Status::SUCCESS } else { Status::NO_SUCH_LIST };
        let list = list.unwrap_or(usize::MAX);
        let unix_millis = now.unix_millis;
        let status = |status: Status| reply::Status { ref_id: 0, timestamp: unix_millis, cycle: 0, status: status.0 };
        match request {
            Request::AddToList(add) => {
                // The reply comes first: clients wait for it before they read on.
                self.reply(client, &header, reply::AddToList { list_id, ref_id: add.ref_id, status: known.0 });
                self.add(list, add.ref_id, &add.drf_request);
            }
            Request::RemoveFromList(remove) => {
                self.remove(list, remove.ref_id);
                self.reply(client, &header, reply::RemoveFromList { list_id, ref_id: remove.ref_id, status: known.0 });
            }
            Request::ClearList(_) => {
                self.clear(list);
                self.reply(client, &header, reply::ListStatus { list_id, status: known.0 });
            }
            Request::StopList(_) => {
                self.stop(list);
                self.reply(client, &header, status(known));
            }
            Request::StartList(start) => {
                self.reply(client, &header, reply::StartList { list_id, status: known.0 });
                self.start(list, start.model, now);
            }
            Request::Authenticate(step) => match self.authenticate(list, &step.token.0, now) {
                Ok(answer) => self.reply(client, &header, answer),
                Err(refused) => self.reply(client, &header, status(refused)),
            },
            Request::EnableSettings(signed) => {
                let enabled = self.enable(list, &signed.mic.0, &signed.message.0, now);
                self.reply(client, &header, status(enabled));
            }
            Request::ApplySettings(settings) => {
                // This only says that they were accepted; their outcome follows on the stream of
                // the list.
                self.reply(client, &header, status(known));
                self.apply(list, settings, now);
            }
            Request::ServiceDiscovery(_) | Request::OpenList(_) => {}
        }
    }

    /// Handles a client's cancellation of a request.
    fn handle_cancel(&mut self, client: ClientKey, rest: &[u8]) {
        let Some(message) = rest.first_chunk().map(|id| u16::from_be_bytes(*id)) else {
            return self.acknowledge(client, 0, Status::ARG, &[]);
        };
        if !self.cancel_passed(client, message) {
            let lists = self.outlets.clients.get(client).map(|client| client.lists.clone()).unwrap_or_default();
            if let Some(list) = lists.into_iter().find(|list| self.request_of_list(*list) == Some(message)) {
                self.close_list(list);
            }
        }
        self.acknowledge(client, 0, Status::SUCCESS, &[]);
    }

    fn node_named(&self, name: Rad50) -> Option<u16> {
        match name {
            MCAST => Some(MULTICAST_NODE),
            name if name == self.options.name || self.database.names_of_this().aliases.contains(&name) => {
                Some(self.options.address)
            }
            name => self.database.nodes().iter().find(|node| is_called(node, name))?.acnet().map(|node| node.address),
        }
    }

    fn node_name(&self, node: u16) -> Option<Rad50> {
        match node {
            MULTICAST_NODE => Some(MCAST),
            node if node == self.options.address => Some(self.options.name),
            node => self.database.nodes().get(self.database.at_address(node)?).map(|node| node.name),
        }
    }

    pub(super) fn raw(&mut self, client: ClientKey) -> Option<&mut RawState> {
        match self.outlets.clients.get_mut(client).map(|client| &mut client.speaks) {
            Some(Speaks::Raw(state)) => Some(state),
            _ => None,
        }
    }

    fn acknowledge(&mut self, client: ClientKey, code: u16, status: Status, extra: &[u8]) {
        let mut bytes = Vec::with_capacity(16);
        packets::frame(&mut bytes, |bytes| {
            bytes.extend_from_slice(&ACK.to_be_bytes());
            bytes.extend_from_slice(&code.to_be_bytes());
            bytes.extend_from_slice(&status.0.to_be_bytes());
            bytes.extend_from_slice(extra);
        });
        self.outlets.frame(client, bytes);
    }

    /// Sends the only reply to a request.
    fn reply(&mut self, client: ClientKey, header: &AcnetHeader, reply: impl Into<reply::Reply>) {
        let mut bytes = Vec::new();
        let reply = reply.into();
        packets::data(header, false, &mut bytes, |bytes| reply.encode(bytes));
        self.outlets.frame(client, bytes);
    }

    pub(super) fn reply_status(&mut self, client: ClientKey, header: &AcnetHeader, status: Status) {
        self.reply_bytes(client, &AcnetHeader { status, ..*header }, &[]);
    }

    /// Sends the only reply to a request, in bytes.
    pub(super) fn reply_bytes(&mut self, client: ClientKey, header: &AcnetHeader, reply: &[u8]) {
        let mut bytes = Vec::new();
        packets::data(header, false, &mut bytes, |bytes| bytes.extend_from_slice(reply));
        self.outlets.frame(client, bytes);
    }
}

/// A command of a client.
struct RawCommand<'a> {
    code: u16,
    handle: Rad50,
    rest: &'a [u8],
}

impl<'a> RawCommand<'a> {
    /// Reads the code, handle and virtual node with which every command begins.
    fn read(body: &'a [u8]) -> Option<Self> {
        let ([c0, c1, h0, h1, h2, h3, _, _, _, _], rest) = body.split_first_chunk::<10>()?;
        Some(Self {
            code: u16::from_be_bytes([*c0, *c1]),
            handle: Rad50(u32::from_be_bytes([*h0, *h1, *h2, *h3])),
            rest,
        })
    }
}

/// Returns the number of a client's task.
fn task_id(client: ClientKey) -> u16 {
    let others = usize::from(u16::MAX - FIRST_TASK_ID);
    FIRST_TASK_ID + (client % others) as u16
}

/// Returns a client's number for commands that have eight bits for it: not 0 or a number of the
/// node's own tasks, but not always unique.
fn short(task_id: u16) -> u8 {
    let others = u16::from(u8::MAX) - FIRST_TASK_ID;
    (FIRST_TASK_ID + (task_id - FIRST_TASK_ID) % others) as u8
}

fn handle(rest: &[u8]) -> Option<Rad50> {
    rest.first_chunk().map(|bytes| Rad50(u32::from_be_bytes(*bytes)))
}

const COMMAND: u16 = 1;
const ACK: u16 = 2;
/// The number of the first client's task. Lower numbers are this node's own.
const FIRST_TASK_ID: u16 = TASKS.len() as u16;
