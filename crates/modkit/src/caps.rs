//! XEP-0115: Entity Capabilities, the hash: computes what the server announces about itself, and
//! checks what a client has announced.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_xml::{Element, ns};
use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha512};

use crate::disco::{DiscoIdentity, Info};

/// Returns the verification string of an entity (§5.1).
pub fn ver(info: &Info) -> String {
    let identities = info.identities();
    let identities = identities
        .map(|DiscoIdentity { category, type_, name }| format!("{category}/{type_}//{}", name.unwrap_or_default()));
    STANDARD.encode(Sha1::digest(hashed_text(identities.collect(), info.features.clone(), &info.forms)))
}

/// Returns whether `ver` is the hash of a service discovery reply (§5.4), by one of the algorithms
/// that clients use. A reply that repeats an identity, a feature or a form has no valid hash.
pub fn is_hash_of(algorithm: &str, ver: &str, answer: &Element) -> bool {
    let of = |name: &'static str| answer.children().filter(move |child| child.is(name, ns::DISCO_INFO));
    let part = |element: &Element, name: &str| element.attr(name).unwrap_or_default().to_owned();
    let identities = of("identity").map(|found| {
        [part(found, "category"), part(found, "type"), part(found, "xml:lang"), part(found, "name")].join("/")
    });
    let identities: Vec<_> = identities.collect();
    let features: Vec<_> = of("feature").filter_map(|feature| feature.attr("var")).collect();
    let forms: Vec<_> = answer.children().filter(|child| child.is("x", ns::DATA_FORMS)).cloned().collect();
    let types: Vec<_> = forms.iter().filter_map(hashed_form).map(|(form_type, _)| form_type).collect();
    if repeats(&identities) || repeats(&features) || repeats(&types) {
        return false;
    }
    let text = hashed_text(identities, features, &forms);
    ver == match algorithm {
        "sha-1" => STANDARD.encode(Sha1::digest(text)),
        "sha-256" => STANDARD.encode(Sha256::digest(text)),
        "sha-512" => STANDARD.encode(Sha512::digest(text)),
        _ => return false,
    }
}

fn repeats<T: Ord>(all: &[T]) -> bool {
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// Returns the text that is hashed. Identities are given as `category/type/lang/name`. Sorting is
/// by bytes everywhere.
fn hashed_text(mut identities: Vec<String>, mut features: Vec<&str>, forms: &[Element]) -> String {
    identities.sort_unstable();
    features.sort_unstable();
    let mut forms: Vec<_> = forms.iter().filter_map(hashed_form).collect();
    forms.sort_unstable();
    let entities = identities.iter().map(String::as_str).chain(features);
    let mut text: String = entities.flat_map(|part| [part, "<"]).collect();
    text.extend(forms.iter().map(|(_, form)| form.as_str()));
    text
}

/// Returns a form's type, and its part of the text. A form without a type doesn't count.
fn hashed_form(form: &Element) -> Option<(String, String)> {
    let form_type = values(form.children().find(|field| field.attr("var") == Some(FORM_TYPE))?).into_iter().next()?;
    let mut fields: Vec<_> = form.children().filter_map(|field| Some((field.attr("var")?, values(field)))).collect();
    fields.retain(|(var, _)| *var != FORM_TYPE);
    fields.sort_unstable();
    let mut text = format!("{form_type}<");
    for (var, values) in &fields {
        text.extend([var, "<"]);
        text.extend(values.iter().flat_map(|value| [value, "<"]));
    }
    Some((form_type, text))
}

/// Returns the values of a form's field, sorted.
fn values(field: &Element) -> Vec<String> {
    let values = field.children().filter(|child| child.is("value", ns::DATA_FORMS));
    let mut values: Vec<_> = values.map(Element::text).collect();
    values.sort_unstable();
    values
}

/// The field that names a form's type (XEP-0068).
const FORM_TYPE: &str = "FORM_TYPE";

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> String {
        STANDARD.encode(Sha1::digest(text))
    }

    /// The example of §5.2.
    #[test]
    fn the_simple_example_has_its_hash() {
        let features = ["http://jabber.org/protocol/muc", ns::DISCO_ITEMS, ns::CAPS, ns::DISCO_INFO].to_vec();
        let identity = DiscoIdentity { category: "client", type_: "pc", name: Some("Exodus 0.9.1") };
        assert_eq!(ver(&Info { identity, more: &[], features, forms: Vec::new() }), "QgayPKawpkPSDYmwT/WM94uAlu0=");
    }

    /// The example of §5.3.
    #[test]
    fn the_complex_example_has_its_hash() {
        let form = "<x xmlns='jabber:x:data' type='result'>\
            <field var='software'><value>Psi</value></field>\
            <field var='FORM_TYPE' type='hidden'><value>urn:xmpp:dataforms:softwareinfo</value></field>\
            <field var='ip_version' type='text-multi'><value>ipv6</value><value>ipv4</value></field>\
            <field var='os_version'><value>10.5.1</value></field>\
            <field var='os'><value>Mac</value></field>\
            <field var='software_version'><value>0.11</value></field></x>";
        let untyped = "<x xmlns='jabber:x:data' type='result'><field var='a'><value>b</value></field></x>";
        let forms = [form, untyped].map(|form| Element::parse(form.as_bytes()).unwrap());
        let identities = vec!["client/pc/en/Psi 0.11".to_owned(), "client/pc/el/\u{3a8} 0.11".to_owned()];
        let features = vec![ns::CAPS, ns::DISCO_INFO, ns::DISCO_ITEMS, "http://jabber.org/protocol/muc"];
        assert_eq!(hash(&hashed_text(identities, features, &forms)), "q07IKJEyjvHSyhy//CH0CxmKi8w=");
    }
}
