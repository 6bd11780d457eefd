//! The client's side of RFC 6120 §4–7: a stream from its first byte until a resource is bound.
//!
//! [`C2s`] is a machine without I/O: it is given bytes, writes output into a buffer, and stops at
//! [`C2sEvent`]s that only its owner can deal with, such as looking credentials up. It is boxed,
//! lives as long as a login takes, and is dropped when the resource is bound: [`C2s::into_bound`]
//! hands over the session's data.
//!
//! # Invariants
//!
//! - Nothing is read past an unanswered question, so an answer always belongs to the element that
//!   asked for it.
//! - Nothing that arrives in the clear after `<starttls/>` is processed (RFC 6120 §5.4.3.3).
//! - The server's own stream header precedes everything else it sends, stream errors included (RFC
//!   6120 §4.9.1.2).
//! - After the stream has failed or ended, input is discarded and nothing is written.
//! - Memory is bounded: the caller keeps the one unfinished element, which `Policy::limits_before`
//!   caps, and the machine keeps no input.
//! - Work is linear in the input however it is cut into pieces.
//!
//! # Layout
//!
//! This file is the machine: its phases and the dispatch of items to files. `policy` is given by
//! the operator and the connection, `features` composes the stream features, `header` opens
//! streams, `starttls`, `sasl` and `bind` are the three steps, `resume` replaces the last; `sasl2`
//! is another framing of the second step, with the third in it; `handover` is the machine as data,
//! for another process to continue; `event` is for the machine's owner; `login` is an
//! authentication, whichever elements carry it.

mod bind;
mod event;
mod features;
mod handover;
mod header;
mod login;
mod policy;
mod resume;
mod sasl;
mod sasl2;
mod starttls;

use std::sync::Arc;

use rookery_jid::Jid;
use rookery_xml::{Element, Fault, Scan, Scanner, Stanza, Writer, ns, slow};

pub use event::{C2sEvent, NegotiatedSession, ReadOutcome, StreamIds};
pub use handover::{HandOver, LaterHandOver};
pub use policy::{Facts, Host, LoginKind, Policy, Sasl2};
pub use resume::{Enable, failed_reply};
pub use sasl2::fast::{FastSlot, Issued, StoredToken};
pub use sasl2::request::Features;

use crate::error::StreamError;
use crate::opening::Opening;
use login::SaslAttempt;
use sasl2::fast::Check;
use sasl2::inline::Inline;

/// A client stream under negotiation.
pub struct C2s {
    policy: Arc<Policy>,
    facts: Facts,
    ids: StreamIds,
    /// Index of the host in `policy.hosts`: the requested one, or the default until then.
    host: usize,
    lang: Option<String>,
    /// The client's prefix for the streams namespace, as a rule `stream`.
    prefix: String,
    /// The other prefixes that its header declares.
    prefixes: Vec<(String, String)>,
    /// The bare JID that the client claims to have, if it has sent one.
    client: Option<Jid>,
    /// The account that has logged in. The phases up to [`C2sPhase::Challenged`] come with `None`,
    /// those from [`C2sPhase::Bind`] on with `Some`.
    account: Option<Jid>,
    auth_failures: u32,
    /// The number of elements of stream management that came too early.
    untimely: u32,
    /// The mechanism of the newest authentication.
    mechanism: Option<&'static str>,
    /// The time at which a session that begins has to end, in seconds since 1970.
    until_s: Option<u64>,
    scanner: Scanner,
    /// True if the server's header of the current stream has been written.
    opened: bool,
    phase: C2sPhase,
    /// An event that was reported by an answer and waits for the next [`C2s::read`].
    pending: Option<C2sEvent>,
}

/// The input that the stream waits for.
enum C2sPhase {
    /// The client's stream header, for the first time or after STARTTLS or SASL.
    Header(Opening),
    /// The client's choice among the features before login.
    Login,
    /// The client's response to a SASL challenge.
    Challenged(SaslAttempt),
    /// The owner's answer to [`C2sEvent::Credentials`].
    Credentials(SaslAttempt),
    /// The owner's answer to [`C2sEvent::Verify`].
    Verify(SaslAttempt),
    /// The owner's answer to [`C2sEvent::Tokens`].
    Tokens(Box<Check>),
    /// The owner's answer to [`C2sEvent::BeforeLogin`].
    BeforeLogin,
    /// The TLS handshake: `<proceed/>` has been written, or the connection begins with TLS.
    Tls,
    /// The owner's answers to the requests that came along with the login.
    Inline(Box<Inline>),
    /// A resource binding request.
    Bind,
    /// The owner's answer to [`C2sEvent::Bind`], to be sent with that `id`.
    Binding { id: String },
    /// The owner's answer to [`C2sEvent::Resume`], for the session of that id.
    Resuming { previd: String },
    /// Nothing: the resource is bound.
    Bound { jid: Jid },
    /// The owner to hear that the stream is over.
    Ending,
    /// Nothing: the stream is over.
    Ended,
}

