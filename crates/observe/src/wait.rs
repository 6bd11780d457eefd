//! Measures the duration of waits.

use std::time::{Duration, Instant};

/// The moment at which something began.
#[derive(Debug, Clone, Copy)]
pub struct Since(Instant);

impl Since {
    /// Returns the moment of the call.
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// Returns how long ago that is.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
