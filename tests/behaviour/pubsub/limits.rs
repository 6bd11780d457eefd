//! Limits of the data that one account can make the server keep. Data counts for the account that
//! has made it.

use rookery_hub::Value;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::{Config, befriend};
use rookery_xml::ns;

use super::*;

fn with(module: &'static str, options: &[(&'static str, u64)]) -> PubsubScene {
    let options = options.iter().map(|(key, value)| (module, *key, Value::Number(*value))).collect();
    PubsubScene::on(Server::with(Config { options, ..Config::default() }))
}

const TOO_MANY: &str = "wait policy-violation too-many-subscriptions";
const FULL: &str = "modify policy-violation";

/// Returns a publication of this many bytes of text.
fn publication_of(node: &str, id: &str, bytes: usize) -> String {
    format!("<publish node='{node}'><item id='{id}'>{}</item></publish>", entry(&"x".repeat(bytes)))
}

#[test]
fn an_account_makes_so_many_nodes() {
    let PubsubScene { mut hamlet, mut francisco, .. } = with("pubsub", &[("account_nodes", 2)]);
    set(&mut hamlet, SERVICE, "<create node='a'/>");
    set(&mut hamlet, SERVICE, &publish("b", "i"));
    for one_more in ["<create node='c'/>", &publish("c", "i")] {
        assert_eq!(expect_refusal(&mut hamlet, SERVICE, "set", PUBSUB, one_more), FULL);
    }
    set(&mut francisco, SERVICE, "<create node='c'/>");
    // The node counts for the account that made it, and not for another owner.
    let who = hamlet.bare().to_owned();
    let owner = format!("<affiliations node='c'><affiliation jid='{who}' affiliation='owner'/></affiliations>");
    owner_set(&mut francisco, SERVICE, &owner);
    owner_set(&mut hamlet, SERVICE, "<delete node='c'/>");
    assert_eq!(expect_refusal(&mut hamlet, SERVICE, "set", PUBSUB, "<create node='c'/>"), FULL);
    owner_set(&mut hamlet, SERVICE, "<delete node='a'/>");
    set(&mut hamlet, SERVICE, "<create node='c'/>");
}

#[test]
fn made_up_resources_count_for_their_account() {
    let PubsubScene { mut hamlet, mut francisco, .. } = with("pubsub", &[("account_subscriptions", 12)]);
    for node in ["a", "b"] {
        set(&mut hamlet, SERVICE, &format!("<create node='{node}'/>"));
    }
    let who = francisco.bare().to_owned();
    let subscribe = |node: &str, resource: usize| format!("<subscribe node='{node}' jid='{who}/{resource}'/>");
    for resource in 0..10 {
        set(&mut francisco, SERVICE, &subscribe("a", resource));
    }
    set(&mut francisco, SERVICE, &subscribe("a", 3));
    assert_eq!(expect_refusal(&mut francisco, SERVICE, "set", PUBSUB, &subscribe("a", 10)), TOO_MANY, "to one node");
    for resource in 0..2 {
        set(&mut francisco, SERVICE, &subscribe("b", resource));
    }
    assert_eq!(expect_refusal(&mut francisco, SERVICE, "set", PUBSUB, &subscribe("b", 2)), TOO_MANY, "to all");
    let own = hamlet.bare().to_owned();
    set(&mut hamlet, SERVICE, &format!("<subscribe node='b' jid='{own}'/>"));
    set(&mut francisco, SERVICE, &format!("<unsubscribe node='a' jid='{who}/0'/>"));
    set(&mut francisco, SERVICE, &subscribe("b", 2));
}

