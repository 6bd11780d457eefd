//! The ways for outgoing stanzas: found through DNS, tried, left idle or given up.

use std::collections::VecDeque;

use rookery_stream::error::Condition;
use tracing::debug;

use crate::acknowledging::StreamStart;
use crate::inbound::KeyQuestion;
use crate::outbound::{Outbound, OutboundEvent, StreamPurpose};
use crate::route::{Cause, DomainRoute, RouteState};
use crate::servers::{Action, Arrived, ConnectionKey, Handshake, Machine, ServerStreams};
use crate::strangers::block;
use crate::targets::{Address, Found, is_public};
use crate::timers::StreamTimer;

impl ServerStreams {
    /// Takes the answer of DNS about a domain's server.
    pub fn resolved(&mut self, domain: &str, found: &Found) {
        for at in self.by_remote.get(domain).cloned().unwrap_or_default() {
            if !matches!(self.routes.get(at), Some(DomainRoute { state: RouteState::Resolving, .. })) {
                continue;
            }
            let addresses = match found {
                Ok(addresses) => addresses,
                Err(reason) => {
                    let text = match Cause::from(*reason) {
                        Cause::NotFound => "DNS has no server for it",
                        Cause::Timeout => "DNS gives no usable answer",
                    };
                    self.fail(at, Cause::from(*reason), text);
                    continue;
                }
            };
            let is_asking = self.routes.get(at).is_some_and(|route| route.purpose == StreamPurpose::Questions);
            if is_asking && !self.associate(at, addresses) {
                continue;
            }
            // A stranger may have named the domain, and may control its DNS records, too.
            let most = if is_asking { MOST_ADDRESSES_ASKED } else { MOST_ADDRESSES };
            let may = |address: &&Address| self.settings.allow_private_addresses || is_public(address.socket.ip());
            let untried: VecDeque<Address> = addresses.iter().filter(may).take(most).cloned().collect();
            if untried.is_empty() {
                let text = if addresses.is_empty() {
                    "its server has no address"
                } else {
                    "its addresses are in private networks, which `allow_private_addresses` would permit"
                };
                self.fail(at, Cause::NotFound, text);
                continue;
            }
            self.set_state(at, RouteState::Connecting { untried, trying: Vec::new() });
            let serial = self.routes.get(at).map_or(0, |route| route.serial);
            self.next_address(at, serial);
        }
    }

    /// Notes that a requested connection is open.
    pub fn connected(&mut self, key: ConnectionKey) {
        let Some(at) = self.route_of(key) else { return };
        let Some(DomainRoute { state: RouteState::Connecting { untried, trying }, .. }) = self.routes.get_mut(at)
        else {
            return;
        };
        let untried = std::mem::take(untried);
        let has_more = !untried.is_empty();
        let others: Vec<ConnectionKey> = trying.iter().copied().filter(|other| *other != key).collect();
        self.set_state(at, RouteState::Negotiating { untried, key });
        others.into_iter().for_each(|other| self.drop_now(other));
        let mut out = Vec::new();
        let Some((machine, direct_tls)) = self.outbound_mut(key) else { return };
        machine.start(direct_tls, &mut out);
        self.write(key, out);
        if direct_tls {
            self.shake_hands(key);
        }
        if has_more && let Some(serial) = self.streams.get(key.0 as usize).map(|stream| stream.serial) {
            self.set_timer(HANDSHAKE_MS, StreamTimer::Handshake(key, serial));
        }
    }

    /// Gives up a machine that accepts connections and stays silent, and continues with the others.
    pub(crate) fn handshake_timed_out(&mut self, key: ConnectionKey) {
        let is_secured = self.outbound_mut(key).is_some_and(|(machine, _)| machine.is_secured());
        let state = self.route_of(key).and_then(|at| self.routes.get(at)).map(|route| &route.state);
        if !is_secured && matches!(state, Some(RouteState::Negotiating { key: negotiating, .. }) if *negotiating == key)
        {
            self.attempt_failed(key, "it doesn't begin TLS");
        }
    }

