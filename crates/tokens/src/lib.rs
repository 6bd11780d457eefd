//! Verifies tokens (JWT, RFC 7519) with the keys of their issuers (JWK Set, RFC 7517).
//!
//! Tokens are accepted in two places: for logins of chat clients, with keys that an issuer
//! publishes, and by DPM, with keys that the operator has. The rules for a valid signature are
//! here, once.
//!
//! # Invariants
//!
//! - The algorithm that a token names counts only if there is a key for that algorithm (RFC 8725
//!   §3.1): no public key is used as if it were a secret, and unsigned tokens are refused.
//! - A key for purposes other than signatures verifies no token.
//! - Secret keys count only in a set that the operator has written.
//! - A token without an issuer and an expiry is never accepted.

use std::fmt;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde_json::{Map, Value};

/// The claims of a token, by name.
pub type Claims = Map<String, Value>;

/// A token that somebody shows, about which nothing is proven yet.
#[derive(Debug)]
pub struct ShownToken<'t> {
    text: &'t str,
    header: Header,
}

/// The keys with which an issuer signs. Without any key, no token is believed.
#[derive(Default)]
pub struct TokenKeys(Vec<Key>);

struct Key {
    id: Option<String>,
    key: DecodingKey,
    algorithms: Vec<Algorithm>,
}

/// The terms on which a token is believed, besides its signature and its times.
#[derive(Debug, Clone, Copy)]
pub struct TokenTerms<'a> {
    /// The issuer that the token must name (`iss`).
    pub issuer: &'a str,
    /// The audience: the token must name one of these (`aud`). `None` accepts tokens for anybody.
    pub audience: Option<&'a [String]>,
}

impl<'t> ShownToken<'t> {
    /// Reads the header of a token.
    ///
    /// # Errors
    ///
    /// It isn't a JWT, or it names an algorithm that the library doesn't know. The text is for the
    /// log.
    pub fn read(text: &'t str) -> Result<Self, String> {
        let header = decode_header(text).map_err(|error| error.to_string())?;
        Ok(Self { text, header })
    }
}

impl TokenKeys {
    /// Reads a set of keys that an issuer publishes (RFC 7517 §5). Keys that can't sign tokens or
    /// that the library doesn't know are left out, and so are secret ones (`oct`), since no issuer
    /// publishes them.
    ///
    /// # Errors
    ///
    /// It isn't a set of keys.
    pub fn read_published(json: &[u8]) -> Result<Self, String> {
        let listed = list_keys(json)?;
        // Each key is read separately: a key of a new kind must not make the others unusable.
        let read = |key: &Value| {
            let key = serde_json::from_value::<Jwk>(key.clone()).ok()?;
            let fitting = fitting(&key, false);
            Key::of(&key, fitting).ok().flatten()
        };
        Ok(Self(listed.iter().take(MOST_KEYS).filter_map(read).collect()))
    }

