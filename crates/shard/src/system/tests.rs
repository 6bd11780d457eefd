//! The contract of a driver, over real sockets, for both of those for Linux.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use super::*;

/// Defines each test for both drivers.
macro_rules! over_both {
    ($($name:ident),* $(,)?) => {
        mod epoll {
            $(#[test]
            fn $name() {
                super::test::$name(super::SystemInterface::Epoll);
            })*
        }
        mod io_uring {
            $(#[test]
            fn $name() {
                if !rookery_needs::skips("shard.io_uring") {
                    super::test::$name(super::SystemInterface::IoUring);
                }
            })*
        }
    };
}

over_both!(
    input_and_an_end_are_reported_until_they_are_read,
    output_of_a_tick_arrives_in_order_at_each_of_many,
    output_keeps_its_order_while_the_peer_reads_slowly,
    a_paused_socket_reports_nothing_and_loses_nothing,
    a_paused_socket_that_breaks_is_reported,
    a_change_of_interest_may_change_the_key,
    a_reset_is_an_error_or_an_end,
    output_before_the_end_of_our_direction_arrives,
    output_of_a_socket_that_is_closed_at_once_arrives,
    output_that_was_accepted_arrives_though_the_window_was_full,
    accepted_output_is_sent_before_a_driver_ends,
    a_socket_takes_its_bytes_along_to_another_driver,
    a_socket_takes_unsent_output_along_to_another_driver,
    a_later_socket_gets_nothing_of_an_earlier_one,
    a_connection_that_is_accepted_becomes_writable,
    a_connection_that_is_refused_says_so,
    more_sockets_than_buffers_bring_input_at_once,
    a_flood_arrives_whole_and_in_order,
    listeners_are_reported_until_nobody_waits,
    a_wait_is_woken_from_another_thread,
);

/// A driver, and the connections of a test.
struct DriverStage {
    driver: SystemDriver,
    listener: TcpListener,
    news: SystemNews,
}

impl DriverStage {
    fn new(interface: SystemInterface) -> Self {
        let driver = SystemDriver::new(interface).expect("a driver");
        Self { driver, listener: TcpListener::bind("127.0.0.1:0").expect("a port"), news: SystemNews::default() }
    }

    /// Returns a connection that isn't watched, and its peer, which doesn't block.
    fn pair(&self) -> (SystemSocket, TcpStream) {
        let peer = TcpStream::connect(self.listener.local_addr().expect("an address")).expect("connected");
        (self.accept(&peer), peer)
    }

    fn accept(&self, peer: &TcpStream) -> SystemSocket {
        peer.set_nonblocking(true).expect("an option");
        let socket = self.listener.accept().expect("accepted").0;
        // Small windows are full soon.
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, 64 * 1024).expect("an option");
        rustix::net::sockopt::set_socket_recv_buffer_size(peer, 64 * 1024).expect("an option");
        socket.into()
    }

    fn watch_pair(&mut self, key: u32) -> (SystemSocket, TcpStream) {
        let (socket, peer) = self.pair();
        self.driver.add(&socket, key).expect("watched");
        (socket, peer)
    }

    /// Waits once, for a short time if nothing is ready.
    fn wait(&mut self) -> Vec<ReadySocket> {
        self.driver.wait(Some(Duration::from_millis(5)), &mut self.news);
        self.news.ready.clone()
    }

    /// Waits until a socket is reported.
    fn wait_for(&mut self, key: u32, report: impl Fn(&ReadySocket) -> bool) -> ReadySocket {
        for _ in 0..2000 {
            if let Some(ready) = self.wait().into_iter().find(|ready| ready.key == key && report(ready)) {
                return ready;
            }
        }
        panic!("the socket {key} isn't reported");
    }

    fn wait_to_read(&mut self, key: u32) {
        self.wait_for(key, |ready| ready.read);
    }

    /// Reads so many bytes of a socket.
    fn read(&mut self, socket: &SystemSocket, key: u32, len: usize) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        while all.len() < len {
            self.wait_to_read(key);
            let read = self.driver.recv(socket, &mut buffer).expect("input");
            assert!(read > 0, "the input ends after {} of {len} bytes", all.len());
            all.extend_from_slice(&buffer[..read]);
        }
        all
    }

    /// Sends as much as is accepted, at most `most` bytes of the pattern behind the first `sent`,
    /// in pieces of `piece` bytes.
    fn send(&mut self, socket: &SystemSocket, sent: usize, most: usize, piece: usize) -> usize {
        let mut at = sent;
        while at - sent < most {
            match self.driver.send(socket, &pattern(at, piece.min(most + sent - at))) {
                Ok(len) => at += len,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        at - sent
    }

    /// Sends the pattern until the connection is full, in ticks. Returns how many bytes were
    /// accepted.
    fn fill(&mut self, socket: &SystemSocket, piece: usize) -> usize {
        let (mut sent, mut full) = (0, 0);
        while full < 3 {
            let some = self.send(socket, sent, 4 * piece, piece);
            (sent, full) = (sent + some, if some == 0 { full + 1 } else { 0 });
            self.wait();
        }
        sent
    }

    /// Reads what a peer gets until the end, while the driver works.
    fn drain(&mut self, peer: &mut TcpStream) -> Vec<u8> {
        let (mut all, mut buffer, mut silent) = (Vec::new(), vec![0; 64 * 1024], 0);
        loop {
            match peer.read(&mut buffer) {
                Ok(0) => return all,
                Ok(len) => {
                    all.extend_from_slice(&buffer[..len]);
                    silent = 0;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "after {} bytes", all.len());
                    silent += 1;
                    assert!(silent < 2000, "no end after {} bytes", all.len());
                    self.wait();
                }
            }
        }
    }
}

