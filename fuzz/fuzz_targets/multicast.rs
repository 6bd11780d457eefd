//! Headers of XEP-0033: whatever is accepted, every copy that is made of it is a stanza, and no
//! recipient sees the blind address of another.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_fanout::Packet;
use rookery_fanout::multicast::{Groups, Hop, MulticastHeader, Plan, find};
use rookery_jid::Jid;
use rookery_xml::{Limits, Stanza};

fuzz_target!(|content: &str| {
    let text = format!(
        "<message from='s@here/r'><addresses xmlns='http://jabber.org/protocol/address'>{content}</addresses></message>"
    );
    let Ok(packet) = Packet::from_bytes(text.as_bytes()) else { return };
    let Ok(stanza) = Stanza::parse(packet.bytes(), &Limits::AFTER_LOGIN) else { return };
    let Some(Ok(header)) = find(&stanza).map(MulticastHeader::read) else { return };
    let groups = Groups::new(&header, |jid| match jid.domain() {
        "here" => Hop::Here,
        _ => Hop::Away,
    });
    let plan = Plan::new(&packet, &header, groups);
    let check = |bytes: &[u8], to: Option<&str>| {
        let limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
        let stanza = Stanza::parse(bytes, &limits).expect("a copy is a stanza");
        let blind = find(&stanza).into_iter().flat_map(|header| header.children().collect::<Vec<_>>());
        for address in blind.filter(|address| address.attr("type").as_deref() == Some("bcc")) {
            let jid = address.attr("jid").and_then(|jid| Jid::parse(&jid).ok());
            assert!(to.is_none() || jid.as_ref().map(Jid::as_str) == to, "{to:?} sees {jid:?}");
        }
    };
    for to in &plan.to_shown {
        check(&plan.shown.with_to(to.as_ref().as_str()), Some(to.as_ref().as_str()));
    }
    for to in &plan.to_hidden {
        let hidden = plan.hidden.as_ref().expect("the form for blind copies");
        check(&hidden.with_to(to.as_ref().as_str()), Some(to.as_ref().as_str()));
    }
    for (to, packet) in &plan.rich {
        check(&packet.with_to(to.as_ref().as_str()), Some(to.as_ref().as_str()));
    }
    let service = Jid::parse("multicast.there").expect("an address");
    for distant in plan.distant {
        distant.through(&service, 3).for_each(|copy| check(&copy.to_vec(), None));
        distant.individually().for_each(|copy| check(&copy.to_vec(), Some(copy.to().as_str())));
    }
});