impl C2s {
    /// Returns a machine for a new connection. `ids` gives the stream ids: one for each header that
    /// the server sends.
    pub fn new(policy: Arc<Policy>, facts: Facts, ids: StreamIds) -> Self {
        Self {
            policy,
            facts,
            ids,
            host: 0,
            lang: None,
            prefix: String::new(),
            prefixes: Vec::new(),
            client: None,
            account: None,
            auth_failures: 0,
            untimely: 0,
            mechanism: None,
            until_s: None,
            scanner: Scanner::new(),
            opened: false,
            phase: C2sPhase::Header(Opening::default()),
            pending: None,
        }
    }

    /// Reads bytes from the client and appends the output for it to `out`.
    ///
    /// `input` is everything received and not yet consumed, oldest byte first: whatever a call
    /// leaves is passed again, followed by more, to the next. A call stops at the first event; the
    /// owner sends `out`, deals with the event, and calls again – also when no input is left,
    /// because an answer can cause a further event. `event: None` says that nothing happens before
    /// more bytes or an answer arrive.
    pub fn read(&mut self, input: &[u8], out: &mut Vec<u8>) -> ReadOutcome {
        let mut consumed = 0;
        loop {
            if let Some(event) = self.next_event() {
                return ReadOutcome { consumed, event: Some(event) };
            }
            match self.step(input.get(consumed..).unwrap_or_default(), out) {
                Some(taken) => consumed += taken,
                None => return ReadOutcome { consumed, event: None },
            }
        }
    }

    /// Closes the stream with an error, e.g. `system-shutdown`. [`C2sEvent::End`] follows. Nothing
    /// happens if it is over already.
    pub fn close(&mut self, error: &StreamError, text: Option<&str>, out: &mut Vec<u8>) {
        match self.phase {
            C2sPhase::Ending | C2sPhase::Ended => {}
            // RFC 6120 §5.4.3.2: between `<proceed/>` and the end of the handshake there is no
            // stream to write an error on.
            C2sPhase::Tls => self.phase = C2sPhase::Ending,
            _ => self.fail(error, text, out),
        }
    }

    /// Closes the stream because the client took too long (RFC 6120 §4.9.3.4).
    pub fn timed_out(&mut self, out: &mut Vec<u8>) {
        self.close(&StreamError::ConnectionTimeout, None, out);
    }

    /// Returns the host that the client asked for, or the default one before it has; `None` if none
    /// is configured.
    pub fn host(&self) -> Option<&Host> {
        self.policy.hosts.get(self.host)
    }

    /// Returns the properties of the connection.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the bare JID of the account that has logged in.
    pub fn account(&self) -> Option<&Jid> {
        self.account.as_ref()
    }

    /// Returns whether a client has logged in to this account, or is proving to be its owner.
    pub fn is_of(&self, account: &Jid) -> bool {
        let named = match &self.phase {
            C2sPhase::Challenged(attempt) | C2sPhase::Credentials(attempt) | C2sPhase::Verify(attempt) => {
                attempt.account()
            }
            _ => self.account.as_ref(),
        };
        named == Some(account)
    }

    /// Returns the identifier of the client's installation, while the owner is asked about its
    /// password and if it has told one (XEP-0388 §2.3).
    pub fn installation(&self) -> Option<&str> {
        match &self.phase {
            C2sPhase::Credentials(attempt) | C2sPhase::Verify(attempt) => attempt.request.as_ref()?.client.as_deref(),
            _ => None,
        }
    }

