//! Continuations, timers, and unanswered questions: everything that continues later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Waker};

use rookery_base::Map;
use rookery_fanout::Packet;
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use slab::Slab;

use crate::World;
use crate::custody::Custody;
use crate::mail::Parcel;
use crate::session::SessionRef;
use crate::wakeups::Wakeups;

/// Holds work that continues later.
pub(crate) struct LaterWork {
    pub(crate) tasks: Slab<Task>,
    /// The number of continuations that wait for somebody outside this server.
    pub(crate) outside: usize,
    pub(crate) timers: Timers,
    pub(crate) gatherings: Gatherings,
    pub(crate) asked: OpenRequests,
    pub(crate) logins: WaitingLogins,
    pub(crate) wakeups: Arc<Wakeups>,
    /// Mail for homes on their way here from another node, and its bytes.
    pub(crate) kept: (VecDeque<Parcel>, usize),
    pub(crate) untold: UntoldErrors,
    /// Sessions that aren't bound before all stanzas of an older one of their full JID are handled.
    pub(crate) successors: Map<SessionRef, Vec<Custody>>,
    /// The custody in which the world works at this moment.
    pub(crate) custody: Option<Custody>,
}

impl LaterWork {
    pub(crate) fn new(wakeups: Arc<Wakeups>) -> Self {
        Self {
            tasks: Slab::new(),
            outside: 0,
            timers: Timers::default(),
            gatherings: Gatherings::default(),
            asked: OpenRequests::default(),
            logins: WaitingLogins::default(),
            wakeups,
            kept: (VecDeque::new(), 0),
            untold: UntoldErrors::default(),
            successors: Map::default(),
            custody: None,
        }
    }
}

/// Errors of messages that are sent again to homes that couldn't be reached, and their bytes.
#[derive(Default)]
pub(crate) struct UntoldErrors {
    pub(crate) waiting: Vec<(Jid, Packet, Custody)>,
    pub(crate) bytes: usize,
}

/// Logins that need the store. More of them at a time than it can serve would only delay each
/// other, and everybody else; the others wait here, and their connections are not read from
/// meanwhile.
#[derive(Default)]
pub(crate) struct WaitingLogins {
    pub(crate) under_way: usize,
    pub(crate) queue: VecDeque<WaitingLogin>,
}

pub(crate) struct WaitingLogin {
    pub(crate) account: Jid,
    pub(crate) since_ms: u64,
    pub(crate) custody: Option<Custody>,
    pub(crate) then: Box<WithCredentials>,
}

/// Continues with the credentials, if there are any, and whether the account is disabled; `None` if
/// the store failed.
pub(crate) type WithCredentials = dyn FnOnce(&mut World, Option<(Option<Credentials>, bool)>);

/// A future and its continuation.
pub(crate) struct Task {
    pub(crate) job: Box<dyn LaterJob>,
    pub(crate) waker: Waker,
    pub(crate) session: Option<SessionRef>,
    pub(crate) custody: Option<Custody>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A future and its continuation, of whatever type.
pub(crate) trait LaterJob {
    fn poll(&mut self, context: &mut Context<'_>) -> bool;
    fn finish(self: Box<Self>, world: &mut World, session: Option<SessionRef>);
}

/// A call that is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timer(pub(crate) u64);

/// Runs when its time has come.
pub(crate) type TimerCall = Box<dyn FnOnce(&mut World)>;

/// The calls that are still to come.
#[derive(Default)]
pub(crate) struct Timers {
    pub(crate) due: BinaryHeap<Reverse<(u64, u64)>>,
    pub(crate) calls: Map<u64, TimerCall>,
    pub(crate) last: u64,
}

/// A request without a reply so far: its recipient, and the continuation for its reply.
pub(crate) type Inquiry = (Jid, Box<dyn FnOnce(&mut World, Option<&Packet>)>);

/// Requests without a reply yet.
#[derive(Default)]
pub(crate) struct OpenRequests(pub(crate) Map<String, Inquiry>);

/// Continues with the answers of shards, encoded; `None` stands for a missing one.
pub(crate) type OnGathered = Box<dyn FnOnce(&mut World, Vec<Option<Vec<u8>>>)>;

/// Answers that are still to come.
pub(crate) struct Gathering {
    pub(crate) answers: Vec<Option<Vec<u8>>>,
    pub(crate) timer: Timer,
    pub(crate) then: OnGathered,
    /// A share in the custody of the work that waits, as a question may be lost on its way.
    pub(crate) custody: Option<Custody>,
}

/// All gatherings, by a number that is never used again: an answer that is late finds nothing.
#[derive(Default)]
pub(crate) struct Gatherings {
    pub(crate) waiting: Map<u64, Gathering>,
    pub(crate) last: u64,
}
