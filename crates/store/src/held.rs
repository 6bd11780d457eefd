//! A store that is slow or broken on demand, for tests of code that has to cope with that.
//!
//! [`HeldStores`] wraps other stores, usually [`Memory`](crate::memory::Memory). An operation
//! reaches them when it is called, as it would without this wrapper; only its completion is held
//! back. So a test sees the effect of a slow disk: the order is fixed, the answer is late.

use crate::forward::{Forward, Owners};
use crate::pending::{StoreCompleter, pending, ready};
use crate::{Pending, StoreError, Stores};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;

/// Stores whose completions the test releases.
pub struct HeldStores {
    inner: Stores,
    state: Mutex<HeldState>,
}

#[derive(Default)]
struct HeldState {
    flows: bool,
    most_logins: Option<usize>,
    fault: Option<StoreError>,
    /// The operation that fails, counted from the next one, which is 0.
    fails_at: Option<(usize, StoreError)>,
    waiting: VecDeque<StoreCompleter<()>>,
}

impl HeldStores {
    /// Holds every completion of these stores back.
    pub fn new(inner: Stores) -> Arc<HeldStores> {
        Arc::new(HeldStores { inner, state: Mutex::default() })
    }

    /// Returns the stores as the code under test sees them.
    pub fn stores(self: &Arc<HeldStores>) -> Stores {
        Stores::of(self.clone())
    }

    /// Returns how many operations were called and not released.
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Completes the oldest operation. Returns `false` if none waits.
    pub fn release_one(&self) -> bool {
        // The lock must be free when the waker runs: it may call the store.
        let next = self.state().waiting.pop_front();
        next.map(|next| next.complete(Ok(()))).is_some()
    }

    /// Completes all waiting operations, oldest first, and returns their number.
    pub fn release_all(&self) -> usize {
        let waiting = std::mem::take(&mut self.state().waiting);
        let released = waiting.len();
        waiting.into_iter().for_each(|next| next.complete(Ok(())));
        released
    }

    /// Sets whether later operations complete by themselves (`true`), or wait for a release as at
    /// the start (`false`).
    pub fn set_flowing(&self, flows: bool) {
        self.state().flows = flows;
    }

    /// Makes later operations change nothing and fail with this error; with `None` they are carried
    /// out again.
    pub fn set_fault(&self, fault: Option<StoreError>) {
        self.state().fault = fault;
    }

    /// Limits the logins that run at the same time.
    pub fn set_logins_at_once(&self, most: usize) {
        self.state().most_logins = Some(most);
    }

    /// Makes one of the later operations, counted from 0, change nothing and fail with this error.
    /// [`HeldStores::has_failed`] returns whether it has.
    pub fn fail_one(&self, at: usize, fault: StoreError) {
        self.state().fails_at = Some((at, fault));
    }

    /// Returns whether the operation of [`HeldStores::fail_one`] has been called.
    pub fn has_failed(&self) -> bool {
        self.state().fails_at.is_none()
    }

    fn state(&self) -> MutexGuard<'_, HeldState> {
        lock(&self.state)
    }
}

impl Forward for HeldStores {
    fn inner(&self) -> &Stores {
        &self.inner
    }

    fn most_logins(&self) -> usize {
        self.state().most_logins.unwrap_or(usize::MAX)
    }

    /// Calls the operation, unless it is to fail, and holds its completion back, unless operations
    /// flow.
    fn forward<T: Send + 'static>(
        &self,
        _: Owners,
        call: impl FnOnce(&Stores) -> Pending<T> + Send + 'static,
    ) -> Pending<T> {
        let fault = self.state().next_fault();
        let answer = fault.map_or_else(|| call(&self.inner), |error| ready(Err(error)));
        let mut state = self.state();
        if state.flows {
            return answer;
        }
        let (completer, released) = pending();
        state.waiting.push_back(completer);
        Box::pin(async move {
            released.await?;
            answer.await
        })
    }
}

impl HeldState {
    fn next_fault(&mut self) -> Option<StoreError> {
        match self.fails_at.take() {
            Some((0, fault)) => return Some(fault),
            Some((at, fault)) => self.fails_at = Some((at - 1, fault)),
            None => {}
        }
        self.fault.clone()
    }
}
