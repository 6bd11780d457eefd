//! Things that users have on other servers, and what becomes of them when such a server is lost:
//! rooms that they are in (XEP-0410), nodes of their contacts (XEP-0163).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_federation::Address;
use rookery_testkit::{Client, Config, Internet, Server, client};
use sha1::{Digest, Sha1};

use crate::crossing::{CrossingScene, server};

const DISCO: &str = "http://jabber.org/protocol/disco#info";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const TUNE: &str = "http://jabber.org/protocol/tune";
const AVATAR: &str = "urn:xmpp:avatar:metadata";
const ROOM: &str = "verona@conference.b.example";

impl CrossingScene {
    /// Makes Juliet's room, which she keeps, with her and Romeo in it.
    fn meet(&mut self) {
        join(&mut self.juliet, "juliet");
        self.juliet.send(&format!(
            "<iq type='set' id='c' to='{ROOM}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
             <value>http://jabber.org/protocol/muc#roomconfig</value></field>\
             <field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query></iq>"
        ));
        self.juliet.all();
        join(&mut self.romeo, "romeo");
        assert!(received_xml(&mut self.romeo).contains("code='110'"));
        self.juliet.all();
    }

    /// Lets DNS say from now on that nobody listens where the servers of B are. One that is killed
    /// starts again before that.
    fn lose_b(&self) {
        for name in ["b.example", "conference.b.example"] {
            let socket = "1.2.3.4:5269".parse().expect("an address");
            self.internet.say(name, Ok(vec![Address::new(socket, false)]));
        }
    }

    /// Makes the two see each other's presence.
    fn befriend(&mut self) {
        for client in [&mut self.romeo, &mut self.juliet] {
            client.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
        }
        let pair = ["romeo@a.example", "juliet@b.example"];
        self.romeo.send(&format!("<presence type='subscribe' to='{}'/>", pair[1]));
        self.juliet.all();
        self.juliet.send(&format!("<presence type='subscribed' to='{}'/>", pair[0]));
        self.juliet.send(&format!("<presence type='subscribe' to='{}'/>", pair[0]));
        self.romeo.all();
        self.romeo.send(&format!("<presence type='subscribed' to='{}'/>", pair[1]));
        self.juliet.all();
        self.romeo.all();
    }
}

fn join(client: &mut Client, nick: &str) {
    client.send(&format!("<presence to='{ROOM}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
}

fn received_xml(client: &mut Client) -> String {
    client.all().iter().map(client::xml).collect()
}

/// Returns presence with capabilities that want these nodes, and what answers a question about
/// them.
fn caps(nodes: &[&str]) -> (String, String) {
    let mut features: Vec<_> = nodes.iter().map(|node| format!("{node}+notify")).collect();
    features.sort();
    let text = format!("client/pc//Test<{}", features.iter().map(|feature| format!("{feature}<")).collect::<String>());
    let ver = STANDARD.encode(Sha1::digest(text));
    let features: String = features.iter().map(|feature| format!("<feature var='{feature}'/>")).collect();
    let c = format!("<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:test' ver='{ver}'/>");
    let identity = "<identity category='client' type='pc' name='Test'/>";
    let info = format!("<query xmlns='{DISCO}' node='urn:test#{ver}'>{identity}{features}</query>");
    (format!("<presence>{c}</presence>"), info)
}

/// Shows what a client wants, and answers those who ask. Returns the domains that have asked.
fn want(client: &mut Client, nodes: &[&str]) -> Vec<String> {
    let (presence, info) = caps(nodes);
    client.send(&presence);
    let mut asked = Vec::new();
    for _ in 0..3 {
        for question in client.all() {
            if question.child("query", DISCO).is_none() || question.attr("type") != Some("get") {
                continue;
            }
            let (id, from) = (question.attr("id").expect("an id"), question.attr("from").expect("a sender"));
            client.send(&format!("<iq type='result' id='{id}' to='{from}'>{info}</iq>"));
            asked.push(from.to_owned());
        }
    }
    asked.sort();
    asked
}

fn publish(client: &mut Client, node: &str, id: &str) {
    let item = format!("<publish node='{node}'><item id='{id}'><x xmlns='urn:x'/></item></publish>");
    request(client, &format!("<pubsub xmlns='{PUBSUB}'>{item}</pubsub>"));
}

/// Sends a request to set something, which succeeds, whatever else the client hears.
fn request(client: &mut Client, payload: &str) {
    client.send(&format!("<iq type='set' id='p'>{payload}</iq>"));
    let answered = client.all().into_iter().find(|answer| answer.attr("id") == Some("p")).expect("an answer");
    assert_eq!(answered.attr("type"), Some("result"), "{answered:?}");
}

fn retract(client: &mut Client, node: &str, id: &str) {
    let retract = format!("<retract node='{node}' notify='1'><item id='{id}'/></retract>");
    request(client, &format!("<pubsub xmlns='{PUBSUB}'>{retract}</pubsub>"));
}

/// Returns the ids of the items that a client is told of.
fn news(client: &mut Client) -> Vec<String> {
    let told: Vec<_> = client.all().into_iter().filter(|element| element.name() == "message").collect();
    let lists = told.iter().flat_map(rookery_xml::Element::children).flat_map(rookery_xml::Element::children);
    let items = lists.filter(|list| list.name() == "items").flat_map(rookery_xml::Element::children);
    items.filter_map(|item| item.attr("id").map(str::to_owned)).collect()
}

#[test]
fn occupants_of_a_room_whose_server_dies_are_told() {
    let mut scene = CrossingScene::new();
    scene.meet();
    scene.b.kill();
    scene.lose_b();
    scene.a.advance(10_000);
    assert!(!received_xml(&mut scene.romeo).contains("unavailable"), "not at once");
    scene.a.advance(400_000);
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("type='unavailable'") && told.contains(&format!("from='{ROOM}/romeo'")), "{told}");
    assert!(told.contains("code='110'") && told.contains("code='333'") && !told.contains("code='307'"), "{told}");
    assert!(!told.contains("<iq"), "what was asked in the client's name stays here: {told}");
    scene.a.advance(1_000_000);
    scene.romeo.expect_nothing();
}

#[test]
fn a_room_s_server_that_restarts_is_asked_who_is_there() {
    let mut scene = CrossingScene::new();
    scene.meet();
    scene.b.restart();
    scene.a.advance(60_000);
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("type='unavailable'") && told.contains("code='333'"), "it has forgotten him: {told}");
    // He may enter again.
    join(&mut scene.romeo, "romeo");
    assert!(received_xml(&mut scene.romeo).contains("code='110'"));
}

