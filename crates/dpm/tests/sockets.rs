//! Service and simulated front-ends on real sockets.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rookery_dpm::database::Database;
use rookery_dpm::driver::{DpmServer, ServeSettings, SimulatorFront};
use rookery_dpm::sdd::SddMessage;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::{AddToList, Request, StartList};
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::simulator::Simulator;

const DEMO: &str = include_str!("../src/database/demo.toml");

#[test]
fn a_client_reads_a_device_over_the_network() {
    let read = || Database::read(DEMO).expect("a good file");
    let stop = Arc::new(AtomicBool::new(false));
    let front = SimulatorFront::open(LOCAL, Simulator::new(read())).expect("a free port");
    let database = read().at(front.address().expect("an address"));
    let settings = ServeSettings { clients: vec![LOCAL], front_ends: LOCAL, options: ServiceOptions::default() };
    let server = DpmServer::open(settings, Arc::new(database)).expect("free ports");
    let address = server.addresses().expect("an address")[0];
    let (front_stop, server_stop) = (Arc::clone(&stop), Arc::clone(&stop));
    let front = thread::spawn(move || front.run(|| front_stop.load(Ordering::Relaxed)));
    let server = thread::spawn(move || server.run(|_, _| server_stop.load(Ordering::Relaxed)));

    // Two clients at once; the second leaves in the middle.
    let (mut client, mut other) = (SocketClient::connect(address), SocketClient::connect(address));
    for client in [&mut client, &mut other] {
        client.ask(AddToList { list_id: client.list_id, ref_id: 5, drf_request: "G:COUNTR@p,100".into() }.into());
        client.ask(StartList { list_id: client.list_id, model: None }.into());
        assert!(matches!(client.next(), Reply::DeviceInfo(info) if info.name == "G:COUNTR"));
    }
    assert!(matches!(other.next(), Reply::StartList(_) | Reply::Scalar(_)));
    drop(other);
    let mut numbers = Vec::new();
    while numbers.len() < 5 {
        if let Reply::Scalar(scalar) = client.next() {
            assert_eq!(scalar.ref_id, 5);
            numbers.push(scalar.data);
        }
    }
    assert!(numbers.is_sorted_by(|earlier, later| earlier < later), "{numbers:?}");

    stop.store(true, Ordering::Relaxed);
    front.join().expect("no panic").expect("no error");
    server.join().expect("no panic").expect("no error");
}

#[test]
fn a_client_that_takes_nothing_is_closed() {
    let read = || Database::read(DEMO).expect("a good file");
    let stop = Arc::new(AtomicBool::new(false));
    let front = SimulatorFront::open(LOCAL, Simulator::new(read())).expect("a free port");
    let database = read().at(front.address().expect("an address"));
    let options = ServiceOptions { stuck: 300, ..ServiceOptions::default() };
    let server =
        DpmServer::open(ServeSettings { clients: vec![LOCAL], front_ends: LOCAL, options }, Arc::new(database));
    let server = server.expect("free ports");
    let address = server.addresses().expect("an address")[0];
    let connected = Arc::new(AtomicUsize::new(0));
    let (front_stop, server_stop, told) = (Arc::clone(&stop), Arc::clone(&stop), Arc::clone(&connected));
    let front = thread::spawn(move || front.run(|| front_stop.load(Ordering::Relaxed)));
    let server = thread::spawn(move || {
        server.run(|dpm, _| {
            told.store(dpm.statistics().clients, Ordering::Relaxed);
            server_stop.load(Ordering::Relaxed)
        })
    });
    let wait_for = |clients| {
        while connected.load(Ordering::Relaxed) != clients {
            thread::sleep(Duration::from_millis(10));
        }
    };
    let (mut stuck, mut quiet) = (SocketClient::connect(address), SocketClient::connect(address));
    for ref_id in 0..2000 {
        let drf_request = format!("B:ARRAY[]@p,{}", 50 + ref_id % 5);
        stuck.ask(AddToList { list_id: stuck.list_id, ref_id, drf_request }.into());
    }
    wait_for(2);
    stuck.ask(StartList { list_id: stuck.list_id, model: None }.into());
    // Only that one: a client that is owed nothing may be silent.
    wait_for(1);
    quiet.ask(AddToList { list_id: quiet.list_id, ref_id: 5, drf_request: "G:COUNTR@I".into() }.into());
    quiet.ask(StartList { list_id: quiet.list_id, model: None }.into());
    assert!(matches!(quiet.next(), Reply::DeviceInfo(info) if info.name == "G:COUNTR"));
    stop.store(true, Ordering::Relaxed);
    front.join().expect("no panic").expect("no error");
    server.join().expect("no panic").expect("no error");
}

struct SocketClient {
    stream: TcpStream,
    list_id: i32,
}

impl SocketClient {
    fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
        stream.write_all(b"GET /dpm HTTP/1.1\r\nContent-Type: application/pc\r\n\r\n").expect("it is sent");
        let mut client = Self { stream, list_id: 0 };
        match client.next() {
            Reply::OpenList(open) => client.list_id = open.list_id,
            other => panic!("{other:?}"),
        }
        client
    }

    fn ask(&mut self, request: Request) {
        let mut message = Vec::new();
        request.encode(&mut message);
        let framed = [&(message.len() as u32).to_be_bytes()[..], &message].concat();
        self.stream.write_all(&framed).expect("it is sent");
    }

    fn next(&mut self) -> Reply {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix).expect("a frame");
        let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
        self.stream.read_exact(&mut frame).expect("a whole frame");
        Reply::decode(&frame).expect("a reply")
    }
}

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
