//! BOSH requests between nodes: the messages, and the waiters on the other side.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rookery_base::Map;
use rookery_base::lock::lock;
use rookery_fanout::Station;
use rookery_observe::bound::{Bound, Most, Per, Unit};
use rookery_stream::bosh::{AnswerSent, BoshHandOver, Waiter};
use rookery_stream::c2s::{HandOver, LaterHandOver};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The messages between two nodes about a session of BOSH whose requests come in on one of them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum RelayFrame {
    /// A client has logged in, and its session belongs to the reader's node.
    Attach(Box<RelayAttach>),
    /// A request has come in.
    Request(RelayRequest),
    /// The connection of a request of this session broke.
    Gone(RelayAsker, u128),
    /// The response to the request of this key.
    Answer(u64, AnswerSent),
    /// The session has ended.
    Over(u128),
}

/// The place of a waiter for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct RelayAsker {
    /// The shard.
    pub station: Station,
    /// The number of the request there.
    pub key: u64,
}

/// A session whose client has logged in.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RelayAttach {
    /// The address that it comes from.
    pub peer: SocketAddr,
    /// The state of its stream.
    pub stream: HandOver,
    /// The state of the session.
    pub session: BoshHandOver,
    /// The bytes of the stream that were not processed.
    #[serde(with = "serde_bytes")]
    pub carry: Vec<u8>,
    /// Waiters for a response: the numbers of their requests, and their keys.
    pub waiting: Vec<(u64, u64)>,
    /// The part of the stream's state that isn't in `stream`.
    pub later: LaterHandOver,
}

/// A request on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RelayRequest {
    pub asker: RelayAsker,
    pub sid: u128,
    /// True if it has come encrypted.
    pub is_secure: bool,
    /// The complete request.
    pub document: ByteBuf,
}

/// Requests that came in here, and that other nodes respond to.
#[derive(Default)]
pub(crate) struct RelayedRequests {
    asked: Map<u64, RelayedRequest>,
    last_key: u64,
    bytes: usize,
    /// The time of the next check for unanswered requests.
    look_ms: Option<u64>,
}

/// The keys of requests, the shards that they were sent to, and the waiters.
type TakenRequests = Vec<(u64, Station, Box<dyn Waiter>)>;

struct RelayedRequest {
    waiter: Box<dyn Waiter>,
    sid: u128,
    /// The shard that it was sent to.
    at: Station,
    bytes: usize,
    until_ms: u64,
}

impl RelayedRequests {
    /// Keeps the waiter for the response to a request of this size, and returns its key.
    ///
    /// # Errors
    /// Too much is under way.
    pub fn keep(
        &mut self,
        waiter: Box<dyn Waiter>,
        (sid, at): (u128, Station),
        bytes: usize,
        (now_ms, until_ms): (u64, u64),
    ) -> Result<u64, Box<dyn Waiter>> {
        if self.bytes + bytes > MOST_BYTES && bytes > 0 {
            return Err(waiter);
        }
        self.last_key += 1;
        self.bytes += bytes;
        self.asked.insert(self.last_key, RelayedRequest { waiter, sid, at, bytes, until_ms });
        self.look_ms.get_or_insert(now_ms + LOOK_MS);
        Ok(self.last_key)
    }

    /// Takes the waiter with this key.
    pub fn take(&mut self, key: u64) -> Option<Box<dyn Waiter>> {
        let RelayedRequest { waiter, bytes, .. } = self.asked.remove(&key)?;
        self.bytes -= bytes;
        Some(waiter)
    }

    /// Takes all waiters for a session.
    pub fn take_all(&mut self, sid: u128) -> Vec<Box<dyn Waiter>> {
        self.take_if(|_, asked| asked.sid == sid).into_iter().map(|(.., waiter)| waiter).collect()
    }

    /// Takes all waiters for a process.
    pub fn take_all_at(&mut self, node: u16, incarnation: u32) -> Vec<Box<dyn Waiter>> {
        let all = self.take_if(|_, asked| (asked.at.node, asked.at.incarnation) == (node, incarnation));
        all.into_iter().map(|(.., waiter)| waiter).collect()
    }

