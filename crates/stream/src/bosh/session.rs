//! A session: which requests wait, in which order they count, the latest responses, and its end.
//!
//! # Invariants
//!
//! - Requests are accepted in the order of their numbers and answered in that order (XEP-0124
//!   §14.2). A request that arrives early is kept until its turn.
//! - The memory is bounded: requests ahead, waiting, or answered are at most as many as may be
//!   under way at a time.
//! - A repeated request is answered as before; nothing in it is processed twice (§14.3).
//! - A session that is idle holds no more than one waiting request and small responses.
//! - Data in a response counts as received only when the client has shown that it has the response:
//!   see [`BoshSession::take_confirmed`].

use std::collections::VecDeque;
use std::sync::Arc;

use rookery_xml::Element;

use super::answer::{AnswerCondition, AnswerWriter, BoshAnswer, Waiter};
use super::keys::{self, BoshKey, BoshKeys};
use super::request::{BoshBody, BoshOpening};
use super::terms::Terms;
use crate::items::{SaidItem, declare, items};

/// A session of BOSH, without its connections.
pub struct BoshSession {
    pub(super) sid: u128,
    /// The terms that were agreed on with the client.
    pub(super) terms: Terms,
    /// Requests that may be under way at a time.
    pub(super) requests: u32,
    /// True if it was opened over an encrypted connection: then it continues only over encrypted
    /// connections (§19.1).
    pub(super) is_secure: bool,
    pub(super) is_legacy: bool,
    /// True if client and server use acknowledgements (§9).
    pub(super) acks: bool,
    pub(super) content_type: Option<Arc<str>>,
    /// The terms that the first reply has to state, until it is out.
    pub(super) opening: Option<Box<BoshOpening>>,
    /// The newest request in order, and the time at which it came.
    pub(super) newest: u64,
    pub(super) newest_ms: u64,
    pub(super) newest_was_empty: bool,
    pub(super) keys: BoshKeys,
    /// Requests in order that have no reply yet, the oldest first.
    pub(super) waiting: VecDeque<ParkedRequest>,
    /// Requests that came before their turn.
    pub(super) early: Vec<Early>,
    /// Requests in order that the stream has not processed, or not completely. Boxed: the places
    /// stay when they are empty.
    pub(super) unread: VecDeque<Box<BoshBody>>,
    /// Requests that were answered recently, the newest last.
    pub(super) answered: VecDeque<AnsweredRequest>,
    /// Output of the stream's machine that is not sent yet.
    pub(super) said: Vec<u8>,
    /// The condition with which the stream ended.
    pub(super) condition: Option<AnswerCondition>,
    /// Repeated requests since the newest.
    pub(super) repeats: u32,
    /// The time for which the client pauses (§10).
    pub(super) pause: Option<u32>,
    /// The time since when no request waits for a reply.
    pub(super) idle_since_ms: Option<u64>,
    /// The last response of a session that ended while no request waited.
    pub(super) last_words: Option<Box<BoshAnswer>>,
    pub(super) is_over: bool,
    pub(super) confirmed: Option<u32>,
    /// The time at which its owner will check it; see [`BoshSession::due`].
    pub looked_at_ms: Option<u64>,
    /// True if the waiting output is to be sent with the next reply.
    pub has_news: bool,
}

pub(super) struct ParkedRequest {
    pub(super) rid: u64,
    /// `None`: the connection broke, and the client may come again.
    pub(super) waiter: Option<Box<dyn Waiter>>,
    pub(super) since_ms: u64,
    pub(super) key: Option<Box<BoshKey>>,
}

pub(super) struct Early {
    pub(super) request: BoshBody,
    pub(super) waiter: Box<dyn Waiter>,
}

pub(super) struct AnsweredRequest {
    pub(super) rid: u64,
    /// The response; `None` if it is empty.
    pub(super) answer: Option<BoshAnswer>,
    pub(super) key: Option<Box<BoshKey>>,
    /// True if it has content of the stream.
    pub(super) had_payload: bool,
    /// The number of stanzas that had been sent with it and all responses before.
    pub(super) sent: u32,
}

