//! Streams to other servers that end: idle, broken, given up; and ways that aren't needed any more.

use rookery_base::chance;
use rookery_stream::error::{Condition, StreamError};
use tracing::{debug, info};

use crate::outbound::StreamPurpose;
use crate::route::{Cause, DomainRoute, RouteState};
use crate::sent::Sent;
use crate::servers::{ConnectionKey, LAST_WORDS_MS, Machine, ServerStreams, release};
use crate::timers::StreamTimer;

impl ServerStreams {
    /// Handles the loss of a stream that was in use. Unacknowledged stanzas wait for the next one,
    /// or are bounced; unwritten ones try again.
    pub(crate) fn broken(&mut self, at: usize, reason: &str) {
        let until_ms = self.now_ms + self.settings.patience_ms;
        let Some(route) = self.routes.get_mut(at) else { return };
        let RouteState::Ready { key, sent, since_ms, .. } = &mut route.state else { return };
        let (key, sent, since_ms) = (*key, std::mem::take(sent), *since_ms);
        let is_known = !sent.is_managed();
        debug!(domain = &*route.remote, from = &*route.local, reason, "a stream to another server is over");
        let soonest_ms = since_ms + SHORTEST_USE_MS;
        let unacknowledged = sent.bytes();
        match sent.breaks(until_ms) {
            Ok(broken) if broken.is_empty() && route.queue.is_empty() => {
                // The other direction is resumed when ours is needed again.
                route.broken = Some(Box::new(broken));
                _ = route.queue.take();
                self.set_state(at, RouteState::Idle);
                return self.forget_later(at, FORGET_MS);
            }
            Ok(broken) => {
                route.broken = Some(Box::new(broken));
                route.queue.disconnected();
                reason.clone_into(&mut route.trouble);
                return if self.now_ms < soonest_ms {
                    self.pause(at, soonest_ms - self.now_ms)
                } else {
                    self.begin(at)
                };
            }
            Err(lost) => {
                self.waiting_bytes -= unacknowledged;
                // Without acknowledgements, only stanzas that were not taken are left.
                self.give_back_untaken(Some(key).filter(|_| is_known), lost, &Condition::RemoteServerTimeout);
            }
        }
        let waits = self.routes.get(at).is_some_and(|route| !route.queue.is_empty() || !route.questions.is_empty());
        // A server that ends each stream at once would make us connect for ever.
        if waits && self.now_ms < soonest_ms {
            return self.fail(at, Cause::Timeout, reason);
        }
        if let Some(route) = self.routes.get_mut(at) {
            self.waiting_bytes -= route.queue.bytes();
            let waiting = route.queue.take();
            route.state = RouteState::Idle;
            waiting.into_iter().for_each(|stanza| self.send(stanza));
        }
        match self.routes.get(at) {
            Some(route) if !route.questions.is_empty() => self.begin(at),
            Some(route) if matches!(route.state, RouteState::Idle) => self.forget_later(at, FORGET_MS),
            _ => {}
        }
    }

    /// Keeps all stanzas of a way waiting for a while, because a stream is to be resumed.
    fn pause(&mut self, at: usize, delay_ms: u64) {
        self.drop_streams(at);
        self.set_state(at, RouteState::Paused);
        let serial = self.next_serial();
        let Some(route) = self.routes.get_mut(at) else { return };
        route.serial = serial;
        let until_ms = route.broken.as_ref().map_or(self.now_ms, |broken| broken.until_ms);
        let delay_ms = delay_ms.min(until_ms.saturating_sub(self.now_ms));
        self.set_timer(delay_ms, StreamTimer::Retry(at, serial));
    }

    /// Tries again to resume a stream, unless its stanzas have waited for long enough.
    pub(crate) fn retry(&mut self, at: usize, serial: u32) {
        let Some(route) = self.routes.get(at).filter(|route| route.serial == serial) else { return };
        let is_late = route.broken.as_ref().is_none_or(|broken| broken.until_ms <= self.now_ms);
        if !self.settings.admits(&route.local, &route.remote) {
            self.give_up(at, &StreamError::PolicyViolation, "the configuration has changed");
        } else if is_late {
            let reason = route.trouble.clone();
            self.fail(at, Cause::Timeout, &reason);
        } else {
            self.begin(at);
        }
    }