/// XEP-0060 §8.8: an owner can only subscribe users who have agreed to hear from the owner.
#[test]
fn nobody_is_subscribed_who_has_not_agreed() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    let mut contact = server.online("contact/r");
    befriend(&mut hamlet, &mut contact);
    set(&mut hamlet, SERVICE, "<create node='n'/>");
    let (victim, friend) = (francisco.bare().to_owned(), contact.bare().to_owned());
    let change = |state: &str, jids: &[&str]| {
        let entries = jids.iter().map(|jid| format!("<subscription jid='{jid}' subscription='{state}'/>"));
        format!("<subscriptions node='n'>{}</subscriptions>", entries.collect::<String>())
    };
    let strangers = [victim.as_str(), "nobody@example.org", "somebody@elsewhere.example"];
    for state in ["subscribed", "pending"] {
        let all = change(state, &[&strangers[..], &[&friend]].concat());
        let answer = ask(&mut hamlet, SERVICE, "set", OWNER, &all);
        assert_eq!(error(&answer), "modify not-acceptable");
        for stranger in strangers {
            let entry = format!("<subscription jid='{stranger}' subscription='none'/>");
            assert!(xml(&answer).contains(&entry), "the same for all: {}", xml(&answer));
        }
        assert!(!xml(&answer).contains(&friend), "{}", xml(&answer));
    }
    owner_set(&mut hamlet, SERVICE, &change("none", &strangers));
    owner_set(&mut hamlet, SERVICE, &change("subscribed", &[&friend]));
    set(&mut hamlet, SERVICE, &publish("n", "i"));
    francisco.expect_nothing();
    // The contact can see that it is subscribed, and may end that.
    assert!(contact.all().iter().any(|heard| xml(heard).contains("<item id='i'>")));
    let own = xml(&get(&mut contact, SERVICE, "<subscriptions/>"));
    assert!(own.contains(&format!("jid='{friend}' subscription='subscribed'")), "{own}");
    set(&mut contact, SERVICE, &format!("<unsubscribe node='n' jid='{friend}'/>"));
    set(&mut hamlet, SERVICE, &publish("n", "j"));
    contact.expect_nothing();
}

/// The owner gets one message about a user who subscribes and unsubscribes again and again. Pending
/// requests can be listed.
#[test]
fn owners_are_asked_once_in_a_while() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    let authorize = form(&[("access_model", "authorize")]);
    set(&mut hamlet, SERVICE, &format!("<create node='n'/><configure>{authorize}</configure>"));
    let who = francisco.bare().to_owned();
    let requests = |hamlet: &mut Client| hamlet.all().iter().filter(|heard| heard.name() == "message").count();
    let again = |francisco: &mut Client| {
        set(francisco, SERVICE, &format!("<unsubscribe node='n' jid='{who}'/>"));
        set(francisco, SERVICE, &format!("<subscribe node='n' jid='{who}'/>"));
    };
    set(&mut francisco, SERVICE, &format!("<subscribe node='n' jid='{who}'/>"));
    assert_eq!(requests(&mut hamlet), 1);
    (0..5).for_each(|_| again(&mut francisco));
    assert_eq!(requests(&mut hamlet), 0);
    server.advance(3_600_000);
    again(&mut francisco);
    assert_eq!(requests(&mut hamlet), 1);
}

/// Notifications wait only for users who want that.
#[test]
fn notifications_wait_for_who_wants_that() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    let normal = form(&[("notification_type", "normal")]);
    set(&mut hamlet, SERVICE, &format!("<create node='n'/><configure>{normal}</configure>"));
    let who = francisco.bare().to_owned();
    set(&mut francisco, SERVICE, &format!("<subscribe node='n' jid='{who}'/>"));
    set(&mut hamlet, SERVICE, &publish("n", "a"));
    let event = format!("<event xmlns='{EVENT}'><items node='n'><item id='a'>{}</item></items></event>", entry("a"));
    francisco.expect(&format!("<message from='{SERVICE}' id='*'>{event}<no-store xmlns='urn:xmpp:hints'/></message>"));
    let away = |mut francisco: Client, hamlet: &mut Client, id: &str| {
        let name = francisco.full().to_owned();
        francisco.close();
        set(hamlet, SERVICE, &publish("n", id));
        let mut back = server.login(&name);
        back.send("<presence/>");
        let heard: Vec<_> = back.all().iter().filter(|found| found.name() == "message").flat_map(ids).collect();
        (back, heard)
    };
    let (mut francisco, heard) = away(francisco, &mut hamlet, "b");
    assert_eq!(heard, [""; 0]);
    let wish = "<field var='{urn:rookery:pubsub:0}offline'><value>1</value></field>";
    let wish =
        form_of("http://jabber.org/protocol/pubsub#subscribe_options", &[]).replace("</x>", &format!("{wish}</x>"));
    set(&mut francisco, SERVICE, &format!("<options node='n' jid='{who}'>{wish}</options>"));
    let (_, heard) = away(francisco, &mut hamlet, "c");
    assert_eq!(heard, ["c"]);
}

