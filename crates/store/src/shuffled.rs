//! A store that keeps only the order of the calls for one owner: for tests of code that
//! must not rely on more.
//!
//! [`Shuffled`] wraps other stores, usually [`Memory`](crate::memory::Memory). An operation reaches
//! them only when the test runs one, which a seed chooses among the first ones of each owner. So a
//! test sees any order that several connections to a database may produce.

use crate::forward::{Forward, Owners};
use crate::pending::pending;
use crate::{Pending, Stores};
use std::collections::HashSet;
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

/// The operations among which the next is drawn: a look at thousands for each of them would take
/// minutes.
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
        let next = self.first_of_owners();
        let drawn = next.get(self.sequence.below(next.len())).copied()?;
        Some(self.operations.remove(drawn).1)
    }

    /// Returns the places of the operations that wait for no earlier one, as
    /// [`Owners::waits_for`] says: simulations ask this for each operation, so that comparing it
    /// with all others would take a twentieth of their time.
    fn first_of_owners(&self) -> Vec<usize> {
        let (mut busy, mut busy_archives) = (HashSet::new(), HashSet::new());
        let mut first = Vec::new();
        for (at, (owners, _)) in self.operations.iter().take(MOST_DRAWN).enumerate() {
            let is_first = match owners {
                Owners::These(own) => !own.iter().any(|owner| busy.contains(owner)),
                Owners::Archives(own) => !own.iter().any(|owner| busy.contains(owner) || busy_archives.contains(owner)),
                Owners::All => at == 0,
            };
            if is_first {
                first.push(at);
            }
            match owners {
                Owners::These(own) => busy.extend(own),
                Owners::Archives(own) => busy_archives.extend(own),
                // All later ones wait for this one.
                Owners::All => break,
            }
        }
        first
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some_owners() -> impl Strategy<Value = Owners> {
        let names = || prop::collection::vec("[a-d]", 0..3);
        prop_oneof![8 => names().prop_map(Owners::These), 4 => names().prop_map(Owners::Archives), 1 => Just(Owners::All)]
    }

    proptest! {
        #[test]
        fn what_may_be_next_waits_for_nothing_before_it(all in prop::collection::vec(some_owners(), 0..12)) {
            let mut waiting = ShuffledWaiting::new(0);
            all.iter().for_each(|owners| waiting.push(owners.clone(), ()));
            let is_free = |at: &usize| all[..*at].iter().all(|earlier| !all[*at].waits_for(earlier));
            prop_assert_eq!(waiting.first_of_owners(), (0..all.len()).filter(is_free).collect::<Vec<_>>());
        }
    }
}
