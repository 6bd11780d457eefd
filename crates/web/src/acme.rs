//! Certificates from an authority that issues them automatically (ACME, RFC 8555), with the http-01
//! challenge (§8.3) on our own port.
//!
//! The crate `instant-acme` implements the protocol. This module provides the connection to the
//! authority (`https`), answers the challenges, and reports failures. The caller decides when
//! certificates are due, and stores them.
//!
//! # Invariants
//!
//! - A challenge is only answered while its order is in progress, and only if the order is ours. In
//!   a cluster, the authority may connect to any node. So the nodes share their challenges in the
//!   database, which is read at most once a second, however many requests strangers make.
//! - The authority is only reached by HTTPS, and its responses are bounded in time and bytes.

mod https;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::{Response, StatusCode};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rookery_base::lock::lock;
use rookery_store::meta::Meta;

use crate::reply::{Body, reply, text};
use https::Https;

/// The challenges that the authority may ask for: the key authorization of each (§8.1), by its
/// token.
#[derive(Clone, Default)]
pub struct Challenges {
    own: Arc<Mutex<HashMap<String, String>>>,
    of_cluster: Option<Arc<SharedChallenges>>,
}

/// The challenges of all nodes of a cluster, in the database.
struct SharedChallenges {
    meta: Arc<dyn Meta>,
    /// The challenges as they were last read, and the time of that reading.
    read: tokio::sync::Mutex<Option<(Instant, HashMap<String, String>)>>,
}

/// An authority, and the data of the operator's account there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeAuthority {
    /// The address of the authority's directory (§7.1.1).
    pub directory: String,
    /// The addresses at which the authority may reach the operator, such as
    /// `mailto:admin@example.org` (§7.3).
    pub contacts: Vec<String>,
    /// A PEM file of certificates to trust for connections to the authority, in addition to those
    /// that the machine trusts.
    pub trusted: Option<PathBuf>,
}

/// An issued certificate.
#[derive(Debug)]
pub struct AcmeIssued {
    /// The certificate and its chain, in PEM.
    pub chain: String,
    /// The private key of the certificate, in PEM.
    pub key: String,
}

/// An account at an authority.
pub struct AcmeClient {
    account: Account,
}

impl AcmeClient {
    /// Opens the account whose data is `known`, or creates one. After a creation, the result
    /// includes the data to pass as `known` next time. Creating an account agrees to the
    /// authority's terms (§7.3).
    ///
    /// # Errors
    /// The authority can't be reached, or refuses; as a text.
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

    /// Gets a certificate for these names, which are given as A-labels. The authority connects to
    /// each of them.
    ///
    /// # Errors
    /// The authority's refusal, or that it took too long; as a text.
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

impl std::fmt::Debug for Challenges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Challenges").field("own", &lock(&self.own).len()).finish_non_exhaustive()
    }
}

impl Challenges {
    /// Returns the challenges of a node of a cluster: its own, and those that other nodes have put
    /// into the database.
    pub fn of_cluster(meta: Arc<dyn Meta>) -> Self {
        let read = tokio::sync::Mutex::default();
        Self { own: Arc::default(), of_cluster: Some(Arc::new(SharedChallenges { meta, read })) }
    }

    /// Replies to a request for the challenge with this token, below
    /// `/.well-known/acme-challenge/`.
    pub(crate) async fn answer(&self, token: &str) -> Response<Body> {
        let own = lock(&self.own).get(token).cloned();
        let found = match (own, &self.of_cluster) {
            (None, Some(shared)) => shared.find(token).await,
            (own, _) => own,
        };
        match found {
            Some(authorization) => reply(StatusCode::OK, "application/octet-stream", authorization),
            None => text(StatusCode::NOT_FOUND, "there is no such challenge"),
        }
    }