/// The bytes of a node count for the account that made it, no matter who publishes there.
#[test]
fn bytes_count_for_who_makes_a_node() {
    let PubsubScene { mut hamlet, mut francisco, .. } =
        with("pubsub", &[("node_bytes", 17_000), ("account_bytes", 25_000)]);
    let open = form(&[("publish_model", "open")]);
    for node in ["a", "b"] {
        set(&mut hamlet, SERVICE, &format!("<create node='{node}'/><configure>{open}</configure>"));
    }
    set(&mut francisco, SERVICE, &publication_of("a", "1", 10_000));
    assert_eq!(
        expect_refusal(&mut francisco, SERVICE, "set", PUBSUB, &publication_of("a", "2", 10_000)),
        FULL,
        "the node is full"
    );
    set(&mut francisco, SERVICE, &publication_of("a", "1", 10_100));
    set(&mut francisco, SERVICE, &publication_of("b", "1", 1000));
    assert_eq!(
        expect_refusal(&mut francisco, SERVICE, "set", PUBSUB, &publication_of("b", "2", 10_000)),
        FULL,
        "its maker's are"
    );
    set(&mut francisco, SERVICE, &publication_of("c", "1", 10_000));
    set(&mut hamlet, SERVICE, "<retract node='a'><item id='1'/></retract>");
    set(&mut francisco, SERVICE, &publication_of("b", "2", 10_000));
    assert_eq!(ids(&get(&mut hamlet, SERVICE, "<items node='b'/>")), ["1", "2"]);
}

#[test]
fn an_account_has_so_many_bytes_of_nodes() {
    let PubsubScene { mut hamlet, mut francisco, .. } = with("pep", &[("account_bytes", 20_000)]);
    set(&mut hamlet, "", &publication_of("a", "1", 5000));
    // This replaces the earlier item, since the node keeps only one.
    set(&mut hamlet, "", &publication_of("a", "2", 8000));
    assert_eq!(expect_refusal(&mut hamlet, "", "set", PUBSUB, &publication_of("b", "1", 14_000)), FULL);
    set(&mut francisco, "", &publication_of("b", "1", 14_000));
    owner_set(&mut hamlet, "", "<delete node='a'/>");
    set(&mut hamlet, "", &publication_of("b", "1", 14_000));
}

/// Items of most nodes must be small, such as keys; images may be large. A large item is only sent
/// on request.
#[test]
fn items_of_accounts_have_sizes() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    let data = "urn:xmpp:avatar:data";
    let open = options(&[("access_model", "open")]);
    set(&mut hamlet, "", &format!("{}{open}", publication_of(data, "0", 10)));
    let (owner, who) = (hamlet.bare().to_owned(), francisco.bare().to_owned());
    set(&mut francisco, &owner, &format!("<subscribe node='{data}' jid='{who}'/>"));
    francisco.all();
    set(&mut hamlet, "", &publication_of(data, "1", 150_000));
    let told = xml(&francisco.expect_element());
    assert!(told.contains("<item id='1'/>"), "{}", &told[..told.len().min(500)]);
    let found = get(&mut francisco, &owner, &format!("<items node='{data}'/>"));
    assert!(xml(&found).len() > 150_000);
    set(&mut hamlet, "", &publication_of("eu.siacs.conversations.axolotl.bundles:1", "current", 12_000));
    let too_big = "modify not-acceptable payload-too-big";
    assert_eq!(expect_refusal(&mut hamlet, "", "set", PUBSUB, &publication_of("x", "1", 66_000)), too_big);
    assert_eq!(expect_refusal(&mut hamlet, "", "set", PUBSUB, &publication_of(data, "1", 200_000)), too_big);
}

#[test]
fn a_configuration_has_so_many_bytes() {
    let PubsubScene { mut hamlet, .. } = PubsubScene::new();
    let groups: String = (0..20).map(|group| format!("<value>{group}{}</value>", "x".repeat(1000))).collect();
    let form = form(&[("roster_groups_allowed", "x")]).replace("<value>x</value>", &groups);
    let create = format!("<create node='n'/><configure>{form}</configure>");
    assert_eq!(expect_refusal(&mut hamlet, SERVICE, "set", PUBSUB, &create), "modify not-acceptable");
}

