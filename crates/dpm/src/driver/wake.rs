//! The handle by which another thread ends the waiting of the one that serves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Ends a wait. Clones mean the same one.
#[derive(Debug, Clone)]
pub struct Wake(Arc<OwnedFd>);

impl Wake {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Ends the wait that is going on, or else the next one.
    pub fn wake(&self) {
        // It fails only where the counter is full: then a wake is under way.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes the wake that came.
    pub(super) fn rest(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
