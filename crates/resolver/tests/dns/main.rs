//! Tests name servers that fail, lie and are slow.

mod name_server;
mod web;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc;

use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, NULL, SRV};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use name_server::{NameServer, Say, find, find_by};
use rookery_federation::{Address, Found, NotFound};
use rookery_resolver::{Dns, Lookups, ResolverSettings, Route};
use rookery_shard::Resolver;

fn srv(priority: u16, port: u16, target: &str) -> RData {
    RData::SRV(SRV::new(priority, 0, port, Name::from_ascii(target).expect("a name")))
}

fn a(last: u8) -> RData {
    RData::A(A(Ipv4Addr::new(192, 0, 2, last)))
}

fn at(last: u8, port: u16, direct_tls: bool) -> Address {
    Address::new(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), port), direct_tls)
}

const DIRECT: &str = "_xmpps-server._tcp.a.example.";
const STARTTLS: &str = "_xmpp-server._tcp.a.example.";

#[test]
fn records_of_both_names_are_mixed_by_priority() {
    let server = NameServer::start();
    server.say(DIRECT, RecordType::SRV, Say::Records(vec![srv(5, 5270, "one.example."), srv(20, 443, "two.example.")]));
    server.say(
        STARTTLS,
        RecordType::SRV,
        Say::Records(vec![srv(10, 5269, "one.example."), srv(1, 1, "none.example.")]),
    );
    server.say("one.example.", RecordType::A, Say::Records(vec![a(1)]));
    server.say("two.example.", RecordType::A, Say::Records(vec![a(2)]));
    assert_eq!(server.find("a.example"), Ok(vec![at(1, 5270, true), at(1, 5269, false), at(2, 443, true)]));
    assert!(!server.queried_names(RecordType::A).contains(&"a.example.".to_owned()));
}

#[test]
fn without_records_the_domain_itself_is_the_server() {
    let server = NameServer::start();
    server.say("a.example.", RecordType::A, Say::Records(vec![a(1)]));
    assert_eq!(server.find("a.example"), Ok(vec![at(1, 5269, false)]));
    assert_eq!(server.find("nowhere.example"), Err(NotFound::NoServer));
}

#[test]
fn a_name_server_that_fails_says_nothing_about_the_domain() {
    let failures = [
        Say::Code(ResponseCode::ServFail),
        Say::Code(ResponseCode::Refused),
        Say::Code(ResponseCode::FormErr),
        Say::Code(ResponseCode::NotImp),
    ];
    for failure in failures {
        let server = NameServer::start();
        server.say("a.example.", RecordType::A, Say::Records(vec![a(1)]));
        server.say(STARTTLS, RecordType::SRV, failure);
        assert_eq!(server.find("a.example"), Err(NotFound::NoAnswer));
        assert_eq!(server.queried_names(RecordType::A), [""; 0], "the web server of the domain is left alone");
    }
}

#[test]
fn what_is_no_message_is_no_answer() {
    let server = NameServer::start();
    server.say("a.example.", RecordType::A, Say::Records(vec![a(1)]));
    server.say(STARTTLS, RecordType::SRV, Say::Garbage);
    assert_eq!(server.find("a.example"), Err(NotFound::NoAnswer));
}

#[test]
fn a_target_that_cannot_be_looked_up_does_not_hide_the_others() {
    let server = NameServer::start();
    let both = vec![srv(1, 5269, "broken.example."), srv(2, 5269, "good.example.")];
    server.say(STARTTLS, RecordType::SRV, Say::Records(both));
    server.say("broken.example.", RecordType::A, Say::Code(ResponseCode::ServFail));
    server.say("broken.example.", RecordType::AAAA, Say::Code(ResponseCode::ServFail));
    server.say("good.example.", RecordType::A, Say::Records(vec![a(2)]));
    server.say("good.example.", RecordType::AAAA, Say::Code(ResponseCode::ServFail));
    assert_eq!(server.find("a.example"), Ok(vec![at(2, 5269, false)]));
    // If no name server is left, that is no answer, rather than the answer that there is no server.
    server.say("good.example.", RecordType::A, Say::Code(ResponseCode::ServFail));
    assert_eq!(server.find("a.example"), Err(NotFound::NoAnswer));
}

