//! DPM as a task of an acnetd, which this test plays on a socket.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rookery_dpm::acnet::{AcnetHeader, DPMD, MULTICAST_NODE, PacketKind, packet};
use rookery_dpm::database::Database;
use rookery_dpm::driver::{DaemonBridge, DpmServer, RunningBridge, ServeSettings, Until, ask};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::sdd::SddMessage;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::{Request, ServiceDiscovery};
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::simulator::Simulator;
use rookery_dpm::status::Status;
use rookery_dpm::time::Moment;

const DEMO: &str = include_str!("../src/database/demo.toml");
const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const NODE: u16 = 0x0a06;
/// The command that is a reply, and the bytes in front of its body.
const REPLY: u16 = 7;
const REPLY_HEAD: usize = 6;
/// The daemon's number for the reply to the search.
const SEARCH: u16 = 0x2001;

#[test]
fn devices_are_read_by_way_of_an_acnetd_that_may_be_started_again() {
    let beside = BesideService::start();
    let address = beside.address;
    let read = || {
        let mut out = Vec::new();
        let is_good = ask(address, &["M:OUTTMP".into(), "G:COUNTR".into()], Until::Answered, &mut out);
        (is_good.expect("an answer"), String::from_utf8(out).expect("text"))
    };
    let (is_good, text) = read();
    assert!(is_good && text.contains("DegF") && text.contains("cnts"), "{text}");
    // A daemon that was started again knows no tasks until they come to it.
    beside.asks.forget.store(true, Ordering::Relaxed);
    let again = (0..20).find(|_| read().0);
    assert!(again.is_some() && !beside.asks.forget.load(Ordering::Relaxed), "readings come again");
    beside.stop();
}

#[test]
fn who_searches_by_way_of_an_acnetd_finds_the_service() {
    let beside = BesideService::start();
    beside.asks.search.store(true, Ordering::Relaxed);
    let replies = beside.stop();
    let [reply] = &replies[..] else { panic!("{replies:?}") };
    let (head, body) = reply.split_at(REPLY_HEAD);
    // The daemon's number for the reply, the flag of the last one, and success.
    assert_eq!(head, [&SEARCH.to_be_bytes()[..], &[0, 2], &[0, 0]].concat());
    let found = Reply::decode(body).expect("a reply");
    assert!(matches!(&found, Reply::ServiceDiscovery(found) if found.service_location == "LOCAL"), "{found:?}");
}

#[test]
fn an_acnetd_is_on_this_machine_and_answers() {
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], 6802));
    let refused = DaemonBridge::open(elsewhere).expect_err("another machine");
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    let nobody = UdpSocket::bind(LOCAL).and_then(|socket| socket.local_addr()).expect("a port");
    let silent = DaemonBridge::open(nobody).expect_err("nobody answers there");
    assert_eq!(silent.kind(), std::io::ErrorKind::TimedOut);
}

/// A service beside a played acnetd, and the threads of both.
struct BesideService {
    address: SocketAddr,
    asks: Arc<DaemonAsks>,
    bridge: RunningBridge,
    served: JoinHandle<io::Result<()>>,
    daemon: JoinHandle<Vec<Vec<u8>>>,
}

/// The orders of a test to the played acnetd.
#[derive(Default)]
struct DaemonAsks {
    /// The end.
    stop: AtomicBool,
    /// Forget all tasks, as if started again.
    forget: AtomicBool,
    /// Deliver a search for a DPM that another node has sent to all, and wait for the reply.
    search: AtomicBool,
}

impl BesideService {
    fn start() -> Self {
        let asks = Arc::new(DaemonAsks::default());
        let socket = UdpSocket::bind(LOCAL).expect("a port");
        let acnetd = socket.local_addr().expect("an address");
        let daemon = {
            let asks = Arc::clone(&asks);
            thread::spawn(move || PlayedDaemon::new(socket).run(&asks))
        };
        let bridge = DaemonBridge::open(acnetd).expect("an acnetd");
        assert_eq!((bridge.node(), bridge.name()), (NODE, Rad50::literal(b"LOCAL")));
        let nodes_at = bridge.address().expect("an address");
        let database = Database::read(DEMO).expect("a good file").with_nodes_at(nodes_at);
        let (name, address, acnetd) = (bridge.name(), bridge.node(), Some(nodes_at));
        let options = ServiceOptions { name, address, acnetd, ..ServiceOptions::default() };
        let settings = ServeSettings { clients: vec![LOCAL], front_ends: LOCAL, options };
        let server = DpmServer::open(settings, Arc::new(database)).expect("free ports");
        let address = server.addresses().expect("an address")[0];
        let bridge = bridge.start(server.network_address().expect("an address")).expect("a thread");
        let served = {
            let asks = Arc::clone(&asks);
            thread::spawn(move || server.run(|_, _| asks.stop.load(Ordering::Relaxed)))
        };
        Self { address, asks, bridge, served, daemon }
    }

