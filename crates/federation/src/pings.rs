//! Servers without acknowledgements (XEP-0198): a ping after the stanzas (XEP-0199 §4.3) shows
//! whether they have arrived.
//!
//! A server reads a stream in order, so one that replies to a ping has read everything before it.
//! If its connection breaks, unconfirmed stanzas are bounced to their senders, who would otherwise
//! not learn of the loss. The cost is one request every two seconds while messages leave.
//!
//! # Invariants
//!
//! - A reply counts if it has the id of our last ping, which can't be guessed, and comes from the
//!   pinged domain to the pinging one. It isn't passed on.
//! - Nothing waits for a reply: neither the next stanzas nor the end of an idle stream. A server
//!   that doesn't reply isn't pinged for a day.
//! - The stanzas that are kept for a reply take at most half of the room for waiting stanzas
//!   ([`MOST_WAITING`]).

use rookery_base::Map;
use rookery_fanout::{Packet, StanzaType};
use rookery_jid::Jid;

use crate::acknowledging::ASK_MS;
use crate::outbound::StreamPurpose;
use crate::route::{DomainRoute, RouteState};
use crate::servers::ServerStreams;
use crate::timers::StreamTimer;
#[cfg(doc)]
use crate::writing::MOST_WAITING;

/// Domains of which something holds for a day.
#[derive(Debug, Default)]
pub(crate) struct ForADay(Map<Box<str>, u64>);

impl ForADay {
    pub(crate) fn insert(&mut self, domain: &str, now_ms: u64) {
        if self.0.len() >= MOST_REMEMBERED {
            self.0.clear();
        }
        self.0.insert(domain.into(), now_ms + DAY_MS);
    }

    pub(crate) fn contains(&self, domain: &str, now_ms: u64) -> bool {
        self.0.get(domain).is_some_and(|until_ms| now_ms < *until_ms)
    }
}

impl ServerStreams {
    /// Takes a stanza from a domain whose home is here, if it has arrived at another node. Returns
    /// `true` if it is the reply to a ping of these streams, and must not be delivered.
    pub fn hears(&mut self, packet: &Packet, to: &Jid) -> bool {
        if let Some(sender) = packet.sender() {
            self.is_alive(sender.domain());
        }
        self.takes_answer(packet, to)
    }

    /// Handles the reply to a ping of ours. Returns `false` if the stanza isn't one.
    pub(crate) fn takes_answer(&mut self, packet: &Packet, to: &Jid) -> bool {
        if !matches!(packet.type_(), StanzaType::Result | StanzaType::Error) || !to.is_domain() {
            return false;
        }
        let (Some(id), Some(sender)) = (packet.id(), packet.sender().filter(Jid::is_domain)) else { return false };
        let Some(at) = self.known_way(to.domain(), sender.domain(), StreamPurpose::Stanzas) else { return false };
        let now_ms = self.now_ms;
        let Some(DomainRoute { state: RouteState::Ready { key, sent, writing, .. }, .. }) = self.routes.get_mut(at)
        else {
            return false;
        };
        let Some(bytes) = sent.answered(&id) else { return false };
        self.waiting_bytes -= bytes;
        if sent.is_worth_asking()
            && writing.watched_ms > now_ms + ASK_MS
            && let Some(stream) = self.streams.get(key.0 as usize)
        {
            // More stanzas have left since that ping, and perhaps none will follow to cause the
            // next one.
            writing.watched_ms = now_ms + ASK_MS;
            let watch = StreamTimer::Watch(*key, stream.serial);
            self.set_timer(ASK_MS, watch);
        }
        true
    }

    /// Handles a ping that got no reply.
    pub(crate) fn gives_no_answer(&mut self, at: usize) {
        let Some(route) = self.routes.get_mut(at) else { return };
        if let RouteState::Ready { sent, .. } = &mut route.state {
            self.waiting_bytes -= sent.bytes();
            sent.watch_no_more();
            self.silent.insert(&route.remote, self.now_ms);
        }
    }

    /// Notes that the other server has ended the stream of a way properly.
    pub(crate) fn has_read_all(&mut self, at: usize) {
        if let Some(DomainRoute { state: RouteState::Ready { sent, .. }, .. }) = self.routes.get_mut(at) {
            let before = sent.bytes();
            sent.is_read();
            self.waiting_bytes -= before - sent.bytes();
        }
    }
}

/// The time to wait for the reply to a ping: longer than the system takes to detect a dead peer.
pub const PATIENCE_MS: u64 = 90_000;
const DAY_MS: u64 = 86_400_000;
/// The most domains that are remembered.
pub const MOST_REMEMBERED: usize = 1_000;