impl BoshSession {
    /// Returns a new session for a client that opens it with these attributes. The request is taken
    /// separately.
    pub fn new(sid: u128, first: &BoshBody, opening: &BoshOpening, terms: Terms, is_secure: bool, now_ms: u64) -> Self {
        let (wait, hold) = (opening.wait.unwrap_or(terms.wait), opening.hold.unwrap_or(1));
        let (wait, hold) = (wait.min(terms.wait), hold.min(terms.hold));
        let is_polling = wait == 0 || hold == 0;
        let hold = if is_polling { 0 } else { hold };
        let patience = if is_polling { terms.polling.saturating_mul(2) } else { 0 };
        let inactivity = terms.inactivity.saturating_add(patience);
        Self {
            sid,
            terms: Terms { wait, hold, inactivity, ..terms },
            requests: hold + 1,
            is_secure,
            is_legacy: opening.ver.is_none(),
            acks: opening.ack,
            content_type: opening.content.as_deref().map(Arc::from),
            opening: Some(Box::new(opening.clone())),
            newest: first.rid - 1,
            newest_ms: now_ms,
            newest_was_empty: false,
            keys: BoshKeys::default(),
            waiting: VecDeque::new(),
            early: Vec::new(),
            unread: VecDeque::new(),
            answered: VecDeque::new(),
            said: Vec::new(),
            condition: None,
            repeats: 0,
            pause: None,
            idle_since_ms: Some(now_ms),
            last_words: None,
            is_over: false,
            confirmed: None,
            looked_at_ms: None,
            has_news: false,
        }
    }

    /// Returns its id.
    pub fn sid(&self) -> u128 {
        self.sid
    }

    /// Returns whether it was opened over an encrypted connection.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Returns whether it has ended and nobody has to be told of that any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes a request. Afterwards the session may be over, have something to read
    /// ([`BoshSession::next_unread`]), or owe responses.
    pub fn take(&mut self, request: BoshBody, waiter: Box<dyn Waiter>, now_ms: u64) {
        if let Some(words) = self.last_words.take() {
            waiter.answer(*words);
            self.is_over = true;
            return;
        }
        self.note_gone(now_ms);
        if request.rid <= self.newest {
            return self.repeat(&request, waiter, now_ms);
        }
        if request.rid - self.newest > u64::from(self.requests) {
            return self.end(Some(AnswerCondition::ItemNotFound), Some(waiter));
        }
        if request.rid > self.newest + 1 {
            return self.keep_early(request, waiter);
        }
        self.in_order(request, waiter, now_ms);
        while let Some(at) = self.early.iter().position(|early| early.request.rid == self.newest + 1) {
            let Early { request, waiter } = self.early.swap_remove(at);
            self.in_order(request, waiter, now_ms);
        }
    }

    /// Returns the request whose elements are to be read next.
    pub fn next_unread(&mut self) -> Option<&mut BoshBody> {
        self.unread.front_mut().map(AsMut::as_mut)
    }

    /// Takes that request, so that its elements can be read while the session is borrowed.
    pub fn take_unread(&mut self) -> Option<Box<BoshBody>> {
        self.unread.pop_front()
    }

    /// Puts it back, with elements that could not be processed yet.
    pub fn keep_unread(&mut self, request: Box<BoshBody>) {
        self.unread.push_front(request);
    }

    /// Takes output of the stream's machine, which is sent with the next response. An error of the
    /// stream ends the session, with the corresponding condition, when [`BoshSession::close`] is
    /// called.
    pub fn say(&mut self, stream: &[u8]) {
        let (said, opening, condition) = (&mut self.said, &mut self.opening, &mut self.condition);
        items(stream, |item| match item {
            // XEP-0206 §4: the id of the stream, which served an obsolete login protocol, isn't
            // used here; the rest is in the response.
            SaidItem::Header(header) => {
                if let Some(opening) = opening {
                    opening.from = header.from;
                }
            }
            SaidItem::Element(element) => {
                let before = said.len();
                declare(element, said);
                if element.starts_with(b"<stream:error") {
                    let error = Element::parse(said.get(before..).unwrap_or_default()).ok();
                    let name = error.as_ref().and_then(|error| error.children().next()).map_or("", Element::name);
                    let found = AnswerCondition::of(name);
                    *condition = Some(found);
                    if found != AnswerCondition::RemoteStreamError {
                        said.truncate(before);
                    }
                }
            }
            SaidItem::End => {}
        });
    }

