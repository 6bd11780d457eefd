//! A stream that a component has opened (XEP-0114): its name, the proof of that, and the stanzas
//! that it may then send.
//!
//! # Invariants
//!
//! - A component proves one name by that name's secret, and speaks only for this name: neither for
//!   another component nor for a domain above or below.
//! - Nothing after the handshake is read before the stream is where its name belongs
//!   ([`ComponentStream::attached`]).
//! - Before the handshake, memory is bounded by `FederationSettings::limits_before`.

use std::sync::Arc;

use rookery_base::hex;
use rookery_fanout::{Packet, StanzaType};
use rookery_jid::{Jid, prepare};
use rookery_stream::error::{Condition, StreamError};
use rookery_xml::header::Header;
use rookery_xml::{Built, Element, Fault, Kind, Limits, Scanner, Stanza, escape_attr, ns};
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use crate::inbound::{Ours, domain};
use crate::reading::{ReadItem, ReadingPlace, STREAM_END};
use crate::settings::FederationSettings;
use crate::stanzas::refusal;
use crate::stream_id;

/// A stream being negotiated, or in use.
#[derive(Debug)]
pub struct ComponentStream {
    settings: Arc<FederationSettings>,
    reading: ReadingPlace,
    phase: ComponentPhase,
    /// The name that the header requests.
    name: Box<str>,
    id: String,
    /// True once our header has been written.
    is_open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComponentPhase {
    /// Our side waits for the component's stream header (XEP-0114 §3, step 1).
    Header,
    /// Our header is written, and our side waits for the proof of the name (§3, step 3).
    Handshake,
    /// The handshake was right: the stream moves to the home of its name.
    Proven,
    /// The stream is at the home of its name, and stanzas are read.
    Open,
    /// The end has been written; further input is discarded.
    Ended,
}

/// An act that the owner has to carry out.
#[derive(Debug)]
pub enum ComponentEvent {
    /// The component has proven its name: call [`ComponentStream::attached`] at that name's home.
    Proven,
    /// The component has sent a wrong secret, which the operator should know.
    Wrong,
    /// A stanza of the component, for any address.
    Stanza(Packet, Jid),
    /// An error for the sender of a stanza that can't be sent unchanged, and the sender's address.
    Refused(Built, Jid),
    /// The stream is over: close the connection when all bytes are written.
    End,
}

/// The result of reading.
#[derive(Debug)]
pub struct ComponentRead {
    /// The bytes of the input that are consumed.
    pub consumed: usize,
    /// The act to carry out before the next call; without one, more bytes are needed.
    pub event: Option<ComponentEvent>,
}

impl ComponentStream {
    /// Returns a machine for a new connection.
    pub fn new(settings: Arc<FederationSettings>) -> Self {
        Self {
            settings,
            reading: ReadingPlace::of(ns::COMPONENT_ACCEPT),
            phase: ComponentPhase::Header,
            name: Box::default(),
            id: String::new(),
            is_open: false,
        }
    }

    /// Returns the name that the component claims, which isn't proven.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the component has proven its name.
    pub fn has_proven(&self) -> bool {
        matches!(self.phase, ComponentPhase::Proven | ComponentPhase::Open)
    }

    /// Returns whether the stream was ended by us or the peer.
    pub fn has_ended(&self) -> bool {
        self.phase == ComponentPhase::Ended
    }

    /// Applies new settings.
    pub fn apply(&mut self, settings: Arc<FederationSettings>) {
        self.settings = settings;
    }

