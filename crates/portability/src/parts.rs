//! Names and formats that export and import must agree on.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_hub::{DocumentSpec, Exported, Registry};
use rookery_sasl::{Credentials, Hash, Keys};
use rookery_xml::Element;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{OURS, SCRAM};

/// Returns the documents that modules keep for accounts.
pub fn documents() -> Vec<DocumentSpec> {
    Registry::new(rookery_modules::table(&rookery_modules::Shared::default())).documents().to_vec()
}

/// Returns the prefix in the names of documents with private elements (XEP-0049). The element's
/// name and namespace follow it.
pub fn private(documents: &[DocumentSpec]) -> Option<String> {
    documents.iter().find(|spec| spec.export == Exported::Private).map(|spec| spec.name.stored_name())
}

/// The SCRAM mechanisms by their hash.
pub const MECHANISMS: [(Hash, &str); 3] =
    [(Hash::Sha1, "SCRAM-SHA-1"), (Hash::Sha256, "SCRAM-SHA-256"), (Hash::Sha512, "SCRAM-SHA-512")];

/// Returns the name of the mechanism for a hash.
pub fn name_of(hash: Hash) -> &'static str {
    MECHANISMS.iter().find(|(other, _)| *other == hash).map_or("", |(_, name)| name)
}

/// Writes the keys for one hash (§4.3).
pub fn write_keys(keys: &Keys) -> Element {
    let child = |name: &str, text: &str| Element::new(name, SCRAM).with_text(text);
    Element::new("scram-credentials", SCRAM)
        .with_attr("mechanism", name_of(keys.hash))
        .with_child(child("iter-count", &keys.iterations.to_string()))
        .with_child(child("salt", &STANDARD.encode(&keys.salt)))
        .with_child(child("server-key", &STANDARD.encode(&keys.server_key)))
        .with_child(child("stored-key", &STANDARD.encode(&keys.stored_key)))
}

/// Reads the keys for one hash.
///
/// # Errors
/// The reason why they can't be used.
pub fn read_keys(element: &Element) -> Result<Keys, String> {
    let mechanism = element.attr("mechanism").unwrap_or_default();
    let hash = MECHANISMS.iter().find(|(_, name)| *name == mechanism).map(|(hash, _)| *hash);
    let hash = hash.ok_or_else(|| format!("SCRAM keys for {mechanism:?}, which this server doesn't have"))?;
    let text = |name: &str| element.child_text(name, SCRAM).ok_or_else(|| format!("SCRAM keys without {name}"));
    let once = |name: &str| {
        let text = text(name)?;
        STANDARD.decode(text.trim()).map_err(|_| format!("SCRAM keys whose {name} isn't Base64"))
    };
    // ejabberd 23.01 encodes the keys in Base64 twice.
    let is_twice = once("stored-key")?.len() == STANDARD.encode(vec![0; hash.size()]).len();
    let bytes = |name: &str| match once(name)? {
        bytes if !is_twice => Ok(bytes),
        bytes => STANDARD.decode(&bytes).map_err(|_| format!("SCRAM keys whose {name} isn't Base64 of Base64")),
    };
    let iterations = text("iter-count")?.trim().parse().ok().filter(|count| *count > 0);
    let keys = Keys {
        hash,
        salt: bytes("salt")?,
        iterations: iterations.ok_or("SCRAM keys with an impossible iter-count")?,
        stored_key: bytes("stored-key")?,
        server_key: bytes("server-key")?,
    };
    match keys.stored_key.len() == hash.size() && keys.server_key.len() == hash.size() && !keys.salt.is_empty() {
        true => Ok(keys),
        false => Err(format!("SCRAM keys of the wrong length for {mechanism}")),
    }
}