    /// Ends everything once the played acnetd has done what it was asked. Returns the replies that
    /// it was given for the network.
    fn stop(self) -> Vec<Vec<u8>> {
        let is_under_way = |_: &_| self.asks.search.load(Ordering::Relaxed);
        (0..2000).take_while(is_under_way).for_each(|_| thread::sleep(Duration::from_millis(5)));
        self.asks.stop.store(true, Ordering::Relaxed);
        drop(self.bridge);
        self.served.join().expect("no panic").expect("no error");
        self.daemon.join().expect("no panic")
    }
}

/// An acnetd whose network is a simulator.
struct PlayedDaemon {
    socket: UdpSocket,
    simulator: Simulator,
    /// The ports for packets of the tasks that it knows.
    tasks: HashMap<u32, u16>,
    requests: u16,
    /// The replies of its tasks to others.
    replies: Vec<Vec<u8>>,
    millis: u64,
}

impl PlayedDaemon {
    fn new(socket: UdpSocket) -> Self {
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time limit");
        let simulator = Simulator::new(Database::read(DEMO).expect("a good file"));
        Self { socket, simulator, tasks: HashMap::new(), requests: 0xa000, replies: Vec::new(), millis: 0 }
    }

    fn run(mut self, asks: &DaemonAsks) -> Vec<Vec<u8>> {
        let (mut buffer, mut is_searching) = ([0; 65_536], false);
        while !asks.stop.load(Ordering::Relaxed) {
            if let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
                if asks.forget.swap(false, Ordering::Relaxed) {
                    self.tasks.clear();
                }
                let acknowledgement = self.obey(&buffer[..length]);
                self.socket.send_to(&acknowledgement, from).expect("it is sent");
                self.deliver();
            }
            if asks.search.load(Ordering::Relaxed) && !is_searching {
                is_searching = true;
                self.search();
            }
            if !self.replies.is_empty() {
                asks.search.store(false, Ordering::Relaxed);
            }
            self.millis += 20;
        }
        self.replies
    }

    /// Delivers a search for a DPM, as the daemon does: its number for the reply is in place of the
    /// status.
    fn search(&self) {
        let (kind, status, server) = (PacketKind::Request, Status(SEARCH as i16), MULTICAST_NODE);
        let header = AcnetHeader { kind, status, server, client: 0x0a07, task: DPMD, task_id: 3, message: 0x6001 };
        let (mut body, mut packet) = (Vec::new(), Vec::new());
        Request::from(ServiceDiscovery {}).encode(&mut body);
        header.write(&body, &mut packet);
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.tasks[&DPMD.0]));
        self.socket.send_to(&packet, to).expect("it is sent");
    }

    /// Carries out a command, and returns its acknowledgement.
    fn obey(&mut self, command: &[u8]) -> Vec<u8> {
        let code = u16::from_be_bytes([command[0], command[1]]);
        let handle = u32::from_be_bytes(*command[2..].first_chunk().expect("a name"));
        let rest = &command[10..];
        let good = |code: u16, rest: &[u8]| [&code.to_be_bytes()[..], &[0, 0], rest].concat();
        match code {
            1 => {
                self.tasks.insert(handle, u16::from_be_bytes([rest[4], rest[5]]));
                good(1, &[&[7], &handle.to_be_bytes()[..]].concat())
            }
            REPLY => {
                self.replies.push(rest.to_vec());
                good(3, &[0, 0])
            }
            12 => good(5, &Rad50::literal(b"LOCAL").0.to_be_bytes()),
            13 => good(4, &NODE.to_be_bytes()),
            _ if !self.tasks.contains_key(&handle) => [&[0, 0], &Status::NOT_CONNECTED.0.to_be_bytes()[..]].concat(),
            18 => {
                self.requests += 1;
                let task = Rad50(u32::from_be_bytes(*rest.first_chunk().expect("a task")));
                let server = u16::from_be_bytes([rest[4], rest[5]]);
                let kind = if rest[7] == 1 { PacketKind::MultipleRequest } else { PacketKind::Request };
                let (status, message) = (Status::SUCCESS, self.requests);
                let header = AcnetHeader { kind, status, server, client: NODE, task, task_id: 7, message };
                let now = Moment { millis: self.millis, unix_millis: self.millis as i64 };
                self.simulator.datagram(LOCAL, &mut header.datagram(&rest[12..]), now);
                good(2, &message.to_be_bytes())
            }
            _ => good(0, &[]),
        }
    }

    /// Delivers the answers of front-ends.
    fn deliver(&mut self) {
        for (_, mut datagram) in self.simulator.flush() {
            packet::swap(&mut datagram);
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.tasks[&DPMD.0]));
            self.socket.send_to(&datagram, to).expect("it is sent");
        }
    }
}
