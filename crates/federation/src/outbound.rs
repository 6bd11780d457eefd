//! A stream to another server that we have opened: to send stanzas, or to ask about a key.
//!
//! # Invariants
//!
//! - It is ready only after the other server has proven to be the domain's, as the policy requires:
//!   success in SASL proves our identity to it, not the other way round.
//! - If the policy requires TLS, nothing but `<starttls/>` is sent without it, whatever the peer
//!   offers.
//! - A dialback answer counts only if this stream has requested it, for this pair.
//! - Stanzas of the peer count only if both directions were requested (XEP-0288) and they come from
//!   this stream's domain, which the peer has proven before the first of ours leaves. All others
//!   are dropped, since nothing on the stream proves their senders.
//! - If the peer acknowledges (XEP-0198), that is enabled, or an earlier stream resumed, before the
//!   first stanza leaves.
//!
//! # Layout
//!
//! `proof` is the other server's proof that it is the domain's, `login` the proof of our own
//! identity, `acks` the acknowledgements, `peer` the peer's stanzas and answers, `ending` the end.

use std::sync::Arc;

use rookery_fanout::Packet;
use rookery_hub::Custody;
use rookery_jid::Jid;
use rookery_stream::error::StreamError;
use rookery_stream::tls::trust::{Names, Untrusted};
use rookery_xml::header::Header;
use rookery_xml::{Built, Element, Kind, Limits, Scanner, Stanza, ns};

use crate::dialback;
use crate::inbound::{Ours, domain};
use crate::notes;
use crate::outbound::acks::AcksAgreement;
use crate::reading::{ReadItem, ReadingPlace, has_features, judge, write_header};
use crate::settings::FederationSettings;

pub(crate) mod acks;
mod ending;
mod login;
mod peer;
mod proof;

/// A stream being negotiated, or in use.
#[derive(Debug)]
pub struct Outbound {
    settings: Arc<FederationSettings>,
    reading: ReadingPlace,
    phase: OutboundPhase,
    local: Box<str>,
    remote: Box<str>,
    purpose: StreamPurpose,
    /// The id that the peer gave the stream.
    id: String,
    /// True if the peer's header has declared the prefix of dialback.
    knows_dialback: bool,
    /// The largest stanza that the peer accepts, in bytes (XEP-0478).
    longest: usize,
    /// The milliseconds without traffic that the peer tolerates (XEP-0478).
    most_idle_ms: u64,
    acks: AcksAgreement,
    /// True if both directions were requested: the peer may send, too.
    is_bidi: bool,
    /// True if they are never requested, whatever the peer offers.
    avoids_bidi: bool,
    /// True if nothing but `<starttls/>` is sent without TLS, whatever the policy.
    must_encrypt: bool,
    /// True once our end of the stream has been written; the peer's input still counts.
    is_closing: bool,
    /// True if the peer's stanzas now come over another connection: those on this one no longer
    /// count.
    is_deaf: bool,
    lang: Option<Box<str>>,
    tls: Option<Result<Names, Untrusted>>,
    /// True if SASL was tried and has failed.
    was_refused: bool,
    /// True if the peer has ended the stream with an error.
    was_told_off: bool,
    /// The reason why the stream can't be used, in words for the operator.
    cause: Option<String>,
    /// True if an operator is watching.
    is_noting: bool,
    notes: Vec<String>,
}

/// The purpose of a stream, which decides whether we log in on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPurpose {
    /// To send stanzas, after a login or with keys.
    Stanzas,
    /// Questions whether keys are right (XEP-0220 §2.1.2), which need no login.
    Questions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutboundPhase {
    /// Nothing has been sent yet.
    Closed,
    /// The peer's header; `true` after SASL.
    Header(bool),
    /// Features; `true` after SASL.
    Features(bool),
    /// The reply to `<starttls/>`.
    Proceed,
    /// The handshake.
    Tls,
    /// The reply to SASL.
    Sasl,
    /// The answer of dialback.
    Dialback,
    /// The count for `<resume/>`.
    Counting,
    /// The reply to `<resume/>`.
    Resuming,
    /// The reply to `<enable/>`.
    Enabling,
    /// In use.
    Ready,
    /// The end has been written or read.
    Ended,
}

