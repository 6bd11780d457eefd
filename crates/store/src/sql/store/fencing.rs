//! Fences processes off, each time on a separate thread that waits for no queue.

use super::SqlStore;
use crate::fencing::{ProcessWriter, not_shared};
use crate::pending::{catch, pending, ready};
use crate::sql::fence::FenceRows;
use crate::{Fencing, Pending, StoreError};
use std::thread;

impl Fencing for SqlStore {
    fn enlist(&self, own: ProcessWriter) -> Pending<()> {
        self.apart(move |fences| fences.enlist(own))
    }

    fn fence(&self, other: ProcessWriter) -> Pending<bool> {
        self.apart(move |fences| fences.fence(other))
    }

    fn when_fenced(&self, tell: Box<dyn FnOnce() + Send>) {
        if let Some(fences) = self.fences() {
            fences.when_fenced(tell);
        }
    }
}

impl SqlStore {
    /// Runs work on a separate thread.
    fn apart<T: Send + 'static>(
        &self,
        run: impl FnOnce(&dyn FenceRows) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        let Some(fences) = self.fences() else { return ready(Err(not_shared())) };
        let (completer, done) = pending();
        let run = move || completer.complete(catch(|| run(&*fences)));
        // A thread that can't be started completes nothing, which looks to callers like the end of
        // the store.
        if let Ok(thread) = thread::Builder::new().name("store-fence".into()).spawn(run) {
            self.keep(thread);
        }
        done
    }
}