#[test]
fn who_is_still_in_the_room_hears_nothing() {
    let mut scene = CrossingScene::new();
    scene.meet();
    // A stream breaks, and nothing else happens.
    scene.a.run_at(scene.a.home_of_domain("conference.b.example"), |world| world.lost("conference.b.example"));
    scene.a.advance(120_000);
    scene.romeo.expect_nothing();
    scene.juliet.send(&format!("<message type='groupchat' to='{ROOM}'><body>still here</body></message>"));
    scene.romeo.expect_message(&format!("{ROOM}/juliet"), "still here");
    // Nor does somebody who has left.
    scene.romeo.send(&format!("<presence type='unavailable' to='{ROOM}/romeo'/>"));
    scene.romeo.all();
    scene.a.run_at(scene.a.home_of_domain("conference.b.example"), |world| world.lost("conference.b.example"));
    scene.a.advance(120_000);
    scene.romeo.expect_nothing();
}

#[test]
fn contacts_of_another_server_hear_of_the_nodes_that_they_want() {
    let mut scene = CrossingScene::new();
    scene.befriend();
    publish(&mut scene.juliet, TUNE, "before");
    scene.juliet.all();
    assert_eq!(want(&mut scene.romeo, &[TUNE, AVATAR]), ["a.example", "b.example"], "each server asks once");
    scene.a.settle();
    publish(&mut scene.juliet, TUNE, "one");
    publish(&mut scene.juliet, "urn:other", "two");
    publish(&mut scene.juliet, AVATAR, "picture");
    let told = news(&mut scene.romeo);
    assert_eq!(told, ["one", "picture"], "the last item came while he was asked");
    retract(&mut scene.juliet, TUNE, "one");
    assert_eq!(news(&mut scene.romeo), ["one"]);
    // Away, he hears nothing; back again, he gets the last item without being asked.
    scene.romeo.send("<presence type='unavailable'/>");
    scene.romeo.all();
    publish(&mut scene.juliet, TUNE, "three");
    assert_eq!(news(&mut scene.romeo), Vec::<String>::new());
    scene.romeo.send(&caps(&[TUNE, AVATAR]).0);
    let told = scene.romeo.all();
    assert!(told.iter().all(|element| element.name() != "iq"), "the hash is known: {told:?}");
    let text: String = told.iter().map(client::xml).collect();
    assert!(text.contains("id='three'") && text.contains("id='picture'"), "{text}");
}

