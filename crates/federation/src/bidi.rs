//! Streams of other servers that also carry our stanzas (XEP-0288).
//!
//! A server that calls us may request both directions. Then our stanzas for its domain need no
//! connection of our own, and servers behind firewalls can be reached.
//!
//! # Invariants
//!
//! - A way uses one stream at a time. It changes to another only when nothing is under way on the
//!   previous one, or when it is known which stanzas arrived there: only this keeps the order.
//! - A stream of ours that is being negotiated isn't given up for another server's: if both did so
//!   at the same time, none would be left.
//! - An incoming stream carries stanzas from one domain of ours to the one that was proven for it.

use rookery_base::Map;

use crate::acknowledging::StreamStart;
use crate::arrivals::name_of_pair;
use crate::outbound::{Outbound, StreamPurpose};
use crate::pings::ForADay;
use crate::route::{DomainRoute, RouteState};
use crate::sent::Sharing;
use crate::servers::{ConnectionKey, Machine, ServerStreams, release};

/// The feature (§2.1).
pub(crate) const BIDI_FEATURE: &str = "urn:xmpp:features:bidi";
/// The request (§2.2).
pub(crate) const BIDI: &str = "urn:xmpp:bidi";

/// Streams of other servers that can carry stanzas, and servers that can't cope with the request.
#[derive(Debug, Default)]
pub(crate) struct Carriers {
    /// The latest stream for each pair of domains.
    streams: Map<Box<str>, ConnectionKey>,
    /// Domains whose servers end streams on which both directions are requested.
    one_way: ForADay,
}

impl ServerStreams {
    /// Notes that an incoming stream may be ready to carry stanzas of ours: its server has agreed
    /// on acknowledgements, sends stanzas, or has had time for both.
    pub(crate) fn may_carry(&mut self, key: ConnectionKey) {
        let Some(stream) = self.streams.get_mut(key.0 as usize).filter(|stream| !stream.ended) else { return };
        let Machine::In { machine, is_home: true, is_carrier, .. } = &mut stream.machine else { return };
        let Some((local, remote)) = machine.reverse_pair().filter(|_| !*is_carrier) else { return };
        *is_carrier = true;
        let (local, remote) = (Box::<str>::from(local), Box::<str>::from(remote));
        self.carriers.streams.insert(name_of_pair(&remote, &local), key);
        if let Some(at) = self.known_way(&local, &remote, StreamPurpose::Stanzas)
            && matches!(
                self.routes.get(at),
                Some(DomainRoute { state: RouteState::Resolving | RouteState::Connecting { .. }, .. })
            )
        {
            self.carry(at);
        }
    }

    /// Lets an incoming stream carry stanzas of ours if it is still open, although its server
    /// hasn't agreed on acknowledgements.
    pub(crate) fn carries_by_now(&mut self, key: ConnectionKey, serial: u32) {
        if self.is_at(key, serial) {
            self.may_carry(key);
        }
    }

    /// Lets an incoming stream carry the stanzas of a way, unless some have left on an earlier
    /// stream and their fate isn't known yet. Returns `false` if there is no such stream, or it
    /// must not yet.
    pub(crate) fn carry(&mut self, at: usize) -> bool {
        let Some(route) = self.routes.get(at).filter(|route| route.purpose == StreamPurpose::Stanzas) else {
            return false;
        };
        if route.broken.as_ref().is_some_and(|broken| !broken.is_empty()) {
            return false;
        }
        let Some(&key) = self.carriers.streams.get(&name_of_pair(&route.remote, &route.local)) else { return false };
        self.attach_way(at, key, StreamStart::Fresh)
    }