/// An act that the owner has to carry out.
#[derive(Debug)]
pub enum OutboundEvent {
    /// Begin the handshake with the remote domain; then call [`Outbound::secured`].
    StartTls,
    /// Stanzas, or questions, may be sent.
    Ready,
    /// The stream is ready and continues another one, on which this many stanzas were handled.
    Resumed(u32),
    /// The stream is ready, but the earlier one is lost; this many of its stanzas were handled, if
    /// known.
    NotResumed(Option<u32>),
    /// This many stanzas were handled since acknowledgements began, modulo 2^32.
    Acknowledged(u32),
    /// The answer to a question about a key.
    Answered {
        /// The domain that wants to send, which is that of this stream's peer.
        from: Box<str>,
        /// The domain of ours to which it wants to send.
        to: Box<str>,
        /// The id of the stream that the key came on.
        id: Box<str>,
        /// True if the key is right; `None` if that is unknown.
        outcome: Option<bool>,
    },
    /// A stanza of the peer for an address of ours, and its custody until it is acknowledged.
    Stanza(Packet, Jid, Option<Custody>),
    /// The peer requests an acknowledgement, and the store is still at work: call
    /// `Outbound::tell_asked` in a moment.
    Asked,
    /// A stream is to be resumed: call `Outbound::resume` with the number of the peer's stanzas
    /// that were handled on it.
    Counting,
    /// An error for the sender of a stanza that can't be delivered unchanged, and the sender's
    /// address.
    Refused(Built, Jid),
    /// The stream is over, for the reason in [`Outbound::cause`].
    End,
}

/// The result of reading.
#[derive(Debug)]
pub struct OutboundRead {
    /// The bytes of the input that are consumed.
    pub consumed: usize,
    /// The act to carry out before the next call.
    pub event: Option<OutboundEvent>,
}

impl Outbound {
    /// Returns a machine for a connection to the server of `remote`, in the name of `local`.
    pub fn new(settings: Arc<FederationSettings>, local: &str, remote: &str, purpose: StreamPurpose) -> Self {
        Self {
            settings,
            reading: ReadingPlace::default(),
            phase: OutboundPhase::Closed,
            local: local.into(),
            remote: remote.into(),
            purpose,
            id: String::new(),
            knows_dialback: false,
            longest: usize::MAX,
            most_idle_ms: u64::MAX,
            acks: AcksAgreement::default(),
            is_bidi: false,
            avoids_bidi: false,
            must_encrypt: false,
            is_closing: false,
            is_deaf: false,
            lang: None,
            tls: None,
            was_refused: false,
            was_told_off: false,
            cause: None,
            is_noting: false,
            notes: Vec::new(),
        }
    }

    /// Makes the stream resume the earlier one with that id, if the peer offers resumption: see
    /// [`OutboundEvent::Counting`].
    #[must_use]
    pub fn resuming(mut self, id: Box<str>) -> Self {
        self.acks.id = Some(id);
        self
    }

    /// Makes the stream request one direction only.
    #[must_use]
    pub fn one_way(self) -> Self {
        Self { avoids_bidi: true, ..self }
    }

    /// Makes the stream require TLS even if the policy doesn't: if DNS names the peer's
    /// certificates, the peer has TLS (RFC 7673 §3).
    #[must_use]
    pub fn require_tls(self) -> Self {
        Self { must_encrypt: true, ..self }
    }

    /// Makes the stream note the peer's messages for an operator who watches. It then carries no
    /// stanzas.
    #[must_use]
    pub fn noting(self) -> Self {
        Self { is_noting: true, avoids_bidi: true, ..self }
    }

    /// Applies new settings.
    pub(crate) fn apply(&mut self, settings: Arc<FederationSettings>) {
        self.settings = settings;
    }

    /// Returns what was noted since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Starts the stream on an open connection. With direct TLS the handshake comes first, and
    /// [`Self::secured`].
    pub fn start(&mut self, direct_tls: bool, out: &mut Vec<u8>) {
        if direct_tls {
            self.phase = OutboundPhase::Tls;
        } else {
            self.open(false, out);
        }
    }

    /// Returns whether stanzas, or questions, may be sent.
    pub fn is_ready(&self) -> bool {
        self.phase == OutboundPhase::Ready
    }

