//! Tokens (JWT, RFC 7519) by which clients of gRPC prove who they are, checked against keys that
//! the operator has.

use std::fmt;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;

use super::acceptor::Peer;

/// Keys of an issuer of tokens.
pub struct IssuerKeys {
    keys: Vec<Key>,
    issuer: String,
    audience: Option<String>,
    realm: String,
}

struct Key {
    id: Option<String>,
    key: DecodingKey,
    /// A token's own word for its algorithm counts only if its key is for that.
    algorithms: Vec<Algorithm>,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
}

impl IssuerKeys {
    /// Reads a set of keys (JWK Set, RFC 7517 §5). Tokens count that `issuer` made, for `audience`
    /// if there is one; the principal of one is its subject at `realm`, or at the issuer.
    ///
    /// # Errors
    /// Words that say what is wrong: it is no set of keys, or there is none in it that tokens can
    /// be checked with.
    pub fn read(text: &str, issuer: &str, audience: Option<&str>, realm: Option<&str>) -> Result<Self, String> {
        let set: JwkSet = serde_json::from_str(text).map_err(|error| format!("this is no set of keys: {error}"))?;
        let mut keys = Vec::new();
        for jwk in &set.keys {
            let fitting: &[Algorithm] = match &jwk.algorithm {
                AlgorithmParameters::RSA(_) => &[
                    Algorithm::RS256,
                    Algorithm::RS384,
                    Algorithm::RS512,
                    Algorithm::PS256,
                    Algorithm::PS384,
                    Algorithm::PS512,
                ],
                AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Algorithm::ES256],
                AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Algorithm::ES384],
                AlgorithmParameters::OctetKeyPair(_) => &[Algorithm::EdDSA],
                AlgorithmParameters::OctetKey(_) => &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512],
                // Keys for other things may be in the same set.
                _ => continue,
            };
            let named = jwk.common.key_algorithm.as_ref().map(|named| format!("{named:?}"));
            let is_its = |one: &&Algorithm| named.as_ref().is_none_or(|named| *named == format!("{one:?}"));
            let algorithms: Vec<Algorithm> = fitting.iter().filter(is_its).copied().collect();
            if algorithms.is_empty() {
                continue;
            }
            let key = DecodingKey::from_jwk(jwk).map_err(|error| format!("a key can't be used: {error}"))?;
            keys.push(Key { id: jwk.common.key_id.clone(), key, algorithms });
        }
        if keys.is_empty() {
            return Err("there is no key in it that tokens can be checked with".to_owned());
        }
        let (issuer, audience) = (issuer.to_owned(), audience.map(str::to_owned));
        Ok(Self { keys, realm: realm.unwrap_or(&issuer).to_owned(), issuer, audience })
    }

    /// Checks a token at a time, in seconds since 1970: signature, issuer, audience, and that it is
    /// neither too early nor too late for it.
    ///
    /// # Errors
    /// The reason in words, for our log.
    pub fn check(&self, token: &str, now: u64) -> Result<Peer, String> {
        let header = decode_header(token).map_err(|error| error.to_string())?;
        let is_it = |key: &&Key| {
            let has_name = header.kid.is_none() || key.id.is_none() || key.id == header.kid;
            has_name && key.algorithms.contains(&header.alg)
        };
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&self.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "sub"]);
        validation.validate_nbf = true;
        match &self.audience {
            Some(audience) => validation.set_audience(&[audience]),
            None => validation.validate_aud = false,
        }
        let mut why = "no key is for it".to_owned();
        for key in self.keys.iter().filter(is_it) {
            match decode::<Claims>(token, &key.key, &validation) {
                Ok(token) if token.claims.sub.is_empty() || self.is_other(&token.claims.sub) => {
                    return Err(format!("its subject {:?} is of another realm", token.claims.sub));
                }
                Ok(token) => {
                    let Claims { sub, exp } = token.claims;
                    let name = sub.split_once('@').map_or(sub.as_str(), |(name, _)| name);
                    let good_for = Some(exp.saturating_sub(now).saturating_mul(1000));
                    return Ok(Peer { principal: format!("{name}@{}", self.realm), good_for });
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    /// Returns true for a subject that names a realm which isn't ours.
    fn is_other(&self, subject: &str) -> bool {
        subject.split_once('@').is_some_and(|(_, realm)| realm != self.realm)
    }
}

impl fmt::Debug for IssuerKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tokens of {:?} with {} keys", self.issuer, self.keys.len())
    }
}
