//! Histograms: how often values of each size occurred, to a factor of two.
//!
//! Each bound is twice the previous one, so the bucket of a value is found by counting leading
//! zeros: a record costs about a nanosecond and never allocates. Values are whole numbers:
//! nanoseconds or bytes.

use std::ops::AddAssign;
use std::time::Duration;

/// Counts of the values that were at most 2^[`FIRST`](Histogram::FIRST), twice that, four times,
/// and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BOUNDS + 1],
    sum: u64,
}

impl Histogram {
    /// The first bound is two to the power of this number: 64 bytes, or 64 nanoseconds.
    pub const FIRST: u32 = 6;

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a time, in nanoseconds.
    pub fn record_time(&mut self, time: Duration) {
        self.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts a value that occurred `times` times.
    pub fn record_many(&mut self, value: u64, times: u64) {
        // The number of bits of the value minus one: so 64 is still within the first bound, and 65
        // isn't.
        let bits = u64::BITS - value.saturating_sub(1).leading_zeros();
        let place = bits.saturating_sub(Self::FIRST) as usize;
        if let Some(count) = self.counts.get_mut(place.min(BOUNDS)) {
            *count += times;
        }
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
    }

    /// Returns a histogram with these counts, as [`Histogram::counts`] returns them. Its sum is
    /// unknown, and so 0.
    pub fn of_counts(counts: impl IntoIterator<Item = u64>) -> Self {
        let mut histogram = Self::default();
        histogram.counts.iter_mut().zip(counts).for_each(|(own, count)| *own = count);
        histogram
    }

    /// Returns the number of values up to the first bound, of those above it up to the second, and
    /// so on. Zeros at the end are left out.
    pub fn counts(&self) -> &[u64] {
        let used = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        self.counts.get(..used).unwrap_or_default()
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns each bound with the number of values up to it, and finally the number of all values,
    /// without a bound.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        self.counts.iter().enumerate().scan(0, |sum, (place, count)| {
            *sum += count;
            Some(((place < BOUNDS).then(|| 1 << (place as u32 + Self::FIRST)), *sum))
        })
    }

    /// Returns the lowest bound that at least this share of the values, such as 0.99, doesn't
    /// exceed. If there is no such bound, returns twice the last bound; without values, returns
    /// `None`.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let wanted = (share * count as f64).ceil() as u64;
        let found = self.cumulative().find(|(_, below)| *below >= wanted.max(1))?;
        Some(found.0.unwrap_or(1 << (BOUNDS as u32 + Self::FIRST)))
    }

    /// Returns the counts since `before`, an earlier state of the same histogram.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut counts = self.counts;
        counts.iter_mut().zip(&before.counts).for_each(|(count, before)| *count = count.saturating_sub(*before));
        Self { counts, sum: self.sum.saturating_sub(before.sum) }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BOUNDS + 1], sum: 0 }
    }
}

impl AddAssign<&Histogram> for Histogram {
    fn add_assign(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

/// Histograms under names that occur in the code, such as those of modules: a few dozen at most.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct NamedHistograms(Vec<(&'static str, Histogram)>);

impl NamedHistograms {
    /// Returns the histogram of this name; an empty one is added if there is none yet.
    pub fn of(&mut self, name: &'static str) -> &mut Histogram {
        let place = match self.0.iter().position(|(known, _)| *known == name) {
            Some(place) => place,
            None => {
                self.0.push((name, Histogram::default()));
                self.0.len() - 1
            }
        };
        &mut self.0[place].1
    }

    /// Returns all histograms with their names, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        let mut all: Vec<_> = self.0.iter().map(|(name, histogram)| (*name, histogram)).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all.into_iter()
    }

    /// Returns the sum of all histograms.
    pub fn total(&self) -> Histogram {
        self.0.iter().fold(Histogram::default(), |mut total, (_, histogram)| {
            total += histogram;
            total
        })
    }
}

impl AddAssign<&NamedHistograms> for NamedHistograms {
    fn add_assign(&mut self, other: &NamedHistograms) {
        for (name, histogram) in &other.0 {
            *self.of(name) += histogram;
        }
    }
}

/// Bounds of a histogram: up to 2^35, which is 34 seconds in nanoseconds, or 32 GiB.
const BOUNDS: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_within_its_bound_and_not_within_the_one_before() {
        let first = 1 << Histogram::FIRST;
        for value in [0, 1, first - 1, first, first + 1, 1000, 1 << 20, (1 << 20) + 1, 1 << 35, u64::MAX] {
            let mut histogram = Histogram::default();
            histogram.record(value);
            let within: Vec<_> =
                histogram.cumulative().filter(|(_, count)| *count == 1).map(|(bound, _)| bound).collect();
            let bound = within[0];
            assert!(bound.is_none_or(|bound| value <= bound), "{value} {bound:?}");
            let below = bound.map_or(1 << 35, |bound| bound / 2);
            assert!(value > below || bound == Some(first), "{value} {bound:?}");
            assert_eq!((histogram.count(), histogram.sum()), (1, value));
        }
    }

    #[test]
    fn quantiles_sums_and_differences() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        histogram.record_many(100, 98);
        let before = histogram.clone();
        histogram.record_many(5000, 2);
        assert_eq!(
            (histogram.quantile(0.5), histogram.quantile(0.98), histogram.quantile(0.99)),
            (Some(128), Some(128), Some(8192))
        );
        let since = histogram.since(&before);
        assert_eq!((since.count(), since.sum(), since.quantile(0.5)), (2, 10_000, Some(8192)));
        let mut both = histogram.clone();
        both += &since;
        assert_eq!((both.count(), both.sum()), (102, 29_800));
        assert_eq!(histogram.counts(), [0, 98, 0, 0, 0, 0, 0, 2]);
        assert_eq!(Histogram::of_counts(histogram.counts().iter().copied()).quantile(0.99), Some(8192));
        assert_eq!(Histogram::default().counts(), [0; 0]);
    }

    #[test]
    fn names_are_kept_apart() {
        let mut named = NamedHistograms::default();
        named.of("b").record(1);
        named.of("a").record(2);
        named.of("b").record(3);
        let mut twice = named.clone();
        twice += &named;
        let counts: Vec<_> = twice.iter().map(|(name, histogram)| (name, histogram.count())).collect();
        assert_eq!(counts, [("a", 2), ("b", 4)]);
        assert_eq!(twice.total().sum(), 12);
    }
}
