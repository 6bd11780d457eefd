//! A store that keeps only the order of the calls for one owner: for tests of code that
//! must not rely on more.
//!
//! [`Shuffled`] wraps other stores, usually [`Memory`](crate::memory::Memory). An operation reaches
//! them only when the test runs one, which a seed chooses among the first ones of each owner. So a
//! test sees any order that several connections to a database may produce.

use crate::forward::{Forward, Owners};
use crate::pending::pending;
use crate::{Pending, Stores};
use std::sync::{Arc, Mutex};

use rookery_base::chance::Sequence;
use rookery_base::lock::lock;

/// Stores that shuffle between owners.
pub struct Shuffled {
    inner: Stores,
    waiting: Mutex<ShuffledWaiting<ShuffledRun>>,
}

type ShuffledRun = Box<dyn FnOnce(&Stores) + Send>;

/// Operations that were called and not carried out. The next one may be any that has no common
/// owner with an earlier one.
#[derive(Debug)]
pub struct ShuffledWaiting<T> {
    sequence: Sequence,
    operations: Vec<(Owners, T)>,
}

impl Shuffled {
    /// Shuffles the operations on these stores; the same calls with the same seed give the same
    /// order.
    pub fn new(inner: Stores, seed: u64) -> Arc<Shuffled> {
        Arc::new(Shuffled { inner, waiting: Mutex::new(ShuffledWaiting::new(seed)) })
    }

    /// Returns the stores for the code under test.
    pub fn stores(self: &Arc<Shuffled>) -> Stores {
        Stores::of(self.clone())
    }

    /// Carries out one operation. Returns `false` if none waits.
    pub fn run_one(&self) -> bool {
        // The lock must be free when the operation completes: its waker may call the store.
        let next = lock(&self.waiting).take_next();
        next.map(|run| run(&self.inner)).is_some()
    }
}

impl Forward for Shuffled {
    fn inner(&self) -> &Stores {
        &self.inner
    }

    fn forward<T: Send + 'static>(
        &self,
        owners: Owners,
        call: impl FnOnce(&Stores) -> Pending<T> + Send + 'static,
    ) -> Pending<T> {
        let (completer, called) = pending();
        let run = Box::new(move |stores: &Stores| completer.complete(Ok(call(stores))));
        lock(&self.waiting).push(owners, run);
        Box::pin(async move { called.await?.await })
    }
}

/// The operations among which the next is drawn. Each is compared with all before it, so that
/// thousands would take minutes.
const MOST_DRAWN: usize = 100;

impl<T> ShuffledWaiting<T> {
    /// Returns an empty list, whose order is drawn from a seed.
    pub fn new(seed: u64) -> Self {
        Self { sequence: Sequence::new(seed), operations: Vec::new() }
    }

    /// Adds an operation.
    pub fn push(&mut self, owners: Owners, operation: T) {
        self.operations.push((owners, operation));
    }

    /// Takes one of the operations that may be next, out of the oldest hundred; `None` if no
    /// operation waits.
    pub fn take_next(&mut self) -> Option<T> {
        if self.operations.len() == 1 {
            // Most often one waits, for which no list is needed.
            self.sequence.below(1);
            return self.operations.pop().map(|(_, operation)| operation);
        }
        let is_next = |at: &usize| {
            let (before, rest) = self.operations.split_at(*at);
            rest.first().is_some_and(|(own, _)| before.iter().all(|(other, _)| !own.waits_for(other)))
        };
        let next: Vec<usize> = (0..self.operations.len().min(MOST_DRAWN)).filter(is_next).collect();
        let drawn = next.get(self.sequence.below(next.len())).copied()?;
        Some(self.operations.remove(drawn).1)
    }

    /// Takes all of them, in the order of their calls.
    pub fn take_all(&mut self) -> Vec<(Owners, T)> {
        std::mem::take(&mut self.operations)
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether none waits.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}
