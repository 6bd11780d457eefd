//! The queues between the callers and the lanes: bounded in operations and in bytes, per queue and
//! in total.
//!
//! Bytes count too, because an operation may carry a stanza of 256 KiB: sixteen thousand of them
//! are 4 GiB. Operations that carry data to write get at most half of the places, because a sender
//! of more than the disk can take must not keep others from logging in. No lane takes the places of
//! all others, so a lane that is stuck only refuses its own owners.
//!
//! # Order
//!
//! An operation that must come after those waiting in other lanes has a gate: the progress that it
//! requires of those lanes. An operation that others must come after, wherever they are, leaves a
//! mark in each of their lanes, which holds up later operations until it is done. For the archives'
//! lane the last operation of each owner is recorded, so that a page only waits for its owner's.
//! All queues have one lock, so an operation takes its place in all of them at once, and lanes
//! never wait for each other in a circle.

use super::lanes::LaneRoute;
use super::operation::Operation;
use crate::StoreError;
use rookery_observe::{Bound, Most, Per, Unit};
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rookery_base::lock::lock;

/// The most that may wait in the queue of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// The most waiting operations; further ones fail with [`StoreError::Busy`] at once. Those that
    /// carry data to write may have half of the places.
    pub operations: usize,
    /// The most bytes that the waiting operations carry together. Those that carry data to write
    /// may have half of them. An operation is always accepted if the queue is empty.
    pub bytes: usize,
}

impl Default for QueueBounds {
    /// Returns 16 384 operations, 64 MiB.
    fn default() -> QueueBounds {
        DEFAULT
    }
}

const DEFAULT: QueueBounds = QueueBounds { operations: 16_384, bytes: 64 << 20 };

/// The bounds of the queue, for the page of limits.
pub const BOUNDS: &[Bound] = &[
    Bound::on("operations that wait for the store", Per::Server, Most::Fixed(DEFAULT.operations as u64), Unit::Number)
        .or("the request that needs it gets <resource-constraint/>; operations that only read find half of the places free"),
    Bound::on("the data of these operations", Per::Server, Most::Fixed(DEFAULT.bytes as u64), Unit::Bytes)
        .or("the request that needs it gets <resource-constraint/>; half is for those that only read"),
];

/// The times for which operations wait for a database in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The time that operations of a login wait for an unavailable database.
    pub login: Duration,
    /// The time that all other operations wait.
    pub other: Duration,
    /// The time in which an available database answers a statement.
    pub answer: Duration,
}

impl Patience {
    /// Returns the patience of a command, which an operator would only have to repeat: ten minutes.
    pub const fn of_commands() -> Patience {
        let most = Duration::from_secs(10 * 60);
        Patience { login: most, other: most, answer: Duration::from_secs(60) }
    }
}

impl Default for Patience {
    /// Returns the patience of a server, whose users wait for operations: ten seconds for a
    /// login, five for others, six for an answer.
    fn default() -> Patience {
        let seconds = Duration::from_secs;
        Patience { login: seconds(10), other: seconds(5), answer: seconds(6) }
    }
}

/// The queues of all lanes.
pub(crate) struct Queues {
    bounds: QueueBounds,
    patience: Option<Patience>,
    state: Mutex<QueueState>,
    /// Signalled when the first operation of a lane may run, or the queues are closed; only the
    /// lane's worker waits for it.
    wakes: Box<[Condvar]>,
    /// Signalled when the queues are closed.
    closing: Condvar,
}

struct QueueState {
    lanes: Box<[Lane]>,
    last: LastOf,
    fill: Fill,
    closed: bool,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<QueuedOperation>,
    fill: Fill,
    /// The number of the last operation that was queued; they count from 1.
    queued: u64,
    /// The number up to which all operations are done.
    done: u64,
    /// The time when the first operation of the running batch was queued.
    running: Option<Instant>,
    /// The number and bytes of this batch's operations.
    taken: Fill,
}

#[derive(Default)]
struct Fill {
    operations: usize,
    bytes: usize,
    /// The number of operations that carry data to write, and their bytes.
    load: (usize, usize),
}

struct QueuedOperation {
    number: u64,
    gate: LaneGate,
    /// True if it may overtake operations that have to wait.
    overtakes: bool,
    /// The operation; `None` in a mark.
    queued: Option<Queued>,
}