/// RFC 8305 §3: IPv4 doesn't wait for the end of a query about IPv6, which would be sent again
/// before that.
#[test]
fn silence_about_one_family_does_not_hide_the_other() {
    let server = NameServer::start();
    server.say("a.example.", RecordType::A, Say::Records(vec![a(1)]));
    server.say("a.example.", RecordType::AAAA, Say::Silence);
    assert_eq!(server.find("a.example"), Ok(vec![at(1, 5269, false)]));
    assert_eq!(server.queried_names(RecordType::AAAA), ["a.example."]);
    // If signatures count, the answers about both families are waited for.
    let server = NameServer::start();
    let six = RData::AAAA(AAAA("2001:db8::1".parse().expect("an address")));
    server.say("a.example.", RecordType::A, Say::Secure(vec![a(1)]));
    server.say("a.example.", RecordType::AAAA, Say::SecureLate(vec![six]));
    assert_eq!(server.find_trusting("a.example").map(|found| found.len()), Ok(2));
}

#[test]
fn a_domain_may_say_that_it_has_no_server() {
    let server = NameServer::start();
    server.say("a.example.", RecordType::A, Say::Records(vec![a(1)]));
    server.say(DIRECT, RecordType::SRV, Say::Records(vec![srv(0, 0, ".")]));
    server.say(STARTTLS, RecordType::SRV, Say::Records(vec![srv(0, 0, ".")]));
    assert_eq!(server.find("a.example"), Err(NotFound::NoServer));
    assert_eq!(server.queried_names(RecordType::A), [""; 0]);
}

#[test]
fn names_are_asked_as_they_are_and_in_ascii() {
    let server = NameServer::start();
    assert_eq!(server.find("b\u{fc}cher.example"), Err(NotFound::NoServer));
    let mut asked = server.queried_names(RecordType::SRV);
    asked.sort();
    asked.dedup();
    assert_eq!(asked, ["_xmpp-server._tcp.xn--bcher-kva.example.", "_xmpps-server._tcp.xn--bcher-kva.example."]);
    // No search list extends such a name, and a name of this network isn't a public one.
    for single in ["localhost", "server", "a..example", "a b.example"] {
        assert_eq!(server.find(single), Err(NotFound::NoServer), "{single}");
    }
}

/// An IP address in place of a domain leads nowhere: it has no records and no certificate. With an
/// operator's route, it is a name like any other.
#[test]
fn addresses_are_no_domains() {
    let server = NameServer::start();
    for literal in ["192.0.2.1", "127.0.0.1", "[2001:db8::1]", "2001:db8::1", "[::ffff:192.0.2.1]", "0.0.0.0"] {
        assert_eq!(server.find(literal), Err(NotFound::NoServer), "{literal}");
        let settings = ResolverSettings { servers: vec![server.address], ..ResolverSettings::default() };
        let (lines, found) = rookery_resolver::explain(&settings, literal);
        assert_eq!(found, Err(NotFound::NoServer), "{literal}");
        assert!(lines.len() == 1 && lines[0].contains("routes"), "{literal}: {lines:?}");
    }
    assert!(
        [RecordType::SRV, RecordType::A, RecordType::AAAA].iter().all(|&type_| server.queried_names(type_).is_empty())
    );
    let by_hand = |host: &str| Route { domain: "192.0.2.1".into(), host: host.into(), port: 5269, direct_tls: false };
    for host in ["192.0.2.1", "xmpp.a.example"] {
        server.say("xmpp.a.example.", RecordType::A, Say::Records(vec![a(1)]));
        let settings = ResolverSettings {
            servers: vec![server.address],
            routes: vec![by_hand(host)],
            ..ResolverSettings::default()
        };
        assert_eq!(find_by(settings, "192.0.2.1"), Ok(vec![at(1, 5269, false)]), "{host}");
    }
}

#[test]
fn long_answers_come_over_tcp() {
    let server = NameServer::start();
    server.say(STARTTLS, RecordType::SRV, Say::Longer(vec![srv(1, 5269, "one.example.")]));
    server.say("one.example.", RecordType::A, Say::Records(vec![a(1)]));
    assert_eq!(server.find("a.example"), Ok(vec![at(1, 5269, false)]));
}

