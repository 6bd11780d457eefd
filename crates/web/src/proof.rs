//! Checks the passwords that users enter on pages.
//!
//! # Invariants
//!
//! * Guesses count together with those of clients: a page doesn't permit more of them.
//! * Neither an answer nor the time that it takes reveals whether the account doesn't exist, the
//!   password is wrong, or something else is missing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rookery_hub::fast::password_mark;
use rookery_hub::{Judgement, LoginBy, Proof, Source};
use rookery_jid::Jid;
use rookery_operations::{Outcome, Refusal, administrators};
use rookery_sasl::saslprep;
use rookery_shard::{CountsAt, LoginAttempt, Refused, Whence};
use tokio::task::spawn_blocking;
use tracing::info;

use crate::WebShared;
use crate::proxy::Origin;

/// A name and a password that a user has entered on a page.
pub(crate) struct WrittenProof<'a> {
    /// An address, or the local part of one in the first domain.
    pub name: &'a str,
    /// The password as the user has typed it.
    pub password: &'a str,
    /// The origin of the request.
    pub origin: Origin,
    /// True if the account has to administer a domain.
    pub administers: bool,
}

/// The result of a check.
pub(crate) struct ProofTried {
    /// The name with its domain, as guesses are counted for it.
    pub named: String,
    /// The domain of this server that it belongs to; empty if there is none.
    pub domain: String,
    /// The outcome, which says nothing about whether the account exists if the password is wrong.
    pub outcome: ProofOutcome,
}

/// The outcome of a check.
pub(crate) enum ProofOutcome {
    /// The password is right.
    Right(ProvenAccount),
    /// The account or the password is wrong.
    Wrong,
    /// There were too many attempts before.
    TooMany {
        /// The milliseconds until there may be another one.
        retry_ms: u64,
    },
    /// The check could not be made.
    Failed(Refusal),
}

/// An account whose password was right.
pub(crate) struct ProvenAccount {
    /// Its address.
    pub account: Jid,
    /// The stand-in for its current password.
    pub mark: String,
    attempt: LoginAttempt,
}

impl WebShared {
    /// Checks a password. Even a right one counts as a failed attempt until
    /// [`WebShared::proof_was_used`] is called.
    pub(crate) async fn try_proof(&self, proof: WrittenProof<'_>) -> ProofTried {
        let settings = self.settings();
        // A name without a domain is one of the first domain.
        let full = match (proof.name.contains('@'), settings.domains.first()) {
            (false, Some(domain)) => format!("{}@{domain}", proof.name),
            _ => proof.name.to_owned(),
        };
        let account = Jid::parse(&full).ok().filter(|jid| jid.local().is_some() && jid.resource().is_none());
        let named = account.as_ref().map_or_else(|| full.clone(), Jid::to_string);
        let domain = account.as_ref().and_then(|account| self.domain_of(account.domain())).unwrap_or_default();
        let outcome = self.judge(account, &named, proof).await;
        ProofTried { named, domain, outcome }
    }

    async fn judge(&self, account: Option<Jid>, named: &str, proof: WrittenProof<'_>) -> ProofOutcome {
        let (gate, address) = (self.door.gate(), proof.origin.address);
        let whence = Whence { address: address.ip(), account: named, client: None, counts: CountsAt::Everywhere };
        let attempt = match gate.begin(whence, &self.settings().logins, self.door.now_ms()) {
            Ok((attempt, wait_ms)) => {
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                attempt
            }
            Err(Refused { retry_ms, .. }) => return ProofOutcome::TooMany { retry_ms },
        };
        let mark = match self.verify(account.clone(), proof.password.to_owned(), proof.administers).await {
            Ok(mark) => mark,
            Err(refusal) => {
                gate.take_back(&attempt, self.door.now_ms());
                self.door.tell_others();
                return ProofOutcome::Failed(refusal);
            }
        };
        // An invalid address may be a password, and isn't logged.
        let known = account.as_ref().map_or_else(|| "unknown".to_owned(), Jid::to_string);
        match account.zip(mark) {
            Some((account, mark)) => ProofOutcome::Right(ProvenAccount { account, mark, attempt }),
            None => {
                gate.failed(attempt);
                self.door.tell_others();
                // The same log line as for clients, for programs to find.
                let peer = SocketAddr::new(address.ip().to_canonical(), address.port());
                info!(%peer, account = known, reason = "not-authorized", "a login failed");
                ProofOutcome::Wrong
            }
        }
    }

    /// Stops counting the attempt of a right password.
    pub(crate) fn proof_was_used(&self, proven: &ProvenAccount) {
        self.door.gate().succeeded(&proven.attempt, self.door.now_ms());
        self.door.tell_others();
    }

    /// Returns the stand-in for the password if it is that of an existing account which, if
    /// required, administers a domain. All checks are made in any case, so that the time reveals
    /// nothing.
    async fn verify(&self, account: Option<Jid>, password: String, administers: bool) -> Outcome<Option<String>> {
        let decoy = self.settings().decoy.clone();
        let name = account.as_ref().and_then(Jid::local).unwrap_or_default().to_owned();
        let mut source = None;
        let (credentials, domains) = match account.clone() {
            Some(account) => {
                let credentials = self.wait(self.stores.accounts.credentials(account.as_ref())).await?;
                source = self.source_of(account.domain());
                let domains = self.ask(move |world, answer| {
                    administrators::domains_of(world, account, |_, found| answer.complete(Ok(found)));
                });
                (credentials, domains.await?)
            }
            None => (None, Vec::new()),
        };
        let may = !administers || !domains.is_empty();
        if let Some((source, account)) = source.zip(account) {
            let is_right = judge(&*source, account, &password).await?;
            let mark = credentials.as_ref().map(password_mark);
            return Ok(mark.filter(|_| is_right && may));
        }
        // Checking a password hashes a few thousand times.
        let verify =
            move || (decoy.verify(credentials.as_ref(), &name, &password), credentials.as_ref().map(password_mark));
        let (is_right, mark) = spawn_blocking(verify).await.unwrap_or_default();
        Ok(mark.filter(|_| is_right && may))
    }

    /// Returns the source that vouches for the logins of a domain, if it isn't the store.
    pub(crate) fn source_of(&self, domain: &str) -> Option<Arc<dyn Source>> {
        let settings = self.settings();
        let domain = settings.hub.domains.iter().find(|known| known.name == domain)?;
        match &domain.login {
            LoginBy::Source(source) => Some(source.clone()),
            LoginBy::Own | LoginBy::Anonymous => None,
        }
    }
}

/// Asks the source that vouches for a domain to check a password.
async fn judge(source: &dyn Source, account: Jid, password: &str) -> Outcome<bool> {
    if !source.takes().passwords {
        return Ok(false);
    }
    let Some(password) = saslprep(password) else { return Ok(false) };
    match source.judge(Proof::Password { account, password: password.into_owned() }).await {
        Judgement::Good { .. } => Ok(true),
        Judgement::Bad { .. } => Ok(false),
        Judgement::Away => Err(Refusal::Failed("who knows the passwords of this domain")),
    }
}
