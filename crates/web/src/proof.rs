//! Attempts to prove by a password who somebody is, on pages.
//!
//! # Invariants
//!
//! * Guesses count together with those of clients: a page is no second way to as many.
//! * Nobody learns from an answer, or from the time that it takes, whether the account is there,
//!   the password is wrong, or something else is missing.

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

/// A name and a password, as somebody wrote them on a page.
pub(crate) struct WrittenProof<'a> {
    /// An address, or the local part of one in the first domain.
    pub name: &'a str,
    /// The password.
    pub password: &'a str,
    /// The place where the browser is.
    pub origin: Origin,
    /// True if only an administrator's will do.
    pub administers: bool,
}

/// The result of such an attempt.
pub(crate) struct ProofTried {
    /// The name with its domain, as it counts.
    pub named: String,
    /// The domain of this server that it belongs to; empty if there is none.
    pub domain: String,
    /// The outcome.
    pub outcome: ProofOutcome,
}

/// The outcome of such an attempt.
pub(crate) enum ProofOutcome {
    /// The proof is good.
    Right(ProvenAccount),
    /// It isn't.
    Wrong,
    /// There were too many before.
    TooMany {
        /// The milliseconds until there may be another one.
        retry_ms: u64,
    },
    /// Nobody could tell.
    Failed(Refusal),
}

/// An account, whose password somebody knows.
pub(crate) struct ProvenAccount {
    /// Its address.
    pub account: Jid,
    /// A text that stands for its password of now.
    pub mark: String,
    attempt: LoginAttempt,
}

impl WebShared {
    /// Checks a proof. One that is right counts as an attempt until
    /// [`WebShared::proof_was_used`].
    pub(crate) async fn try_proof(&self, proof: WrittenProof<'_>) -> ProofTried {
        let settings = self.settings();
        // Without a domain it is the first one.
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
        // What is no address may be a password, and isn't logged.
        let known = account.as_ref().map_or_else(|| "unknown".to_owned(), Jid::to_string);
        match account.zip(mark) {
            Some((account, mark)) => ProofOutcome::Right(ProvenAccount { account, mark, attempt }),
            None => {
                gate.failed(attempt);
                self.door.tell_others();
                // The line of clients, for programs to find.
                let peer = SocketAddr::new(address.ip().to_canonical(), address.port());
                info!(%peer, account = known, reason = "not-authorized", "a login failed");
                ProofOutcome::Wrong
            }
        }
    }

    /// Takes note that a proof has let somebody in.
    pub(crate) fn proof_was_used(&self, proven: &ProvenAccount) {
        self.door.gate().succeeded(&proven.attempt, self.door.now_ms());
        self.door.tell_others();
    }

    /// Returns what stands for a password if it is that of an account that is there, and
    /// administers a domain if it has to. All is asked for in any case, so that the time tells
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
            let is_right = judged(&*source, account, &password).await?;
            let mark = credentials.as_ref().map(password_mark);
            return Ok(mark.filter(|_| is_right && may));
        }
        // It hashes some thousand times.
        let verify =
            move || (decoy.verify(credentials.as_ref(), &name, &password), credentials.as_ref().map(password_mark));
        let (is_right, mark) = spawn_blocking(verify).await.unwrap_or_default();
        Ok(mark.filter(|_| is_right && may))
    }

    /// Returns who vouches for the logins of a domain, if that isn't the store.
    pub(crate) fn source_of(&self, domain: &str) -> Option<Arc<dyn Source>> {
        let settings = self.settings();
        let domain = settings.hub.domains.iter().find(|known| known.name == domain)?;
        match &domain.login {
            LoginBy::Source(source) => Some(source.clone()),
            LoginBy::Own | LoginBy::Anonymous => None,
        }
    }
}

/// Asks the source that vouches for a domain to judge a password.
async fn judged(source: &dyn Source, account: Jid, password: &str) -> Outcome<bool> {
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