    /// Returns whether a reply can be sent, and the stream's machine has output for it.
    pub fn has_said(&self) -> bool {
        !self.said.is_empty()
    }

    /// Returns whether a request waits for a reply. Requests whose connections broke don't count.
    pub fn is_awaited(&mut self, now_ms: u64) -> bool {
        self.note_gone(now_ms);
        self.live() > 0
    }

    /// Replies to the oldest request with the machine's output, and with stanzas. `sent` is the
    /// number of stanzas that the session has been sent in all, these included.
    pub fn answer(&mut self, stanzas: &[u8], sent: u32, now_ms: u64) {
        while self.waiting.front().is_some_and(|waiting| waiting.waiter.is_none()) {
            // A client that lost a connection repeats its requests: the earlier responses have to
            // exist by then.
            self.answer_one(b"", b"", sent, now_ms);
        }
        let said = std::mem::take(&mut self.said);
        self.answer_one(&said, stanzas, sent, now_ms);
    }

    /// Replies to the requests that need not wait, since more wait than may, with empty responses
    /// (§8).
    pub fn release(&mut self, sent: u32, now_ms: u64) {
        // A client that is slowed down must not continue: a response would let it send more.
        while self.unread.is_empty() && self.waiting.len() > self.terms.hold as usize && self.live() > 0 {
            self.answer(b"", sent, now_ms);
        }
    }

    /// Returns the number of stanzas that the client has certainly received; `None` if it hasn't
    /// changed.
    pub fn take_confirmed(&mut self) -> Option<u32> {
        self.confirmed.take()
    }

    /// Takes note that a connection broke: the request on it may come again.
    pub fn note_gone(&mut self, now_ms: u64) {
        for waiting in &mut self.waiting {
            if waiting.waiter.as_ref().is_some_and(|waiter| waiter.is_gone()) {
                waiting.waiter = None;
            }
        }
        self.early.retain(|early| !early.waiter.is_gone());
        self.note_idle(now_ms);
    }

    /// Returns the time at which the owner has to call [`BoshSession::look`], in milliseconds.
    pub fn due(&self) -> u64 {
        let live = self.waiting.iter().find(|waiting| waiting.waiter.is_some());
        match (live, self.idle_since_ms) {
            (Some(waiting), _) => waiting.since_ms + u64::from(self.terms.wait) * 1000,
            (None, idle) => {
                let patience = self.pause.unwrap_or(self.terms.inactivity);
                idle.unwrap_or(self.newest_ms) + u64::from(patience) * 1000
            }
        }
    }

    /// Replies to requests that have waited for long enough. Returns `true` if the client has been
    /// away for too long: the session is over (§10).
    pub fn look(&mut self, sent: u32, now_ms: u64) -> bool {
        self.note_gone(now_ms);
        if self.live() > 0 {
            while self.live() > 0 && self.due() <= now_ms {
                self.answer(b"", sent, now_ms);
            }
            return false;
        }
        if self.due() > now_ms {
            return false;
        }
        self.end(None, None);
        true
    }

    /// Ends the stream; its end is sent after everything that still waits.
    pub fn close(&mut self, last: &[u8], now_ms: u64) {
        self.say(last);
        self.note_gone(now_ms);
        let said = std::mem::take(&mut self.said);
        let mut writer = AnswerWriter::new();
        writer.terminate(self.condition);
        let words = writer.finish(&said, b"", self.content_type.clone());
        let mut waiting = std::mem::take(&mut self.waiting).into_iter().filter_map(|waiting| waiting.waiter);
        match waiting.next() {
            Some(waiter) => {
                waiter.answer(words);
                self.is_over = true;
            }
            None => self.last_words = Some(Box::new(words)),
        }
        let early = std::mem::take(&mut self.early).into_iter().map(|early| early.waiter);
        for waiter in waiting.chain(early) {
            waiter.answer(BoshAnswer::empty(self.content_type.clone()));
        }
        self.unread.clear();
        self.note_idle(now_ms);
    }

