//! Connections cut anywhere: every stanza arrives once and in order, in both directions.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use rookery_testkit::{Client, Config, Security, Server};
use rookery_xml::ns;

/// The events of a client's connection.
#[derive(Debug, Clone, Copy)]
enum CutStep {
    /// The client sends stanzas.
    Send(u8),
    /// The other side sends stanzas to the client.
    Receive(u8),
    /// The client reads so many bytes.
    Read(u16),
    /// The client acknowledges what it has, and asks.
    Acknowledge,
    /// Time passes.
    Wait(u16),
    /// The connection takes only so many bytes at a time.
    Narrow(u8),
    /// The connection breaks; the client comes back.
    Cut,
    /// The client comes back though its connection is there.
    Replace,
    /// The client's side ends the connection without ending the stream.
    HalfClose,
}

fn step() -> impl Strategy<Value = CutStep> {
    prop_oneof![
        4 => (1u8..12).prop_map(CutStep::Send),
        4 => (1u8..40).prop_map(CutStep::Receive),
        4 => (1u16..3000).prop_map(CutStep::Read),
        2 => Just(CutStep::Acknowledge),
        1 => (1u16..4000).prop_map(CutStep::Wait),
        1 => (1u8..200).prop_map(CutStep::Narrow),
        3 => Just(CutStep::Cut),
        1 => Just(CutStep::Replace),
        1 => Just(CutStep::HalfClose),
    ]
}

/// A client that keeps the counts that XEP-0198 requires.
struct Phone {
    server: Server,
    security: Security,
    client: Client,
    id: String,
    /// Stanzas of the server that it has handled.
    handled: u32,
    got: Vec<String>,
    /// Sent and not acknowledged, with the number that the server has acknowledged.
    unacked: VecDeque<String>,
    acked: u32,
    sent: usize,
}

impl Phone {
    fn new(server: &Server, security: Security) -> Self {
        let mut client = server.connect();
        client.log_in(&server.account("romeo"), security);
        client.bind("phone");
        client.send("<presence/>");
        client.expect_presence_of_itself();
        let id = client.enable();
        let (got, unacked) = (Vec::new(), VecDeque::new());
        Self { server: server.clone(), security, client, id, handled: 0, got, unacked, acked: 0, sent: 0 }
    }

    fn send(&mut self, count: u8) {
        for _ in 0..count {
            let stanza =
                format!("<message to='juliet@example.org/balcony' type='chat'><body>{}</body></message>", self.sent);
            self.sent += 1;
            self.client.send(&stanza);
            self.unacked.push_back(stanza);
        }
    }

    /// Works off what has arrived.
    fn read(&mut self, most: usize) {
        self.server.settle();
        self.client.wire.appetite = most;
        self.client.wire.receive();
        self.client.wire.appetite = 0;
        while let Some(item) = self.client.wire.take() {
            let rookery_testkit::wire::Item::Element(element) = item else { continue };
            match (element.ns(), element.name()) {
                (ns::SM, "a") => self.acknowledged(element.attr("h").unwrap().parse().unwrap()),
                (ns::SM, "r") => self.acknowledge(),
                (ns::CLIENT, _) => {
                    self.handled = self.handled.wrapping_add(1);
                    self.got.extend(element.child_text("body", ns::CLIENT));
                }
                _ => {}
            }
        }
    }

    fn acknowledge(&mut self) {
        self.client.send(&format!("<a xmlns='urn:xmpp:sm:3' h='{}'/>", self.handled));
    }

    fn acknowledged(&mut self, h: u32) {
        for _ in 0..h.wrapping_sub(self.acked) {
            self.unacked.pop_front().expect("no more is acknowledged than was sent");
        }
        self.acked = h;
    }

    /// Comes back over a new connection, and sends what the server has not handled.
    fn come_back(&mut self) {
        let jid = self.client.jid.clone().expect("bound");
        let mut client = self.server.connect();
        client.log_in(&jid.to_bare(), self.security);
        let handled = client.resume(&jid, &self.id, self.handled);
        self.client = client;
        self.client.wire.appetite = 0;
        self.acknowledged(handled);
        for stanza in &self.unacked {
            self.client.send(stanza);
        }
        // Stanzas that came with the reply.
        self.read(usize::MAX);
    }
}

fn run(security: Security, steps: &[CutStep]) {
    let server = Server::with(Config { tls: true, ..Config::default() });
    let mut juliet = server.login("juliet/balcony");
    let mut phone = Phone::new(&server, security);
    let mut written = Vec::new();
    for &step in steps {
        match step {
            CutStep::Send(count) => phone.send(count),
            CutStep::Receive(count) => {
                for _ in 0..count {
                    let body = format!("{} {}", written.len(), "x".repeat(written.len() % 97));
                    juliet.send(&format!("<message to='romeo@example.org' type='chat'><body>{body}</body></message>"));
                    written.push(body);
                }
                server.settle();
            }
            CutStep::Read(bytes) => phone.read(bytes.into()),
            CutStep::Acknowledge => {
                phone.acknowledge();
                phone.client.send("<r xmlns='urn:xmpp:sm:3'/>");
            }
            CutStep::Wait(ms) => server.advance(ms.into()),
            CutStep::Narrow(bytes) => {
                phone.client.wire.peer.set_window(usize::from(bytes) * 20);
                phone.client.wire.peer.set_most(usize::from(bytes));
            }
            CutStep::Cut => {
                phone.client.wire.peer.reset();
                server.settle();
                phone.come_back();
            }
            CutStep::Replace => phone.come_back(),
            CutStep::HalfClose => {
                phone.client.wire.peer.shutdown();
                server.settle();
                phone.come_back();
            }
        }
    }
    phone.client.wire.peer.reset();
    phone.come_back();
    for _ in 0..20 {
        phone.read(usize::MAX);
    }
    assert_eq!(phone.got, written, "to the client");
    let expected: Vec<String> = (0..phone.sent).map(|number| number.to_string()).collect();
    assert_eq!(juliet.bodies(), expected, "from the client");
    assert_eq!(server.sessions(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_doubled_or_out_of_order(steps in vec(step(), 1..60)) {
        run(Security::Plain, &steps);
    }

    #[test]
    fn nor_with_tls(steps in vec(step(), 1..40)) {
        run(Security::StartTls, &steps);
    }
}
