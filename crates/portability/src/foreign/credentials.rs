//! Passwords and SCRAM keys in the formats of other servers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_sasl::{Hash, Keys};
use rookery_xml::Element;

use super::elements::damaged_element;
use crate::SCRAM;
use crate::parts::{MECHANISMS, write_keys};

/// Makes the element for keys, or an element with the reason why there are none.
pub(super) fn keys(mechanism: &str, keys: Result<Keys, String>) -> Element {
    match keys {
        Ok(keys) => write_keys(&keys),
        Err(what) if what.is_empty() => {
            // This makes the import report the mechanism as unknown.
            Element::new("scram-credentials", SCRAM).with_attr("mechanism", mechanism)
        }
        Err(what) => damaged_element(format!("keys for {mechanism} that can't be used: {what}")),
    }
}

/// The parts of SCRAM keys, as texts.
#[derive(Clone, Copy)]
pub(super) struct CredentialTexts<'a> {
    pub hash: Hash,
    pub stored: &'a str,
    pub server: &'a str,
    pub salt: &'a str,
    pub iterations: &'a str,
}

impl CredentialTexts<'_> {
    /// Reads keys in Base64.
    pub fn base64(self) -> Element {
        let decode = |text: &str| STANDARD.decode(text.trim()).map_err(|_| "it isn't Base64".to_owned());
        let read = || self.whole(decode(self.stored)?, decode(self.server)?, decode(self.salt)?);
        keys(name(self.hash), read())
    }

    /// Reads keys in hexadecimal with a salt that isn't encoded, as Prosody stores them.
    pub fn hexadecimal(self) -> Element {
        let decode = |text: &str| hexadecimal(text).ok_or_else(|| "it isn't hexadecimal".to_owned());
        let read = || self.whole(decode(self.stored)?, decode(self.server)?, self.salt.as_bytes().to_vec());
        keys(name(self.hash), read())
    }

    fn whole(self, stored_key: Vec<u8>, server_key: Vec<u8>, salt: Vec<u8>) -> Result<Keys, String> {
        // Prosody also writes a number as 10000.0.
        let count = self.iterations.trim().trim_end_matches(".0").parse().ok().filter(|count| *count > 0);
        let iterations = count.ok_or("the number of iterations is impossible")?;
        let keys = Keys { hash: self.hash, salt, iterations, stored_key, server_key };
        let size = self.hash.size();
        match keys.stored_key.len() == size && keys.server_key.len() == size && !keys.salt.is_empty() {
            true => Ok(keys),
            false => Err("they have the wrong length".to_owned()),
        }
    }
}

/// Reads MongooseIM's format: `==SCRAM==,STORED,SERVER,SALT,COUNT`, or `==MULTI_SCRAM==,` with the
/// keys of several hashes, which have one salt in common or one each. Returns `None` if the text
/// has neither form.
pub(super) fn mongoose(details: &str) -> Option<Vec<Element>> {
    if let Some(rest) = details.strip_prefix("==SCRAM==,") {
        let [stored, server, salt, iterations] = rest.split(',').collect::<Vec<_>>().try_into().ok()?;
        return Some(vec![CredentialTexts { hash: Hash::Sha1, stored, server, salt, iterations }.base64()]);
    }
    let rest = details.strip_prefix("==MULTI_SCRAM==,")?;
    let (mut common, mut iterations, mut found) = ("", "", Vec::new());
    for part in rest.split(',') {
        match part.trim_start_matches('=') {
            hashed if hashed.starts_with("SHA") => found.push(hashed),
            count if !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()) => iterations = count,
            _ => common = part,
        }
    }
    Some(found.into_iter().map(|hashed| mongoose_keys(hashed, common, iterations)).collect())
}

