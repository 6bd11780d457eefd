//! The terms on which a token opens an account: its owner and its audience (RFC 7519, OpenID
//! Connect).

use rookery_tokens::{Claims, ShownToken, TokenKeys, TokenTerms};
use serde_json::Value;

/// The terms on which a token is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Believed {
    /// The issuer, as it names itself.
    pub issuer: String,
    /// The accepted audiences; a token has to name one of them.
    pub audience: Vec<String>,
    /// The claim with the user's name.
    pub claim: String,
    /// The domain to which a name with an `@` has to belong.
    pub domain: String,
}

impl Believed {
    /// Returns the claims of a token that is signed with one of these keys.
    ///
    /// # Errors
    /// The reason why it isn't believed, as a text for the log.
    pub fn claims(&self, keys: &TokenKeys, token: &ShownToken<'_>) -> Result<Claims, String> {
        keys.claims(token, TokenTerms { issuer: &self.issuer, audience: Some(&self.audience) })
    }

    /// Returns the user that the claims name.
    ///
    /// # Errors
    /// The reason why it isn't a user of the domain, as a text for the log.
    pub fn user(&self, claims: &Claims) -> Result<String, String> {
        let claim = &self.claim;
        let Some(named) = claims.get(claim).and_then(Value::as_str).filter(|named| !named.is_empty()) else {
            return Err(format!("it has no claim {claim:?}"));
        };
        if claim == EMAIL && claims.get("email_verified") != Some(&Value::Bool(true)) {
            return Err("it isn't verified that the address is the user's (`email_verified`)".to_owned());
        }
        match named.split_once('@') {
            None => Ok(named.to_owned()),
            Some((name, domain)) if domain.eq_ignore_ascii_case(&self.domain) && !name.is_empty() => {
                Ok(name.to_owned())
            }
            Some(_) => Err(format!("its user {named:?} belongs to another domain")),
        }
    }
}

/// The claim with an address, which proves nothing until it is verified (OpenID Connect Core §5.1).
const EMAIL: &str = "email";

#[cfg(test)]
mod tests {
    use super::*;

    fn believe_claim(claim: &str) -> Believed {
        Believed {
            issuer: "https://issuer.example".into(),
            audience: vec!["chat".into()],
            claim: claim.into(),
            domain: "example.org".into(),
        }
    }

    fn user(claim: &str, claims: &str) -> Result<String, String> {
        believe_claim(claim).user(&serde_json::from_str(claims).unwrap())
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
}
