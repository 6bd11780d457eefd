use std::collections::BTreeMap;

use rookery_jid::Jid;
use rookery_xml::{Limits, Stanza};

use super::*;
use crate::Packet;

/// Returns a stanza with these addresses, each written without `<address` and `/>`.
fn message(addresses: &[&str]) -> Packet {
    let addresses: String = addresses.iter().map(|address| format!("<address {address}/>")).collect();
    let header = format!("<addresses xmlns='http://jabber.org/protocol/address'>{addresses}</addresses>");
    Packet::from_bytes(format!("<message from='s@here/r'><body>hi</body>{header}</message>").as_bytes()).unwrap()
}

fn stanza(packet: &Packet) -> Stanza<'_> {
    packet.stanza()
}

fn with_plan<T>(packet: &Packet, then: impl FnOnce(Plan<'_>) -> T) -> T {
    let header = MulticastHeader::read(find(&stanza(packet)).unwrap()).unwrap();
    let hop = |jid: rookery_jid::JidRef<'_>| match jid.domain() {
        "here" if jid.is_domain() => Hop::Nowhere,
        "here" => Hop::Here,
        _ => Hop::Away,
    };
    then(Plan::new(packet, &header, Groups::new(&header, hop)))
}

/// Returns, for each recipient, the addresses in the header of its copy.
fn copies(packet: &Packet) -> BTreeMap<String, String> {
    with_plan(packet, |plan| {
        let mut copies = BTreeMap::new();
        let mut add = |to: &str, bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).unwrap();
            let stanza = Stanza::parse(text.as_bytes(), &Limits::AFTER_LOGIN).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(stanza.to().as_deref(), Some(to));
            let seen = find(&stanza).map(|header| header.children().map(|child| describe(&child)).collect::<Vec<_>>());
            assert!(copies.insert(to.to_owned(), seen.unwrap_or_default().join(" ")).is_none(), "one copy for {to}");
        };
        for target in &plan.to_shown {
            add(target.as_ref().as_str(), plan.shown.with_to(target.as_ref().as_str()));
        }
        for target in &plan.to_hidden {
            add(target.as_ref().as_str(), plan.hidden.as_ref().unwrap().with_to(target.as_ref().as_str()));
        }
        for (target, packet) in &plan.rich {
            add(target.as_ref().as_str(), packet.with_to(target.as_ref().as_str()));
        }
        for distant in plan.distant {
            for outgoing in distant.individually() {
                assert_eq!(outgoing.own_bytes(), 0);
                add(outgoing.to().as_str(), outgoing.to_vec());
            }
        }
        copies
    })
}

/// Returns an address in short form: `to!a@here` is delivered, `bcc:a@here(text)` is not and has a
/// description.
fn describe(child: &rookery_xml::Child<'_>) -> String {
    assert!(child.is("address", "http://jabber.org/protocol/address"));
    let mark = if child.attr("delivered").as_deref() == Some("true") { '!' } else { ':' };
    let desc = child.attr("desc").map(|desc| format!("({desc})")).unwrap_or_default();
    let name = child.attr("jid").or_else(|| child.attr("uri")).unwrap_or_default();
    format!("{}{mark}{name}{desc}", child.attr("type").unwrap())
}

#[test]
fn everybody_sees_the_visible_and_nobody_the_blind() {
    let packet = message(&[
        "type='to' jid='a@here' desc='A'",
        "type='bcc' jid='b@here'",
        "type='cc' jid='c@there/x'",
        "type='bcc' jid='d@there'",
        "type='replyto' jid='s@here'",
        "type='noreply'",
    ]);
    let all = "replyto:s@here noreply: to!a@here(A) cc!c@there/x";
    let own = |jid: &str| format!("{all} bcc:{jid}");
    assert_eq!(
        copies(&packet),
        BTreeMap::from([
            ("a@here".into(), all.into()),
            ("b@here".into(), own("b@here")),
            ("c@there/x".into(), all.into()),
            ("d@there".into(), own("d@there")),
        ])
    );
}

