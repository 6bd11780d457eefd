//! The proof that the called server is the domain's.

use rookery_stream::tls::trust::{Names, Untrusted};

use super::{Outbound, OutboundEvent, OutboundPhase, StreamPurpose};
use crate::settings::PeerPolicy;

impl Outbound {
    /// Returns the kind of proof that the other server has given for its domain, as a word.
    pub fn security(&self) -> &'static str {
        match &self.tls {
            Some(Ok(names)) if names.is_associated() => "TLS, DANE",
            Some(Ok(names)) if names.cover(&self.remote) => "TLS, certificate",
            Some(_) => "TLS, DNS",
            None if self.is_ready() => "DNS",
            None => "nothing",
        }
    }

    /// Returns the strictest policy that the proof of the other server satisfies.
    pub(super) fn proof(&self) -> PeerPolicy {
        match &self.tls {
            Some(Ok(names)) if names.cover(&self.remote) => PeerPolicy::Certificate,
            Some(_) => PeerPolicy::Dialback,
            None => PeerPolicy::Plain,
        }
    }

    /// Returns whether the current settings let the two domains communicate. If the other server
    /// should have proven itself by now, its proof has to satisfy them, too.
    pub(crate) fn is_admitted(&self) -> bool {
        let policy = self.settings.policy_for(&self.local, &self.remote);
        // A server that is asked about a key needs no certificate (XEP-0220 §2.1.2).
        let needed = if self.purpose == StreamPurpose::Questions { policy.min(PeerPolicy::Dialback) } else { policy };
        let is_judged_later = self.tls.is_none()
            && matches!(
                self.phase,
                OutboundPhase::Closed
                    | OutboundPhase::Header(false)
                    | OutboundPhase::Features(false)
                    | OutboundPhase::Proceed
                    | OutboundPhase::Tls
            );
        self.settings.admits(&self.local, &self.remote) && (is_judged_later || self.proof() >= needed)
    }

    /// Checks the peer's identity after the handshake, and begins the stream again.
    pub fn secured(&mut self, shown: Result<Names, Untrusted>, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        if self.phase != OutboundPhase::Tls {
            return None;
        }
        let needs_certificate = self.purpose == StreamPurpose::Stanzas
            && self.settings.policy_for(&self.local, &self.remote) == PeerPolicy::Certificate;
        // If DNS rules a certificate out, no other proof makes up for it.
        if needs_certificate || matches!(shown, Err(Untrusted::Unassociated(_))) {
            let judged = match &shown {
                Err(reason) => Err(reason.to_string()),
                Ok(names) if names.cover(&self.remote) => Ok(()),
                Ok(names) => {
                    let names: Vec<_> = names.all().take(10).collect();
                    Err(format!("its certificate is for {} and not for the domain", names.join(", ")))
                }
            };
            if let Err(reason) = judged {
                self.phase = OutboundPhase::Ended;
                self.cause = Some(reason);
                return Some(OutboundEvent::End);
            }
        }
        self.tls = Some(shown);
        self.open(false, out);
        None
    }

    /// Returns whether nothing may be sent without TLS.
    pub(super) fn needs_tls(&self) -> bool {
        self.must_encrypt || self.settings.policy_for(&self.local, &self.remote) != PeerPolicy::Plain
    }
}
