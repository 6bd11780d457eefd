//! Keys and elements of dialback (XEP-0220, XEP-0185).
//!
//! A key proves only that its maker has the secret: it includes the pair of domains and the id of
//! the stream, so it is valid for one pair on one stream, and it can be checked without being
//! remembered.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use rookery_base::hex;
use rookery_stream::error::Condition;
use rookery_xml::{Element, Writer, escape_attr, escape_text, ns};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::inbound::{Ours, domain};
use crate::settings::FederationSettings;

/// The secret for this installation's keys: all its machines have the same one.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret, which must have at least 128 bits (XEP-0185 §4).
    pub fn new(secret: &[u8]) -> Self {
        Self(hex::encode(Sha256::digest(secret)))
    }

    /// Makes the key for the right to send from `originating` to `receiving` on a stream (XEP-0185
    /// §3).
    pub fn key(&self, receiving: &str, originating: &str, stream: &str) -> String {
        let mut hash = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).expect("HMAC takes keys of any length");
        hash.update(receiving.as_bytes());
        hash.update(b" ");
        hash.update(originating.as_bytes());
        hash.update(b" ");
        hash.update(stream.as_bytes());
        hex::encode(hash.finalize().into_bytes())
    }

    /// Returns whether a key is the one for this pair and stream. Takes the same time for every
    /// wrong key.
    pub fn verify(&self, key: &str, receiving: &str, originating: &str, stream: &str) -> bool {
        // The fields are separated by spaces: with a space in one of them, different fields could
        // have the same key.
        if [receiving, originating, stream].iter().any(|field| field.contains(' ')) {
            return false;
        }
        let own = self.key(receiving, originating, stream);
        own.as_bytes().ct_eq(key.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    /// Hides the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The content of a dialback element: a pair of domains as they are written, and the key or answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialback {
    pub from: String,
    pub to: String,
    pub id: Option<String>,
    /// `None` for a question.
    pub answer: Option<DialbackAnswer>,
    /// The key of a question.
    pub key: String,
}

/// The `type` of an answer (XEP-0220 §2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DialbackAnswer {
    /// The key is right.
    Valid,
    /// The key is wrong.
    Invalid,
    /// The check failed (§2.5).
    Error,
}

impl Dialback {
    /// Reads `<db:result/>` or `<db:verify/>`. `None` without both addresses, or if the key, which
    /// would have to be passed on, is longer than any in use.
    pub(crate) fn read(element: &Element) -> Option<Self> {
        let key = element.text().trim().to_owned();
        let id = element.attr("id").map(str::to_owned);
        if key.len() > MAX_KEY || id.as_ref().is_some_and(|id| id.len() > MAX_KEY) {
            return None;
        }
        let answer = match element.attr("type") {
            None => None,
            Some("valid") => Some(DialbackAnswer::Valid),
            Some("invalid") => Some(DialbackAnswer::Invalid),
            Some(_) => Some(DialbackAnswer::Error),
        };
        let (from, to) = (element.attr("from")?.to_owned(), element.attr("to")?.to_owned());
        Some(Self { from, to, id, answer, key })
    }
}

/// One of the two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Result,
    Verify,
}

impl Name {
    fn as_str(self) -> &'static str {
        match self {
            // Other servers accept no prefix but this one.
            Self::Result => "db:result",
            Self::Verify => "db:verify",
        }
    }
}

/// Appends a question. The stream's header has declared the prefix.
pub(crate) fn ask(name: Name, from: &str, to: &str, id: Option<&str>, key: &str, out: &mut Vec<u8>) {
    open(name, [("from", Some(from)), ("to", Some(to)), ("id", id)], out);
    out.push(b'>');
    out.extend_from_slice(escape_text(key).as_bytes());
    out.extend_from_slice(format!("</{}>", name.as_str()).as_bytes());
}

/// Appends an answer: `Ok(true)` for a right key, `Ok(false)` for a wrong one, or the reason why
/// that is unknown (XEP-0220 §2.5).
pub(crate) fn answer(
    name: Name,
    from: &str,
    to: &str,
    id: Option<&str>,
    outcome: &Result<bool, Condition>,
    out: &mut Vec<u8>,
) {
    let type_ = match outcome {
        Ok(true) => "valid",
        Ok(false) => "invalid",
        Err(_) => "error",
    };
    open(name, [("from", Some(from)), ("to", Some(to)), ("id", id)], out);
    out.extend_from_slice(format!(" type='{type_}'").as_bytes());
    let Err(condition) = outcome else { return out.extend_from_slice(b"/>") };
    let mut error = Writer::new("error");
    error.attr("type", "cancel").start_ns(condition.name(), ns::STANZA_ERRORS).end();
    out.push(b'>');
    out.extend_from_slice(error.finish().bytes());
    out.extend_from_slice(format!("</{}>", name.as_str()).as_bytes());
}