    /// Reads the component's input up to the first event, and appends the reply to `out`.
    pub fn read(&mut self, input: &[u8], scanner: &mut Scanner, ours: &dyn Ours, out: &mut Vec<u8>) -> ComponentRead {
        let mut consumed = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            match self.phase {
                ComponentPhase::Ended => return ComponentRead { consumed: input.len(), event: None },
                ComponentPhase::Proven => return ComponentRead { consumed, event: None },
                ComponentPhase::Header | ComponentPhase::Handshake | ComponentPhase::Open => {}
            }
            let limits = if self.has_proven() { self.settings.limits } else { self.settings.limits_before };
            let (len, event) = match self.reading.next(rest, scanner, &limits, self.has_proven()) {
                Ok(ReadItem::More) => return ComponentRead { consumed, event: None },
                Ok(ReadItem::Skip(len)) => (len, None),
                Ok(ReadItem::Header(len, header)) => (len, self.open(*header, ours, out)),
                Ok(ReadItem::Element(len, stanza)) => (len, self.item(stanza, out)),
                Ok(ReadItem::Rewritten(len, bytes)) => {
                    let wide = Limits { bytes: limits.bytes.saturating_mul(2), ..limits };
                    match Stanza::parse(&bytes, &wide) {
                        Ok(stanza) => (len, self.item(stanza, out)),
                        Err(fault) => (0, Some(self.fault(fault, out))),
                    }
                }
                Ok(ReadItem::Close(len)) => (len, Some(self.end(out))),
                Err(fault) => (0, Some(self.fault(fault, out))),
            };
            consumed += len;
            if event.is_some() {
                return ComponentRead { consumed, event };
            }
        }
    }

    /// Notes that the stream is at the home of its name, and tells the component that its handshake
    /// was right.
    pub fn attached(&mut self, out: &mut Vec<u8>) {
        if self.phase == ComponentPhase::Proven {
            self.phase = ComponentPhase::Open;
            out.extend_from_slice(b"<handshake/>");
        }
    }

    /// Ends the stream with an error, e.g. `system-shutdown`. Nothing happens if it is over.
    pub fn close(&mut self, error: &StreamError, text: Option<&str>, out: &mut Vec<u8>) {
        if self.phase != ComponentPhase::Ended {
            self.fail(error, text, out);
        }
    }

    /// Checks the header (XEP-0114 §3, steps 1 and 2).
    fn open(&mut self, mut header: Header, ours: &dyn Ours, out: &mut Vec<u8>) -> Option<ComponentEvent> {
        let name = header.to.as_deref().map(domain);
        if let Some(Ok(name)) = &name {
            self.name = name.clone();
        }
        let judged = match name {
            _ if header.default_ns != ns::COMPONENT_ACCEPT => {
                Err((StreamError::InvalidNamespace, "The content namespace has to be jabber:component:accept."))
            }
            None | Some(Err(())) => Err((StreamError::ImproperAddressing, "The 'to' has to be a component's name.")),
            Some(Ok(name)) if self.settings.component(&name).is_some() => Ok(()),
            Some(Ok(name)) if ours.is_ours(&name) => {
                Err((StreamError::Conflict, "That name belongs to the server itself."))
            }
            Some(Ok(_)) => Err((StreamError::HostUnknown, "No component of that name is configured.")),
        };
        self.write_header(out);
        if let Err((error, text)) = judged {
            return Some(self.fail(&error, Some(text), out));
        }
        self.reading.open(&mut header);
        self.phase = ComponentPhase::Handshake;
        None
    }

    fn write_header(&mut self, out: &mut Vec<u8>) {
        self.id = stream_id();
        let header = format!(
            "<?xml version='1.0'?><stream:stream xmlns='{}' xmlns:stream='{}' id='{}' from='{}'>",
            ns::COMPONENT_ACCEPT,
            ns::STREAMS,
            self.id,
            escape_attr(&self.name)
        );
        out.extend_from_slice(header.as_bytes());
        self.is_open = true;
    }

    fn item(&mut self, stanza: Stanza<'_>, out: &mut Vec<u8>) -> Option<ComponentEvent> {
        match (self.phase, stanza.kind()) {
            (ComponentPhase::Handshake, Kind::Other) => Some(self.handshake(&Element::read(&stanza), out)),
            (ComponentPhase::Handshake, _) => Some(self.fail(&StreamError::NotAuthorized, None, out)),
            (_, Kind::Other) => {
                let element = Element::read(&stanza);
                match (element.ns(), element.name()) {
                    (ns::STREAMS, "error") => Some(self.end(out)),
                    (_, "handshake") => Some(self.fail(&StreamError::NotAuthorized, None, out)),
                    _ => Some(self.fail(&StreamError::UnsupportedStanzaType, None, out)),
                }
            }
            _ => self.stanza(stanza, out),
        }
    }