/// The picture of a contact is fetched from another server (XEP-0084); its rooms on other servers
/// (XEP-0402) are kept for itself.
#[test]
fn pictures_are_fetched_from_another_server_and_bookmarks_are_not() {
    let mut scene = CrossingScene::new();
    scene.befriend();
    publish(&mut scene.juliet, "urn:xmpp:avatar:data", "picture");
    let private = "<publish-options><x xmlns='jabber:x:data' type='submit'>\
                   <field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
                   <field var='pubsub#access_model'><value>whitelist</value></field></x></publish-options>";
    let bookmark = "<item id='hall@conference.a.example'><conference xmlns='urn:xmpp:bookmarks:1' name='Hall'/></item>";
    let node = "urn:xmpp:bookmarks:1";
    let kept = format!("<pubsub xmlns='{PUBSUB}'><publish node='{node}'>{bookmark}</publish>{private}</pubsub>");
    request(&mut scene.juliet, &kept);
    let mut paris = scene.a.online("paris@a.example/hall");
    let asks = |client: &mut Client, node: &str| {
        client.send(&format!(
            "<iq type='get' id='g' to='juliet@b.example'><pubsub xmlns='{PUBSUB}'><items node='{node}'/></pubsub></iq>"
        ));
        let answers = client.all().into_iter().filter(|answer| answer.attr("id") == Some("g"));
        answers.map(|answer| client::xml(&answer)).collect::<String>()
    };
    assert!(asks(&mut scene.romeo, "urn:xmpp:avatar:data").contains("<item id='picture'"));
    for (client, node) in [(&mut scene.romeo, node), (&mut paris, node)] {
        let told = asks(client, node);
        assert!(told.contains("type='error'") && !told.contains("hall@"), "{told}");
    }
    assert!(asks(&mut paris, "urn:xmpp:avatar:data").contains("type='error'"), "he is no contact");
    // Her other client finds the room.
    let mut phone = scene.b.online("juliet@b.example/phone");
    phone.all();
    let kept = client::xml(
        &phone.ask(&format!("<iq type='get' id='g'><pubsub xmlns='{PUBSUB}'><items node='{node}'/></pubsub></iq>")),
    );
    assert!(kept.contains("hall@conference.a.example"), "{kept}");
}

/// The first contact that shows a hash is asked what it stands for (XEP-0115 §6.2), and no other.
#[test]
fn a_hash_is_asked_for_once_however_many_contacts_show_it() {
    let mut scene = CrossingScene::new();
    scene.befriend();
    want(&mut scene.romeo, &[TUNE]);
    for number in 0..5 {
        let mut other = scene.a.online(&format!("friend{number}@a.example/x"));
        other.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
        other.send("<presence type='subscribe' to='juliet@b.example'/>");
        scene.juliet.all();
        scene.juliet.send(&format!("<presence type='subscribed' to='friend{number}@a.example'/>"));
        scene.juliet.send(&format!("<presence type='subscribe' to='friend{number}@a.example'/>"));
        other.all();
        other.send("<presence type='subscribed' to='juliet@b.example'/>");
        scene.juliet.all();
        other.all();
        let asked = want(&mut other, &[TUNE]);
        assert!(!asked.contains(&"b.example".to_owned()), "{asked:?}");
        publish(&mut scene.juliet, TUNE, &number.to_string());
        assert_eq!(news(&mut other), [number.to_string()]);
    }
}

#[test]
fn contacts_of_another_server_hear_of_no_node_that_is_not_for_them() {
    let mut scene = CrossingScene::new();
    scene.befriend();
    want(&mut scene.romeo, &[TUNE, "urn:xmpp:bookmarks:1"]);
    let options = "<publish-options><x xmlns='jabber:x:data' type='submit'>\
                   <field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
                   <field var='pubsub#access_model'><value>whitelist</value></field></x></publish-options>";
    let item = format!("<item id='{ROOM}'><conference xmlns='urn:xmpp:bookmarks:1'/></item>");
    let publish_bookmark = format!("<publish node='urn:xmpp:bookmarks:1'>{item}</publish>{options}");
    request(&mut scene.juliet, &format!("<pubsub xmlns='{PUBSUB}'>{publish_bookmark}</pubsub>"));
    assert_eq!(news(&mut scene.romeo), Vec::<String>::new(), "bookmarks are for their owner");
    scene.romeo.send(&format!(
        "<iq type='get' id='g' to='juliet@b.example'><pubsub xmlns='{PUBSUB}'><items node='urn:xmpp:bookmarks:1'/></pubsub></iq>"
    ));
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("type='error'") && !told.contains(ROOM), "{told}");
    // A user who doesn't see her presence any more hears nothing either, whatever it shows her.
    scene.juliet.send("<presence type='unsubscribed' to='romeo@a.example'/>");
    scene.romeo.all();
    publish(&mut scene.juliet, TUNE, "secret");
    assert_eq!(news(&mut scene.romeo), Vec::<String>::new());
}

