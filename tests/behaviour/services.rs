//! Requests of clients about the network: external services (XEP-0215), their own address
//! (XEP-0279), capabilities (XEP-0390).

use rookery_hub::Value;
use rookery_testkit::{Config, Server, play};
use rookery_xml::{Element, ns};

#[test]
fn external_services_come_with_credentials() {
    let services = [
        "stun:stun.example.org:9998?transport=udp",
        "turn:relay.example.org:9999?transport=udp",
        "ftp:ftp.example.org",
    ];
    let services = Value::List(services.map(str::to_owned).to_vec());
    let options = vec![
        ("external_services", "services", services),
        ("external_services", "secret", Value::Text("secret".into())),
        ("external_services", "credentials_hours", Value::Number(1)),
    ];
    let server = Server::with(Config { options, federates: true, ..Config::default() });
    let mut romeo = server.login("romeo/orchard");
    play(
        &mut [&mut romeo],
        "C: <iq type='get' id='1' to='example.org'><services xmlns='urn:xmpp:extdisco:2'/></iq>
         S: <iq type='result' id='1' from='example.org'><services xmlns='urn:xmpp:extdisco:2'>
            <service type='stun' host='stun.example.org' port='9998' transport='udp'/>
            <service type='turn' host='relay.example.org' port='9999' transport='udp' restricted='true' username='1767229200:romeo' password='*' expires='2026-01-01T01:00:00Z'/>
            <service type='ftp' host='ftp.example.org'/></services></iq>
         C: <iq type='get' id='2' to='example.org'><services xmlns='urn:xmpp:extdisco:2' type='ftp'/></iq>
         S: <iq type='result' id='2' from='example.org'><services xmlns='urn:xmpp:extdisco:2' type='ftp'><service type='ftp' host='ftp.example.org'/></services></iq>
         C: <iq type='get' id='3' to='example.org'><credentials xmlns='urn:xmpp:extdisco:2'><service type='turn' host='relay.example.org'/></credentials></iq>
         S: <iq type='result' id='3' from='example.org'><credentials xmlns='urn:xmpp:extdisco:2'><service type='turn' host='relay.example.org' port='9999' transport='udp' restricted='true' username='1767229200:romeo' password='*' expires='*'/></credentials></iq>
         C: <iq type='get' id='4' to='example.org'><credentials xmlns='urn:xmpp:extdisco:2'><service type='turn' host='other.example'/></credentials></iq>
         S: <iq type='error' id='4' from='example.org'><error type='cancel'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         C: <iq type='get' id='5' to='example.org'><credentials xmlns='urn:xmpp:extdisco:2'><service type='turn'/></credentials></iq>
         S: <iq type='error' id='5' from='example.org'><error type='modify'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    );
    server.incoming("<iq type='get' id='s' from='tybalt@other.example/x' to='example.org'><services xmlns='urn:xmpp:extdisco:2'/></iq>");
    let left = server.take_left();
    assert!(left.len() == 1 && left[0].text.contains("forbidden") && !left[0].text.contains("relay"), "{left:?}");
}

#[test]
fn clients_learn_their_own_address_and_nobody_elses() {
    for name in [0, 1] {
        let server = Server::new();
        server.account("juliet");
        let romeo = server.login(&format!("{}/orchard", server.name_at("romeo", name)));
        play(
            &mut [&mut romeo.with_name("romeo")],
            "C: <iq type='get' id='1'><address xmlns='urn:xmpp:sic:1'/></iq>
             S: <iq type='result' id='1' from='*'><address xmlns='urn:xmpp:sic:1'><ip>192.0.2.1</ip><port>*</port></address></iq>
             C: <iq type='get' id='2' to='example.org'><ip xmlns='urn:xmpp:sic:0'/></iq>
             S: <iq type='result' id='2' from='example.org'><ip xmlns='urn:xmpp:sic:0'>192.0.2.1</ip></iq>
             C: <iq type='get' id='3' to='juliet@example.org'><address xmlns='urn:xmpp:sic:1'/></iq>
             S: <iq type='error' id='3' from='juliet@example.org'><error type='auth'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
             C: <iq type='set' id='4' to='example.org'><address xmlns='urn:xmpp:sic:1'/></iq>
             S: <iq type='error' id='4' from='example.org'><error type='modify'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
        );
    }
}

#[test]
fn the_announced_hash_can_be_asked_for() {
    let server = Server::new();
    let mut romeo = server.login("romeo/orchard");
    let features = romeo.features.clone().expect("features");
    let c = features.child("c", ns::CAPS_2).expect("capabilities");
    let hash = c.child("hash", ns::HASHES).expect("a hash");
    let node = format!("{}#{}.{}", ns::CAPS_2, hash.attr("algo").expect("a function"), hash.text());
    let mut ask = |node: &str| {
        let answer = romeo.ask(&format!(
            "<iq type='get' id='i' to='example.org'><query xmlns='{}' node='{node}'/></iq>",
            ns::DISCO_INFO
        ));
        answer
            .child("query", ns::DISCO_INFO)
            .filter(|_| answer.attr("type") == Some("result"))
            .map(Element::children)
            .map(Iterator::count)
    };
    assert!(ask(&node).is_some_and(|count| count > 3));
    assert_eq!(ask(&node.replace("sha-256", "sha-512")), None);
    assert_eq!(ask("urn:xmpp:caps#sha-256.AAAA"), None);
}
