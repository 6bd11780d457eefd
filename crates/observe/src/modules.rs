//! Calls of modules, and the time and memory that some of them took.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

/// The calls of all modules, by name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ModuleCalls(BTreeMap<&'static str, CallsOfModule>);

/// Counts how often a module was called, and the time and memory that it took.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CallsOfModule {
    /// The number of calls.
    pub count: u64,
    /// The sum of the times of the calls that were timed: one of [`SAMPLED_CALLS`].
    pub time: Duration,
    /// The bytes that the same calls have allocated.
    pub bytes: u64,
}

impl ModuleCalls {
    /// Adds a call with its time and the bytes that it has allocated, which are zero if it wasn't
    /// timed.
    pub fn add(&mut self, module: &'static str, time: Duration, bytes: u64) {
        let calls = self.0.entry(module).or_default();
        calls.count += 1;
        calls.time += time;
        calls.bytes += bytes;
    }

    /// Returns the calls of a module so far, which are zero if it was never called.
    pub fn of(&self, module: &str) -> CallsOfModule {
        self.0.get(module).copied().unwrap_or_default()
    }

    /// Returns the calls of all modules, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, CallsOfModule)> {
        self.0.iter().map(|(name, calls)| (*name, *calls))
    }
}

impl AddAssign<&ModuleCalls> for ModuleCalls {
    fn add_assign(&mut self, other: &ModuleCalls) {
        for (name, calls) in other.iter() {
            let own = self.0.entry(name).or_default();
            own.count += calls.count;
            own.time += calls.time;
            own.bytes += calls.bytes;
        }
    }
}

/// The number of calls of which one is timed. It is prime, so that it matches no rhythm of a
/// client.
pub const SAMPLED_CALLS: u64 = 13;
