//! Service and simulated front-ends on real sockets.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rookery_dpm::acnet::{AcnetHeader, DPMD, MULTICAST_NODE, PacketKind, packet};
use rookery_dpm::database::Database;
use rookery_dpm::driver::{DpmServer, MulticastGroup, ServeSettings, SimulatorFront};
use rookery_dpm::sdd::SddMessage;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::{AddToList, OpenList, Request, ServiceDiscovery, StartList};
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::simulator::Simulator;
use rookery_dpm::status::Status;

const DEMO: &str = include_str!("../src/database/demo.toml");

#[test]
fn a_client_reads_a_device_over_the_network() {
    let service = SocketService::start(ServiceOptions::default());
    let address = service.address;

    // Two clients at once; the second one leaves halfway.
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
    service.stop();
}

#[test]
fn a_dpm_is_found_by_multicast_and_read_by_another_node() {
    let node = UdpSocket::bind(LOCAL).expect("a free port");
    node.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    rustix::net::sockopt::set_ip_multicast_if(&node, &Ipv4Addr::LOCALHOST).expect("this machine");
    let address = node.local_addr().expect("an address");
    let text = format!("[[node]]\nname = 'CONSL'\naddress = '0a06'\nprotocol = 'RETDAT'\nsocket = '{address}'\n{DEMO}");
    let database = Database::read(&text).expect("a good file");
    let front_ends = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let settings = ServeSettings { clients: vec![LOCAL], front_ends, options: ServiceOptions::default() };
    let group: MulticastGroup = "239.128.4.1@127.0.0.1".parse().expect("a group");
    let server = DpmServer::open(settings, Arc::new(database)).expect("free ports");
    let server = server.with_multicast(group).expect("the group");
    let port = server.network_address().expect("an address").port();
    let stop = Arc::new(AtomicBool::new(false));
    let server_stop = Arc::clone(&stop);
    let server = thread::spawn(move || server.run(|_, _| server_stop.load(Ordering::Relaxed)));

    let ask = |to: Ipv4Addr, server: u16, kind: PacketKind, message: u16, request: Request| {
        let (status, task) = (Status::SUCCESS, DPMD);
        let header = AcnetHeader { kind, status, server, client: 0x0a06, task, task_id: 3, message };
        let mut body = Vec::new();
        request.encode(&mut body);
        node.send_to(&header.datagram(&body), (to, port)).expect("it leaves");
    };
    let mut buffer = vec![0; 65_536];
    let mut next = || {
        let (length, _) = node.recv_from(&mut buffer).expect("an answer");
        let datagram = &mut buffer[..length];
        packet::swap(datagram);
        let read = |packet: packet::AcnetPacket<'_>| (packet.header, Reply::decode(packet.body).expect("a reply"));
        packet::packets(datagram).map(read).collect::<Vec<_>>()
    };
    ask(group.group, MULTICAST_NODE, PacketKind::Request, 1, ServiceDiscovery {}.into());
    let found = next();
    assert!(matches!(&found[..], [(header, Reply::ServiceDiscovery(found))]
        if header.server == 0x0ad6 && found.service_location == "DPM06"));

    let here = Ipv4Addr::LOCALHOST;
    ask(here, 0x0ad6, PacketKind::MultipleRequest, 2, OpenList { location: None }.into());
    let [(_, Reply::OpenList(open))] = &next()[..] else { panic!("no list") };
    let list_id = open.list_id;
    ask(
        here,
        0x0ad6,
        PacketKind::Request,
        3,
        AddToList { list_id, ref_id: 5, drf_request: "M:OUTTMP.INDEX@I".into() }.into(),
    );
    assert!(matches!(&next()[..], [(_, Reply::AddToList(_))]));
    ask(here, 0x0ad6, PacketKind::Request, 4, StartList { list_id, model: None }.into());
    let mut replies = Vec::new();
    while !replies.iter().any(|(_, reply)| matches!(reply, Reply::Scalar(scalar) if scalar.data == 27_235.0)) {
        replies.extend(next());
    }
    stop.store(true, Ordering::Relaxed);
    server.join().expect("no panic").expect("no error");
}

#[test]
fn many_clients_get_their_readings_in_order_beside_one_that_takes_none() {
    let service = SocketService::start(ServiceOptions::default());

    // The first client reads arrays, and takes none of them.
    let mut clients: Vec<_> = (0..=MANY).map(|_| SocketClient::connect(service.address)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let drf = if number == 0 { "B:ARRAY[]@p,50" } else { "G:COUNTR@p,50" };
        client.ask(AddToList { list_id: client.list_id, ref_id: 5, drf_request: drf.into() }.into());
        client.ask(StartList { list_id: client.list_id, model: None }.into());
    }
    for client in &mut clients[1..] {
        let mut numbers = Vec::new();
        while numbers.len() < 20 {
            if let Reply::Scalar(scalar) = client.next() {
                numbers.push(scalar.data);
            }
        }
        assert!(numbers.is_sorted_by(|earlier, later| earlier < later), "{numbers:?}");
    }
    service.stop();
}

#[test]
fn a_client_that_takes_nothing_is_closed() {
    let service = SocketService::start(ServiceOptions { stuck: 300, ..ServiceOptions::default() });
    let address = service.address;
    let (mut stuck, mut quiet) = (SocketClient::connect(address), SocketClient::connect(address));
    for ref_id in 0..2000 {
        let drf_request = format!("B:ARRAY[]@p,{}", 50 + ref_id % 5);
        stuck.ask(AddToList { list_id: stuck.list_id, ref_id, drf_request }.into());
    }
    service.wait_for(2);
    stuck.ask(StartList { list_id: stuck.list_id, model: None }.into());
    // Only this one: a client that awaits nothing may be silent.
    service.wait_for(1);
    quiet.ask(AddToList { list_id: quiet.list_id, ref_id: 5, drf_request: "G:COUNTR@I".into() }.into());
    quiet.ask(StartList { list_id: quiet.list_id, model: None }.into());
    assert!(matches!(quiet.next(), Reply::DeviceInfo(info) if info.name == "G:COUNTR"));
    service.stop();
}

/// A service that reads simulated front-ends, each in a thread.
struct SocketService {
    address: SocketAddr,
    /// The number of clients, as the service counts them in each turn.
    connected: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    threads: [thread::JoinHandle<io::Result<()>>; 2],
}

impl SocketService {
    fn start(options: ServiceOptions) -> Self {
        let read = || Database::read(DEMO).expect("a good file");
        let front = SimulatorFront::open(LOCAL, Simulator::new(read())).expect("a free port");
        let database = read().with_nodes_at(front.address().expect("an address"));
        let settings = ServeSettings { clients: vec![LOCAL], front_ends: LOCAL, options };
        let server = DpmServer::open(settings, Arc::new(database)).expect("free ports");
        let address = server.addresses().expect("an address")[0];
        let (connected, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (front_stop, server_stop, told) = (Arc::clone(&stop), Arc::clone(&stop), Arc::clone(&connected));
        let front = thread::spawn(move || front.run(|| front_stop.load(Ordering::Relaxed)));
        let server = thread::spawn(move || {
            server.run(|dpm, _| {
                told.store(dpm.statistics().clients, Ordering::Relaxed);
                server_stop.load(Ordering::Relaxed)
            })
        });
        Self { address, connected, stop, threads: [front, server] }
    }

    /// Waits until the service has this number of clients.
    fn wait_for(&self, clients: usize) {
        while self.connected.load(Ordering::Relaxed) != clients {
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no panic").expect("no error");
        }
    }
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
/// More clients than the serving thread writes to in a turn.
const MANY: usize = 150;
