//! Listening sockets outlive the process: clients that connect while the server restarts are served
//! by the next one.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::rig::CliRig;

/// Two ports that another program has opened, as systemd does for its services.
struct Sockets {
    kept: [OwnedFd; 2],
    addresses: [SocketAddr; 2],
}

impl Sockets {
    fn open() -> Sockets {
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let addresses = [0, 1].map(|at| sockets[at].local_addr().expect("an address"));
        // The numbers of passed descriptors are consecutive.
        let kept = (FAR..).step_by(2).find_map(|from| {
            let copies = [0, 1].map(|at| fcntl_dupfd_cloexec(&sockets[at], from + at as i32).expect("a descriptor"));
            (copies[0].as_raw_fd() == from && copies[1].as_raw_fd() == from + 1).then_some(copies)
        });
        let kept = kept.expect("descriptors that are free");
        kept.iter().for_each(|socket| fcntl_setfd(socket, FdFlags::empty()).expect("a descriptor"));
        Sockets { kept, addresses }
    }

    fn environment(&self) -> [(&'static str, String); 2] {
        [("LISTEN_FDS", "2".into()), ("LISTEN_FDS_FIRST_FD", self.kept[0].as_raw_fd().to_string())]
    }
}

/// Opens a stream.
fn begin(stream: &mut TcpStream) {
    let header = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
    stream.write_all(header.as_bytes()).expect("somebody listens");
}

/// Returns the beginning of the response.
fn answer(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a patience");
    let mut said = String::new();
    let mut some = [0; 1024];
    while !said.contains("</stream:features>") {
        let read = stream.read(&mut some).expect("an answer");
        assert!(read > 0, "the connection was closed after: {said}");
        said.push_str(&String::from_utf8_lossy(&some[..read]));
    }
    said
}

#[test]
fn nobody_is_refused_while_a_server_with_kept_sockets_restarts() {
    let rig = CliRig::fresh();
    let sockets = Sockets::open();
    let [ours, other] = sockets.addresses;
    rig.write(
        "rookery.toml",
        &format!("[listen]\nc2s = [\"{ours}\"]\nc2s_tls = []\nweb = []\nweb_tls = []\nbytestreams = []\n"),
    );
    let environment = sockets.environment();
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (server, said) = rig.serve_in(&environment);
    assert!(said.contains(&ours.to_string()), "{said}");
    let mut stream = TcpStream::connect(ours).expect("a connection");
    begin(&mut stream);
    assert!(answer(stream).contains("starttls"));
    let log = server.log();
    assert!(log.contains(&other.to_string()), "a socket that no key names is told:\n{log}");
    assert!(!log.contains(&format!("{ours} no key")), "{log}");
    // Nothing accepts connections now.
    let mut early: Vec<_> = (0..5).map(|_| TcpStream::connect(ours).expect("nobody is refused")).collect();
    early.iter_mut().for_each(begin);
    let (server, _) = rig.serve_in(&environment);
    for stream in early {
        assert!(answer(stream).contains("starttls"));
    }
    assert_eq!(server.stop(), 0);
}

/// A supervisor that keeps descriptors receives each port, under a name without a colon, and is
/// told to drop one that is no longer wanted (sd_pid_notify_with_fds(3)).
#[test]
fn a_supervisor_is_given_the_ports_to_keep() {
    let rig = CliRig::fresh();
    let supervisor = UnixDatagram::bind(rig.path("notify")).expect("a socket");
    supervisor.set_read_timeout(Some(Duration::from_secs(60))).expect("a patience");
    let notify = rig.path("notify").display().to_string();
    let (server, said) = rig.serve_in(&[("NOTIFY_SOCKET", &notify), ("FDSTORE", "64")]);
    let mut kept = Vec::new();
    while kept.len() < 5 {
        let (words, descriptor) = next(&supervisor);
        if let Some(socket) = descriptor {
            let address = socket.local_addr().expect("a port");
            assert_eq!(words, format!("FDSTORE=1\nFDNAME=listen-127.0.0.1_{}", address.port()));
            assert!(said.contains(&address.to_string()), "{address}: {said}");
            kept.push(address);
        }
    }
    assert_eq!(server.stop(), 0);
    // Only one port is still wanted.
    let sockets = Sockets::open();
    let [ours, other] = sockets.addresses;
    rig.write(
        "rookery.toml",
        &format!("[listen]\nc2s = [\"{ours}\"]\nc2s_tls = []\nweb = []\nweb_tls = []\nbytestreams = []\n"),
    );
    let environment = sockets.environment();
    let handed = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (server, _) = rig.serve_in(&[&[("NOTIFY_SOCKET", notify.as_str()), ("FDSTORE", "64")][..], &handed].concat());
    let forgotten = format!("FDSTOREREMOVE=1\nFDNAME=listen-127.0.0.1_{}", other.port());
    while next(&supervisor).0 != forgotten {}
    assert_eq!(server.stop(), 0);
}

/// Returns the next message to a supervisor, with the socket that comes along.
fn next(supervisor: &UnixDatagram) -> (String, Option<TcpListener>) {
    let (mut words, mut space) = ([0; 1024], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received =
        recvmsg(supervisor, &mut [IoSliceMut::new(&mut words)], &mut beside, flags).expect("something is told");
    let descriptors = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.flatten().next();
    (String::from_utf8_lossy(&words[..received.bytes]).into_owned(), descriptor.map(TcpListener::from))
}

/// The first descriptor that the test tries, above those of all other tests.
const FAR: i32 = 700;
