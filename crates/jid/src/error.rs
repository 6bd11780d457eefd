//! Faults of an address, all of them made by its author.

use std::fmt;

/// The reason why a text isn't an XMPP address. In a stanza this calls for `<jid-malformed/>` (RFC
/// 6120 §8.3.3.8), in a stream header for `<improper-addressing/>` (RFC 6120 §4.9.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JidError {
    /// The localpart before the `@` is empty.
    EmptyLocal,
    /// There is no domainpart, or a label of it is empty.
    EmptyDomain,
    /// The resourcepart after the `/` is empty.
    EmptyResource,
    /// The localpart has more than 1023 bytes once prepared (RFC 7622 §3.3).
    LocalTooLong,
    /// The domainpart has more than 1023 bytes once prepared (RFC 7622 §3.2).
    DomainTooLong,
    /// The resourcepart has more than 1023 bytes once prepared (RFC 7622 §3.4).
    ResourceTooLong,
    /// The localpart holds a forbidden character.
    InvalidLocal,
    /// The domainpart is neither a domain name nor an IP literal.
    InvalidDomain,
    /// The resourcepart holds a forbidden character.
    InvalidResource,
}

impl fmt::Display for JidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyLocal => "the localpart is empty",
            Self::EmptyDomain => "the domainpart or one of its labels is empty",
            Self::EmptyResource => "the resourcepart is empty",
            Self::LocalTooLong => "the localpart is longer than 1023 bytes",
            Self::DomainTooLong => "the domainpart is longer than 1023 bytes",
            Self::ResourceTooLong => "the resourcepart is longer than 1023 bytes",
            Self::InvalidLocal => "the localpart holds a forbidden character",
            Self::InvalidDomain => "the domainpart is not a domain name",
            Self::InvalidResource => "the resourcepart holds a forbidden character",
        })
    }
}

impl std::error::Error for JidError {}