    /// Handles the end of the resumption on a stream that carried a way: the way continues on it,
    /// unless a stream of ours is about to take the way.
    pub(crate) fn answers_resumed(&mut self, key: ConnectionKey, id: &str, answered: u32) {
        let pair = self.inbound(key).and_then(|machine| machine.reverse_pair());
        let pair = pair.map(|(local, remote)| (Box::<str>::from(local), Box::<str>::from(remote)));
        let at = pair.and_then(|(local, remote)| self.known_way(&local, &remote, StreamPurpose::Stanzas));
        let may_attach = |route: &DomainRoute| {
            // If both servers have asked to resume, each does so on the stream that it opened: if
            // both gave up their own, none would be left.
            let has_agreed = match route.state {
                RouteState::Negotiating { key, .. } => self.outbound(key).is_some_and(Outbound::has_agreed),
                RouteState::Ready { .. } => true,
                _ => false,
            };
            !has_agreed && route.broken.as_ref().is_some_and(|broken| *broken.id == *id)
        };
        if let Some(at) = at.filter(|at| self.routes.get(*at).is_some_and(may_attach)) {
            self.attach_way(at, key, StreamStart::Resumed(answered));
        }
        self.may_carry(key);
    }

    /// Notes that a stream that may already carry a way has acknowledgements from now on. If
    /// something is under way, neither side could tell whether it counts, so the way continues
    /// without them.
    pub(crate) fn answers_managed(&mut self, key: ConnectionKey) {
        let id = self.inbound(key).and_then(|machine| machine.managed_id()).map(Box::<str>::from);
        let Some(at) = self.route_of(key) else { return };
        if let Some(DomainRoute { state: RouteState::Ready { sent, .. }, .. }) = self.routes.get_mut(at)
            && (sent.is_empty() || sent.is_watched() && sent.is_taken() && !sent.is_worth_asking())
        {
            self.waiting_bytes -= sent.bytes();
            sent.watch_no_more();
            sent.manage(id, 0, Sharing::Called);
        }
    }

    fn attach_way(&mut self, at: usize, key: ConnectionKey, start: StreamStart) -> bool {
        let Some(Machine::In { machine, carries: carries @ None, .. }) =
            self.streams.get_mut(key.0 as usize).filter(|stream| !stream.ended).map(|stream| &mut stream.machine)
        else {
            return false;
        };
        if machine.reverse_pair().is_none() {
            return false;
        }
        *carries = Some(at);
        self.drop_streams(at);
        if let Some(asker) = self.routes.get_mut(at).and_then(|route| route.asker.take()) {
            release(&mut self.askers, &asker);
        }
        self.ready(key, start);
        true
    }

    /// Takes a way off the incoming stream that carries it.
    pub(crate) fn detach_way(&mut self, key: ConnectionKey) -> Option<usize> {
        match &mut self.streams.get_mut(key.0 as usize)?.machine {
            Machine::In { carries, .. } => carries.take(),
            Machine::Out { .. } | Machine::Component(_) => None,
        }
    }

    /// Notes that an incoming stream carries no more stanzas of ours.
    pub(crate) fn carries_no_more(&mut self, key: ConnectionKey, reason: &str) {
        let Some(stream) = self.streams.get_mut(key.0 as usize) else { return };
        let Machine::In { machine, is_carrier, .. } = &mut stream.machine else { return };
        if !std::mem::take(is_carrier) {
            return;
        }
        let name = machine.proven_pair().map(|(local, remote)| name_of_pair(remote, local)).unwrap_or_default();
        if self.carriers.streams.get(&name) == Some(&key) {
            self.carriers.streams.remove(&name);
        }
        if let Some(at) = self.detach_way(key) {
            self.broken(at, reason);
        }
    }

    /// Remembers for a day that a server ends streams on which both directions are requested.
    pub(crate) fn dislikes_bidi(&mut self, remote: &str) {
        self.carriers.one_way.insert(remote, self.now_ms);
    }

    /// Returns whether it is forbidden to request both directions.
    pub(crate) fn is_one_way(&self, remote: &str) -> bool {
        self.carriers.one_way.contains(remote, self.now_ms)
    }
}

/// The time after its proof in which a server may agree on acknowledgements, before its stream
/// carries stanzas of ours without them.
pub(crate) const GRACE_MS: u64 = 2_000;
