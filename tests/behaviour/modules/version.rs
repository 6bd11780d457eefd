//! XEP-0092.

use rookery_hub::Value;
use rookery_xml::ns;

use super::stage::{DOMAIN, ModuleStage, assert_refusal, result, set};

const QUERY: &str = "<query xmlns='jabber:iq:version'/>";

#[test]
fn name_and_version_are_told_and_the_system_is_not() {
    let mut stage = ModuleStage::new();
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let answer = stage.ask(link, "get", DOMAIN, QUERY);
    let query = result(&answer).unwrap();
    assert!(query.is("query", ns::VERSION));
    assert_eq!(query.child_text("name", ns::VERSION).as_deref(), Some("Rookery"));
    assert_eq!(query.child_text("version", ns::VERSION).as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(query.child("os", ns::VERSION), None);
    assert_refusal(&stage.ask(link, "set", DOMAIN, QUERY), "bad-request", "modify");
    assert_refusal(&stage.ask(link, "get", "", QUERY), "service-unavailable", "cancel");
}

#[test]
fn the_system_is_told_where_the_operator_wants_it() {
    let mut stage = ModuleStage::with(|settings| set(settings, "version", "show_os", Value::Switch(true)));
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let answer = stage.ask(link, "get", DOMAIN, QUERY);
    let os = result(&answer).unwrap().child_text("os", ns::VERSION);
    assert_eq!(os.as_deref(), Some(std::env::consts::OS));
}
