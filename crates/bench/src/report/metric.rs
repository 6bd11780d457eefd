//! The figures of a run: one list, so that tiles, tables and comparisons show the same under the
//! same name.

use crate::report::number::NONE;
pub use crate::report::number::NumberUnit;
use crate::result::{Latency, RunResult};

/// A figure that a run may have.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, for a row.
    pub name: &'static str,
    /// The unit of its values.
    pub unit: NumberUnit,
    /// The direction in which values get better.
    pub better: Better,
    /// True if it is one of the main figures.
    pub headline: bool,
    value: fn(&RunResult) -> Option<f64>,
}

/// The better one of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The smaller one.
    Less,
    /// The greater one.
    More,
    /// Neither: it describes the load.
    Neither,
}

impl Better {
    /// Returns a sign for the direction in which values get better, with a leading space.
    pub fn arrow(self) -> &'static str {
        match self {
            Self::Less => " ↓",
            Self::More => " ↑",
            Self::Neither => "",
        }
    }

    /// Returns the direction in which values get better, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Less => "lower is better",
            Self::More => "higher is better",
            Self::Neither => "",
        }
    }
}

impl Metric {
    /// Returns the figure of that run; `None` if it wasn't measured or isn't finite.
    pub fn of(&self, run: &RunResult) -> Option<f64> {
        (self.value)(run).filter(|value| value.is_finite())
    }

    /// Returns the figure as readable text.
    pub fn show(&self, run: &RunResult) -> String {
        self.of(run).map_or_else(|| NONE.to_owned(), |value| self.unit.show(value))
    }
}

/// All figures, the most telling ones first.
pub const ALL: &[Metric] = &[
    headline("deliveries", NumberUnit::PerSecond, Better::More, |run| run.throughput.filter(|_| run.delivered > 0)),
    headline("latency p50", NumberUnit::Microseconds, Better::Less, |run| latency(run, |found| found.p50_us)),
    headline("latency p99", NumberUnit::Microseconds, Better::Less, |run| latency(run, |found| found.p99_us)),
    headline("server CPU by operation", NumberUnit::Microseconds, Better::Less, |run| {
        run.server_cpu.as_ref().map(|cpu| cpu.us_per_operation)
    }),
    headline("server memory, peak", NumberUnit::Bytes, Better::Less, |run| {
        run.memory.as_ref().map(|memory| memory.peak as f64)
    }),
    headline("memory per session", NumberUnit::Bytes, Better::Less, |run| {
        run.memory.as_ref().and_then(|memory| memory.per_session)
    }),
    headline("logins by CPU second", NumberUnit::PerSecond, Better::More, |run| {
        run.login.as_ref().and_then(|login| login.per_cpu_second)
    }),
    headline("not delivered as sent", NumberUnit::Count, Better::Less, |run| {
        (run.expected > 0).then_some((run.lost + run.duplicated + run.reordered) as f64)
    }),
    plain("latency p90", NumberUnit::Microseconds, Better::Less, |run| latency(run, |found| found.p90_us)),
    plain("latency p99.9", NumberUnit::Microseconds, Better::Less, |run| latency(run, |found| found.p999_us)),
    plain("latency max", NumberUnit::Microseconds, Better::Less, |run| latency(run, |found| found.max_us)),
    plain("latency mean", NumberUnit::Microseconds, Better::Less, |run| latency(run, |found| found.mean_us)),
    plain("server CPU", NumberUnit::Seconds, Better::Less, |run| run.server_cpu.as_ref().map(|cpu| cpu.total_s)),
    plain("server CPU in user mode", NumberUnit::Seconds, Better::Less, |run| {
        run.server_cpu.as_ref().map(|cpu| cpu.user_s)
    }),
    plain("server memory, start", NumberUnit::Bytes, Better::Less, |run| {
        run.memory.as_ref().map(|memory| memory.start as f64)
    }),
    plain("server memory, end", NumberUnit::Bytes, Better::Less, |run| {
        run.memory.as_ref().map(|memory| memory.end as f64)
    }),
    plain("logins", NumberUnit::PerSecond, Better::More, |run| run.login.as_ref().map(|login| login.per_second)),
    plain("logins that failed", NumberUnit::Count, Better::Less, |run| {
        run.login.as_ref().map(|login| login.failed as f64)
    }),
    plain("sessions", NumberUnit::Count, Better::Neither, |run| Some(run.sessions as f64)),
    plain("sent", NumberUnit::Count, Better::Neither, |run| Some(run.sent as f64)),
    plain("delivered", NumberUnit::Count, Better::Neither, |run| Some(run.delivered as f64)),
    plain("expected", NumberUnit::Count, Better::Neither, |run| Some(run.expected as f64)),
    plain("lost", NumberUnit::Count, Better::Less, |run| Some(run.lost as f64)),
    plain("duplicated", NumberUnit::Count, Better::Less, |run| Some(run.duplicated as f64)),
    plain("reordered", NumberUnit::Count, Better::Less, |run| Some(run.reordered as f64)),
    plain("error stanzas", NumberUnit::Count, Better::Less, |run| Some(run.errors as f64)),
    plain("time measured", NumberUnit::Seconds, Better::Neither, |run| Some(run.seconds)),
    plain("generator CPU", NumberUnit::Seconds, Better::Neither, |run| Some(run.generator_cpu.total_s)),
    plain("generator CPU by operation", NumberUnit::Microseconds, Better::Neither, |run| {
        Some(run.generator_cpu.us_per_operation)
    }),
];

const fn headline(
    name: &'static str,
    unit: NumberUnit,
    better: Better,
    value: fn(&RunResult) -> Option<f64>,
) -> Metric {
    Metric { name, unit, better, headline: true, value }
}

const fn plain(name: &'static str, unit: NumberUnit, better: Better, value: fn(&RunResult) -> Option<f64>) -> Metric {
    Metric { name, unit, better, headline: false, value }
}

fn latency(run: &RunResult, of: fn(&Latency) -> f64) -> Option<f64> {
    run.latency.as_ref().map(of)
}
