//! Checks the stanzas of another server, on a stream that it or we have opened.
//!
//! # Invariants
//!
//! - The domain in `from` must be one that this very stream has proven, as a whole domain: neither
//!   a parent nor a subdomain counts.
//! - The domain in `to` must be ours: nothing is relayed. It must communicate with the sender's,
//!   and accept the proof of this stream, no matter which domain of ours the stream is for.

use rookery_fanout::{Packet, StanzaType};
use rookery_jid::{Jid, prepare};
use rookery_stream::error::{Condition, StanzaError, StreamError};
use rookery_xml::{Built, Kind, Stanza, Writer, ns};

use crate::inbound::Ours;
use crate::settings::{FederationSettings, PeerPolicy};

/// The outcome for one stanza.
pub(crate) enum Judged {
    /// It is for an address of ours.
    Taken(Packet, Jid),
    /// It can't be delivered unchanged; its sender gets this error.
    Refused(Built, Jid),
    /// It can't be delivered, and its sender must not be told.
    Dropped,
    /// It ends the stream with this error and text.
    Fails(StreamError, Option<&'static str>),
}

/// The stream of a stanza.
pub(crate) struct Spoken<'a> {
    pub settings: &'a FederationSettings,
    /// The domain of ours that the stream is for.
    pub local: &'a str,
    /// The language of stanzas that name none.
    pub lang: Option<&'a str>,
    pub ours: &'a dyn Ours,
}

impl Spoken<'_> {
    /// Checks a stanza on a stream that speaks for some domains. `proof` returns the strictest
    /// policy that a domain's proof satisfies.
    pub(crate) fn judge(&self, stanza: Stanza<'_>, proof: impl Fn(&str) -> Option<PeerPolicy>) -> Judged {
        if stanza.head().xmlns.is_some() && stanza.ns() != ns::SERVER {
            return Judged::Fails(StreamError::InvalidNamespace, None);
        }
        let (Some(from), Some(to)) = (stanza.from(), stanza.to()) else {
            // RFC 6120 §8.1.1.2 and §8.1.2.2.
            return Judged::Fails(StreamError::ImproperAddressing, Some("A stanza lacks an address."));
        };
        let Ok(sender) = prepare(&from) else {
            return Judged::Fails(StreamError::InvalidFrom, Some("The 'from' of a stanza is not an address."));
        };
        let remote = sender.as_ref().domain();
        let Some(proof) = proof(remote) else {
            return Judged::Fails(StreamError::InvalidFrom, Some("The domain in 'from' is not proven."));
        };
        if !self.settings.admits(self.local, remote) {
            return Judged::Fails(StreamError::PolicyViolation, None);
        }
        let Ok(to) = Jid::parse(&to) else {
            // An error can't come from an invalid address.
            return refuse(&stanza, Condition::JidMalformed, self.local, sender.as_ref().to_jid());
        };
        if !self.settings.shows(to.domain(), self.ours) {
            return Judged::Fails(StreamError::HostUnknown, Some("The domain in 'to' is not served here."));
        }
        if !self.settings.admits(to.domain(), remote) {
            let text = "The domain in 'to' does not communicate with that in 'from'.";
            return Judged::Fails(StreamError::PolicyViolation, Some(text));
        }
        if proof < self.settings.policy_for(to.domain(), remote) {
            return Judged::Fails(StreamError::PolicyViolation, Some("The domain in 'to' needs another proof."));
        }
        let is_request = matches!(stanza.raw_type().map(|raw| raw.bytes), Some(b"get" | b"set"));
        let lacks =
            stanza.kind() == Kind::Iq && (stanza.id().is_none() || (is_request && stanza.children().count() != 1));
        match StanzaType::of(stanza.kind(), stanza.raw_type().map(|raw| raw.bytes)).filter(|_| !lacks) {
            Some(type_) => Judged::Taken(Packet::from_server(stanza, type_, sender.as_ref().as_str(), self.lang), to),
            None => refuse(&stanza, Condition::BadRequest, to.as_str(), sender.as_ref().to_jid()),
        }
    }
}

/// Refuses a stanza, silently if it is an error or a reply itself (RFC 6120 §8.3.1).
fn refuse(stanza: &Stanza<'_>, condition: Condition, from: &str, to: Jid) -> Judged {
    refusal(stanza, condition, from, to).map_or(Judged::Dropped, |(error, to)| Judged::Refused(error, to))
}

/// Returns the error for a stanza that can't be delivered, with the address of its sender; `None`
/// if it is an error or a reply itself (RFC 6120 §8.3.1).
pub(crate) fn refusal(stanza: &Stanza<'_>, condition: Condition, from: &str, to: Jid) -> Option<(Built, Jid)> {
    if matches!(stanza.raw_type().map(|raw| raw.bytes), Some(b"error" | b"result")) {
        return None;
    }
    let mut reply = Writer::new(stanza.name());
    reply.attr("type", "error").opt_attr("id", stanza.id().as_deref()).attr("from", from);
    StanzaError::from(condition).write(&mut reply);
    Some((reply.finish(), to))
}
