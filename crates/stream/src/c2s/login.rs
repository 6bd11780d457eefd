//! One authentication, independent of the elements that carry it: those of RFC 6120 §6 or those of
//! XEP-0388.

use rookery_jid::Jid;
use rookery_sasl::server::{Decoy, Offer, ServerExchange, ServerStep};
use rookery_sasl::{Credentials, Failure, Mechanism};
use rookery_xml::ns;

use super::sasl2::request::Sasl2Request;

/// A SASL exchange and the account that it is for.
pub(super) struct SaslAttempt {
    exchange: Box<ServerExchange>,
    domain: String,
    /// The account; `None` until the client has named it, and if no account can have that name.
    account: Option<Jid>,
    /// The request of XEP-0388 that came with it, if it is one of those.
    pub request: Option<Box<Sasl2Request>>,
    /// True if the account is disabled; a client is told so only when it has proven to be its
    /// owner.
    is_disabled: bool,
    /// True if the account has a made-up name.
    is_nameless: bool,
}

/// The next thing that an authentication needs.
pub(super) enum LoginProgress {
    /// The credentials of this account, for [`SaslAttempt::credentials`].
    Credentials(Jid),
    /// The verdict on a password, for [`SaslAttempt::verified`].
    Verify { account: Jid, password: String },
    /// A number that nobody can guess, for [`SaslAttempt::name_by`], and then true for
    /// [`SaslAttempt::verified`].
    Anonymous,
    /// The account that this token stands for, for [`SaslAttempt::identified`], or the reason why
    /// there is none, for [`SaslAttempt::bearer_refused`].
    Bearer { token: String, wanted: Option<Jid> },
    /// The client's response to this challenge, for [`SaslAttempt::respond`].
    Challenge(Vec<u8>),
    /// Nothing: the client has logged in and is to be sent the additional data, if there is any.
    Success { account: Jid, additional: Option<Vec<u8>> },
    /// Nothing: it failed.
    Failure(Failure),
}

impl SaslAttempt {
    /// Begins with a mechanism and the initial response, if the client sent one.
    pub fn start(
        mechanism: Mechanism,
        initial: Option<&[u8]>,
        offer: &Offer<'_>,
        decoy: &Decoy,
    ) -> (SaslAttempt, LoginProgress) {
        let (exchange, step) = ServerExchange::start(mechanism, initial, offer);
        let mut attempt = SaslAttempt {
            exchange: Box::new(exchange),
            domain: offer.domain.to_owned(),
            account: None,
            request: None,
            is_disabled: false,
            is_nameless: false,
        };
        let progress = attempt.progress(step, decoy);
        (attempt, progress)
    }

    /// Takes the client's response to a challenge.
    pub fn respond(&mut self, message: &[u8], decoy: &Decoy) -> LoginProgress {
        let step = self.exchange.respond(message);
        self.progress(step, decoy)
    }

    /// Takes the account's credentials; `None` if there is no such account.
    pub fn credentials(&mut self, found: Option<&Credentials>, decoy: &Decoy) -> LoginProgress {
        let step = self.exchange.credentials(found, decoy);
        self.progress(step, decoy)
    }

    /// Takes the credentials of an account that is disabled.
    pub fn disabled(&mut self, found: &Credentials, decoy: &Decoy) -> LoginProgress {
        self.is_disabled = true;
        self.credentials(Some(found), decoy)
    }

    /// Takes the verdict on the password, or the admission of a client that proves nothing.
    pub fn verified(&mut self, correct: bool, decoy: &Decoy) -> LoginProgress {
        let step = match (self.is_nameless, self.account.as_ref().and_then(Jid::local)) {
            (true, Some(name)) if correct => self.exchange.named(name.to_owned()),
            _ => self.exchange.verified(correct),
        };
        self.progress(step, decoy)
    }

    /// Names an account by a number that nobody can guess, as a UUID (RFC 9562 §5.4).
    pub fn name_by(&mut self, number: u128) -> Option<Jid> {
        let rest = number & !((0xf << 76) | (0b11 << 62));
        let digits = format!("{:032x}", rest | (4 << 76) | (0b10 << 62));
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].into_iter();
        let parts: Option<Vec<&str>> = parts.map(|part| digits.get(part)).collect();
        self.is_nameless = true;
        self.name(&parts?.join("-"))
    }

    /// Takes the account that a token stands for.
    pub fn identified(&mut self, account: Jid, decoy: &Decoy) -> LoginProgress {
        let name = account.local().unwrap_or_default().to_owned();
        self.account = Some(account);
        let step = self.exchange.named(name);
        self.progress(step, decoy)
    }

    /// Takes the reason why a token isn't good.
    pub fn bearer_refused(&mut self, why: &str, decoy: &Decoy) -> LoginProgress {
        let step = self.exchange.refused(why);
        self.progress(step, decoy)
    }

    /// Returns the namespace of the elements that carry it.
    pub fn ns(&self) -> &'static str {
        if self.request.is_some() { ns::SASL2 } else { ns::SASL }
    }

    /// Returns the account that the client has named, once it has.
    pub fn account(&self) -> Option<&Jid> {
        self.account.as_ref()
    }

    /// Returns the account that the client named.
    pub fn into_account(self) -> Option<Jid> {
        self.account
    }

    fn progress(&mut self, step: ServerStep, decoy: &Decoy) -> LoginProgress {
        match step {
            ServerStep::NeedCredentials { username, .. } => match self.name(&username) {
                Some(account) => LoginProgress::Credentials(account),
                // No account can have that name, so the reply is the one for an unknown account.
                // This can't recurse: credentials are asked for once.
                None => self.credentials(None, decoy),
            },
            ServerStep::Verify { username, password, .. } => match self.name(&username) {
                Some(account) => LoginProgress::Verify { account, password },
                None => self.verified(false, decoy),
            },
            ServerStep::Anonymous => LoginProgress::Anonymous,
            ServerStep::Bearer { token, wanted } => match wanted.map(|wanted| self.name(&wanted)) {
                // No account can have that name.
                Some(None) => LoginProgress::Failure(Failure::InvalidAuthzid),
                named => LoginProgress::Bearer { token, wanted: named.flatten() },
            },
            ServerStep::Challenge(message) => LoginProgress::Challenge(message),
            ServerStep::Success { .. } if self.is_disabled => LoginProgress::Failure(Failure::AccountDisabled),
            ServerStep::Success { additional, .. } => match self.account.take() {
                Some(account) => {
                    let additional = Some(additional).filter(|data| !data.is_empty());
                    LoginProgress::Success { account, additional }
                }
                None => LoginProgress::Failure(Failure::NotAuthorized),
            },
            ServerStep::Failure(failure) => LoginProgress::Failure(failure),
        }
    }

    fn name(&mut self, username: &str) -> Option<Jid> {
        self.account = Jid::new(Some(username), &self.domain, None).ok();
        self.account.clone()
    }
}