/// Returns bytes of an endless pattern without short periods.
fn pattern(at: usize, len: usize) -> Vec<u8> {
    (at..at + len).map(|at| ((at * 31) ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// Lets a connection be reset when it is closed.
fn reset(peer: TcpStream) {
    rustix::net::sockopt::set_socket_linger(peer.as_fd(), Some(Duration::ZERO)).expect("an option");
}

/// Compares with the pattern, without printing megabytes.
fn assert_pattern(found: &[u8], at: usize, len: usize) {
    assert_eq!(found.len(), len);
    assert!(found == pattern(at, len), "the bytes are others");
}

mod test {
    use super::*;

    pub(super) fn input_and_an_end_are_reported_until_they_are_read(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let (socket, mut peer) = stage.watch_pair(3);
        assert_eq!(stage.wait(), []);
        peer.write_all(b"hello").expect("written");
        let ready = stage.wait_for(3, |_| true);
        assert_eq!(ready, ReadySocket { key: 3, read: true, write: false });
        assert!(stage.wait().iter().any(|ready| ready.key == 3 && ready.read), "nobody has read it");
        let mut buffer = [0; 3];
        assert_eq!(stage.driver.recv(&socket, &mut buffer).expect("input"), 3);
        assert_eq!(stage.read(&socket, 3, 2), b"lo");
        assert_eq!(stage.driver.recv(&socket, &mut buffer).expect_err("empty").kind(), ErrorKind::WouldBlock);
        assert_eq!(stage.wait(), []);
        peer.write_all(b"end").expect("written");
        drop(peer);
        assert_eq!(stage.read(&socket, 3, 3), b"end");
        for _ in 0..2 {
            stage.wait_to_read(3);
            assert_eq!(stage.driver.recv(&socket, &mut buffer).expect("an end"), 0);
        }
    }

    pub(super) fn output_of_a_tick_arrives_in_order_at_each_of_many(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let mut pairs: Vec<_> = (0..300).map(|key| stage.watch_pair(key)).collect();
        for round in 0..3 {
            for (number, (socket, _)) in pairs.iter().enumerate() {
                let text = format!("{round} for {number};");
                assert_eq!(stage.driver.send(socket, text.as_bytes()).expect("accepted"), text.len());
            }
        }
        // A long output takes another way than short ones.
        let long = pattern(0, 100_000);
        let (socket, _) = &pairs[7];
        assert_eq!(stage.driver.send(socket, &long).expect("accepted"), long.len());
        stage.wait();
        for (number, (socket, peer)) in pairs.iter_mut().enumerate() {
            let expected = format!("0 for {number};1 for {number};2 for {number};");
            stage.driver.shutdown(socket);
            let found = stage.drain(peer);
            assert!(found.starts_with(expected.as_bytes()), "{number}");
            assert_eq!(found.len() - expected.len(), if number == 7 { long.len() } else { 0 });
        }
    }

    pub(super) fn output_keeps_its_order_while_the_peer_reads_slowly(interface: SystemInterface) {
        const ALL: usize = 3_000_000;
        let mut stage = DriverStage::new(interface);
        let (socket, mut peer) = stage.watch_pair(1);
        let (mut sent, mut found, mut buffer) = (0, Vec::new(), vec![0; 256 * 1024]);
        let mut waits = 0;
        for round in 0.. {
            // There are short and long outputs, several in a tick.
            let piece = [100, 3000, 20_000, 64 * 1024][round % 4];
            let some = stage.send(&socket, sent, (5 * piece).min(ALL - sent), piece);
            sent += some;
            if some == 0 && sent < ALL {
                waits += 1;
                stage.driver.interest(&socket, 1, true, true);
                while let Ok(len) = peer.read(&mut buffer) {
                    found.extend_from_slice(&buffer[..len]);
                }
                stage.wait_for(1, |ready| ready.write);
                stage.driver.interest(&socket, 1, true, false);
            }
            if sent == ALL {
                break;
            }
            stage.wait();
        }
        assert!(waits > 0, "the window was never full");
        stage.driver.shutdown(&socket);
        found.extend(stage.drain(&mut peer));
        assert_pattern(&found, 0, ALL);
    }

    pub(super) fn a_paused_socket_reports_nothing_and_loses_nothing(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let (socket, mut peer) = stage.watch_pair(1);
        let mut written = 0;
        for round in 0..6 {
            stage.driver.interest(&socket, 1, false, false);
            if round % 2 == 0 {
                stage.wait();
            }
            while let Ok(len) = peer.write(&pattern(written, 50_000)) {
                written += len;
                if written % 7 == round {
                    break;
                }
            }
            for _ in 0..3 {
                assert_eq!(stage.wait(), []);
            }
            stage.driver.interest(&socket, 1, true, false);
            let some = written / 2;
            let found = stage.read(&socket, 1, some);
            // Input is paused while some of it is unread.
            stage.driver.interest(&socket, 1, false, false);
            assert_eq!(stage.wait(), []);
            stage.driver.interest(&socket, 1, true, false);
            let rest = stage.read(&socket, 1, written.saturating_sub(found.len()));
            assert_pattern(&[found, rest].concat(), 0, written);
            written = 0;
        }
    }

    pub(super) fn a_paused_socket_that_breaks_is_reported(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let (socket, mut peer) = stage.watch_pair(1);
        stage.driver.interest(&socket, 1, false, false);
        peer.write_all(b"unread").expect("written");
        assert_eq!(stage.wait(), []);
        reset(peer);
        stage.wait_to_read(1);
        stage.driver.remove(&socket);
    }

    pub(super) fn a_change_of_interest_may_change_the_key(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let (socket, mut peer) = stage.watch_pair(1);
        stage.wait();
        peer.write_all(b"x").expect("written");
        stage.wait_to_read(1);
        stage.driver.interest(&socket, 2, true, false);
        assert_eq!(stage.read(&socket, 2, 1), b"x");
    }

    pub(super) fn a_reset_is_an_error_or_an_end(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let (socket, peer) = stage.watch_pair(1);
        stage.wait();
        reset(peer);
        stage.wait_to_read(1);
        let read = stage.driver.recv(&socket, &mut [0; 10]);
        assert!(matches!(&read, Err(error) if error.kind() == ErrorKind::ConnectionReset), "{read:?}");
        // Output has nowhere to go: writing fails at once, or a report says so.
        let sent = stage.driver.send(&socket, b"too late");
        assert!(sent.is_err() || stage.wait_for(1, |ready| ready.read).read);
    }

    pub(super) fn output_before_the_end_of_our_direction_arrives(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let (socket, mut peer) = stage.watch_pair(1);
        stage.driver.send(&socket, b"</stream:stream>").expect("accepted");
        stage.driver.shutdown(&socket);
        assert_eq!(stage.drain(&mut peer), b"</stream:stream>");
        peer.write_all(b"also").expect("the other direction is open");
        assert_eq!(stage.read(&socket, 1, 4), b"also");
    }

    pub(super) fn output_of_a_socket_that_is_closed_at_once_arrives(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        for is_known in [false, true] {
            let (socket, mut peer) = stage.watch_pair(1);
            if is_known {
                stage.wait();
            }
            stage.driver.send(&socket, b"last ").expect("accepted");
            stage.driver.send(&socket, b"words").expect("accepted");
            stage.driver.remove(&socket);
            drop(socket);
            // Nothing more is needed of the driver: the connection is closed.
            peer.set_nonblocking(false).expect("an option");
            let mut found = Vec::new();
            peer.read_to_end(&mut found).expect("an end");
            assert_eq!(found, b"last words");
        }
    }

    pub(super) fn output_that_was_accepted_arrives_though_the_window_was_full(interface: SystemInterface) {
        for (piece, half_closes) in [(1500, false), (50_000, false), (1500, true)] {
            let mut stage = DriverStage::new(interface);
            let (socket, mut peer) = stage.watch_pair(1);
            let accepted = stage.fill(&socket, piece);
            if half_closes {
                peer.shutdown(std::net::Shutdown::Write).expect("half closed");
            }
            stage.driver.remove(&socket);
            drop(socket);
            let found = stage.drain(&mut peer);
            assert_pattern(&found, 0, accepted);
        }
    }

    pub(super) fn accepted_output_is_sent_before_a_driver_ends(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let (socket, mut peer) = stage.watch_pair(1);
        stage.wait();
        stage.driver.send(&socket, b"the end").expect("accepted");
        drop(stage);
        drop(socket);
        peer.set_nonblocking(false).expect("an option");
        let mut found = Vec::new();
        peer.read_to_end(&mut found).expect("an end");
        assert_eq!(found, b"the end");
    }

    pub(super) fn a_socket_takes_its_bytes_along_to_another_driver(interface: SystemInterface) {
        let (mut stage, mut other) = (DriverStage::new(interface), DriverStage::new(interface));
        let (socket, mut peer) = stage.watch_pair(1);
        peer.write_all(b"read, ").expect("written");
        assert_eq!(stage.read(&socket, 1, 6), b"read, ");
        peer.write_all(b"reported, ").expect("written");
        stage.wait_to_read(1);
        peer.write_all(b"on its way, ").expect("written");
        stage.driver.send(&socket, b"to the peer").expect("accepted");
        stage.driver.remove(&socket);
        assert_eq!(stage.wait(), []);
        peer.write_all(b"behind").expect("written");
        other.driver.add(&socket, 9).expect("watched");
        assert_eq!(other.read(&socket, 9, 28), b"reported, on its way, behind");
        other.driver.shutdown(&socket);
        assert_eq!(other.drain(&mut peer), b"to the peer");
    }

    pub(super) fn a_socket_takes_unsent_output_along_to_another_driver(interface: SystemInterface) {
        let (mut stage, mut other) = (DriverStage::new(interface), DriverStage::new(interface));
        let (socket, mut peer) = stage.watch_pair(1);
        let accepted = stage.fill(&socket, 1500);
        stage.driver.remove(&socket);
        other.driver.add(&socket, 9).expect("watched");
        other.driver.interest(&socket, 9, true, true);
        let (mut found, mut buffer) = (Vec::new(), vec![0; 256 * 1024]);
        while let Ok(len) = peer.read(&mut buffer) {
            found.extend_from_slice(&buffer[..len]);
        }
        other.wait_for(9, |ready| ready.write);
        let more = other.send(&socket, accepted, 10_000, 1500);
        assert_eq!(more, 10_000);
        other.driver.shutdown(&socket);
        found.extend(other.drain(&mut peer));
        assert_pattern(&found, 0, accepted + more);
    }

    pub(super) fn a_later_socket_gets_nothing_of_an_earlier_one(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let address = stage.listener.local_addr().expect("an address");
        let mut again = 0;
        for round in 0..60 {
            let (socket, mut peer) = stage.watch_pair(1);
            let mut other = TcpStream::connect(address).expect("connected");
            peer.write_all(format!("secret {round}").as_bytes()).expect("written");
            match round % 3 {
                0 => stage.wait_to_read(1),
                1 => drop(stage.wait()),
                _ => {}
            }
            stage.driver.remove(&socket);
            let number = socket.number();
            drop(socket);
            let next = stage.accept(&other);
            again += usize::from(next.number() == number);
            stage.driver.add(&next, 1).expect("watched");
            assert_eq!(stage.wait(), []);
            other.write_all(b"x").expect("written");
            assert_eq!(stage.read(&next, 1, 1), b"x");
            stage.driver.remove(&next);
        }
        // Other tests open sockets at the same time.
        assert!(again > 0, "no number was used again");
    }

    pub(super) fn a_connection_that_is_accepted_becomes_writable(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let address = stage.listener.local_addr().expect("an address");
        let socket = stage.driver.connect(address).expect("begun");
        stage.driver.add(&socket, 5).expect("watched");
        stage.driver.interest(&socket, 5, true, true);
        let mut peer = stage.listener.accept().expect("accepted").0;
        stage.wait_for(5, |ready| ready.write);
        stage.driver.connect_result(&socket).expect("connected");
        stage.driver.interest(&socket, 5, true, false);
        stage.driver.send(&socket, b"hello").expect("accepted");
        stage.wait();
        let mut found = [0; 5];
        peer.read_exact(&mut found).expect("input");
        assert_eq!(&found, b"hello");
        peer.write_all(b"you").expect("written");
        assert_eq!(stage.read(&socket, 5, 3), b"you");
    }

    pub(super) fn a_connection_that_is_refused_says_so(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        let socket = stage.driver.connect(address).expect("begun");
        stage.driver.add(&socket, 5).expect("watched");
        stage.driver.interest(&socket, 5, true, true);
        stage.wait_for(5, |_| true);
        let outcome = stage.driver.connect_result(&socket).expect_err("refused");
        assert_eq!(outcome.kind(), ErrorKind::ConnectionRefused);
        stage.driver.remove(&socket);
    }

    pub(super) fn more_sockets_than_buffers_bring_input_at_once(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let mut pairs: Vec<_> = (0..400).map(|key| stage.watch_pair(key)).collect();
        stage.wait();
        for round in 0..3u8 {
            for (_, peer) in &mut pairs {
                peer.write_all(&[round; 9000]).expect("written");
            }
            for (key, (socket, _)) in pairs.iter().enumerate() {
                assert_eq!(stage.read(socket, key as u32, 9000), [round; 9000], "{key}");
            }
            assert_eq!(stage.wait(), []);
        }
    }

    pub(super) fn a_flood_arrives_whole_and_in_order(interface: SystemInterface) {
        const ALL: usize = 5_000_000;
        let mut stage = DriverStage::new(interface);
        let (flooded, flood) = stage.watch_pair(1);
        let (quiet, mut peer) = stage.watch_pair(2);
        flood.set_nonblocking(false).expect("an option");
        let flooding = std::thread::spawn(move || (&flood).write_all(&pattern(0, ALL)).map(|()| flood));
        let mut found = stage.read(&flooded, 1, 1000);
        // Another socket is reported meanwhile.
        peer.write_all(b"x").expect("written");
        assert_eq!(stage.read(&quiet, 2, 1), b"x");
        // The connection may move from one driver to another in the middle.
        stage.driver.remove(&flooded);
        stage.driver.add(&flooded, 1).expect("watched");
        found.extend(stage.read(&flooded, 1, ALL - found.len()));
        drop(flooding.join().expect("no panic").expect("written"));
        assert_pattern(&found, 0, ALL);
    }

    pub(super) fn listeners_are_reported_until_nobody_waits(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("an option");
        stage.driver.add_listener(&listener, 4).expect("watched");
        assert_eq!((stage.wait(), &stage.news.listeners[..]), (vec![], &[][..]));
        let address = listener.local_addr().expect("an address");
        let peers: Vec<_> = (0..5).map(|_| TcpStream::connect(address).expect("connected")).collect();
        for _ in &peers {
            stage.wait();
            assert_eq!(stage.news.listeners, [4]);
            listener.accept().expect("one waits");
        }
        stage.wait();
        assert!(stage.news.listeners.is_empty());
        for is_watched in [false, true] {
            match is_watched {
                false => stage.driver.remove_listener(&listener),
                true => stage.driver.add_listener(&listener, 4).expect("watched"),
            }
            let _peer = TcpStream::connect(address).expect("connected");
            stage.wait();
            stage.wait();
            assert_eq!(stage.news.listeners, if is_watched { vec![4] } else { vec![] });
            listener.accept().expect("one waits");
        }
    }

    pub(super) fn a_wait_is_woken_from_another_thread(interface: SystemInterface) {
        let mut stage = DriverStage::new(interface);
        let (wake, (told, tells)) = (stage.driver.waker(), std::sync::mpsc::channel());
        let waking = std::thread::spawn(move || (0..3).for_each(|_| tells.recv().map(|()| wake()).expect("told")));
        for _ in 0..3 {
            told.send(()).expect("heard");
            // Such a wait would never end.
            stage.driver.wait(None, &mut stage.news);
            assert!(stage.news.ready.is_empty());
        }
        waking.join().expect("no panic");
        // A wake isn't lost when connections come and go.
        let wake = stage.driver.waker();
        let (socket, _peer) = stage.watch_pair(1);
        stage.wait();
        wake();
        stage.driver.remove(&socket);
        stage.driver.wait(None, &mut stage.news);
    }
}