#[test]
fn who_passes_stanzas_on_gets_none() {
    let packet = message(&["type='bcc' jid='here'", "type='to' jid='here'", "type='to' jid='a@here'"]);
    assert_eq!(copies(&packet), BTreeMap::from([("a@here".into(), "to!a@here".into())]));
}

#[test]
fn who_is_delivered_gets_nothing_and_is_shown_unless_blind() {
    let packet = message(&[
        "type='to' jid='a@here' delivered='true'",
        "type='bcc' jid='b@here' delivered='1'",
        "type='cc' jid='c@here' delivered='false'",
    ]);
    assert_eq!(copies(&packet), BTreeMap::from([("c@here".into(), "to!a@here cc!c@here".into())]));
}

#[test]
fn repetitions_count_once_and_visibly() {
    let packet = message(&[
        "type='bcc' jid='a@here'",
        "type='to' jid='a@here'",
        "type='cc' jid='A@HERE'",
        "type='to' jid='a@here/r'",
    ]);
    let seen = "to!a@here to!a@here/r";
    assert_eq!(copies(&packet), BTreeMap::from([("a@here".into(), seen.into()), ("a@here/r".into(), seen.into())]));
}

#[test]
fn a_blind_address_that_says_more_is_kept_whole() {
    let packet = message(&["type='bcc' jid='a@here' desc='Dear &lt;A>'", "type='bcc' jid='b@there' desc='B'"]);
    let wanted = [("a@here", "bcc:a@here(Dear <A>)"), ("b@there", "bcc:b@there(B)")];
    assert_eq!(copies(&packet), wanted.map(|(jid, seen)| (jid.to_owned(), seen.to_owned())).into());
}

#[test]
fn prefixes_foreign_content_and_odd_addresses_pass() {
    let packet = Packet::from_bytes(
        b"<message from='s@here/r' xmlns:x='urn:x'><p:addresses xmlns:p='http://jabber.org/protocol/address' xmlns:q='urn:q'>\
          <p:address  x:y='1' jid = \"a@here/&lt;'\" type='to'><q:z/></p:address> <p:address type='bcc' jid='b@here'/></p:addresses></message>",
    )
    .unwrap();
    let seen = "to!a@here/<'";
    let wanted = [("a@here/<'", seen.to_owned()), ("b@here", format!("{seen} bcc:b@here"))];
    assert_eq!(copies(&packet), wanted.map(|(jid, seen)| (jid.to_owned(), seen)).into());
    with_plan(&packet, |plan| {
        let text = String::from_utf8(plan.shown.with_to("a@here/<'")).unwrap();
        assert!(text.contains("<q:z/></p:address></p:addresses>"), "{text}");
    });
}

#[test]
fn a_service_gets_its_own_unmarked_and_no_others_blind_ones() {
    let packet = message(&[
        "type='to' jid='a@here'",
        "type='to' jid='c1@there' delivered='false'",
        "type='cc' jid='e@yonder'",
        "type='bcc' jid='f@yonder'",
        "type='to' jid='c2@there/&amp;'",
        "type='bcc' jid='d@there' desc='D'",
    ]);
    with_plan(&packet, |plan| {
        let service = Jid::parse("multicast.there").unwrap();
        let there = plan.distant.iter().find(|distant| distant.domain == "there").unwrap();
        assert_eq!((there.len(), plan.distant.len()), (3, 2));
        let seen = |limit| -> Vec<String> {
            let copies = there.through(&service, limit);
            copies
                .map(|copy| {
                    let text = String::from_utf8(copy.to_vec()).unwrap();
                    let stanza =
                        Stanza::parse(text.as_bytes(), &Limits::AFTER_LOGIN).unwrap_or_else(|_| panic!("{text}"));
                    assert_eq!(stanza.to().as_deref(), Some("multicast.there"));
                    assert_eq!(stanza.from().as_deref(), Some("s@here/r"));
                    find(&stanza).unwrap().children().map(|child| describe(&child)).collect::<Vec<_>>().join(" ")
                })
                .collect()
        };
        assert_eq!(seen(20), ["to!a@here to:c1@there to:c2@there/& bcc:d@there(D) cc!e@yonder"]);
        assert_eq!(
            seen(1),
            [
                "to!a@here to:c1@there to!c2@there/& cc!e@yonder",
                "to!a@here to!c1@there to:c2@there/& cc!e@yonder",
                "to!a@here to!c1@there to!c2@there/& cc!e@yonder bcc:d@there(D)",
            ]
        );
    });
}