/// Returns the keys that stand in place of a password, as ejabberd wrote them before the standard
/// had an element for keys: `scram:[hash,]stored,server,salt,count`.
pub fn keys_in_password(password: &str) -> Option<Keys> {
    let parts: Vec<_> = password.strip_prefix("scram:")?.split(',').collect();
    let (hash, parts) = match parts.as_slice() {
        ["sha256", rest @ ..] => (Hash::Sha256, rest),
        ["sha512", rest @ ..] => (Hash::Sha512, rest),
        rest => (Hash::Sha1, rest),
    };
    let [stored, server, salt, count] = parts else { return None };
    let bytes = |text: &str| STANDARD.decode(text).ok();
    let (stored_key, server_key, salt) = (bytes(stored)?, bytes(server)?, bytes(salt)?);
    let iterations = count.parse().ok().filter(|count| *count > 0)?;
    let is_whole = stored_key.len() == hash.size() && server_key.len() == hash.size() && !salt.is_empty();
    is_whole.then_some(Keys { hash, salt, iterations, stored_key, server_key })
}

/// Returns credentials with the keys in a file. A hash without keys gets unusable ones: SCRAM
/// logins with this hash then fail until the account gets a new password. The second value is true
/// if there is such a hash.
///
/// # Errors
/// The system provides no random bytes.
pub fn complete(keys: Vec<Keys>) -> Result<(Credentials, bool), String> {
    let none = |hash| Keys::none(hash, LEAST_ITERATIONS).map_err(|error| error.to_string());
    let mut credentials =
        Credentials { sha1: none(Hash::Sha1)?, sha256: none(Hash::Sha256)?, sha512: none(Hash::Sha512)? };
    let mut found = [false; 3];
    for keys in keys {
        let at = MECHANISMS.iter().position(|(hash, _)| *hash == keys.hash);
        at.into_iter().for_each(|at| {
            if let Some(found) = found.get_mut(at) {
                *found = true
            }
        });
        match keys.hash {
            Hash::Sha1 => credentials.sha1 = keys,
            Hash::Sha256 => credentials.sha256 = keys,
            Hash::Sha512 => credentials.sha512 = keys,
        }
    }
    Ok((credentials, found.contains(&false)))
}

/// Returns the element of a document for which the standard has none.
pub fn write_document(name: &str, bytes: &[u8]) -> Element {
    Element::new("document", OURS).with_attr("name", name).with_text(STANDARD.encode(bytes))
}

/// Reads the name and the content of a document from that element.
pub fn read_document(element: &Element) -> Option<(String, Vec<u8>)> {
    Some((element.attr("name")?.to_owned(), STANDARD.decode(element.text().trim()).ok()?))
}

/// Returns the milliseconds since 1970 of a date in the form of XMPP (XEP-0082) or the older form
/// (XEP-0091).
pub fn time(stamp: &str) -> Option<u64> {
    let stamp = stamp.trim();
    let legacy = || {
        // The older form looks like 20020910T23:41:07.
        let (date, time) = stamp.split_once('T').filter(|(date, _)| date.len() == 8 && date.is_ascii())?;
        let (year, rest) = date.split_at_checked(4)?;
        let (month, day) = rest.split_at_checked(2)?;
        OffsetDateTime::parse(&format!("{year}-{month}-{day}T{}Z", time.trim_end_matches('Z')), &Rfc3339).ok()
    };
    let time = OffsetDateTime::parse(stamp, &Rfc3339).ok().or_else(legacy)?;
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()
}