    /// Returns the size of the largest stanza that the peer accepts, in bytes: a larger one would
    /// end the stream for all senders.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the time without traffic, in milliseconds, after which the peer has announced that
    /// it may end the stream.
    pub(crate) fn most_idle_ms(&self) -> u64 {
        self.most_idle_ms
    }

    /// Returns whether the peer acknowledges stanzas.
    pub fn is_managed(&self) -> bool {
        self.acks.are_on
    }

    /// Returns the id that the peer gave the stream, if it can be resumed.
    pub(crate) fn managed_id(&self) -> Option<&str> {
        self.acks.id.as_deref()
    }

    /// Returns whether the peer may send, too.
    pub fn is_bidi(&self) -> bool {
        self.is_bidi
    }

    /// Returns whether the peer has ended the stream with an error after both directions were
    /// requested: some can't cope with that.
    pub(crate) fn may_dislike_bidi(&self) -> bool {
        self.is_bidi && self.was_told_off
    }

    /// Returns whether our direction has ended, and the peer's hasn't yet.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns the domain that the peer is, or has to be.
    pub(crate) fn remote(&self) -> &str {
        &self.remote
    }

    /// Returns the domain of ours that the stream is for.
    pub(crate) fn local(&self) -> &str {
        &self.local
    }

    /// Returns whether the stream is over.
    pub fn has_ended(&self) -> bool {
        self.phase == OutboundPhase::Ended
    }

