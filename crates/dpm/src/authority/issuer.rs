//! Tokens (JWT, RFC 7519) by which clients of gRPC prove their identity, checked against keys of
//! the operator.

use std::fmt;

use rookery_tokens::{ShownToken, TokenKeys, TokenTerms, end};
use serde_json::Value;

use super::acceptor::ProvenPeer;

/// Keys of an issuer of tokens.
pub struct IssuerKeys {
    keys: TokenKeys,
    issuer: String,
    audience: Option<[String; 1]>,
    realm: String,
}

impl IssuerKeys {
    /// Reads a set of keys (JWK Set, RFC 7517 §5). A token is valid if it is from `issuer` and, if
    /// there is one, for `audience`; its principal is its subject at `realm`, or at the issuer.
    ///
    /// # Errors
    /// A description of the fault: the text is no set of keys, a key can't be used, or none can
    /// check tokens.
    pub fn read(text: &str, issuer: &str, audience: Option<&str>, realm: Option<&str>) -> Result<Self, String> {
        let keys = TokenKeys::read_written(text.as_bytes())?;
        let (issuer, audience) = (issuer.to_owned(), audience.map(|audience| [audience.to_owned()]));
        Ok(Self { keys, realm: realm.unwrap_or(&issuer).to_owned(), issuer, audience })
    }

    /// Checks a token at a time in seconds since 1970: its signature, issuer, audience and period
    /// of validity.
    ///
    /// # Errors
    /// The reason, as a text for our log.
    pub fn check(&self, token: &str, now: u64) -> Result<ProvenPeer, String> {
        let terms = TokenTerms { issuer: &self.issuer, audience: self.audience.as_ref().map(<[String; 1]>::as_slice) };
        let claims = self.keys.claims(&ShownToken::read(token)?, terms)?;
        let subject = claims.get("sub").and_then(Value::as_str).ok_or("it has no subject")?;
        if subject.is_empty() || self.is_other(subject) {
            return Err(format!("its subject {subject:?} is of another realm"));
        }
        let name = subject.split_once('@').map_or(subject, |(name, _)| name);
        let good_for = end(&claims).map(|end| end.saturating_sub(now).saturating_mul(1000));
        Ok(ProvenPeer { principal: format!("{name}@{}", self.realm), good_for })
    }

    /// Returns true for a subject that names a realm other than ours.
    fn is_other(&self, subject: &str) -> bool {
        subject.split_once('@').is_some_and(|(_, realm)| realm != self.realm)
    }
}

impl fmt::Debug for IssuerKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tokens of {:?} with {:?}", self.issuer, self.keys)
    }
}
