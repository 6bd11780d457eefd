//! Tests unrequested answers, and requests to others.

use rookery_federation::PeerPolicy;
use rookery_stream::tls::trust::Untrusted;

use crate::hostile::{self, HostileRig, address, at, header};
use crate::{MESSAGE, result};

#[test]
fn answers_that_nobody_has_asked_for_open_nothing_in_any_state() {
    let answers = |server: &mut HostileRig, key| {
        for name in ["result", "verify"] {
            for (from, to) in [("a.example", "b.example"), ("b.example", "a.example"), ("c.example", "b.example")] {
                server.hear(key, format!("<db:{name} from='{from}' to='{to}' id='1' type='valid'/>"));
            }
        }
    };
    let states: [fn(&mut HostileRig) -> rookery_federation::ConnectionKey; 4] = [
        |server| {
            let key = server.call(address(1)).expect("a place");
            server.hear(key, header("c.example"));
            key
        },
        |server| server.call_with_tls(address(1), "c.example", Err(Untrusted::Missing)),
        |server| {
            let key = server.call_with_tls(address(1), "a.example", Err(Untrusted::Missing));
            server.hear(key, result("a.example"));
            key
        },
        |server| server.call_proven(address(1), "c.example"),
    ];
    for state in states {
        let mut server = HostileRig::new(PeerPolicy::Dialback);
        let key = state(&mut server);
        answers(&mut server, key);
        server.hear(key, MESSAGE);
        assert_eq!(server.delivered, []);
    }
}

#[test]
fn an_authority_speaks_for_its_own_domain_and_the_question_it_was_asked() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    server.dns.insert("a.example".into(), at(11));
    server.dns.insert("c.example".into(), at(12));
    let asker = server.call_with_tls(address(1), "a.example", Err(Untrusted::Missing));
    let other = server.call_with_tls(address(2), "c.example", Err(Untrusted::Missing));
    server.hear(asker, result("a.example"));
    server.hear(other, result("c.example"));
    let authorities = [server.calls[0].0, server.calls[1].0];
    let mut ids = Vec::new();
    for (key, domain) in authorities.into_iter().zip(["a.example", "c.example"]) {
        server.servers.connected(key);
        server.run();
        for bytes in [hostile::reply(domain, "1"), hostile::TLS_FEATURE.into(), hostile::PROCEED.into()] {
            server.hear(key, bytes);
        }
        server.secure(key, Err(Untrusted::Missing));
        server.hear(key, hostile::reply(domain, "2"));
        let asked = server.hear(key, "<stream:features/>");
        let id = asked.split(" id='").nth(1).expect("a question").split('\'').next().expect("an id");
        ids.push(id.to_owned());
    }
    let verify =
        |from: &str, to: &str, id: &str| format!("<db:verify from='{from}' to='{to}' id='{id}' type='valid'/>");
    // Each answer comes from the wrong server, with the wrong id, or about the wrong pair.
    server.hear(authorities[1], verify("a.example", "b.example", &ids[0]));
    server.hear(authorities[0], verify("c.example", "b.example", &ids[1]));
    server.hear(authorities[0], verify("a.example", "b.example", &ids[1]));
    server.hear(authorities[0], verify("a.example", "rooms.b.example", &ids[0]));
    server.hear(authorities[0], "<db:result from='a.example' to='b.example' type='valid'/>");
    server.hear(asker, verify("a.example", "b.example", &ids[0]));
    assert_eq!((server.said_to(asker), server.said_to(other)), (String::new(), String::new()));
    // The right answer says that one of them is valid.
    server.hear(authorities[0], verify("a.example", "b.example", &ids[0]));
    assert!(server.said_to(asker).contains("type='valid'"));
    server.hear(asker, MESSAGE);
    assert_eq!(server.delivered.len(), 1);
    assert!(server.hear(other, MESSAGE.replace("a.example", "c.example")).contains("not-authorized"));
}

#[test]
fn whom_a_question_is_put_to_can_send_little() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    server.dns.insert("a.example".into(), at(11));
    let asker = server.call_with_tls(address(1), "a.example", Err(Untrusted::Missing));
    server.hear(asker, result("a.example"));
    let authority = server.answer();
    for bytes in [hostile::reply("a.example", "1"), hostile::TLS_FEATURE.into(), hostile::PROCEED.into()] {
        server.hear(authority, bytes);
    }
    server.secure(authority, Err(Untrusted::Missing));
    server.hear(authority, hostile::reply("a.example", "2"));
    server.hear(authority, "<stream:features/>");
    server.hear(authority, format!("<message><body>{}", "x".repeat(20_000)));
    assert!(server.gone.contains(&authority));
    assert!(server.said_to(asker).contains("remote-server-timeout"));
}
