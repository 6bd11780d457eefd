//! Certificates from an authority that gives them to the server of a domain (ACME, RFC 8555),
//! proven by http-01 (§8.3) on our own port.
//!
//! The protocol is that of `instant-acme`; what is here tells it how to reach the authority
//! (`https`), answers the challenges, and says what went wrong. When certificates are due, and
//! where they are kept, is for the caller to say.
//!
//! # Invariants
//!
//! - A challenge is answered only while its order goes on, and only those of our own orders are.
//! - The authority is reached by HTTPS alone, and what it says is bounded in time and bytes.

mod https;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::{Response, StatusCode};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rookery_base::lock::lock;

use crate::reply::{Body, reply, text};
use https::Https;

/// The challenges that wait for the authority's questions: the token of each with its key
/// authorization (§8.1).
#[derive(Debug, Clone, Default)]
pub struct Challenges(Arc<Mutex<HashMap<String, String>>>);

/// An authority, and who asks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeAuthority {
    /// The address of its directory (§7.1.1).
    pub directory: String,
    /// The addresses at which it may reach the operator, such as `mailto:admin@example.org` (§7.3).
    pub contacts: Vec<String>,
    /// PEM file of certificates to trust when it is reached, besides those that the machine trusts.
    pub trusted: Option<PathBuf>,
}

/// A certificate that was given out.
#[derive(Debug)]
pub struct AcmeIssued {
    /// The certificate and those behind it, PEM.
    pub chain: String,
    /// Its key, PEM.
    pub key: String,
}

/// An account at an authority.
pub struct AcmeClient {
    account: Account,
}

impl AcmeClient {
    /// Opens the account that was kept as `known`, or makes one; then the answer has what is to be
    /// kept for the next time. Making one agrees to the terms of the authority (§7.3).
    ///
    /// # Errors
    /// In words: the authority can't be reached, or refuses.
    pub async fn open(authority: &AcmeAuthority, known: Option<&str>) -> Result<(Self, Option<String>), String> {
        let builder = Account::builder_with_http(Box::new(Https::new(authority.trusted.as_deref())?));
        if let Some(known) = known {
            let credentials: AccountCredentials = serde_json::from_str(known)
                .map_err(|error| format!("the account that was kept can't be read: {error}"))?;
            let account = builder.from_credentials(credentials).await.map_err(in_words)?;
            return Ok((Self { account }, None));
        }
        let contacts: Vec<&str> = authority.contacts.iter().map(String::as_str).collect();
        let new = NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
        let (account, credentials) = builder.create(&new, authority.directory.clone(), None).await.map_err(in_words)?;
        let kept = serde_json::to_string(&credentials).map_err(|error| error.to_string())?;
        Ok((Self { account }, Some(kept)))
    }

    /// Gets a certificate for these names, given in A-labels; the authority comes to each of them.
    ///
    /// # Errors
    /// In words: what the authority says, or that it takes too long.
    pub async fn certificate(&self, names: &[String], challenges: &Challenges) -> Result<AcmeIssued, String> {
        let identifiers: Vec<Identifier> = names.iter().cloned().map(Identifier::Dns).collect();
        let mut order = self.account.new_order(&NewOrder::new(&identifiers)).await.map_err(in_words)?;
        let shown = prove(&mut order, challenges).await?;
        let ready = order.poll_ready(&PATIENT).await;
        drop(shown);
        match ready {
            Ok(OrderStatus::Ready) => {}
            Ok(_) | Err(instant_acme::Error::Api(_)) => return Err(refusal(&mut order).await),
            Err(error) => return Err(in_words(error)),
        }
        let key = order.finalize().await.map_err(in_words)?;
        let chain = order.poll_certificate(&PATIENT).await.map_err(in_words)?;
        Ok(AcmeIssued { chain, key })
    }
}

impl std::fmt::Debug for AcmeClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("account", &self.account.id()).finish()
    }
}

impl Challenges {
    /// Answers a request for what is behind `/.well-known/acme-challenge/`.
    pub(crate) fn answer(&self, token: &str) -> Response<Body> {
        let found = lock(&self.0).get(token).cloned();
        match found {
            Some(authorization) => reply(StatusCode::OK, "application/octet-stream", authorization),
            None => text(StatusCode::NOT_FOUND, "there is no such challenge"),
        }
    }

    fn show(&self, token: &str, authorization: &str) -> ShownChallenge {
        let mut all = lock(&self.0);
        all.insert(token.to_owned(), authorization.to_owned());
        ShownChallenge { challenges: self.clone(), token: token.to_owned() }
    }
}

/// A challenge that is answered until this is dropped.
struct ShownChallenge {
    challenges: Challenges,
    token: String,
}

impl Drop for ShownChallenge {
    fn drop(&mut self) {
        lock(&self.challenges.0).remove(&self.token);
    }
}

/// Shows what proves that the domains are ours, and tells the authority to look.
async fn prove(order: &mut Order, challenges: &Challenges) -> Result<Vec<ShownChallenge>, String> {
    let mut shown = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(in_words)?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => return Err(format!("the authorization is {other:?} before it began")),
        }
        let Some(mut challenge) = authorization.challenge(ChallengeType::Http01) else {
            return Err("the authority doesn't offer http-01".to_owned());
        };
        shown.push(challenges.show(&challenge.token, challenge.key_authorization().as_str()));
        challenge.set_ready().await.map_err(in_words)?;
    }
    Ok(shown)
}

/// Returns the reason why an order was refused, as the authority gives it.
async fn refusal(order: &mut Order) -> String {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return problem.to_string();
        }
    }
    "the authority refuses without a reason".to_owned()
}

fn in_words(error: instant_acme::Error) -> String {
    error.to_string()
}

/// The time that an authority may take to look, and then to sign.
const PATIENT: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(90));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_answered_while_its_order_goes_on() {
        let challenges = Challenges::default();
        assert_eq!(challenges.answer("token").status(), StatusCode::NOT_FOUND);
        let shown = challenges.show("token", "token.thumbprint");
        assert_eq!(challenges.answer("token").status(), StatusCode::OK);
        assert_eq!(challenges.answer("tokem").status(), StatusCode::NOT_FOUND);
        drop(shown);
        assert_eq!(challenges.answer("token").status(), StatusCode::NOT_FOUND);
    }
}
