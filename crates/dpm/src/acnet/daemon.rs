//! A task of a real acnetd: packets of this node become commands of the daemon's clients, and what
//! the daemon delivers becomes packets.
//!
//! The daemon numbers requests itself, so each packet gets its own number in either direction.
//! Nothing here opens a socket; `driver::daemon` carries commands and packets.
//!
//! Invariants:
//! - The daemon acknowledges commands in their order, so each acknowledgement belongs to the oldest
//!   command that has none. Only a few are under way, since the daemon's socket holds only so many.
//! - A request that the daemon refuses gets its status as a reply.
//! - A daemon that was started again gets all requests again: on rare events, nobody would notice
//!   that a request is lost.

use std::collections::{HashMap, VecDeque};

use super::{AcnetHeader, AcnetPacket, PacketKind, packet};
use crate::rad50::Rad50;
use crate::status::Status;

/// A task as it is known to the daemon, with its requests and those of others to it.
#[derive(Debug)]
pub struct DaemonTask {
    handle: Rad50,
    /// Our node.
    address: u16,
    /// Commands that wait until fewer are under way.
    waiting: VecDeque<(Vec<u8>, SentCommand)>,
    /// Commands without an acknowledgement.
    sent: VecDeque<SentCommand>,
    /// Our requests.
    requests: HashMap<RequestKey, OwnRequest, ahash::RandomState>,
    /// Our requests, by the daemon's numbers.
    numbers: HashMap<u16, RequestKey, ahash::RandomState>,
    /// The daemon's numbers for replies, by the client's node, task and message.
    replies: HashMap<(u16, u16, u16), u16, ahash::RandomState>,
    /// Packets for this node, in the form for the network.
    packets: Vec<Vec<u8>>,
}

/// The node that is asked, and the task and message of the request on ours: different nodes may be
/// asked under the same number, as they are for signs of life.
type RequestKey = (u16, u16, u16);

/// A request of ours.
#[derive(Debug)]
struct OwnRequest {
    task: Rad50,
    /// The command that makes it.
    command: Vec<u8>,
    /// The daemon's number, once it has given one.
    number: Option<u16>,
}

/// A command by what its acknowledgement is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentCommand {
    /// One whose acknowledgement says nothing.
    Anything,
    /// A request, which gets its number.
    Request(RequestKey),
}

impl DaemonTask {
    /// Returns a task of this name on a node, which the daemon knows already.
    pub fn new(handle: Rad50, address: u16) -> Self {
        Self {
            handle,
            address,
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            requests: HashMap::default(),
            numbers: HashMap::default(),
            replies: HashMap::default(),
            packets: Vec::new(),
        }
    }

    /// Returns the name of the task.
    pub fn handle(&self) -> Rad50 {
        self.handle
    }

    /// Takes a packet that this node sends.
    pub fn send(&mut self, packet: &AcnetPacket<'_>) {
        let AcnetHeader { kind, status, server, client, task, task_id, message } = packet.header;
        match kind {
            PacketKind::Message => {
                let head = [&task.0.to_be_bytes()[..], &server.to_be_bytes()].concat();
                self.order(MESSAGE, &[&head, packet.body], SentCommand::Anything);
            }
            PacketKind::Request | PacketKind::MultipleRequest => {
                // A request that is repeated takes the place of the earlier one.
                let key = (server, task_id, message);
                self.cancel(key);
                let flags = u16::from(kind == PacketKind::MultipleRequest);
                let head = [&task.0.to_be_bytes()[..], &server.to_be_bytes(), &flags.to_be_bytes()].concat();
                let command = command(self.handle, REQUEST, &[&head, &LONGEST.to_be_bytes(), packet.body]);
                self.waiting.push_back((command.clone(), SentCommand::Request(key)));
                self.requests.insert(key, OwnRequest { task, command, number: None });
            }
            PacketKind::Cancel => self.cancel((server, task_id, message)),
            PacketKind::Reply | PacketKind::ReplyWithMore => {
                let key = (client, task_id, message);
                let Some(reply) = self.replies.get(&key).copied() else { return };
                let flags = if kind == PacketKind::Reply { LAST } else { 0 };
                if kind == PacketKind::Reply {
                    self.replies.remove(&key);
                }
                let head = [reply.to_be_bytes(), flags.to_be_bytes(), status.0.to_be_bytes()].concat();
                self.order(REPLY, &[&head, packet.body], SentCommand::Anything);
            }
        }
    }

