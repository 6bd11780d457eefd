//! A store that keeps the order of the calls for one owner and no other: for tests of those who must not rely on more.
//!
//! [`Shuffled`] stands in front of other stores, usually [`Memory`](crate::memory::Memory). An operation reaches those only
//! when the test lets one run, and which one that is, is drawn from a seed: any of those that have no earlier one of the
//! same owner in front of them. So a test sees what several connections to a database may do.

use crate::forward::{Forward, Owners};
use crate::pending::pending;
use crate::{Pending, Stores};
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;

/// Stores that shuffle between owners.
pub struct Shuffled {
    inner: Stores,
    state: Mutex<State>,
}

struct State {
    random: u64,
    waiting: Vec<Waiting>,
}

struct Waiting {
    owners: Owners,
    run: Box<dyn FnOnce(&Stores) + Send>,
}

impl Shuffled {
    /// Shuffles what goes to these stores; the same calls with the same seed give the same order.
    pub fn new(inner: Stores, seed: u64) -> Arc<Shuffled> {
        Arc::new(Shuffled { inner, state: Mutex::new(State { random: seed, waiting: Vec::new() }) })
    }

    /// The stores as the code under test sees them.
    pub fn stores(self: &Arc<Shuffled>) -> Stores {
        Stores::of(self.clone())
    }

    /// Carries out one operation. `false` if none waits.
    pub fn run_one(&self) -> bool {
        // The lock must be free when the operation completes: its waker may call the store.
        let next = self.state().draw();
        next.map(|waiting| (waiting.run)(&self.inner)).is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
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
        self.state().waiting.push(Waiting { owners, run });
        Box::pin(async move { called.await?.await })
    }
}

impl State {
    fn draw(&mut self) -> Option<Waiting> {
        let is_next = |at: &usize| {
            let (before, rest) = self.waiting.split_at(*at);
            rest.first().is_some_and(|own| before.iter().all(|other| !own.owners.waits_for(&other.owners)))
        };
        let next: Vec<usize> = (0..self.waiting.len()).filter(is_next).collect();
        let drawn = next.get((self.number() % next.len().max(1) as u64) as usize).copied()?;
        Some(self.waiting.remove(drawn))
    }

    /// The next number of SplitMix64.
    fn number(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