/// XEP-0115 §9.1: who lies about a hash is not believed of others.
#[test]
fn lies_of_other_servers_stay_with_the_liar() {
    let mut scene = CrossingScene::new();
    scene.befriend();
    let (presence, _) = caps(&[TUNE]);
    let (_, other_info) = caps(&[AVATAR]);
    scene.romeo.send(&presence);
    for _ in 0..3 {
        for question in scene.romeo.all().into_iter().filter(|question| question.child("query", DISCO).is_some()) {
            let (id, from) = (question.attr("id").expect("an id"), question.attr("from").expect("a sender"));
            let node = question.child("query", DISCO).and_then(|query| query.attr("node").map(str::to_owned));
            let info = other_info.replace(&caps(&[AVATAR]).0, "");
            let at = info.find("node='").expect("a node") + 6;
            let end = at + info[at..].find('\'').expect("its end");
            let info = format!("{}{}{}", &info[..at], node.expect("a node"), &info[end..]);
            scene.romeo.send(&format!("<iq type='result' id='{id}' to='{from}'>{info}</iq>"));
        }
    }
    scene.a.settle();
    publish(&mut scene.juliet, TUNE, "one");
    publish(&mut scene.juliet, AVATAR, "two");
    assert_eq!(news(&mut scene.romeo), ["two"], "he gets what he says himself that he wants");
    // His phone shows the same hash, and is asked, too.
    let mut phone = scene.a.online("romeo@a.example/phone");
    phone.all();
    assert_eq!(want(&mut phone, &[TUNE]), ["a.example", "b.example"]);
    publish(&mut scene.juliet, TUNE, "three");
    let told = news(&mut phone);
    assert!(told.contains(&"three".to_owned()), "{told:?}");
}

/// XEP-0166: sessions are negotiated between clients, whatever servers they are on.
#[test]
fn clients_of_two_servers_negotiate_a_call() {
    let mut scene = CrossingScene::new();
    let jingle = "<jingle xmlns='urn:xmpp:jingle:1' action='session-initiate' sid='s'/>";
    scene.romeo.send(&format!("<iq type='set' id='j' to='juliet@b.example/balcony'>{jingle}</iq>"));
    scene.juliet.expect(&format!("<iq type='set' id='j' from='romeo@a.example/orchard'>{jingle}</iq>"));
    scene.juliet.send("<iq type='result' id='j' to='romeo@a.example/orchard'/>");
    scene.romeo.expect("<iq type='result' id='j' from='juliet@b.example/balcony'/>");
    let propose = "<propose xmlns='urn:xmpp:jingle-message:0' id='s'/>";
    scene.romeo.send(&format!("<message type='chat' to='juliet@b.example'>{propose}</message>"));
    assert!(received_xml(&mut scene.juliet).contains("urn:xmpp:jingle-message:0"));
}

/// Lists of abusers are kept by a service on another server, and hold for users of a third one.
#[test]
fn lists_of_abusers_come_from_other_servers() {
    let internet = Internet::default();
    let [lists, bad, a] = ["lists.example", "bad.example", "a.example"].map(|domain| server(&internet, domain, &[]));
    let mut keeper = lists.online("keeper@lists.example/desk");
    let own = "pubsub.lists.example";
    keeper
        .ask(&format!("<iq type='set' id='c' to='{own}'><pubsub xmlns='{PUBSUB}'><create node='bans'/></pubsub></iq>"));
    let put = |keeper: &mut Client, hash: &str| {
        let item = format!("<publish node='bans'><item id='{hash}'><x xmlns='urn:x'/></item></publish>");
        keeper.ask(&format!("<iq type='set' id='p' to='{own}'><pubsub xmlns='{PUBSUB}'>{item}</pubsub></iq>"))
    };
    put(&mut keeper, BAD);
    let list = rookery_hub::Value::List(vec![format!("{own} bans")]);
    let names: Vec<String> = ["b.example", "conference.b.example"].map(str::to_owned).to_vec();
    let b = Server::with(Config {
        domains: vec!["b.example".to_owned()],
        options: vec![("rtbl", "lists", list)],
        internet: Some(internet.meeting(&names, |_| {})),
        ..Config::default()
    });
    b.advance(60_000);
    let mut juliet = b.online("juliet@b.example/balcony");
    join(&mut juliet, "juliet");
    juliet.send(&format!(
        "<iq type='set' id='c' to='{ROOM}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'/></query></iq>"
    ));
    juliet.all();
    let mut romeo = bad.online("romeo@bad.example/orchard");
    let mut paris = a.online("paris@a.example/hall");
    join(&mut romeo, "romeo");
    join(&mut paris, "paris");
    assert!(received_xml(&mut romeo).contains("<forbidden"));
    assert!(received_xml(&mut paris).contains("code='110'"));
}

/// The SHA-256 of `bad.example`.
const BAD: &str = "86bbe8ffb912a153c9a8b396246aeeae079cd324af4dd947a2bf59a698eabc62";
