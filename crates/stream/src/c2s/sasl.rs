//! SASL as RFC 6120 §6 frames it: `<auth/>`, `<challenge/>`, `<response/>`, `<abort/>`,
//! `<success/>`, `<failure/>`.

use std::mem;

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_jid::Jid;
use rookery_sasl::server::Offer;
use rookery_sasl::{Credentials, Failure, Mechanism};
use rookery_xml::{Element, Writer, ns};

use super::login::{LoginProgress, SaslAttempt};
use super::{C2s, C2sEvent, C2sPhase, sasl2};
use crate::error::StreamError;

impl C2s {
    /// Answers [`C2sEvent::Credentials`]: `None` if there is no such account, which the client
    /// isn't told.
    ///
    /// An answer to a stream that has ended meanwhile is ignored; that holds for all answers.
    pub fn credentials(&mut self, found: Option<&Credentials>, out: &mut Vec<u8>) {
        if let Some(mut attempt) = self.take_credentials() {
            let progress = attempt.credentials(found, &self.policy.decoy);
            self.proceed(attempt, progress, out);
        }
    }

    /// Answers [`C2sEvent::Credentials`] for an account that is disabled: a client that proves to
    /// have them gets `account-disabled` (RFC 6120 §6.5.2).
    pub fn disabled(&mut self, found: &Credentials, out: &mut Vec<u8>) {
        if let Some(mut attempt) = self.take_credentials() {
            let progress = attempt.disabled(found, &self.policy.decoy);
            self.proceed(attempt, progress, out);
        }
    }

    /// Answers [`C2sEvent::Verify`] if the password is that of an account that is disabled.
    pub fn verified_disabled(&mut self, out: &mut Vec<u8>) {
        if let Some(attempt) = self.take_verify() {
            self.proceed(attempt, LoginProgress::Failure(Failure::AccountDisabled), out);
        }
    }

    /// Answers [`C2sEvent::Verify`] with what
    /// [`Decoy::verify`](rookery_sasl::server::Decoy::verify) said, and [`C2sEvent::Anonymous`]
    /// with true.
    pub fn verified(&mut self, correct: bool, out: &mut Vec<u8>) {
        if let Some(mut attempt) = self.take_verify() {
            let progress = attempt.verified(correct, &self.policy.decoy);
            self.proceed(attempt, progress, out);
        }
    }

    /// Answers [`C2sEvent::Bearer`] with the account for which the token is valid, which is one of
    /// the host, and the time until which that holds, in seconds since 1970: see
    /// [`C2s::holds_until`].
    pub fn identified(&mut self, account: Jid, until_s: Option<u64>, out: &mut Vec<u8>) {
        if let Some(mut attempt) = self.take_verify() {
            self.until_s = until_s;
            let progress = attempt.identified(account, &self.policy.decoy);
            self.proceed(attempt, progress, out);
        }
    }

    /// Answers [`C2sEvent::Bearer`] if the token isn't valid, with the JSON that says why (RFC 7628
    /// §3.2.2).
    pub fn bearer_refused(&mut self, why: &str, out: &mut Vec<u8>) {
        if let Some(mut attempt) = self.take_verify() {
            let progress = attempt.bearer_refused(why, &self.policy.decoy);
            self.proceed(attempt, progress, out);
        }
    }

    /// Answers [`C2sEvent::Credentials`], [`C2sEvent::Verify`], [`C2sEvent::Anonymous`],
    /// [`C2sEvent::Bearer`] or [`C2sEvent::Tokens`] if there is no answer at present: the client
    /// may try again (RFC 6120 §6.5.11).
    pub fn store_failed(&mut self, out: &mut Vec<u8>) {
        if self.tokens_failed(out) {
            return;
        }
        if let Some(attempt) = self.take_credentials().or_else(|| self.take_verify()) {
            self.proceed(attempt, LoginProgress::Failure(Failure::TemporaryAuthFailure), out);
        }
    }

