//! Streams in use: the other server's acknowledgements (XEP-0198), and checks that it still reads.
//!
//! An acknowledgement is requested after a number of stanzas; after fewer, a moment later, so that
//! a single message causes no immediate extra work. The server at the other end of an idle stream
//! is asked, too, so that its silent death is noticed before the stream is needed.

use rookery_stream::error::{Condition, StreamError};
use tracing::info;

use crate::ending::ANSWER_MS;
use crate::outbound::StreamPurpose;
use crate::pings::PATIENCE_MS;
use crate::route::{Cause, DomainRoute, RouteState, Writing};
use crate::sent::{Sent, Sharing, TooHigh};
use crate::servers::{ConnectionKey, Machine, ServerStreams};
use crate::timers::StreamTimer;
use crate::writing::TAKEN_MS;

/// The ways in which a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamStart {
    /// Nothing has been sent before.
    Fresh,
    /// It continues a stream on which this many stanzas were handled.
    Resumed(u32),
    /// The earlier stream is lost; this many of its stanzas were handled, if known.
    NotResumed(Option<u32>),
}

/// The state of acknowledgements at the beginning of a stream, or of its use.
struct Agreement {
    id: Option<Box<str>>,
    /// Stanzas that the other server has handled already, modulo 2^32.
    acked: u32,
    sharing: Sharing,
}

impl ServerStreams {
    /// Notes that a stream is ready: the waiting stanzas leave, after those that were sent before
    /// and have not arrived.
    pub(crate) fn ready(&mut self, key: ConnectionKey, start: StreamStart) {
        let serial = self.next_serial();
        let (now_ms, idle_ms) = (self.now_ms, self.rests_after_ms(key));
        let Some(at) = self.route_of(key) else { return };
        self.has_called(key);
        self.watch_reverse(key);
        let Some(managed) = self.agreement(key) else { return };
        let Some(route) = self.routes.get_mut(at) else { return };
        route.serial = serial;
        route.failures = 0;
        route.trouble.clear();
        route.log_search(now_ms, "it was found in the end");
        route.queue.connected();
        let purpose = route.purpose;
        let asked: Vec<_> =
            route.questions.iter().map(|(question, _)| (question.id.clone(), question.key.clone())).collect();
        info!(domain = &*route.remote, from = &*route.local, ?purpose, ?start, "a stream to another server is ready");
        let mut sent = Sent::default();
        let sharing = managed.as_ref().map_or(Sharing::OneWay, |agreed| agreed.sharing);
        match managed {
            Some(Agreement { id, acked, .. }) => sent.manage(id, acked, sharing),
            None if purpose == StreamPurpose::Stanzas && !self.silent.contains(&route.remote, now_ms) => sent.watch(),
            None => {}
        }
        let went_on = self.go_on(at, start, sharing, &mut sent);
        self.set_state(at, RouteState::Ready { key, sent, since_ms: now_ms, writing: Writing::default() });
        if let Some(stream) = self.streams.get_mut(key.0 as usize) {
            stream.used_ms = now_ms;
            let of_stream = stream.serial;
            if sharing != Sharing::Called {
                self.set_timer(idle_ms, StreamTimer::Idle(key, of_stream));
            }
        }
        if let Err(too_high) = went_on {
            return self.acknowledges_too_much(at, key, &too_high);
        }
        if purpose == StreamPurpose::Stanzas {
            return self.dirty.push(at);
        }
        let mut out = Vec::new();
        if let Some((machine, _)) = self.outbound_mut(key) {
            asked.iter().for_each(|(id, key)| machine.ask(id, key, &mut out));
        }
        self.write(key, out);
        self.set_timer(ANSWER_MS, StreamTimer::Patience(at, serial));
    }

    /// Returns the acknowledgements that a ready stream has, `Some(None)` if it has none; `None` if
    /// the stream is gone.
    fn agreement(&self, key: ConnectionKey) -> Option<Option<Agreement>> {
        let agreed = match &self.streams.get(key.0 as usize)?.machine {
            Machine::Out { machine, .. } => machine.is_managed().then(|| Agreement {
                id: machine.managed_id().map(Box::from),
                acked: 0,
                sharing: if machine.is_bidi() { Sharing::Caller } else { Sharing::OneWay },
            }),
            Machine::In { machine, .. } => machine.managed().map(|managed| Agreement {
                id: managed.id.clone(),
                acked: managed.answered,
                sharing: Sharing::Called,
            }),
            Machine::Component(_) => return None,
        };
        Some(agreed)
    }

    /// Resends the stanzas of a broken stream that are known not to have arrived, and bounces those
    /// whose fate isn't known.
    fn go_on(&mut self, at: usize, start: StreamStart, sharing: Sharing, sent: &mut Sent) -> Result<(), TooHigh> {
        let Some(broken) = self.routes.get_mut(at).and_then(|route| route.broken.take()) else { return Ok(()) };
        let (went_on, handled) = match start {
            StreamStart::Resumed(handled) => (sent.resume(&broken, handled, sharing), Some(handled)),
            StreamStart::NotResumed(handled) => (Ok(()), handled),
            StreamStart::Fresh => (Ok(()), None),
        };
        self.waiting_bytes -= broken.bytes;
        let (again, back) = broken.give_up(handled);
        if let Some(route) = self.routes.get_mut(at) {
            let before = route.queue.bytes();
            route.queue.put_back(again);
            self.waiting_bytes += route.queue.bytes() - before;
        }
        self.lose(back);
        went_on
    }

