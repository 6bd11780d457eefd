//! XEP-0077.

use std::net::IpAddr;

use rookery_hub::{Guest, Settings, Value};
use rookery_jid::Jid;
use rookery_store::{StoreError, wait};
use rookery_stream::error::StreamError;
use rookery_xml::{Element, ns};

use super::stage::{DOMAIN, ModuleStage, NOON, assert_refusal, result, set, switch_off};

const GET: &str = "<query xmlns='jabber:iq:register'/>";
const REMOVE: &str = "<query xmlns='jabber:iq:register'><remove/></query>";

fn on(settings: &mut Settings) {
    set(settings, "register", "allow_creation", Value::Switch(true));
}

fn form(username: &str, password: &str) -> String {
    format!("<query xmlns='jabber:iq:register'><username>{username}</username><password>{password}</password></query>")
}

fn guest(address: &str) -> Guest {
    Guest { connection: 7, address: address.parse::<IpAddr>().unwrap(), secure: true }
}

fn exists(stage: &ModuleStage, jid: &str) -> bool {
    wait(stage.stores.accounts.exists(Jid::parse(jid).unwrap().as_ref())).unwrap()
}

fn password_is(stage: &ModuleStage, jid: &str, password: &str) -> bool {
    let jid = Jid::parse(jid).unwrap();
    wait(stage.stores.accounts.credentials(jid.as_ref())).unwrap().unwrap().verify(password)
}

fn is_announced(stage: &ModuleStage) -> bool {
    let features = stage.world.registry().stream_features(stage.world.domain(DOMAIN).unwrap());
    features.iter().any(|feature| Element::parse(feature.bytes()).unwrap().is("register", ns::REGISTER_FEATURE))
}

#[test]
fn nobody_creates_an_account_by_default() {
    let mut stage = ModuleStage::new();
    assert!(!is_announced(&stage));
    for (type_, query) in [("get", GET.to_owned()), ("set", form("benvolio", "a long password"))] {
        assert_refusal(&stage.guest(guest("192.0.2.1"), type_, &query), "service-unavailable", "cancel");
    }
    assert!(!exists(&stage, "benvolio@example.org"));
}

#[test]
fn without_the_module_nobody_removes_an_account() {
    let mut stage = ModuleStage::with(|settings| switch_off(settings, "register"));
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    assert_refusal(&stage.ask(link, "set", DOMAIN, REMOVE), "service-unavailable", "cancel");
    assert!(exists(&stage, "romeo@example.org"));
}

#[test]
fn a_guest_makes_an_account() {
    let mut stage = ModuleStage::with(on);
    assert!(is_announced(&stage));
    let answer = stage.guest(guest("192.0.2.1"), "get", GET);
    let names: Vec<_> = result(&answer).unwrap().children().map(Element::name).collect();
    assert_eq!(names, ["instructions", "username", "password", "x"]);
    let answer = stage.guest(guest("192.0.2.1"), "set", &form("Benvolio", "a long password"));
    assert_eq!(result(&answer), None);
    assert_eq!(answer.attr("id"), Some("q"));
    assert!(exists(&stage, "benvolio@example.org"));
    assert!(password_is(&stage, "benvolio@example.org", "a long password"));
}

#[test]
fn forms_that_lack_something_are_refused() {
    let mut stage = ModuleStage::with(on);
    let guest = guest("192.0.2.1");
    for form in [
        form("", "a long password"),
        form("benvolio", ""),
        GET.to_owned(),
        form("ben volio", "a long password"),
        form("a@b", "a long password"),
        form("benvolio", "short"),
        form("benvolio", "bell\u{2028}bell bell"),
    ] {
        assert_refusal(&stage.guest(guest, "set", &form), "not-acceptable", "modify");
    }
    assert_refusal(&stage.guest(guest, "get", "<form xmlns='jabber:iq:register'/>"), "bad-request", "modify");
    assert_refusal(&stage.guest(guest, "set", REMOVE), "unexpected-request", "wait");
    assert!(!exists(&stage, "benvolio@example.org"));
    // None of that has used up the address's turn.
    assert_eq!(result(&stage.guest(guest, "set", &form("benvolio", "a long password"))), None);
}

