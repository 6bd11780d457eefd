//! The variation of a figure: over the rounds of a run or, if it was measured once, from second to
//! second. A difference within that range means nothing.

use crate::report::metric::Metric;
use crate::result::{RunResult, RunSample};

/// The range of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// The smallest and the largest value.
    pub range: (f64, f64),
    /// True if it is the range of rounds; otherwise it is that of seconds, without a tenth at
    /// either end.
    pub is_of_rounds: bool,
    /// The mean, and its standard error.
    mean: (f64, f64),
}

impl Spread {
    /// Returns the spread of a figure of a run; `None` if there are too few measurements.
    pub fn of(metric: &Metric, run: &RunResult) -> Option<Self> {
        let rounds: Vec<f64> = run.rounds.iter().filter_map(|round| metric.of(round)).collect();
        if rounds.len() >= 2 {
            return Some(Self { range: ends(&rounds)?, is_of_rounds: true, mean: mean(&rounds) });
        }
        let of: fn(&RunSample) -> Option<f64> = match metric.name {
            "deliveries" => |sample| Some(sample.delivered_per_s),
            "latency p99" => |sample| sample.p99_us,
            _ => return None,
        };
        let measured = run.series.iter().filter(|sample| sample.t_s >= 0.0);
        let mut values: Vec<f64> = measured.filter_map(of).filter(|value| value.is_finite()).collect();
        if values.len() < FEWEST {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let tenth = values.len() / 10;
        let middle = values.get(tenth..values.len() - tenth)?;
        Some(Self { range: ends(middle)?, is_of_rounds: false, mean: mean(&values) })
    }

    /// Returns whether two figures can't be distinguished: rounds if they overlap, seconds, which
    /// differ more than rounds do, if their means are within two standard errors.
    pub fn meets(self, other: Self) -> bool {
        if self.is_of_rounds && other.is_of_rounds {
            return self.range.0 <= other.range.1 && other.range.0 <= self.range.1;
        }
        (self.mean.0 - other.mean.0).abs() <= 2.0 * self.mean.1.hypot(other.mean.1)
    }

    /// Returns it as readable text.
    pub fn show(self, metric: &Metric) -> String {
        let what = if self.is_of_rounds { "over rounds" } else { "over seconds" };
        format!("{} to {} {what}", metric.unit.show(self.range.0), metric.unit.show(self.range.1))
    }
}

/// Returns whether two runs can't be distinguished by a figure.
pub(super) fn is_within(metric: &Metric, one: &RunResult, other: &RunResult) -> bool {
    Spread::of(metric, one).zip(Spread::of(metric, other)).is_some_and(|(one, other)| one.meets(other))
}

fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0) / count).sqrt())
}

fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().reduce(f64::max)?))
}

/// The fewest seconds that are meaningful.
const FEWEST: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::metric;

    #[test]
    fn rounds_count_before_seconds() {
        let deliveries = &metric::ALL[0];
        let sample =
            |t: u32| RunSample { t_s: f64::from(t), delivered_per_s: 100.0 + f64::from(t), ..RunSample::default() };
        let mut run = RunResult { series: (0..20).map(sample).collect(), ..RunResult::default() };
        assert_eq!(Spread::of(deliveries, &run).unwrap().range, (102.0, 117.0));
        let round = |rate: f64| RunResult { throughput: Some(rate), delivered: 1, ..RunResult::default() };
        run.rounds = vec![round(90.0), round(95.0)];
        let spread = Spread::of(deliveries, &run).unwrap();
        assert_eq!(spread.show(deliveries), "90/s to 95/s over rounds");
        assert!(spread.meets(Spread { range: (95.0, 99.0), ..spread }));
        assert!(!spread.meets(Spread { range: (96.0, 99.0), ..spread }));
        let seconds = Spread { is_of_rounds: false, mean: (100.0, 3.0), ..spread };
        assert!(seconds.meets(Spread { mean: (107.0, 2.0), ..seconds }));
        assert!(!seconds.meets(Spread { mean: (108.0, 2.0), ..seconds }));
        assert!(Spread::of(deliveries, &RunResult::default()).is_none());
    }
}
