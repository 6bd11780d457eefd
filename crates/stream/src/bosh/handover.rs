//! Hands a session over to another place: its state as data, without the requests that wait for its
//! responses.
//!
//! The process that is home to the account gets this state, together with the state of the stream.
//! Times are given as ages, since each process has its own clock.

use std::sync::Arc;

use rookery_xml::Limits;
use serde::{Deserialize, Serialize};

use super::answer::{AnswerCondition, AnswerStatus, BoshAnswer, Waiter};
use super::keys::{BoshKey, BoshKeys};
use super::request::{BoshBody, BoshOpening};
use super::session::{AnsweredRequest, BoshSession, Early, ParkedRequest};
use super::terms::Terms;

/// Waiters for responses, by the numbers of their requests.
pub type WaitersByRid = Vec<(u64, Box<dyn Waiter>)>;

/// The state of a session.
#[derive(Serialize, Deserialize)]
pub struct BoshHandOver {
    sid: u128,
    terms: Terms,
    requests: u32,
    is_secure: bool,
    is_legacy: bool,
    acks: bool,
    content_type: Option<String>,
    opening: Option<BoshOpening>,
    newest: u64,
    newest_age_ms: u64,
    newest_was_empty: bool,
    key: Option<BoshKey>,
    waiting: Vec<WaitingSent>,
    early: Vec<BodySent>,
    unread: Vec<BodySent>,
    answered: Vec<AnsweredSent>,
    #[serde(with = "serde_bytes")]
    said: Vec<u8>,
    condition: Option<AnswerCondition>,
    repeats: u32,
    pause: Option<u32>,
    idle_age_ms: Option<u64>,
}

/// A request that waits for its response.
#[derive(Serialize, Deserialize)]
struct WaitingSent {
    rid: u64,
    age_ms: u64,
    key: Option<BoshKey>,
}

/// A request that was not processed to its end.
#[derive(Serialize, Deserialize)]
struct BodySent {
    #[serde(with = "serde_bytes")]
    document: Vec<u8>,
    /// The place up to which it was processed.
    at: u64,
    restarts: bool,
}

/// A request that was answered.
#[derive(Serialize, Deserialize)]
struct AnsweredSent {
    rid: u64,
    answer: Option<AnswerSent>,
    key: Option<BoshKey>,
    had_payload: bool,
    sent: u32,
}

/// A response as data.
#[derive(Serialize, Deserialize)]
pub struct AnswerSent {
    status: AnswerStatus,
    #[serde(with = "serde_bytes")]
    body: Vec<u8>,
    content_type: Option<String>,
}

impl std::fmt::Debug for BoshHandOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The id isn't shown: anyone who knows it may speak for the client.
        f.debug_struct("BoshHandOver").field("newest", &self.newest).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AnswerSent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerSent").field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

impl BoshHandOver {
    /// Returns the id of the session.
    pub fn sid(&self) -> u128 {
        self.sid
    }
}

impl From<&BoshAnswer> for AnswerSent {
    fn from(answer: &BoshAnswer) -> Self {
        let content_type = answer.content_type.as_deref().map(str::to_owned);
        Self { status: answer.status, body: answer.body.to_vec(), content_type }
    }
}

impl From<AnswerSent> for BoshAnswer {
    fn from(sent: AnswerSent) -> Self {
        Self { status: sent.status, body: sent.body.into(), content_type: sent.content_type.map(Arc::from) }
    }
}

impl BodySent {
    fn new(body: &BoshBody) -> Self {
        let at = body.read_to() as u64;
        Self { document: body.document().to_vec(), at, restarts: body.restart.is_some() }
    }

    fn body(self) -> Option<BoshBody> {
        let mut body = BoshBody::read(self.document.into_boxed_slice(), &Limits::AFTER_LOGIN).ok()?;
        body.read_on_from(usize::try_from(self.at).ok()?)?;
        body.restart = body.restart.filter(|_| self.restarts);
        Some(body)
    }
}

