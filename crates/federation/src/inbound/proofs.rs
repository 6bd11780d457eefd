//! Checks a peer's proofs of a domain: by its certificate, in SASL or in dialback, or by a
//! key that the domain's server knows.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_stream::error::{Condition, StreamError};
use rookery_stream::tls::trust::Names;
use rookery_stream::tls::trust::tlsa::{Associations, Fingerprints};
use rookery_xml::{Element, Writer, ns};

use super::{
    Inbound, InboundEvent, KeyQuestion, MOST_FAILURES, MOST_PENDING, MOST_PROVEN, MOST_REQUESTS, Ours, domain,
};
use crate::dialback::{self, Dialback};
use crate::settings::PeerPolicy;

impl Inbound {
    /// Returns the peer's domain if its certificate proves it.
    pub(super) fn certified_domain(&self) -> Option<&str> {
        self.remote.as_deref().filter(|remote| self.is_certified(remote))
    }

    pub(super) fn is_certified(&self, domain: &str) -> bool {
        matches!(&self.tls, Some(Ok(names)) if names.cover(domain))
    }

    /// Returns the strictest policy that the proof for a domain satisfies; `None` if there is none.
    pub(super) fn proof(&self, domain: &str) -> Option<PeerPolicy> {
        self.proven.iter().any(|proven| **proven == *domain).then(|| match &self.tls {
            Some(_) if self.is_certified(domain) => PeerPolicy::Certificate,
            Some(_) => PeerPolicy::Dialback,
            None => PeerPolicy::Plain,
        })
    }

    /// Returns the error with which the stream has to end under the current settings, and its text:
    /// the host that it is for is gone, doesn't communicate with the stream's domains, or needs
    /// better proofs.
    pub(crate) fn objection(&self, ours: &dyn Ours) -> Option<(StreamError, Option<&str>)> {
        let (settings, local) = (&self.settings, self.local.as_deref()?);
        if !settings.shows(local, ours) {
            return Some((StreamError::HostGone, None));
        }
        let objection = self.proven().chain(self.claimed()).find_map(|domain| settings.objection(local, domain));
        let is_enough = |domain: &str| self.proof(domain) >= Some(settings.policy_for(local, domain));
        match objection {
            Some(objection) => Some((StreamError::PolicyViolation, Some(objection.text()))),
            None if self.proven().all(is_enough) => None,
            None => Some((StreamError::PolicyViolation, Some("Another proof is needed."))),
        }
    }

    /// Remembers the certificate that the peer has shown, since DNS may name it.
    pub(crate) fn shows(&mut self, shown: Fingerprints) {
        self.shown = Some(Box::new(shown));
    }

    /// Returns whether DNS may name the certificate of the peer.
    fn may_be_named(&self) -> bool {
        self.settings.dane && self.shown.is_some()
    }

