//! Asks outside sources who may log in. A world knows each of them as a [`Source`].
//!
//! # Invariants
//!
//! * A shard never waits for an answer: each source has a thread of its own.
//! * No question waits for longer than the operator permits, and the number of waiting ones is
//!   bounded. An unreachable source is asked only once every few seconds ([`LoginDesk`]).
//! * What a source sends is read within a bound in bytes, and believed only over TLS, or from this
//!   machine.
//! * No password and no token is stored, logged or shown; a cache has hashes of passwords under a
//!   random key of the process.
//!
//! # Layout
//!
//! [`desk`] runs questions within their bounds, [`remembered`] has recent answers, [`web`] is an
//! HTTP client. The sources: [`call`], an HTTP service that checks passwords; [`directory`], LDAP,
//! whose groups [`groups`] reads; [`issuer`], which finds the keys of an issuer of tokens, while
//! [`believed`] finds the owner of a token.

pub mod believed;
pub mod call;
pub mod desk;
pub mod directory;
pub mod groups;
pub mod issuer;
pub mod remembered;
pub mod web;

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use rookery_hub::{Entrance, Group, Judgement, Judging, Proof, SignIn, Source, SourceSeen, Takes};
use rookery_jid::Jid;

pub use believed::Believed;
pub use call::PasswordCall;
pub use desk::{DeskTerms, LoginDesk};
pub use directory::{DirectoryAddress, EntryLookup, LdapDirectory, OwnEntry};
pub use issuer::{Issuer, IssuerClient};
pub use web::Web;

use tokio::time::timeout;

use desk::Away;
use remembered::Remembered;

/// The sources that vouch for the logins of a domain.
pub struct Outside {
    passwords: Option<LoginLine<Passwords>>,
    tokens: Option<LoginLine<Issuer>>,
    remembered: Arc<Remembered>,
    groups: groups::KnownGroups,
    makes_accounts: bool,
}

/// A source that checks passwords.
#[derive(Debug)]
pub enum Passwords {
    /// An HTTP service.
    Call(PasswordCall),
    /// A directory, by a bind with the user's name and password.
    Directory(Arc<LdapDirectory>),
}

/// A source, and its desk.
struct LoginLine<T> {
    asked: Arc<T>,
    desk: LoginDesk,
}

impl Outside {
    /// Returns a set without sources. With `makes_accounts`, users that its sources vouch for get
    /// an account; `remembered` is the time for which a yes to a password holds.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn new(makes_accounts: bool, remembered: Duration) -> std::io::Result<Self> {
        let remembered = Arc::new(Remembered::for_a(remembered)?);
        Ok(Self { passwords: None, tokens: None, remembered, groups: groups::KnownGroups::default(), makes_accounts })
    }

    /// Returns the same with a source that checks passwords.
    ///
    /// # Errors
    /// The system provides no thread.
    pub fn with_passwords(mut self, passwords: Passwords, terms: &DeskTerms) -> std::io::Result<Self> {
        let desk = LoginDesk::start(&passwords.to_string(), terms)?;
        self.passwords = Some(LoginLine { asked: Arc::new(passwords), desk });
        Ok(self)
    }

    /// Returns the same with the groups of the directory, if a directory checks the passwords.
    pub fn with_groups(self, wanted: groups::WantedGroups) -> Self {
        if let Some(line) = &self.passwords
            && let Passwords::Directory(directory) = &*line.asked
        {
            line.desk.run(self.groups.clone().keep_reading(directory.clone(), wanted));
        }
        self
    }

    /// Returns the same with an issuer of tokens.
    ///
    /// # Errors
    /// The system provides no thread.
    pub fn with_issuer(mut self, issuer: Issuer, terms: &DeskTerms) -> std::io::Result<Self> {
        // An issuer answers most questions from its known keys.
        let desk = LoginDesk::start(&issuer.to_string(), terms)?.always();
        self.tokens = Some(LoginLine { asked: Arc::new(issuer), desk });
        Ok(self)
    }
}

impl Passwords {
    /// Returns its key in the configuration.
    fn key(&self) -> &'static str {
        match self {
            Self::Call(_) => "url",
            Self::Directory(_) => "ldap",
        }
    }

    /// Asks whether a password is that of an account.
    ///
    /// # Errors
    /// The reason why the source has said neither yes nor no, as a text for the log.
    pub async fn judge(&self, account: &Jid, password: &str) -> Result<Judgement, Away> {
        match self {
            Self::Call(call) => call.judge(account, password).await,
            Self::Directory(directory) => directory.judge(account, password).await,
        }
    }

    /// Checks whether the source answers, with a name that no account has.
    ///
    /// # Errors
    /// The reason why there is no valid answer, as a text.
    pub async fn probe(&self, domain: &str) -> Result<(), String> {
        match self {
            Self::Call(call) => call.probe(domain).await,
            Self::Directory(directory) => directory.probe().await,
        }
    }
}

impl fmt::Display for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => call.fmt(f),
            Self::Directory(directory) => directory.fmt(f),
        }
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").field("takes", &self.takes()).finish_non_exhaustive()
    }
}

impl Source for Outside {
    fn takes(&self) -> Takes {
        Takes { passwords: self.passwords.is_some(), tokens: self.tokens.is_some() }
    }

    fn makes_accounts(&self) -> bool {
        self.makes_accounts
    }

    fn signs_in(&self) -> bool {
        self.tokens.as_ref().is_some_and(|line| line.asked.signs_in())
    }