impl BoshSession {
    /// Returns the state of a session, and the waiters for its responses, by the numbers of their
    /// requests.
    pub fn hand_over(self, now_ms: u64) -> (BoshHandOver, WaitersByRid) {
        let mut waiters = Vec::new();
        let age = |since_ms: u64| now_ms.saturating_sub(since_ms);
        let waiting = self.waiting.into_iter().map(|parked| {
            let ParkedRequest { rid, waiter, since_ms, key } = parked;
            waiters.extend(waiter.map(|waiter| (rid, waiter)));
            WaitingSent { rid, age_ms: age(since_ms), key: key.map(|key| *key) }
        });
        let waiting: Vec<_> = waiting.collect();
        let early = self.early.into_iter().map(|Early { request, waiter }| {
            waiters.push((request.rid, waiter));
            BodySent::new(&request)
        });
        let early: Vec<_> = early.collect();
        let answered = self.answered.into_iter().map(|answered| {
            let AnsweredRequest { rid, answer, key, had_payload, sent } = answered;
            let answer = answer.as_ref().map(AnswerSent::from);
            AnsweredSent { rid, answer, key: key.map(|key| *key), had_payload, sent }
        });
        let given = BoshHandOver {
            sid: self.sid,
            terms: self.terms,
            requests: self.requests,
            is_secure: self.is_secure,
            is_legacy: self.is_legacy,
            acks: self.acks,
            content_type: self.content_type.as_deref().map(str::to_owned),
            opening: self.opening.map(|opening| *opening),
            newest: self.newest,
            newest_age_ms: age(self.newest_ms),
            newest_was_empty: self.newest_was_empty,
            key: self.keys.0,
            waiting,
            early,
            unread: self.unread.iter().map(|body| BodySent::new(body)).collect(),
            answered: answered.collect(),
            said: self.said,
            condition: self.condition,
            repeats: self.repeats,
            pause: self.pause,
            idle_age_ms: self.idle_since_ms.map(age),
        };
        (given, waiters)
    }

    /// Returns a session that continues here. `waiter` returns the waiter for the response to a
    /// request; `None` if nobody waits. The state is refused if more is under way than may be, or a
    /// request can't be read.
    pub fn taken_over(
        given: BoshHandOver,
        mut waiter: impl FnMut(u64) -> Option<Box<dyn Waiter>>,
        now_ms: u64,
    ) -> Option<Self> {
        let most = given.requests as usize;
        if [given.waiting.len(), given.early.len(), given.answered.len()].into_iter().any(|count| count > most) {
            return None;
        }
        let since = |age_ms: u64| now_ms.saturating_sub(age_ms);
        let waiting = given.waiting.into_iter().map(|sent| {
            let WaitingSent { rid, age_ms, key } = sent;
            ParkedRequest { rid, waiter: waiter(rid), since_ms: since(age_ms), key: key.map(Box::new) }
        });
        let waiting = waiting.collect();
        let mut early = Vec::with_capacity(given.early.len());
        for sent in given.early {
            let request = sent.body()?;
            // A client whose connection broke sends the request again.
            early.extend(waiter(request.rid).map(|waiter| Early { request, waiter }));
        }
        let answered = given.answered.into_iter().map(|sent| {
            let AnsweredSent { rid, answer, key, had_payload, sent } = sent;
            AnsweredRequest { rid, answer: answer.map(BoshAnswer::from), key: key.map(Box::new), had_payload, sent }
        });
        let unread = given.unread.into_iter().map(|sent| sent.body().map(Box::new)).collect::<Option<_>>()?;
        Some(Self {
            sid: given.sid,
            terms: given.terms,
            requests: given.requests,
            is_secure: given.is_secure,
            is_legacy: given.is_legacy,
            acks: given.acks,
            content_type: given.content_type.map(Arc::from),
            opening: given.opening.map(Box::new),
            newest: given.newest,
            newest_ms: since(given.newest_age_ms),
            newest_was_empty: given.newest_was_empty,
            keys: BoshKeys(given.key),
            waiting,
            early,
            unread,
            answered: answered.collect(),
            said: given.said,
            condition: given.condition,
            repeats: given.repeats,
            pause: given.pause,
            idle_since_ms: given.idle_age_ms.map(since),
            last_words: None,
            is_over: false,
            confirmed: None,
            looked_at_ms: None,
            has_news: false,
        })
    }
}
