//! DPM as a task of an acnetd, which this test plays on a socket.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rookery_dpm::acnet::{AcnetHeader, DPMD, PacketKind, packet};
use rookery_dpm::database::Database;
use rookery_dpm::driver::{DaemonBridge, DpmServer, ServeSettings, Until, ask};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::simulator::Simulator;
use rookery_dpm::status::Status;
use rookery_dpm::time::Moment;

const DEMO: &str = include_str!("../src/database/demo.toml");
const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const NODE: u16 = 0x0a06;

#[test]
fn devices_are_read_by_way_of_an_acnetd_that_may_be_started_again() {
    let stop = Arc::new(AtomicBool::new(false));
    let forgets = Arc::new(AtomicBool::new(false));
    let socket = UdpSocket::bind(LOCAL).expect("a port");
    let acnetd = socket.local_addr().expect("an address");
    let daemon = {
        let (stop, forgets) = (Arc::clone(&stop), Arc::clone(&forgets));
        thread::spawn(move || PlayedDaemon::new(socket).run(&stop, &forgets))
    };
    let bridge = DaemonBridge::open(acnetd).expect("an acnetd");
    assert_eq!((bridge.node(), bridge.name()), (NODE, Rad50::literal(b"LOCAL")));
    let database = Database::read(DEMO).expect("a good file").with_nodes_at(bridge.address().expect("an address"));
    let options = ServiceOptions { name: bridge.name(), address: bridge.node(), ..ServiceOptions::default() };
    let settings = ServeSettings { clients: vec![LOCAL], front_ends: LOCAL, options };
    let server = DpmServer::open(settings, Arc::new(database)).expect("free ports");
    let address = server.addresses().expect("an address")[0];
    let bridge = bridge.start(server.network_address().expect("an address")).expect("a thread");
    let served = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || server.run(|_, _| stop.load(Ordering::Relaxed)))
    };
    let read = || {
        let mut out = Vec::new();
        let is_good = ask(address, &["M:OUTTMP".into(), "G:COUNTR".into()], Until::Answered, &mut out);
        (is_good.expect("an answer"), String::from_utf8(out).expect("text"))
    };
    let (is_good, text) = read();
    assert!(is_good && text.contains("DegF") && text.contains("cnts"), "{text}");
    // A daemon that was started again knows no tasks until they come to it.
    forgets.store(true, Ordering::Relaxed);
    let again = (0..20).find(|_| read().0);
    assert!(again.is_some() && !forgets.load(Ordering::Relaxed), "readings come again");
    stop.store(true, Ordering::Relaxed);
    drop(bridge);
    served.join().expect("no panic").expect("no error");
    daemon.join().expect("no panic");
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

/// An acnetd whose network is a simulator.
struct PlayedDaemon {
    socket: UdpSocket,
    simulator: Simulator,
    /// The ports for packets of the tasks that it knows.
    tasks: HashMap<u32, u16>,
    requests: u16,
    millis: u64,
}

impl PlayedDaemon {
    fn new(socket: UdpSocket) -> Self {
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time limit");
        let simulator = Simulator::new(Database::read(DEMO).expect("a good file"));
        Self { socket, simulator, tasks: HashMap::new(), requests: 0xa000, millis: 0 }
    }

    fn run(mut self, stop: &AtomicBool, forgets: &AtomicBool) {
        let mut buffer = [0; 65_536];
        while !stop.load(Ordering::Relaxed) {
            if let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
                if forgets.swap(false, Ordering::Relaxed) {
                    self.tasks.clear();
                }
                let acknowledgement = self.obey(&buffer[..length]);
                self.socket.send_to(&acknowledgement, from).expect("it is sent");
                self.deliver();
            }
            self.millis += 20;
        }
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