    /// Publishes a challenge on this node and, in a cluster, on all others. In a cluster, returns
    /// only when the others are sure to know it.
    async fn show(&self, token: &str, authorization: &str) -> Result<ShownChallenge, String> {
        lock(&self.own).insert(token.to_owned(), authorization.to_owned());
        let shown = ShownChallenge { challenges: self.clone(), token: token.to_owned() };
        if let Some(shared) = &self.of_cluster {
            let put = shared.meta.put_entry(CHALLENGES, token, authorization.as_bytes().to_vec());
            put.await.map_err(|error| format!("other nodes can't be told the challenge: {error}"))?;
            // Another node may have read the list just before, and then uses its copy for up to
            // `FRESH`.
            tokio::time::sleep(2 * FRESH).await;
        }
        Ok(shown)
    }
}

impl SharedChallenges {
    async fn find(&self, token: &str) -> Option<String> {
        let mut read = self.read.lock().await;
        if let Some((at, all)) = &*read
            && at.elapsed() < FRESH
        {
            return all.get(token).cloned();
        }
        // If the database doesn't answer, the authority gets no challenge now, and asks again
        // later.
        let entries = self.meta.entries(CHALLENGES).await.ok()?;
        let text = |(token, bytes)| Some((token, String::from_utf8(bytes).ok()?));
        let all: HashMap<String, String> = entries.into_iter().filter_map(text).collect();
        let found = all.get(token).cloned();
        *read = Some((Instant::now(), all));
        found
    }
}

/// A published challenge, which is withdrawn when this is dropped.
struct ShownChallenge {
    challenges: Challenges,
    token: String,
}

impl Drop for ShownChallenge {
    fn drop(&mut self) {
        lock(&self.challenges.own).remove(&self.token);
        if let Some(shared) = &self.challenges.of_cluster {
            // The removal isn't awaited: a leftover entry proves nothing.
            drop(shared.meta.remove_entry(CHALLENGES, &self.token));
        }
    }
}

/// Publishes the proofs that the domains are ours, and asks the authority to check them. The
/// challenges stay published as long as the result exists.
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
        let authorization = challenge.key_authorization();
        shown.push(challenges.show(&challenge.token, authorization.as_str()).await?);
        challenge.set_ready().await.map_err(in_words)?;
    }
    Ok(shown)
}

/// Returns the authority's reason for the refusal of an order.
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

/// The name of the list of published challenges in the database. Its keys are the tokens.
const CHALLENGES: &str = "acme challenges";
/// The time for which a copy of this list is used before it is read again.
const FRESH: Duration = Duration::from_secs(1);
/// The time that the authority may take for its checks, and then again for its signature.
const PATIENT: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(90));

#[cfg(test)]
mod tests {
    use rookery_store::memory::Memory;

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(work)
    }

    #[test]
    fn a_challenge_is_answered_while_its_order_goes_on() {
        run(async {
            let challenges = Challenges::default();
            assert_eq!(challenges.answer("token").await.status(), StatusCode::NOT_FOUND);
            let shown = challenges.show("token", "token.thumbprint").await;
            assert_eq!(challenges.answer("token").await.status(), StatusCode::OK);
            assert_eq!(challenges.answer("tokem").await.status(), StatusCode::NOT_FOUND);
            drop(shown);
            assert_eq!(challenges.answer("token").await.status(), StatusCode::NOT_FOUND);
        });
    }

    #[test]
    fn any_node_answers_the_challenge_of_another() {
        run(async {
            let meta = Memory::stores().meta;
            let (orders, asked) = (Challenges::of_cluster(meta.clone()), Challenges::of_cluster(meta.clone()));
            meta.put_entry(CHALLENGES, "token", b"token.thumbprint".to_vec()).await.expect("a store");
            let shown = ShownChallenge { challenges: orders, token: "token".to_owned() };
            assert_eq!(asked.answer("token").await.status(), StatusCode::OK);
            assert_eq!(asked.answer("tokem").await.status(), StatusCode::NOT_FOUND);
            drop(shown);
            let later = Challenges::of_cluster(meta);
            assert_eq!(later.answer("token").await.status(), StatusCode::NOT_FOUND);
        });
    }
}
