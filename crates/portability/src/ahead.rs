//! The writes that an import has started without waiting for them: enough to keep the store busy,
//! and so few that none waits for long.

use std::collections::VecDeque;

use rookery_store::{Pending, StoreError, wait};

/// The writes of one account, oldest first, with their bytes.
#[derive(Default)]
pub struct WritesAhead {
    writes: VecDeque<(usize, Pending<()>)>,
    bytes: usize,
}

impl WritesAhead {
    /// Adds a write of this many bytes. If too many writes are ahead, waits for the oldest ones.
    ///
    /// # Errors
    ///
    /// The error of a write that was waited for.
    pub fn push(&mut self, bytes: usize, write: Pending<()>) -> Result<(), StoreError> {
        self.writes.push_back((bytes, write));
        self.bytes += bytes;
        while (self.writes.len() > MOST || self.bytes > MOST_BYTES)
            && let Some((bytes, oldest)) = self.writes.pop_front()
        {
            self.bytes -= bytes;
            wait(oldest)?;
        }
        Ok(())
    }

    /// Adds a batch of messages for an archive, and otherwise does the same as
    /// [`push`](WritesAhead::push).
    ///
    /// # Errors
    ///
    /// The error of a write that was waited for.
    pub fn push_batch(&mut self, bytes: usize, batch: Pending<()>) -> Result<(), StoreError> {
        self.push(bytes.max(MOST_BYTES / MOST_BATCHES), batch)
    }

    /// Waits for all writes.
    ///
    /// # Errors
    ///
    /// The error of the first write that failed.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        self.bytes = 0;
        std::mem::take(&mut self.writes).into_iter().try_for_each(|(_, write)| wait(write))
    }
}

/// The most writes that are started before the oldest one is waited for.
const MOST: usize = 256;

/// The most bytes of these writes: a part of the store's queue.
const MOST_BYTES: usize = 16 << 20;

/// The most batches for archives among these writes. A database server refuses operations that have
/// waited for five seconds, and with a search index, a batch may take a tenth of a second.
const MOST_BATCHES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_batch_has_more_than_sixteen_to_wait_for() {
        let (waited, mut ahead) = (Arc::new(AtomicUsize::new(0)), WritesAhead::default());
        for pushed in 1..100 {
            let waited_for = waited.clone();
            let batch = Box::pin(async move {
                waited_for.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            ahead.push_batch(1000, batch).expect("taken");
            assert_eq!(pushed - waited.load(Ordering::Relaxed), pushed.min(MOST_BATCHES));
        }
        ahead.finish().expect("written");
        assert_eq!(waited.load(Ordering::Relaxed), 99);
    }
}