    /// Returns whether TLS is established.
    pub fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads the peer's input up to the first event, and appends the reply to `out`.
    pub fn read(&mut self, input: &[u8], scanner: &mut Scanner, ours: &dyn Ours, out: &mut Vec<u8>) -> OutboundRead {
        let mut consumed = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            match self.phase {
                OutboundPhase::Ended => return OutboundRead { consumed: input.len(), event: None },
                OutboundPhase::Closed | OutboundPhase::Tls if !rest.is_empty() => {
                    return OutboundRead {
                        consumed: input.len(),
                        event: Some(self.fail_silently("it spoke out of turn")),
                    };
                }
                OutboundPhase::Closed | OutboundPhase::Tls => return OutboundRead { consumed, event: None },
                _ => {}
            }
            // A server that is asked about keys has proven nothing, and never does.
            let is_proven = self.purpose == StreamPurpose::Stanzas && self.is_logged_in();
            let limits = if is_proven { self.settings.limits } else { self.settings.limits_before };
            let (len, event) = match self.reading.next(rest, scanner, &limits, is_proven) {
                Ok(ReadItem::More) => return OutboundRead { consumed, event: None },
                Ok(ReadItem::Skip(len)) => (len, None),
                Ok(ReadItem::Header(len, header)) => (len, self.header(*header, out)),
                Ok(ReadItem::Element(len, stanza)) => (len, self.item(stanza, ours, out)),
                Ok(ReadItem::Rewritten(len, bytes)) => {
                    let wide = Limits { bytes: limits.bytes.saturating_mul(2), ..limits };
                    match Stanza::parse(&bytes, &wide) {
                        Ok(stanza) => (len, self.item(stanza, ours, out)),
                        Err(fault) => (0, Some(self.fail(&StreamError::from(fault), fault.text(), out))),
                    }
                }
                Ok(ReadItem::Close(len)) => (len, Some(self.end(out))),
                Err(fault) => (0, Some(self.fail(&StreamError::from(fault), fault.text(), out))),
            };
            consumed += len;
            if self.phase == OutboundPhase::Tls {
                // There must be no plain bytes between `<proceed/>` and the handshake.
                consumed = input.len();
            }
            if event.is_some() {
                return OutboundRead { consumed, event };
            }
        }
    }

    /// Asks whether a key is right that came on the stream with that id. This stream must be ready,
    /// and be one for questions.
    pub fn ask(&self, id: &str, key: &str, out: &mut Vec<u8>) {
        dialback::ask(dialback::Name::Verify, &self.local, &self.remote, Some(id), key, out);
    }

    /// Returns whether the peer has accepted our identity.
    fn is_logged_in(&self) -> bool {
        matches!(
            self.phase,
            OutboundPhase::Header(true)
                | OutboundPhase::Features(true)
                | OutboundPhase::Counting
                | OutboundPhase::Resuming
                | OutboundPhase::Enabling
                | OutboundPhase::Ready
        )
    }

    fn open(&mut self, is_logged_in: bool, out: &mut Vec<u8>) {
        self.reading = ReadingPlace::default();
        write_header(Some(&self.local), Some(&self.remote), None, true, out);
        self.phase = OutboundPhase::Header(is_logged_in);
    }

    fn header(&mut self, mut header: Header, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        let OutboundPhase::Header(is_logged_in) = self.phase else { return None };
        self.reading.open(&mut header);
        self.lang = header.lang.take().filter(|lang| lang.len() <= MAX_LANG).map(String::into_boxed_str);
        if let Err((error, text)) = judge(&header) {
            return Some(self.fail(&error, text, out));
        }
        let from = header.from.as_deref().filter(|from| !from.is_empty());
        if from.is_some_and(|from| domain(from).as_ref() != Ok(&self.remote)) {
            return Some(self.fail(&StreamError::InvalidFrom, "its header comes from another domain", out));
        }
        self.id = header.id.clone().unwrap_or_default();
        if self.id.is_empty() || self.id.len() > MAX_ID {
            return Some(self.fail(&StreamError::BadFormat, "its header has no usable id", out));
        }
        self.knows_dialback = self.reading.declares(ns::DIALBACK);
        if has_features(&header) {
            self.phase = OutboundPhase::Features(is_logged_in);
            return None;
        }
        if self.needs_tls() || is_logged_in {
            return Some(self.fail(&StreamError::UnsupportedVersion, "it has no stream features, and so no TLS", out));
        }
        self.log_in_by_dialback(out)
    }

    fn item(&mut self, stanza: Stanza<'_>, ours: &dyn Ours, out: &mut Vec<u8>) -> Option<OutboundEvent> {
        if stanza.kind() != Kind::Other {
            return self.stanza(stanza, ours, out);
        }
        // Elements that are read into a tree are small, also from a proven peer.
        let namespace = stanza.ns();
        let is_of_stream = matches!(&*namespace, ns::STREAMS | ns::STARTTLS | ns::SASL | ns::DIALBACK | ns::SM);
        if !is_of_stream || stanza.bytes().len() > self.settings.limits_before.bytes {
            return None;
        }
        let element = Element::read(&stanza);
        if self.is_noting {
            self.notes.extend(notes::of(&element));
        }
        match (element.ns(), element.name(), self.phase) {
            (ns::STREAMS, "error", _) => Some(self.handle_error(&element, out)),
            (ns::STREAMS, "features", OutboundPhase::Features(is_logged_in)) => {
                self.features(&element, is_logged_in, out)
            }
            (ns::STARTTLS, "proceed", OutboundPhase::Proceed) => {
                self.phase = OutboundPhase::Tls;
                Some(OutboundEvent::StartTls)
            }
            (ns::STARTTLS, "failure", OutboundPhase::Proceed) => Some(self.end_because("it failed to start TLS", out)),
            (ns::SASL, "success", OutboundPhase::Sasl) => {
                self.open(true, out);
                None
            }
            (ns::SASL, "failure", OutboundPhase::Sasl) => {
                self.was_refused = true;
                let reason = element.children().next().map_or("no reason", Element::name).to_owned();
                if self.knows_dialback {
                    return self.log_in_by_dialback(out);
                }
                Some(self.end_because(&format!("it doesn't accept our certificate: {reason}"), out))
            }
            (ns::DIALBACK, "result", OutboundPhase::Dialback) => self.result(&element, out),
            (ns::DIALBACK, "verify", OutboundPhase::Ready) if self.purpose == StreamPurpose::Questions => {
                peer::read_answer(&element)
            }
            (ns::DIALBACK, name, OutboundPhase::Ready) if self.is_bidi => {
                self.handle_question(name, &element, ours, out)
            }
            (ns::SM, name, OutboundPhase::Resuming) => self.resumption(name, &element, out),
            (ns::SM, name, OutboundPhase::Enabling) => self.enabled(name, &element),
            (ns::SM, name, OutboundPhase::Ready) if self.acks.are_on => self.acknowledgement(name, &element, out),
            _ => None,
        }
    }
}

/// The most bytes of a stream's id, which is a part of each key.
const MAX_ID: usize = 255;
/// The most bytes of a language tag: BCP 47 §4.4.1 knows none above 35.
const MAX_LANG: usize = 64;

#[cfg(test)]
mod tests;