    /// Takes an element of the SASL namespace.
    pub(super) fn sasl(&mut self, element: &Element, out: &mut Vec<u8>) {
        if self.account.is_some() {
            // RFC 6120 §6.4.6 lets a client log in once; next comes a new stream header.
            return self.fail(&StreamError::PolicyViolation, Some("The stream is authenticated already."), out);
        }
        let phase = mem::replace(&mut self.phase, C2sPhase::Login);
        match (element.name(), phase) {
            ("auth", C2sPhase::Login) => self.auth(element, out),
            (_, C2sPhase::Challenged(attempt)) if attempt.request.is_some() => {
                self.fail(&StreamError::PolicyViolation, Some("Another authentication is in progress."), out);
            }
            ("response", C2sPhase::Challenged(attempt)) => self.response(attempt, element, out),
            // §6.4.4: `<abort/>` gets a reply even when there is nothing to abort.
            ("abort", C2sPhase::Challenged(attempt)) => {
                self.proceed(attempt, LoginProgress::Failure(Failure::Aborted), out);
            }
            ("abort", _) => self.auth_failed(None, Failure::Aborted, ns::SASL, out),
            ("auth" | "response", _) => self.auth_failed(None, Failure::MalformedRequest, ns::SASL, out),
            _ => self.fail(&StreamError::UnsupportedStanzaType, None, out),
        }
    }

    fn auth(&mut self, element: &Element, out: &mut Vec<u8>) {
        let mechanisms = self.policy.mechanisms_for(&self.facts, self.host());
        let mechanism = match self.choose(element.attr("mechanism").unwrap_or_default(), &mechanisms) {
            Ok(mechanism) => mechanism,
            Err(failure) => return self.auth_failed(None, failure, ns::SASL, out),
        };
        self.mechanism = Some(mechanism.name());
        let text = element.text();
        let Some(initial) = decode(&text) else {
            return self.auth_failed(None, Failure::IncorrectEncoding, ns::SASL, out);
        };
        // §6.4.2: an element without text has no initial response, `=` is an empty one.
        let initial = (!text.is_empty()).then_some(initial);
        let offer = Offer {
            domain: self.host().map(|host| host.name.as_str()).unwrap_or_default(),
            mechanisms: &mechanisms,
            bindings: &self.facts.bindings,
            binding_types_announced: mechanisms.iter().any(|mechanism| mechanism.binds()),
        };
        let (attempt, progress) = SaslAttempt::start(mechanism, initial.as_deref(), &offer, &self.policy.decoy);
        self.proceed(attempt, progress, out);
    }

    fn response(&mut self, mut attempt: SaslAttempt, element: &Element, out: &mut Vec<u8>) {
        let progress = match decode(&element.text()) {
            Some(message) => attempt.respond(&message, &self.policy.decoy),
            None => LoginProgress::Failure(Failure::IncorrectEncoding),
        };
        self.proceed(attempt, progress, out);
    }

    /// Returns the mechanism of a name, if it is among the offered ones.
    pub(super) fn choose(&self, name: &str, offered: &[Mechanism]) -> Result<Mechanism, Failure> {
        if !self.facts.login_allowed() {
            return Err(Failure::EncryptionRequired);
        }
        match Mechanism::from_name(name) {
            Some(mechanism) if offered.contains(&mechanism) => Ok(mechanism),
            // §6.5.4: the mechanism would be offered under TLS.
            Some(mechanism) if !self.facts.secure && self.policy.has_under_tls(mechanism, self.host()) => {
                Err(Failure::EncryptionRequired)
            }
            _ => Err(Failure::InvalidMechanism),
        }
    }