    /// Ends a stream that isn't needed for now. Returns `false` if it is needed.
    pub(crate) fn rest(&mut self, at: usize, key: ConnectionKey) -> bool {
        let Some(route) = self.routes.get_mut(at) else { return true };
        if route.key() != Some(key) || !route.is_in_use() || route.is_needed() {
            return false;
        }
        if let RouteState::Ready { sent, .. } = std::mem::replace(&mut route.state, RouteState::Idle) {
            // The other server reads the stanzas that have left, and may not have arrived, before
            // the end of the stream.
            self.waiting_bytes -= sent.bytes();
        }
        _ = route.queue.take();
        self.forget_later(at, FORGET_MS);
        let Some((machine, _)) = self.outbound_mut(key) else { return true };
        let (mut out, is_bidi) = (Vec::new(), machine.is_bidi());
        if is_bidi {
            machine.finish(&mut out);
        } else {
            machine.close(None, &mut out);
        }
        self.write(key, out);
        match self.streams.get(key.0 as usize).map(|stream| stream.serial) {
            Some(serial) if is_bidi => self.set_timer(LAST_WORDS_MS, StreamTimer::Idle(key, serial)),
            _ => self.end(key),
        }
        true
    }

    /// Notes that the incoming stream of an unneeded way is about to end.
    pub(crate) fn is_carried_no_more(&mut self, at: usize) {
        if let Some(route) = self.routes.get_mut(at) {
            if let RouteState::Ready { sent, .. } = std::mem::replace(&mut route.state, RouteState::Idle) {
                self.waiting_bytes -= sent.bytes();
            }
            _ = route.queue.take();
            self.forget_later(at, FORGET_MS);
        }
    }

    pub(crate) fn patience_ends(&mut self, at: usize, serial: u32) {
        let Some(route) = self.routes.get_mut(at).filter(|route| route.serial == serial) else { return };
        if route.is_under_way() {
            return self.fail(at, Cause::Timeout, "no stream was ready in time");
        }
        let Some(key) = route.key() else { return };
        for (question, arrived) in std::mem::take(&mut route.questions) {
            self.tell(arrived, &question, &Err(Condition::RemoteServerTimeout));
        }
        self.rest(at, key);
    }

    /// Gives a way up for a while: all stanzas that wait for it are bounced, unless a stream is to
    /// be resumed.
    pub(crate) fn fail(&mut self, at: usize, cause: Cause, reason: &str) {
        if self.routes.get(at).is_some_and(DomainRoute::is_under_way) && self.carry(at) {
            return;
        }
        let Some(route) = self.routes.get_mut(at) else { return };
        route.failures += 1;
        reason.clone_into(&mut route.trouble);
        route.log_search(self.now_ms, reason);
        let pause_ms = route.pause_ms(random());
        info!(
            domain = &*route.remote,
            from = &*route.local,
            reason,
            waiting = route.waiting(),
            pause_ms,
            "another server can't be reached",
        );
        let until_ms = self.now_ms + pause_ms;
        if route.broken.as_ref().is_some_and(|broken| !broken.is_empty() && broken.until_ms > self.now_ms) {
            return self.pause(at, pause_ms.min(LONGEST_PAUSE_MS));
        }
        // Strangers name domains as they like: a failure caused by them is remembered only as long
        // as it is meaningful. DNS remembers domains that don't exist.
        let is_short = route.purpose == StreamPurpose::Questions || cause == Cause::NotFound;
        let forget_ms = if is_short { 0 } else { FORGET_MS };
        self.abandon(at, RouteState::Failed { until_ms, cause }, &cause.condition());
        self.tell_lost(at);
        self.forget_later(at, pause_ms + forget_ms);
    }

    /// Reports that the server of a way's domain is gone.
    pub(crate) fn tell_lost(&mut self, at: usize) {
        let route = self.routes.get(at).filter(|route| route.purpose == StreamPurpose::Stanzas);
        let domain = route.map(|route| route.remote.clone());
        self.lost_all(domain.into_iter().collect());
    }

    /// Ends a way for good, because it isn't needed or not allowed any more.
    pub(crate) fn give_up(&mut self, at: usize, error: &StreamError, reason: &str) {
        let Some(route) = self.routes.get(at) else { return };
        debug!(domain = &*route.remote, from = &*route.local, reason, "a stream to another server ends");
        self.has_read_all(at);
        let Some(route) = self.routes.get(at) else { return };
        if let Some(key) = route.key() {
            self.detach_way(key);
            self.close_stream(key, error);
        }
        self.abandon(at, RouteState::Idle, &Condition::RemoteServerTimeout);
        self.forget_later(at, FORGET_MS);
    }

