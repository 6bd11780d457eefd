//! Passes one answer from the code that computes it to the code that waits for it: a cell without
//! a runtime.
//!
//! Libraries offer this, but none that the server uses anyway: this is less code than the smallest
//! of them, and only as much as a shard needs, whose tasks are polled by hand.
//!
//! # Invariants
//!
//! * The answer is given once; the last registered waker is woken exactly then, on the thread that
//!   gives it.
//! * A completer that is dropped unused wakes the waiter, too, with [`Abandoned`]: no future waits
//!   forever.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::lock::lock;

/// Returns a future for an answer, and the completer that gives it.
pub fn one_shot<T>() -> (Completer<T>, Awaited<T>) {
    let cell = Arc::new(Mutex::new(OneShotCell::Empty(None)));
    (Completer { cell: Some(cell.clone()) }, Awaited { cell })
}

/// Blocks this thread until a future is done: for command-line tools and start-up, never for a
/// shard.
pub fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return answer;
        }
        std::thread::park();
    }
}

/// The answer was never given: the completer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abandoned;

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody is left who could answer")
    }
}

impl std::error::Error for Abandoned {}

/// The side that gives the answer.
pub struct Completer<T> {
    cell: Option<Arc<Mutex<OneShotCell<T>>>>,
}

impl<T> Completer<T> {
    /// Gives the answer and wakes the waiter.
    pub fn complete(mut self, answer: T) {
        self.set(Ok(answer));
    }

    fn set(&mut self, answer: Result<T, Abandoned>) {
        let Some(cell) = self.cell.take() else { return };
        let before = std::mem::replace(&mut *lock(&cell), OneShotCell::Done(answer));
        // The lock is released: the waker may poll at once.
        if let OneShotCell::Empty(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        self.set(Err(Abandoned));
    }
}

impl<T> fmt::Debug for Completer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completer")
    }
}

/// The future of one answer. Dropping it cancels nothing.
pub struct Awaited<T> {
    cell: Arc<Mutex<OneShotCell<T>>>,
}

impl<T> Future for Awaited<T> {
    type Output = Result<T, Abandoned>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut cell = lock(&self.cell);
        match std::mem::replace(&mut *cell, OneShotCell::Taken) {
            OneShotCell::Done(answer) => Poll::Ready(answer),
            OneShotCell::Empty(waker) => {
                let waker = waker.filter(|waker| waker.will_wake(context.waker()));
                *cell = OneShotCell::Empty(Some(waker.unwrap_or_else(|| context.waker().clone())));
                Poll::Pending
            }
            // Polled again after completion, when a future may return anything.
            OneShotCell::Taken => Poll::Ready(Err(Abandoned)),
        }
    }
}

impl<T> fmt::Debug for Awaited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Awaited")
    }
}

enum OneShotCell<T> {
    Empty(Option<Waker>),
    Done(Result<T, Abandoned>),
    Taken,
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
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
        let (completer, mut awaited) = one_shot::<u8>();
        for counter in [&first, &last] {
            let waker = Waker::from(counter.clone());
            assert!(Pin::new(&mut awaited).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(last.0.load(Ordering::SeqCst), 0);
        completer.complete(7);
        assert_eq!((first.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (0, 1));
        assert_eq!(wait(awaited), Ok(7));
    }

    #[test]
    fn a_dropped_completer_is_told() {
        let (completer, awaited) = one_shot::<u8>();
        drop(completer);
        assert_eq!(wait(awaited), Err(Abandoned));
    }

    #[test]
    fn completes_across_threads() {
        let (completer, awaited) = one_shot::<u8>();
        let thread = std::thread::spawn(move || completer.complete(1));
        assert_eq!(wait(awaited), Ok(1));
        thread.join().expect("the completing thread");
    }
}
