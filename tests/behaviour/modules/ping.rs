//! XEP-0199.

use super::stage::{DOMAIN, ModuleStage, assert_refusal, result};

const PING: &str = "<ping xmlns='urn:xmpp:ping'/>";

#[test]
fn the_server_and_the_own_account_answer() {
    let mut stage = ModuleStage::new();
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    for to in ["", DOMAIN, romeo.as_str()] {
        let answer = stage.ask(link, "get", to, PING);
        assert_eq!(result(&answer), None);
        assert_eq!(answer.attr("to"), Some("romeo@example.org/orchard"));
        assert_eq!(answer.attr("from"), Some(if to.is_empty() { romeo.as_str() } else { to }));
    }
}

#[test]
fn who_sees_presence_may_ping_and_a_stranger_learns_nothing() {
    let mut stage = ModuleStage::new();
    let (romeo, juliet) = (stage.account("romeo"), stage.account("juliet"));
    let link = stage.bind(&romeo, "orchard");
    for to in [juliet.as_str(), "nobody@example.org"] {
        assert_refusal(&stage.ask(link, "get", to, PING), "service-unavailable", "cancel");
    }
    stage.shows(&juliet, &romeo);
    assert_eq!(result(&stage.ask(link, "get", juliet.as_str(), PING)), None);
}

#[test]
fn malformed_pings_are_refused() {
    let mut stage = ModuleStage::new();
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    for to in ["", DOMAIN, "nobody@example.org"] {
        assert_refusal(&stage.ask(link, "set", to, PING), "bad-request", "modify");
        assert_refusal(&stage.ask(link, "get", to, "<pong xmlns='urn:xmpp:ping'/>"), "bad-request", "modify");
    }
}