    /// Compares the digest of the stream's id and the secret (XEP-0114 §3, step 3). Takes the same
    /// time for every wrong digest.
    fn handshake(&mut self, element: &Element, out: &mut Vec<u8>) -> ComponentEvent {
        let given = element.text().trim().to_ascii_lowercase();
        let secret = self.settings.component(&self.name).map(|component| &component.secret);
        let is_right = secret.is_some_and(|secret| {
            let own = hex::encode(Sha1::digest([self.id.as_bytes(), secret.bytes()].concat()));
            bool::from(own.as_bytes().ct_eq(given.as_bytes()))
        });
        if element.name() == "handshake" && element.children().next().is_none() && is_right {
            self.phase = ComponentPhase::Proven;
            return ComponentEvent::Proven;
        }
        self.fail(&StreamError::NotAuthorized, Some("The handshake doesn't match the component's secret."), out);
        ComponentEvent::Wrong
    }

    fn stanza(&mut self, stanza: Stanza<'_>, out: &mut Vec<u8>) -> Option<ComponentEvent> {
        if stanza.head().xmlns.is_some() && !matches!(&*stanza.ns(), ns::CLIENT | ns::COMPONENT_ACCEPT) {
            return Some(self.fail(&StreamError::InvalidNamespace, None, out));
        }
        let Some(from) = stanza.from() else {
            return Some(self.fail(&StreamError::InvalidFrom, Some("A stanza lacks a 'from'."), out));
        };
        let Ok(sender) = prepare(&from) else {
            return Some(self.fail(&StreamError::InvalidFrom, Some("The 'from' of a stanza is not an address."), out));
        };
        if *sender.as_ref().domain() != *self.name {
            let text = "The 'from' of a stanza has to be of the component's name.";
            return Some(self.fail(&StreamError::InvalidFrom, Some(text), out));
        }
        let back = sender.as_ref().to_jid();
        let Some(to) = stanza.to() else {
            return refusal(&stanza, Condition::BadRequest, &self.name, back).map(over);
        };
        let Ok(to) = Jid::parse(&to) else {
            return refusal(&stanza, Condition::JidMalformed, &self.name, back).map(over);
        };
        let is_request = matches!(stanza.raw_type().map(|raw| raw.bytes), Some(b"get" | b"set"));
        let lacks =
            stanza.kind() == Kind::Iq && (stanza.id().is_none() || (is_request && stanza.children().count() != 1));
        match StanzaType::of(stanza.kind(), stanza.raw_type().map(|raw| raw.bytes)).filter(|_| !lacks) {
            Some(type_) => {
                let packet = Packet::from_server(stanza, type_, sender.as_ref().as_str(), None);
                Some(ComponentEvent::Stanza(packet, to))
            }
            None => refusal(&stanza, Condition::BadRequest, to.as_str(), back).map(over),
        }
    }

    fn fault(&mut self, fault: Fault, out: &mut Vec<u8>) -> ComponentEvent {
        self.fail(&StreamError::from(fault), Some(fault.text()), out)
    }

    fn fail(&mut self, error: &StreamError, text: Option<&str>, out: &mut Vec<u8>) -> ComponentEvent {
        if !self.is_open {
            self.write_header(out);
        }
        error.render(text, out);
        self.phase = ComponentPhase::Ended;
        ComponentEvent::End
    }

    fn end(&mut self, out: &mut Vec<u8>) -> ComponentEvent {
        out.extend_from_slice(STREAM_END);
        self.phase = ComponentPhase::Ended;
        ComponentEvent::End
    }
}

fn over((error, to): (Built, Jid)) -> ComponentEvent {
    ComponentEvent::Refused(error, to)
}

#[cfg(test)]
mod tests;
