//! Resumption in the place of binding: XEP-0198 §5.

use crate::bind::after_login;

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

#[test]
fn other_elements_have_to_wait() {
    for element in ["enable", "r", "a", "other"] {
        after_login(&format!(
            "C: <{element} xmlns='urn:xmpp:sm:3'/>
             S: <failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>"
        ));
    }
}
