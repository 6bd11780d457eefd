//! Describes what the other server does during negotiation, for an operator who is watching.

use std::fmt::Write;

use rookery_xml::{Element, ns};

/// Describes the meaning of an element from the other server.
pub(crate) fn of(element: &Element) -> Option<String> {
    match (element.ns(), element.name()) {
        (_, "features") => {
            let mut text = "offered   ".to_owned();
            for (at, feature) in element.children().enumerate() {
                let inner: Vec<String> =
                    feature.children().map(|child| child.text()).filter(|text| !text.is_empty()).collect();
                let comma = if at > 0 { ", " } else { "" };
                let _ = write!(text, "{comma}{}", feature.name());
                if !inner.is_empty() {
                    let _ = write!(text, " ({})", inner.join(", "));
                }
            }
            Some(if element.children().next().is_none() { "offered   nothing more".to_owned() } else { text })
        }
        (ns::SASL, "success") => Some("login     EXTERNAL: it accepts our certificate".to_owned()),
        (ns::SASL, "failure") => {
            let reason = element.children().next().map_or("no reason", |child| child.name());
            Some(format!("login     EXTERNAL: it refuses our certificate ({reason})"))
        }
        (ns::DIALBACK, "result") => {
            let outcome = element.attr("type").unwrap_or("no type");
            Some(format!("login     dialback: {outcome}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> Option<String> {
        of(&Element::parse(text.as_bytes()).expect("an element"))
    }

    #[test]
    fn features_and_answers_are_told() {
        let features = "<features xmlns='http://etherx.jabber.org/streams'><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
                        <mechanism>EXTERNAL</mechanism></mechanisms><dialback xmlns='urn:xmpp:features:dialback'/></features>";
        assert_eq!(note(features).as_deref(), Some("offered   mechanisms (EXTERNAL), dialback"));
        let none = "<features xmlns='http://etherx.jabber.org/streams'/>";
        assert_eq!(note(none).as_deref(), Some("offered   nothing more"));
        let refused = "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>";
        assert_eq!(note(refused).as_deref(), Some("login     EXTERNAL: it refuses our certificate (not-authorized)"));
        let valid = "<result xmlns='jabber:server:dialback' type='valid'/>";
        assert_eq!(note(valid).as_deref(), Some("login     dialback: valid"));
        assert_eq!(note("<x xmlns='y'/>"), None);
    }
}
