//! Acknowledges what a peer sends (XEP-0198), so that neither side has to guess what has arrived
//! when a connection breaks.
//!
//! # Invariants
//!
//! - What counts is what was handed on from this very stream, or from the one that it continues.
//! - Only a peer that has proven a domain is acknowledged anything, and it continues streams of
//!   that domain alone.

use rookery_stream::error::Condition;
use rookery_xml::{Element, Writer, ns};

use super::{Event, Inbound};
use crate::settings::Policy;

/// The acknowledgements of a stream.
#[derive(Debug, Default)]
pub(crate) struct Managed {
    /// Stanzas that were handed on, modulo 2^32 (§4).
    pub handled: u32,
    /// The count that the peer was told last.
    told: u32,
    /// The id of the stream, if it may be resumed.
    pub id: Option<Box<str>>,
}

impl Managed {
    /// One more stanza was handed on.
    pub(super) fn count(&mut self) {
        self.handled = self.handled.wrapping_add(1);
    }
}

impl Inbound {
    /// Tells whether the peer may ask for acknowledgements now, or after a dialback for which there
    /// are no other features.
    pub(super) fn may_be_managed(&self) -> bool {
        match &self.tls {
            _ if self.has_proven() => true,
            Some(_) => self.certified().is_none(),
            None => self.policy() == Policy::Plain,
        }
    }

    /// Takes an element of stream management.
    pub(super) fn manage(&mut self, element: &Element, out: &mut Vec<u8>) -> Option<Event> {
        let is_first = self.has_proven() && self.managed.is_none();
        match element.name() {
            "r" if self.managed.is_some() => {
                self.tell(out);
                None
            }
            // Nothing is sent on this stream.
            "a" if self.managed.is_some() => None,
            "enable" if is_first => Some(Event::Enable(matches!(element.attr("resume"), Some("true" | "1")))),
            "resume" if is_first => match element.attr("previd").filter(|id| !id.is_empty()) {
                Some(id) => Some(Event::Resume(id.into())),
                None => self.refuse(&Condition::BadRequest, out),
            },
            _ => self.refuse(&Condition::UnexpectedRequest, out),
        }
    }

    /// Answers [`Event::Enable`]: stanzas count from now on. With an id the stream may be resumed
    /// for so many seconds.
    pub(crate) fn enabled(&mut self, id: Option<Box<str>>, seconds: u64, out: &mut Vec<u8>) {
        let mut enabled = Writer::with_ns("enabled", ns::SM);
        if let Some(id) = &id {
            enabled.attr("id", id).attr("resume", "true").attr("max", &seconds.to_string());
        }
        out.extend_from_slice(enabled.finish().bytes());
        self.managed = Some(Managed { id, ..Managed::default() });
    }

    /// Answers [`Event::Resume`]: this stream goes on where the other one was.
    pub(crate) fn resumed(&mut self, id: Box<str>, handled: u32, out: &mut Vec<u8>) {
        let mut resumed = Writer::with_ns("resumed", ns::SM);
        resumed.attr("previd", &id).attr("h", &handled.to_string());
        out.extend_from_slice(resumed.finish().bytes());
        self.managed = Some(Managed { handled, told: handled, id: Some(id) });
    }

    /// Answers [`Event::Resume`]: nothing is known of such a stream. `Some` if the peer has asked
    /// too often.
    pub(crate) fn not_resumed(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        self.refuse(&Condition::ItemNotFound, out)
    }

    /// Returns what may be resumed elsewhere when this stream is gone: nothing of it counts here
    /// any more.
    pub(crate) fn take_managed(&mut self) -> Option<Managed> {
        self.managed.take_if(|managed| managed.id.is_some() && !self.is_finished)
    }

    /// Returns what the stream is called, if it may be resumed.
    pub(crate) fn managed_id(&self) -> Option<&str> {
        self.managed.as_ref().and_then(|managed| managed.id.as_deref())
    }

    /// Tells the peer what has arrived before the stream ends, if it doesn't know.
    pub(super) fn acknowledge(&mut self, out: &mut Vec<u8>) {
        if self.managed.as_ref().is_some_and(|managed| managed.told != managed.handled) {
            self.tell(out);
        }
    }

    fn tell(&mut self, out: &mut Vec<u8>) {
        let Some(managed) = &mut self.managed else { return };
        managed.told = managed.handled;
        out.extend_from_slice(format!("<a xmlns='urn:xmpp:sm:3' h='{}'/>", managed.handled).as_bytes());
    }

    fn refuse(&mut self, condition: &Condition, out: &mut Vec<u8>) -> Option<Event> {
        let mut failed = Writer::with_ns("failed", ns::SM);
        failed.start_ns(condition.name(), ns::STANZA_ERRORS).end();
        self.failed(failed, out)
    }
}
