//! The login of a stream of ours: choosing from the peer's features, SASL EXTERNAL (XEP-0178) and
//! dialback (XEP-0220).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_xml::{Element, Writer, ns};

use super::{Outbound, OutboundEvent, OutboundPhase, StreamPurpose};
use crate::bidi::{BIDI, BIDI_FEATURE};
use crate::dialback::{self, Dialback, DialbackAnswer};
use crate::inbound::{STREAM_LIMITS, domain};

impl Outbound {
    /// Asks for both directions if they are offered, before we identify ourselves (XEP-0288 §2.2).
    pub(super) fn ask_for_bidi(&mut self, features: &Element, out: &mut Vec<u8>) {
        if !self.is_bidi && !self.avoids_bidi && self.settings.bidi && features.child("bidi", BIDI_FEATURE).is_some() {
            let mut bidi = Writer::with_ns("bidi", BIDI);
            bidi.start_ns("limits", STREAM_LIMITS);
            bidi.start("max-bytes").text(&self.settings.limits.bytes.to_string()).end();
            bidi.start("idle-seconds").text(&(2 * self.settings.idle_ms / 1000).to_string()).end();
            bidi.end();
            out.extend_from_slice(bidi.finish().bytes());
            self.is_bidi = true;
        }
    }

    pub(super) fn features(
        &mut self,
        features: &Element,
        is_logged_in: bool,
        out: &mut Vec<u8>,
    ) -> Option<OutboundEvent> {
        let limits = features.child("limits", STREAM_LIMITS);
        let limit = |name| limits.and_then(|limits| limits.child_text(name, STREAM_LIMITS)?.trim().parse::<u64>().ok());
        self.longest = limit("max-bytes").map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        self.most_idle_ms = limit("idle-seconds").map_or(u64::MAX, |seconds| seconds.saturating_mul(1000));
        // A login by dialback is followed by no other features.
        self.acks.are_offered = features.child("sm", ns::SM).is_some();
        if is_logged_in {
            return self.logged_in(out);
        }
        if self.tls.is_none() {
            if features.child("starttls", ns::STARTTLS).is_some() {
                out.extend_from_slice(b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
                self.phase = OutboundPhase::Proceed;
                return None;
            }
            if self.needs_tls() {
                return Some(self.end_because("it doesn't offer TLS", out));
            }
        }
        if self.purpose == StreamPurpose::Questions {
            self.phase = OutboundPhase::Ready;
            return Some(OutboundEvent::Ready);
        }
        self.ask_for_bidi(features, out);
        self.knows_dialback |= features.child("dialback", ns::DIALBACK_FEATURE).is_some();
        let mechanisms = features.child("mechanisms", ns::SASL);
        let has_external = mechanisms
            .is_some_and(|mechanisms| mechanisms.children().any(|mechanism| mechanism.text().trim() == "EXTERNAL"));
        if has_external && self.tls.is_some() && !self.was_refused {
            // The header has the name already, but some servers need it here, too (XEP-0178 §3).
            let mut auth = Writer::with_ns("auth", ns::SASL);
            auth.attr("mechanism", "EXTERNAL").text(&STANDARD.encode(self.local.as_bytes()));
            out.extend_from_slice(auth.finish().bytes());
            self.phase = OutboundPhase::Sasl;
            return None;
        }
        self.log_in_by_dialback(out)
    }

    pub(super) fn log_in_by_dialback(&mut self, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        if self.purpose == StreamPurpose::Questions {
            self.phase = OutboundPhase::Ready;
            return Some(OutboundEvent::Ready);
        }
        if !self.knows_dialback {
            return Some(self.end_because("it offers no way to log in; it may not accept our certificate", out));
        }
        let key = self.settings.secret.key(&self.remote, &self.local, &self.id);
        dialback::ask(dialback::Name::Result, &self.local, &self.remote, None, &key, out);
        self.phase = OutboundPhase::Dialback;
        None
    }

    /// Handles the answer to our request (XEP-0220 §2.1.1).
    pub(super) fn result(&mut self, element: &Element, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        let answer = Dialback::read(element)?;
        let is_ours =
            domain(&answer.from).as_ref() == Ok(&self.remote) && domain(&answer.to).as_ref() == Ok(&self.local);
        match answer.answer? {
            _ if !is_ours => None,
            DialbackAnswer::Valid => self.logged_in(out),
            DialbackAnswer::Invalid => Some(self.end_because("it couldn't confirm our identity by dialback", out)),
            DialbackAnswer::Error => {
                let condition =
                    element.children().flat_map(Element::children).next().map_or("no reason", Element::name);
                Some(self.end_because(&format!("it refused dialback: {condition}"), out))
            }
        }
    }
}
