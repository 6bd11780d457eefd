//! Nodes of accounts: XEP-0163.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_store::meta::WRITTEN_BESIDE;
use rookery_store::pubsub::{Created, Item, ItemsKept, NodeRoom};
use rookery_testkit::{Config, befriend};
use sha1::{Digest, Sha1};

use super::*;

pub(crate) const TUNE: &str = "http://jabber.org/protocol/tune";
pub(crate) const MOOD: &str = "http://jabber.org/protocol/mood";
pub(crate) const DISCO: &str = "http://jabber.org/protocol/disco#info";

/// Returns presence whose capabilities include an interest in these nodes, the reply to the request
/// for them, and their hash.
pub(crate) fn caps(nodes: &[&str]) -> (String, String, String) {
    let mut features: Vec<_> = nodes.iter().map(|node| format!("{node}+notify")).collect();
    features.sort();
    let text = format!("client/pc//Test<{}", features.iter().map(|feature| format!("{feature}<")).collect::<String>());
    let ver = STANDARD.encode(Sha1::digest(text));
    let features: String = features.iter().map(|feature| format!("<feature var='{feature}'/>")).collect();
    let info = format!("<identity category='client' type='pc' name='Test'/>{features}");
    (presence(&ver), info, ver)
}

fn presence(ver: &str) -> String {
    format!(
        "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:test' ver='{ver}'/></presence>"
    )
}

/// Sends such presence, and replies if the server asks for the capabilities.
pub(crate) fn wants(client: &mut Client, nodes: &[&str]) {
    let (presence, info, ver) = caps(nodes);
    client.send(&presence);
    client.expect_presence_of_itself();
    let asked = client.expect(&format!(
        "<iq type='get' id='*' from='example.org'><query xmlns='{DISCO}' node='urn:test#{ver}'/></iq>"
    ));
    answer(client, &asked, &ver, &info);
}

pub(crate) fn answer(client: &mut Client, asked: &Element, ver: &str, info: &str) {
    let (id, to) = (asked.attr("id").expect("an id"), asked.attr("from").expect("from"));
    client.send(&format!(
        "<iq type='result' id='{id}' to='{to}'><query xmlns='{DISCO}' node='urn:test#{ver}'>{info}</query></iq>"
    ));
    client.pump();
}

pub(crate) fn last(from: &str, node: &str, id: &str) -> String {
    let notification = notification(from, node, id);
    let delay = format!("<delay xmlns='urn:xmpp:delay' from='{from}' stamp='*'/>");
    notification.replace("</message>", &format!("{delay}</message>"))
}

/// §4.3: contacts and own resources get notifications if their capabilities include them, and
/// nobody else does.
#[test]
fn news_reach_those_who_want_them() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    befriend(&mut hamlet, &mut francisco);
    let mut phone =
        server.login(&format!("{}/phone", hamlet.jid.as_ref().and_then(|jid| jid.local()).expect("a name")));
    wants(&mut francisco, &[TUNE, "x"]);
    hamlet.all();
    // The other resource has the same capabilities; its shard asks for them once.
    let (presence, info, ver) = caps(&[TUNE, "x"]);
    phone.send(&presence);
    let asked = phone.all().into_iter().find(|element| element.name() == "iq").expect("a question");
    answer(&mut phone, &asked, &ver, &info);
    hamlet.all();
    francisco.all();

    let from = hamlet.bare().to_owned();
    set(&mut hamlet, "", &publish(TUNE, "a"));
    set(&mut hamlet, "", &publish(MOOD, "b"));
    francisco.expect(&notification(&from, TUNE, "a"));
    phone.expect(&notification(&from, TUNE, "a"));
    for client in [&mut hamlet, &mut francisco, &mut phone] {
        client.expect_nothing();
    }
    set(&mut hamlet, "", &format!("<retract node='{TUNE}' notify='1'><item id='a'/></retract>"));
    for client in [&mut francisco, &mut phone] {
        client.expect(&format!(
            "<message from='{from}' type='headline' id='*'><event xmlns='{EVENT}'>\
             <items node='{TUNE}'><retract id='a'/></items></event></message>"
        ));
    }
}