    /// Takes a packet that the daemon delivers, in its form for clients.
    pub fn take(&mut self, bytes: &[u8]) {
        for packet in packet::packets(bytes) {
            let header = packet.header;
            match header.kind {
                PacketKind::Reply | PacketKind::ReplyWithMore => {
                    let Some(key) = self.numbers.get(&header.message).copied() else { continue };
                    // Silence is judged by the pool; the daemon only says that it still waits.
                    if header.status == Status::PEND {
                        continue;
                    }
                    if header.kind == PacketKind::Reply {
                        self.numbers.remove(&header.message);
                        self.requests.remove(&key);
                    }
                    let (_, task_id, message) = key;
                    let header = AcnetHeader { client: self.address, task_id, message, ..header };
                    self.packets.push(header.datagram(packet.body));
                }
                PacketKind::Request | PacketKind::MultipleRequest => {
                    // The daemon's number for the reply is in place of the status.
                    let reply = header.status.0 as u16;
                    if self.replies.len() >= MOST_REPLIES {
                        self.order(REFUSE, &[&reply.to_be_bytes()], SentCommand::Anything);
                        continue;
                    }
                    self.replies.insert((header.client, header.task_id, header.message), reply);
                    self.order(ACCEPT, &[&reply.to_be_bytes()], SentCommand::Anything);
                    self.packets.push(AcnetHeader { status: Status::SUCCESS, ..header }.datagram(packet.body));
                }
                PacketKind::Cancel => {
                    self.replies.remove(&(header.client, header.task_id, header.message));
                    self.packets.push(AcnetHeader { status: Status::SUCCESS, ..header }.datagram(packet.body));
                }
                PacketKind::Message => {}
            }
        }
    }

    /// Takes an acknowledgement of the daemon. Returns false if it means that the daemon doesn't
    /// know this task any more.
    pub fn acknowledge(&mut self, bytes: &[u8]) -> bool {
        let [_, _, s0, s1, rest @ ..] = bytes else { return true };
        let status = Status(i16::from_be_bytes([*s0, *s1]));
        if let Some(SentCommand::Request(key)) = self.sent.pop_front() {
            let number = rest.first_chunk().map(|number| u16::from_be_bytes(*number));
            match (number.filter(|_| status == Status::SUCCESS), self.requests.get_mut(&key)) {
                (Some(number), Some(own)) if own.number.is_none() => {
                    own.number = Some(number);
                    self.numbers.insert(number, key);
                }
                // The request was cancelled, or sent again, before it had a number.
                (Some(number), _) => self.order(CANCEL, &[&number.to_be_bytes()], SentCommand::Anything),
                (None, Some(_)) if status != Status::NOT_CONNECTED => self.refuse(key, status),
                (None, _) => {}
            }
        }
        status != Status::NOT_CONNECTED
    }

    /// Begins again with a daemon that was started again: makes all requests once more, and forgets
    /// those of others, which the daemon has forgotten as well.
    pub fn begin_again(&mut self) {
        let mut requests = std::mem::take(&mut self.requests);
        *self = Self::new(self.handle, self.address);
        for (key, own) in &mut requests {
            own.number = None;
            self.waiting.push_back((own.command.clone(), SentCommand::Request(*key)));
        }
        self.requests = requests;
    }

