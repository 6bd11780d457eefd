//! The clocks of the machine.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::time::Moment;

/// The source of the times that the service is given: a steady clock and the time since 1970.
#[derive(Debug)]
pub(super) struct MachineClock {
    pub(super) start: Instant,
}

impl MachineClock {
    pub(super) fn new() -> Self {
        Self { start: Instant::now() }
    }

    pub(super) fn now(&self) -> Moment {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { millis: self.start.elapsed().as_millis() as u64, unix_millis: since_1970.as_millis() as i64 }
    }
}