#[test]
fn lies_are_not_believed() {
    let server = NameServer::start();
    server.say(
        STARTTLS,
        RecordType::SRV,
        Say::Forged(vec![srv(1, 666, "evil.example.")], vec![srv(1, 5269, "one.example.")]),
    );
    server.say("one.example.", RecordType::A, Say::Records(vec![a(1)]));
    server.say("evil.example.", RecordType::A, Say::Records(vec![a(66)]));
    assert_eq!(server.find("a.example"), Ok(vec![at(1, 5269, false)]));
    // Records of a name that wasn't queried.
    let server = NameServer::start();
    server.say(STARTTLS, RecordType::SRV, Say::Other(vec![srv(1, 666, "evil.example.")]));
    server.say("evil.example.", RecordType::A, Say::Records(vec![a(66)]));
    let found = server.find("a.example");
    assert!(found.is_err(), "{found:?}");
}

/// A name server that isn't trusted proves nothing by its statement that an answer is signed. If a
/// validating name server fails because an answer is bogus, that is no answer (RFC 4035 §5.5).
#[test]
fn what_is_said_of_signatures_changes_nothing() {
    let records = vec![srv(1, 5270, "xmpp.a.example.")];
    let tlsa = RData::Unknown { code: RecordType::TLSA, rdata: NULL::with(vec![3, 1, 1, 0xff]) };
    for say in [Say::Records, Say::Secure] {
        let server = NameServer::start();
        server.say("_xmpp-server._tcp.a.example.", RecordType::SRV, say(records.clone()));
        server.say("xmpp.a.example.", RecordType::A, say(vec![a(1)]));
        server.say("_5270._tcp.xmpp.a.example.", RecordType::TLSA, say(vec![tlsa.clone()]));
        assert_eq!(server.find("a.example"), Ok(vec![at(1, 5270, false)]));
    }
    let server = NameServer::start();
    server.say("_xmpp-server._tcp.a.example.", RecordType::SRV, Say::Code(ResponseCode::ServFail));
    server.say("a.example.", RecordType::A, Say::Secure(vec![a(1)]));
    assert_eq!(server.find("a.example"), Err(NotFound::NoAnswer));
}

#[test]
fn names_that_lead_in_circles_end() {
    let server = NameServer::start();
    let alias = |of: &str| RData::CNAME(CNAME(Name::from_ascii(of).expect("a name")));
    server.say(STARTTLS, RecordType::SRV, Say::Records(vec![srv(1, 5269, "one.example.")]));
    for (name, to) in [("one.example.", "two.example."), ("two.example.", "one.example.")] {
        for type_ in [RecordType::A, RecordType::AAAA] {
            server.say(name, type_, Say::Records(vec![alias(to)]));
        }
    }
    assert!(server.find("a.example").is_err());
    // A chain of aliases that ends is followed.
    server.say("two.example.", RecordType::A, Say::Alias("three.example.", vec![a(3)]));
    server.say(STARTTLS, RecordType::SRV, Say::Records(vec![srv(1, 5269, "two.example.")]));
    assert_eq!(server.find("a.example"), Ok(vec![at(3, 5269, false)]));
}

#[test]
fn targets_and_addresses_are_bounded() {
    let server = NameServer::start();
    let many = (0..60).map(|number| srv(number, 5269, &format!("t{number}.example."))).collect();
    server.say(STARTTLS, RecordType::SRV, Say::Longer(many));
    for number in 0..60 {
        server.say(&format!("t{number}.example."), RecordType::A, Say::Longer((0..100).map(a).collect()));
        let six = (0..100).map(|last| RData::AAAA(AAAA([0x2001, 0xdb8, 0, 0, 0, 0, 0, last].into()))).collect();
        server.say(&format!("t{number}.example."), RecordType::AAAA, Say::Longer(six));
    }
    let found = server.find("a.example").expect("addresses");
    assert_eq!(found.len(), 20 * 10);
    assert!(found[0].socket.is_ipv6() && found[1].socket.is_ipv4());
}