    /// Sends or reports what the authentication needs next, and waits for it.
    pub(super) fn proceed(&mut self, mut attempt: SaslAttempt, progress: LoginProgress, out: &mut Vec<u8>) {
        match progress {
            LoginProgress::Credentials(account) => {
                self.phase = C2sPhase::Credentials(attempt);
                self.pending = Some(C2sEvent::Credentials { account });
            }
            LoginProgress::Verify { account, password } => {
                self.phase = C2sPhase::Verify(attempt);
                self.pending = Some(C2sEvent::Verify { account, password });
            }
            LoginProgress::Anonymous => {
                // XEP-0175 §3 recommends a UUID.
                let account = attempt.name_by((self.ids)());
                self.phase = C2sPhase::Verify(attempt);
                match account {
                    Some(account) => self.pending = Some(C2sEvent::Anonymous { account }),
                    None => self.store_failed(out),
                }
            }
            LoginProgress::Bearer { token, wanted } => {
                self.phase = C2sPhase::Verify(attempt);
                self.pending = Some(C2sEvent::Bearer { token, wanted });
            }
            LoginProgress::Challenge(message) => {
                match attempt.request {
                    Some(_) => sasl2::write("challenge", &message, out),
                    // §6.4.3: unlike in `<success/>`, an empty element stands for no data.
                    None => write("challenge", &STANDARD.encode(message), out),
                }
                self.phase = C2sPhase::Challenged(attempt);
            }
            LoginProgress::Success { account, additional } => match attempt.request.take() {
                Some(request) => self.authenticated2(account, additional, *request, out),
                None => {
                    write("success", &additional.map(|data| STANDARD.encode(data)).unwrap_or_default(), out);
                    self.authenticated(account);
                }
            },
            LoginProgress::Failure(failure) => {
                let ns = attempt.ns();
                self.auth_failed(attempt.into_account(), failure, ns, out);
            }
        }
    }

    /// Restarts the stream of a client that has logged in and been told so (§6.4.6).
    fn authenticated(&mut self, account: Jid) {
        self.account = Some(account.clone());
        self.restart();
        self.pending = Some(C2sEvent::Authenticated { account });
    }

    /// Sends a failure in an element of this namespace. The client may try again (§6.4.5), but not
    /// for ever.
    pub(super) fn auth_failed(&mut self, account: Option<Jid>, failure: Failure, namespace: &str, out: &mut Vec<u8>) {
        let mut element = Writer::with_ns("failure", namespace);
        match namespace {
            ns::SASL => element.start(failure.condition()).end(),
            _ => element.start_ns(failure.condition(), ns::SASL).end(),
        };
        out.extend_from_slice(element.finish().bytes());
        self.phase = C2sPhase::Login;
        self.pending = Some(C2sEvent::Failed { account, failure });
        self.auth_failures += 1;
        if self.auth_failures >= self.policy.max_auth_failures {
            self.fail(&StreamError::PolicyViolation, Some("Too many authentications failed."), out);
        }
    }

    fn take_credentials(&mut self) -> Option<SaslAttempt> {
        match mem::replace(&mut self.phase, C2sPhase::Login) {
            C2sPhase::Credentials(attempt) => Some(attempt),
            other => {
                self.phase = other;
                None
            }
        }
    }

    fn take_verify(&mut self) -> Option<SaslAttempt> {
        match mem::replace(&mut self.phase, C2sPhase::Login) {
            C2sPhase::Verify(attempt) => Some(attempt),
            other => {
                self.phase = other;
                None
            }
        }
    }
}

/// Returns the data of an element (§6.4.2): Base64 by RFC 4648 §4, `=` for none. `None` if it is
/// neither; line feeds, other whitespace and missing padding count as errors (§13.9.1).
fn decode(text: &str) -> Option<Vec<u8>> {
    match text {
        "=" => Some(Vec::new()),
        text => STANDARD.decode(text).ok(),
    }
}

fn write(name: &str, text: &str, out: &mut Vec<u8>) {
    let mut element = Writer::with_ns(name, ns::SASL);
    element.text(text);
    out.extend_from_slice(element.finish().bytes());
}
