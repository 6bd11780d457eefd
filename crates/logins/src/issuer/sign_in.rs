//! The sign-in of a browser at an issuer (OpenID Connect Core 1.0 §3.1): the address that it is
//! sent to, and the code with which it comes back.
//!
//! # Invariants
//!
//! * A code is redeemed with the verifier of its visit only (PKCE, RFC 7636), and an ID token
//!   counts only with the nonce of the visit and for our own client id.

use std::fmt;
use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rookery_base::lock::lock;
use rookery_hub::{Judgement, SignIn};
use rookery_tokens::ShownToken;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Issuer, Places};
use crate::believed::Believed;
use crate::desk::Away;

/// Our registration as a client of an issuer, for sign-ins by browsers.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuerClient {
    /// The client id that the issuer has given us.
    pub id: String,
    /// The secret that goes with it, if there is one.
    pub secret: Option<String>,
}

impl fmt::Debug for IssuerClient {
    /// Shows no secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Issuer {
    /// Returns the address to which a browser goes to sign in (OpenID Connect Core 1.0 §3.1.2.1,
    /// RFC 7636 §4.3).
    ///
    /// # Errors
    /// The reason why the address isn't known, as a text for the log.
    pub async fn entrance(self: Arc<Self>, visit: &SignIn) -> Result<String, Away> {
        let client = self.client.as_ref().ok_or("browsers can't sign in here")?;
        let places = self.places().await?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&visit.verifier));
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &visit.back)
            .append_pair("scope", SCOPE)
            .append_pair("state", &visit.state)
            .append_pair("nonce", &visit.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .finish();
        let place = places.authorization.to_string();
        let joint = if place.contains('?') { '&' } else { '?' };
        Ok(format!("{place}{joint}{query}"))
    }

    /// Checks the code with which a browser comes back: redeems it for a token (OpenID Connect Core
    /// 1.0 §3.1.3).
    ///
    /// # Errors
    /// The reason why the issuer has no answer, or why that can't be checked, as a text for the
    /// log.
    pub async fn redeem(self: Arc<Self>, code: &str, visit: &SignIn) -> Result<Judgement, Away> {
        let client = self.client.as_ref().ok_or("browsers can't sign in here")?;
        let places = self.places().await?;
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", &visit.back)
            .append_pair("client_id", &client.id)
            .append_pair("code_verifier", &visit.verifier)
            .finish();
        let secret = client.secret.as_deref().map(|secret| (client.id.as_str(), secret));
        let answer = self.web.post_form(&places.token, form, secret).await?;
        if answer.status.is_client_error() {
            return Ok(self.refuse(&format!("the issuer doesn't accept the code: {}", answer.status)));
        }
        if !answer.status.is_success() {
            return Err(format!("{}: the status {}", places.token, answer.status));
        }
        let said: Value = serde_json::from_slice(&answer.body).map_err(|error| format!("{}: {error}", places.token))?;
        let token = said.get("id_token").and_then(Value::as_str).unwrap_or_default();
        let Ok(token) = ShownToken::read(token) else {
            return Ok(self.refuse("there is no readable ID token"));
        };
        let keys = self.keys_for(&token).await?;
        let believed = Believed { audience: vec![client.id.clone()], ..self.believed.clone() };
        let claims = believed.claims(&keys, &token).and_then(|claims| match claims.get("nonce") {
            Some(Value::String(nonce)) if *nonce == visit.nonce => Ok(claims),
            _ => Err("it was issued for another visit".to_owned()),
        });
        match claims.and_then(|claims| believed.user(&claims)) {
            // A visit to the admin page has its own time limit.
            Ok(username) => Ok(Judgement::Good { username: Some(username), until_s: None }),
            Err(why) => Ok(self.refuse(&why)),
        }
    }

    /// Returns the endpoints for browsers and for codes.
    async fn places(self: &Arc<Self>) -> Result<Places, Away> {
        let known = lock(&self.known).places.clone();
        let places = match known {
            Some(places) => Some(places),
            None => {
                self.read_again().await?;
                lock(&self.known).places.clone()
            }
        };
        places.ok_or_else(|| format!("{self}: it doesn't say where browsers sign in"))
    }
}

/// The scope that browsers request: the identity, and the usual claims with names.
const SCOPE: &str = "openid profile email";
