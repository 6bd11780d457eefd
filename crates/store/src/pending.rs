//! The future that every store method returns: [`rookery_base::one_shot`] with the store's errors.
//!
//! Invariant: a completer that is dropped without use completes with [`StoreError::Closed`], so no
//! future waits forever.

use crate::StoreError;
use rookery_base::{Abandoned, one_shot};
use rookery_observe::WaitParts;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

/// The answer to an operation that was queued when the method was called. Dropping it cancels
/// nothing.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Returns a future, and the completer for it.
pub(crate) fn pending<T: Send + 'static>() -> (StoreCompleter<T>, Pending<T>) {
    let (completer, awaited) = one_shot::<TimedAnswer<T>>();
    let pending = async {
        let (answer, parts) = awaited.await.unwrap_or_else(|Abandoned| (Err(StoreError::Closed), None));
        if let Some(parts) = parts {
            parts.give();
        }
        answer
    };
    (StoreCompleter(completer), Box::pin(pending))
}

/// An answer, and where the time went, if it was measured.
type TimedAnswer<T> = (Result<T, StoreError>, Option<WaitParts>);

/// Returns a future that is done.
pub(crate) fn ready<T: Send + 'static>(answer: Result<T, StoreError>) -> Pending<T> {
    Box::pin(std::future::ready(answer))
}

/// Completes one [`Pending`].
pub(crate) struct StoreCompleter<T>(rookery_base::Completer<TimedAnswer<T>>);

impl<T> StoreCompleter<T> {
    /// Sets the answer and wakes the waiting task.
    pub(crate) fn complete(self, answer: Result<T, StoreError>) {
        self.0.complete((answer, None));
    }

    /// Sets the answer as [`StoreCompleter::complete`] does, with the parts of its time.
    pub(crate) fn complete_after(self, answer: Result<T, StoreError>, parts: Option<WaitParts>) {
        self.0.complete((answer, parts));
    }
}

/// Runs the caller's code and turns a panic into an error. The store then undoes the unfinished
/// work.
pub(crate) fn catch<T>(run: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(StoreError::Panicked(words(panic.as_ref()))))
}

/// Returns the words of a panic.
pub(crate) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_completer_answers_closed() {
        let (completer, pending) = pending::<u8>();
        drop(completer);
        assert_eq!(rookery_base::wait(pending), Err(StoreError::Closed));
    }
}