#[test]
fn a_name_that_is_taken_is_a_conflict() {
    let mut stage = ModuleStage::with(on);
    stage.account("romeo");
    let guest = guest("192.0.2.1");
    assert_refusal(&stage.guest(guest, "set", &form("Romeo", "a long password!")), "conflict", "cancel");
    assert!(!password_is(&stage, "romeo@example.org", "a long password!"));
    // Another name may follow at once, but names can't be tried for ever.
    for _ in 1..10 {
        assert_refusal(&stage.guest(guest, "set", &form("romeo", "a long password")), "conflict", "cancel");
    }
    assert_refusal(&stage.guest(guest, "set", &form("benvolio", "a long password")), "resource-constraint", "wait");
}

#[test]
fn an_address_creates_one_account_in_a_while() {
    let mut stage = ModuleStage::with(on);
    assert_eq!(result(&stage.guest(guest("2001:db8::1"), "set", &form("a", "a long password"))), None);
    assert_refusal(
        &stage.guest(guest("2001:db8::2"), "set", &form("b", "a long password")),
        "resource-constraint",
        "wait",
    );
    assert_eq!(result(&stage.guest(guest("2001:db8:0:1::2"), "set", &form("b", "a long password"))), None);
    stage.world.set_time(600_000, NOON + 600_000);
    assert_eq!(result(&stage.guest(guest("2001:db8::2"), "set", &form("c", "a long password"))), None);
    for name in ["d", "e", "f"] {
        assert_eq!(result(&stage.guest(guest("127.0.0.1"), "set", &form(name, "a long password"))), None);
    }
}

#[test]
fn passwords_are_not_taken_in_the_clear_unless_the_operator_says_so() {
    let insecure = Guest { secure: false, ..guest("192.0.2.1") };
    let mut stage = ModuleStage::with(on);
    for (type_, query) in [("get", GET.to_owned()), ("set", form("benvolio", "a long password"))] {
        assert_refusal(&stage.guest(insecure, type_, &query), "not-authorized", "auth");
    }
    let mut stage = ModuleStage::with(|settings| {
        on(settings);
        set(settings, "register", "allow_plaintext", Value::Switch(true));
    });
    assert_eq!(result(&stage.guest(insecure, "set", &form("benvolio", "a long password"))), None);
}

#[test]
fn accounts_are_changed_where_none_are_created() {
    let mut stage = ModuleStage::new();
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    assert!(result(&stage.ask(link, "get", DOMAIN, GET)).is_some());
}

#[test]
fn a_failing_store_uses_up_no_turn() {
    let (mut stage, held) = ModuleStage::with_held_store(on);
    let guest = guest("192.0.2.1");
    held.set_fault(Some(StoreError::Busy));
    assert_refusal(&stage.guest(guest, "set", &form("benvolio", "a long password")), "resource-constraint", "wait");
    held.set_fault(Some(StoreError::Panicked("test".into())));
    assert_refusal(&stage.guest(guest, "set", &form("benvolio", "a long password")), "internal-server-error", "cancel");
    assert_eq!(stage.world.counters.store_errors, 2);
    held.set_fault(None);
    assert_eq!(result(&stage.guest(guest, "set", &form("benvolio", "a long password"))), None);
}

#[test]
fn an_account_sees_what_is_known_of_it() {
    let mut stage = ModuleStage::with(on);
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    for to in [DOMAIN, ""] {
        let answer = stage.ask(link, "get", to, GET);
        let query = result(&answer).unwrap();
        assert!(query.child("registered", ns::REGISTER).is_some());
        assert_eq!(query.child_text("username", ns::REGISTER).as_deref(), Some("romeo"));
        assert_eq!(query.child_text("password", ns::REGISTER).as_deref(), Some(""));
    }
}

