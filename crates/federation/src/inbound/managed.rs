//! Acknowledges a peer's stanzas (XEP-0198), so that both sides know which stanzas have arrived
//! when a connection breaks.
//!
//! # Invariants
//!
//! - A stanza counts if it was handed on from this very stream, or from the one that it continues,
//!   and the store has everything that resulted from it ([`rookery_hub::custody`]): a server that
//!   dies has acknowledged nothing that is lost with it.
//! - Only a peer that has proven a domain gets acknowledgements, and it can only continue streams
//!   of that domain.

use rookery_hub::custody::Ledger;
use rookery_stream::error::Condition;
use rookery_xml::{Element, Writer, ns};

use super::{Inbound, InboundEvent, InboundPhase};
use crate::settings::PeerPolicy;

/// The acknowledgements of a stream.
#[derive(Debug, Default)]
pub(crate) struct ManagedInbound {
    /// Stanzas that were handed on, modulo 2^32, and how many of them are settled (§4).
    pub ledger: Ledger,
    /// The last count sent to the peer.
    told: u32,
    /// The count that the peer has requested and not been sent.
    asked: Option<u32>,
    /// Stanzas of ours that the peer has handled, modulo 2^32.
    pub answered: u32,
    /// The id of the stream, if it may be resumed.
    pub id: Option<Box<str>>,
}

/// The element that a peer was sent once the store was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Acknowledgement,
    End,
}

impl Inbound {
    /// Returns whether the peer may ask for acknowledgements: now, or after dialback, which no new
    /// features follow.
    pub(super) fn may_be_managed(&self) -> bool {
        match &self.tls {
            _ if self.has_proven() => true,
            Some(_) => self.certified_domain().is_none(),
            None => self.policy() == PeerPolicy::Plain,
        }
    }

    /// Handles an element of stream management.
    pub(super) fn manage(&mut self, element: &Element, out: &mut Vec<u8>) -> Option<InboundEvent> {
        let is_first = self.has_proven() && self.managed.is_none() && self.resuming.is_none();
        match element.name() {
            "r" if self.managed.is_some() => {
                if let Some(managed) = &mut self.managed {
                    managed.asked = Some(managed.ledger.handled());
                }
                (!self.tell_asked(false, out)).then_some(InboundEvent::Asked)
            }
            "a" if self.managed.is_some() => handled_count(element).map(InboundEvent::Acknowledged),
            "enable" if is_first => Some(InboundEvent::Enable(matches!(element.attr("resume"), Some("true" | "1")))),
            "resume" if is_first => match element.attr("previd").filter(|id| !id.is_empty()) {
                Some(id) => Some(InboundEvent::Resume(id.into(), handled_count(element))),
                None => self.refuse(&Condition::BadRequest, out),
            },
            _ => self.refuse(&Condition::UnexpectedRequest, out),
        }
    }

    /// Answers [`InboundEvent::Enable`]: stanzas count from now on. With an id, the stream may be
    /// resumed for this many seconds.
    pub(crate) fn enabled(&mut self, id: Option<Box<str>>, seconds: u64, out: &mut Vec<u8>) {
        let mut enabled = Writer::with_ns("enabled", ns::SM);
        if let Some(id) = &id {
            enabled.attr("id", id).attr("resume", "true").attr("max", &seconds.to_string());
        }
        out.extend_from_slice(enabled.finish().bytes());
        self.managed = Some(ManagedInbound { id, ..ManagedInbound::default() });
    }

    /// Answers [`InboundEvent::Resume`]: this stream continues another one, on which we have
    /// handled `handled` stanzas and the peer `answered`.
    pub(crate) fn resumed(&mut self, id: Box<str>, handled: u32, answered: u32, out: &mut Vec<u8>) {
        let mut resumed = Writer::with_ns("resumed", ns::SM);
        resumed.attr("previd", &id).attr("h", &handled.to_string());
        out.extend_from_slice(resumed.finish().bytes());
        self.managed = Some(ManagedInbound {
            ledger: Ledger::after(handled),
            told: handled,
            answered,
            id: Some(id),
            ..ManagedInbound::default()
        });
    }

