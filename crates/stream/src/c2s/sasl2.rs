//! SASL as XEP-0388 frames it: `<authenticate/>`, `<challenge/>`, `<response/>`, `<abort/>`,
//! `<success/>`, `<failure/>`, without a stream restart.
//!
//! The authentication itself is that of [`super::sasl`]; the differences are the elements, and
//! that a client says in its first one how the stream is to continue (`request`), which happens
//! after login (`inline`). `fast` is a kind of login that only this framing has.

pub(super) mod fast;
pub(super) mod inline;
pub(super) mod request;

use std::mem;

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_jid::Jid;
use rookery_sasl::server::Offer;
use rookery_sasl::{Failure, TokenMechanism};
use rookery_xml::{Element, Writer, ns};

use super::login::{LoginProgress, SaslAttempt};
use super::{C2s, C2sPhase};
use crate::error::StreamError;
use inline::Inline;
use request::Sasl2Request;

impl C2s {
    /// Takes an element of the namespace. These are allowed before login only, and no other element
    /// may come between them (§2.4, §4.6).
    pub(super) fn sasl2(&mut self, element: &Element, out: &mut Vec<u8>) {
        if self.account.is_some() {
            return self.fail(&StreamError::PolicyViolation, Some("The stream is authenticated already."), out);
        }
        if self.host().is_none_or(|host| host.sasl2.is_none()) {
            return self.fail(&StreamError::UnsupportedStanzaType, None, out);
        }
        let phase = mem::replace(&mut self.phase, C2sPhase::Login);
        match (element.name(), phase) {
            ("authenticate", C2sPhase::Login) => self.authenticate(element, out),
            ("response", C2sPhase::Challenged(mut attempt)) if attempt.request.is_some() => {
                let progress = match STANDARD.decode(element.text()) {
                    Ok(message) => attempt.respond(&message, &self.policy.decoy),
                    Err(_) => LoginProgress::Failure(Failure::IncorrectEncoding),
                };
                self.proceed(attempt, progress, out);
            }
            ("abort", C2sPhase::Challenged(attempt)) if attempt.request.is_some() => {
                self.proceed(attempt, LoginProgress::Failure(Failure::Aborted), out);
            }
            _ => self.fail(&StreamError::PolicyViolation, Some("Not allowed during authentication."), out),
        }
    }

    fn authenticate(&mut self, element: &Element, out: &mut Vec<u8>) {
        let request = Box::new(Sasl2Request::read(element));
        if let Some(mechanism) = element.attr("mechanism").and_then(TokenMechanism::from_name) {
            self.mechanism = Some(mechanism.name());
            return self.present(element, mechanism, *request, out);
        }
        let mechanisms = self.policy.mechanisms_for(&self.facts, self.host());
        let mechanism = match self.choose(element.attr("mechanism").unwrap_or_default(), &mechanisms) {
            Ok(mechanism) => mechanism,
            Err(failure) => return self.auth_failed(None, failure, ns::SASL2, out),
        };
        self.mechanism = Some(mechanism.name());
        let Ok(initial) =
            element.child_text("initial-response", ns::SASL2).map(|text| STANDARD.decode(text)).transpose()
        else {
            return self.auth_failed(None, Failure::IncorrectEncoding, ns::SASL2, out);
        };
        let offer = Offer {
            domain: self.host().map(|host| host.name.as_str()).unwrap_or_default(),
            mechanisms: &mechanisms,
            bindings: &self.facts.bindings,
            binding_types_announced: mechanisms.iter().any(|mechanism| mechanism.binds()),
        };
        let (mut attempt, progress) = SaslAttempt::start(mechanism, initial.as_deref(), &offer, &self.policy.decoy);
        attempt.request = Some(request);
        self.proceed(attempt, progress, out);
    }

    /// Continues after the client has logged in: carries out the requests that came along with the
    /// login, then tells the client everything.
    pub(super) fn authenticated2(
        &mut self,
        account: Jid,
        additional: Option<Vec<u8>>,
        request: Sasl2Request,
        out: &mut Vec<u8>,
    ) {
        // §4.3: a client that has claimed an address must log in as that one.
        if self.client.as_ref().is_some_and(|client| *client != account) {
            return self.auth_failed(Some(account), Failure::InvalidAuthzid, ns::SASL2, out);
        }
        self.account = Some(account.clone());
        self.phase = C2sPhase::Inline(Box::new(Inline::new(request, additional)));
        self.pending = Some(super::C2sEvent::Authenticated { account });
    }
}

/// Appends an element with SASL data.
pub(super) fn write(name: &str, data: &[u8], out: &mut Vec<u8>) {
    let mut element = Writer::with_ns(name, ns::SASL2);
    element.text(&STANDARD.encode(data));
    out.extend_from_slice(element.finish().bytes());
}
