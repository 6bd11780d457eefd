//! The future that every store method answers with: a one-shot cell without a runtime.
//!
//! Invariants: the value is set once; the last waker given is woken exactly then, on the thread that completed; a
//! completer that is dropped unused completes with [`StoreError::Closed`], so no future waits forever.

use crate::StoreError;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The answer to an operation that was queued when the method was called. Dropping it cancels nothing.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Blocks this thread until the operation is done: for command-line tools and start-up, never for a shard.
pub fn wait<T>(pending: Pending<T>) -> Result<T, StoreError> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut pending = pin!(pending);
    loop {
        if let Poll::Ready(answer) = pending.as_mut().poll(&mut Context::from_waker(&waker)) {
            return answer;
        }
        std::thread::park();
    }
}

/// A future and what completes it.
pub fn pending<T: Send + 'static>() -> (Completer<T>, Pending<T>) {
    let cell = Arc::new(Mutex::new(Cell::Empty(None)));
    (Completer { cell: Some(cell.clone()) }, Box::pin(Answer { cell }))
}

/// A future that is done.
pub(crate) fn ready<T: Send + 'static>(answer: Result<T, StoreError>) -> Pending<T> {
    Box::pin(std::future::ready(answer))
}

/// Completes one [`Pending`].
pub struct Completer<T> {
    cell: Option<Arc<Mutex<Cell<T>>>>,
}

impl<T> Completer<T> {
    /// Sets the answer and wakes whoever waits.
    pub fn complete(mut self, answer: Result<T, StoreError>) {
        self.set(answer);
    }

    fn set(&mut self, answer: Result<T, StoreError>) {
        let Some(cell) = self.cell.take() else { return };
        let before = std::mem::replace(&mut *lock(&cell), Cell::Done(answer));
        // The lock is released: the waker may poll at once.
        if let Cell::Empty(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        self.set(Err(StoreError::Closed));
    }
}

/// Runs code that a caller gave, so that its panic is an error. The store undoes what it left half done.
pub(crate) fn caught<T>(run: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(StoreError::Panicked(words(panic.as_ref()))))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words").to_owned()
}

struct Answer<T> {
    cell: Arc<Mutex<Cell<T>>>,
}

impl<T> Future for Answer<T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut cell = lock(&self.cell);
        match std::mem::replace(&mut *cell, Cell::Taken) {
            Cell::Done(answer) => Poll::Ready(answer),
            Cell::Empty(waker) => {
                let waker = waker.filter(|waker| waker.will_wake(context.waker()));
                *cell = Cell::Empty(Some(waker.unwrap_or_else(|| context.waker().clone())));
                Poll::Pending
            }
            // Polled again after it was done, which futures allow to answer anything.
            Cell::Taken => Poll::Ready(Err(StoreError::Closed)),
        }
    }
}

enum Cell<T> {
    Empty(Option<Waker>),
    Done(Result<T, StoreError>),
    Taken,
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A cell is replaced in one step, so a panic elsewhere can't leave it half changed.
fn lock<T>(cell: &Mutex<T>) -> MutexGuard<'_, T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn wakes_the_last_waker_once_and_when_done() {
        let (first, last) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
        let (completer, mut pending) = pending::<u8>();
        for counter in [&first, &last] {
            let waker = Waker::from(counter.clone());
            assert!(pending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(last.0.load(Ordering::SeqCst), 0);
        completer.complete(Ok(7));
        assert_eq!((first.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (0, 1));
        assert_eq!(wait(pending), Ok(7));
    }

    #[test]
    fn a_dropped_completer_answers_closed() {
        let (completer, pending) = pending::<u8>();
        drop(completer);
        assert_eq!(wait(pending), Err(StoreError::Closed));
    }

    #[test]
    fn completes_across_threads() {
        let (completer, pending) = pending::<u8>();
        let thread = std::thread::spawn(move || completer.complete(Ok(1)));
        assert_eq!(wait(pending), Ok(1));
        thread.join().expect("the completing thread");
    }
}
