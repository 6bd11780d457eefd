//! Logs in clients for whom an outside source vouches: asks the [`Source`] of their domain, and
//! finds or creates the account.

use std::sync::Arc;

use rookery_jid::Jid;
use rookery_sasl::{Credentials, Hash, Keys};
use tracing::{info, warn};

use crate::World;
use crate::event::{Event, LoginAnswer};
use crate::source::{Judgement, LoginBy, Proof, Source, SourceSeen};

impl World {
    /// Returns whether accounts of a domain are for one session each, and nothing of them is kept.
    pub fn is_anonymous(&self, domain: &str) -> bool {
        self.domain(domain).is_some_and(|domain| matches!(domain.login, LoginBy::Anonymous))
    }

    /// Returns who vouches for the logins of a domain, if that isn't the store.
    pub fn source_of(&self, domain: &str) -> Option<Arc<dyn Source>> {
        match &self.domain(domain)?.login {
            LoginBy::Source(source) => Some(source.clone()),
            LoginBy::Own | LoginBy::Anonymous => None,
        }
    }

    /// Returns the statistics of all sources, by domain.
    pub fn sources_seen(&self) -> impl Iterator<Item = (&str, SourceSeen)> {
        let of = |login: &LoginBy| match login {
            LoginBy::Source(source) => source.statistics(),
            LoginBy::Own | LoginBy::Anonymous => Vec::new(),
        };
        let domains = self.settings().domains.iter();
        domains.flat_map(move |domain| of(&domain.login).into_iter().map(|seen| (domain.name.as_str(), seen)))
    }

    /// Asks a source to judge a password. The verdict comes as [`Event::Login`].
    pub(crate) fn verify_elsewhere(
        &mut self,
        connection: u64,
        source: Arc<dyn Source>,
        account: Jid,
        password: String,
    ) {
        let judging = source.judge(Proof::Password { account: account.clone(), password });
        self.wait_outside(judging, move |world, judgement| match judgement {
            Judgement::Good { .. } => {
                let refused = LoginAnswer::Verified(false);
                world.admit(connection, &*source, account, LoginAnswer::Verified(true), refused);
            }
            Judgement::Bad { .. } => world.login_answered(connection, LoginAnswer::Verified(false)),
            Judgement::Away => world.login_answered(connection, LoginAnswer::Failed),
        });
    }

    /// Asks the source of a domain to judge a token, and finds the account that it is good for,
    /// which has to be the wanted one if there is one. Answered with [`Event::Login`].
    pub fn identify(&mut self, connection: u64, domain: &str, token: String, wanted: Option<Jid>) {
        let Some(source) = self.source_of(domain) else {
            return self.login_answered(connection, LoginAnswer::Failed);
        };
        let domain = domain.to_owned();
        let judging = source.judge(Proof::Token(token));
        self.wait_outside(judging, move |world, judgement| {
            let (username, until_s) = match judgement {
                Judgement::Good { username, until_s } => (username.unwrap_or_default(), until_s),
                Judgement::Bad { why } => return world.login_answered(connection, LoginAnswer::BearerRefused(why)),
                Judgement::Away => return world.login_answered(connection, LoginAnswer::Failed),
            };
            let refused = || LoginAnswer::BearerRefused(NOT_FOR_IT.to_owned());
            let Ok(account) = Jid::new(Some(&username), &domain, None) else {
                warn!(domain, username, "a valid token contains a name that can't be part of an address");
                return world.login_answered(connection, refused());
            };
            if wanted.is_some_and(|wanted| wanted != account) {
                return world.login_answered(connection, refused());
            }
            world.admit(connection, &*source, account.clone(), LoginAnswer::Identified(account, until_s), refused());
        });
    }

    /// Logs in a user for whom a source has vouched, if the account exists or may be created.
    fn admit(
        &mut self,
        connection: u64,
        source: &dyn Source,
        account: Jid,
        admitted: LoginAnswer,
        refused: LoginAnswer,
    ) {
        let makes_accounts = source.makes_accounts();
        self.with_credentials(account.clone(), move |world, found| match found {
            Some((Some(_), true)) => world.login_answered(connection, LoginAnswer::VerifiedDisabled),
            Some((Some(_), false)) => world.login_answered(connection, admitted),
            Some((None, _)) if makes_accounts => world.make_account(connection, account, admitted),
            Some((None, _)) => world.login_answered(connection, refused),
            None => world.login_answered(connection, LoginAnswer::Failed),
        });
    }

    /// Creates an account that no password opens here.
    fn make_account(&mut self, connection: u64, account: Jid, admitted: LoginAnswer) {
        let iterations = self.settings().scram_iterations;
        let none = |hash| Keys::none(hash, iterations);
        let keys = none(Hash::Sha1)
            .and_then(|sha1| Ok(Credentials { sha1, sha256: none(Hash::Sha256)?, sha512: none(Hash::Sha512)? }));
        let Ok(credentials) = keys else {
            warn!(%account, "the system provides no random numbers for a new account");
            return self.login_answered(connection, LoginAnswer::Failed);
        };
        let made = self.stores.accounts.create(account.as_ref(), credentials);
        self.wait(made, move |world, made| match made {
            // Another login of the same user may have created it meanwhile.
            Ok(is_new) => {
                if is_new {
                    info!(%account, "an account was created at its first login");
                }
                world.login_answered(connection, admitted);
            }
            Err(error) => {
                world.store_failed("making an account", &account, &error);
                world.login_answered(connection, LoginAnswer::Failed);
            }
        });
    }

    fn login_answered(&mut self, connection: u64, answer: LoginAnswer) {
        self.out.events.push_back(Event::Login(connection, answer));
    }
}

/// The JSON of RFC 7628 §3.2.2 for a valid token that lacks the required scope.
const NOT_FOR_IT: &str = r#"{"status":"invalid_token"}"#;
