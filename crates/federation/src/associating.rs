//! Callers that show a certificate which no trusted authority has issued: DNS may name it (DANE,
//! RFC 7673), as it does for servers that we call.
//!
//! Such a caller is offered no SASL, and sends a dialback key, which names its domain (XEP-0220).
//! If DNS is trusted, the domain is then looked up, as it would be for verifying the key. If signed
//! records, reached through signed records only, name the caller's certificate for one of the
//! domain's servers, the caller has proven the domain, and no connection is made. If not, the key
//! counts as far as the policy permits.
//!
//! # Invariants
//!
//! * If certificates are the proof, a caller can cause DNS queries and nothing else, within the
//!   bounds of those for dialback (`strangers`).
//! * The records prove only the domain that was looked up.

use rookery_stream::error::Condition;
use rookery_stream::tls::trust::tlsa::{Associations, Fingerprints};

use crate::route::RouteState;
use crate::servers::{Arrived, ConnectionKey, ServerStreams};
use crate::settings::PeerPolicy;
use crate::targets::Address;

impl ServerStreams {
    /// Takes the certificate that a calling server has shown, since DNS may name it. Must be called
    /// before [`ServerStreams::secured`].
    pub fn shown(&mut self, key: ConnectionKey, own: Fingerprints) {
        if let Some(machine) = self.inbound_mut(key) {
            machine.shows(own);
        }
    }

    /// Compares the certificates of callers that wait for a domain's server with those that DNS
    /// names. Returns whether that server still has to be asked about the keys of some.
    pub(crate) fn associate(&mut self, at: usize, found: &[Address]) -> bool {
        let Some(route) = self.routes.get_mut(at).filter(|_| self.settings.dane) else { return true };
        let mut named: Vec<&Associations> = found.iter().filter_map(|address| address.tlsa.as_deref()).collect();
        // The addresses of a target share their records.
        named.dedup_by(|one, other| std::ptr::eq(*one, *other));
        let needs_certificate = self.settings.policy_for(&route.local, &route.remote) == PeerPolicy::Certificate;
        let mut others = Vec::new();
        for (mut question, arrived) in std::mem::take(&mut route.questions) {
            question.is_certified = self.is_named(arrived, &named);
            match (question.is_certified, needs_certificate) {
                (true, _) => self.tell(arrived, &question, &Ok(true)),
                (false, true) => self.tell(arrived, &question, &Err(Condition::NotAuthorized)),
                (false, false) => others.push((question, arrived)),
            }
        }
        let is_done = others.is_empty();
        if is_done {
            self.set_state(at, RouteState::Idle);
            self.forget_later(at, FORGET_MS);
        } else if let Some(route) = self.routes.get_mut(at) {
            route.questions = others;
        }
        !is_done
    }

    /// Accepts the certificate of a caller as proof if DNS names it.
    fn is_named(&mut self, arrived: Arrived, named: &[&Associations]) -> bool {
        if !self.is_at(arrived.key, arrived.serial) {
            return false;
        }
        let machine = self.inbound_mut(arrived.key);
        let proven = machine.and_then(|machine| machine.associate(named.iter().copied()).cloned());
        let Some(names) = proven else { return false };
        self.holds_until(arrived.key, &Ok(names));
        true
    }
}

/// The time for which the way to a domain that a caller has named is remembered. It is short
/// because the resolver has a cache of its own.
const FORGET_MS: u64 = 5_000;