    /// Handles an event of a stream of ours.
    pub(crate) fn handle_event(&mut self, key: ConnectionKey, event: OutboundEvent) {
        match event {
            OutboundEvent::StartTls => self.shake_hands(key),
            OutboundEvent::Ready => self.ready(key, StreamStart::Fresh),
            OutboundEvent::Resumed(handled) => self.ready(key, StreamStart::Resumed(handled)),
            OutboundEvent::NotResumed(handled) => self.ready(key, StreamStart::NotResumed(handled)),
            OutboundEvent::Acknowledged(handled) => self.acknowledged(key, handled),
            OutboundEvent::Asked => self.settles(key, 0),
            OutboundEvent::Counting => self.resumes(key),
            OutboundEvent::Stanza(packet, to, _) if self.takes_answer(&packet, &to) => {}
            OutboundEvent::Stanza(packet, to, custody) => {
                if let Some(stream) = self.streams.get_mut(key.0 as usize) {
                    stream.used_ms = self.now_ms;
                }
                self.actions.push_back(Action::Deliver(packet, to, custody));
            }
            OutboundEvent::Refused(error, to) => self.actions.push_back(Action::Refuse(error, to)),
            OutboundEvent::Answered { from, to, id, outcome } => self.answered(key, &from, &to, &id, outcome),
            OutboundEvent::End => self.ended(key),
        }
    }

    /// Handles an attempt that has failed, or a stream in use that has broken. `reason` is for the
    /// operator.
    pub(crate) fn attempt_failed(&mut self, key: ConnectionKey, reason: &str) {
        let Some(at) = self.route_of(key) else { return };
        if let Some(machine) = self.inbound(key) {
            // It was a stream that the other server has opened, and it carried a way of ours.
            self.lost_all(machine.proven().map(Box::from).collect());
            self.carries_no_more(key, reason);
            return self.drop_now(key);
        }
        let is_secured = self.outbound_mut(key).is_some_and(|(machine, _)| machine.is_secured());
        self.drop_now(key);
        let Some(route) = self.routes.get_mut(at) else { return };
        match &mut route.state {
            RouteState::Connecting { untried, trying } => {
                trying.retain(|trying| *trying != key);
                match (trying.is_empty(), untried.is_empty()) {
                    (true, true) => self.fail(at, Cause::Timeout, reason),
                    (true, false) => {
                        let serial = route.serial;
                        self.next_address(at, serial);
                    }
                    _ => {}
                }
            }
            RouteState::Negotiating { untried, key: negotiating } if *negotiating == key => {
                if untried.is_empty() || is_secured {
                    return self.fail(at, Cause::Timeout, reason);
                }
                // The handshake has failed, and only this one machine may be at fault: the others
                // are tried.
                let untried = std::mem::take(untried);
                self.try_others(at, untried);
            }
            RouteState::Ready { key: ready, .. } if *ready == key => {
                self.tell_lost(at);
                self.broken(at, reason);
            }
            _ => {}
        }
    }

    /// Notes that another server of a domain has proven to be alive, so that a failed way to it may
    /// be tried again.
    pub(crate) fn is_alive(&mut self, domain: &str) {
        for at in self.by_remote.get(domain).cloned().unwrap_or_default() {
            if let Some(route) = self.routes.get_mut(at)
                && matches!(route.state, RouteState::Failed { .. })
            {
                route.failures = 0;
                route.state = RouteState::Idle;
            }
        }
    }

    /// Asks for the verification of a key.
    pub(crate) fn question(&mut self, at: usize, question: KeyQuestion, arrived: Arrived) {
        let Some(route) = self.routes.get_mut(at) else { return };
        if let RouteState::Failed { until_ms, cause } = &route.state
            && self.now_ms < *until_ms
        {
            let outcome = Err(cause.condition());
            return self.tell(arrived, &question, &outcome);
        }
        let ready = match &route.state {
            RouteState::Ready { key, .. } => Some(*key),
            _ => None,
        };
        let must_begin = matches!(route.state, RouteState::Idle | RouteState::Failed { .. });
        let (id, key) = (question.id.clone(), question.key.clone());
        route.questions.push((question, arrived));
        if let Some(ready) = ready {
            let mut out = Vec::new();
            if let Some((machine, _)) = self.outbound_mut(ready) {
                machine.ask(&id, &key, &mut out);
            }
            self.write(ready, out);
        } else if must_begin {
            self.begin(at);
        }
    }

