//! Acknowledgements of stanzas sent on a stream (XEP-0198), and the stream that it may continue.

use rookery_hub::Custody;
use rookery_hub::custody::{Balance, Ledger};
use rookery_xml::{Element, Writer, ns};

use super::{Outbound, OutboundEvent, OutboundPhase};
use crate::inbound::{handled_count, reaches};

/// The acknowledgements that both sides have agreed on.
#[derive(Debug, Default)]
pub(super) struct AcksAgreement {
    /// True if the peer offers them.
    pub(super) are_offered: bool,
    /// True if the peer has agreed to them.
    pub(super) are_on: bool,
    /// The peer's id of the stream to be continued, and afterwards of this one if it can be
    /// resumed.
    pub(super) id: Option<Box<str>>,
    /// The peer's stanzas that were handed on, modulo 2^32, and how many of them are settled (§4).
    ledger: Ledger,
    /// The last count sent to the peer.
    told: u32,
    /// The count that the peer has requested and not been sent.
    asked: Option<u32>,
    /// The number of handled stanzas of the earlier stream, if the peer knows it; `None` unless
    /// that stream is lost.
    lost: Option<Option<u32>>,
}

impl AcksAgreement {
    /// Counts one more stanza of the peer that was handed on.
    pub(super) fn count(&mut self) -> Option<Custody> {
        self.are_on.then(|| self.ledger.count())
    }
}

impl Outbound {
    /// Continues once the peer has accepted our identity. No stanza leaves before the peer has
    /// agreed to acknowledgements, since the fate of an earlier one would be unknown.
    pub(super) fn logged_in(&mut self, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        match &self.acks.id {
            Some(_) if self.acks.are_offered => {
                self.phase = OutboundPhase::Counting;
                Some(OutboundEvent::Counting)
            }
            Some(_) => {
                self.acks.lost = Some(None);
                self.enable(out)
            }
            None => self.enable(out),
        }
    }

    /// Answers [`OutboundEvent::Counting`] with the number of the peer's stanzas that were handled
    /// on the stream to be resumed, all of them settled. `None` means that the number is lost: the
    /// peer is then asked for a new stream.
    pub(crate) fn resume(&mut self, handled: Option<u32>, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        if self.phase != OutboundPhase::Counting {
            return None;
        }
        let Some((handled, id)) = handled.zip(self.acks.id.as_deref()) else {
            self.acks.lost = Some(None);
            return self.enable(out);
        };
        let mut resume = Writer::with_ns("resume", ns::SM);
        resume.attr("previd", id).attr("h", &handled.to_string());
        out.extend_from_slice(resume.finish().bytes());
        self.acks.ledger = Ledger::after(handled);
        self.acks.told = handled;
        self.phase = OutboundPhase::Resuming;
        None
    }

    /// Returns whether a stream is to be resumed whose count isn't known yet.
    pub(crate) fn is_counting(&self) -> bool {
        self.phase == OutboundPhase::Counting
    }

    /// Returns whether the peer was asked to resume a stream, or to begin a new one.
    pub(crate) fn has_agreed(&self) -> bool {
        matches!(self.phase, OutboundPhase::Resuming | OutboundPhase::Enabling | OutboundPhase::Ready)
    }

    fn enable(&mut self, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        self.acks.id = None;
        self.acks.ledger = Ledger::default();
        self.acks.told = 0;
        if !self.acks.are_offered {
            return Some(self.begin());
        }
        out.extend_from_slice(b"<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        self.phase = OutboundPhase::Enabling;
        None
    }

    fn begin(&mut self) -> OutboundEvent {
        self.phase = OutboundPhase::Ready;
        self.acks.lost.map_or(OutboundEvent::Ready, OutboundEvent::NotResumed)
    }

    /// Handles the reply to `<resume/>` (§5).
    pub(super) fn resumption(&mut self, name: &str, answer: &Element, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        let handled = handled_count(answer);
        match (name, handled) {
            ("resumed", Some(handled)) => {
                self.acks.are_on = true;
                self.phase = OutboundPhase::Ready;
                Some(OutboundEvent::Resumed(handled))
            }
            ("failed", handled) => {
                self.acks.lost = Some(handled);
                self.enable(out)
            }
            _ => None,
        }
    }

    /// Handles the reply to `<enable/>` (§3).
    pub(super) fn enabled(&mut self, name: &str, answer: &Element) -> Option<OutboundEvent> {
        match name {
            "enabled" => {
                let may_resume = matches!(answer.attr("resume"), Some("true" | "1"));
                let id = answer.attr("id").filter(|id| may_resume && !id.is_empty() && id.len() <= MAX_ID);
                self.acks.id = id.map(Box::from);
                self.acks.are_on = true;
                Some(self.begin())
            }
            "failed" => Some(self.begin()),
            _ => None,
        }
    }

    pub(super) fn acknowledgement(
        &mut self,
        name: &str,
        element: &Element,
        out: &mut Vec<u8>,
    ) -> Option<OutboundEvent> {
        match name {
            "a" => handled_count(element).map(OutboundEvent::Acknowledged),
            "r" => {
                self.acks.asked = Some(self.acks.ledger.handled());
                (!self.tell_asked(false, out)).then_some(OutboundEvent::Asked)
            }
            _ => None,
        }
    }

    /// Acknowledges all settled stanzas before the stream ends, if the peer hasn't been told about
    /// some.
    pub(super) fn acknowledge(&mut self, out: &mut Vec<u8>) {
        if self.acks.are_on && self.acks.told != self.acks.ledger.look() {
            self.tell(out);
        }
    }

    /// Sends the acknowledgement that the peer has requested, once the store has every stanza that
    /// it has to cover. If `is_last`, it covers those that the store has so far. Returns `false` if
    /// it still has to wait.
    pub(crate) fn tell_asked(&mut self, is_last: bool, out: &mut Vec<u8>) -> bool {
        let Some(asked) = self.acks.asked.filter(|_| !self.is_closing && self.phase == OutboundPhase::Ready) else {
            return true;
        };
        let is_told = is_last || reaches(self.acks.ledger.look(), asked);
        if is_told {
            self.tell(out);
        }
        is_told
    }

    fn tell(&mut self, out: &mut Vec<u8>) {
        self.acks.told = self.acks.ledger.look();
        self.acks.asked = None;
        out.extend_from_slice(format!("<a xmlns='urn:xmpp:sm:3' h='{}'/>", self.acks.told).as_bytes());
    }

    /// Takes the state with which the peer's direction may be resumed when this stream is gone: its
    /// id, and the number of its stanzas. No more of them count here.
    pub(crate) fn take_handled(&mut self) -> Option<(Box<str>, Balance)> {
        let is_named = self.may_be_resumed();
        self.is_deaf = true;
        let id = self.acks.id.clone().filter(|_| is_named)?;
        Some((id, std::mem::take(&mut self.acks.ledger).end()))
    }

    /// Returns whether the peer's direction can be resumed.
    pub(crate) fn may_be_resumed(&self) -> bool {
        self.is_bidi && (self.acks.are_on || self.phase == OutboundPhase::Resuming) && !self.is_deaf
    }
}

/// The request for an acknowledgement (§4).
pub(crate) const REQUEST: &[u8] = b"<r xmlns='urn:xmpp:sm:3'/>";
/// The most bytes of an id that the peer gives a stream, since it is kept.
const MAX_ID: usize = 1000;