    /// Accepts the certificate of the peer as proof if DNS names it.
    pub(crate) fn associate<'a>(&mut self, named: impl IntoIterator<Item = &'a Associations>) -> Option<&Names> {
        let shown = self.shown.as_deref().filter(|_| self.settings.dane)?;
        let names = named.into_iter().find_map(|associations| associations.of_caller(shown))?;
        match self.tls.as_mut()? {
            Ok(known) => known.join(names),
            tls => *tls = Ok(names),
        }
        self.tls.as_ref()?.as_ref().ok()
    }

    /// Handles SASL EXTERNAL (XEP-0178 §3), the only mechanism between servers.
    pub(super) fn auth(&mut self, element: &Element, out: &mut Vec<u8>) -> Option<InboundEvent> {
        if !self.proven.is_empty() {
            return Some(self.fail(&StreamError::PolicyViolation, Some("The stream is authenticated already."), out));
        }
        if element.attr("mechanism") != Some("EXTERNAL") {
            return self.not_authenticated("invalid-mechanism", out);
        }
        let Some(certified) = self.certified_domain().map(Box::<str>::from) else {
            return self.not_authenticated("not-authorized", out);
        };
        let text = element.text();
        // No text and `=` stand for the name in the header; some peers send only that.
        if !matches!(text.trim(), "" | "=") {
            let decoded = STANDARD.decode(text.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let Some(name) = decoded else { return self.not_authenticated("incorrect-encoding", out) };
            if domain(&name).as_ref() != Ok(&certified) {
                return self.not_authenticated("invalid-authzid", out);
            }
        }
        out.extend_from_slice(b"<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
        self.prove(&certified);
        if let Some(local) = self.local.clone() {
            self.may_be_answered(&local, &certified);
        }
        self.restart();
        Some(InboundEvent::Proven(certified))
    }

    pub(super) fn not_authenticated(&mut self, condition: &str, out: &mut Vec<u8>) -> Option<InboundEvent> {
        let mut failure = Writer::with_ns("failure", ns::SASL);
        failure.start(condition).end();
        self.fail_request(failure, out)
    }

    /// Refuses a request. Both sides may continue, up to a limit.
    pub(super) fn fail_request(&mut self, failure: Writer, out: &mut Vec<u8>) -> Option<InboundEvent> {
        out.extend_from_slice(failure.finish().bytes());
        self.failures += 1;
        (self.failures >= MOST_FAILURES)
            .then(|| self.fail(&StreamError::PolicyViolation, Some("Too many failures."), out))
    }

    /// Handles a request to send from a domain (XEP-0220 §2.2.1).
    pub(super) fn result(&mut self, element: &Element, ours: &dyn Ours, out: &mut Vec<u8>) -> Option<InboundEvent> {
        if self.asks_too_much() {
            return Some(self.fail(&StreamError::PolicyViolation, Some("Too many dialback requests."), out));
        }
        let (Some(from), Some(to)) = (element.attr("from"), element.attr("to")) else {
            return Some(self.fail(&StreamError::ImproperAddressing, None, out));
        };
        let asked = match (domain(from), domain(to), Dialback::read(element)) {
            (Ok(from), Ok(to), Some(asked)) if !asked.key.is_empty() => self.consider(from, to, &asked.key, ours),
            _ => Err(Condition::NotAcceptable),
        };
        match asked {
            Ok(question) => Some(InboundEvent::Verify(question)),
            Err(condition) => {
                dialback::answer(dialback::Name::Result, to, from, None, &Err(condition), out);
                None
            }
        }
    }

    fn consider(&mut self, from: Box<str>, to: Box<str>, key: &str, ours: &dyn Ours) -> Result<KeyQuestion, Condition> {
        if !self.settings.shows(&to, ours) {
            return Err(Condition::ItemNotFound);
        }
        let policy = self.settings.policy_for(&to, &from);
        if ours.is_ours(&from) || !self.settings.admits(&to, &from) {
            return Err(Condition::PolicyViolation);
        }
        if self.tls.is_none() && policy != PeerPolicy::Plain {
            return Err(Condition::PolicyViolation);
        }
        // The same rules as for EXTERNAL, unless DNS names the certificate.
        let is_certified = self.is_certified(&from);
        if policy == PeerPolicy::Certificate && !is_certified && !self.may_be_named() {
            return Err(Condition::NotAuthorized);
        }
        if self.pending.iter().any(|(of, for_)| *of == from && *for_ == to) {
            return Err(Condition::NotAcceptable);
        }
        if self.pending.len() >= MOST_PENDING || self.proven.len() >= MOST_PROVEN {
            return Err(Condition::ResourceConstraint);
        }
        self.pending.push((from.clone(), to.clone()));
        Ok(KeyQuestion { from, to, id: self.id.as_str().into(), key: key.into(), is_certified })
    }

    fn asks_too_much(&mut self) -> bool {
        self.requests += 1;
        self.requests > MOST_REQUESTS
    }

    /// Answers another server's question whether a key is ours (XEP-0220 §2.1.2).
    pub(super) fn verify(&mut self, element: &Element, ours: &dyn Ours, out: &mut Vec<u8>) -> Option<InboundEvent> {
        if self.proven.is_empty() && self.asks_too_much() {
            return Some(self.fail(&StreamError::PolicyViolation, Some("Too many dialback requests."), out));
        }
        if !dialback::confirm(element, &self.settings, ours, out) {
            return Some(self.fail(&StreamError::ImproperAddressing, None, out));
        }
        None
    }
}