    /// Returns the way between two domains, a new one if there is none yet; `None` if there are too
    /// many.
    pub(crate) fn way(&mut self, local: &str, remote: &str, purpose: StreamPurpose) -> Option<usize> {
        let known = self.known_way(local, remote, purpose);
        if known.is_some() {
            return known;
        }
        let is_question = purpose == StreamPurpose::Questions;
        let is_full = self.routes.len() >= MOST_ROUTES || self.under_way >= MOST_UNDER_WAY;
        // Strangers cause questions, which must never take the place of stanzas.
        let is_shared =
            is_question && (self.question_ways >= MOST_ROUTES / 4 || self.questions_under_way >= MOST_UNDER_WAY / 4);
        if is_full || is_shared || self.is_stopping {
            return None;
        }
        let at = self.routes.insert(DomainRoute::new(local, remote, purpose, &self.settings));
        self.question_ways += usize::from(is_question);
        self.by_remote.entry(remote.into()).or_default().push(at);
        Some(at)
    }

    /// Returns the way between two domains, if there is one.
    pub(crate) fn known_way(&self, local: &str, remote: &str, purpose: StreamPurpose) -> Option<usize> {
        let is_meant = |route: &DomainRoute| route.purpose == purpose && *route.local == *local;
        self.by_remote.get(remote)?.iter().copied().find(|at| self.routes.get(*at).is_some_and(is_meant))
    }

    /// Starts to look for a way: on a bidirectional stream of the other server if there is one,
    /// otherwise through DNS.
    pub(crate) fn begin(&mut self, at: usize) {
        if self.carry(at) {
            return;
        }
        let serial = self.next_serial();
        let Some(route) = self.routes.get_mut(at) else { return };
        route.serial = serial;
        route.sought_ms.get_or_insert(self.now_ms);
        let remote = route.remote.clone();
        self.set_state(at, RouteState::Resolving);
        let patience = self.settings.patience_ms;
        self.set_timer(patience, StreamTimer::Patience(at, serial));
        self.actions.push_back(Action::Resolve(remote));
    }

    /// Tries the next address in parallel to those that haven't answered yet (RFC 8305 §5).
    pub(crate) fn next_address(&mut self, at: usize, serial: u32) {
        let settings = self.settings.clone();
        let Some(route) = self.routes.get_mut(at).filter(|route| route.serial == serial) else { return };
        let (local, remote, purpose) = (route.local.clone(), route.remote.clone(), route.purpose);
        let broken = route.broken.as_ref().map(|broken| broken.id.clone());
        let RouteState::Connecting { untried, .. } = &mut route.state else { return };
        let Some(block) = untried.front().map(|address| block(address.socket)) else { return };
        if !self.calls.enter(block, at, serial) {
            return;
        }
        let Some(address) = untried.pop_front() else { return };
        let has_more = !untried.is_empty();
        let machine = Outbound::new(settings.clone(), &local, &remote, purpose);
        let machine = if self.is_one_way(&remote) { machine.one_way() } else { machine };
        let machine = if address.tlsa.is_some() { machine.require_tls() } else { machine };
        let machine = Box::new(broken.into_iter().fold(machine, Outbound::resuming));
        let direct_tls = address.direct_tls;
        let (key, of_stream) = self.insert(Machine::Out { machine, route: at, direct_tls, calls: Some(block) });
        if let Some(DomainRoute { state: RouteState::Connecting { trying, .. }, .. }) = self.routes.get_mut(at) {
            trying.push(key);
        }
        self.actions.push_back(Action::Connect(key, address));
        self.set_timer(settings.connect_ms, StreamTimer::Connect(key, of_stream));
        if has_more {
            self.set_timer(BETWEEN_ATTEMPTS_MS, StreamTimer::NextAddress(at, serial));
        }
    }

    /// Gives up an address that still doesn't answer.
    pub(crate) fn connect_timed_out(&mut self, key: ConnectionKey) {
        let state = self.route_of(key).and_then(|at| self.routes.get(at)).map(|route| &route.state);
        if matches!(state, Some(RouteState::Connecting { .. })) {
            self.attempt_failed(key, "it doesn't answer");
        }
    }

    fn try_others(&mut self, at: usize, untried: VecDeque<Address>) {
        self.set_state(at, RouteState::Connecting { untried, trying: Vec::new() });
        let serial = self.routes.get(at).map_or(0, |route| route.serial);
        self.next_address(at, serial);
    }

