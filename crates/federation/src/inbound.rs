//! A stream that another server has opened: the proof of its identity, and the stanzas that it may
//! send then.
//!
//! # Invariants
//!
//! - A stanza is handed on only if the domain of its `from` was proven on this very stream, by its
//!   certificate or by dialback (`stanzas`).
//! - A key is never judged by this stream: the owner asks the domain's own server
//!   ([`InboundEvent::Verify`]) and reports the result ([`Inbound::verified`]). An answer that the
//!   peer volunteers here is dropped.
//! - The names of a header never change between restarts, and nothing else from before TLS counts
//!   afterwards.
//! - Before anything is proven, memory is bounded by `FederationSettings::limits_before` and
//!   [`MOST_PENDING`].

use std::borrow::Cow;
use std::sync::Arc;

use rookery_fanout::Packet;
use rookery_hub::Custody;
use rookery_jid::Jid;
use rookery_stream::error::{Condition, StreamError};
use rookery_stream::tls::trust::tlsa::Fingerprints;
use rookery_stream::tls::trust::{Names, Untrusted};
use rookery_xml::header::Header;
use rookery_xml::{Built, Element, Fault, Kind, Limits, Scanner, Stanza, ns};

use crate::bidi::{BIDI, BIDI_FEATURE};
use crate::dialback;
use crate::reading::{ReadItem, ReadingPlace, STREAM_END, has_features, judge};
use crate::settings::{FederationSettings, PeerPolicy};
use crate::stanzas::{Judged, Spoken};

mod features;
mod managed;
mod proofs;
mod reverse;

pub(crate) use managed::{ManagedInbound, Said, handled_count, reaches};
use reverse::Reverse;

/// The questions of an incoming stream to the server that runs it.
pub trait Ours {
    /// Returns whether a host belongs to this server: a domain or a service.
    fn is_ours(&self, host: &str) -> bool;
}

/// A stream being negotiated, or in use.
#[derive(Debug)]
pub struct Inbound {
    settings: Arc<FederationSettings>,
    reading: ReadingPlace,
    phase: InboundPhase,
    /// The domain of ours that the header names.
    local: Option<Box<str>>,
    /// The domain that the peer claims.
    remote: Option<Box<str>>,
    lang: Option<Box<str>>,
    /// The id of the current stream.
    id: String,
    /// True once our header of the current stream has been written.
    is_open: bool,
    /// True once our end of the stream has been written; the peer's input still counts.
    is_closing: bool,
    /// True if the stream has ended with an error, of the peer or of ours.
    has_failed: bool,
    tls: Option<Result<Names, Untrusted>>,
    /// The certificate that the peer has shown, since DNS may name it.
    shown: Option<Box<Fingerprints>>,
    /// The domains that were proven.
    proven: Vec<Box<str>>,
    /// Pairs whose keys are being verified.
    pending: Vec<(Box<str>, Box<str>)>,
    failures: u32,
    /// The state of acknowledgements, if the peer wants them.
    managed: Option<ManagedInbound>,
    /// The stream to be resumed here once the store has everything that arrived on it, and the
    /// number of our stanzas that the peer has handled.
    pub(crate) resuming: Option<(Box<str>, Option<u32>)>,
    /// The other direction, if the peer has requested both on this stream.
    reverse: Option<Reverse>,
    /// True if the peer has ended the stream properly: it won't be resumed.
    is_finished: bool,
    /// The number of dialback requests so far: all that ask for our own verdict, and, while nothing
    /// is proven, those that ask about other servers' keys.
    requests: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InboundPhase {
    /// The peer's header, for the first time or again.
    Header,
    /// Elements.
    Open,
    /// The TLS handshake: `<proceed/>` is written.
    Tls,
    /// The peer has ended the stream, and gets an acknowledgement once the store is done; further
    /// input is discarded.
    Settling,
    /// The end has been written; further input is discarded.
    Ended,
}

/// An act that the owner has to carry out.
#[derive(Debug)]
pub enum InboundEvent {
    /// Begin the handshake, as the domain of [`Inbound::local`]; then call [`Inbound::secured`].
    StartTls,
    /// The peer has proven this domain, by its certificate in SASL.
    Proven(Box<str>),
    /// The peer wants its stanzas acknowledged; `true` if it wants to be able to resume the stream.
    /// Call `Inbound::enabled`.
    Enable(bool),
    /// The peer wants to resume the stream with this id, on which it has handled this many of our
    /// stanzas. Call `Inbound::resumed` or `Inbound::not_resumed`.
    Resume(Box<str>, Option<u32>),
    /// This many of our stanzas were handled since acknowledgements began, modulo 2^32.
    Acknowledged(u32),
    /// Ask the domain's own server whether the key is its own, and call [`Inbound::verified`].
    Verify(KeyQuestion),
    /// A stanza for an address of ours, and its custody until it is acknowledged.
    Stanza(Packet, Jid, Option<Custody>),
    /// The peer requests an acknowledgement, or ends the stream, and the store is still at work:
    /// call `Inbound::tell_settled` in a moment.
    Asked,
    /// An error for the sender of a stanza that can't be delivered unchanged, and the sender's
    /// address.
    Refused(Built, Jid),
    /// The stream is over: close the connection when all bytes are written.
    End,
}

/// A key that has to be verified (XEP-0220 §2.2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyQuestion {
    /// The domain from which the peer wants to send.
    pub from: Box<str>,
    /// The domain of ours to which it wants to send.
    pub to: Box<str>,
    /// The id of the stream that the key came on.
    pub id: Box<str>,
    /// The key that the peer has sent, to be verified by the server that is authoritative for
    /// `from`.
    pub key: Box<str>,
    /// True if the stream's certificate is valid for the domain, so that no server has to be asked
    /// (XEP-0344).
    pub is_certified: bool,
}