/// The fewest iterations that clients accept (RFC 5802 §5.1).
const LEAST_ITERATIONS: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use rookery_xml::ns;

    #[test]
    fn each_document_has_one_form_in_the_file() {
        let documents = documents();
        let names: Vec<_> = documents.iter().map(|spec| spec.name.stored_name()).collect();
        for (at, name) in names.iter().enumerate() {
            let others = documents.iter().enumerate().filter(|(other, _)| *other != at);
            let overlapping: Vec<_> = others.filter(|(_, other)| other.name.is(name)).collect();
            assert!(overlapping.is_empty(), "{name:?} is declared by {overlapping:?} too");
        }
        let count = |wanted: fn(&Exported) -> bool| documents.iter().filter(|spec| wanted(&spec.export)).count();
        assert_eq!(count(|export| matches!(export, Exported::Private)), 1, "they share one element");
        // These are the parts of XEP-0227 that are documents here, in the standard's order.
        for (name, ns) in [("query", ns::PRIVACY), ("vCard", ns::VCARD)] {
            assert!(documents.iter().any(|spec| spec.export == Exported::Element { name, ns }), "{name}");
        }
        for ours in ["at-hand/archive", "at-hand/push", "at-hand/photo", "fast/00", "announce/seen"] {
            assert!(documents.iter().any(|spec| spec.name.is(ours) && spec.export == Exported::Bytes), "{ours}");
        }
    }

    #[test]
    fn keys_are_read_as_written() {
        let credentials = Credentials::derive("pencil", 1).expect("credentials");
        for keys in [&credentials.sha1, &credentials.sha256, &credentials.sha512] {
            assert_eq!(read_keys(&write_keys(keys)).as_ref(), Ok(keys));
        }
        let (found, lacks) = complete(vec![credentials.sha1.clone()]).expect("completed");
        assert!(lacks && found.sha1.verify("pencil") && !found.sha256.verify("pencil"));
        let all = [credentials.sha1.clone(), credentials.sha256.clone(), credentials.sha512.clone()];
        assert_eq!(complete(all.to_vec()), Ok((credentials, false)));
    }

    #[test]
    fn keys_may_be_encoded_twice() {
        let keys = Credentials::derive("pencil", 1).expect("credentials").sha1;
        let mut element = write_keys(&keys);
        element.retain_children(|child| child.name() == "iter-count");
        for (name, bytes) in [("salt", &keys.salt), ("server-key", &keys.server_key), ("stored-key", &keys.stored_key)]
        {
            let twice = STANDARD.encode(STANDARD.encode(bytes));
            element.push_child(Element::new(name, SCRAM).with_text(twice));
        }
        assert_eq!(read_keys(&element), Ok(keys));
    }

    #[test]
    fn keys_may_stand_in_the_place_of_a_password() {
        let keys = Credentials::derive("pencil", 1).expect("credentials").sha256;
        let [stored, server, salt] =
            [&keys.stored_key, &keys.server_key, &keys.salt].map(|bytes| STANDARD.encode(bytes));
        assert_eq!(keys_in_password(&format!("scram:sha256,{stored},{server},{salt},1")), Some(keys));
        assert_eq!(keys_in_password(&format!("scram:{stored},{server},{salt},1")), None, "too long for SHA-1");
        assert_eq!(
            (keys_in_password("scram:"), keys_in_password("scram:a,b,c,d"), keys_in_password("secret")),
            (None, None, None)
        );
    }

    #[test]
    fn keys_that_cannot_be_are_refused() {
        let good = write_keys(&Credentials::derive("pencil", 1).expect("credentials").sha256);
        assert!(read_keys(&Element::new("scram-credentials", SCRAM)).is_err());
        let mut other = good.clone();
        other.set_attr("mechanism", "SCRAM-SHA-1");
        assert!(read_keys(&other).is_err_and(|reason| reason.contains("length")));
        other.set_attr("mechanism", "SCRAM-MD5");
        assert!(read_keys(&other).is_err());
    }

    #[test]
    fn dates_come_in_two_forms() {
        assert_eq!(time("2010-07-10T23:08:25Z"), Some(1_278_803_305_000));
        assert_eq!(time("2010-07-10T23:08:25.5Z"), Some(1_278_803_305_500));
        assert_eq!(time("2010-07-11T01:08:25+02:00"), Some(1_278_803_305_000));
        assert_eq!(time("20100710T23:08:25"), Some(1_278_803_305_000));
        assert_eq!((time("1469-07-21T00:32:29Z"), time("yesterday"), time("2010-07-1éT0:0:0")), (None, None, None));
    }
}