/// Lanes, and the progress that each must have made.
type LaneGate = Option<Box<[(usize, u64)]>>;

/// An operation with a place in a queue.
pub(crate) struct Queued {
    pub(crate) operation: Box<dyn Operation>,
    /// The time at which its caller gets an error if the database is unavailable; `None` for never.
    pub(crate) until: Option<Instant>,
    /// True if it must see what other lanes have written so far.
    pub(crate) is_fresh: bool,
    /// The time at which it was queued.
    pub(crate) since: Instant,
    bytes: usize,
}

/// The next step of a lane.
pub(crate) enum Next {
    /// An operation to carry out.
    Operation(Queued),
    /// Nothing for now.
    Nothing,
    /// Nothing any more.
    Closed,
}

impl Queues {
    pub(crate) fn new(lanes: usize, bounds: QueueBounds, patience: Option<Patience>) -> Queues {
        let lanes: Box<[_]> = (0..lanes).map(|_| Lane::default()).collect();
        let wakes = lanes.iter().map(|_| Condvar::new()).collect();
        let state = QueueState { lanes, last: LastOf::default(), fill: Fill::default(), closed: false };
        Queues { bounds, patience, state: Mutex::new(state), wakes, closing: Condvar::new() }
    }

    /// Appends an operation with this many bytes, or returns it with the reason.
    pub(crate) fn push(
        &self,
        route: LaneRoute,
        bytes: usize,
        operation: Box<dyn Operation>,
    ) -> Result<(), (Box<dyn Operation>, StoreError)> {
        let since = Instant::now();
        let patience = |patience: Patience| if route.is_login { patience.login } else { patience.other };
        let until = self.patience.map(|most| since + patience(most));
        let mut state = self.state();
        if state.closed {
            return Err((operation, StoreError::Closed));
        }
        let is_load = bytes > 0 && operation.writes();
        let share = self.share(state.lanes.len());
        if !state.fill.takes(self.bounds, bytes, is_load) || !state.lanes[route.on].fill.takes(share, bytes, is_load) {
            return Err((operation, StoreError::Busy));
        }
        let on = route.on;
        let is_fresh = route.overtakes;
        let is_next = state.push(&route, Queued { operation, until, is_fresh, since, bytes });
        drop(state);
        if is_next {
            self.wakes[on].notify_one();
        }
        Ok(())
    }

    /// Returns one lane's share of the bounds.
    fn share(&self, lanes: usize) -> QueueBounds {
        let share = |all: usize| (all / lanes).saturating_mul(SHARES).clamp(all.min(1), all);
        QueueBounds { operations: share(self.bounds.operations), bytes: share(self.bounds.bytes) }
    }

    /// Takes a lane's next operation, if one waits that may run.
    pub(crate) fn take(&self, lane: usize) -> Option<Queued> {
        self.state().take(lane)
    }

    /// Returns a lane's next operation, as soon as there is one that may run or the time is over.
    /// Everything that the lane took before counts as done.
    pub(crate) fn wait(&self, lane: usize, most: Option<Duration>) -> Next {
        let mut state = self.state();
        let end = most.map(|most| Instant::now() + most);
        loop {
            if state.settle(lane) {
                self.wake_others(&state, lane);
            }
            if let Some(next) = state.take(lane) {
                state.lanes[lane].running = Some(next.since);
                return Next::Operation(next);
            }
            if state.closed && state.lanes[lane].waiting.is_empty() {
                return Next::Closed;
            }
            let wake = &self.wakes[lane];
            state = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Next::Nothing,
                Some(left) => wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Refuses further operations; waiting ones are still carried out.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.wakes.iter().for_each(Condvar::notify_one);
        self.closing.notify_all();
    }

    /// Gives up a lane that isn't served any longer, and the store with it: a dropped operation
    /// returns [`StoreError::Closed`].
    pub(crate) fn abandon(&self, lane: usize) {
        let mut state = self.state();
        state.closed = true;
        let given_up: Vec<_> = std::iter::from_fn(|| state.pop(lane)).collect();
        state.lanes[lane].done = u64::MAX;
        state.lanes[lane].running = None;
        state.lanes[lane].taken = Fill::default();
        drop(state);
        drop(given_up);
        self.wakes.iter().for_each(Condvar::notify_one);
        self.closing.notify_all();
    }

    /// Removes the operations whose wait is over at a time.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<Box<dyn Operation>> {
        let mut state = self.state();
        let mut overdue = Vec::new();
        for lane in 0..state.lanes.len() {
            let is_overdue = |waiting: &QueuedOperation| {
                waiting.queued.as_ref().and_then(|queued| queued.until).is_some_and(|until| until <= now)
            };
            if !state.lanes[lane].waiting.iter().any(is_overdue) {
                continue;
            }
            let all = std::mem::take(&mut state.lanes[lane].waiting);
            for waiting in all {
                match waiting {
                    waiting if !is_overdue(&waiting) => state.lanes[lane].waiting.push_back(waiting),
                    QueuedOperation { queued: Some(queued), .. } => {
                        state.forget(lane, &queued);
                        overdue.push(queued.operation);
                    }
                    QueuedOperation { queued: None, .. } => {}
                }
            }
            self.wakes[lane].notify_one();
        }
        overdue
    }

