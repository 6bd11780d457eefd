//! XEP-0115.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_hub::Value;
use rookery_xml::{Element, ns};
use sha1::{Digest, Sha1};

use super::stage::{DOMAIN, ModuleStage, assert_refusal, result, set, switch_off};

/// Returns the `<c/>` among the stream features after login.
fn announced_caps(stage: &ModuleStage) -> Option<Element> {
    let features = stage.world.registry().login_features(stage.world.domain(DOMAIN).unwrap());
    features.iter().map(|feature| Element::parse(feature.bytes()).unwrap()).find(|feature| feature.is("c", ns::CAPS))
}

fn info(node: &str) -> String {
    format!("<query xmlns='http://jabber.org/protocol/disco#info' node='{node}'/>")
}

#[test]
fn the_hash_is_that_of_what_disco_answers_under_the_node() {
    let mut stage = ModuleStage::with(|settings| {
        set(
            settings,
            "contact",
            "admin",
            Value::List(vec!["xmpp:b@example.org".into(), "mailto:a@example.org".into()]),
        );
    });
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let c = announced_caps(&stage).unwrap();
    assert_eq!(c.attr("hash"), Some("sha-1"));
    let node = format!("{}#{}", c.attr("node").unwrap(), c.attr("ver").unwrap());
    let answer = stage.ask(link, "get", DOMAIN, &info(&node));
    let query = result(&answer).unwrap();
    assert_eq!(query.attr("node"), Some(&*node));
    // The generation method of §5.1, over the reply as a client sees it.
    let mut text = String::from("pubsub/pep//<server/im//Rookery<");
    for feature in query.children().filter(|child| child.name() == "feature") {
        text += &format!("{}<", feature.attr("var").unwrap());
    }
    text += "http://jabber.org/network/serverinfo<admin-addresses<mailto:a@example.org<xmpp:b@example.org<";
    assert_eq!(c.attr("ver"), Some(&*STANDARD.encode(Sha1::digest(text))));
}

#[test]
fn other_nodes_do_not_exist() {
    let mut stage = ModuleStage::new();
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let node = announced_caps(&stage).unwrap().attr("node").unwrap().to_owned();
    for node in [node.clone(), format!("{node}#AAAA"), "elsewhere".to_owned()] {
        assert_refusal(&stage.ask(link, "get", DOMAIN, &info(&node)), "item-not-found", "cancel");
    }
}

#[test]
fn nothing_is_announced_that_is_not_answered() {
    assert_eq!(announced_caps(&ModuleStage::with(|settings| switch_off(settings, "disco"))), None);
    let node = {
        let c = announced_caps(&ModuleStage::new()).unwrap();
        format!("{}#{}", c.attr("node").unwrap(), c.attr("ver").unwrap())
    };
    let mut stage = ModuleStage::with(|settings| switch_off(settings, "caps"));
    assert_eq!(announced_caps(&stage), None);
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    assert_refusal(&stage.ask(link, "get", DOMAIN, &info(&node)), "item-not-found", "cancel");
}
