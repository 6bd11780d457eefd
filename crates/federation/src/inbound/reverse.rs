//! The other direction of a stream that a peer has opened (XEP-0288), if the peer has requested
//! it.
//!
//! # Invariants
//!
//! - Nothing of ours goes that way before the peer has proven a domain on this stream, and then
//!   only from the domain of ours to that domain for which the proof was given.

use rookery_stream::error::StreamError;
use rookery_xml::{Kind, Stanza};

use super::{Inbound, InboundEvent, InboundPhase, STREAM_LIMITS};
use crate::settings::PeerPolicy;

/// The agreement about the other direction.
#[derive(Debug)]
pub(super) struct Reverse {
    /// The most bytes of a stanza that the peer says it takes (XEP-0478 §3).
    longest: usize,
    /// The domain of ours and that of the peer for which the peer has given its first proof.
    pair: Option<(Box<str>, Box<str>)>,
}

impl Inbound {
    /// Tells whether a peer may ask for both directions now: in TLS, if it has to be, and before it
    /// proves itself (§2.2).
    pub(super) fn offers_bidi(&self) -> bool {
        self.settings.bidi && self.proven.is_empty() && (self.tls.is_some() || self.policy() == PeerPolicy::Plain)
    }

    /// Notes that the peer asks for both directions. Behind its proof it is too late, and nothing
    /// changes.
    pub(super) fn ask_for_bidi(&mut self, request: &Stanza<'_>, out: &mut Vec<u8>) -> Option<InboundEvent> {
        if self.offers_bidi() {
            let longest = longest(request).unwrap_or(usize::MAX);
            self.reverse.get_or_insert(Reverse { longest, pair: None });
        } else if self.proven.is_empty() {
            return Some(self.fail(&StreamError::PolicyViolation, Some("TLS comes first."), out));
        }
        None
    }

    /// Returns whether the peer may be sent stanzas from one domain of ours to the one that it has
    /// proven.
    pub(super) fn may_be_answered(&mut self, local: &str, remote: &str) {
        if let Some(Reverse { pair: pair @ None, .. }) = &mut self.reverse {
            *pair = Some((local.into(), remote.into()));
        }
    }

    /// Tells whether the peer has asked for both directions.
    pub(crate) fn is_bidi(&self) -> bool {
        self.reverse.is_some()
    }

    /// Returns the domain of ours, and the peer's, between which stanzas may be sent to the peer
    /// now; `None` if none may.
    pub(crate) fn reverse_pair(&self) -> Option<(&str, &str)> {
        self.proven_pair().filter(|_| self.phase == InboundPhase::Open && !self.is_closing)
    }

    /// Returns the same, for ever after it was proven.
    pub(crate) fn proven_pair(&self) -> Option<(&str, &str)> {
        let (local, remote) = self.reverse.as_ref()?.pair.as_ref()?;
        Some((local, remote))
    }

    /// Returns the most bytes of a stanza that the peer says it takes.
    pub(crate) fn longest(&self) -> usize {
        self.reverse.as_ref().map_or(usize::MAX, |reverse| reverse.longest)
    }
}

/// Returns the most bytes of a stanza that a request names. No trees are built for strangers.
fn longest(request: &Stanza<'_>) -> Option<usize> {
    debug_assert_eq!(request.kind(), Kind::Other);
    let limits = request.child("limits", STREAM_LIMITS)?;
    let bytes = limits.children().find(|limit| limit.is("max-bytes", STREAM_LIMITS))?;
    let text = request.bytes().get(bytes.content()?)?;
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}
