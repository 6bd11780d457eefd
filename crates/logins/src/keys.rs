//! The keys of an issuer, and what a token says that one of them has signed (RFC 7519).

use std::fmt;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode};
use serde_json::{Map, Value};

/// The claims of a token, by name.
pub type Claims = Map<String, Value>;

/// A set of keys.
#[derive(Default)]
pub struct Keys(Vec<Key>);

struct Key {
    id: Option<String>,
    key: DecodingKey,
    /// A token's own word for its algorithm counts only if its key is for that.
    algorithms: Vec<Algorithm>,
}

/// The terms on which a token is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Believed {
    /// The issuer, as it names itself.
    pub issuer: String,
    /// Those for whom a token may be made; one of them has to be named in it.
    pub audience: Vec<String>,
    /// The claim that has the name of the user.
    pub claim: String,
    /// The domain that a name with an `@` has to be of.
    pub domain: String,
}

impl Keys {
    /// Reads a set of keys (RFC 7517 §5). Those that can't sign tokens, or that the library doesn't
    /// know, are left out; secret ones (`oct`) as well, since no issuer publishes them.
    ///
    /// # Errors
    /// It is no set of keys.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let set: Value = serde_json::from_slice(json).map_err(|error| format!("this is no set of keys: {error}"))?;
        let listed = set.get("keys").and_then(Value::as_array).ok_or("this is no set of keys: it has no `keys`")?;
        // One by one: a key of a new kind must not take the others with it.
        let read = |key: &Value| serde_json::from_value::<Jwk>(key.clone()).ok();
        let set = JwkSet { keys: listed.iter().take(MOST_KEYS).filter_map(read).collect() };
        Ok(Self(set.keys.iter().filter_map(Key::of).collect()))
    }

    /// Returns whether there is a key that a token with this header may be signed with.
    pub fn have(&self, header: &Header) -> bool {
        self.0.iter().any(|key| key.may_have_signed(header))
    }

    /// Returns the claims of a token.
    ///
    /// # Errors
    /// The reason why it isn't believed, in words for the log.
    pub fn claims(&self, token: &str, header: &Header, believed: &Believed) -> Result<Claims, String> {
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&believed.issuer]);
        validation.set_audience(&believed.audience);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.validate_nbf = true;
        let mut why = "no key is for it".to_owned();
        for key in self.0.iter().filter(|key| key.may_have_signed(header)) {
            match decode::<Claims>(token, &key.key, &validation) {
                Ok(token) => return Ok(token.claims),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }
}

impl Key {
    fn of(jwk: &Jwk) -> Option<Self> {
        if jwk.common.public_key_use.as_ref().is_some_and(|use_| *use_ != PublicKeyUse::Signature) {
            return None;
        }
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
            _ => return None,
        };
        let named = jwk.common.key_algorithm.as_ref().map(|named| format!("{named:?}"));
        let is_its = |one: &&Algorithm| named.as_ref().is_none_or(|named| *named == format!("{one:?}"));
        let algorithms: Vec<Algorithm> = fitting.iter().filter(is_its).copied().collect();
        let key = DecodingKey::from_jwk(jwk).ok().filter(|_| !algorithms.is_empty())?;
        Some(Self { id: jwk.common.key_id.clone(), key, algorithms })
    }

    fn may_have_signed(&self, header: &Header) -> bool {
        let has_name = header.kid.is_none() || self.id.is_none() || self.id == header.kid;
        has_name && self.algorithms.contains(&header.alg)
    }
}

impl Believed {
    /// Returns the user whom claims name.
    ///
    /// # Errors
    /// The reason why it is nobody of the domain, in words for the log.
    pub fn user(&self, claims: &Claims) -> Result<String, String> {
        let claim = &self.claim;
        let Some(named) = claims.get(claim).and_then(Value::as_str).filter(|named| !named.is_empty()) else {
            return Err(format!("it has no claim {claim:?}"));
        };
        if claim == EMAIL && claims.get("email_verified") != Some(&Value::Bool(true)) {
            return Err("nobody has seen whether its address is the user's (`email_verified`)".to_owned());
        }
        match named.split_once('@') {
            None => Ok(named.to_owned()),
            Some((name, domain)) if domain.eq_ignore_ascii_case(&self.domain) && !name.is_empty() => {
                Ok(name.to_owned())
            }
            Some(_) => Err(format!("its user {named:?} is of another domain")),
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

/// The claim with an address that anybody can give until it is verified (OpenID Connect Core §5.1).
const EMAIL: &str = "email";
/// Keys of one set: issuers have a handful.
const MOST_KEYS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn believed(claim: &str) -> Believed {
        Believed {
            issuer: "https://issuer.example".into(),
            audience: vec!["chat".into()],
            claim: claim.into(),
            domain: "example.org".into(),
        }
    }

    fn user(claim: &str, claims: &str) -> Result<String, String> {
        believed(claim).user(&serde_json::from_str(claims).unwrap())
    }

    #[test]
    fn users_are_of_the_domain() {
        assert_eq!(user("preferred_username", r#"{"preferred_username": "juliet"}"#).as_deref(), Ok("juliet"));
        assert_eq!(user("upn", r#"{"upn": "juliet@Example.org"}"#).as_deref(), Ok("juliet"));
        for other in [
            r#"{}"#,
            r#"{"upn": ""}"#,
            r#"{"upn": 7}"#,
            r#"{"upn": "juliet@evil.example"}"#,
            r#"{"upn": "@example.org"}"#,
        ] {
            assert!(user("upn", other).is_err(), "{other}");
        }
        let mail = |verified: &str| format!(r#"{{"email": "juliet@example.org"{verified}}}"#);
        assert!(user("email", &mail("")).is_err() && user("email", &mail(r#", "email_verified": false"#)).is_err());
        assert_eq!(user("email", &mail(r#", "email_verified": true"#)).as_deref(), Ok("juliet"));
    }

    #[test]
    fn keys_that_are_not_for_tokens_are_left_out() {
        let rsa = |more: &str| format!(r#"{{"kty": "RSA", "n": "AQAB", "e": "AQAB"{more}}}"#);
        let set = |keys: &[String]| format!(r#"{{"keys": [{}]}}"#, keys.join(", "));
        let read = |keys: &[String]| Keys::read(set(keys).as_bytes()).unwrap().0.len();
        assert_eq!(read(&[rsa(r#", "use": "sig""#), rsa("")]), 2);
        assert_eq!(read(&[rsa(r#", "use": "enc""#), rsa(r#", "alg": "RSA-OAEP""#)]), 0);
        assert_eq!(read(&[r#"{"kty": "oct", "k": "AQAB"}"#.into(), r#"{"kty": "new"}"#.into(), rsa("")]), 1);
        assert!(Keys::read(b"{}").is_err() && Keys::read(b"nothing").is_err());
    }
}
