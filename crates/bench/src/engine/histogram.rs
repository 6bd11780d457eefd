//! A distribution of times with 3 % precision in a fixed 10 KB, which one thread fills while
//! another reads it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::result::Latency;

/// The histogram that one thread fills. Only that thread may call [`LatencyRecorder::add`], which
/// isn't an atomic addition.
#[derive(Debug)]
pub struct LatencyRecorder {
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
    max: AtomicU64,
}

/// A copy of one or several recorders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyHistogram {
    buckets: Box<[u64]>,
    sum: u64,
    max: u64,
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        LatencyRecorder { buckets, sum: AtomicU64::new(0), max: AtomicU64::new(0) }
    }
}

impl LatencyRecorder {
    /// Adds one time, in nanoseconds.
    pub fn add(&self, nanoseconds: u64) {
        let add = |to: &AtomicU64, more: u64| to.store(to.load(Relaxed).wrapping_add(more), Relaxed);
        if let Some(bucket) = self.buckets.get(bucket_of(nanoseconds)) {
            add(bucket, 1);
        }
        add(&self.sum, nanoseconds);
        if nanoseconds > self.max.load(Relaxed) {
            self.max.store(nanoseconds, Relaxed);
        }
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        LatencyHistogram { buckets: vec![0; BUCKETS].into(), sum: 0, max: 0 }
    }
}

impl LatencyHistogram {
    /// Adds the current content of a recorder.
    pub fn add(&mut self, recorder: &LatencyRecorder) {
        for (own, other) in self.buckets.iter_mut().zip(&recorder.buckets) {
            *own += other.load(Relaxed);
        }
        self.sum = self.sum.wrapping_add(recorder.sum.load(Relaxed));
        self.max = self.max.max(recorder.max.load(Relaxed));
    }

    /// Returns the times that were added since `earlier`. The maximum stays that of the whole time,
    /// unless the buckets show that it is older than `earlier`.
    pub fn since(&self, earlier: &LatencyHistogram) -> LatencyHistogram {
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        let buckets: Box<[u64]> = pairs.map(|(now, before)| now.saturating_sub(*before)).collect();
        let highest = buckets.iter().rposition(|count| *count > 0).map_or(0, upper_bound);
        LatencyHistogram { sum: self.sum.wrapping_sub(earlier.sum), max: self.max.min(highest), buckets }
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the longest time, in nanoseconds.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the upper bound for the given share (0 to 1) of all times, in nanoseconds; 0 if
    /// there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_bound(bucket).min(self.max);
            }
        }
        self.max
    }

    /// Returns the latencies for a report; `None` if there are none.
    pub fn latency(&self) -> Option<Latency> {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        (self.count() > 0).then(|| Latency {
            p50_us: us(self.quantile(0.5)),
            p90_us: us(self.quantile(0.9)),
            p99_us: us(self.quantile(0.99)),
            p999_us: us(self.quantile(0.999)),
            max_us: us(self.max),
            mean_us: us(self.sum) / self.count() as f64,
            histogram: filled.map(|(bucket, count)| (us(upper_bound(bucket)), *count)).collect(),
        })
    }
}

/// Returns the bucket of a value. Below 32 each value has its own; above, each doubling is divided
/// into 32.
fn bucket_of(value: u64) -> usize {
    let shift = (63 - (value | 1).leading_zeros()).saturating_sub(BITS);
    ((u64::from(shift) << BITS) + (value >> shift)).min(BUCKETS as u64 - 1) as usize
}

fn upper_bound(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    let mantissa = (bucket - (shift << BITS)) as u64;
    ((mantissa + 1) << shift) - 1
}

const BITS: u32 = 5;
/// The buckets up to 2^44 ns, five hours.
const BUCKETS: usize = 40 << BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_what_they_say() {
        let mut last = 0;
        for value in (0..4096).chain((12..43).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + (1 << (bit - 1))]))
        {
            let bucket = bucket_of(value);
            assert!(upper_bound(bucket) >= value && bucket >= last, "{value}");
            assert!(bucket == 0 || upper_bound(bucket - 1) < value, "{value}");
            assert!((upper_bound(bucket) - value) as f64 <= value as f64 / 32.0, "{value}");
            last = bucket;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_and_differences() {
        let recorder = LatencyRecorder::default();
        let mut before = LatencyHistogram::default();
        assert_eq!((before.count(), before.quantile(0.5), before.latency()), (0, 0, None));
        (1..=1000).for_each(|value| recorder.add(value * 1000));
        before.add(&recorder);
        recorder.add(20);
        let mut after = LatencyHistogram::default();
        after.add(&recorder);
        let latency = after.latency().unwrap();
        assert!((latency.p50_us - 500.0).abs() < 16.0 && (latency.p99_us - 990.0).abs() < 31.0, "{latency:?}");
        assert_eq!((latency.max_us, latency.histogram.iter().map(|(_, count)| count).sum()), (1000.0, 1001));
        let between = after.since(&before);
        assert_eq!((between.count(), between.max(), between.quantile(0.999)), (1, 20, 20));
    }
}