/// §4.3.4: a resource that becomes available gets the last items, at once if its capabilities are
/// known.
#[test]
fn the_last_item_comes_with_presence() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    befriend(&mut hamlet, &mut francisco);
    for id in ["a", "b"] {
        set(&mut hamlet, "", &publish(TUNE, id));
    }
    set(&mut hamlet, "", &publish(MOOD, "m"));
    let from = hamlet.bare().to_owned();
    let name = francisco.jid.as_ref().and_then(|jid| jid.local()).expect("a name").to_owned();
    let (presence, info, ver) = caps(&[TUNE]);
    let mut phone = server.login(&format!("{name}/phone"));
    phone.send(&presence);
    let asked = phone.all().into_iter().find(|element| element.name() == "iq").expect("a question");
    answer(&mut phone, &asked, &ver, &info);
    phone.expect(&last(&from, TUNE, "b"));
    phone.expect_nothing();
    // The same presence brings nothing new, and another resource isn't asked.
    phone.send(&presence);
    phone.expect_presence_of_itself();
    phone.expect_nothing();
    let mut tablet = server.login(&format!("{name}/tablet"));
    tablet.send(&presence);
    let messages = |client: &mut Client| {
        let all = client.all();
        assert!(all.iter().all(|element| element.name() != "iq"));
        all.iter().filter(|element| element.name() == "message").flat_map(ids).collect::<Vec<_>>()
    };
    assert_eq!(messages(&mut tablet), ["b"]);
    // The resource becomes unavailable and available again.
    tablet.send("<presence type='unavailable'/>");
    tablet.all();
    tablet.send(&presence);
    assert_eq!(messages(&mut tablet), ["b"]);
    phone.all();
    // With a new interest, only the items of that node come.
    wants_more(&mut phone, &[TUNE, MOOD]);
    assert_eq!(messages(&mut phone), ["m"]);
}

fn wants_more(client: &mut Client, nodes: &[&str]) {
    let (presence, info, ver) = caps(nodes);
    client.send(&presence);
    let asked = client.all().into_iter().find(|element| element.name() == "iq").expect("a question");
    answer(client, &asked, &ver, &info);
}

/// XEP-0115 §9.1: a wrong hash counts only for the client that sends it.
#[test]
fn lies_about_capabilities_stay_with_the_liar() {
    let PubsubScene { server, mut hamlet, francisco: _ } = PubsubScene::new();
    set(&mut hamlet, "", &publish(TUNE, "a"));
    let name = hamlet.jid.as_ref().and_then(|jid| jid.local()).expect("a name").to_owned();
    let (_, info, _) = caps(&[TUNE]);
    let (_, _, false_ver) = caps(&[MOOD]);
    for resource in ["liar", "other"] {
        let mut client = server.login(&format!("{name}/{resource}"));
        client.send(&presence(&false_ver));
        let asked = client.all().into_iter().find(|element| element.name() == "iq").expect("each is asked");
        answer(&mut client, &asked, &false_ver, &info);
        assert_eq!(ids(&client.expect_element()), ["a"], "it has said that it wants it");
    }
    let mut third = server.login(&format!("{name}/third"));
    third.send(&presence(&false_ver));
    let asked = third.all().into_iter().find(|element| element.name() == "iq").expect("it is asked as well");
    third.send(&format!("<iq type='error' id='{}' to='example.org'/>", asked.attr("id").expect("an id")));
    third.expect_nothing();
}

