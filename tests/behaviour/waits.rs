//! Waits for the store are counted by the module that waits. Operators' graphs use these names,
//! which must not change when code moves.

use std::collections::BTreeSet;

use rookery_testkit::{Server, befriend};

#[test]
fn waits_for_the_store_are_counted_by_who_waits() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    server.account("nurse");
    befriend(&mut juliet, &mut romeo);
    let room = "verona@conference.example.org";
    for request in [
        "<message to='romeo@example.org' type='chat'><body>is kept</body></message>",
        "<message to='nurse@example.org' type='chat'><body>waits</body></message>",
        &format!("<presence to='{room}/juliet'><x xmlns='http://jabber.org/protocol/muc'/></presence>"),
        &format!(
            "<iq type='set' id='open' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'/></query></iq>"
        ),
        "<iq type='set' id='publish'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:example'>\
         <item><x xmlns='urn:example'/></item></publish></pubsub></iq>",
        "<iq type='get' id='vcard' to='romeo@example.org'><vCard xmlns='vcard-temp'/></iq>",
        "<iq type='set' id='block'><block xmlns='urn:xmpp:blocking'><item jid='tybalt@example.org'/></block></iq>",
        "<iq type='get' id='last' to='romeo@example.org'><query xmlns='jabber:iq:last'/></iq>",
        "<iq type='get' id='info' to='romeo@example.org'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>",
    ] {
        juliet.send(request);
        juliet.all();
    }
    let counters = server.counters();
    let labels: BTreeSet<&str> = counters.store_waits.iter().map(|(label, _)| label).collect();
    let wanted = BTreeSet::from(["asker", "hub", "offline", "pubsub", "rooms"]);
    assert!(labels.is_superset(&wanted), "{labels:?}");
    // These names would stand for no module, or for several.
    assert!(labels.is_disjoint(&BTreeSet::from(["other", "modules", "modkit", ""])), "{labels:?}");
}