#[test]
fn on_the_trusted_route_a_service_gets_blind_addresses_only() {
    let presence = Packet::from_bytes(b"<presence from='s@here/r'/>").unwrap();
    let to = ["a@there", "b@there/it's", "c@there"].map(|jid| Jid::parse(jid).unwrap());
    let distant = bcc("there".into(), &presence, to);
    let service = Jid::parse("multicast.there").unwrap();
    let seen: Vec<_> = distant.through(&service, 2).map(|copy| String::from_utf8(copy.to_vec()).unwrap()).collect();
    assert_eq!(
        seen,
        [
            "<presence to='multicast.there' from='s@here/r'><addresses xmlns='http://jabber.org/protocol/address'>\
             <address type='bcc' jid='a@there'/><address type='bcc' jid='b@there/it&apos;s'/></addresses></presence>",
            "<presence to='multicast.there' from='s@here/r'><addresses xmlns='http://jabber.org/protocol/address'>\
             <address type='bcc' jid='c@there'/></addresses></presence>",
        ]
    );
    let seen: Vec<_> = distant.individually().map(|copy| String::from_utf8(copy.to_vec()).unwrap()).collect();
    assert_eq!(seen[1], "<presence to='b@there/it&apos;s' from='s@here/r'></presence>");
}

#[test]
fn a_header_that_does_not_decode_names_the_address() {
    let read = |address: &str| {
        let packet = message(&["type='to' jid='a@here'", address]);
        MulticastHeader::read(find(&stanza(&packet)).unwrap()).map(|_| ()).map_err(|bad| bad.text())
    };
    for (address, text) in [
        ("jid='b@here'", "address 2 (b@here): it has no type"),
        ("jid='b@here' type='TO'", "address 2 (b@here): its type \"TO\" is unknown"),
        ("type='to' jid='b@here' uri='mailto:b@here'", "address 2 (b@here): a URI excludes JID and node"),
        ("type='to' uri='x:y' node='n'", "address 2 (x:y): a URI excludes JID and node"),
        ("type='replyto' jid='@here'", "address 2 (@here): its JID is malformed"),
        ("type='to' jid='b@here' delivered='yes'", "address 2 (b@here): 'delivered' is neither true nor false"),
    ] {
        assert_eq!(read(address), Err(text.to_owned()));
    }
    assert_eq!(read("type='to' uri='mailto:b@here'"), Ok(()));
    let foreign = message(&["type='to' jid='a@here'"]);
    let bytes = String::from_utf8(foreign.bytes().to_vec()).unwrap().replace("<address ", "<adress ");
    let foreign = Packet::from_bytes(bytes.as_bytes()).unwrap();
    let bad = MulticastHeader::read(find(&stanza(&foreign)).unwrap()).unwrap_err();
    assert_eq!(bad.text(), "address 1: <adress/> isn't an address");
}

#[test]
fn recipients_without_a_usable_jid_are_told_apart() {
    let packet = message(&[
        "type='to' uri='mailto:a@here'",
        "type='cc' jid='a@@here'",
        "type='bcc' node='n'",
        "type='to' jid='b@here'",
    ]);
    let stanza = stanza(&packet);
    let header = MulticastHeader::read(find(&stanza).unwrap()).unwrap();
    assert_eq!(header.unusable().collect::<Vec<_>>(), ["mailto:a@here", "a@@here", ""]);
    assert_eq!(header.recipients().map(|target| target.as_ref().to_string()).collect::<Vec<_>>(), ["b@here"]);
    assert_eq!(copies(&packet), BTreeMap::from([("b@here".into(), "to!b@here".into())]));
}

