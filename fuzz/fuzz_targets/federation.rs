//! Input from another server: the server acts only for domains that it has proven, and the replies
//! don't depend on how its bytes are divided. It opened the connection or accepted ours; its
//! certificate is good, bad, for two domains, or one that DNS names for one domain.

#![no_main]

use std::net::SocketAddr;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rookery_fanout::Packet;
use rookery_fanout::multicast::Outgoing;
use rookery_federation::inbound::Ours;
use rookery_federation::servers::Handshake;
use rookery_federation::{Action, Address, ConnectionKey, FederationSettings, Home, PeerPolicy, Secret, ServerStreams};
use rookery_jid::Jid;
use rookery_stream::tls::trust::tlsa::{Association, Associations, Fingerprints};
use rookery_stream::tls::trust::{Names, Untrusted};

struct FuzzHosts;

impl Ours for FuzzHosts {
    fn is_ours(&self, host: &str) -> bool {
        matches!(host, "b.example" | "rooms.b.example")
    }
}

impl Home for FuzzHosts {
    fn home(&self, _: &str) -> usize {
        0
    }

    fn shard(&self) -> usize {
        0
    }
}

/// The outcome of a conversation, without the random ids.
#[derive(Debug, Default, PartialEq, Eq)]
struct CallOutcome {
    said: usize,
    delivered: Vec<(String, String)>,
    looked_up: Vec<String>,
    is_over: bool,
}

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (choice, split, bytes) = input;
    let split = usize::from(split).min(bytes.len());
    let whole = converse(choice, &[bytes]);
    let parts = converse(choice, &[&bytes[..split], &bytes[split..]]);
    // TLS begins between two pieces, and bytes after `<starttls/>` in the same piece are refused.
    // DNS, too, answers between two pieces and never within one.
    let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
    let is_asked = choice & 0b100_0000 != 0 && has(b"result");
    if !is_asked && !has(b"starttls") {
        assert_eq!(whole, parts);
    }
    for (sender, to) in whole.delivered.iter().chain(&parts.delivered) {
        // The server that accepted our connection counts as the one that DNS names if dialback is
        // enough.
        let is_believed = choice & 0b1_0000 != 0 && choice & 0b11 != 0;
        let is_named = choice & 0b1101_0000 == 0b1100_0000;
        assert!(choice & 0b1100 != 0 || is_believed || is_named, "nothing was proven");
        let domain = |text: &str| Jid::parse(text).expect("an address").domain().to_owned();
        assert!(matches!(domain(sender).as_str(), "a.example" | "c.example"), "{sender}");
        assert!(choice & 0b1000 != 0 || is_believed || domain(sender) == "a.example", "{sender}");
        assert!(FuzzHosts.is_ours(&domain(to)), "{to}");
    }
});

fn converse(choice: u8, pieces: &[&[u8]]) -> CallOutcome {
    let mut settings = FederationSettings::new(Secret::new(b"secret"));
    settings.rules.policy = [PeerPolicy::Certificate, PeerPolicy::Dialback, PeerPolicy::Plain, PeerPolicy::Dialback]
        [usize::from(choice & 0b11)];
    settings.dane = choice & 0b100_0000 != 0;
    let own: &[u8] = if choice & 0b1000_0000 == 0 { b"another" } else { NAMED };
    let shown = match choice & 0b1100 {
        0 => Err(Untrusted::UnknownIssuer),
        0b1000 => Ok(Names::of(&["a.example", "c.example"])),
        _ => Ok(Names::of(&["a.example"])),
    };
    let mut servers = ServerStreams::new(Arc::new(settings));
    servers.set_time(1);
    let mut outcome = CallOutcome::default();
    let from = SocketAddr::from(([192, 0, 2, 1], 5269));
    let mut key = None;
    if choice & 0b1_0000 == 0 {
        key = servers.accept(from, choice & 0b10_0000 != 0);
    } else {
        let packet = Packet::from_bytes(b"<message from='u@b.example'/>").expect("a packet");
        servers.send(Outgoing::plain(Jid::parse("a.example").expect("a domain"), packet));
    }
    work(&mut servers, &mut key, (&shown, own), &mut outcome);
    for piece in pieces {
        let Some(key) = key else { return outcome };
        servers.received(key, piece, &FuzzHosts);
        work(&mut servers, &mut Some(key), (&shown, own), &mut outcome);
        if choice & 0b1_0000 != 0 || pieces.iter().any(|piece| piece.windows(6).any(|part| part == b"enable")) {
            // Waiting stanzas leave between two pieces, and not before the end of a stream in one;
            // so do acknowledgements of what is stored.
            outcome.said = 0;
        }
        assert!(servers.len() <= 1 + outcome.looked_up.len() && servers.ways() <= 1 + outcome.looked_up.len());
    }
    outcome
}

type Shown<'a> = (&'a Result<Names, Untrusted>, &'a [u8]);

fn work(
    servers: &mut ServerStreams,
    key: &mut Option<ConnectionKey>,
    (shown, own): Shown<'_>,
    outcome: &mut CallOutcome,
) {
    loop {
        servers.flush();
        let Some(action) = servers.next_action() else { return };
        match action {
            Action::Resolve(domain) => {
                outcome.looked_up.push(domain.to_string());
                let address = Address::new(SocketAddr::from(([9, 9, 9, 9], 5269)), false);
                // Servers that are called show what DNS says, if they show anything.
                let is_named = !servers.is_empty() && *domain == *"a.example";
                let record = is_named.then(|| Association::read(3, 0, 0, NAMED)).flatten();
                let tlsa = Associations::new(&domain, "xmpp.example", 5269, record).map(Arc::new);
                servers.resolved(&domain, &Ok(vec![Address { tlsa, ..address }]));
            }
            Action::Connect(of, _) => {
                key.get_or_insert(of);
                servers.connected(of);
            }
            Action::StartTls(of, Handshake::Accept(_)) => {
                servers.shown(of, Fingerprints::of(own).expect("digests"));
                servers.secured(of, shown.clone());
            }
            Action::StartTls(of, Handshake::Call { .. }) => servers.secured(of, shown.clone()),
            Action::Write(of, bytes) => {
                outcome.said += bytes.len();
                servers.drained(of);
            }
            Action::End(of) => {
                outcome.is_over |= Some(of) == *key;
                servers.closed(of, "closed");
            }
            Action::Drop(of) => outcome.is_over |= Some(of) == *key,
            Action::Deliver(packet, to, _) => {
                let sender = packet.sender().expect("a stanza of another server has a sender").to_string();
                outcome.delivered.push((sender, to.to_string()));
            }
            Action::Move(..) | Action::Route(..) => panic!("there is one shard, and no component"),
            Action::Refuse(..)
            | Action::Bounce(..)
            | Action::Lost(_)
            | Action::ComponentCame(_)
            | Action::ComponentGone(_)
            | Action::Pause(..) => {}
        }
    }
}

/// The certificate that DNS names for `a.example`.
const NAMED: &[u8] = b"a certificate";