/// §4.1, XEP-0060 §4.5: the users who may retrieve items and who get notifications, by access
/// model. Strangers learn nothing.
#[test]
fn access_models_decide_who_may_read() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    befriend(&mut hamlet, &mut francisco);
    let contact = francisco.bare().to_owned();
    let owner = hamlet.bare().to_owned();
    let mut stranger = server.online("stranger/r");
    let required = "auth not-authorized presence-subscription-required";
    for (model, groups, friend, others) in [
        ("open", "", "", ""),
        ("presence", "", "", required),
        ("roster", "Others", "auth not-authorized not-in-roster-group", required),
        ("roster", "Friends", "", required),
        ("whitelist", "", "cancel not-allowed closed-node", required),
        ("authorize", "", "auth not-authorized not-subscribed", required),
    ] {
        hamlet.ask(&format!(
            "<iq type='set' id='r'><query xmlns='jabber:iq:roster'><item jid='{contact}'><group>Friends</group></item></query></iq>"
        ));
        hamlet.all();
        let node = format!("{model}{groups}");
        let wanted = options(&[("access_model", model), ("roster_groups_allowed", groups)]);
        set(&mut hamlet, "", &format!("{}{wanted}", publish(&node, "i")));
        let items = format!("<items node='{node}'/>");
        for (client, expected) in [(&mut francisco, friend), (&mut stranger, others)] {
            let answer = ask(client, &owner, "get", PUBSUB, &items);
            let found = if answer.attr("type") == Some("error") { error(&answer) } else { String::new() };
            assert_eq!(found, expected, "{model} {groups}");
        }
    }
    for (account, node) in [(owner.as_str(), "nothing"), ("nobody@example.org", "open"), (&owner, "whitelist")] {
        if node != "open" || account != owner {
            let items = format!("<items node='{node}'/>");
            assert_eq!(expect_refusal(&mut stranger, account, "get", PUBSUB, &items), required, "{account} {node}");
        }
        let none = get(&mut stranger, account, &format!("<subscriptions node='{node}'/>"));
        assert_eq!(none.children().flat_map(Element::children).flat_map(Element::children).count(), 0);
        let subscribe = format!("<subscribe node='{node}' jid='stranger@example.org'/>");
        assert_eq!(expect_refusal(&mut stranger, account, "set", PUBSUB, &subscribe), required);
        let delete = format!("<delete node='{node}'/>");
        assert_eq!(expect_refusal(&mut stranger, account, "set", OWNER, &delete), required);
        assert_eq!(expect_refusal(&mut stranger, account, "set", PUBSUB, &publish(node, "x")), required);
    }
    assert_eq!(
        expect_refusal(&mut francisco, &owner, "get", PUBSUB, "<items node='nothing'/>"),
        "cancel item-not-found"
    );
    assert_eq!(expect_refusal(&mut francisco, &owner, "set", PUBSUB, &publish("new", "x")), "auth forbidden");
}

/// §7.1.5: publish options are preconditions, or the configuration of a node that doesn't exist
/// yet.
#[test]
fn publish_options_configure_a_new_node_and_guard_an_old_one() {
    let mut scene = PubsubScene::new();
    let client = &mut scene.hamlet;
    let with =
        |id: &str, fields: &[(&str, &str)]| format!("{}{}", publish("urn:xmpp:bookmarks:1", id), options(fields));
    let fields = [
        ("persist_items", "true"),
        ("max_items", "max"),
        ("send_last_published_item", "never"),
        ("access_model", "whitelist"),
    ];
    for id in ["a", "b"] {
        set(client, "", &with(id, &fields));
    }
    assert_eq!(ids(&get(client, "", "<items node='urn:xmpp:bookmarks:1'/>")), ["a", "b"]);
    let not_met = "cancel conflict precondition-not-met";
    for wrong in [("access_model", "open"), ("max_items", "7"), ("unheard_of", "1"), ("access_model", "odd")] {
        assert_eq!(expect_refusal(client, "", "set", PUBSUB, &with("c", &[wrong])), not_met, "{wrong:?}");
    }
    set(client, "", &with("c", &[("persist_items", "1")]));
    let unknown = format!("{}{}", publish("new", "c"), options(&[("unheard_of", "1")]));
    assert_eq!(expect_refusal(client, "", "set", PUBSUB, &unknown), not_met);
    assert_eq!(expect_refusal(client, "", "get", PUBSUB, "<items node='new'/>"), "cancel item-not-found");
    // A node keeps one item by default.
    for id in ["a", "b"] {
        set(client, "", &publish("mood", id));
    }
    assert_eq!(ids(&get(client, "", "<items node='mood'/>")), ["b"]);
}