    /// Answers [`InboundEvent::Resume`]: no such stream is known. Returns `Some` if the peer has
    /// asked too often.
    pub(crate) fn not_resumed(&mut self, out: &mut Vec<u8>) -> Option<InboundEvent> {
        self.refuse(&Condition::ItemNotFound, out)
    }

    /// Returns the state that may be resumed elsewhere when this stream is gone: no more stanzas
    /// count here.
    pub(crate) fn take_managed(&mut self) -> Option<ManagedInbound> {
        // A peer that has closed the stream resumes nothing, but our own stanzas may be resumed.
        let may_resume = !self.is_finished || self.reverse.is_some();
        self.managed.take_if(|managed| managed.id.is_some() && may_resume)
    }

    /// Returns the id of the stream, if it may be resumed.
    pub(crate) fn managed_id(&self) -> Option<&str> {
        self.managed.as_ref().and_then(|managed| managed.id.as_deref())
    }

    /// Returns the state of acknowledgements, if there are any.
    pub(crate) fn managed(&self) -> Option<&ManagedInbound> {
        self.managed.as_ref()
    }

    /// Returns the state of acknowledgements to be changed, if there are any.
    pub(crate) fn managed_mut(&mut self) -> Option<&mut ManagedInbound> {
        self.managed.as_mut()
    }

    /// Acknowledges all settled stanzas before the stream ends, if the peer hasn't been told about
    /// some.
    pub(super) fn acknowledge(&mut self, out: &mut Vec<u8>) {
        if self.managed.as_mut().is_some_and(|managed| managed.told != managed.ledger.look()) {
            self.tell(out);
        }
    }

    /// Sends the acknowledgement that the peer has requested, once the store has every stanza that
    /// it has to cover. If `is_last`, it covers those that the store has so far. Returns `false` if
    /// it still has to wait.
    fn tell_asked(&mut self, is_last: bool, out: &mut Vec<u8>) -> bool {
        let Some(managed) = self.managed.as_mut().filter(|_| !self.is_closing) else { return true };
        let Some(asked) = managed.asked else { return true };
        let is_told = is_last || reaches(managed.ledger.look(), asked);
        if is_told {
            self.tell(out);
        }
        is_told
    }

    /// Returns whether the store is still at work on the peer's stanzas.
    pub(super) fn is_unsettled(&mut self) -> bool {
        self.managed.as_mut().is_some_and(|managed| managed.ledger.look() != managed.ledger.handled())
    }

    /// Ends the stream once the store has everything that arrived on it.
    pub(super) fn settle(&mut self) -> InboundEvent {
        self.phase = InboundPhase::Settling;
        InboundEvent::Asked
    }

    /// Sends the acknowledgement or the end that had to wait for the store, if the store is done
    /// or, by `is_last`, the wait is over. Returns `None` if nothing is sent.
    pub(crate) fn tell_settled(&mut self, is_last: bool, out: &mut Vec<u8>) -> Option<Said> {
        if self.phase != InboundPhase::Settling {
            return self.tell_asked(is_last, out).then_some(Said::Acknowledgement);
        }
        let is_told = is_last || !self.is_unsettled();
        is_told.then(|| self.end(out)).map(|_| Said::End)
    }

    fn tell(&mut self, out: &mut Vec<u8>) {
        let Some(managed) = &mut self.managed else { return };
        managed.told = managed.ledger.look();
        managed.asked = None;
        out.extend_from_slice(format!("<a xmlns='urn:xmpp:sm:3' h='{}'/>", managed.told).as_bytes());
    }

    fn refuse(&mut self, condition: &Condition, out: &mut Vec<u8>) -> Option<InboundEvent> {
        let mut failed = Writer::with_ns("failed", ns::SM);
        failed.start_ns(condition.name(), ns::STANZA_ERRORS).end();
        self.fail_request(failed, out)
    }
}

/// Returns whether a count has reached another one, both modulo 2^32.
pub(crate) fn reaches(count: u32, other: u32) -> bool {
    other.wrapping_sub(count).cast_signed() <= 0
}

/// Returns the count in an acknowledgement (§4).
pub(crate) fn handled_count(element: &Element) -> Option<u32> {
    element.attr("h").and_then(|h| h.trim().parse().ok())
}