    /// Reads a set of keys that the operator has written. It may contain secret keys, and keys for
    /// other purposes.
    ///
    /// # Errors
    ///
    /// The text says what is wrong: it isn't a set of keys, a key of a known kind can't be used, or
    /// no key in it can verify tokens.
    pub fn read_written(json: &[u8]) -> Result<Self, String> {
        let mut keys = Vec::new();
        for key in list_keys(json)? {
            let is_known = key.get("kty").and_then(Value::as_str).is_some_and(|kind| KINDS.contains(&kind));
            let unusable = |error: &dyn fmt::Display| format!("a key can't be used: {error}");
            match serde_json::from_value::<Jwk>(key) {
                Ok(Jwk { algorithm: AlgorithmParameters::Other(_), .. }) if is_known => {
                    return Err(unusable(&"it lacks what a key of its kind needs"));
                }
                Ok(key) => keys.extend(Key::of(&key, fitting(&key, true)).map_err(|error| unusable(&error))?),
                Err(error) if is_known => return Err(unusable(&error)),
                Err(_) => {}
            }
        }
        match keys.is_empty() {
            true => Err("there is no key in it that tokens can be checked with".to_owned()),
            false => Ok(Self(keys)),
        }
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is a key that a token may be signed with, by the token's own header.
    pub fn have(&self, token: &ShownToken<'_>) -> bool {
        self.0.iter().any(|key| key.may_have_signed(&token.header))
    }

    /// Returns the claims of a token that is signed with one of these keys, comes from this issuer,
    /// is for this audience, and is valid at this time.
    ///
    /// # Errors
    ///
    /// The reason why it isn't believed, as a text for the log.
    pub fn claims(&self, token: &ShownToken<'_>, terms: TokenTerms<'_>) -> Result<Claims, String> {
        let mut validation = Validation::new(token.header.alg);
        validation.set_issuer(&[terms.issuer]);
        validation.validate_nbf = true;
        match terms.audience {
            Some(audience) => {
                validation.set_audience(audience);
                validation.set_required_spec_claims(&["exp", "iss", "aud"]);
            }
            None => {
                validation.validate_aud = false;
                validation.set_required_spec_claims(&["exp", "iss"]);
            }
        }
        let mut why = "no key matches it".to_owned();
        for key in self.0.iter().filter(|key| key.may_have_signed(&token.header)) {
            match decode::<Claims>(token.text, &key.key, &validation) {
                Ok(token) => return Ok(token.claims),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }
}

/// Returns the time at which a token ends, in seconds since 1970 (RFC 7519 §4.1.4).
pub fn end(claims: &Claims) -> Option<u64> {
    let end = claims.get("exp")?;
    // A number with a fraction is also valid (§2, "NumericDate").
    end.as_u64().or_else(|| end.as_f64().filter(|end| *end >= 0.0).map(|end| end as u64))
}

fn list_keys(json: &[u8]) -> Result<Vec<Value>, String> {
    let set: Value = serde_json::from_slice(json).map_err(|error| format!("this isn't a set of keys: {error}"))?;
    match set {
        Value::Object(mut set) => match set.remove("keys") {
            Some(Value::Array(keys)) => Ok(keys),
            _ => Err("this isn't a set of keys: it has no `keys`".to_owned()),
        },
        _ => Err("this isn't a set of keys: it has no `keys`".to_owned()),
    }
}

/// Returns the algorithms that a key can be used for.
fn fitting(key: &Jwk, may_be_secret: bool) -> &'static [Algorithm] {
    match &key.algorithm {
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
        AlgorithmParameters::OctetKey(_) if may_be_secret => &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512],
        _ => &[],
    }
}

impl Key {
    /// Returns a key for those of these algorithms that it is meant for. Returns `None` if there is
    /// none, or the key is not meant for signatures.
    fn of(jwk: &Jwk, fitting: &[Algorithm]) -> Result<Option<Self>, jsonwebtoken::errors::Error> {
        if jwk.common.public_key_use.as_ref().is_some_and(|use_| *use_ != PublicKeyUse::Signature) {
            return Ok(None);
        }
        let named = jwk.common.key_algorithm.as_ref().map(|named| format!("{named:?}"));
        let is_its = |one: &&Algorithm| named.as_ref().is_none_or(|named| *named == format!("{one:?}"));
        let algorithms: Vec<Algorithm> = fitting.iter().filter(is_its).copied().collect();
        if algorithms.is_empty() {
            return Ok(None);
        }
        let key = DecodingKey::from_jwk(jwk)?;
        Ok(Some(Self { id: jwk.common.key_id.clone(), key, algorithms }))
    }

    fn may_have_signed(&self, header: &Header) -> bool {
        let has_name = header.kid.is_none() || self.id.is_none() || self.id == header.kid;
        has_name && self.algorithms.contains(&header.alg)
    }
}

impl fmt::Debug for TokenKeys {
    /// Shows no key, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

/// The most keys of a published set that are read: issuers have a handful.
const MOST_KEYS: usize = 100;
/// The kinds of keys that are known (RFC 7518 §6.1, RFC 8037 §2).
const KINDS: [&str; 4] = ["RSA", "EC", "OKP", "oct"];

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, encode, get_current_timestamp};
    use serde_json::json;

    use super::*;

