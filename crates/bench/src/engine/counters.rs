//! Counters of one thread of the engine, which the others can read at any time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::histogram::{LatencyHistogram, LatencyRecorder};

/// The things that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadCount {
    /// Stanzas that a scenario sent as its load.
    Sent,
    /// The deliveries that these stanzas should cause.
    Expected,
    /// Deliveries, not counting repetitions.
    Delivered,
    /// Repeated deliveries.
    Duplicated,
    /// Deliveries after a later one of the same pair.
    Reordered,
    /// Error stanzas.
    Errors,
    /// Stanzas of another run, such as stored messages.
    Foreign,
    /// Stanzas of any kind that arrived.
    Stanzas,
    /// Logins that succeeded.
    LoggedIn,
    /// Connections that ended before a resource was bound, for whatever reason.
    LoginsFailed,
    /// Sessions that the server ended.
    Broken,
    /// Current sessions.
    Sessions,
    /// Nanoseconds of CPU time of the thread.
    CpuTime,
    /// A scenario's own steps.
    Steps,
}

/// The counters of one thread, which only that thread changes.
#[derive(Debug, Default)]
pub struct LoadCounters {
    counts: [AtomicU64; LoadCount::ALL],
    /// From intended sending to arrival.
    pub latency: LatencyRecorder,
    /// From intended sending to sending.
    pub lateness: LatencyRecorder,
}

/// Sums over threads, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    counts: [u64; LoadCount::ALL],
    /// CPU time of each thread, in nanoseconds.
    pub threads: Vec<u64>,
    /// From intended sending to arrival.
    pub latency: LatencyHistogram,
    /// From intended sending to sending.
    pub lateness: LatencyHistogram,
}

impl LoadCount {
    const ALL: usize = LoadCount::Steps as usize + 1;
}

impl LoadCounters {
    /// Adds to the count of one thing.
    pub fn add(&self, count: LoadCount, more: u64) {
        self.set(count, self.get(count).wrapping_add(more));
    }

    /// Subtracts one.
    pub fn less(&self, count: LoadCount) {
        self.set(count, self.get(count).saturating_sub(1));
    }

    /// Replaces the count, for values that aren't sums.
    pub fn set(&self, count: LoadCount, value: u64) {
        if let Some(counter) = self.counts.get(count as usize) {
            counter.store(value, Relaxed);
        }
    }

    /// Returns the current count.
    pub fn get(&self, count: LoadCount) -> u64 {
        self.counts.get(count as usize).map_or(0, |counter| counter.load(Relaxed))
    }
}

impl Totals {
    /// Returns the totals of some threads.
    pub fn of<'a>(threads: impl Iterator<Item = &'a LoadCounters>) -> Totals {
        let mut totals = Totals::default();
        for counters in threads {
            for (sum, count) in totals.counts.iter_mut().zip(&counters.counts) {
                *sum += count.load(Relaxed);
            }
            totals.threads.push(counters.get(LoadCount::CpuTime));
            totals.latency.add(&counters.latency);
            totals.lateness.add(&counters.lateness);
        }
        totals
    }

    /// Returns the sum of one count over all threads.
    pub fn get(&self, count: LoadCount) -> u64 {
        self.counts.get(count as usize).copied().unwrap_or_default()
    }

    /// Returns the difference to `earlier`.
    pub fn since(&self, earlier: &Totals) -> Totals {
        let mut counts = self.counts;
        for (count, before) in counts.iter_mut().zip(earlier.counts) {
            *count = count.saturating_sub(before);
        }
        let (latency, lateness) = (self.latency.since(&earlier.latency), self.lateness.since(&earlier.lateness));
        let before = earlier.threads.iter().chain(std::iter::repeat(&0));
        let threads = self.threads.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect();
        Totals { counts, threads, latency, lateness }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_added_up_and_earlier_counts_taken_away() {
        let threads = [LoadCounters::default(), LoadCounters::default()];
        threads[0].add(LoadCount::Sent, 3);
        threads[1].add(LoadCount::Sent, 4);
        threads[1].less(LoadCount::Sessions);
        threads[1].latency.add(5);
        let before = Totals::of(threads.iter());
        assert_eq!((before.get(LoadCount::Sent), before.get(LoadCount::Sessions), before.latency.count()), (7, 0, 1));
        threads[0].add(LoadCount::Sent, 1);
        assert_eq!(Totals::of(threads.iter()).since(&before).get(LoadCount::Sent), 1);
    }
}