    /// Returns the time for which the oldest unfinished operation has waited.
    pub(crate) fn waiting(&self) -> Duration {
        let state = self.state();
        let first = |lane: &Lane| lane.waiting.iter().find_map(|waiting| Some(waiting.queued.as_ref()?.since));
        let oldest = state.lanes.iter().filter_map(|lane| lane.running.or_else(|| first(lane))).min();
        oldest.map_or(Duration::ZERO, |oldest| oldest.elapsed())
    }

    /// Returns the number of operations that wait or run, and the bytes that these carry.
    pub(crate) fn load(&self) -> (usize, usize) {
        let state = self.state();
        let all = state.lanes.iter().map(|lane| &lane.taken).chain([&state.fill]);
        all.fold((0, 0), |(operations, bytes), fill| (operations + fill.operations, bytes + fill.bytes))
    }

    /// Returns true if no more operations are accepted.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), expect(dead_code, reason = "left out of this build"))]
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Waits for a time, unless the queues are closed. Returns whether any operation waits or runs,
    /// or may arrive.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let state = self.state();
        let is_open = |state: &mut QueueState| !state.closed;
        let (state, _) = self.closing.wait_timeout_while(state, time, is_open).unwrap_or_else(PoisonError::into_inner);
        !state.closed || state.lanes.iter().any(|lane| lane.running.is_some() || !lane.waiting.is_empty())
    }

    /// Wakes the lanes that one lane may have held up.
    fn wake_others(&self, state: &QueueState, lane: usize) {
        for (other, wake) in self.wakes.iter().enumerate().filter(|(other, _)| *other != lane) {
            if state.next(other).is_some_and(|at| state.lanes[other].waiting[at].gate.is_some()) {
                wake.notify_one();
            }
        }
    }

    /// Locks the queue. No caller's code runs under the lock, so it can't be poisoned halfway
    /// through a change.
    fn state(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }
}

impl QueueState {
    /// Queues an operation in its lanes. Returns whether its lane may run it.
    fn push(&mut self, route: &LaneRoute, queued: Queued) -> bool {
        let is_load = queued.bytes > 0 && queued.operation.writes();
        let (gate, overtakes) = (self.gate(route), route.overtakes);
        self.fill.add(queued.bytes, is_load);
        let lane = &mut self.lanes[route.on];
        lane.fill.add(queued.bytes, is_load);
        lane.queued += 1;
        let number = lane.queued;
        lane.waiting.push_back(QueuedOperation { number, gate, overtakes, queued: Some(queued) });
        let is_next = overtakes || lane.waiting.len() == 1;
        self.last.put(&route.last_of, number, self.lanes[route.on].done);
        for held in route.holds.iter().filter(|held| *held != route.on) {
            let lane = &mut self.lanes[held];
            lane.queued += 1;
            let gate: LaneGate = Some([(route.on, number)].into());
            lane.waiting.push_back(QueuedOperation { number: lane.queued, gate, overtakes: false, queued: None });
        }
        is_next
    }

    /// Returns the operations that a new one must wait for.
    fn gate(&self, route: &LaneRoute) -> LaneGate {
        let behind = route.behind.iter().map(|lane| (lane, self.lanes[lane].queued));
        let after = route.after.and_then(|(lane, owner)| Some((lane, *self.last.of.get(&owner)?)));
        let all = behind.chain(after).filter(|(lane, number)| *lane != route.on && self.lanes[*lane].done < *number);
        let gate: Box<[_]> = all.collect();
        (!gate.is_empty()).then_some(gate)
    }