/// Reads the keys of one hash: `SHA256===SALT|STORED|SERVER`, or without the salt if the hashes
/// have one in common.
fn mongoose_keys(hashed: &str, common: &str, iterations: &str) -> Element {
    let digits = hashed.trim_start_matches("SHA");
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    let (number, rest) = digits.split_at(end);
    // Base64 has `=` only at its end, so any in front don't belong to it.
    let parts: Vec<_> = rest.trim_start_matches('=').split('|').collect();
    let mechanism = format!("SCRAM-SHA-{number}");
    let Some((hash, _)) = MECHANISMS.iter().find(|(_, name)| *name == mechanism) else {
        return keys(&mechanism, Err(String::new()));
    };
    match parts.as_slice() {
        [salt, stored, server] => CredentialTexts { hash: *hash, stored, server, salt, iterations }.base64(),
        [stored, server] => CredentialTexts { hash: *hash, stored, server, salt: common, iterations }.base64(),
        _ => keys(&mechanism, Err("parts are missing".to_owned())),
    }
}

/// Returns the hash that keys of this length belong to.
pub(super) fn hash_of(bytes: usize) -> Option<Hash> {
    MECHANISMS.iter().map(|(hash, _)| *hash).find(|hash| hash.size() == bytes)
}

fn name(hash: Hash) -> &'static str {
    crate::parts::name_of(hash)
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .trim()
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::read_keys;
    use rookery_sasl::Credentials;

    #[test]
    fn all_forms_of_mongooseim_are_read() {
        let all = Credentials::derive("pencil", 7).expect("keys");
        let text = |bytes: &[u8]| STANDARD.encode(bytes);
        let (one, other) = (&all.sha1, &all.sha256);
        let own = |keys: &Keys| format!("{}|{}|{}", text(&keys.salt), text(&keys.stored_key), text(&keys.server_key));
        let details = format!("==MULTI_SCRAM==,7,===SHA1==={},==SHA224==x|y|z,==SHA256=={}", own(one), own(other));
        let read = mongoose(&details).expect("keys");
        assert_eq!([read_keys(&read[0]), read_keys(&read[2])], [Ok(one.clone()), Ok(other.clone())]);
        assert!(read_keys(&read[1]).is_err_and(|what| what.contains("SCRAM-SHA-224")));

        let same = Credentials { sha256: Keys { salt: one.salt.clone(), ..other.clone() }, ..all.clone() };
        let keyed = |keys: &Keys| format!("{}|{}", text(&keys.stored_key), text(&keys.server_key));
        let details =
            format!("==MULTI_SCRAM==,{},7,===SHA1==={},==SHA256=={}", text(&one.salt), keyed(one), keyed(&same.sha256));
        let read = mongoose(&details).expect("keys");
        assert_eq!([read_keys(&read[0]), read_keys(&read[1])], [Ok(one.clone()), Ok(same.sha256.clone())]);

        let details = format!("==SCRAM==,{},{},{},7", text(&one.stored_key), text(&one.server_key), text(&one.salt));
        assert_eq!(read_keys(&mongoose(&details).expect("keys")[0]).as_ref(), Ok(one));
        assert!(mongoose("").is_none() && mongoose("secret").is_none());
    }

    #[test]
    fn keys_of_prosody_are_hexadecimal() {
        let (stored, server) = ("261b920c3fb0598013c90f539fe064835aeda3de", "bbbc258902091e5331e58575e9d41292fa866f3d");
        let texts = CredentialTexts { hash: Hash::Sha1, stored, server, salt: "a-b", iterations: "10000" };
        let keys = read_keys(&texts.hexadecimal()).expect("keys");
        assert_eq!(
            (keys.stored_key[..2].to_vec(), keys.salt, keys.iterations),
            (vec![0x26, 0x1B], b"a-b".to_vec(), 10_000)
        );
        for bad in [
            CredentialTexts { stored: "26", ..texts },
            CredentialTexts { server: "zz", ..texts },
            CredentialTexts { iterations: "0", ..texts },
        ] {
            assert!(bad.hexadecimal().attr("what").is_some());
        }
    }
}