/// Answers another server's question whether a key is ours (XEP-0220 §2.1.2). Returns `false` if it
/// lacks an address.
pub(crate) fn confirm(question: &Element, settings: &FederationSettings, ours: &dyn Ours, out: &mut Vec<u8>) -> bool {
    let (Some(from), Some(to)) = (question.attr("from"), question.attr("to")) else { return false };
    let outcome = match (domain(from), domain(to), Dialback::read(question)) {
        (_, Ok(own), _) if !settings.shows(&own, ours) => Err(Condition::ItemNotFound),
        (Ok(receiving), Ok(own), _) if !settings.admits(&own, &receiving) => Err(Condition::PolicyViolation),
        (Ok(receiving), Ok(own), Some(Dialback { id: Some(id), key, .. })) => {
            Ok(settings.secret.verify(&key, &receiving, &own, &id))
        }
        _ => Ok(false),
    };
    answer(Name::Verify, to, from, question.attr("id"), &outcome, out);
    true
}

/// Appends the start of a dialback element. The writer doesn't know the prefix, which the stream's
/// header has declared.
fn open<'a>(name: Name, attributes: impl IntoIterator<Item = (&'static str, Option<&'a str>)>, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("<{}", name.as_str()).as_bytes());
    for (attribute, value) in attributes {
        if let Some(value) = value {
            out.extend_from_slice(format!(" {attribute}='{}'", escape_attr(value)).as_bytes());
        }
    }
}

/// The most bytes of a key, or of a stream's id, that are checked or passed on.
const MAX_KEY: usize = 255;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// XEP-0185 §3 and XEP-0220 §2.1.1, §2.2.2.
    #[test]
    fn keys_are_those_of_the_standards() {
        let cases = [
            (
                "s3cr3tf0rd14lb4ck",
                "xmpp.example.com",
                "example.org",
                "D60000229F",
                "37c69b1cf07a3f67c04a5ef5902fa5114f2c76fe4a2686482ba5b89323075643",
            ),
            (
                "s3cr3tf0rd14lb4ck",
                "montague.example",
                "capulet.example",
                "D60000229F",
                "b4835385f37fe2895af6c196b59097b16862406db80559900d96bf6fa7d23df3",
            ),
            (
                "d14lb4ck43v3r",
                "capulet.example",
                "montague.example",
                "417GAF25",
                "225cc5aa6a071133249d25fef42ae516fc7a86c523aa1c6980a7f73e784c972d",
            ),
        ];
        for (secret, receiving, originating, id, key) in cases {
            assert_eq!(Secret::new(secret.as_bytes()).key(receiving, originating, id), key);
        }
    }

    #[test]
    fn names_with_spaces_prove_nothing() {
        let secret = Secret::new(b"0123456789abcdef");
        let key = secret.key("a b", "c", "d");
        assert_eq!(key, secret.key("a", "b c", "d"), "which is why");
        assert!(!secret.verify(&key, "a b", "c", "d") && !secret.verify(&key, "a", "b c", "d"));
    }

    #[test]
    fn overlong_keys_are_not_passed_on() {
        let of =
            |key: &str| Element::new("result", ns::DIALBACK).with_attr("from", "a").with_attr("to", "b").with_text(key);
        assert!(Dialback::read(&of(&"k".repeat(255))).is_some());
        assert_eq!(Dialback::read(&of(&"k".repeat(256))), None);
        assert!(Dialback::read(&of("k").with_attr("id", "i".repeat(255))).is_some());
        assert_eq!(Dialback::read(&of("k").with_attr("id", "i".repeat(256))), None);
    }

    proptest! {
        /// A key is valid for one pair on one stream.
        #[test]
        fn another_pair_or_stream_has_another_key(
            one in ("[a-c.]{1,4}", "[a-c.]{1,4}", "[a-c]{1,4}"),
            other in ("[a-c.]{1,4}", "[a-c.]{1,4}", "[a-c]{1,4}"),
        ) {
            let secret = Secret::new(b"0123456789abcdef");
            let key = secret.key(&one.0, &one.1, &one.2);
            prop_assert_eq!(secret.verify(&key, &other.0, &other.1, &other.2), one == other);
        }
    }
}
