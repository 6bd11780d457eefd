//! XEP-0030.

use rookery_store::StoreError;
use rookery_xml::{Element, ns};

use super::stage::{DOMAIN, ModuleStage, assert_refusal, error, result, switch_off};

const INFO: &str = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
const ITEMS: &str = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
const INFO_OF_NODE: &str = "<query xmlns='http://jabber.org/protocol/disco#info' node='n'/>";
const ITEMS_OF_NODE: &str = "<query xmlns='http://jabber.org/protocol/disco#items' node='n'/>";

fn features(query: &Element) -> Vec<&str> {
    query.children().filter(|child| child.name() == "feature").map(|feature| feature.attr("var").unwrap()).collect()
}

fn items(query: &Element) -> Vec<&str> {
    query.children().map(|item| item.attr("jid").unwrap()).collect()
}

/// The modules whose features these tests know.
const SHOWN: [&str; 8] = ["disco", "caps", "ping", "version", "time", "offline", "multicast", "commands"];

fn only(settings: &mut rookery_hub::Settings, modules: &[&str]) {
    settings.domains[0].modules.retain(|name, _| modules.contains(name));
}

#[test]
fn a_domain_tells_what_it_can_do() {
    let mut stage = ModuleStage::with(|settings| only(settings, &SHOWN));
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let answer = stage.ask(link, "get", DOMAIN, INFO);
    let query = result(&answer).unwrap();
    assert_eq!(query.attr("node"), None);
    let identity = query.child("identity", ns::DISCO_INFO).unwrap();
    assert_eq!(
        ["category", "type", "name"].map(|name| identity.attr(name)),
        [Some("server"), Some("im"), Some("Rookery")]
    );
    assert_eq!(
        features(query),
        [
            ns::CAPS,
            ns::COMMANDS,
            ns::DISCO_INFO,
            ns::DISCO_ITEMS,
            ns::ROSTER,
            ns::VERSION,
            ns::OFFLINE,
            ns::CAPS_2,
            ns::PING,
            ns::TIME
        ]
    );
    let answer = stage.ask(link, "get", DOMAIN, ITEMS);
    assert_eq!(items(result(&answer).unwrap()), [format!("multicast.{DOMAIN}")]);
}

#[test]
fn modules_that_are_off_are_not_shown_and_do_not_answer() {
    let mut stage = ModuleStage::with(|settings| {
        switch_off(settings, "ping");
        switch_off(settings, "offline");
    });
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let answer = stage.ask(link, "get", DOMAIN, INFO);
    let shown = features(result(&answer).unwrap());
    assert!(!shown.contains(&ns::PING) && !shown.contains(&ns::OFFLINE) && shown.contains(&ns::TIME), "{shown:?}");
    assert_refusal(&stage.ask(link, "get", DOMAIN, "<ping xmlns='urn:xmpp:ping'/>"), "service-unavailable", "cancel");
    let mut stage = ModuleStage::with(|settings| switch_off(settings, "disco"));
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    assert_refusal(&stage.ask(link, "get", DOMAIN, INFO), "service-unavailable", "cancel");
}

#[test]
fn an_account_tells_itself_and_its_contacts() {
    let mut stage = ModuleStage::with(|settings| only(settings, &SHOWN));
    let (romeo, juliet) = (stage.account("romeo"), stage.account("juliet"));
    let balcony = stage.bind(&juliet, "balcony");
    let chamber = stage.bind(&juliet, "chamber");
    stage.say(balcony, "<presence/>");
    let link = stage.bind(&romeo, "orchard");
    stage.shows(&juliet, &romeo);
    stage.hear(balcony);
    for (asker, to) in [(link, juliet.as_str()), (chamber, juliet.as_str()), (chamber, "")] {
        let answer = stage.ask(asker, "get", to, INFO);
        let query = result(&answer).unwrap();
        let identity = query.child("identity", ns::DISCO_INFO).unwrap();
        assert_eq!(
            ["category", "type", "name"].map(|name| identity.attr(name)),
            [Some("account"), Some("registered"), None]
        );
        assert_eq!(features(query), [ns::DISCO_INFO, ns::DISCO_ITEMS, ns::PING]);
        // Only resources that are available.
        let answer = stage.ask(asker, "get", to, ITEMS);
        assert_eq!(items(result(&answer).unwrap()), ["juliet@example.org/balcony"]);
        for of_node in [INFO_OF_NODE, ITEMS_OF_NODE] {
            assert_refusal(&stage.ask(asker, "get", to, of_node), "item-not-found", "cancel");
        }
    }
}

/// §8: a stranger can't tell an account from none, whether its user is here or away.
#[test]
fn a_stranger_learns_nothing() {
    let mut stage = ModuleStage::new();
    let (romeo, juliet, _) = (stage.account("romeo"), stage.account("juliet"), stage.account("nurse"));
    let balcony = stage.bind(&juliet, "balcony");
    stage.say(balcony, "<presence/>");
    // That Romeo would let Juliet see him doesn't let him see her.
    stage.shows(&romeo, &juliet);
    let link = stage.bind(&romeo, "orchard");
    for to in ["juliet@example.org", "nurse@example.org", "nobody@example.org"] {
        for query in [INFO, INFO_OF_NODE] {
            let answer = stage.ask(link, "get", to, query);
            assert_refusal(&answer, "service-unavailable", "cancel");
            assert_eq!(answer.children().count(), 1);
        }
        for (query, node) in [(ITEMS, None), (ITEMS_OF_NODE, Some("n"))] {
            let answer = stage.ask(link, "get", to, query);
            let query = result(&answer).unwrap();
            assert!(items(query).is_empty(), "{to}");
            assert_eq!(query.attr("node"), node);
        }
        for query in [INFO, ITEMS] {
            assert_refusal(&stage.ask(link, "set", to, query), "bad-request", "modify");
        }
    }
}

#[test]
fn malformed_questions_and_unknown_nodes_are_refused() {
    let mut stage = ModuleStage::new();
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    for (info, items) in [(INFO, ITEMS), (INFO_OF_NODE, ITEMS_OF_NODE)] {
        assert_refusal(&stage.ask(link, "set", DOMAIN, info), "bad-request", "modify");
        assert_refusal(&stage.ask(link, "set", DOMAIN, items), "bad-request", "modify");
    }
    for of_node in [INFO_OF_NODE, ITEMS_OF_NODE] {
        assert_refusal(&stage.ask(link, "get", DOMAIN, of_node), "item-not-found", "cancel");
    }
    assert_refusal(
        &stage.ask(link, "get", DOMAIN, "<q xmlns='http://jabber.org/protocol/disco#info'/>"),
        "bad-request",
        "modify",
    );
}

#[test]
fn a_failing_store_is_told_and_counted() {
    let (mut stage, held) = ModuleStage::with_held_store(|_| {});
    let (romeo, juliet) = (stage.account("romeo"), stage.account("juliet"));
    let link = stage.bind(&romeo, "orchard");
    held.set_fault(Some(StoreError::Busy));
    let answer = stage.ask(link, "get", juliet.as_str(), INFO);
    assert_eq!(error(&answer), ("resource-constraint".into(), "wait".into()));
    held.set_fault(Some(StoreError::Panicked("test".into())));
    let answer = stage.ask(link, "get", juliet.as_str(), ITEMS);
    assert_eq!(error(&answer), ("internal-server-error".into(), "cancel".into()));
    assert_eq!(stage.world.counters.store_errors, 2);
    // A question about oneself needs no store.
    assert!(result(&stage.ask(link, "get", "", INFO)).is_some());
}
