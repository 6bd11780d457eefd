//! Times by stage: a table like that of eprof, always compiled in.
//!
//! A stage costs a branch while measuring is off, and two readings of the clock while it is on.
//! Times are wall time: on a busy machine they include the time of other threads.

use std::fmt;
use std::marker::PhantomData;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use crate::Histogram;

/// A stage on the path of some work.
pub trait Stage: Copy + PartialEq + 'static {
    /// All stages, in the order in which they are passed.
    const ALL: &'static [Self];

    /// Returns the word for the stage in tables.
    fn name(self) -> &'static str;
}

/// The time that one stage has taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct StageTime {
    /// The number of calls.
    pub calls: u64,
    /// The sum of their times.
    pub time: Duration,
}

/// The times that all stages have taken, in one thread or in several threads together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stages<S> {
    on: bool,
    /// The times in the order of the stages; empty before anything is measured.
    measured: Vec<MeasuredStage>,
    stage: PhantomData<S>,
}

/// The total time of one stage, and the distribution of the times of its calls, in nanoseconds.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct MeasuredStage {
    taken: StageTime,
    calls: Histogram,
}

/// The beginning of a stage, if it is measured.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Begun(Option<Instant>);

impl<S> Default for Stages<S> {
    fn default() -> Self {
        Self { on: false, measured: Vec::new(), stage: PhantomData }
    }
}

impl<S: Stage> Stages<S> {
    /// Switches measuring on or off. Earlier results are kept.
    pub fn measure(&mut self, on: bool) {
        self.on = on;
        if on {
            self.measured.resize_with(S::ALL.len(), MeasuredStage::default);
        }
    }

    /// Returns whether measuring is on.
    pub fn is_measured(&self) -> bool {
        self.on
    }

    /// Begins a stage; reads the clock only if measuring is on.
    #[inline]
    pub fn begin(&self) -> Begun {
        Begun(self.on.then(Instant::now))
    }

    /// Ends a stage, and returns this moment as the beginning of the next one.
    #[inline]
    pub fn end(&mut self, stage: S, begun: Begun) -> Begun {
        let Some(begun) = begun.0 else { return Begun(None) };
        let now = Instant::now();
        self.add(stage, now - begun);
        Begun(Some(now))
    }

    /// Adds a call of this duration.
    pub(crate) fn add(&mut self, stage: S, lasted: Duration) {
        let place = S::ALL.iter().position(|other| *other == stage);
        if let Some(measured) = place.and_then(|place| self.measured.get_mut(place)) {
            measured.taken.calls += 1;
            measured.taken.time += lasted;
            measured.calls.record_time(lasted);
        }
    }

    /// Returns the time that a stage has taken.
    pub fn of(&self, stage: S) -> StageTime {
        self.measured_stage(stage).map(|measured| measured.taken).unwrap_or_default()
    }

    /// Returns the times that the calls of a stage took, in nanoseconds; `None` before anything is
    /// measured.
    pub fn calls(&self, stage: S) -> Option<&Histogram> {
        self.measured_stage(stage).map(|measured| &measured.calls)
    }

    /// Returns whether nothing has been measured.
    pub fn is_empty(&self) -> bool {
        self.measured.iter().all(|measured| measured.taken.calls == 0)
    }

    /// Drops all results.
    pub fn clear(&mut self) {
        self.measured.fill(MeasuredStage::default());
    }

    fn measured_stage(&self, stage: S) -> Option<&MeasuredStage> {
        self.measured.get(S::ALL.iter().position(|other| *other == stage)?)
    }
}

impl<S> AddAssign<&Stages<S>> for Stages<S> {
    fn add_assign(&mut self, other: &Stages<S>) {
        self.on |= other.on;
        if self.measured.len() < other.measured.len() {
            self.measured.resize_with(other.measured.len(), MeasuredStage::default);
        }
        for (own, other) in self.measured.iter_mut().zip(&other.measured) {
            own.taken.calls += other.taken.calls;
            own.taken.time += other.taken.time;
            own.calls += &other.calls;
        }
    }
}

/// The table: calls, share, time and µs per call.
impl<S: Stage> fmt::Display for Stages<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Duration = self.measured.iter().map(|measured| measured.taken.time).sum();
        writeln!(f, "{:<20} {:>10} {:>7} {:>12} {:>12}", "stage", "calls", "%", "time µs", "µs/call")?;
        for stage in S::ALL {
            let StageTime { calls, time } = self.of(*stage);
            let us = time.as_secs_f64() * 1e6;
            let share = if all.is_zero() { 0.0 } else { 100.0 * time.as_secs_f64() / all.as_secs_f64() };
            let per_call = if calls == 0 { 0.0 } else { us / calls as f64 };
            writeln!(f, "{:<20} {calls:>10} {share:>7.2} {us:>12.1} {per_call:>12.3}", stage.name())?;
        }
        write!(f, "{:<20} {:>10} {:>7} {:>12.1}", "all", "", "", all.as_secs_f64() * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use crate::{MulticastStage, MulticastStages};

    #[test]
    fn nothing_is_measured_unless_it_is_switched_on() {
        let mut stages = MulticastStages::default();
        let begun = stages.begin();
        let begun = stages.end(MulticastStage::Decode, begun);
        _ = stages.end(MulticastStage::Route, begun);
        assert!(stages.is_empty() && stages == MulticastStages::default());
        stages.measure(true);
        let begun = stages.begin();
        let begun = stages.end(MulticastStage::Decode, begun);
        _ = stages.end(MulticastStage::Write, begun);
        let mut sum = MulticastStages::default();
        sum += &stages;
        sum += &stages;
        assert_eq!(
            (
                sum.of(MulticastStage::Decode).calls,
                sum.of(MulticastStage::Write).calls,
                sum.of(MulticastStage::Route).calls
            ),
            (2, 2, 0)
        );
        assert!(sum.of(MulticastStage::Write).time >= 2 * stages.of(MulticastStage::Write).time);
        assert_eq!(sum.calls(MulticastStage::Write).map(|calls| calls.count()), Some(2));
        stages.clear();
        assert!(stages.is_empty());
        let begun = stages.begin();
        _ = stages.end(MulticastStage::Route, begun);
        assert_eq!(stages.of(MulticastStage::Route).calls, 1, "it is still switched on");
    }

    #[test]
    fn every_stage_has_a_line() {
        let text = MulticastStages::default().to_string();
        assert_eq!(text.lines().count(), MulticastStage::ALL.len() + 2);
        assert!(
            MulticastStage::ALL.iter().all(|stage| text.lines().any(|line| line.starts_with(stage.name()))),
            "{text}"
        );
    }
}