    /// Ends a stream with an error.
    pub(crate) fn close_stream(&mut self, key: ConnectionKey, error: &StreamError) {
        let mut out = Vec::new();
        match self.streams.get_mut(key.0 as usize).map(|stream| &mut stream.machine) {
            Some(Machine::Out { machine, .. }) => machine.close(Some(error), &mut out),
            Some(Machine::In { machine, .. }) => machine.close(error, None, &mut out),
            Some(Machine::Component(_)) | None => return,
        }
        self.write(key, out);
        self.end(key);
    }

    fn abandon(&mut self, at: usize, state: RouteState, condition: &Condition) {
        let is_stopping = self.is_stopping;
        let Some(route) = self.routes.get_mut(at) else { return };
        let (broken, key) = (route.broken.take(), route.key());
        let sent = match &mut route.state {
            RouteState::Ready { sent, .. } => std::mem::take(sent),
            _ => Sent::default(),
        };
        let broken_bytes = broken.as_ref().map_or(0, |broken| broken.bytes);
        self.waiting_bytes -= route.queue.bytes() + sent.bytes() + broken_bytes;
        let waiting = route.queue.take();
        let questions = std::mem::take(&mut route.questions);
        self.drop_streams(at);
        self.set_state(at, state);
        let (_, mut back) = broken.map(|broken| broken.give_up(None)).unwrap_or_default();
        // A server that stops closes its streams properly: stanzas that they have taken arrive.
        let (untaken, all) = sent.give_up(is_stopping);
        self.give_back_untaken(key, untaken, condition);
        back.extend(all);
        back.extend(waiting);
        for stanza in back {
            self.bounce(stanza, condition.clone());
        }
        for (question, arrived) in questions {
            self.tell(arrived, &question, &Err(condition.clone()));
        }
    }

    /// Drops the connections of a way, except those that are closing properly.
    pub(crate) fn drop_streams(&mut self, at: usize) {
        let keys = match self.routes.get_mut(at).map(|route| &mut route.state) {
            Some(RouteState::Connecting { trying, .. }) => std::mem::take(trying),
            Some(RouteState::Negotiating { key, .. } | RouteState::Ready { key, .. }) => vec![*key],
            _ => Vec::new(),
        };
        for key in keys {
            self.detach_way(key);
            if self.streams.get(key.0 as usize).is_some_and(|stream| !stream.ended) {
                self.drop_now(key);
            }
        }
    }

    pub(crate) fn forget_later(&mut self, at: usize, delay_ms: u64) {
        let serial = self.next_serial();
        if let Some(route) = self.routes.get_mut(at) {
            route.serial = serial;
            self.set_timer(delay_ms, StreamTimer::Forget(at, serial));
        }
    }

    pub(crate) fn forget(&mut self, at: usize, serial: u32) {
        let is_idle = |route: &DomainRoute| {
            let rests = matches!(route.state, RouteState::Idle | RouteState::Failed { .. });
            rests
                && route.broken.as_ref().is_none_or(|broken| broken.is_empty())
                && route.serial == serial
                && route.queue.is_empty()
                && route.questions.is_empty()
        };
        if !self.routes.get(at).is_some_and(is_idle) {
            return;
        }
        let route = self.routes.remove(at);
        self.question_ways -= usize::from(route.purpose == StreamPurpose::Questions);
        if let Some(ways) = self.by_remote.get_mut(&route.remote) {
            ways.retain(|way| *way != at);
            if ways.is_empty() {
                self.by_remote.remove(&route.remote);
            }
        }
    }

    pub(crate) fn set_state(&mut self, at: usize, state: RouteState) {
        let Some(route) = self.routes.get_mut(at) else { return };
        let was = route.is_under_way();
        route.state = state;
        let of_questions = usize::from(route.purpose == StreamPurpose::Questions);
        match (was, route.is_under_way()) {
            (false, true) => {
                self.under_way += 1;
                self.questions_under_way += of_questions;
            }
            (true, false) => {
                self.under_way -= 1;
                self.questions_under_way -= of_questions;
                if let Some(asker) = route.asker.take() {
                    release(&mut self.askers, &asker);
                }
            }
            _ => {}
        }
    }
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness all pauses are short, which is bearable.
    _ = chance::fill(&mut bytes);
    u32::from_le_bytes(bytes)
}

/// A stream that was ready for a shorter time counts as a failure.
const SHORTEST_USE_MS: u64 = 5_000;
/// The longest pause while a stream is to be resumed.
const LONGEST_PAUSE_MS: u64 = 10_000;
/// The time for which an unused way is remembered.
const FORGET_MS: u64 = 600_000;
/// The time that a server may take to answer questions about its keys.
pub(crate) const ANSWER_MS: u64 = 30_000;
