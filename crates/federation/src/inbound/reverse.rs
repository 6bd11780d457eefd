//! The other direction of a stream that a peer has opened (XEP-0288), if the peer has requested
//! it.
//!
//! # Invariants
//!
//! - No stanza of ours goes that way before the peer has proven a domain on this stream, and then
//!   only between the two domains of that proof.

use rookery_stream::error::StreamError;
use rookery_xml::{Kind, Stanza};

use super::{Inbound, InboundEvent, InboundPhase, STREAM_LIMITS};
use crate::settings::PeerPolicy;

/// The agreement about the other direction.
#[derive(Debug)]
pub(super) struct Reverse {
    /// The largest stanza that the peer accepts, in bytes (XEP-0478 §3).
    longest: usize,
    /// The domain of ours and that of the peer in the peer's first proof.
    pair: Option<(Box<str>, Box<str>)>,
}

impl Inbound {
    /// Returns whether a peer may request both directions now: in TLS, if that is required, and
    /// before it proves itself (§2.2).
    pub(super) fn offers_bidi(&self) -> bool {
        self.settings.bidi && self.proven.is_empty() && (self.tls.is_some() || self.policy() == PeerPolicy::Plain)
    }

    /// Notes that the peer requests both directions. After its proof it is too late, and nothing
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

    /// Notes that the peer may be sent stanzas from one domain of ours to the one that it has
    /// proven.
    pub(super) fn may_be_answered(&mut self, local: &str, remote: &str) {
        if let Some(Reverse { pair: pair @ None, .. }) = &mut self.reverse {
            *pair = Some((local.into(), remote.into()));
        }
    }

    /// Returns whether the peer has requested both directions.
    pub(crate) fn is_bidi(&self) -> bool {
        self.reverse.is_some()
    }

    /// Returns the domain of ours, and the peer's, between which stanzas may now be sent to the
    /// peer; `None` if none may.
    pub(crate) fn reverse_pair(&self) -> Option<(&str, &str)> {
        self.proven_pair().filter(|_| self.phase == InboundPhase::Open && !self.is_closing)
    }

    /// Returns these two domains, also after the end of the stream.
    pub(crate) fn proven_pair(&self) -> Option<(&str, &str)> {
        let (local, remote) = self.reverse.as_ref()?.pair.as_ref()?;
        Some((local, remote))
    }

    /// Returns the largest stanza that the peer accepts, in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.reverse.as_ref().map_or(usize::MAX, |reverse| reverse.longest)
    }
}

/// Returns the largest stanza that a request names. No tree is built for strangers.
fn longest(request: &Stanza<'_>) -> Option<usize> {
    debug_assert_eq!(request.kind(), Kind::Other);
    let limits = request.child("limits", STREAM_LIMITS)?;
    let bytes = limits.children().find(|limit| limit.is("max-bytes", STREAM_LIMITS))?;
    let text = request.bytes().get(bytes.content()?)?;
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}
