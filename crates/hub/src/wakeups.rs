//! Tells a shard from other threads which of its tasks to poll.

use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use rookery_base::lock::lock;

/// The tasks that a shard has to poll, as the store's thread reports them. This is the only part of
/// a world that is shared with another thread.
pub struct Wakeups {
    woken: Mutex<Vec<usize>>,
    notify: Box<dyn Fn() + Send + Sync>,
}

impl Wakeups {
    /// Creates a queue of wake-ups. `notify` is called from any thread when the first task enters
    /// an empty queue.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { woken: Mutex::default(), notify: Box::new(notify) })
    }

    /// Notes that a task has to be polled.
    pub(crate) fn push(&self, task: usize) {
        let mut woken = lock(&self.woken);
        woken.push(task);
        if woken.len() == 1 {
            drop(woken);
            (self.notify)();
        }
    }

    /// Returns the tasks that were woken since the last call.
    pub(crate) fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *lock(&self.woken))
    }
}

impl std::fmt::Debug for Wakeups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wakeups")
    }
}

struct TaskWaker {
    task: usize,
    wakeups: Arc<Wakeups>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wakeups.push(self.task);
    }
}

/// Returns a waker that puts the task on the list of those to be polled; it may be used from any
/// thread.
pub(crate) fn waker(task: usize, wakeups: Arc<Wakeups>) -> Waker {
    Waker::from(Arc::new(TaskWaker { task, wakeups }))
}
