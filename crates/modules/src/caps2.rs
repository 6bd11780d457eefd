//! XEP-0390: Entity Capabilities 2.0, of domains: a hash of [`disco`](crate::disco)'s replies for
//! which no colliding content can be made.
//!
//! Left out: hashes of clients, which pass through (optimization, §6).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_modkit::disco::{DiscoIdentity, Info};
use rookery_xml::{Built, Element, Writer, ns};
use sha2::{Digest, Sha256};

/// Returns the stream feature with the hash (§4.3).
pub(crate) fn stream_feature(info: &Info<'_>) -> Built {
    let mut c = Writer::with_ns("c", ns::CAPS_2);
    c.start_ns("hash", ns::HASHES).attr("algo", ALGORITHM).text(&hash(info)).end();
    c.finish()
}

/// Returns the service discovery node under which clients look up announced capabilities (§3.3).
pub(crate) fn node(info: &Info<'_>) -> String {
    format!("{}#{ALGORITHM}.{}", ns::CAPS_2, hash(info))
}

fn hash(info: &Info<'_>) -> String {
    let identities = info.identities();
    let identities =
        identities.map(|DiscoIdentity { category, type_, name }| [category, type_, "", name.unwrap_or_default()]);
    STANDARD.encode(Sha256::digest(input(&identities.collect::<Vec<_>>(), &info.features, &info.forms)))
}

/// Returns the bytes to hash (§3.1). Identities are category, type, language and name. Sorting is
/// by bytes everywhere.
fn input(identities: &[[&str; 4]], features: &[&str], forms: &[Element]) -> Vec<u8> {
    let features = features.iter().map(|feature| with_end(feature.as_bytes(), UNIT));
    let identities = identities.iter().map(|identity| {
        let parts: Vec<_> = identity.iter().flat_map(|part| with_end(part.as_bytes(), UNIT)).collect();
        with_end(&parts, RECORD)
    });
    let forms = forms.iter().map(|form| {
        let fields = form.children().filter(|child| child.is("field", ns::DATA_FORMS)).map(field_bytes);
        with_end(&sort_and_join(fields), GROUP)
    });
    let parts = [sort_and_join(features), sort_and_join(identities), sort_and_join(forms)];
    parts.iter().flat_map(|part| with_end(part, FILE)).collect()
}

fn field_bytes(field: &Element) -> Vec<u8> {
    let values = field.children().filter(|child| child.is("value", ns::DATA_FORMS));
    let values = sort_and_join(values.map(|value| with_end(value.text().as_bytes(), UNIT)));
    let mut bytes = with_end(field.attr("var").unwrap_or_default().as_bytes(), UNIT);
    bytes.extend_from_slice(&values);
    with_end(&bytes, RECORD)
}

/// Returns the parts in order, one after the other.
fn sort_and_join(parts: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut parts: Vec<_> = parts.collect();
    parts.sort_unstable();
    parts.concat()
}

fn with_end(bytes: &[u8], end: u8) -> Vec<u8> {
    [bytes, &[end]].concat()
}

/// The separators of parts: octets that can't occur in XML text.
const FILE: u8 = 0x1c;
const GROUP: u8 = 0x1d;
const RECORD: u8 = 0x1e;
const UNIT: u8 = 0x1f;

/// The name of the hash function (XEP-0300), which all implementations support.
const ALGORITHM: &str = "sha-256";

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of §3.5.1.
    #[test]
    fn the_simple_example_has_its_hash() {
        let features = vec![
            "http://jabber.org/protocol/si",
            "http://jabber.org/protocol/bytestreams",
            "http://jabber.org/protocol/chatstates",
            "http://jabber.org/protocol/disco#info",
            "http://jabber.org/protocol/disco#items",
            "urn:xmpp:ping",
            "jabber:iq:time",
            "jabber:iq:privacy",
            "jabber:iq:version",
            "http://jabber.org/protocol/rosterx",
            "urn:xmpp:time",
            "jabber:x:oob",
            "http://jabber.org/protocol/ibb",
            "http://jabber.org/protocol/si/profile/file-transfer",
            "urn:xmpp:receipts",
            "jabber:iq:roster",
            "jabber:iq:last",
        ];
        let identity = DiscoIdentity { category: "client", type_: "mobile", name: Some("BombusMod") };
        let info = Info { identity, more: &[], features, forms: Vec::new() };
        assert_eq!(node(&info), "urn:xmpp:caps#sha-256.kzBZbkqJ3ADrj7v08reD1qcWUwNGHaidNUgD7nHpiw8=");
    }

    /// The example of §3.5.2.
    #[test]
    fn the_complex_example_has_its_hash() {
        let features = [
            "games:board",
            "http://jabber.org/protocol/activity",
            "http://jabber.org/protocol/activity+notify",
            "http://jabber.org/protocol/bytestreams",
            "http://jabber.org/protocol/chatstates",
            "http://jabber.org/protocol/commands",
            "http://jabber.org/protocol/disco#info",
            "http://jabber.org/protocol/disco#items",
            "http://jabber.org/protocol/evil",
            "http://jabber.org/protocol/feature-neg",
            "http://jabber.org/protocol/geoloc",
            "http://jabber.org/protocol/geoloc+notify",
            "http://jabber.org/protocol/ibb",
            "http://jabber.org/protocol/iqibb",
            "http://jabber.org/protocol/mood",
            "http://jabber.org/protocol/mood+notify",
            "http://jabber.org/protocol/rosterx",
            "http://jabber.org/protocol/si",
            "http://jabber.org/protocol/si/profile/file-transfer",
            "http://jabber.org/protocol/tune",
            "http://www.facebook.com/xmpp/messages",
            "http://www.xmpp.org/extensions/xep-0084.html#ns-metadata+notify",
            "jabber:iq:avatar",
            "jabber:iq:browse",
            "jabber:iq:dtcp",
            "jabber:iq:filexfer",
            "jabber:iq:ibb",
            "jabber:iq:inband",
            "jabber:iq:jidlink",
            "jabber:iq:last",
            "jabber:iq:oob",
            "jabber:iq:privacy",
            "jabber:iq:roster",
            "jabber:iq:time",
            "jabber:iq:version",
            "jabber:x:data",
            "jabber:x:event",
            "jabber:x:oob",
            "urn:xmpp:avatar:metadata+notify",
            "urn:xmpp:ping",
            "urn:xmpp:receipts",
            "urn:xmpp:time",
        ];
        let identities = [
            ["client", "pc", "en", "Tkabber"],
            ["client", "pc", "ru", "\u{422}\u{43a}\u{430}\u{431}\u{431}\u{435}\u{440}"],
        ];
        let form = "<x xmlns='jabber:x:data' type='result'>\
            <field type='hidden' var='FORM_TYPE'><value>urn:xmpp:dataforms:softwareinfo</value></field>\
            <field var='software'><value>Tkabber</value></field>\
            <field var='software_version'><value>0.11.1-svn-20111216-mod (Tcl/Tk 8.6b2)</value></field>\
            <field var='os'><value>Windows</value></field><field var='os_version'><value>XP</value></field></x>";
        let form = Element::parse(form.as_bytes()).unwrap();
        let found = STANDARD.encode(Sha256::digest(input(&identities, &features, &[form])));
        assert_eq!(found, "u79ZroNJbdSWhdSp311mddz44oHHPsEBntQ5b1jqBSY=");
    }
}
