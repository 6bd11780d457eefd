//! Tests the relay as clients and shards use it: real connections on loopback, and requests to
//! join them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rookery_base::{Abandoned, Completer, one_shot, wait};
use rookery_modules::bytestreams::{Relay, RelayOutcome, RelayTerms, RelayWish};
use rookery_relay::Running;

/// A relay, and the handle through which modules use it.
struct RelayProxy {
    address: SocketAddr,
    relay: Relay,
    running: Running,
}

const TERMS: RelayTerms = RelayTerms { streams: 10, streams_per_user: 10, rate_bytes: 0, idle_seconds: 60 };

impl RelayProxy {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let relay = Relay::default();
        let running = rookery_relay::start(vec![listener], &relay).unwrap();
        Self { address, relay, running }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Returns a connection that has named its stream, and the code of the reply to it.
    fn say(&self, token: &str) -> (TcpStream, u8) {
        let mut stream = self.connect();
        stream.write_all(&[5, 1, 0]).unwrap();
        assert_eq!(read::<2>(&mut stream), [5, 0]);
        stream.write_all(&[&[5, 1, 0, 3, 40], token.as_bytes(), &[0, 0]].concat()).unwrap();
        let reply = read::<47>(&mut stream);
        assert_eq!(&reply[2..], [&[0, 3, 40], token.as_bytes(), &[0, 0]].concat());
        (stream, reply[1])
    }

    /// Returns a connection that waits with this token.
    fn waits(&self, token: &str) -> TcpStream {
        let (stream, reply) = self.say(token);
        assert_eq!(reply, 0);
        stream
    }

    fn join(&self, token: &str, terms: RelayTerms) -> Result<RelayOutcome, Abandoned> {
        let (answer, joined) = one_shot();
        let (domain, requester) = ("example.org".to_owned(), "romeo@example.org".to_owned());
        self.relay.ask(RelayWish { token: token.to_owned(), domain, requester, terms, answer });
        wait(joined)
    }

    fn pair(&self, token: &str, terms: RelayTerms) -> (TcpStream, TcpStream) {
        let (one, other) = (self.waits(token), self.waits(token));
        assert_eq!(self.join(token, terms), Ok(RelayOutcome::Joined));
        (one, other)
    }
}

fn read<const N: usize>(stream: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Returns whether the other side has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_))
}

/// Returns the wish to join the connections that wait with a token.
fn wish(answer: Completer<RelayOutcome>) -> RelayWish {
    let (domain, requester) = ("example.org".to_owned(), "romeo@example.org".to_owned());
    RelayWish { token: token('a'), domain, requester, terms: TERMS, answer }
}

fn token(letter: char) -> String {
    letter.to_string().repeat(40)
}