    fn entrance(&self, visit: SignIn) -> Entrance {
        let Some(line) = &self.tokens else { return Box::pin(ready(None)) };
        let issuer = line.asked.clone();
        line.desk.ask_for(async move { issuer.entrance(&visit).await })
    }

    fn redeem(&self, code: String, visit: SignIn) -> Judging {
        let Some(line) = &self.tokens else { return Box::pin(ready(Judgement::Away)) };
        let issuer = line.asked.clone();
        line.desk.ask(async move { issuer.redeem(&code, &visit).await })
    }

    fn groups(&self) -> Option<Arc<Vec<Group>>> {
        self.groups.get()
    }

    fn statistics(&self) -> Vec<SourceSeen> {
        let passwords = self.passwords.as_ref().map(|line| line.desk.statistics(line.asked.key()));
        let tokens = self.tokens.as_ref().map(|line| line.desk.statistics("issuer"));
        passwords.into_iter().chain(tokens).collect()
    }

    fn judge(&self, proof: Proof) -> Judging {
        match (proof, &self.passwords, &self.tokens) {
            (Proof::Token(token), _, Some(line)) => {
                let issuer = line.asked.clone();
                line.desk.ask(async move { issuer.judge(&token).await })
            }
            (Proof::Password { account, password }, Some(line), _) => {
                if self.remembered.has(&account, &password) {
                    line.desk.count_remembered();
                    return Box::pin(ready(Judgement::Good { username: None, until_s: None }));
                }
                let (passwords, remembered) = (line.asked.clone(), self.remembered.clone());
                line.desk.ask(async move {
                    let judgement = passwords.judge(&account, &password).await?;
                    remembered.note(&account, &password, matches!(judgement, Judgement::Good { .. }));
                    Ok(judgement)
                })
            }
            _ => Box::pin(ready(Judgement::Away)),
        }
    }
}

/// Probes a source, for a command: blocks until there is an answer, or the time is over.
///
/// # Errors
/// The fault that the probe finds, that it takes too long, or that the system provides no
/// descriptor.
pub fn within<T>(patience: Duration, probe: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let probed = runtime.map_err(|error| error.to_string())?.block_on(async { timeout(patience, probe).await });
    probed.unwrap_or_else(|_| Err(format!("no answer within {} seconds", patience.as_secs())))
}

#[cfg(test)]
mod tests {
    use rookery_base::wait;
    use rookery_jid::Jid;
    use rookery_needs::Site;

    use super::*;
    use crate::web::WebAddress;

    fn outside(site: &Site, remembered: Duration) -> Outside {
        let call = PasswordCall::new(WebAddress::read(&site.url("/check")).unwrap(), Web::trusting(None).unwrap());
        let terms = DeskTerms { patience: Duration::from_secs(20), at_once: 2 };
        Outside::new(true, remembered).unwrap().with_passwords(Passwords::Call(call), &terms).unwrap()
    }

    fn proof_of(password: &str) -> Proof {
        Proof::Password { account: Jid::parse("juliet@example.org").unwrap(), password: password.into() }
    }

    #[test]
    fn an_address_says_yes_no_or_nothing() {
        let site = Site::start(|path, body| {
            let said: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!((path, &said["user"], &said["domain"]), ("/check", &"juliet".into(), &"example.org".into()));
            let status = match said["password"].as_str().unwrap() {
                "right" => 200,
                "wrong" => 401,
                "forbidden" => 403,
                "moved" => 302,
                "empty" => 204,
                _ => 500,
            };
            (status, String::new())
        });
        let outside = outside(&site, Duration::ZERO);
        assert_eq!(outside.takes(), Takes { passwords: true, tokens: false });
        for (password, judgement) in [
            ("right", Judgement::Good { username: None, until_s: None }),
            ("wrong", Judgement::Bad { why: String::new() }),
            ("forbidden", Judgement::Bad { why: String::new() }),
            ("broken", Judgement::Away),
            ("moved", Judgement::Away),
            ("empty", Judgement::Away),
        ] {
            assert_eq!(wait(outside.judge(proof_of(password))), judgement, "{password}");
        }
        assert_eq!(wait(outside.judge(Proof::Token("t".into()))), Judgement::Away, "nobody knows tokens");
    }

    #[test]
    fn a_yes_is_remembered_for_the_configured_time() {
        for (remembered, questions) in [(Duration::ZERO, 3), (Duration::from_secs(600), 1)] {
            let site = Site::start(|_, _| (200, String::new()));
            let outside = outside(&site, remembered);
            for _ in 0..3 {
                assert_eq!(wait(outside.judge(proof_of("right"))), Judgement::Good { username: None, until_s: None });
            }
            assert_eq!(site.count("/check"), questions);
        }
    }

    #[test]
    fn an_address_without_a_service_counts_as_away() {
        let site = Site::start(|_, _| (200, String::new()));
        let outside = outside(&site, Duration::ZERO);
        drop(site);
        assert_eq!(wait(outside.judge(proof_of("right"))), Judgement::Away);
    }

    #[test]
    fn a_probe_finds_a_service_that_accepts_everybody() {
        let probe = |status: u16| {
            let site = Site::start(move |_, _| (status, String::new()));
            let call = PasswordCall::new(WebAddress::read(&site.url("/")).unwrap(), Web::trusting(None).unwrap());
            within(Duration::from_secs(20), call.probe("example.org"))
        };
        assert_eq!((probe(401), probe(403), probe(400)), (Ok(()), Ok(()), Ok(())));
        assert!(probe(200).unwrap_err().contains("accepts an empty name"));
        assert!(probe(404).is_err() && probe(500).is_err());
    }
}