#[test]
fn another_name_server_is_asked_where_one_is_broken() {
    let (broken, good) = (NameServer::start(), NameServer::start());
    for name in [DIRECT, STARTTLS, "one.example."] {
        for type_ in [RecordType::SRV, RecordType::A, RecordType::AAAA] {
            broken.say(name, type_, Say::Code(ResponseCode::ServFail));
        }
    }
    good.say(STARTTLS, RecordType::SRV, Say::Records(vec![srv(1, 5269, "one.example.")]));
    good.say("one.example.", RecordType::A, Say::Records(vec![a(1)]));
    assert_eq!(find(&[broken.address, good.address], "a.example"), Ok(vec![at(1, 5269, false)]));
}

#[test]
fn a_domain_is_asked_for_once_while_its_answer_holds() {
    let server = NameServer::start();
    server.say(STARTTLS, RecordType::SRV, Say::Records(vec![srv(1, 5269, "one.example.")]));
    server.say("one.example.", RecordType::A, Say::Records(vec![a(1)]));
    let dns = Dns::start(ResolverSettings { servers: vec![server.address], ..ResolverSettings::default() })
        .expect("a thread");
    for _ in 0..10 {
        let (tell, told) = mpsc::channel();
        dns.resolve("a.example", Box::new(move |found| tell.send(found).expect("somebody waits")));
        assert_eq!(told.recv().expect("an answer"), Ok(vec![at(1, 5269, false)]));
    }
    // The answer that the other name has no records is only valid for as long as its zone says,
    // which this zone doesn't.
    let asked = server.queried_names(RecordType::SRV).iter().filter(|name| *name == STARTTLS).count();
    assert_eq!((asked, server.queried_names(RecordType::A).len()), (1, 1));
}

#[test]
fn an_operator_is_told_what_dns_says() {
    let server = NameServer::start();
    server.say(STARTTLS, RecordType::SRV, Say::Records(vec![srv(1, 5269, "one.example.")]));
    server.say("one.example.", RecordType::A, Say::Records(vec![a(1)]));
    let settings = ResolverSettings { servers: vec![server.address], ..ResolverSettings::default() };
    let (lines, found) = rookery_resolver::explain(&settings, "a.example");
    assert_eq!(found, Ok(vec![at(1, 5269, false)]));
    let told = ["_xmpps-server._tcp.a.example. SRV: none", "_xmpp-server._tcp.a.example. SRV: 1 0 5269 one.example."];
    assert_eq!(lines[..2], told);
    assert_eq!(lines[2], "192.0.2.1:5269 (STARTTLS)");
}

#[test]
fn single_records_are_looked_up_as_they_are() {
    let server = NameServer::start();
    let clients = "_xmpp-client._tcp.a.example";
    server.say("a.example.", RecordType::A, Say::Records(vec![a(1), a(2)]));
    server.say("_xmpp-client._tcp.a.example.", RecordType::SRV, Say::Records(vec![srv(0, 5222, "one.example.")]));
    let lookups = Lookups::new(&ResolverSettings { servers: vec![server.address], ..ResolverSettings::default() })
        .expect("a name server");
    let mut found = lookups.addresses("a.example").expect("an answer");
    found.sort();
    assert_eq!(found, [1, 2].map(|last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))));
    let targets = lookups.targets(clients).expect("an answer");
    assert_eq!((targets.len(), targets[0].port, targets[0].host.as_str()), (1, 5222, "one.example."));
    assert_eq!(lookups.addresses("b.example"), Ok(Vec::new()));
    assert_eq!(lookups.targets("_xmpp-client._tcp.b.example"), Ok(Vec::new()));
    server.say("c.example.", RecordType::A, Say::Code(ResponseCode::ServFail));
    assert_eq!(lookups.addresses("c.example"), Err(NotFound::NoAnswer));
}

const HOST: &str = "xmpp.a.example.";
const TLSA: &str = "_5269._tcp.xmpp.a.example.";

fn tlsa(bytes: &[u8]) -> RData {
    RData::Unknown { code: RecordType::TLSA, rdata: NULL::with(bytes.to_vec()) }
}

