//! The features that an incoming stream offers its peer, and the proof that they allow.

use rookery_xml::{Writer, ns};

use super::{Inbound, STREAM_LIMITS};
use crate::bidi::BIDI_FEATURE;
use crate::reading::write_header;
use crate::settings::PeerPolicy;
use crate::stream_id;

impl Inbound {
    /// Writes our header, with a new id.
    pub(super) fn write_own_header(&mut self, versioned: bool, out: &mut Vec<u8>) {
        self.id = stream_id();
        write_header(self.local.as_deref(), self.remote.as_deref(), Some(&self.id), versioned, out);
        self.is_open = true;
    }

    /// Returns how the peer has to prove itself.
    pub(super) fn policy(&self) -> PeerPolicy {
        let local = self.local.as_deref().unwrap_or_default();
        let rules = self.settings.rules_of(local);
        self.remote.as_deref().map_or(rules.policy, |remote| self.settings.policy_for(local, remote))
    }

    /// Writes the features that the stream offers now (RFC 6120 §4.3.2).
    pub(super) fn write_features(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<stream:features>");
        let policy = self.policy();
        let mut append = |feature: Writer| out.extend_from_slice(feature.finish().bytes());
        if self.tls.is_none() {
            let mut starttls = Writer::with_ns("starttls", ns::STARTTLS);
            if policy != PeerPolicy::Plain {
                starttls.start("required").end();
            }
            append(starttls);
        }
        if self.tls.is_some() && self.proven.is_empty() && self.certified_domain().is_some() {
            let mut mechanisms = Writer::with_ns("mechanisms", ns::SASL);
            mechanisms.start("mechanism").text("EXTERNAL").end();
            append(mechanisms);
        }
        if self.tls.is_some() || policy == PeerPolicy::Plain {
            let mut feature = Writer::with_ns("dialback", ns::DIALBACK_FEATURE);
            feature.start("errors").end();
            append(feature);
        }
        if self.offers_bidi() {
            append(Writer::with_ns("bidi", BIDI_FEATURE));
        }
        if self.may_be_managed() {
            append(Writer::with_ns("sm", ns::SM));
        }
        let mut limits = Writer::with_ns("limits", STREAM_LIMITS);
        limits.start("max-bytes").text(&self.limits().bytes.to_string()).end();
        // Twice the time for which our own streams may be idle: see `StreamTimer::Idle`.
        limits.start("idle-seconds").text(&(2 * self.settings.idle_ms / 1000).to_string()).end();
        append(limits);
        out.extend_from_slice(b"</stream:features>");
    }
}
