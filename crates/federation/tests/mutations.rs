//! Tests randomly composed and damaged conversations: nothing counts that isn't proven, and the
//! result doesn't depend on how the bytes are cut. `ROOKERY_MUTATIONS` has the number of
//! conversations.
//!
//! The fuzz target `federation` does the same with instrumented code that shows which bytes matter;
//! this test needs no such compiler, and knows the protocol.

#[allow(dead_code, reason = "other tests play more of the peers")]
mod hostile;

use hostile::{EXTERNAL, EXTERNAL_FEATURE, HostileRig, PROCEED, SUCCESS, TLS_FEATURE, address, header, reply};
use rookery_federation::{Address, ConnectionKey, FederationSettings, PeerPolicy, Secret};
use rookery_jid::Jid;
use rookery_stream::tls::trust::tlsa::{Association, Associations, Fingerprints};
use rookery_stream::tls::trust::{Names, Untrusted};

/// Draws numbers from a seed.
struct MutationNumbers(u64);

impl MutationNumbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }

    fn of<'a>(&mut self, pieces: &[&'a str]) -> &'a str {
        pieces[self.below(pieces.len())]
    }
}

/// The certificate of a peer.
const OWN: &[u8] = b"its certificate";

const PIECES: [&str; 34] = [
    "<bidi xmlns='urn:xmpp:bidi'/>",
    "<bidi xmlns='urn:xmpp:bidi'><limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>99</max-bytes></limits></bidi>",
    "<enable xmlns='urn:xmpp:sm:3' resume='true'/>",
    "<enabled xmlns='urn:xmpp:sm:3' id='x' resume='true'/>",
    "<resume xmlns='urn:xmpp:sm:3' previd='x' h='0'/>",
    "<resumed xmlns='urn:xmpp:sm:3' previd='x' h='1'/>",
    "<failed xmlns='urn:xmpp:sm:3' h='4294967295'/>",
    "<r xmlns='urn:xmpp:sm:3'/>",
    "<a xmlns='urn:xmpp:sm:3' h='0'/>",
    "<a xmlns='urn:xmpp:sm:3' h='1'/>",
    "<db:result from='a.example' to='b.example'>key</db:result>",
    "<db:result from='c.example' to='rooms.b.example'>key</db:result>",
    "<db:result from='a.example' to='b.example' type='valid'/>",
    "<db:result from='a.example' to='b.example' type='error'><error type='cancel'><item-not-found/></error></db:result>",
    "<db:verify from='a.example' to='b.example' id='1'>key</db:verify>",
    "<db:verify from='a.example' to='b.example' id='1' type='valid'/>",
    "<message from='x@a.example/y' to='y@b.example'><body>hi</body></message>",
    "<message from='x@c.example/y' to='y@b.example'><body>hi</body></message>",
    "<message from='x@b.example' to='y@b.example'/>",
    "<message from='x@a.example' to='y@d.example'/>",
    "<presence from='x@a.example' to='room@rooms.b.example/x' type='unavailable'/>",
    "<iq from='x@a.example' to='b.example' type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>",
    "<iq from='x@a.example' to='b.example' type='odd'/>",
    "<stream:features/>",
    "<stream:features><sm xmlns='urn:xmpp:sm:3'/><dialback xmlns='urn:xmpp:features:dialback'/></stream:features>",
    "<stream:features><bidi xmlns='urn:xmpp:features:bidi'/><sm xmlns='urn:xmpp:sm:3'/><mechanisms \
     xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>EXTERNAL</mechanism></mechanisms></stream:features>",
    "<stream:error><reset xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>",
    "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>",
    "</stream:stream>",
    " \r\n",
    "<!-- -->",
    "&lt;",
    "\u{0}",
    "<a:b xmlns:a='c'/>",
];

/// A conversation: the peer has called or was called, with or without TLS.
struct Case {
    is_called: bool,
    policy: PeerPolicy,
    shown: Option<Result<Names, Untrusted>>,
    /// DNS is believed, and names the certificate of a peer that has called as `a.example`.
    is_named: bool,
    bytes: Vec<u8>,
}