#[test]
fn an_account_changes_its_password() {
    let mut stage = ModuleStage::with(on);
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let set = |query: &str| format!("<iq type='set' id='q' to='{DOMAIN}'>{query}</iq>");
    stage.say(link, &set(&form("Romeo", "another password")));
    // Later requests wait, though the keys are derived elsewhere.
    stage.say(link, "<iq type='get' id='later' to='example.org'><ping xmlns='urn:xmpp:ping'/></iq>");
    stage.finish();
    let heard = stage.hear(link);
    let ids: Vec<_> = heard.iter().map(|answer| (answer.attr("id"), answer.attr("type"))).collect();
    assert_eq!(ids, [(Some("q"), Some("result")), (Some("later"), Some("result"))]);
    assert!(password_is(&stage, romeo.as_str(), "another password"));
}

#[test]
fn a_password_change_that_is_wrong_changes_nothing() {
    let mut stage = ModuleStage::with(on);
    let (romeo, juliet) = (stage.account("romeo"), stage.account("juliet"));
    let link = stage.bind(&romeo, "orchard");
    let mut change = |to: &str, query: &str| {
        stage.say(link, &format!("<iq type='set' id='q' to='{to}'>{query}</iq>"));
        stage.finish();
        stage.answer(link)
    };
    assert_refusal(&change(DOMAIN, &form("romeo", "")), "bad-request", "modify");
    assert_refusal(&change(DOMAIN, &form("", "another password")), "bad-request", "modify");
    assert_refusal(&change(DOMAIN, GET), "bad-request", "modify");
    assert_refusal(&change(DOMAIN, "<form xmlns='jabber:iq:register'/>"), "bad-request", "modify");
    assert_refusal(&change(DOMAIN, &form("juliet", "another password")), "forbidden", "auth");
    assert_refusal(&change(DOMAIN, &form("no name", "another password")), "forbidden", "auth");
    assert_refusal(&change(DOMAIN, &form("romeo", "short")), "not-acceptable", "modify");
    assert_refusal(&change(DOMAIN, &form("romeo", "bell\u{2028}bell bell")), "not-acceptable", "modify");
    for to in [juliet.as_str(), "nobody@example.org"] {
        assert_refusal(&change(to, &form("romeo", "another password")), "forbidden", "auth");
        assert_refusal(&change(to, REMOVE), "forbidden", "auth");
    }
    assert!(password_is(&stage, romeo.as_str(), "a long password"));
    assert!(password_is(&stage, juliet.as_str(), "a long password"));
}

#[test]
fn a_password_change_that_the_store_refuses_is_told() {
    let (mut stage, held) = ModuleStage::with_held_store(on);
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let stores = stage.stores.clone();
    let mut change = |fault: Option<StoreError>| {
        held.set_fault(fault);
        stage.say(link, &format!("<iq type='set' id='q' to='{DOMAIN}'>{}</iq>", form("romeo", "another password")));
        stage.finish();
        stage.answer(link)
    };
    assert_refusal(&change(Some(StoreError::Busy)), "resource-constraint", "wait");
    assert_refusal(&change(Some(StoreError::Panicked("test".into()))), "internal-server-error", "cancel");
    wait(stores.accounts.remove(romeo.as_ref())).unwrap();
    assert_refusal(&change(None), "registration-required", "auth");
}

#[test]
fn accounts_of_another_domain_are_not_registered_here() {
    let mut stage = ModuleStage::with(|settings| {
        on(settings);
        let mut other = settings.domains[0].clone();
        other.name = "example.net".into();
        settings.domains.push(other);
    });
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    for (type_, query) in [("get", GET), ("set", REMOVE)] {
        assert_refusal(&stage.ask(link, type_, "example.net", query), "forbidden", "auth");
    }
    assert!(exists(&stage, romeo.as_str()));
}

#[test]
fn an_account_removes_itself() {
    let mut stage = ModuleStage::with(on);
    let romeo = stage.account("romeo");
    let (link, other) = (stage.bind(&romeo, "orchard"), stage.bind(&romeo, "street"));
    let both = "<query xmlns='jabber:iq:register'><remove/><username>romeo</username></query>";
    assert_refusal(&stage.ask(link, "set", "", both), "bad-request", "modify");
    assert!(exists(&stage, romeo.as_str()));
    assert_eq!(result(&stage.ask(link, "set", "", REMOVE)), None);
    assert!(!exists(&stage, romeo.as_str()));
    for link in [link, other] {
        assert_eq!(stage.closes(link), Some(StreamError::NotAuthorized));
    }
}
