//! The proof that the called server is the domain's.

use rookery_stream::tls::trust::{Names, Untrusted};

use super::{Outbound, OutboundEvent, OutboundPhase, StreamPurpose};
use crate::settings::PeerPolicy;

impl Outbound {
    /// Returns how the other server has proven to be that of its domain.
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

    /// Returns whether the two domains communicate by the settings of now, which are content with
    /// the proof that the other server has given, if it had to give one by now.
    pub(crate) fn is_admitted(&self) -> bool {
        let policy = self.settings.policy_for(&self.local, &self.remote);
        // Who is asked about a key needs no certificate (XEP-0220 §2.1.2).
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

    /// Judges who is there when the handshake is complete, and begins the stream again.
    pub fn secured(&mut self, shown: Result<Names, Untrusted>, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        if self.phase != OutboundPhase::Tls {
            return None;
        }
        let needs_certificate = self.purpose == StreamPurpose::Stanzas
            && self.settings.policy_for(&self.local, &self.remote) == PeerPolicy::Certificate;
        // What else is believed of a peer doesn't make up for a certificate that DNS says isn't its
        // own.
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

    /// Tells whether nothing may be said without TLS.
    pub(super) fn needs_tls(&self) -> bool {
        self.must_encrypt || self.settings.policy_for(&self.local, &self.remote) != PeerPolicy::Plain
    }
}