/// XEP-0384 §5.3: everybody can get the keys.
#[test]
fn keys_are_open() {
    let PubsubScene { server, mut hamlet, francisco: _ } = PubsubScene::new();
    let owner = hamlet.bare().to_owned();
    let mut stranger = server.online("stranger/r");
    set(&mut hamlet, "", &publish("eu.siacs.conversations.axolotl.devicelist", "current"));
    let found = get(&mut stranger, &owner, "<items node='eu.siacs.conversations.axolotl.devicelist'/>");
    assert_eq!(ids(&found), ["current"]);
}

/// XEP-0163 §6: the features that accounts announce.
#[test]
fn an_account_is_discovered_with_its_nodes() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    befriend(&mut hamlet, &mut francisco);
    let owner = hamlet.bare().to_owned();
    set(&mut hamlet, "", &publish(TUNE, "a"));
    let secret = format!("{}{}", publish("secret", "a"), options(&[("access_model", "whitelist")]));
    set(&mut hamlet, "", &secret);
    let info = francisco.ask(&format!("<iq type='get' to='{owner}' id='i'><query xmlns='{DISCO}'/></iq>"));
    let query = info.children().next().expect("query");
    let identities: Vec<_> = query.children().filter(|child| child.name() == "identity").collect();
    let identities: Vec<_> = identities.iter().map(|found| (found.attr("category"), found.attr("type"))).collect();
    assert_eq!(identities, [(Some("account"), Some("registered")), (Some("pubsub"), Some("pep"))]);
    assert!(
        query
            .children()
            .any(|child| child.attr("var") == Some("http://jabber.org/protocol/pubsub#filtered-notifications"))
    );
    let full = hamlet.full().to_owned();
    francisco.send(&format!(
        "<iq type='get' to='{owner}' id='i'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>"
    ));
    francisco.expect(&format!(
        "<iq type='result' from='{owner}' id='i'><query xmlns='http://jabber.org/protocol/disco#items'>\
         <item jid='{full}'/><item jid='{owner}' node='{TUNE}'/></query></iq>"
    ));
    francisco.send(&format!(
        "<iq type='get' to='{owner}' id='i'><query xmlns='http://jabber.org/protocol/disco#items' node='{TUNE}'/></iq>"
    ));
    francisco.expect(&format!(
        "<iq type='result' from='{owner}' id='i'><query xmlns='http://jabber.org/protocol/disco#items' node='{TUNE}'>\
         <item jid='{owner}' name='a'/></query></iq>"
    ));
}

/// A removed account leaves nothing behind for the next account of its name.
#[test]
fn a_removed_account_has_no_nodes() {
    let register = ["allow_creation", "allow_plaintext"];
    let options = register.map(|key| ("register", key, rookery_hub::Value::Switch(true))).to_vec();
    let config = rookery_testkit::Config { options, ..Default::default() };
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::on(Server::with(config));
    set(&mut francisco, SERVICE, "<create node='n'/>");
    let own = hamlet.bare().to_owned();
    set(&mut hamlet, SERVICE, &format!("<subscribe node='n' jid='{own}'/>"));
    set(&mut hamlet, "", &publish(TUNE, "a"));
    hamlet.send("<iq type='set' id='r' to='example.org'><query xmlns='jabber:iq:register'><remove/></query></iq>");
    hamlet.pump();
    let name = own.split('@').next().expect("a name");
    let mut successor = server.online(&format!("{name}/r"));
    assert_eq!(
        expect_refusal(&mut successor, "", "get", PUBSUB, &format!("<items node='{TUNE}'/>")),
        "cancel item-not-found"
    );
    let subscriptions = get(&mut successor, SERVICE, "<subscriptions/>");
    assert_eq!(subscriptions.children().flat_map(Element::children).flat_map(Element::children).count(), 0);
    set(&mut francisco, SERVICE, &publish("n", "i"));
    successor.expect_nothing();
}

