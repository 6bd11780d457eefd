//! Conditions and their rendering: RFC 6120 §4.9.3 and §8.3.3.

use rookery_stream::error::{Condition, ErrorType, StanzaError, StreamError};
use rookery_xml::{Element, Fault, Writer, ns};

fn render(error: &StreamError, text: Option<&str>) -> String {
    let mut out = Vec::new();
    error.render(text, &mut out);
    String::from_utf8(out).unwrap()
}

fn write(error: &StanzaError) -> String {
    let mut iq = Writer::new("iq");
    iq.attr("type", "error");
    error.write(&mut iq);
    String::from_utf8(iq.finish().into_bytes()).unwrap()
}

#[test]
fn a_stream_error_closes_the_stream() {
    assert_eq!(
        render(&StreamError::HostUnknown, None),
        "<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>"
    );
}

#[test]
fn a_text_is_escaped_and_says_its_language() {
    assert_eq!(
        render(&StreamError::PolicyViolation, Some("a < b")),
        "<stream:error><policy-violation xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>\
         <text xmlns='urn:ietf:params:xml:ns:xmpp-streams' xml:lang='en'>a &lt; b</text></stream:error></stream:stream>"
    );
}

#[test]
fn another_host_is_named() {
    assert_eq!(
        render(&StreamError::SeeOtherHost("[2001:db8::1]:5222".into()), None),
        "<stream:error><see-other-host xmlns='urn:ietf:params:xml:ns:xmpp-streams'>[2001:db8::1]:5222</see-other-host>\
         </stream:error></stream:stream>"
    );
}

#[test]
fn a_fault_and_its_stream_error_have_one_name() {
    for fault in [
        Fault::NotWellFormed,
        Fault::RestrictedXml,
        Fault::InvalidNamespace,
        Fault::BadNamespacePrefix,
        Fault::UnsupportedEncoding,
        Fault::BadFormat,
        Fault::TooBig,
        Fault::TooDeep,
        Fault::TooManyAttributes,
        Fault::TooManyNamespaces,
        Fault::NameTooLong,
        Fault::NamespacesTooBig,
    ] {
        assert_eq!(StreamError::from(fault).name(), fault.condition());
    }
}

#[test]
fn a_stanza_error_says_what_and_what_to_do() {
    assert_eq!(
        write(&Condition::RecipientUnavailable.into()),
        "<iq type='error'><error type='wait'><recipient-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
         </error></iq>"
    );
}

#[test]
fn text_and_application_condition_follow_in_the_schemas_order() {
    let error = StanzaError::new(Condition::FeatureNotImplemented)
        .with_type(ErrorType::Modify)
        .with_text("Not & here.")
        .with_application(Element::new("unsupported", ns::PUBSUB_ERRORS).with_attr("feature", "x"));
    assert_eq!(
        write(&error),
        "<iq type='error'><error type='modify'>\
         <feature-not-implemented xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
         <text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas' xml:lang='en'>Not &amp; here.</text>\
         <unsupported xmlns='http://jabber.org/protocol/pubsub#errors' feature='x'/></error></iq>"
    );
    assert_eq!(error.to_string(), "feature-not-implemented (modify): Not & here.");
}

#[test]
fn a_new_address_is_named() {
    assert_eq!(
        write(&Condition::Gone(Some("xmpp:romeo@example.net".into())).into()),
        "<iq type='error'><error type='cancel'><gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>\
         xmpp:romeo@example.net</gone></error></iq>"
    );
    assert!(
        write(&Condition::Redirect(None).into()).contains("<redirect xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>")
    );
}