    fn is_open(&self, gate: &LaneGate) -> bool {
        gate.iter().flatten().all(|(lane, number)| self.lanes[*lane].done >= *number)
    }

    /// Returns the place of the operation that a lane may run: the first, or one that overtakes
    /// it.
    fn next(&self, lane: usize) -> Option<usize> {
        let waiting = &self.lanes[lane].waiting;
        let first = waiting.front()?;
        if self.is_open(&first.gate) {
            return Some(0);
        }
        // An operation that can't overtake holds up all operations after it.
        let free = waiting.iter().take_while(|waiting| waiting.overtakes);
        free.enumerate().find(|(_, waiting)| self.is_open(&waiting.gate)).map(|(at, _)| at)
    }

    /// Takes the next operation of a lane that may run.
    fn take(&mut self, lane: usize) -> Option<Queued> {
        let at = self.next(lane)?;
        self.lanes[lane].waiting[at].queued.as_ref()?;
        let queued = self.remove(lane, at)?.queued?;
        self.lanes[lane].taken.add(queued.bytes, false);
        Some(queued)
    }

    fn pop(&mut self, lane: usize) -> Option<QueuedOperation> {
        self.remove(lane, 0)
    }

    fn remove(&mut self, lane: usize, at: usize) -> Option<QueuedOperation> {
        let removed = self.lanes[lane].waiting.remove(at)?;
        if let Some(queued) = &removed.queued {
            self.forget(lane, queued);
        }
        Some(removed)
    }

    fn forget(&mut self, lane: usize, queued: &Queued) {
        let is_load = queued.bytes > 0 && queued.operation.writes();
        self.fill.remove(queued.bytes, is_load);
        self.lanes[lane].fill.remove(queued.bytes, is_load);
    }

    /// Records that a lane has finished all operations it took, and passes marks that no longer
    /// hold it up. Returns whether other lanes may continue because of that.
    fn settle(&mut self, lane: usize) -> bool {
        while self.lanes[lane].waiting.front().is_some_and(|first| first.queued.is_none() && self.is_open(&first.gate))
        {
            self.lanes[lane].waiting.pop_front();
        }
        let lane = &mut self.lanes[lane];
        lane.running = None;
        lane.taken = Fill::default();
        let done = lane.waiting.front().map_or(lane.queued, |first| first.number - 1);
        std::mem::replace(&mut lane.done, done) < done
    }
}

impl Fill {
    fn takes(&self, bounds: QueueBounds, bytes: usize, is_load: bool) -> bool {
        let (loads, loaded) = self.load;
        let loads_fit = loads < bounds.operations.div_ceil(2)
            && (loads == 0 || loaded.saturating_add(bytes) <= bounds.bytes.div_ceil(2));
        self.operations < bounds.operations
            && (!is_load || loads_fit)
            && (self.operations == 0 || self.bytes.saturating_add(bytes) <= bounds.bytes)
    }

    fn add(&mut self, bytes: usize, is_load: bool) {
        self.operations += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if is_load {
            self.load = (self.load.0 + 1, self.load.1.saturating_add(bytes));
        }
    }

    fn remove(&mut self, bytes: usize, is_load: bool) {
        self.operations -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        if is_load {
            self.load = (self.load.0 - 1, self.load.1.saturating_sub(bytes));
        }
    }
}

/// The last operation of each owner in a lane for which that is recorded, by the owner's hash.
/// Finished ones are removed at intervals.
#[derive(Default)]
struct LastOf {
    of: HashMap<u64, u64>,
    /// The number of owners that remained after the last removal.
    tidied: usize,
}

impl LastOf {
    /// Records an operation; `done` is the number up to which all are done.
    fn put(&mut self, owners: &[u64], number: u64, done: u64) {
        if !owners.is_empty() && self.of.len() > 2 * self.tidied + LEAST_TIDIED {
            self.of.retain(|_, last| *last > done);
            self.tidied = self.of.len();
        }
        self.of.extend(owners.iter().map(|owner| (*owner, number)));
    }
}

#[cfg(test)]
mod tests;

/// The number of recorded owners above which finished ones are searched for.
const LEAST_TIDIED: usize = 4096;

/// The number of shares of the bounds that a lane may have: the bounds divided by the lanes are
/// one.
const SHARES: usize = 4;
