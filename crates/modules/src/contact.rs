//! XEP-0157: Contact Addresses for XMPP Services.

use rookery_hub::{Domain, Hooks, Module, OptionSpec, Options, Value};
use rookery_modkit::option;
use rookery_xml::{Element, ns};

/// The module that shows contact addresses in the service discovery information of a domain.
#[derive(Debug)]
pub struct Contact;

impl Module for Contact {
    fn name(&self) -> &'static str {
        "contact"
    }

    fn summary(&self) -> &'static str {
        "users and other operators can find out whom to contact"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0157", "1.1.1")]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    // Service discovery calls [`forms`] itself.
    fn install(&self, _: &mut Hooks<'_>) {}
}

/// Returns the data forms with a domain's addresses (XEP-0128): none if the module is off or no
/// address is set.
pub(crate) fn forms(domain: &Domain) -> Vec<Element> {
    domain.module("contact").and_then(form).into_iter().collect()
}

const OPTIONS: [OptionSpec; 7] = [
    addresses("abuse", "addresses for complaints about abuse, e.g. [\"mailto:abuse@example.org\"]"),
    addresses("admin", "addresses of the administrators, e.g. [\"xmpp:admin@example.org\"]"),
    addresses("feedback", "addresses for feedback"),
    addresses("sales", "addresses for sales and marketing"),
    addresses("security", "addresses for security concerns"),
    addresses("status", "addresses that show whether the service works, e.g. [\"https://status.example.org\"]"),
    addresses("support", "addresses for users who need help"),
];

const fn addresses(key: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { key, default: || Value::List(Vec::new()), doc, check: are_uris }
}

/// Refuses values that aren't URIs: they should be, and those of `status` must be (§3).
fn are_uris(value: &Value) -> Result<(), String> {
    option::each(value, |address| match is_uri(address) {
        true => Ok(()),
        false => Err(format!("{address:?} isn't a URI; write e.g. \"mailto:…\", \"xmpp:…\" or \"https://…\"")),
    })
}

/// Returns whether a text has the form of a URI (RFC 3986 §3): a scheme, a colon, and something
/// without spaces after it.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme && !rest.is_empty() && rest.chars().all(|c| !c.is_whitespace() && !c.is_control())
}

/// Returns the form with the configured addresses, or `None` if there are none.
fn form(options: &Options) -> Option<Element> {
    let given = OPTIONS.iter().filter(|spec| !options.list(spec.key).is_empty());
    let fields: Vec<_> =
        given.map(|spec| contact_field(&format!("{}-addresses", spec.key), options.list(spec.key))).collect();
    if fields.is_empty() {
        return None;
    }
    let form_type = contact_field("FORM_TYPE", &[SERVER_INFO.to_owned()]).with_attr("type", "hidden");
    let form = Element::new("x", ns::DATA_FORMS).with_attr("type", "result").with_child(form_type);
    Some(fields.into_iter().fold(form, Element::with_child))
}

fn contact_field(var: &str, values: &[String]) -> Element {
    let field = Element::new("field", ns::DATA_FORMS).with_attr("var", var);
    values.iter().fold(field, |field, value| field.with_child(Element::new("value", ns::DATA_FORMS).with_text(value)))
}

/// The form's type (XEP-0157 §3).
const SERVER_INFO: &str = "http://jabber.org/network/serverinfo";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_uris_are_addresses() {
        for good in ["mailto:a@b", "xmpp:admin@example.org?message", "https://example.org/", "tel:+49"] {
            assert!(is_uri(good), "{good}");
        }
        for bad in ["", "admin@example.org", "1a:b", ":x", "mailto:", "http://a b", "a\n:b", "x:\u{7}"] {
            assert!(!is_uri(bad), "{bad:?}");
        }
        let list = Value::List(vec!["mailto:a@b".into(), "nobody".into()]);
        assert!(are_uris(&list).unwrap_err().contains("nobody"));
        assert_eq!(are_uris(&Value::List(vec!["mailto:a@b".into()])), Ok(()));
    }

    #[test]
    fn without_addresses_there_is_no_form() {
        assert_eq!(form(&Options::defaults(&OPTIONS)), None);
    }
}