    /// Forgets the waiters of a session that wait no longer; returns the shards that are to be
    /// told, each with the key.
    pub fn forget_gone(&mut self, sid: u128) -> Vec<(Station, u64)> {
        let gone = self.take_if(|_, asked| asked.sid == sid && asked.waiter.is_gone());
        gone.into_iter().map(|(key, at, _)| (at, key)).collect()
    }

    /// Takes the waiters that got no response in time.
    pub fn take_late(&mut self, now_ms: u64) -> Vec<Box<dyn Waiter>> {
        if self.look_ms.is_none_or(|look_ms| now_ms < look_ms) {
            return Vec::new();
        }
        let late = self.take_if(|_, asked| asked.until_ms <= now_ms || asked.waiter.is_gone());
        self.look_ms = (!self.asked.is_empty()).then_some(now_ms + LOOK_MS);
        late.into_iter().map(|(.., waiter)| waiter).collect()
    }

    /// Returns the time of the next check for unanswered requests.
    pub fn next_timer(&self) -> Option<u64> {
        self.look_ms
    }

    fn take_if(&mut self, mut is: impl FnMut(u64, &RelayedRequest) -> bool) -> TakenRequests {
        let keys: Vec<u64> = self.asked.iter().filter(|(key, asked)| is(**key, asked)).map(|(key, _)| *key).collect();
        let mut taken = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(at) = self.asked.get(&key).map(|asked| asked.at) {
                taken.extend(self.take(key).map(|waiter| (key, at, waiter)));
            }
        }
        taken
    }
}

/// Waiters of other nodes for responses of this process.
#[derive(Debug, Default)]
pub(crate) struct RemoteAskers(Mutex<Map<RelayAsker, Arc<AtomicBool>>>);

impl RemoteAskers {
    /// Notes a waiter; the result becomes true if its connection breaks.
    pub fn meet(&self, asker: RelayAsker) -> Arc<AtomicBool> {
        lock(&self.0).entry(asker).or_default().clone()
    }

    /// Notes that the connection of a waiter broke.
    pub fn note_gone(&self, asker: RelayAsker) {
        if let Some(gone) = lock(&self.0).get(&asker) {
            gone.store(true, Ordering::SeqCst);
        }
    }

    /// Notes that a process is gone, and its waiters with it.
    pub fn depart(&self, node: u16, incarnation: u32) {
        for (asker, gone) in lock(&self.0).iter() {
            if (asker.station.node, asker.station.incarnation) == (node, incarnation) {
                gone.store(true, Ordering::SeqCst);
            }
        }
    }

    pub fn forget(&self, asker: RelayAsker) {
        lock(&self.0).remove(&asker);
    }
}

/// Bytes of requests that a shard has passed on and that have no response yet.
const MOST_BYTES: usize = 16 << 20;
/// The bounds of requests on their way.
pub const BOUNDS: &[Bound] = &[Bound::on(
    "requests of BOSH that came in for sessions of other nodes, and that those have not answered",
    Per::Shard,
    Most::Fixed(MOST_BYTES as u64),
    Unit::Bytes,
)
.or("the session of one more ends with `remote-connection-failed`")];
/// The time between two checks for unanswered requests.
const LOOK_MS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use rookery_stream::bosh::BoshAnswer;

    use super::*;

    struct WaitingNobody;

    impl Waiter for WaitingNobody {
        fn answer(self: Box<Self>, _: BoshAnswer) {}
        fn is_gone(&self) -> bool {
            false
        }
    }

    #[test]
    fn what_is_passed_on_is_bounded_and_given_up_in_time() {
        let mut relayed = RelayedRequests::default();
        let to = (1, Station::default());
        let first = relayed.keep(Box::new(WaitingNobody), to, MOST_BYTES, (0, 90_000)).unwrap_or_default();
        assert!(relayed.keep(Box::new(WaitingNobody), to, 1, (0, 90_000)).is_err(), "too much is under way");
        assert!(relayed.take(first).is_some() && relayed.take(first).is_none());
        assert!(relayed.keep(Box::new(WaitingNobody), to, 1, (0, 90_000)).is_ok());
        assert_eq!((relayed.take_late(10_000).len(), relayed.next_timer()), (0, Some(20_000)));
        assert_eq!((relayed.take_late(90_000).len(), relayed.next_timer()), (1, None));
    }
}