    /// Returns the mechanism of the newest authentication, if one has begun.
    pub fn mechanism(&self) -> Option<&'static str> {
        self.mechanism
    }

    /// Returns the time at which a session that begins on this stream has to end, in seconds since
    /// 1970, if the client's proof is valid for a limited time.
    pub fn holds_until(&self) -> Option<u64> {
        self.until_s
    }

    /// Returns the data that the session keeps once [`C2s::bound`] has accepted a resource; `None`
    /// before.
    pub fn into_bound(self) -> Option<NegotiatedSession> {
        match self.phase {
            C2sPhase::Bound { jid } => Some(NegotiatedSession { jid, lang: self.lang, prefixes: self.prefixes }),
            _ => None,
        }
    }

    fn next_event(&mut self) -> Option<C2sEvent> {
        if self.pending.is_some() {
            return self.pending.take();
        }
        if matches!(self.phase, C2sPhase::Ending) {
            self.phase = C2sPhase::Ended;
            return Some(C2sEvent::End);
        }
        None
    }

    /// Takes one item from the input; `None` if nothing can be done with it now. Returns `Some(0)`
    /// only when the phase changed.
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        match &self.phase {
            C2sPhase::Header(_) => self.header(input, out),
            C2sPhase::Login | C2sPhase::Challenged(_) | C2sPhase::Bind => self.item(input, out),
            C2sPhase::Inline(_) => self.inline(out),
            C2sPhase::Tls | C2sPhase::Ending | C2sPhase::Ended if input.is_empty() => None,
            C2sPhase::Tls => {
                // This came in the clear after `<proceed/>`: it is not from the peer with which we
                // are about to have an encrypted stream.
                self.phase = C2sPhase::Ending;
                Some(input.len())
            }
            C2sPhase::Ending | C2sPhase::Ended => Some(input.len()),
            C2sPhase::Credentials(_)
            | C2sPhase::Verify(_)
            | C2sPhase::Tokens(_)
            | C2sPhase::BeforeLogin
            | C2sPhase::Binding { .. }
            | C2sPhase::Resuming { .. }
            | C2sPhase::Bound { .. } => None,
        }
    }

    /// Takes one item of an open stream: an element, whitespace, or the end.
    fn item(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        if self.opens_again(input) {
            self.fail(&StreamError::BadFormat, Some("The stream is open already."), out);
            return Some(0);
        }
        let scanned = match self.scanner.scan(input, &self.policy.limits_before) {
            Ok(Scan::Partial) => return None,
            Ok(Scan::Space(length)) => return Some(length),
            Ok(Scan::Close(length)) => {
                self.end(out);
                return Some(length);
            }
            Ok(Scan::Stanza(length)) => Ok((length, Element::read(&self.scanner.stanza(input)))),
            Ok(Scan::Rare(length)) => self.rare(input, length),
            Err(fault) => Err(fault),
        };
        match scanned {
            Ok((length, element)) => {
                self.element(&element, input.get(length..).unwrap_or_default(), out);
                // Whitespace after `<starttls/>` mustn't get into the handshake; any other content
                // there was refused.
                Some(if matches!(self.phase, C2sPhase::Tls) { input.len() } else { length })
            }
            Err(fault) => {
                self.fail(&StreamError::from(fault), Some(fault.text()), out);
                Some(0)
            }
        }
    }

    /// Reads an element of `length` bytes that uses prefixes from the stream header.
    fn rare(&self, input: &[u8], length: usize) -> Result<(usize, Element), Fault> {
        let mut prefixes = self.prefixes.clone();
        prefixes.push((self.prefix.clone(), ns::STREAMS.to_owned()));
        let canonical = slow::canonical(input.get(..length).unwrap_or_default(), ns::CLIENT, &prefixes)?;
        let stanza = Stanza::parse(&canonical, &self.policy.limits_before)?;
        Ok((length, Element::read(&stanza)))
    }

    /// Dispatches a first-level element; `behind` is the input after it.
    fn element(&mut self, element: &Element, behind: &[u8], out: &mut Vec<u8>) {
        let stanza = matches!(element.name(), "iq" | "message" | "presence");
        match (element.ns(), element.name()) {
            (ns::STARTTLS, "starttls") => self.starttls(behind, out),
            (ns::SASL, _) => self.sasl(element, out),
            (ns::SASL2, _) => self.sasl2(element, out),
            (ns::CLIENT, "iq") if self.takes_bind(element) => self.bind(element, out),
            (ns::SM, _) => self.manage(element, out),
            (ns::CLIENT, "iq") if self.takes_registration(element) => {
                self.phase = C2sPhase::BeforeLogin;
                self.pending = Some(C2sEvent::BeforeLogin { stanza: Writer::write(element).into_bytes() });
            }
            // RFC 6120 §4.9.3.12, §6.3.1 and §7.1: no stanza before the negotiation is complete.
            (ns::CLIENT, _) if stanza => self.fail(&StreamError::NotAuthorized, None, out),
            (ns::SERVER, _) if stanza => self.fail(&StreamError::InvalidNamespace, None, out),
            // A peer that reports a stream error closes the stream with it (RFC 6120 §4.9.1.1).
            (ns::STREAMS, "error") => self.end(out),
            _ => self.fail(&StreamError::UnsupportedStanzaType, None, out),
        }
    }
}
