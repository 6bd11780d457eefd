//! Measures the duration of waits.

use std::time::{Duration, Instant};

/// The start of a wait.
#[derive(Debug, Clone, Copy)]
pub struct Since(Instant);

impl Since {
    /// Returns the moment of the call.
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since the start of the wait.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
