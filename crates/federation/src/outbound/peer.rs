//! The peer's input on a stream of ours that goes in both directions (XEP-0288), and the answers to
//! our questions about keys.

use rookery_stream::error::{Condition, StreamError};
use rookery_xml::{Element, Stanza};

use super::{Outbound, OutboundEvent};
use crate::dialback::{self, Dialback, DialbackAnswer};
use crate::inbound::{Ours, domain};
use crate::stanzas::{Judged, Spoken};

impl Outbound {
    /// Handles a stanza of the peer. It counts if both directions were requested.
    pub(super) fn stanza(&mut self, stanza: Stanza<'_>, ours: &dyn Ours, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        if !self.is_bidi {
            return None;
        }
        if self.is_deaf {
            return Some(self.fail(&StreamError::Conflict, "it continues over another connection", out));
        }
        if !self.is_logged_in() {
            return Some(self.fail(
                &StreamError::NotAuthorized,
                "it sent a stanza before it had accepted our login",
                out,
            ));
        }
        let (settings, lang) = (&*self.settings, self.lang.as_deref());
        let spoken = Spoken { settings, local: &self.local, lang, ours };
        let event = match spoken.judge(stanza, |domain| (*domain == *self.remote).then(|| self.proof())) {
            Judged::Taken(packet, to) => Some(OutboundEvent::Stanza(packet, to, None)),
            Judged::Refused(error, to) => Some(OutboundEvent::Refused(error, to)),
            Judged::Dropped => None,
            Judged::Fails(error, text) => {
                let text = text.unwrap_or("it sent a stanza that it may not send");
                return Some(self.fail(&error, text, out));
            }
        };
        match (event, self.acks.count()) {
            (Some(OutboundEvent::Stanza(packet, to, _)), custody) => Some(OutboundEvent::Stanza(packet, to, custody)),
            (other, _) => other,
        }
    }

    /// Handles a dialback question from a peer that may send, too: it gets an answer about our
    /// keys. For other pairs of domains the peer has to open streams of its own.
    pub(super) fn handle_question(
        &mut self,
        name: &str,
        element: &Element,
        ours: &dyn Ours,
        out: &mut Vec<u8>,
    ) -> Option<OutboundEvent> {
        if element.attr("type").is_some() {
            return None;
        }
        match (name, element.attr("from"), element.attr("to")) {
            ("verify", Some(_), Some(_)) => _ = dialback::confirm(element, &self.settings, ours, out),
            ("result", Some(from), Some(to)) => {
                let refused = Err(Condition::ResourceConstraint);
                dialback::answer(dialback::Name::Result, to, from, None, &refused, out);
            }
            _ => {}
        }
        None
    }
}

/// Reads the answer to a question. The owner has to check that it was requested.
pub(super) fn read_answer(element: &Element) -> Option<OutboundEvent> {
    let answer = Dialback::read(element)?;
    let outcome = match answer.answer? {
        DialbackAnswer::Valid => Some(true),
        DialbackAnswer::Invalid => Some(false),
        DialbackAnswer::Error => None,
    };
    let (from, to) = (domain(&answer.from).ok()?, domain(&answer.to).ok()?);
    Some(OutboundEvent::Answered { from, to, id: answer.id?.into(), outcome })
}