    /// Answers a request with the status by which the daemon refuses it.
    fn refuse(&mut self, key: RequestKey, status: Status) {
        let Some(OwnRequest { task, .. }) = self.requests.remove(&key) else { return };
        let (server, task_id, message) = key;
        let (kind, client) = (PacketKind::Reply, self.address);
        let refusal = AcnetHeader { kind, status, server, client, task, task_id, message };
        self.packets.push(refusal.datagram(&[]));
    }

    /// Sends a sign of life.
    pub fn stay(&mut self) {
        self.order(KEEP_ALIVE, &[], SentCommand::Anything);
    }

    /// Returns the next command for the daemon, if it can take one.
    pub fn next_command(&mut self) -> Option<Vec<u8>> {
        if self.sent.len() >= UNDER_WAY {
            return None;
        }
        let (bytes, sent) = self.waiting.pop_front()?;
        self.sent.push_back(sent);
        Some(bytes)
    }

    /// Returns whether there are commands for the daemon.
    pub fn has_commands(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns whether commands have no acknowledgement yet.
    pub fn is_waiting(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Returns the packets that have come for this node, in the form for the network.
    pub fn take_packets(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.packets)
    }

    fn cancel(&mut self, key: RequestKey) {
        // A request without a number is cancelled when its acknowledgement comes.
        if let Some(number) = self.requests.remove(&key).and_then(|own| own.number) {
            self.numbers.remove(&number);
            self.order(CANCEL, &[&number.to_be_bytes()], SentCommand::Anything);
        }
    }

    fn order(&mut self, code: u16, rest: &[&[u8]], sent: SentCommand) {
        self.waiting.push_back((command(self.handle, code, rest), sent));
    }
}

/// Returns a command of a task, whose name is 0 before it has one.
pub fn command(handle: Rad50, code: u16, rest: &[&[u8]]) -> Vec<u8> {
    // The node is the daemon's own.
    let mut bytes = [&code.to_be_bytes()[..], &handle.0.to_be_bytes(), &[0; 4]].concat();
    rest.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// The command that makes a task known, with the process and the port for packets.
pub const CONNECT: u16 = 1;
/// The command after which a task gets requests.
pub const RECEIVE: u16 = 6;
/// The command that ends a task, and no other of its process.
pub const DISCONNECT: u16 = 17;
/// The command that asks for the name of a node.
pub const NAME_OF_NODE: u16 = 12;
/// The command that asks for the daemon's node.
pub const LOCAL_NODE: u16 = 13;
const KEEP_ALIVE: u16 = 0;
const MESSAGE: u16 = 4;
const REPLY: u16 = 7;
const CANCEL: u16 = 8;
const ACCEPT: u16 = 9;
const REQUEST: u16 = 18;
const REFUSE: u16 = 19;
/// The flag of the last reply.
const LAST: u16 = 2;
/// The patience of a request, in milliseconds, the most that the daemon has.
const LONGEST: u32 = 390_000;
/// The most commands without an acknowledgement.
const UNDER_WAY: usize = 64;
/// The most requests of others that are under way.
const MOST_REPLIES: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acnet::DPMD;

    const HERE: u16 = 0x0ad6;
    const THERE: u16 = 0x0c23;

    fn header(kind: PacketKind, message: u16) -> AcnetHeader {
        let task = Rad50::literal(b"RETDAT");
        AcnetHeader { kind, status: Status::SUCCESS, server: THERE, client: HERE, task, task_id: 1, message }
    }

    fn send(daemon: &mut DaemonTask, header: AcnetHeader, body: &[u8]) -> Vec<Vec<u8>> {
        daemon.send(&AcnetPacket { header, body });
        std::iter::from_fn(|| daemon.next_command()).collect()
    }

    fn deliver(daemon: &mut DaemonTask, header: AcnetHeader, body: &[u8]) -> Vec<(AcnetHeader, Vec<u8>)> {
        let mut bytes = Vec::new();
        header.write(body, &mut bytes);
        daemon.take(&bytes);
        taken(daemon)
    }

    fn taken(daemon: &mut DaemonTask) -> Vec<(AcnetHeader, Vec<u8>)> {
        let mut all = Vec::new();
        for mut datagram in daemon.take_packets() {
            packet::swap(&mut datagram);
            all.extend(packet::packets(&datagram).map(|packet| (packet.header, packet.body.to_vec())));
        }
        all
    }

    #[test]
    fn a_request_gets_the_replies_under_its_own_number() {
        let mut daemon = DaemonTask::new(DPMD, HERE);
        let sent = send(&mut daemon, header(PacketKind::MultipleRequest, 7), &[1, 2]);
        let [command] = &sent[..] else { panic!("{sent:?}") };
        let expected = [
            &[0, 18, 0x19, 0, 0x1b, 0x8d, 0, 0, 0, 0][..],
            &Rad50::literal(b"RETDAT").0.to_be_bytes(),
            &[0x0c, 0x23, 0, 1],
            &390_000u32.to_be_bytes(),
            &[1, 2],
        ];
        assert_eq!(*command, expected.concat());
        assert!(daemon.acknowledge(&[0, 2, 0, 0, 0x60, 0x01]));
        let more = AcnetHeader { message: 0x6001, task_id: 9, ..header(PacketKind::ReplyWithMore, 0) };
        let replies = deliver(&mut daemon, more, &[3, 4]);
        assert_eq!(replies, [(header(PacketKind::ReplyWithMore, 7), vec![3, 4])]);
        // The daemon's note that it still waits is none of the front-end's replies.
        assert_eq!(deliver(&mut daemon, AcnetHeader { status: Status::PEND, ..more }, &[]), []);
        let cancelled = send(&mut daemon, header(PacketKind::Cancel, 7), &[]);
        assert_eq!(cancelled, [command_of(CANCEL, &[0x60, 0x01])]);
        assert_eq!(deliver(&mut daemon, more, &[3, 4]), []);
    }

    #[test]
    fn a_request_that_is_cancelled_before_it_has_a_number_is_cancelled_then() {
        let mut daemon = DaemonTask::new(DPMD, HERE);
        send(&mut daemon, header(PacketKind::MultipleRequest, 7), &[]);
        assert_eq!(send(&mut daemon, header(PacketKind::Cancel, 7), &[]), Vec::<Vec<u8>>::new());
        daemon.acknowledge(&[0, 2, 0, 0, 0x60, 0x01]);
        assert_eq!(daemon.next_command(), Some(command_of(CANCEL, &[0x60, 0x01])));
        // A request that is sent twice counts once.
        daemon.acknowledge(&[0, 0, 0, 0]);
        send(&mut daemon, header(PacketKind::Request, 8), &[]);
        daemon.acknowledge(&[0, 2, 0, 0, 0x60, 0x02]);
        let again = send(&mut daemon, header(PacketKind::Request, 8), &[]);
        assert_eq!((again.len(), &again[0]), (2, &command_of(CANCEL, &[0x60, 0x02])));
    }

    #[test]
    fn nodes_are_asked_under_the_same_number() {
        let mut daemon = DaemonTask::new(DPMD, HERE);
        let nodes = [THERE, THERE + 1];
        for server in nodes {
            let sent = send(&mut daemon, AcnetHeader { server, ..header(PacketKind::Request, 1) }, &[0, 0]);
            assert_eq!(sent.len(), 1, "nothing was cancelled");
        }
        daemon.acknowledge(&[0, 2, 0, 0, 0x60, 0x01]);
        daemon.acknowledge(&[0, 2, 0, 0, 0x60, 0x02]);
        for (server, number) in nodes.into_iter().zip(0x6001..) {
            let reply = AcnetHeader { server, message: number, ..header(PacketKind::Reply, 0) };
            let expected = AcnetHeader { server, ..header(PacketKind::Reply, 1) };
            assert_eq!(deliver(&mut daemon, reply, &[0, 0]), [(expected, vec![0, 0])]);
        }
    }

    #[test]
    fn a_refused_request_gets_its_status_as_a_reply() {
        let mut daemon = DaemonTask::new(DPMD, HERE);
        send(&mut daemon, header(PacketKind::Request, 7), &[]);
        let status = Status::NO_NODE;
        assert!(daemon.acknowledge(&[&[0, 2], &status.0.to_be_bytes()[..], &[0, 0]].concat()));
        assert_eq!(taken(&mut daemon), [(AcnetHeader { status, ..header(PacketKind::Reply, 7) }, vec![])]);
        send(&mut daemon, header(PacketKind::Request, 8), &[]);
        assert!(!daemon.acknowledge(&[&[0, 2], &Status::NOT_CONNECTED.0.to_be_bytes()[..], &[0, 0]].concat()));
        // The daemon gets the request again when it is there again.
        daemon.begin_again();
        assert!(!daemon.is_waiting());
        let again: Vec<_> = std::iter::from_fn(|| daemon.next_command()).collect();
        assert_eq!((again.len(), &again[0][..2]), (1, &[0, 18][..]));
        assert!(daemon.acknowledge(&[0, 2, 0, 0, 0x60, 0x03]));
        let reply = AcnetHeader { message: 0x6003, ..header(PacketKind::Reply, 0) };
        assert_eq!(deliver(&mut daemon, reply, &[1, 2]), [(header(PacketKind::Reply, 8), vec![1, 2])]);
    }

    #[test]
    fn requests_of_others_are_answered_by_the_number_that_the_daemon_gave() {
        let mut daemon = DaemonTask::new(DPMD, HERE);
        let request = AcnetHeader {
            kind: PacketKind::MultipleRequest,
            status: Status(0x2001),
            server: HERE,
            client: THERE,
            task: DPMD,
            task_id: 3,
            message: 0x6007,
        };
        let came = AcnetHeader { status: Status::SUCCESS, ..request };
        assert_eq!(deliver(&mut daemon, request, &[5, 6]), [(came, vec![5, 6])]);
        assert_eq!(daemon.next_command(), Some(command_of(ACCEPT, &[0x20, 0x01])));
        let more = send(&mut daemon, AcnetHeader { kind: PacketKind::ReplyWithMore, ..came }, &[7, 8]);
        assert_eq!(more, [command_of(REPLY, &[0x20, 0x01, 0, 0, 0, 0, 7, 8])]);
        let last = send(&mut daemon, AcnetHeader { kind: PacketKind::Reply, status: Status(0x1d01), ..came }, &[]);
        assert_eq!(last, [command_of(REPLY, &[0x20, 0x01, 0, 2, 0x1d, 1])]);
        // Nobody waits for more.
        assert!(send(&mut daemon, AcnetHeader { kind: PacketKind::Reply, ..came }, &[]).is_empty());
    }

    #[test]
    fn few_commands_are_under_way() {
        let mut daemon = DaemonTask::new(DPMD, HERE);
        for message in 0..100 {
            daemon.send(&AcnetPacket { header: header(PacketKind::Request, message), body: &[] });
        }
        assert_eq!(std::iter::from_fn(|| daemon.next_command()).count(), UNDER_WAY);
        daemon.acknowledge(&[0, 2, 0, 0, 0x60, 0x01]);
        assert_eq!(std::iter::from_fn(|| daemon.next_command()).count(), 1);
    }

    #[test]
    fn any_bytes_of_the_daemon_are_taken() {
        let mut daemon = DaemonTask::new(DPMD, HERE);
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte * 6).collect();
            daemon.take(&bytes);
            daemon.acknowledge(&bytes);
        }
        assert_eq!(taken(&mut daemon), []);
    }

    fn command_of(code: u16, rest: &[u8]) -> Vec<u8> {
        command(DPMD, code, &[rest])
    }
}
