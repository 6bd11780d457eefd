//! The queue between the callers and the worker: bounded in operations and in bytes.
//!
//! Bytes count too, because an operation may carry a stanza of 256 KiB: sixteen thousand of them
//! are 4 GiB. Operations that write what they carry have half of the queue: a sender of more than
//! the disk takes must not keep others from logging in, for which the rest is free.

use super::operation::Operation;
use crate::StoreError;
use rookery_observe::{Bound, Most, Per, Unit};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How much may wait in the queue of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Operations that may wait; further ones answer [`StoreError::Busy`] at once.
    pub operations: usize,
    /// Bytes that the waiting operations may carry together; those that write what they carry are half of the operations at most. An operation that comes when
    /// nothing waits is always taken.
    pub bytes: usize,
}

impl Default for Bounds {
    /// 16 384 operations, 64 MiB.
    fn default() -> Bounds {
        DEFAULT
    }
}

const DEFAULT: Bounds = Bounds { operations: 16_384, bytes: 64 << 20 };

/// The bounds of the queue, for the page of limits.
pub const BOUNDS: &[Bound] = &[
    Bound::on("operations that wait for the store", Per::Server, Most::Fixed(DEFAULT.operations as u64), Unit::Number)
        .or("what was asked for gets <resource-constraint/>; operations that only read find half of the places free"),
    Bound::on("what these operations carry", Per::Server, Most::Fixed(DEFAULT.bytes as u64), Unit::Bytes)
        .or("what was asked for gets <resource-constraint/>; half is for those that only read"),
];

pub(crate) struct Queue {
    bounds: Bounds,
    state: Mutex<State>,
    /// Signalled when an operation comes or the queue is closed; only the worker waits for it.
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(usize, Box<dyn Operation>)>,
    bytes: usize,
    /// The number of those that write something that they carry.
    load: usize,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(bounds: Bounds) -> Queue {
        Queue { bounds, state: Mutex::default(), wake: Condvar::new() }
    }

    /// Appends an operation that carries so many bytes, or gives it back with the reason.
    pub(crate) fn push(
        &self,
        bytes: usize,
        operation: Box<dyn Operation>,
    ) -> Result<(), (Box<dyn Operation>, StoreError)> {
        let mut state = self.state();
        if state.closed {
            return Err((operation, StoreError::Closed));
        }
        let is_load = bytes > 0 && operation.writes();
        let load = state.load + usize::from(is_load);
        let crowded = state.waiting.len() >= self.bounds.operations
            || (is_load && load > self.bounds.operations.div_ceil(2))
            || (!state.waiting.is_empty() && state.bytes.saturating_add(bytes) > self.bounds.bytes);
        if crowded {
            return Err((operation, StoreError::Busy));
        }
        state.load = load;
        state.bytes = state.bytes.saturating_add(bytes);
        state.waiting.push_back((bytes, operation));
        let first = state.waiting.len() == 1;
        drop(state);
        if first {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// The next operation if one waits.
    pub(crate) fn take(&self) -> Option<Box<dyn Operation>> {
        self.state().take()
    }

    /// The next operation, as soon as there is one; `None` once the queue is closed and empty.
    pub(crate) fn wait(&self) -> Option<Box<dyn Operation>> {
        let mut state = self.state();
        loop {
            let next = state.take();
            if next.is_some() || state.closed {
                return next;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes no more operations; those that wait are still carried out.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.wake.notify_one();
    }

    /// No caller's code runs under the lock, so it can't be poisoned halfway through a change.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self) -> Option<Box<dyn Operation>> {
        let (bytes, operation) = self.waiting.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.load -= usize::from(bytes > 0 && operation.writes());
        Some(operation)
    }
}
