//! XEP-0202.

use rookery_xml::ns;

use super::stage::{DOMAIN, ModuleStage, assert_refusal, result};

#[test]
fn the_time_is_that_of_the_world() {
    let mut stage = ModuleStage::new();
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let answer = stage.ask(link, "get", DOMAIN, "<time xmlns='urn:xmpp:time'/>");
    let time = result(&answer).unwrap();
    assert_eq!(time.child_text("utc", ns::TIME).as_deref(), Some("2009-02-13T23:31:30Z"));
    assert_eq!(time.child_text("tzo", ns::TIME).as_deref(), Some("+00:00"));
    assert_refusal(&stage.ask(link, "set", DOMAIN, "<time xmlns='urn:xmpp:time'/>"), "bad-request", "modify");
    assert_refusal(&stage.ask(link, "get", DOMAIN, "<date xmlns='urn:xmpp:time'/>"), "bad-request", "modify");
}
