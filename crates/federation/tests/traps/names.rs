//! Tests names: the right to speak for them.

use rookery_federation::{NotFound, PeerPolicy};
use rookery_stream::tls::trust::Names;

use crate::hostile::{EXTERNAL, HostileRig, STARTTLS, address, header};
use crate::result;

#[test]
fn a_stream_that_was_proven_by_dialback_speaks_for_that_domain_alone() {
    let froms = [
        "juliet@b.example",
        "room@rooms.b.example/nick",
        "romeo@x.a.example",
        "romeo@example",
        "romeo@xa.example",
        "romeo@\u{430}.example",
        "romeo@a.example.c.example",
    ];
    for from in froms {
        let mut server = HostileRig::new(PeerPolicy::Dialback);
        let key = server.call_with_tls(address(1), "a.example", Ok(Names::of(&["a.example"])));
        assert!(server.hear(key, result("a.example")).contains("type='valid'"));
        let said = server.hear(key, format!("<message from='{from}' to='juliet@b.example'/>"));
        assert!(said.contains("invalid-from"), "{from}: {said}");
        assert_eq!(server.delivered, []);
    }
}

/// XEP-0220 §2.6: other domains of the same server join a stream, each by a proof of its own, and
/// one that fails takes nothing from the others.
#[test]
fn further_domains_speak_on_a_stream_once_each_is_proven() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    let names = Names::of(&["a.example", "rooms.a.example"]);
    let key = server.call_with_tls(address(1), "a.example", Ok(names));
    assert!(server.hear(key, result("a.example")).contains("type='valid'"));
    assert!(server.hear(key, result("rooms.a.example")).contains("type='valid'"));
    // Its certificate isn't for this domain, and DNS knows no server to ask.
    server.hear(key, result("c.example"));
    assert_eq!(server.looked_up, ["c.example"]);
    server.servers.resolved("c.example", &Err(NotFound::NoServer));
    server.run();
    let said = server.said_to(key);
    assert!(said.contains("type='error'") && said.contains("remote-server-not-found"), "{said}");
    for from in ["romeo@a.example", "hall@rooms.a.example/nick"] {
        assert_eq!(server.hear(key, format!("<message from='{from}' to='juliet@b.example'/>")), "");
    }
    let senders: Vec<_> = server.delivered.iter().map(|(from, _)| from.as_str()).collect();
    assert_eq!(senders, ["romeo@a.example", "hall@rooms.a.example/nick"]);
    assert!(server.hear(key, "<message from='x@c.example' to='juliet@b.example'/>").contains("invalid-from"));
}

#[test]
fn spellings_of_a_name_are_one_name_and_others_are_others() {
    // A full-width letter, capitals, a final dot, and the form with A-labels are the same name as
    // prepared.
    let spellings = [
        "b\u{fc}cher.example",
        "B\u{dc}CHER.example",
        "\u{ff42}\u{fc}cher.example",
        "bu\u{308}cher.example",
        "xn--bcher-kva.example",
        "b\u{fc}cher.example.",
    ];
    for same in spellings {
        let mut server = HostileRig::new(PeerPolicy::Certificate);
        let key = server.call_with_tls(address(1), same, Ok(Names::of(&["xn--bcher-kva.example"])));
        assert!(server.hear(key, EXTERNAL).contains("<success"), "{same}");
        server.hear(key, header("b\u{fc}cher.example"));
        server.hear(key, "<message from='u@b\u{fc}cher.example' to='juliet@b.example'/>");
        assert_eq!(server.delivered, [("u@b\u{fc}cher.example".into(), "juliet@b.example".into())], "{same}");
    }
    let others =
        [("fa\u{df}.example", "xn--fa-hia.example", "fass.example"), ("a.example", "a.example", "\u{430}.example")];
    for (proven, certified, other) in others {
        let mut server = HostileRig::new(PeerPolicy::Certificate);
        let key = server.call_with_tls(address(1), proven, Ok(Names::of(&[certified])));
        assert!(server.hear(key, EXTERNAL).contains("<success"));
        server.hear(key, header(proven));
        server.hear(key, format!("<message from='u@{other}' to='juliet@b.example'/>"));
        assert_eq!(server.delivered, [], "{proven} {other}");
    }
}

#[test]
fn a_name_cannot_be_left_out_to_become_another() {
    let without = |name: &str| {
        header("a.example")
            .replace(&format!(" {name}='a.example'"), "")
            .replace(" to='b.example'", if name == "to" { "" } else { " to='b.example'" })
    };
    // Some servers leave names out of their second header: those of the first one hold.
    for name in ["from", "to"] {
        let mut server = HostileRig::new(PeerPolicy::Certificate);
        let key = server.call(address(1)).expect("a place");
        server.hear(key, header("a.example"));
        server.hear(key, STARTTLS);
        server.secure(key, Ok(Names::of(&["a.example"])));
        assert!(server.hear(key, without(name)).contains("EXTERNAL"), "{name}");
        assert!(server.hear(key, EXTERNAL).contains("<success"));
        server.hear(key, without(name));
        server.hear(key, "<message from='u@c.example' to='juliet@b.example'/>");
        assert_eq!(server.delivered, []);
    }
}