    const RSA: &str = r#"{"kty": "RSA", "n": "AQAB", "e": "AQAB"MORE}"#;
    const SECRET: &str = r#"{"kty": "oct", "k": "c2VjcmV0"}"#;

    fn rsa(more: &str) -> String {
        RSA.replace("MORE", more)
    }

    fn set(keys: &[String]) -> Vec<u8> {
        format!(r#"{{"keys": [{}]}}"#, keys.join(", ")).into_bytes()
    }

    #[test]
    fn keys_that_are_not_for_tokens_are_left_out() {
        let published = |keys: &[String]| TokenKeys::read_published(&set(keys)).unwrap().len();
        assert_eq!(published(&[rsa(r#", "use": "sig""#), rsa("")]), 2);
        assert_eq!(published(&[rsa(r#", "use": "enc""#), rsa(r#", "alg": "RSA-OAEP""#)]), 0);
        assert_eq!(published(&[SECRET.into(), r#"{"kty": "new"}"#.into(), rsa("")]), 1);
        assert!(TokenKeys::read_published(b"{}").is_err() && TokenKeys::read_published(b"nothing").is_err());
        assert_eq!(published(&vec![rsa(""); 200]), MOST_KEYS);
    }

    #[test]
    fn an_operator_is_told_which_keys_are_no_use() {
        let written = |keys: &[String]| TokenKeys::read_written(&set(keys)).map(|keys| keys.len());
        assert_eq!(written(&[SECRET.into(), r#"{"kty": "new"}"#.into(), rsa("")]), Ok(2));
        assert!(written(&[rsa(r#", "use": "enc""#)]).unwrap_err().contains("there is no key in it"));
        assert!(written(&[r#"{"kty": "RSA", "n": "AQAB"}"#.into()]).unwrap_err().contains("a key can't be used"));
        assert!(TokenKeys::read_written(b"[]").unwrap_err().contains("it has no `keys`"));
    }

    #[test]
    fn a_token_is_believed_on_terms() {
        let keys = TokenKeys::read_written(&set(&[SECRET.to_owned()])).unwrap();
        let now = get_current_timestamp();
        let sign = |claims: Value| {
            encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(b"secret")).unwrap()
        };
        let audience = ["chat".to_owned()];
        let terms = TokenTerms { issuer: "i", audience: Some(&audience) };
        let believed =
            |claims: Value, terms: TokenTerms<'_>| keys.claims(&ShownToken::read(&sign(claims)).unwrap(), terms);
        let good = json!({ "iss": "i", "aud": "chat", "exp": now + 600 });
        assert_eq!(end(&believed(good.clone(), terms).unwrap()), Some(now + 600));
        assert!(believed(json!({ "iss": "i", "exp": now + 600 }), TokenTerms { audience: None, ..terms }).is_ok());
        for (what, claims) in [
            ("of another", json!({ "iss": "j", "aud": "chat", "exp": now + 600 })),
            ("of nobody", json!({ "aud": "chat", "exp": now + 600 })),
            ("for others", json!({ "iss": "i", "aud": "other", "exp": now + 600 })),
            ("for nobody", json!({ "iss": "i", "exp": now + 600 })),
            ("over", json!({ "iss": "i", "aud": "chat", "exp": now - 600 })),
            ("without an end", json!({ "iss": "i", "aud": "chat" })),
            ("early", json!({ "iss": "i", "aud": "chat", "exp": now + 600, "nbf": now + 300 })),
        ] {
            assert!(believed(claims, terms).is_err(), "{what}");
        }
        let public = TokenKeys::read_published(&set(&[rsa(""), SECRET.to_owned()])).unwrap();
        assert_eq!(public.claims(&ShownToken::read(&sign(good)).unwrap(), terms), Err("no key matches it".to_owned()));
    }

    #[test]
    fn ends_are_numbers() {
        let end_of = |exp: Value| end(json!({ "exp": exp }).as_object().unwrap());
        assert_eq!(
            [end_of(json!(7)), end_of(json!(7.9)), end_of(json!(-1)), end_of(json!("7"))],
            [Some(7), Some(7), None, None]
        );
    }
}
