//! Writes families of samples in the text format of Prometheus (0.0.4).

use std::fmt::{Display, Write};

use rookery_observe::Histogram;

/// The bounds of a histogram that are shown: powers of two, from the first to the last.
pub(super) struct BucketBounds {
    first: u32,
    last: u32,
    /// The counted amount that makes one displayed unit.
    per: f64,
}

/// A page of samples, with the head of each family before its samples.
#[derive(Default)]
pub(super) struct MetricPage(pub(super) String);

impl MetricPage {
    /// Writes a family of one sample.
    pub(super) fn one(&mut self, name: &str, kind: &str, help: &str, labels: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(name, labels, value);
    }

    /// Writes the samples of a histogram, always with the same bounds: every second one of those
    /// counted.
    pub(super) fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram, unit: &BucketBounds) {
        let (count, comma) = (histogram.count(), if labels.is_empty() { "" } else { "," });
        let is_shown = |bound: u64| {
            let power = bound.trailing_zeros();
            (unit.first..=unit.last).contains(&power) && (power - unit.first).is_multiple_of(2)
        };
        for (bound, below) in histogram.cumulative() {
            if let Some(bound) = bound.filter(|bound| is_shown(*bound)) {
                self.line(name, &format!("_bucket{{{labels}{comma}le=\"{}\"}}", bound as f64 / unit.per), below);
            }
        }
        self.line(name, &format!("_bucket{{{labels}{comma}le=\"+Inf\"}}"), count);
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        self.line(name, &format!("_sum{labels}"), histogram.sum() as f64 / unit.per);
        self.line(name, &format!("_count{labels}"), count);
    }

    /// Writes the head of a family.
    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string can't fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Writes a sample.
    pub(super) fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

/// Returns a label's value, escaped.
pub(super) fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

pub(super) const COUNTER: &str = "counter";
pub(super) const GAUGE: &str = "gauge";
pub(super) const HISTOGRAM: &str = "histogram";
/// From a microsecond to 17 seconds, in nanoseconds.
pub(super) const SECONDS: BucketBounds = BucketBounds { first: 10, last: 34, per: 1e9 };
/// From 64 bytes to 64 MiB.
pub(super) const BYTES: BucketBounds = BucketBounds { first: 6, last: 26, per: 1.0 };
