//! Bounds the memory that a stranger can make a server use: every figure is counted by the
//! allocator, so this is one test in a process of its own.

#[allow(dead_code, reason = "the other test plays more of the peers")]
mod hostile;

use hostile::{EXTERNAL, HostileRig, address, at, header};
use peak_alloc::PeakAlloc;
use rookery_federation::{ConnectionKey, PeerPolicy};
use rookery_stream::tls::trust::Untrusted;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// The most bytes of one element before anything is proven.
const ELEMENT: usize = 10_000;

#[test]
fn strangers_cost_little() {
    each_connection_has_its_price();
    each_idle_stream_has_its_price();
    no_element_is_blown_up();
    what_ends_leaves_nothing();
}

type MemoryState = (&'static str, usize, fn(&mut HostileRig, u8) -> ConnectionKey);

fn each_connection_has_its_price() {
    let states: [MemoryState; 5] = [
        ("connected", 1_000, |server, from| server.call(address(from)).expect("a place")),
        ("its header is read", 2_000, |server, from| {
            let key = server.call(address(from)).expect("a place");
            server.hear(key, header("a.example"));
            key
        }),
        ("after the handshake", 2_000, |server, from| {
            server.call_with_tls(address(from), "a.example", Err(Untrusted::Missing))
        }),
        ("a key is verified", 4_000, |server, from| {
            let key = server.call_with_tls(address(from), "a.example", Err(Untrusted::Missing));
            server.hear(key, "<db:result from='a.example' to='b.example'>key</db:result>");
            key
        }),
        ("in the middle of an element", 3 * ELEMENT, |server, from| {
            let key = server.call_with_tls(address(from), "a.example", Err(Untrusted::Missing));
            server.hear(key, format!("<a b='{}", "c".repeat(ELEMENT - 10)));
            server.hear(key, "c");
            assert!(!server.gone.contains(&key));
            key
        }),
    ];
    for (state, most, reach) in states {
        let mut server = HostileRig::new(PeerPolicy::Dialback);
        // Strangers don't cause the growth of the server's own tables.
        let first = reach(&mut server, 0);
        assert!(!server.gone.contains(&first));
        let before = ALLOCATED.current_usage();
        for number in 1..=200 {
            reach(&mut server, number);
        }
        let each = (ALLOCATED.current_usage() - before) / 200;
        println!("{state}: {each} bytes");
        assert!(each <= most, "{state}: {each} bytes");
    }
}

/// The name of a kind of stream, the most bytes of one, and a function that opens one.
type StreamKind<'k> = (&'static str, usize, &'k mut dyn FnMut(&mut HostileRig, u8));

/// Counts the bytes of idle streams in use, without those of the system and of TLS.
fn each_idle_stream_has_its_price() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let mut called = |server: &mut HostileRig, number: u8| {
        let key = server.call_proven(address(number), &format!("in{number}.example"));
        server.hear(key, format!("<message from='a@in{number}.example' to='b@b.example'><body>hi</body></message>"));
        server.said_to(key);
        assert_eq!(server.delivered.len(), 1);
        server.delivered.clear();
    };
    let mut calls = |server: &mut HostileRig, number: u8| {
        let domain = format!("out{number}.example");
        server.dns.insert(domain.clone(), at(number));
        server.send(&format!("romeo@{domain}"), "1");
        let key = server.welcome(&domain);
        assert!(server.bounced.is_empty());
        // The test's own memory.
        server.dns.clear();
        server.calls.clear();
        server.looked_up.clear();
        server.said_to(key);
    };
    let kinds: [StreamKind<'_>; 2] = [("called", 1_100, &mut called), ("calls", 2_000, &mut calls)];
    for (kind, most, open) in kinds {
        // Tables have grown to their sizes.
        (0..=128).for_each(|number| open(&mut server, number));
        let before = ALLOCATED.current_usage();
        (129..=228).for_each(|number| open(&mut server, number));
        let each = (ALLOCATED.current_usage() - before) / 100;
        println!("{kind}: {each} bytes");
        assert!(each <= most, "{kind}: {each} bytes");
    }
}

fn no_element_is_blown_up() {
    let full = |unit: &str| unit.repeat((ELEMENT - 400) / unit.len());
    let elements = [
        format!("<a xmlns='urn:x'>{}</a>", full("<b/>")),
        format!("<db:result from='a.example' to='b.example'>{}</db:result>", full("<b/>")),
        format!("<db:result from='a.example' to='b.example'>{}</db:result>", full("k")),
        format!("<db:verify from='a.example' to='b.example' id='{}'>k</db:verify>", full("i")),
        format!("<db:result from='{}' to='b.example'>k</db:result>", full("a.")),
        format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>{}</auth>", full("QUFB")),
        format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{}'/>", full("&amp;")),
        format!("<message from='a@a.example' to='b@b.example'><body>{}</body></message>", full("x")),
        EXTERNAL.to_owned(),
    ];
    for element in elements {
        let mut server = HostileRig::new(PeerPolicy::Dialback);
        let key = server.call_with_tls(address(1), "a.example", Err(Untrusted::Missing));
        let most = peak(|| _ = server.hear(key, &element));
        println!("{}: {most} bytes", &element[..20]);
        assert!(most <= 8 * ELEMENT, "{most} bytes for {}", &element[..60]);
    }
    // The same for a called server, which has proven nothing either.
    let features = format!("<stream:features>{}</stream:features>", full("<b xmlns='x'/>"));
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), at(1));
    server.send("romeo@a.example", "1");
    let key = server.answer();
    server.hear(key, hostile::reply("a.example", "1"));
    let most = peak(|| _ = server.hear(key, &features));
    assert!(most <= 8 * ELEMENT, "{most} bytes for features");
    assert!(server.gone.contains(&key));
}

fn what_ends_leaves_nothing() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    let round = |server: &mut HostileRig| {
        for number in 0..=250 {
            let key = server.call(address(number)).expect("a place");
            server.hear(key, header("a.example"));
            server.hear(key, format!("<a b='{}", "c".repeat(usize::from(number) * 20)));
            server.servers.closed(key, "closed");
        }
        // The test's own memory.
        server.gone.clear();
        server.advance(10_000);
    };
    for _ in 0..8 {
        round(&mut server);
    }
    let before = ALLOCATED.current_usage();
    for _ in 0..40 {
        round(&mut server);
    }
    let after = ALLOCATED.current_usage();
    assert!(after <= before + 1_000, "10 000 connections have left {} bytes", after - before);
    assert_eq!((server.servers.len(), server.servers.ways()), (0, 0));
}

/// Returns the peak of allocated bytes above the level before.
fn peak(work: impl FnOnce()) -> usize {
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    work();
    ALLOCATED.peak_usage() - before
}