/// The work for N recipients on N servers grows as N, though the bytes on the wire grow as N².
#[test]
fn work_is_linear_in_recipients_and_domains() {
    let work = |count: usize, type_: &str, domain: &dyn Fn(usize) -> String| {
        let addresses: Vec<_> =
            (0..count).map(|at| format!("type='{type_}' jid='user{at:04}@{}'", domain(at))).collect();
        let packet = message(&addresses.iter().map(String::as_str).collect::<Vec<_>>());
        with_plan(&packet, |plan| {
            let (mut made, mut sent, mut stanzas) = (plan.work, 0, 0);
            for (at, distant) in plan.distant.iter().enumerate() {
                let service = Jid::parse(&format!("multicast{at:04}.there")).unwrap();
                for outgoing in distant.through(&service, 1000) {
                    made += outgoing.own_bytes();
                    outgoing.parts(|part| sent += part.len());
                    stanzas += 1;
                }
            }
            (made, sent, stanzas)
        })
    };
    for type_ in ["to", "bcc"] {
        for domain in [&|_: usize| "here".to_owned(), &|_: usize| "there".to_owned(), &|at: usize| format!("d{at:04}")]
            as [&dyn Fn(usize) -> String; 3]
        {
            let (small, large) = (work(100, type_, domain), work(800, type_, domain));
            let ratio = large.0 as f64 / small.0 as f64;
            assert!(ratio < 8.1, "{type_} to {}: {small:?}, {large:?}", domain(0));
        }
    }
    let (small, large) = (work(100, "to", &|at| format!("d{at:04}")), work(800, "to", &|at| format!("d{at:04}")));
    assert_eq!((small.2, large.2), (100, 800));
    assert!(large.1 > 50 * small.1, "the standard makes every server see all addresses: {small:?}, {large:?}");
}

proptest::proptest! {
    /// For any set of addresses, each wanted recipient gets one well-formed copy, which shows all
    /// visible recipients, and no blind one except for itself.
    #[test]
    fn any_header_keeps_the_rules(addresses in proptest::collection::vec(any_address(), 1..12)) {
        let written: Vec<_> = addresses.iter().map(One::write).collect();
        let copies = copies(&message(&written.iter().map(String::as_str).collect::<Vec<_>>()));
        let wanted = |one: &&One| !one.delivered && one.type_ != "replyto";
        let mut recipients: Vec<_> = addresses.iter().filter(wanted).map(|one| one.jid).collect();
        recipients.sort_unstable();
        recipients.dedup();
        assert_eq!(copies.keys().map(String::as_str).collect::<Vec<_>>(), recipients);
        let is_visible = |jid: &str| addresses.iter().any(|one| one.jid == jid && one.type_ != "bcc" && one.type_ != "replyto" && !one.delivered);
        for (recipient, seen) in &copies {
            for one in seen.split(' ').filter(|one| one.starts_with("bcc")) {
                assert!(one.starts_with(&format!("bcc:{recipient}")), "{recipient} sees {seen}");
                assert!(!is_visible(recipient), "{recipient} sees {seen}");
            }
            for one in addresses.iter().filter(|one| one.type_ != "bcc" && (one.type_ == "replyto" || one.delivered || is_visible(one.jid))) {
                assert!(seen.contains(one.jid), "{recipient} sees {seen}");
            }
        }
    }
}

#[derive(Debug, Clone)]
struct One {
    type_: &'static str,
    jid: &'static str,
    delivered: bool,
    desc: bool,
}

impl One {
    fn write(&self) -> String {
        let delivered = if self.delivered { " delivered='true'" } else { "" };
        let desc = if self.desc { " desc=\"d&#101;sc\"" } else { "" };
        format!("{delivered} jid='{}'{desc}  type='{}'", self.jid, self.type_)
    }
}

fn any_address() -> impl proptest::strategy::Strategy<Value = One> {
    use proptest::prelude::*;
    let types = prop::sample::select(vec!["to", "cc", "bcc", "bcc", "replyto"]);
    let jids = prop::sample::select(vec!["a@here", "a@here/r", "b@here", "c@there", "d@there/x", "e@yonder"]);
    (types, jids, prop::bool::weighted(0.2), any::<bool>()).prop_map(|(type_, jid, delivered, desc)| One {
        type_,
        jid,
        delivered: delivered && type_ != "replyto",
        desc,
    })
}
