//! The SASL mechanisms and which of them a stream is offered.

use crate::{ChannelBindings, Hash};

/// A SASL mechanism that Rookery speaks.
///
/// The order is by strength, weakest first: mechanisms with channel binding are stronger than those
/// without, then the hash decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// `ANONYMOUS` (RFC 4505): proves nothing, for domains that let everybody in.
    Anonymous,
    /// `OAUTHBEARER` (RFC 7628): a token of an authority that the domain trusts.
    OAuthBearer,
    /// `PLAIN` (RFC 4616): the password itself.
    Plain,
    /// `SCRAM-SHA-1` (RFC 5802), mandatory in RFC 6120 §13.8.
    ScramSha1,
    /// `SCRAM-SHA-256` (RFC 7677).
    ScramSha256,
    /// `SCRAM-SHA-512` (draft-melnikov-scram-sha-512).
    ScramSha512,
    /// `SCRAM-SHA-1-PLUS`: with channel binding.
    ScramSha1Plus,
    /// `SCRAM-SHA-256-PLUS`: with channel binding.
    ScramSha256Plus,
    /// `SCRAM-SHA-512-PLUS`: with channel binding.
    ScramSha512Plus,
}

impl Mechanism {
    /// All mechanisms that prove a password, strongest first: the order in which to announce them.
    pub const ALL: [Mechanism; 7] = [
        Mechanism::ScramSha512Plus,
        Mechanism::ScramSha256Plus,
        Mechanism::ScramSha1Plus,
        Mechanism::ScramSha512,
        Mechanism::ScramSha256,
        Mechanism::ScramSha1,
        Mechanism::Plain,
    ];

    /// Returns the name in the IANA registry.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Anonymous => "ANONYMOUS",
            Mechanism::OAuthBearer => "OAUTHBEARER",
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
            Mechanism::ScramSha1Plus => "SCRAM-SHA-1-PLUS",
            Mechanism::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Mechanism::ScramSha512Plus => "SCRAM-SHA-512-PLUS",
        }
    }

    /// Returns the mechanism of that name, if it is one of ours. Names are upper case (RFC 4422
    /// §3.1).
    pub fn from_name(name: &str) -> Option<Mechanism> {
        let others = [Mechanism::OAuthBearer, Mechanism::Anonymous];
        Mechanism::ALL.into_iter().chain(others).find(|mechanism| mechanism.name() == name)
    }

    /// Returns the SCRAM hash; `None` for the others.
    pub fn hash(self) -> Option<Hash> {
        match self {
            Mechanism::Anonymous | Mechanism::OAuthBearer | Mechanism::Plain => None,
            Mechanism::ScramSha1 | Mechanism::ScramSha1Plus => Some(Hash::Sha1),
            Mechanism::ScramSha256 | Mechanism::ScramSha256Plus => Some(Hash::Sha256),
            Mechanism::ScramSha512 | Mechanism::ScramSha512Plus => Some(Hash::Sha512),
        }
    }

    /// Returns whether the mechanism binds to the channel (`-PLUS`).
    pub fn binds(self) -> bool {
        self >= Mechanism::ScramSha1Plus
    }
}

/// Returns the mechanisms by password to offer on a stream, strongest first.
///
/// `bindings` are those of the connection: without any, no `-PLUS` mechanism. `plain` says whether
/// PLAIN may be offered, which RFC 6120 §13.8.4 wants only under TLS.
pub fn to_offer(bindings: &ChannelBindings, plain: bool) -> Vec<Mechanism> {
    let possible = |mechanism: &Mechanism| match mechanism {
        Mechanism::Plain => plain,
        other => !other.binds() || !bindings.is_empty(),
    };
    Mechanism::ALL.into_iter().filter(possible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::from_name(mechanism.name()), Some(mechanism));
            assert_eq!(mechanism.name().ends_with("-PLUS"), mechanism.binds());
            assert_eq!(mechanism.hash().is_none(), mechanism == Mechanism::Plain);
        }
        for mechanism in [Mechanism::Anonymous, Mechanism::OAuthBearer] {
            assert_eq!(Mechanism::from_name(mechanism.name()), Some(mechanism));
            assert!(!mechanism.binds() && mechanism.hash().is_none());
        }
        assert_eq!(Mechanism::from_name("scram-sha-1"), None);
    }

    #[test]
    fn announced_strongest_first() {
        assert!(Mechanism::ALL.is_sorted_by(|stronger, weaker| stronger > weaker));
    }

    #[test]
    fn bindings_and_tls_decide_the_offer() {
        let none = ChannelBindings::default();
        assert_eq!(to_offer(&none, false), [Mechanism::ScramSha512, Mechanism::ScramSha256, Mechanism::ScramSha1]);
        let bound = ChannelBindings { server_end_point: Some(vec![1; 32]), exporter: None };
        assert_eq!(to_offer(&bound, true), Mechanism::ALL);
        assert!(!to_offer(&bound, false).contains(&Mechanism::Plain));
    }
}