fn case(draw: &mut MutationNumbers) -> Case {
    let policy = [PeerPolicy::Certificate, PeerPolicy::Dialback, PeerPolicy::Plain][draw.below(3)];
    let shown = [None, Some(Ok(Names::of(&["a.example"]))), Some(Err(Untrusted::UnknownIssuer))][draw.below(3)].clone();
    let is_called = draw.below(2) == 0;
    let mut text = String::new();
    if draw.below(2) == 0 {
        // A good login comes first, so that later input is handled.
        let offer = PIECES[25];
        text += &if is_called {
            let login = if draw.below(2) == 0 { offer } else { EXTERNAL_FEATURE };
            reply("a.example", "1") + login + SUCCESS + &reply("a.example", "2") + draw.of(&PIECES[23..25])
        } else {
            header("a.example") + draw.of(&[PIECES[0], ""]) + EXTERNAL + &header("a.example")
        };
        (0..draw.below(6)).for_each(|_| text += draw.of(&PIECES[..23]));
    }
    for number in 0..draw.below(3) + 1 {
        let opening = if is_called { reply("a.example", &number.to_string()) } else { header("a.example") };
        text += &opening;
        let login = if is_called { [EXTERNAL_FEATURE, SUCCESS, TLS_FEATURE, PROCEED] } else { [EXTERNAL; 4] };
        for _ in 0..draw.below(8) {
            text += if draw.below(3) == 0 { draw.of(&login) } else { draw.of(&PIECES) };
        }
    }
    let mut bytes = text.into_bytes();
    for _ in 0..draw.below(3) {
        let (from, len) = (draw.below(bytes.len()), draw.below(12));
        let until = (from + len).min(bytes.len());
        match draw.below(3) {
            0 => _ = bytes.drain(from..until),
            1 => {
                let copy = bytes[from..until].to_vec();
                bytes.splice(from..from, copy);
            }
            _ => bytes[from] ^= 1 << draw.below(8),
        }
    }
    let is_named = !is_called && draw.below(4) == 0;
    Case { is_called, policy, shown, is_named, bytes }
}

/// The outcome of a conversation, without random ids.
#[derive(Debug, PartialEq, Eq)]
struct MutationOutcome {
    said: usize,
    delivered: Vec<(String, String)>,
    looked_up: Vec<String>,
    is_over: bool,
}

fn converse(case: &Case, cut: usize) -> MutationOutcome {
    let mut settings = FederationSettings::new(Secret::new(b"the secret of b.example"));
    (settings.rules.policy, settings.dane) = (case.policy, case.is_named);
    let mut server = HostileRig::with(settings);
    let record = case.is_named.then(|| Association::read(3, 0, 0, OWN)).flatten();
    let tlsa = Associations::new("a.example", "xmpp.a.example", 5269, record).map(Into::into);
    server.dns.insert("a.example".into(), Ok(vec![Address { tlsa, ..Address::new(address(1), false) }]));
    let key = if case.is_called {
        server.send("romeo@a.example", "1");
        server.answer()
    } else {
        server.call(address(1)).expect("a place")
    };
    let mut said = server.said_to(key).len();
    if let Some(shown) = case.shown.clone() {
        let opening = if case.is_called {
            reply("a.example", "0") + TLS_FEATURE + PROCEED
        } else {
            header("a.example") + hostile::STARTTLS
        };
        said += server.hear(key, opening).len();
        if case.is_named {
            server.servers.shown(key, Fingerprints::of(OWN).expect("digests"));
        }
        said += server.secure(key, shown).len();
    }
    said += hear(&mut server, key, &case.bytes[..cut]);
    said += hear(&mut server, key, &case.bytes[cut..]);
    let is_over = server.gone.contains(&key);
    // Stanzas that wait for a stream of ours leave between two pieces, and not before the end of
    // the stream if that is in the same piece. Stanzas that are stored when the stream ends are
    // acknowledged, but not those of the same piece.
    let is_managed = case.bytes.windows(8).any(|part| part == b"<enable ");
    said *= usize::from(!case.is_called && !is_managed);
    MutationOutcome { said, delivered: server.delivered, looked_up: server.looked_up, is_over }
}

fn hear(server: &mut HostileRig, key: ConnectionKey, bytes: &[u8]) -> usize {
    if server.gone.contains(&key) { 0 } else { server.hear(key, bytes).len() }
}

#[test]
fn nothing_counts_that_is_not_proven_however_a_conversation_goes() {
    let cases = std::env::var("ROOKERY_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000_u64);
    let mut delivered = 0;
    for seed in 0..cases {
        let mut draw = MutationNumbers(seed);
        let case = case(&mut draw);
        let text = String::from_utf8_lossy(&case.bytes).into_owned();
        let whole = converse(&case, 0);
        let cut = draw.below(case.bytes.len() + 1);
        let parts = converse(&case, cut);
        // Bytes after a request for TLS are refused in the same piece, and not read in the next.
        // DNS answers between two pieces, not within one.
        let is_asked = case.is_named && text.contains("<db:result");
        if !text.contains("starttls") && !text.contains("<proceed") && !is_asked {
            assert_eq!(whole, parts, "seed {seed}, cut at {cut}: {text}");
        }
        let is_certified = matches!(case.shown, Some(Ok(_)));
        // A called server is found through DNS; that is enough if dialback is.
        let is_believed = case.is_called && case.policy != PeerPolicy::Certificate;
        for (sender, to) in whole.delivered.iter().chain(&parts.delivered) {
            let domain = |text: &str| Jid::parse(text).expect("an address").domain().to_owned();
            let is_named = case.is_named && case.shown.is_some();
            assert!(is_certified || is_believed || is_named, "seed {seed}: {text}");
            assert_eq!(domain(sender), "a.example", "seed {seed}: {text}");
            assert!(matches!(domain(to).as_str(), "b.example" | "rooms.b.example"), "seed {seed}: {text}");
            delivered += 1;
        }
    }
    assert!(delivered as u64 > cases / 25, "{delivered} stanzas are few: do conversations still come so far?");
}