/// Returns a usable record: the digest of a key.
fn usable() -> RData {
    tlsa(&[&[3, 1, 1][..], &[0xab; 32]].concat())
}

/// Returns a zone in which everything is signed, with the test's TLSA records.
fn signed_zone(records: Say) -> NameServer {
    let server = NameServer::start();
    server.say(STARTTLS, RecordType::SRV, Say::Secure(vec![srv(1, 5269, HOST)]));
    server.say(HOST, RecordType::A, Say::Secure(vec![a(1)]));
    server.say(TLSA, RecordType::TLSA, records);
    server
}

/// Returns the TLSA records of the only address that was found, as text.
fn records_of(found: Found) -> Option<Vec<String>> {
    let mut found = found.expect("an address");
    let address = found.pop().expect("an address");
    assert_eq!(Address { tlsa: None, ..address.clone() }, at(1, 5269, false));
    address.tlsa.map(|tlsa| tlsa.iter().map(ToString::to_string).collect())
}

#[test]
fn certificates_are_named_where_all_that_leads_to_them_is_signed() {
    let expected = Some(vec!["3 1 1 abababababababab…".to_owned()]);
    assert_eq!(records_of(signed_zone(Say::Secure(vec![usable()])).find_trusting("a.example")), expected);
    assert_eq!(records_of(signed_zone(Say::SecureLonger(vec![usable()])).find_trusting("a.example")), expected);
    // The server isn't trusted: it isn't even queried.
    let server = signed_zone(Say::Secure(vec![usable()]));
    assert_eq!(records_of(server.find("a.example")), None);
    assert_eq!(server.queried_names(RecordType::TLSA), [""; 0]);
    // Each answer in turn lacks the statement.
    let server = signed_zone(Say::Records(vec![usable()]));
    assert_eq!(records_of(server.find_trusting("a.example")), None, "the records");
    let server = signed_zone(Say::Secure(vec![usable()]));
    server.say(HOST, RecordType::A, Say::Records(vec![a(1)]));
    assert_eq!(records_of(server.find_trusting("a.example")), None, "the address");
    assert_eq!(server.queried_names(RecordType::TLSA), [""; 0]);
    let server = signed_zone(Say::Secure(vec![usable()]));
    server.say(STARTTLS, RecordType::SRV, Say::Records(vec![srv(1, 5269, HOST)]));
    assert_eq!(records_of(server.find_trusting("a.example")), None, "the place of the server");
    assert_eq!(server.queried_names(RecordType::TLSA), [""; 0]);
}

#[test]
fn a_domain_without_srv_records_names_certificates_itself() {
    let server = NameServer::start();
    server.say("a.example.", RecordType::A, Say::Secure(vec![a(1)]));
    server.say("_5269._tcp.a.example.", RecordType::TLSA, Say::Secure(vec![usable()]));
    assert!(records_of(server.find_trusting("a.example")).is_some());
}

/// RFC 7671 §7: the canonical name has the records, or the alias has.
#[test]
fn certificates_are_named_at_the_end_of_aliases() {
    const END: &str = "machine.provider.example.";
    let aliased = |signed: bool| {
        let server = NameServer::start();
        let say = if signed { Say::SecureAlias(END, vec![a(1)]) } else { Say::Alias(END, vec![a(1)]) };
        server.say(STARTTLS, RecordType::SRV, Say::Secure(vec![srv(1, 5269, HOST)]));
        server.say(HOST, RecordType::A, say);
        server
    };
    let of = |server: &NameServer| {
        let found = server.find_trusting("a.example").expect("an address");
        found[0].tlsa.as_ref().map(|tlsa| tlsa.name())
    };
    let at_end = format!("_5269._tcp.{END}");
    let server = aliased(true);
    server.say(TLSA, RecordType::TLSA, Say::Secure(vec![usable()]));
    assert_eq!(of(&server).as_deref(), Some(TLSA), "the alias alone has records");
    assert_eq!(server.queried_names(RecordType::TLSA), [&*at_end, TLSA]);
    let server = aliased(true);
    server.say(TLSA, RecordType::TLSA, Say::Secure(vec![usable()]));
    server.say(&at_end, RecordType::TLSA, Say::Secure(vec![usable()]));
    assert_eq!(of(&server).as_deref(), Some(&*at_end), "those of the machine come first");
    // Without an answer about the records, the server isn't used.
    let server = aliased(true);
    server.say(TLSA, RecordType::TLSA, Say::Secure(vec![usable()]));
    server.say(&at_end, RecordType::TLSA, Say::Code(ResponseCode::ServFail));
    assert_eq!(server.find_trusting("a.example"), Err(NotFound::NoAnswer));
    // An unsigned alias leads to no record.
    let server = aliased(false);
    server.say(&at_end, RecordType::TLSA, Say::Secure(vec![usable()]));
    assert_eq!(of(&server), None);
    assert_eq!(server.queried_names(RecordType::TLSA), [""; 0]);
}