#[test]
fn private_elements_have_so_many_bytes() {
    let PubsubScene { mut hamlet, mut francisco, .. } = with("private", &[("account_bytes", 1000)]);
    let keep = |client: &mut Client, content: &str| {
        client.ask(&format!("<iq type='set' id='p'><query xmlns='jabber:iq:private'>{content}</query></iq>"))
    };
    let element = |name: &str, bytes: usize| format!("<{name} xmlns='urn:x'>{}</{name}>", "x".repeat(bytes));
    is_result(keep(&mut hamlet, &element("a", 600)));
    assert_eq!(error(&keep(&mut hamlet, &[element("b", 10), element("c", 400)].concat())), FULL);
    assert_eq!(error(&keep(&mut hamlet, &element("b", 400))), FULL);
    is_result(keep(&mut hamlet, &element("a", 100)));
    is_result(keep(&mut hamlet, &element("b", 400)));
    is_result(keep(&mut francisco, &element("b", 600)));
}

/// A list that others have made long comes in parts, so that it doesn't end the session of the user
/// who requests it.
#[test]
fn long_lists_come_in_parts() {
    let PubsubScene { server, mut hamlet, .. } = PubsubScene::new();
    let (service, owner) = (rookery_jid::Jid::parse(SERVICE).expect("an address"), server.address("owner"));
    let who = hamlet.jid.clone().expect("bound").to_bare();
    let affiliation = Some(rookery_store::pubsub::NodeAffiliation::Member);
    let room = rookery_store::pubsub::NodeRoom::ANY;
    for number in 0..400 {
        let node = format!("{number:04}{}", "x".repeat(1000));
        let pubsub = server.stores().pubsub;
        server.finish(pubsub.create_node(service.as_ref(), &node, vec![], owner.as_ref(), room)).expect("a node");
        server
            .finish(pubsub.set_affiliation(service.as_ref(), &node, who.as_ref(), affiliation, room))
            .expect("an affiliation");
    }
    let (mut found, mut part) = (Vec::new(), String::new());
    loop {
        let answer = is_result(hamlet.ask(&format!(
            "<iq type='get' id='q' to='{SERVICE}'><pubsub xmlns='{PUBSUB}'><affiliations/>{part}</pubsub></iq>"
        )));
        assert!(xml(&answer).len() < 300_000);
        let lists = answer.children().flat_map(Element::children).filter(|list| list.name() == "affiliations");
        let nodes: Vec<_> = lists.flat_map(Element::children).filter_map(|found| found.attr("node")).collect();
        let Some(last) = nodes.last() else { break };
        part = format!("<set xmlns='http://jabber.org/protocol/rsm'><after>{last}</after></set>");
        found.extend(nodes.iter().map(|node| node[..4].to_owned()));
    }
    assert_eq!(found, (0..400).map(|number| format!("{number:04}")).collect::<Vec<_>>());
    let listed = hamlet.ask(&format!(
        "<iq type='get' id='d' to='{SERVICE}'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>"
    ));
    assert!(xml(&listed).len() < 300_000 && xml(&listed).contains("http://jabber.org/protocol/rsm"));
}

/// The queue of a node is bounded in bytes while the store is slow, and each sender has a share of
/// it. So the flood of one sender leaves room for others, whichever nodes it is for, and nothing is
/// counted for ever.
#[test]
fn a_flood_of_requests_while_the_store_is_slow_hits_its_sender_alone() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { shards: 1, stores: held.stores(), ..Config::default() });
    let mut mallory = server.online("mallory/x");
    let mut romeo = server.online("romeo/orchard");
    let refusals = |client: &mut Client| {
        let errors = client.all().into_iter().filter_map(|stanza| stanza.child("error", ns::CLIENT).cloned());
        errors.filter(|error| error.child("resource-constraint", ns::STANZA_ERRORS).is_some()).count()
    };
    let request =
        |action: &str| format!("<iq type='set' id='q' to='{SERVICE}'><pubsub xmlns='{PUBSUB}'>{action}</pubsub></iq>");
    for round in ["first", "second"] {
        held.set_flowing(false);
        let mut refused = 0;
        for number in 0..40 {
            let node = format!("{round} {}", number % 2);
            mallory.send(&request(&publication_of(&node, "i", 200_000)));
            server.settle();
            refused += refusals(&mut mallory);
        }
        assert!((19..40).contains(&refused), "a quarter of 16 MiB is room for 20: {refused} in the {round} round");
        romeo.send(&request(&publication_of(&format!("{round} 0"), "i", 100)));
        romeo.expect_nothing();
        held.set_flowing(true);
        held.release_all();
        server.settle();
        assert_eq!(refusals(&mut romeo), 0, "it had its turn");
        assert_eq!(refusals(&mut mallory), 0, "the others had theirs");
    }
}