/// XEP-0163 §4.3: a blocked contact gets no notifications, even if the owner is away.
#[test]
fn the_blocked_hear_nothing() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    befriend(&mut hamlet, &mut francisco);
    wants(&mut francisco, &[TUNE]);
    hamlet.all();
    let who = francisco.bare().to_owned();
    hamlet.ask(&format!("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='{who}'/></block></iq>"));
    hamlet.all();
    francisco.all();
    set(&mut hamlet, "", &publish(TUNE, "a"));
    francisco.expect_nothing();
    hamlet.close();
    let mut phone =
        server.login(&format!("{}/phone", francisco.jid.as_ref().and_then(|jid| jid.local()).expect("a name")));
    phone.send(&caps(&[TUNE]).0);
    assert!(phone.all().iter().all(|element| element.name() != "message"));
}

/// §4.3.4: a new contact gets the last items as soon as it may see the account's presence.
#[test]
fn the_last_item_comes_with_a_new_contact() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    set(&mut hamlet, "", &publish(TUNE, "a"));
    wants(&mut francisco, &[TUNE]);
    francisco.expect_nothing();
    let (owner, who) = (hamlet.bare().to_owned(), francisco.bare().to_owned());
    francisco.send(&format!("<presence type='subscribe' to='{owner}'/>"));
    francisco.pump();
    hamlet.send(&format!("<presence type='subscribed' to='{who}'/>"));
    let messages: Vec<_> = francisco.all().into_iter().filter(|element| element.name() == "message").collect();
    assert_eq!(messages.iter().flat_map(ids).collect::<Vec<_>>(), ["a"]);
}

/// XEP-0060 §8.6 for an account: its owner decides by a message to its own address. Other messages
/// to that address are no decisions.
#[test]
fn subscriptions_to_an_account_are_approved() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    befriend(&mut hamlet, &mut francisco);
    let (owner, who) = (hamlet.bare().to_owned(), francisco.bare().to_owned());
    set(&mut hamlet, "", &format!("{}{}", publish("n", "a"), options(&[("access_model", "authorize")])));
    set(&mut francisco, &owner, &format!("<subscribe node='n' jid='{who}'/>"));
    assert!(hamlet.expect_element().child("x", "jabber:x:data").is_some());
    hamlet.send(&format!("<message to='{owner}'><body>a note</body></message>"));
    hamlet.expect_element();
    let fields = [("node", "n"), ("subscriber_jid", who.as_str()), ("allow", "1")];
    let decision = form_of("http://jabber.org/protocol/pubsub#subscribe_authorization", &fields);
    hamlet.send(&format!("<message to='{owner}' id='f'>{decision}</message>"));
    hamlet.expect_nothing();
    francisco.expect(&format!(
        "<message from='{owner}' id='*'><event xmlns='{EVENT}'>\
         <subscription node='n' jid='{who}' subscription='subscribed'/></event><no-store xmlns='urn:xmpp:hints'/></message>"
    ));
    assert_eq!(ids(&francisco.expect_element()), ["a"], "the last item");
    assert_eq!(ids(&get(&mut francisco, &owner, "<items node='n'/>")), ["a"]);
}

