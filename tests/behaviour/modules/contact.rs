//! XEP-0157.

use rookery_hub::Value;
use rookery_xml::{Element, ns};

use super::stage::{DOMAIN, ModuleStage, result, set};

const INFO: &str = "<query xmlns='http://jabber.org/protocol/disco#info'/>";

#[test]
fn given_addresses_are_shown_and_only_they() {
    let mut stage = ModuleStage::with(|settings| {
        let addresses = ["mailto:abuse@example.org", "xmpp:abuse@example.org"].map(str::to_owned);
        set(settings, "contact", "abuse", Value::List(addresses.into()));
        set(settings, "contact", "status", Value::List(vec!["https://status.example.org/?a&b".into()]));
    });
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let answer = stage.ask(link, "get", DOMAIN, INFO);
    let form = result(&answer).unwrap().child("x", ns::DATA_FORMS).unwrap();
    assert_eq!(form.attr("type"), Some("result"));
    let fields: Vec<_> = form.children().map(|field| (field.attr("var").unwrap(), values(field))).collect();
    assert_eq!(
        fields,
        [
            ("FORM_TYPE", vec!["http://jabber.org/network/serverinfo".to_owned()]),
            ("abuse-addresses", vec!["mailto:abuse@example.org".to_owned(), "xmpp:abuse@example.org".to_owned()]),
            ("status-addresses", vec!["https://status.example.org/?a&b".to_owned()]),
        ]
    );
    assert_eq!(form.children().next().unwrap().attr("type"), Some("hidden"));
}

#[test]
fn without_addresses_there_is_no_form() {
    let mut stage = ModuleStage::new();
    let romeo = stage.account("romeo");
    let link = stage.bind(&romeo, "orchard");
    let answer = stage.ask(link, "get", DOMAIN, INFO);
    assert_eq!(result(&answer).unwrap().child("x", ns::DATA_FORMS), None);
}

fn values(field: &Element) -> Vec<String> {
    field.children().map(Element::text).collect()
}