#[test]
fn bytes_go_both_ways_and_each_side_ends_for_itself() {
    let proxy = RelayProxy::new();
    let (mut one, mut other) = proxy.pair(&token('a'), TERMS);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let copy = sent.clone();
    let mut writing = one.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        writing.write_all(&copy).unwrap();
        writing.shutdown(Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    other.read_to_end(&mut got).unwrap();
    writer.join().unwrap();
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    // The other side can still send.
    other.write_all(b"thanks").unwrap();
    assert_eq!(&read::<6>(&mut one), b"thanks");
    drop(other);
    assert!(is_closed(&mut one));
    assert!(proxy.running.stop());
}

#[test]
fn what_was_sent_before_the_activation_is_not_lost() {
    let proxy = RelayProxy::new();
    let (mut one, mut other) = (proxy.waits(&token('a')), proxy.waits(&token('a')));
    other.write_all(b"early").unwrap();
    assert_eq!(proxy.join(&token('a'), TERMS), Ok(RelayOutcome::Joined));
    assert_eq!(&read::<5>(&mut one), b"early");
}

#[test]
fn nothing_is_joined_that_does_not_belong_together() {
    let proxy = RelayProxy::new();
    assert_eq!(proxy.join(&token('a'), TERMS), Ok(RelayOutcome::Unknown));
    let _one = proxy.waits(&token('a'));
    assert_eq!(proxy.join(&token('a'), TERMS), Ok(RelayOutcome::OneOnly));
    let _other = proxy.waits(&token('a'));
    let (mut third, reply) = proxy.say(&token('a'));
    assert_eq!(reply, 2, "not allowed");
    assert!(is_closed(&mut third));
    assert_eq!(proxy.join(&token('b'), TERMS), Ok(RelayOutcome::Unknown));
    assert_eq!(proxy.join("not a token", TERMS), Ok(RelayOutcome::Unknown));
    assert_eq!(proxy.join(&token('a'), TERMS), Ok(RelayOutcome::Joined));
    assert_eq!(proxy.join(&token('a'), TERMS), Ok(RelayOutcome::Unknown), "once");
}

#[test]
fn a_user_has_so_many_streams_at_a_time() {
    let proxy = RelayProxy::new();
    let terms = RelayTerms { streams_per_user: 1, ..TERMS };
    let _pair = proxy.pair(&token('a'), terms);
    let _waiting = (proxy.waits(&token('b')), proxy.waits(&token('b')));
    assert_eq!(proxy.join(&token('b'), terms), Ok(RelayOutcome::TooMany));
    assert_eq!(proxy.join(&token('b'), RelayTerms { streams_per_user: 2, ..TERMS }), Ok(RelayOutcome::Joined));
}

#[test]
fn a_domain_has_so_many_streams_at_a_time() {
    let proxy = RelayProxy::new();
    let terms = RelayTerms { streams: 1, ..TERMS };
    let (one, mut other) = proxy.pair(&token('a'), terms);
    let _waiting = (proxy.waits(&token('b')), proxy.waits(&token('b')));
    assert_eq!(proxy.join(&token('b'), terms), Ok(RelayOutcome::TooMany));
    drop(one);
    assert!(is_closed(&mut other));
    drop(other);
    // The place is free again once the relay has noticed both ends.
    while proxy.join(&token('b'), terms) != Ok(RelayOutcome::Joined) {
        std::thread::yield_now();
    }
}

#[test]
fn a_stream_on_which_nothing_moves_ends() {
    let proxy = RelayProxy::new();
    let (mut one, mut other) = proxy.pair(&token('a'), RelayTerms { idle_seconds: 1, ..TERMS });
    other.write_all(b"once").unwrap();
    assert_eq!(&read::<4>(&mut one), b"once");
    assert!(is_closed(&mut one) && is_closed(&mut other));
}

#[test]
fn a_pace_slows_but_loses_nothing() {
    let proxy = RelayProxy::new();
    let (mut one, mut other) = proxy.pair(&token('a'), RelayTerms { rate_bytes: 500_000, ..TERMS });
    other.write_all(&[7; 200_000]).unwrap();
    drop(other);
    let mut got = Vec::new();
    one.read_to_end(&mut got).unwrap();
    assert!(got == [7; 200_000], "{} bytes", got.len());
}

#[test]
fn strangers_get_nothing_and_take_nothing() {
    let proxy = RelayProxy::new();
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[5, 0], &[5, 1, 2], &[5, 1, 0, 5, 2, 0, 3, 1, b'a', 0, 0], &[0; 1000]]
    {
        let mut stream = proxy.connect();
        // The relay may close the connection meanwhile.
        let _ = stream.write_all(garbage);
        let mut answered = Vec::new();
        let _ = stream.read_to_end(&mut answered);
        assert!(answered.len() <= 12, "{answered:?}");
    }
    // One network has fifty waiting connections; the next one is closed.
    let waiting: Vec<_> = (0..50).map(|at| proxy.waits(&format!("{at:040}"))).collect();
    assert!(is_closed(&mut proxy.connect()));
    drop(waiting);
}

#[test]
fn a_wish_after_the_end_is_told() {
    let proxy = RelayProxy::new();
    let RelayProxy { relay, running, .. } = proxy;
    assert!(running.stop());
    let (answer, joined) = one_shot();
    relay.ask(wish(answer));
    assert_eq!(wait(joined), Err(Abandoned));
}

#[test]
fn a_relay_that_nobody_serves_drops_wishes() {
    let kept: Arc<Mutex<Vec<Completer<RelayOutcome>>>> = Arc::default();
    let relay = Relay::default();
    let (answer, joined) = one_shot();
    relay.ask(wish(answer));
    assert_eq!(wait(joined), Err(Abandoned));
    let keeps = kept.clone();
    relay.serve(1, move |wish| keeps.lock().unwrap().push(wish.answer));
    relay.serve(2, |_| panic!("the first one counts"));
    let (answer, _joined) = one_shot();
    relay.ask(wish(answer));
    assert_eq!(kept.lock().unwrap().len(), 1);
}
