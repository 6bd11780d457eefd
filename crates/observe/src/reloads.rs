//! The last attempts to load the configuration, for metrics: an operator who changes a file and has
//! a script reload it doesn't read the log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Remembers when the configuration of the process was last loaded, and whether that succeeded.
#[derive(Debug, Default)]
pub struct ReloadSeen {
    succeeded_ms: AtomicU64,
    has_failed: AtomicBool,
}

impl ReloadSeen {
    /// Notes that the configuration was loaded at this time, in milliseconds since 1970.
    pub fn succeeded(&self, now_ms: u64) {
        self.succeeded_ms.store(now_ms, Ordering::Relaxed);
        self.has_failed.store(false, Ordering::Relaxed);
    }

    /// Notes that it couldn't be loaded, so that the previous one stays in force.
    pub fn failed(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Returns the time at which the configuration in force was loaded, in milliseconds since 1970;
    /// 0 in a program that loads none.
    pub fn succeeded_ms(&self) -> u64 {
        self.succeeded_ms.load(Ordering::Relaxed)
    }

    /// Returns whether the last attempt has failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}

/// Returns the memory of this process.
pub fn reloads() -> &'static ReloadSeen {
    static SEEN: ReloadSeen = ReloadSeen { succeeded_ms: AtomicU64::new(0), has_failed: AtomicBool::new(false) };
    &SEEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_ends_a_failure() {
        let seen = ReloadSeen::default();
        seen.succeeded(1);
        seen.failed();
        assert_eq!((seen.succeeded_ms(), seen.has_failed()), (1, true));
        seen.succeeded(2);
        assert_eq!((seen.succeeded_ms(), seen.has_failed()), (2, false));
    }
}
