//! Writes stanzas to other servers: everything that was queued for a domain during a tick goes out
//! at once, and stanzas that can't be sent are bounced.

use rookery_fanout::StanzaType;
use rookery_fanout::multicast::Outgoing;
use rookery_stream::error::{Condition, StanzaError};

use crate::acknowledging::ASK_MS;
use crate::departures::MOST_FOR_ONE;
use crate::outbound::StreamPurpose;
use crate::queue::size;
use crate::route::{DomainRoute, RouteState};
use crate::servers::{Action, ConnectionKey, Machine, ServerStreams};
use crate::timers::StreamTimer;

impl ServerStreams {
    /// Takes a stanza from its sender's domain to its recipient's.
    pub fn send(&mut self, stanza: Outgoing) {
        let sender = stanza.packet().sender();
        let Some(local) = stanza.packet().plain_sender().or(sender.as_ref().map(rookery_jid::Jid::as_ref)) else {
            return;
        };
        if self.settings.component(stanza.to().domain()).is_some() {
            return self.send_to_component(stanza);
        }
        if !self.settings.has_others {
            return self.bounce(stanza, Condition::RemoteServerNotFound);
        }
        if let Some(objection) = self.settings.objection(local.domain(), stanza.to().domain()) {
            let error = StanzaError::new(Condition::NotAllowed).with_text(objection.text().to_owned());
            return self.actions.push_back(Action::Bounce(stanza, error));
        }
        if !self.settings.may_call(local.domain(), stanza.to().domain()) {
            return self.bounce(stanza, Condition::RemoteServerTimeout);
        }
        if SPEAKING.contains(&stanza.packet().type_()) {
            self.intake.wrote_to(stanza.to().domain());
        }
        let found = self.way(local.domain(), stanza.to().domain(), StreamPurpose::Stanzas);
        let Some((at, route)) = found.and_then(|at| Some((at, self.routes.get_mut(at)?))) else {
            return self.bounce(stanza, Condition::ResourceConstraint);
        };
        if let RouteState::Failed { until_ms, cause } = &route.state
            && self.now_ms < *until_ms
        {
            let condition = cause.condition();
            return self.bounce(stanza, condition);
        }
        let begins = matches!(route.state, RouteState::Idle | RouteState::Failed { .. });
        let asker = begins.then(|| Box::<str>::from(local.bare_str()));
        if asker.as_deref().and_then(|asker| self.askers.get(asker)).is_some_and(|ways| *ways >= MOST_FOR_ONE) {
            // A sender who writes to very many domains doesn't keep others from theirs.
            return self.refuse(at, stanza);
        }
        let is_first = route.queue.is_empty();
        let bytes = size(stanza.packet());
        if self.waiting_bytes + bytes > MOST_WAITING {
            return self.refuse(at, stanza);
        }
        if let Err(stanza) = route.queue.push(stanza) {
            return self.refuse(at, *stanza);
        }
        self.waiting_bytes += bytes;
        match route.state {
            RouteState::Ready { .. } if is_first => self.dirty.push(at),
            RouteState::Idle | RouteState::Failed { .. } => {
                if let Some(asker) = asker {
                    *self.askers.entry(asker.clone()).or_default() += 1;
                    route.asker = Some(asker);
                }
                self.begin(at);
            }
            _ => {}
        }
    }

    /// Writes the waiting stanzas of ready ways, once for each way.
    pub fn flush(&mut self) {
        self.flush_components();
        self.call_up();
        for at in std::mem::take(&mut self.dirty) {
            let now_ms = self.now_ms;
            let Some(DomainRoute { local, remote, state: RouteState::Ready { key, sent, writing, .. }, queue, .. }) =
                self.routes.get_mut(at)
            else {
                continue;
            };
            if !sent.is_taken() || sent.is_full(self.settings.queue_bytes) {
                continue;
            }
            let key = *key;
            let Some(stream) = self.streams.get_mut(key.0 as usize) else { continue };
            let longest = match &stream.machine {
                Machine::Out { machine, .. } => machine.longest(),
                Machine::In { machine, .. } => machine.longest(),
                Machine::Component(_) => continue,
            };
            stream.used_ms = now_ms;
            let serial = stream.serial;
            let (mut out, mut refused) = (Vec::new(), Vec::new());
            let before = queue.bytes() + sent.bytes();
            queue.render(WRITE, longest, &mut out, |stanza| sent.push(stanza), &mut refused);
            self.waiting_bytes -= before - queue.bytes() - sent.bytes();
            writing.since_ms = now_ms;
            if sent.is_much() {
                sent.ask(now_ms, local, remote, &mut out);
            }
            let delay_ms = if sent.is_managed() { ASK_MS } else { TAKEN_MS };
            if writing.watched_ms > now_ms + delay_ms {
                writing.watched_ms = now_ms + delay_ms;
                self.set_timer(delay_ms, StreamTimer::Watch(key, serial));
            }
            self.write(key, out);
            for stanza in refused {
                self.bounce(stanza, Condition::PolicyViolation);
            }
        }
    }

    /// Notes that a connection has taken all output.
    pub fn drained(&mut self, key: ConnectionKey) {
        if self.component_drained(key) {
            return;
        }
        if let Some(stream) = self.streams.get_mut(key.0 as usize) {
            stream.last_written = Vec::new();
        }
        let Some(at) = self.route_of(key) else { return };
        let has_room = self.waiting_bytes < MOST_WAITING / 2;
        if let Some(DomainRoute { state: RouteState::Ready { key: ready, sent, .. }, queue, .. }) =
            self.routes.get_mut(at)
            && *ready == key
        {
            let before = sent.bytes();
            sent.handle_taken(has_room);
            self.waiting_bytes -= before - sent.bytes();
            if !queue.is_empty() {
                self.dirty.push(at);
            }
        }
    }

    /// Bounces a stanza for which there is no room. A way made only for it is forgotten.
    fn refuse(&mut self, at: usize, stanza: Outgoing) {
        if self.routes.get(at).is_some_and(|route| matches!(route.state, RouteState::Idle)) {
            self.forget_later(at, 0);
        }
        self.bounce(stanza, Condition::ResourceConstraint);
    }

    /// Gives back stanzas that a given-up way has written and the connection hasn't taken
    /// completely. If the connection still exists, it takes all output before its end, so they are
    /// given back once it is gone.
    pub(crate) fn give_back_untaken(
        &mut self,
        key: Option<ConnectionKey>,
        stanzas: impl IntoIterator<Item = Outgoing>,
        condition: &Condition,
    ) {
        match key.and_then(|key| self.streams.get_mut(key.0 as usize)).filter(|stream| stream.ended) {
            Some(stream) => stream.last_written.extend(stanzas),
            None => stanzas.into_iter().for_each(|stanza| self.bounce(stanza, condition.clone())),
        }
    }

    /// Bounces a stanza to its sender.
    pub(crate) fn bounce(&mut self, stanza: Outgoing, condition: Condition) {
        self.actions.push_back(Action::Bounce(stanza, StanzaError::from(condition)));
    }
}

/// The most bytes that are rendered for one write.
pub(crate) const WRITE: usize = 64 * 1024;
/// The most bytes of waiting stanzas, for all domains.
pub const MOST_WAITING: usize = 64 * 1024 * 1024;
/// The time that another server may take to read the bytes of one write.
pub const TAKEN_MS: u64 = 60_000;
/// Types by which a user addresses a remote user. Errors, replies and rooms' messages don't count.
const SPEAKING: [StanzaType; 5] =
    [StanzaType::Normal, StanzaType::Chat, StanzaType::Subscribe, StanzaType::Subscribed, StanzaType::Probe];