#[test]
fn no_word_about_certificates_is_no_way_to_the_server() {
    // These are a validating name server's reply about a bogus answer, and a truncated message.
    for say in [Say::Code(ResponseCode::ServFail), Say::Code(ResponseCode::Refused), Say::Garbage] {
        assert_eq!(signed_zone(say).find_trusting("a.example"), Err(NotFound::NoAnswer));
    }
    for cut in 1..3 {
        let say = Say::Secure(vec![tlsa(&[3, 1, 1][..cut])]);
        assert_eq!(signed_zone(say).find_trusting("a.example"), Err(NotFound::NoAnswer), "{cut} bytes");
    }
    // Another target of the domain is still usable.
    let server = signed_zone(Say::Code(ResponseCode::ServFail));
    let both = vec![srv(1, 5269, HOST), srv(2, 5269, "other.a.example.")];
    server.say(STARTTLS, RecordType::SRV, Say::Secure(both));
    server.say("other.a.example.", RecordType::A, Say::Secure(vec![a(1)]));
    assert_eq!(records_of(server.find_trusting("a.example")), None);
}

#[test]
fn records_that_cannot_be_used_change_nothing() {
    let of = |records: Vec<RData>| records_of(signed_zone(Say::Secure(records)).find_trusting("a.example"));
    let odd = [tlsa(&[3, 1, 1]), tlsa(&[3, 1, 1, 0xff]), tlsa(&[&[9, 1, 1][..], &[0; 32]].concat())];
    assert_eq!(of(odd.to_vec()), None);
    assert_eq!(of([&odd[..], &[usable()]].concat()).map(|records| records.len()), Some(1));
    let server = signed_zone(Say::Code(ResponseCode::NXDomain));
    assert_eq!(records_of(server.find_trusting("a.example")), None);
    let other = signed_zone(Say::Other(vec![usable()]));
    assert_eq!(records_of(other.find_trusting("a.example")), None, "records of another name");
}

#[test]
fn the_word_is_kept_with_the_answer() {
    let server = signed_zone(Say::Secure(vec![usable()]));
    let dns = Dns::start(server.trusting()).expect("a thread");
    for _ in 0..3 {
        let (tell, told) = mpsc::channel();
        dns.resolve("a.example", Box::new(move |found| tell.send(found).expect("somebody waits")));
        assert!(records_of(told.recv().expect("an answer")).is_some());
    }
    assert_eq!(server.queried_names(RecordType::TLSA).len(), 1);
}

#[test]
fn an_operator_is_told_which_certificates_dns_names() {
    let server = signed_zone(Say::Secure(vec![usable()]));
    let (lines, _) = rookery_resolver::explain(&server.trusting(), "a.example");
    assert_eq!(
        lines[1..],
        [
            "_xmpp-server._tcp.a.example. SRV: 1 0 5269 xmpp.a.example. (signed)",
            "192.0.2.1:5269 (STARTTLS)",
            "_5269._tcp.xmpp.a.example. TLSA: 3 1 1 abababababababab… (signed)",
        ]
    );
    server.say(STARTTLS, RecordType::SRV, Say::Records(vec![srv(1, 5269, HOST)]));
    let (lines, _) = rookery_resolver::explain(&server.trusting(), "a.example");
    assert_eq!(lines[1], "_xmpp-server._tcp.a.example. SRV: 1 0 5269 xmpp.a.example. (not signed)");
}
