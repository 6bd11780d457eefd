//! The writes that an import has given to the store without waiting for them: enough to keep it
//! busy, and few enough that none waits for long.

use std::collections::VecDeque;

use rookery_store::{Pending, StoreError, wait};

/// Writes of one account, oldest first, with their bytes.
#[derive(Default)]
pub struct WritesAhead {
    writes: VecDeque<(usize, Pending<()>)>,
    bytes: usize,
}

impl WritesAhead {
    /// Takes a write that carries so many bytes. Waits for the oldest ones first if there are too
    /// many.
    ///
    /// # Errors
    ///
    /// Those of the writes that were waited for.
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

    /// Takes a batch of messages for an archive, as [`push`](WritesAhead::push) does.
    ///
    /// # Errors
    ///
    /// Those of the writes that were waited for.
    pub fn push_batch(&mut self, bytes: usize, batch: Pending<()>) -> Result<(), StoreError> {
        self.push(bytes.max(MOST_BYTES / MOST_BATCHES), batch)
    }

    /// Waits for all.
    ///
    /// # Errors
    ///
    /// The first of theirs.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        self.bytes = 0;
        std::mem::take(&mut self.writes).into_iter().try_for_each(|(_, write)| wait(write))
    }
}

/// Writes that are ahead.
const MOST: usize = 256;

/// The same in bytes: a part of what the store's queue holds.
const MOST_BYTES: usize = 16 << 20;

/// Batches for archives that are ahead. A database that is another process refuses what has waited
/// for five seconds, and with an index of searches a batch may take it a tenth of one.
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