    /// Ends the session because a request breaks the rules, or because the client is gone.
    pub fn end(&mut self, condition: Option<AnswerCondition>, offender: Option<Box<dyn Waiter>>) {
        self.is_over = true;
        self.unread.clear();
        if let Some(waiter) = offender {
            waiter.answer(AnswerWriter::new().end(condition, self.is_legacy, self.content_type.clone()));
        }
        let waiting = std::mem::take(&mut self.waiting).into_iter().filter_map(|waiting| waiting.waiter);
        let early = std::mem::take(&mut self.early).into_iter().map(|early| early.waiter);
        for waiter in waiting.chain(early) {
            waiter.answer(AnswerWriter::new().end(
                Some(AnswerCondition::OtherRequest),
                self.is_legacy,
                self.content_type.clone(),
            ));
        }
    }

    /// Ends the session because the content of the newest request that is being processed isn't
    /// valid.
    pub fn end_unreadable(&mut self) {
        let offender = self.waiting.iter_mut().rev().find_map(|waiting| waiting.waiter.take());
        self.end(Some(AnswerCondition::BadRequest), offender);
    }

    fn live(&self) -> usize {
        self.waiting.iter().filter(|waiting| waiting.waiter.is_some()).count()
    }

    fn note_idle(&mut self, now_ms: u64) {
        if self.live() > 0 {
            self.idle_since_ms = None;
        } else if self.idle_since_ms.is_none() {
            self.idle_since_ms = Some(now_ms);
        }
    }

    /// Keeps a request that comes before its turn; it replaces an older copy.
    fn keep_early(&mut self, request: BoshBody, waiter: Box<dyn Waiter>) {
        match self.early.iter_mut().find(|early| early.request.rid == request.rid) {
            Some(early) => {
                let older = std::mem::replace(early, Early { request, waiter });
                older.waiter.answer(BoshAnswer::for_older_copy(self.content_type.clone()));
            }
            None => self.early.push(Early { request, waiter }),
        }
    }

    /// Takes a request in its turn.
    fn in_order(&mut self, request: BoshBody, waiter: Box<dyn Waiter>, now_ms: u64) {
        if self.is_over {
            return waiter.answer(AnswerWriter::new().end(Some(AnswerCondition::OtherRequest), self.is_legacy, None));
        }
        if !self.keys.fit(&request) {
            return self.end(Some(AnswerCondition::ItemNotFound), Some(waiter));
        }
        if self.is_too_much(&request, now_ms) {
            return self.end(Some(AnswerCondition::PolicyViolation), Some(waiter));
        }
        self.confirm(&request);
        self.newest_was_empty = request.is_empty();
        (self.newest, self.newest_ms, self.repeats, self.pause) = (request.rid, now_ms, 0, None);
        let key = self.keys.last();
        self.waiting.push_back(ParkedRequest { rid: request.rid, waiter: Some(waiter), since_ms: now_ms, key });
        self.idle_since_ms = None;
        let pause = request.pause.filter(|&pause| pause <= self.terms.max_pause);
        if request.has_content() || request.restart.is_some() || request.terminate {
            self.unread.push_back(Box::new(request));
        }
        if pause.is_some() {
            self.go_away(pause, now_ms);
        }
    }

    /// Lets the client pause: all waiting requests get empty responses (§10).
    fn go_away(&mut self, pause: Option<u32>, now_ms: u64) {
        let said = std::mem::take(&mut self.said);
        let sent = self.answered.back().map_or(0, |answered| answered.sent);
        while self.live() > 0 {
            self.answer(b"", sent, now_ms);
        }
        self.said = said;
        self.pause = pause;
        // §14.3: the response to such a request is not remembered.
        self.answered.pop_back();
    }

    /// Returns whether a request is one too many, or comes too soon (§11, §12).
    fn is_too_much(&self, request: &BoshBody, now_ms: u64) -> bool {
        let unread: usize = self.unread.iter().map(|request| request.len()).sum();
        if unread > 0 && unread + request.len() > MOST_UNREAD {
            return true;
        }
        if request.pause.is_some() || request.terminate {
            return false;
        }
        let under_way = self.live() + 1;
        let is_soon = now_ms.saturating_sub(self.newest_ms) < u64::from(self.terms.polling) * 1000;
        let requests = self.requests as usize;
        if under_way > requests {
            return true;
        }
        if !request.is_empty() || !is_soon {
            return false;
        }
        if self.terms.hold == 0 {
            let had_payload = self.answered.back().is_some_and(|answered| answered.had_payload);
            return self.newest_was_empty && !had_payload;
        }
        under_way == requests
    }

