//! A service in a process that has no descriptors left. The limit is that of the whole process, so
//! this test has a program of its own.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rookery_dpm::database::Database;
use rookery_dpm::driver::{DpmServer, ServeSettings};
use rookery_dpm::service::ServiceOptions;
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const DEMO: &str = include_str!("../src/database/demo.toml");
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[test]
fn without_descriptors_clients_are_closed_and_later_ones_served() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..limit }).expect("a lower limit");
    let stop = Arc::new(AtomicBool::new(false));
    let database = Arc::new(Database::read(DEMO).expect("a good file"));
    let settings = ServeSettings { clients: vec![LOCAL, LOCAL], front_ends: LOCAL, options: ServiceOptions::default() };
    let server = DpmServer::open(settings, database).expect("free ports").with_grpc(LOCAL, None).expect("a free port");
    let mut addresses = server.addresses().expect("addresses");
    assert_eq!(addresses.len(), 2);
    addresses.extend(server.grpc_address());
    let stopped = Arc::clone(&stop);
    let server = thread::spawn(move || server.run(|_, _| stopped.load(Ordering::Relaxed)));
    // A thread that has not begun to serve opens and closes descriptors of its own, and a client
    // that leaves frees one.
    let greeted = addresses.iter().zip([GREETING, GREETING, PREFACE]);
    let _kept: Vec<_> = greeted.map(|(address, said)| is_served(*address, said)).collect();

    let sockets: Vec<OwnedFd> =
        (0..30).map(|_| socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket")).collect();
    let files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // They are kept, since closing them would free descriptors.
    let mut clients: Vec<TcpStream> = sockets.into_iter().map(TcpStream::from).collect();
    for (client, address) in clients.iter_mut().zip(addresses.iter().cycle()) {
        connect(&*client, address).expect("the system accepts it");
        assert!(is_closed(client), "{address} leaves a client waiting");
    }
    // Others are accepted once there are descriptors again.
    drop(files);
    for address in &addresses[..2] {
        assert_eq!(&is_served(*address, GREETING).1[4..], b"SDD\x02", "the number of a list");
    }
    stop.store(true, Ordering::Relaxed);
    server.join().expect("no panic").expect("no error");
}

/// Sends some bytes on a new connection, and returns the connection with the beginning of the
/// answer.
fn is_served(address: SocketAddr, said: &[u8]) -> (TcpStream, [u8; 8]) {
    let mut client = TcpStream::connect(address).expect("a connection");
    client.set_read_timeout(Some(PATIENCE)).expect("it can be set");
    client.write_all(said).expect("it is sent");
    let mut frame = [0; 8];
    client.read_exact(&mut frame).expect("an answer");
    (client, frame)
}

/// Waits for the other side to close the connection, by an end or an error.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
    match stream.read(&mut [0; 16]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

const GREETING: &[u8] = b"GET /dpm HTTP/1.1\r\nContent-Type: application/pc\r\n\r\n";
/// The beginning of HTTP/2 with empty settings (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const PATIENCE: Duration = Duration::from_secs(20);
