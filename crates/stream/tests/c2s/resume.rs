//! Resumption in the place of binding: XEP-0198 §5.

use crate::bind::after_login;
use crate::sasl::after_open;

#[test]
fn a_session_goes_on() {
    after_login(
        "C: <resume xmlns='urn:xmpp:sm:3' h='17' previd='it&apos;s'/>
         E: Resume { previd: it's, h: 17 }
         A: resumed 4294967295
         S: <resumed xmlns='urn:xmpp:sm:3' previd='it&apos;s' h='4294967295'/>",
    );
}

#[test]
fn without_the_session_a_resource_can_be_bound() {
    after_login(
        "C: <resume xmlns='urn:xmpp:sm:3' h='0' previd='a'/>
         E: Resume { previd: a, h: 0 }
         A: unknown
         S: <failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>
         C: <resume xmlns='urn:xmpp:sm:3' h='0' previd='b'/>
         E: Resume { previd: b, h: 0 }
         A: unknown 7
         S: <failed xmlns='urn:xmpp:sm:3' h='7'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>
         C: <iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>
         E: Bind { resource: None }
         A: bound juliet@example.org/x
         S: <iq type='result' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>juliet@example.org/x</jid></bind></iq>",
    );
}

/// XEP-0198 §3: "the server SHALL enforce this order and return a <failed/> element in response if
/// the order is violated".
#[test]
fn before_login_all_have_to_wait() {
    let failed =
        "<failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";
    for element in ["enable", "resume previd='a' h='0'", "r", "a h='1'", "other"] {
        after_open(&format!(
            "C: <{element} xmlns='urn:xmpp:sm:3'/>
             S: {failed}
             C: <{element} xmlns='urn:xmpp:sm:3'/>
             S: {failed}"
        ));
    }
}

#[test]
fn only_a_few_elements_may_come_too_early() {
    let failed =
        "<failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";
    let early = format!("C: <r xmlns='urn:xmpp:sm:3'/>\nS: {failed}\n").repeat(10);
    after_open(&format!(
        "{early}C: <r xmlns='urn:xmpp:sm:3'/>\nS: {{error policy-violation Too many elements came too early.}}\nE: End"
    ));
    after_login(&format!(
        "{early}C: <r xmlns='urn:xmpp:sm:3'/>\nS: {{error policy-violation Too many elements came too early.}}\nE: End"
    ));
}

#[test]
fn other_elements_have_to_wait() {
    for element in ["enable", "r", "a", "other"] {
        after_login(&format!(
            "C: <{element} xmlns='urn:xmpp:sm:3'/>
             S: <failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>"
        ));
    }
}
