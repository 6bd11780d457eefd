//! SCRAM downgrade protection (XEP-0474 version 0.5.0).
//!
//! Server and client hash the lists of mechanisms and channel-binding types as the one announced
//! and the other received them. The hash is in the attribute `h` of the server-first message,
//! which the client's proof and the server's signature cover, so nobody in the middle can shorten
//! the lists and repair the hash.

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::Hash;

/// Returns the value of the attribute `h`, for lists in any order. `binding_types` is `None` if
/// XEP-0440 was not announced at all.
pub(crate) fn attribute(hash: Hash, mechanisms: &[&str], binding_types: Option<&[&str]>) -> String {
    let mut text = sorted_and_joined(mechanisms);
    if let Some(types) = binding_types {
        text.push(BETWEEN_LISTS);
        text.push_str(&sorted_and_joined(types));
    }
    STANDARD.encode(hash.digest(text.as_bytes()))
}

fn sorted_and_joined(names: &[&str]) -> String {
    let mut names = names.to_vec();
    // Strings compare by their bytes, which is the "i;octet" collation that the XEP asks for.
    names.sort_unstable();
    names.join(BETWEEN_NAMES)
}

/// Neither delimiter is an XML character, so no announced name can contain one.
const BETWEEN_NAMES: &str = "\x1e";
const BETWEEN_LISTS: char = '\x1f';

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in XEP-0474 §6.3, whose lists are announced in another order than they are
    /// hashed.
    #[test]
    fn example_of_the_xep() {
        let mechanisms = ["SCRAM-SHA-1-PLUS", "SCRAM-SHA-1"];
        let types = ["tls-server-end-point", "tls-exporter"];
        assert_eq!(attribute(Hash::Sha1, &mechanisms, Some(&types)), "G6k/rBLDqgOhRRaCuuatSDFkJ08=");
    }

    #[test]
    fn an_empty_announcement_is_not_none() {
        assert_ne!(attribute(Hash::Sha256, &["PLAIN"], Some(&[])), attribute(Hash::Sha256, &["PLAIN"], None));
    }
}
