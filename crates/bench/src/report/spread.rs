//! How far a figure differs from one time to the next: over the rounds of a run or, where it was
//! measured once, from second to second. A difference within that says nothing.

use crate::report::metric::Metric;
use crate::result::{RunResult, RunSample};

/// The range of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// The least, and the most.
    pub range: (f64, f64),
    /// True if it is that of rounds; otherwise it is of seconds, without the tenth at either end.
    pub is_of_rounds: bool,
}

impl Spread {
    /// Returns the spread of a figure of a run; `None` if it was measured too seldom to tell.
    pub fn of(metric: &Metric, run: &RunResult) -> Option<Self> {
        let rounds: Vec<f64> = run.rounds.iter().filter_map(|round| metric.of(round)).collect();
        if rounds.len() >= 2 {
            return Some(Self { range: ends(&rounds)?, is_of_rounds: true });
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
        Some(Self { range: ends(middle)?, is_of_rounds: false })
    }

    /// Returns whether two figures can't be told apart.
    pub fn meets(self, other: Self) -> bool {
        self.range.0 <= other.range.1 && other.range.0 <= self.range.1
    }

    /// Returns it as people read it.
    pub fn show(self, metric: &Metric) -> String {
        let what = if self.is_of_rounds { "over rounds" } else { "over seconds" };
        format!("{} to {} {what}", metric.unit.show(self.range.0), metric.unit.show(self.range.1))
    }
}

/// Returns whether two runs can't be told apart by a figure.
pub(super) fn is_within(metric: &Metric, one: &RunResult, other: &RunResult) -> bool {
    Spread::of(metric, one).zip(Spread::of(metric, other)).is_some_and(|(one, other)| one.meets(other))
}

fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().reduce(f64::max)?))
}

/// Seconds that tell something.
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
        assert!(spread.meets(Spread { range: (95.0, 99.0), is_of_rounds: true }));
        assert!(!spread.meets(Spread { range: (96.0, 99.0), is_of_rounds: true }));
        assert!(Spread::of(deliveries, &RunResult::default()).is_none());
    }
}