    fn shake_hands(&mut self, key: ConnectionKey) {
        let Some(route) = self.route_of(key).and_then(|at| self.routes.get(at)) else { return };
        let handshake = Handshake::Call { local: route.local.clone(), remote: route.remote.clone() };
        self.actions.push_back(Action::StartTls(key, handshake));
    }

    /// Takes the answer to a question. An unrequested one is dropped.
    fn answered(&mut self, key: ConnectionKey, from: &str, to: &str, id: &str, outcome: Option<bool>) {
        let Some(at) = self.route_of(key) else { return };
        let Some(route) = self.routes.get_mut(at) else { return };
        let is_meant = |question: &KeyQuestion| &*question.from == from && &*question.to == to && &*question.id == id;
        if *route.remote != *from || *route.local != *to {
            return debug!(domain = &*route.remote, "a dialback answer is about other domains");
        }
        let Some(found) = route.questions.iter().position(|(question, _)| is_meant(question)) else {
            return debug!(domain = &*route.remote, "an unrequested dialback answer");
        };
        let (question, arrived) = route.questions.swap_remove(found);
        let is_done = route.questions.is_empty();
        self.tell(arrived, &question, &outcome.ok_or(Condition::RemoteServerTimeout));
        if is_done {
            self.rest(at, key);
        }
    }

    /// Handles the end of a stream of ours, caused by the peer or by its machine.
    fn ended(&mut self, key: ConnectionKey) {
        let Some(at) = self.route_of(key) else { return };
        let Some((machine, direct_tls)) = self.outbound_mut(key) else { return };
        let (cause, has_failed) = (machine.cause().to_owned(), machine.has_failed());
        let dislikes_bidi = machine.may_dislike_bidi();
        if !has_failed {
            self.has_read_all(at);
        }
        self.end(key);
        if has_failed && self.routes.get(at).is_some_and(|route| route.key() == Some(key) && route.is_in_use()) {
            self.tell_lost(at);
        }
        let Some(route) = self.routes.get_mut(at).filter(|route| route.key() == Some(key)) else { return };
        match &mut route.state {
            RouteState::Ready { .. } => self.broken(at, &cause),
            RouteState::Negotiating { .. } if dislikes_bidi => {
                let remote = route.remote.clone();
                self.dislikes_bidi(&remote);
                self.begin(at);
            }
            // Some servers offer a way to log in only after STARTTLS, not with direct TLS.
            RouteState::Negotiating { untried, .. } if direct_tls && !untried.is_empty() => {
                let untried = std::mem::take(untried);
                self.try_others(at, untried);
            }
            _ => self.fail(at, Cause::Timeout, &cause),
        }
    }

    pub(crate) fn route_of(&self, key: ConnectionKey) -> Option<usize> {
        match self.streams.get(key.0 as usize)?.machine {
            Machine::Out { route, .. } => Some(route),
            Machine::In { carries, .. } => carries,
            Machine::Component(_) => None,
        }
    }

    pub(crate) fn outbound(&self, key: ConnectionKey) -> Option<&Outbound> {
        match &self.streams.get(key.0 as usize)?.machine {
            Machine::Out { machine, .. } => Some(machine),
            Machine::In { .. } | Machine::Component(_) => None,
        }
    }

    pub(crate) fn outbound_mut(&mut self, key: ConnectionKey) -> Option<(&mut Outbound, bool)> {
        match &mut self.streams.get_mut(key.0 as usize)?.machine {
            Machine::Out { machine, direct_tls, .. } => Some((machine, *direct_tls)),
            Machine::In { .. } | Machine::Component(_) => None,
        }
    }
}

/// The most addresses of a domain that are tried.
const MOST_ADDRESSES: usize = 40;
/// The most addresses that are tried for verifying a key.
pub const MOST_ADDRESSES_ASKED: usize = 8;
/// The time that TLS may take to begin if there are other addresses.
const HANDSHAKE_MS: u64 = 15_000;
/// The most ways that a shard remembers.
pub const MOST_ROUTES: usize = 50_000;
/// The most ways that are being found or negotiated at a time.
pub const MOST_UNDER_WAY: usize = 1000;
/// The most of these ways for one sender.
pub const MOST_FOR_ONE: usize = MOST_UNDER_WAY / 2;
/// RFC 8305 §8, "Connection Attempt Delay".
const BETWEEN_ATTEMPTS_MS: u64 = 250;
