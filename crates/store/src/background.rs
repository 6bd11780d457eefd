//! Threads for work that takes milliseconds, such as deriving keys from a password: a shard never does it itself.
//!
//! The answer is the same kind of future that a store gives, so whoever waits for the one can wait for the other.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pending::{Completer, pending};
use crate::{Pending, StoreError};

/// A few threads with one bounded queue. Cloning shares them; they end with the last clone.
#[derive(Clone, Debug)]
pub struct Background {
    /// `None`: work is done where it is asked for.
    queue: Option<SyncSender<Work>>,
}

type Work = Box<dyn FnOnce() + Send>;

impl Background {
    /// Starts `threads` threads, at least one.
    ///
    /// # Errors
    /// What the system says when it gives no thread.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let (queue, work) = sync_channel(QUEUE);
        let work = Arc::new(Mutex::new(work));
        for _ in 0..threads.max(1) {
            let work = work.clone();
            std::thread::Builder::new().name("background".into()).spawn(move || serve(&work))?;
        }
        Ok(Self { queue: Some(queue) })
    }

    /// Does all work at once, on the thread that asks: for tests, where nothing may happen by chance.
    pub fn in_place() -> Self {
        Self { queue: None }
    }

    /// Has `work` done. Answers [`StoreError::Busy`] if too much waits already, [`StoreError::Panicked`] if it panics.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
        let (completer, answer): (Completer<T>, _) = pending();
        let job: Work = Box::new(move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            completer.complete(outcome.map_err(|_| StoreError::Panicked("background work".into())));
        });
        let Some(queue) = &self.queue else {
            job();
            return answer;
        };
        match queue.try_send(job) {
            Ok(()) => answer,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => crate::pending::ready(Err(StoreError::Busy)),
        }
    }
}

fn serve(work: &Mutex<Receiver<Work>>) {
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(work) => work(),
            Err(_) => return,
        }
    }
}

/// Pieces of work that may wait.
const QUEUE: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait;

    #[test]
    fn work_is_answered_and_a_panic_harms_nobody() {
        let background = Background::new(2).unwrap();
        assert_eq!(wait(background.run(|| 6 * 7)), Ok(42));
        let broken: Pending<u8> = background.run(|| panic!("as a bug would"));
        assert!(matches!(wait(broken), Err(StoreError::Panicked(_))));
        assert_eq!(wait(background.run(|| 1)), Ok(1));
    }
}
