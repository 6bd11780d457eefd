//! Lines of the log that would otherwise come with each request, or every few seconds, for as long
//! as something is wrong: each cause is logged once a minute.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The causes that were logged in the last minute: a few kinds, not one for each request.
#[derive(Debug)]
pub struct OnceAMinute<K>(Mutex<Vec<(K, Instant)>>);

impl<K: PartialEq> OnceAMinute<K> {
    /// Returns an instance that has logged nothing.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns whether a cause is to be logged now. If so, it counts as logged.
    pub fn is_due(&self, cause: K) -> bool {
        self.is_due_at(cause, Instant::now())
    }

    fn is_due_at(&self, cause: K, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|(_, when)| now.saturating_duration_since(*when) < MINUTE);
        let is_due = !told.iter().any(|(known, _)| *known == cause);
        if is_due {
            told.push((cause, now));
        }
        is_due
    }
}

impl<K: PartialEq> Default for OnceAMinute<K> {
    fn default() -> Self {
        Self::new()
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_told_once_a_minute() {
        let (told, now) = (OnceAMinute::new(), Instant::now());
        assert!(told.is_due_at("full", now) && told.is_due_at("away", now));
        assert!(!(0..1000).any(|at| told.is_due_at("full", now + Duration::from_millis(at))));
        assert!(told.is_due_at("full", now + MINUTE) && !told.is_due_at("full", now + MINUTE));
    }
}