    /// Notes which replies a client has: those that it acknowledges; without acknowledgements those
    /// that it must have in order to send this request. With an empty one there are no more under
    /// way than may wait: else it would not have been sent (§10, §11).
    fn confirm(&mut self, request: &BoshBody) {
        let has = match (self.acks, request.ack) {
            (true, Some(ack)) => ack,
            (true, None) => request.rid - 1,
            (false, _) if request.is_empty() => request.rid.saturating_sub(u64::from(self.terms.hold.max(1))),
            (false, _) => request.rid.saturating_sub(u64::from(self.requests)),
        };
        for answered in self.answered.iter_mut().filter(|answered| answered.rid <= has) {
            self.confirmed = Some(answered.sent);
            // The response may be requested once more, which justifies a bounded amount of memory.
            if answered.answer.as_ref().is_some_and(|answer| self.acks || answer.body.len() > KEPT) {
                answered.answer = None;
                answered.rid = 0;
            }
        }
        self.answered.retain(|answered| answered.rid != 0);
    }

    /// Takes a repeated request.
    fn repeat(&mut self, request: &BoshBody, waiter: Box<dyn Waiter>, now_ms: u64) {
        self.repeats += 1;
        if self.repeats > MOST_REPEATS {
            return self.end(Some(AnswerCondition::PolicyViolation), Some(waiter));
        }
        let fits =
            |key: &Option<Box<BoshKey>>| key.as_ref().is_none_or(|key| keys::key_to_follow(request) == Some(**key));
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.rid == request.rid) {
            if !fits(&waiting.key) {
                return self.end(Some(AnswerCondition::ItemNotFound), Some(waiter));
            }
            if let Some(older) = waiting.waiter.replace(waiter) {
                older.answer(BoshAnswer::for_older_copy(self.content_type.clone()));
            }
            return self.note_idle(now_ms);
        }
        match self.answered.iter().find(|answered| answered.rid == request.rid) {
            Some(answered) if fits(&answered.key) => {
                let empty = || BoshAnswer::empty(self.content_type.clone());
                waiter.answer(answered.answer.clone().unwrap_or_else(empty));
                if self.live() == 0 {
                    self.idle_since_ms = Some(now_ms);
                }
            }
            _ => self.end(Some(AnswerCondition::ItemNotFound), Some(waiter)),
        }
    }

    fn answer_one(&mut self, said: &[u8], stanzas: &[u8], sent: u32, now_ms: u64) {
        let Some(waiting) = self.waiting.pop_front() else { return };
        let mut writer = AnswerWriter::new();
        let mut is_plain = said.is_empty() && stanzas.is_empty();
        if let Some(opening) = self.opening.take() {
            let ack = self.acks.then_some(waiting.rid);
            self.terms.tell(self.sid, self.requests, &opening, ack, &mut writer);
            is_plain = false;
        } else if self.acks && self.newest != waiting.rid {
            writer.attr("ack", &self.newest.to_string());
            is_plain = false;
        }
        let answer = writer.finish(said, stanzas, self.content_type.clone());
        let kept = if is_plain { None } else { Some(answer.clone()) };
        let had_payload = !said.is_empty() || !stanzas.is_empty();
        let ParkedRequest { rid, waiter, key, .. } = waiting;
        self.answered.push_back(AnsweredRequest { rid, answer: kept, key, had_payload, sent });
        while self.answered.len() > self.requests as usize {
            self.answered.pop_front();
        }
        if let Some(waiter) = waiter {
            waiter.answer(answer);
        }
        self.note_idle(now_ms);
    }
}

impl std::fmt::Debug for BoshSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The id isn't shown: anyone who knows it may speak for the client.
        f.debug_struct("Session")
            .field("newest", &self.newest)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

/// The number of times that requests may be repeated before a new one comes: each costs a reply
/// (§14.3).
const MOST_REPEATS: u32 = 10;
/// Bytes of requests that wait until the stream continues to read.
const MOST_UNREAD: usize = 512 * 1024;
/// Bytes of a response that is kept though the client has it.
const KEPT: usize = 2048;