/// The result of reading.
#[derive(Debug)]
pub struct InboundRead {
    /// The bytes of the input that are consumed.
    pub consumed: usize,
    /// The act to carry out before the next call; without one, more bytes are needed.
    pub event: Option<InboundEvent>,
}

type InboundRefusal = (StreamError, Cow<'static, str>);

impl Inbound {
    /// Returns a machine for a new connection. With `direct_tls` the handshake comes first.
    pub fn new(settings: Arc<FederationSettings>, direct_tls: bool) -> Self {
        Self {
            settings,
            reading: ReadingPlace::default(),
            phase: if direct_tls { InboundPhase::Tls } else { InboundPhase::Header },
            local: None,
            remote: None,
            lang: None,
            id: String::new(),
            is_open: false,
            is_closing: false,
            has_failed: false,
            tls: None,
            shown: None,
            proven: Vec::new(),
            pending: Vec::new(),
            failures: 0,
            managed: None,
            resuming: None,
            reverse: None,
            is_finished: false,
            requests: 0,
        }
    }

    /// Returns the domain of ours that the stream is for, once its header has named it.
    pub fn local(&self) -> Option<&str> {
        self.local.as_deref()
    }

    /// Returns the domain that the peer claims, which isn't proven.
    pub fn claimed(&self) -> Option<&str> {
        self.remote.as_deref()
    }

    /// Returns the domains that were proven.
    pub fn proven(&self) -> impl Iterator<Item = &str> {
        self.proven.iter().map(|domain| &**domain)
    }

    /// Returns the kind of proof for a domain, as a word.
    pub fn security(&self, domain: &str) -> &'static str {
        match &self.tls {
            _ if !self.proven.iter().any(|proven| **proven == *domain) => "nothing",
            Some(Ok(names)) if names.cover(domain) && names.is_associated() => "TLS, DANE",
            Some(_) if self.is_certified(domain) => "TLS, certificate",
            Some(_) => "TLS, dialback",
            None => "dialback",
        }
    }

    /// Returns whether the peer has proven any domain.
    pub fn has_proven(&self) -> bool {
        !self.proven.is_empty()
    }

    /// Revokes all proofs, since the stream is being ended because of them.
    pub(crate) fn forget(&mut self) {
        self.proven.clear();
    }

    /// Returns whether a key is being verified.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Applies new settings.
    pub fn apply(&mut self, settings: Arc<FederationSettings>) {
        self.settings = settings;
    }

    /// Reads the peer's input up to the first event, and appends the reply to `out`.
    pub fn read(&mut self, input: &[u8], scanner: &mut Scanner, ours: &dyn Ours, out: &mut Vec<u8>) -> InboundRead {
        let mut consumed = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            match self.phase {
                InboundPhase::Settling | InboundPhase::Ended => {
                    return InboundRead { consumed: input.len(), event: None };
                }
                // Plain bytes after `<proceed/>` don't come from the peer that we are about to
                // encrypt with.
                InboundPhase::Tls if !rest.is_empty() => {
                    self.phase = InboundPhase::Ended;
                    return InboundRead { consumed: input.len(), event: Some(InboundEvent::End) };
                }
                InboundPhase::Tls => return InboundRead { consumed, event: None },
                InboundPhase::Header | InboundPhase::Open => {}
            }
            let limits = self.limits();
            let (len, event) = match self.reading.next(rest, scanner, &limits, self.has_proven()) {
                Ok(ReadItem::More) => return InboundRead { consumed, event: None },
                Ok(ReadItem::Skip(len)) => (len, None),
                Ok(ReadItem::Header(len, header)) => (len, self.open(*header, ours, out)),
                Ok(ReadItem::Element(len, stanza)) => {
                    let behind = rest.get(len..).unwrap_or_default();
                    (len, self.item(stanza, behind, ours, out))
                }
                Ok(ReadItem::Rewritten(len, bytes)) => {
                    let behind = rest.get(len..).unwrap_or_default();
                    let wide = Limits { bytes: limits.bytes.saturating_mul(2), ..limits };
                    match Stanza::parse(&bytes, &wide) {
                        Ok(stanza) => (len, self.item(stanza, behind, ours, out)),
                        Err(fault) => (0, Some(self.fault(fault, out))),
                    }
                }
                Ok(ReadItem::Close(len)) => {
                    self.is_finished = true;
                    (len, Some(if self.is_unsettled() { self.settle() } else { self.end(out) }))
                }
                Err(fault) => (0, Some(self.fault(fault, out))),
            };
            consumed += len;
            if self.phase == InboundPhase::Tls {
                // White space after `<starttls/>`; anything else there was refused.
                consumed = input.len();
            }
            if event.is_some() {
                return InboundRead { consumed, event };
            }
        }
    }

    /// Handles the end of the handshake: the stream begins again, and earlier input doesn't count.
    pub fn secured(&mut self, shown: Result<Names, Untrusted>) {
        if self.phase == InboundPhase::Tls {
            self.tls = Some(shown);
            self.reverse = None;
            self.restart();
        }
    }

    /// Answers [`InboundEvent::Verify`]: whether the key is right, or why that is unknown. Returns
    /// `true` if the domain is now proven.
    pub fn verified(&mut self, from: &str, to: &str, outcome: &Result<bool, Condition>, out: &mut Vec<u8>) -> bool {
        let asked = self.pending.iter().position(|(of, for_)| &**of == from && &**for_ == to);
        let Some(asked) = asked else { return false };
        self.pending.swap_remove(asked);
        if self.phase == InboundPhase::Ended {
            return false;
        }
        // If certificates are required, a key isn't enough.
        let is_enough = self.settings.policy_for(to, from) != PeerPolicy::Certificate || self.is_certified(from);
        let refused = Err(Condition::NotAuthorized);
        let outcome = if is_enough || *outcome != Ok(true) { outcome } else { &refused };
        dialback::answer(dialback::Name::Result, to, from, None, outcome, out);
        match outcome {
            Ok(true) => {
                self.prove(from);
                self.may_be_answered(to, from);
            }
            // XEP-0220 §2.2.1: nothing can be sent on the stream any more.
            Ok(false) if self.proven.is_empty() && self.pending.is_empty() => {
                out.extend_from_slice(STREAM_END);
                self.phase = InboundPhase::Ended;
            }
            _ => {}
        }
        matches!(outcome, Ok(true))
    }

    /// Returns whether the stream was ended by us or the peer.
    pub fn has_ended(&self) -> bool {
        self.phase == InboundPhase::Ended
    }

    /// Returns whether the stream has ended with an error, the peer's or ours.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Ends the stream with an error, e.g. `system-shutdown`. Nothing happens if it is over.
    pub fn close(&mut self, error: &StreamError, text: Option<&str>, out: &mut Vec<u8>) {
        match self.phase {
            InboundPhase::Ended => {}
            // RFC 6120 §5.4.3.2: there is no stream to write an error on.
            InboundPhase::Tls => self.phase = InboundPhase::Ended,
            _ => _ = self.fail(error, text, out),
        }
    }

    /// Ends our direction because the stream is idle. Stanzas are still accepted until the peer has
    /// ended its direction (RFC 6120 §4.4).
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.phase == InboundPhase::Open && !self.is_closing {
            self.acknowledge(out);
            out.extend_from_slice(STREAM_END);
            self.is_closing = true;
        }
    }

    /// Returns whether our direction has ended, and the peer's hasn't yet.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    fn limits(&self) -> Limits {
        if self.proven.is_empty() { self.settings.limits_before } else { self.settings.limits }
    }

    fn restart(&mut self) {
        self.reading = ReadingPlace::default();
        self.is_open = false;
        self.lang = None;
        self.pending.clear();
        self.phase = InboundPhase::Header;
    }

    fn prove(&mut self, domain: &str) {
        if !self.proven.iter().any(|proven| &**proven == domain) {
            self.proven.push(domain.into());
        }
    }

    // --- the header ---

    fn open(&mut self, mut header: Header, ours: &dyn Ours, out: &mut Vec<u8>) -> Option<InboundEvent> {
        let judged = judge(&header).map_err(|(error, text)| (error, text.into()));
        let judged = judged.and_then(|()| self.names(&header, ours).map_err(|(error, text)| (error, text.into())));
        let features = has_features(&header);
        self.write_own_header(features, out);
        let judged = judged.and_then(|()| self.judge_peer(features));
        if let Err((error, text)) = judged {
            return Some(self.fail(&error, Some(&text), out));
        }
        self.reading.open(&mut header);
        self.lang = header.lang.filter(|lang| lang.len() <= MAX_LANG).map(String::into_boxed_str);
        self.phase = InboundPhase::Open;
        if features {
            self.write_features(out);
        }
        None
    }

    /// Reads the names of a header; those of the first header are final.
    fn names(&mut self, header: &Header, ours: &dyn Ours) -> Result<(), (StreamError, &'static str)> {
        let given = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(domain).transpose();
        let to = given(&header.to).map_err(|()| IMPROPER_TO)?;
        let from = given(&header.from).map_err(|()| IMPROPER_FROM)?;
        match (to, &self.local) {
            (Some(to), Some(known)) if to != *known => return Err(OTHER_TO),
            (Some(to), None) if !self.settings.shows(&to, ours) => return Err(HOST_UNKNOWN),
            (Some(to), None) => self.local = Some(to),
            (None, None) => return Err(NO_TO),
            _ => {}
        }
        match (from, &self.remote) {
            (Some(from), Some(known)) if from != *known => return Err(OTHER_FROM),
            (Some(from), None) if ours.is_ours(&from) => return Err(OUR_NAME),
            (Some(from), None) => self.remote = Some(from),
            _ => {}
        }
        Ok(())
    }

    fn judge_peer(&self, features: bool) -> Result<(), InboundRefusal> {
        let (local, remote) = (self.local.as_deref().unwrap_or_default(), self.remote.as_deref());
        if let Some(objection) = remote.and_then(|remote| self.settings.objection(local, remote)) {
            return Err((StreamError::PolicyViolation, objection.text().to_owned().into()));
        }
        // Without features there is no STARTTLS: plain dialback is the only possibility left.
        let is_plain = remote.is_some_and(|remote| self.settings.policy_for(local, remote) == PeerPolicy::Plain);
        if features || is_plain { Ok(()) } else { Err((StreamError::UnsupportedVersion, OLD_VERSION.into())) }
    }

    // --- elements ---

    fn item(&mut self, stanza: Stanza<'_>, behind: &[u8], ours: &dyn Ours, out: &mut Vec<u8>) -> Option<InboundEvent> {
        if stanza.kind() == Kind::Other {
            return self.element(&stanza, behind, ours, out);
        }
        if self.proven.is_empty() {
            // RFC 6120 §4.9.3.12.
            return Some(self.fail(&StreamError::NotAuthorized, None, out));
        }
        let event = self.stanza(stanza, ours, out);
        let custody = match &mut self.managed {
            Some(managed) if self.phase == InboundPhase::Open => managed.ledger.count(),
            _ => return event,
        };
        match event {
            Some(InboundEvent::Stanza(packet, to, _)) => Some(InboundEvent::Stanza(packet, to, Some(custody))),
            other => other,
        }
    }

    /// Handles an element of the stream itself. Those that are read into a tree have no children,
    /// so strangers can't cause large trees.
    fn element(
        &mut self,
        stanza: &Stanza<'_>,
        behind: &[u8],
        ours: &dyn Ours,
        out: &mut Vec<u8>,
    ) -> Option<InboundEvent> {
        let namespace = stanza.ns();
        match (&*namespace, stanza.name()) {
            (ns::STARTTLS, "starttls") => Some(self.starttls(behind, out)),
            (ns::SASL, "abort") => self.not_authenticated("aborted", out),
            (ns::STREAMS, "error") => {
                self.has_failed = true;
                Some(self.end(out))
            }
            // Answers to questions that were never asked on this stream.
            (ns::DIALBACK, "result" | "verify") if stanza.raw_type().is_some() => None,
            (ns::SASL, "auth") | (ns::DIALBACK, "result" | "verify") | (ns::SM, _)
                if stanza.first_child().is_some() =>
            {
                Some(self.fail(&StreamError::BadFormat, None, out))
            }
            (ns::SASL, "auth") => self.auth(&Element::read(stanza), out),
            (ns::DIALBACK, "result") => self.result(&Element::read(stanza), ours, out),
            (ns::DIALBACK, "verify") => self.verify(&Element::read(stanza), ours, out),
            (ns::SM, _) => self.manage(&Element::read(stanza), out),
            (BIDI | BIDI_FEATURE, "bidi") if self.settings.bidi => self.ask_for_bidi(stanza, out),
            _ => Some(self.fail(&StreamError::UnsupportedStanzaType, None, out)),
        }
    }

    fn starttls(&mut self, behind: &[u8], out: &mut Vec<u8>) -> InboundEvent {
        let is_silent = behind.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        if self.tls.is_some() || !self.proven.is_empty() || !is_silent {
            // RFC 6120 §5.4.2.2.
            out.extend_from_slice(b"<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
            return self.end(out);
        }
        out.extend_from_slice(b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        self.phase = InboundPhase::Tls;
        InboundEvent::StartTls
    }

    // --- stanzas ---

    fn stanza(&mut self, stanza: Stanza<'_>, ours: &dyn Ours, out: &mut Vec<u8>) -> Option<InboundEvent> {
        let (settings, lang) = (&*self.settings, self.lang.as_deref());
        let spoken = Spoken { settings, local: self.local.as_deref().unwrap_or_default(), lang, ours };
        match spoken.judge(stanza, |domain| self.proof(domain)) {
            Judged::Taken(packet, to) => Some(InboundEvent::Stanza(packet, to, None)),
            Judged::Refused(error, to) => Some(InboundEvent::Refused(error, to)),
            Judged::Dropped => None,
            Judged::Fails(error, text) => Some(self.fail(&error, text, out)),
        }
    }

    // --- ends ---

    fn fault(&mut self, fault: Fault, out: &mut Vec<u8>) -> InboundEvent {
        self.fail(&StreamError::from(fault), Some(fault.text()), out)
    }

    fn fail(&mut self, error: &StreamError, text: Option<&str>, out: &mut Vec<u8>) -> InboundEvent {
        if !self.is_open {
            self.write_own_header(true, out);
        }
        if !self.is_closing {
            self.acknowledge(out);
            error.render(text, out);
        }
        self.has_failed = true;
        self.phase = InboundPhase::Ended;
        InboundEvent::End
    }

    fn end(&mut self, out: &mut Vec<u8>) -> InboundEvent {
        if !self.is_closing {
            self.acknowledge(out);
            out.extend_from_slice(STREAM_END);
        }
        self.phase = InboundPhase::Ended;
        InboundEvent::End
    }
}

/// Reads a domain from a header or from dialback: an address that is only a domain. Spaces,
/// resources and text that can't be prepared are refused.
pub(crate) fn domain(text: &str) -> Result<Box<str>, ()> {
    let jid = Jid::parse(text).map_err(|_| ())?;
    // A domain must not contain the separator of a key's fields.
    if jid.is_domain() && !jid.domain().contains(' ') { Ok(jid.domain().into()) } else { Err(()) }
}

/// The most keys that are verified at a time for one stream.
pub const MOST_PENDING: usize = 20;
/// The most domains that one stream may speak for.
pub const MOST_PROVEN: usize = 100;
/// The most failed attempts at SASL before a stream is ended.
const MOST_FAILURES: u32 = 5;
/// The most dialback requests that one stream may make.
pub const MOST_REQUESTS: u32 = 500;
/// The most bytes of a language tag: BCP 47 §4.4.1 knows none above 35.
const MAX_LANG: usize = 64;
/// XEP-0478: Stream Limits Advertisement.
pub(crate) const STREAM_LIMITS: &str = "urn:xmpp:stream-limits:0";

const IMPROPER_TO: (StreamError, &str) = (StreamError::ImproperAddressing, "The 'to' is not a domain.");
const NO_TO: (StreamError, &str) = (StreamError::ImproperAddressing, "A 'to' is needed.");
const IMPROPER_FROM: (StreamError, &str) = (StreamError::ImproperAddressing, "The 'from' is not a domain.");
const HOST_UNKNOWN: (StreamError, &str) = (StreamError::HostUnknown, "That host is not served here.");
const OTHER_TO: (StreamError, &str) = (StreamError::ImproperAddressing, "The 'to' may not change.");
const OTHER_FROM: (StreamError, &str) = (StreamError::InvalidFrom, "The 'from' may not change.");
const OUR_NAME: (StreamError, &str) = (StreamError::InvalidFrom, "The 'from' is a host of this server.");
const OLD_VERSION: &str = "Version 1.0 and a 'from' are needed.";

#[cfg(test)]
mod tests;