    /// Bounces stanzas that may or may not have arrived.
    pub(crate) fn lose(&mut self, stanzas: impl IntoIterator<Item = rookery_fanout::multicast::Outgoing>) {
        for stanza in stanzas {
            self.bounce(stanza, Condition::RemoteServerTimeout);
        }
    }

    /// Notes how many stanzas of a stream were handled.
    pub(crate) fn acknowledged(&mut self, key: ConnectionKey, handled: u32) {
        let now_ms = self.now_ms;
        let Some(at) = self.route_of(key) else { return };
        let Some(DomainRoute { local, remote, state: RouteState::Ready { key: ready, sent, .. }, .. }) =
            self.routes.get_mut(at)
        else {
            return;
        };
        // A server that has agreed only after pings began counts from a later stanza than we do.
        if *ready != key || sent.is_watched() {
            return;
        }
        match sent.acknowledge(handled) {
            Ok(bytes) => {
                let mut out = Vec::new();
                if sent.is_much() {
                    sent.ask(now_ms, local, remote, &mut out);
                }
                self.waiting_bytes -= bytes;
                if let Some(managed) = self.inbound_mut(key).and_then(|machine| machine.managed_mut()) {
                    managed.answered = handled;
                }
                self.write(key, out);
                match self.routes.get_mut(at).map(|route| &mut route.queue) {
                    Some(queue) if queue.is_empty() => queue.shrink(),
                    _ => self.dirty.push(at),
                }
            }
            Err(too_high) => self.acknowledges_too_much(at, key, &too_high),
        }
    }

    /// Handles a server that acknowledges too much: none of its acknowledgements on this stream are
    /// believed.
    fn acknowledges_too_much(&mut self, at: usize, key: ConnectionKey, TooHigh { h, sent }: &TooHigh) {
        let error = StreamError::HandledCountTooHigh { h: *h, sent: *sent };
        if let Some((_, sent)) = self.sent_mut(key) {
            sent.is_final();
        }
        self.close_stream(key, &error);
        self.broken(at, "it acknowledges more than was sent to it");
    }

    /// Checks whether a server has taken and acknowledged its stanzas, and asks it. Gives it up if
    /// it is silent.
    pub(crate) fn look_after(&mut self, key: ConnectionKey, serial: u32) {
        let now_ms = self.now_ms;
        let Some(at) = self.route_of(key) else { return };
        let Some(DomainRoute { local, remote, state: RouteState::Ready { key: ready, sent, writing, .. }, .. }) =
            self.routes.get_mut(at)
        else {
            return;
        };
        if *ready != key || now_ms < writing.watched_ms {
            return;
        }
        writing.watched_ms = u64::MAX;
        let taken_by = if sent.is_taken() { u64::MAX } else { writing.since_ms + TAKEN_MS };
        if now_ms >= taken_by {
            return self.fail(at, Cause::Timeout, "it doesn't read what it is sent");
        }
        let mut out = Vec::new();
        let patience_ms = if sent.is_watched() { PATIENCE_MS } else { ACKNOWLEDGED_MS };
        let answered_by = match sent.asked_ms() {
            Some(asked_ms) => asked_ms + patience_ms,
            _ if !sent.is_worth_asking() => u64::MAX,
            None if sent.is_empty() && now_ms < writing.since_ms + QUIET_MS => writing.since_ms + QUIET_MS,
            None => {
                if sent.is_empty() {
                    writing.since_ms = now_ms;
                }
                sent.ask(now_ms, local, remote, &mut out);
                now_ms + patience_ms
            }
        };
        if now_ms >= answered_by && sent.is_watched() {
            return self.gives_no_answer(at);
        }
        if now_ms >= answered_by {
            return self.attempt_failed(key, "it doesn't acknowledge what it is sent");
        }
        let due = taken_by.min(answered_by);
        if due < u64::MAX {
            writing.watched_ms = due;
            self.set_timer(due - now_ms, StreamTimer::Watch(key, serial));
        }
        self.write(key, out);
    }

    fn sent_mut(&mut self, key: ConnectionKey) -> Option<(usize, &mut Sent)> {
        let at = self.route_of(key)?;
        match &mut self.routes.get_mut(at)?.state {
            RouteState::Ready { key: ready, sent, .. } if *ready == key => Some((at, sent)),
            _ => None,
        }
    }
}

/// The time after a stanza until an acknowledgement is requested, unless another stanza causes one.
pub(crate) const ASK_MS: u64 = 2_000;
/// The time that another server may take to acknowledge stanzas, in milliseconds.
pub const ACKNOWLEDGED_MS: u64 = 60_000;
/// The time for which a stream may be silent until its server is asked whether it is alive.
const QUIET_MS: u64 = 120_000;
