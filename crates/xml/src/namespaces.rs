//! Namespaces that a stanza may name, in eight bytes: noted while it is scanned, so that code
//! looking for a rare one needn't read it again.

use std::ops::BitOr;
use std::sync::LazyLock;

use memchr::memmem;

/// A set of namespaces that may hold more than was put in, and never less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces(u64);

impl Namespaces {
    /// The set without any namespace.
    pub const NONE: Self = Self(0);

    /// Returns a set that has these namespaces, and perhaps others that share a bit with one of
    /// them.
    pub const fn of(names: &[&str]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < names.len() {
            set |= bit(names[at].as_bytes());
            at += 1;
        }
        Self(set)
    }

    /// Returns the namespaces that the declarations in these bytes name, which are well-formed XML.
    pub fn in_bytes(bytes: &[u8]) -> Self {
        let mut set = Self::NONE;
        for at in DECLARATIONS.find_iter(bytes) {
            let rest = bytes.get(at + DECLARATION.len()..).unwrap_or_default();
            let Some(open) = memchr::memchr2(b'\'', b'"', rest) else { continue };
            let value = rest.get(open + 1..).unwrap_or_default();
            let end = rest.get(open).and_then(|&quote| memchr::memchr(quote, value)).unwrap_or(value.len());
            set.note(value.get(..end).unwrap_or_default());
        }
        set
    }

    /// Returns whether this set may contain any of the others.
    #[inline]
    pub const fn may_have(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    /// Adds the namespace that a declaration gives, as it is written.
    #[inline(always)]
    pub(crate) fn note(&mut self, written: &[u8]) {
        // A name with references could be any namespace.
        self.0 |= if written.contains(&b'&') { u64::MAX } else { bit(written) };
    }
}

impl BitOr for Namespaces {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Returns the place of a name. Those of one protocol differ in their ends, those of one age in
/// their lengths.
const fn bit(name: &[u8]) -> u64 {
    let len = name.len();
    if len < 3 {
        return 1;
    }
    let mixed = len as u64 * 0x9E37
        + name[len - 1] as u64 * 0x85EB
        + name[len / 2] as u64 * 0xC2B3
        + name[len - 3] as u64 * 0x27D5;
    1 << (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
}

const DECLARATION: &[u8] = b"xmlns";
/// The searcher for declarations, built once: building it takes longer than searching a child.
static DECLARATIONS: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(DECLARATION));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Stanza, ns};

    fn scan(text: &str) -> Namespaces {
        Stanza::parse(text.as_bytes(), &Limits::AFTER_LOGIN).unwrap().namespaces()
    }

    #[test]
    fn what_a_stanza_declares_is_found_wherever_it_is() {
        let carbons = Namespaces::of(&[ns::CARBONS]);
        for text in [
            "<message><private xmlns='urn:xmpp:carbons:2'/></message>",
            "<message><a><private xmlns = \"urn:xmpp:carbons:2\"/></a></message>",
            "<message xmlns:c='urn:xmpp:carbons:2'><c:private/></message>",
            "<message><private xmlns='urn:xmpp:c&#97;rbons:2'/></message>",
        ] {
            assert!(scan(text).may_have(carbons), "{text}");
            assert!(Namespaces::in_bytes(text.as_bytes()).may_have(carbons), "{text}");
        }
        let without =
            "<message><body>urn:xmpp:carbons:2</body><active xmlns='http://jabber.org/protocol/chatstates'/></message>";
        assert!(!scan(without).may_have(carbons));
    }

    #[test]
    fn names_that_are_asked_for_are_apart_from_those_of_every_message() {
        let common = Namespaces::of(&[ns::CLIENT, ns::CHAT_STATES, ns::RECEIPTS, ns::MARKERS, ns::STANZA_ID]);
        for rare in [ns::CARBONS, ns::HINTS, ns::MAM] {
            assert!(!common.may_have(Namespaces::of(&[rare])), "{rare}");
        }
    }
}
