//! Limits for one stanza.

/// The limits of one stanza or stream header. The scanner's own arrays are of fixed size, so that
/// values above [`AFTER_LOGIN`](Self::AFTER_LOGIN)'s count as those, except for `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole item, at most 4 GiB. RFC 6120 §13.12 forbids less than 10 000.
    pub bytes: usize,
    /// Nested elements; a stanza without children has depth 1. At most 32.
    pub depth: usize,
    /// Attributes of one element, namespace declarations included. At most 64.
    pub attributes: usize,
    /// Prefixes bound at a time by the stanza itself. At most 32.
    pub namespaces: usize,
}

impl Limits {
    /// The limits for a peer that hasn't authenticated.
    pub const BEFORE_LOGIN: Self = Self { bytes: 10_000, ..Self::AFTER_LOGIN };
    /// The limits for a peer that has authenticated.
    pub const AFTER_LOGIN: Self =
        Self { bytes: 262_144, depth: MAX_DEPTH, attributes: MAX_ATTRIBUTES, namespaces: MAX_NAMESPACES };
}

impl Limits {
    /// Returns the bytes that a stanza's namespaces may take if each element and attribute that
    /// needs one names it. With prefixes a short stanza can stand for a long one; a stanza that is
    /// written again, or an element taken out of its stanza, must stay in proportion to the input.
    pub(crate) fn spelled_out(&self) -> usize {
        self.bytes.saturating_mul(4)
    }
}

/// The most bytes of a namespace name as written. No namespace in use has more than a fifth of
/// this.
pub const MAX_NAMESPACE: usize = 1024;
pub(crate) const MAX_DEPTH: usize = 32;
pub(crate) const MAX_ATTRIBUTES: usize = 64;
pub(crate) const MAX_NAMESPACES: usize = 32;