/// An import runs in a process of its own, beside the server, which has asked for the accounts with
/// nodes before.
#[test]
fn nodes_that_another_process_creates_are_found() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    befriend(&mut hamlet, &mut francisco);
    wants(&mut francisco, &[TUNE]);
    hamlet.all();
    let stores = server.stores();
    let mark = |text: &str| server.finish(stores.meta.put(WRITTEN_BESIDE, text.into())).expect("a mark");
    let owner = server.address(hamlet.bare());
    let room = NodeRoom::ANY;
    mark("begins");
    let made = server.finish(stores.pubsub.create_node(owner.as_ref(), TUNE, Vec::new(), owner.as_ref(), room));
    assert_eq!(made, Ok(Created::Done));
    let item =
        Item { id: "a".to_owned(), publisher: owner.clone(), unix_ms: 1, payload: b"<tune xmlns='x'/>".to_vec() };
    let kept = ItemsKept { items: 1, since_ms: 0 };
    server.finish(stores.pubsub.publish(owner.as_ref(), TUNE, item, kept, room)).expect("an item");
    mark("ends");
    server.advance(10_000);
    let (presence, ..) = caps(&[TUNE]);
    let name = francisco.jid.as_ref().and_then(|jid| jid.local()).expect("a name").to_owned();
    let mut phone = server.login(&format!("{name}/phone"));
    phone.send(&presence);
    let messages = |client: &mut Client| {
        client.all().iter().filter(|element| element.name() == "message").flat_map(ids).collect::<Vec<_>>()
    };
    assert_eq!(messages(&mut phone), ["a"]);
}

/// RFC 6120 §10.1: a contact gets an account's items in the order of publication, even if the last
/// item is sent again while earlier notifications still wait for the contact's roster.
#[test]
fn last_items_stay_behind_the_news_that_wait_for_a_contact() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { stores: held.stores(), ..Config::default() });
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::on(server);
    befriend(&mut hamlet, &mut francisco);
    wants(&mut francisco, &[TUNE]);
    hamlet.all();
    set(&mut hamlet, "", &publish(TUNE, "a"));
    let mut nurse = server.online("nurse/hall");
    francisco.all();
    // A request from another user waits for the roster, and stanzas for the account wait behind it.
    held.set_flowing(false);
    nurse.send(&format!("<presence type='subscribe' to='{}'/>", francisco.bare()));
    nurse.pump();
    assert!(held.release_one());
    nurse.pump();
    held.set_flowing(true);
    hamlet.all();
    set(&mut hamlet, "", &publish(TUNE, "b"));
    let (presence, ..) = caps(&[TUNE]);
    francisco.send("<presence/>");
    francisco.send(&presence);
    francisco.pump();
    assert_eq!(held.release_all(), 1, "the request waits for the store until now");
    let heard = francisco.all();
    let is_late = |told: &Element| told.children().any(|child| child.name() == "delay");
    let news: Vec<bool> = heard.iter().filter(|told| told.name() == "message").map(is_late).collect();
    assert_eq!(news, [false, true], "the news, and that it is the last: {heard:?}");
}

/// All of them have the same client, and the first one doesn't reply about it. For each client that
/// had gone, there was once a further nested call, until the stack overflowed and the process died.
#[test]
fn a_thousand_may_go_before_one_of_them_has_answered() {
    let stack = 1 << 19;
    let scene = || {
        let server = Server::new();
        let (presence, ..) = caps(&[TUNE]);
        let mut clients: Vec<_> = (0..GONE).map(|number| server.login(&format!("user{number}/r"))).collect();
        for client in &mut clients {
            client.send(&presence);
        }
        let mut last = clients.pop().expect("a client");
        clients.into_iter().for_each(|mut client| client.vanish());
        server.advance(61_000);
        server.advance(61_000);
        last.send("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
        assert!(last.all().iter().any(|found| found.attr("id") == Some("p")), "the server goes on");
    };
    let scene = std::thread::Builder::new().stack_size(stack).spawn(scene).expect("a thread");
    scene.join().expect("the end of the scene");
}

const GONE: usize = 1000;
