//! Where the time of a multicast goes, stage by stage: the table that eprof made in 2007, always compiled in.
//!
//! A stage is measured once per stanza, never per recipient. Switched off, it costs a branch; on, two readings of the clock.

use std::fmt;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use crate::Histogram;

/// A stage on the path of a stanza with many recipients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The header is found and read.
    Decode,
    /// May the sender use the service?
    Access,
    /// Are there too many recipients?
    Limits,
    /// Addresses become JIDs.
    Addresses,
    /// May the sender reach others through this server?
    Relay,
    /// Recipients are sorted by next hop.
    Group,
    /// The forms of the stanza are built.
    Prebuild,
    /// Copies find their way: to sessions here, to streams elsewhere.
    Route,
    /// What waits for sessions is rendered and written.
    Write,
}

impl Stage {
    /// All stages, in the order of the path.
    pub const ALL: [Stage; 9] = [
        Self::Decode,
        Self::Access,
        Self::Addresses,
        Self::Limits,
        Self::Relay,
        Self::Group,
        Self::Prebuild,
        Self::Route,
        Self::Write,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Access => "access",
            Self::Limits => "limits",
            Self::Addresses => "addresses to JIDs",
            Self::Relay => "relay",
            Self::Group => "group",
            Self::Prebuild => "prebuild",
            Self::Route => "route",
            Self::Write => "write",
        }
    }
}

/// What one stage has taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// How often.
    pub calls: u64,
    /// How long in all.
    pub time: Duration,
}

/// The stages of one shard, or the sum of all.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Stages {
    on: bool,
    taken: [Taken; Stage::ALL.len()],
    /// How long each call took, in nanoseconds.
    calls: [Histogram; Stage::ALL.len()],
}

/// The beginning of a stage, as far as it is measured.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Begun(Option<Instant>);

impl Stages {
    /// Switches measuring on or off. What was measured stays.
    pub fn measure(&mut self, on: bool) {
        self.on = on;
    }

    /// A stage begins.
    pub fn begin(&self) -> Begun {
        Begun(self.on.then(Instant::now))
    }

    /// A stage ends, and another one may begin: at this moment.
    pub fn end(&mut self, stage: Stage, begun: Begun) -> Begun {
        let Some(begun) = begun.0 else { return Begun(None) };
        let now = Instant::now();
        if let Some(taken) = self.taken.get_mut(stage as usize) {
            taken.calls += 1;
            taken.time += now - begun;
        }
        if let Some(calls) = self.calls.get_mut(stage as usize) {
            calls.record_time(now - begun);
        }
        Begun(Some(now))
    }

    /// What a stage has taken.
    pub fn of(&self, stage: Stage) -> Taken {
        self.taken.get(stage as usize).copied().unwrap_or_default()
    }

    /// How long the calls of a stage took, in nanoseconds.
    pub fn calls(&self, stage: Stage) -> Option<&Histogram> {
        self.calls.get(stage as usize)
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.taken.iter().all(|taken| taken.calls == 0)
    }

    /// Forgets what was measured.
    pub fn clear(&mut self) {
        self.taken = Default::default();
        self.calls = Default::default();
    }
}

impl AddAssign<&Stages> for Stages {
    fn add_assign(&mut self, other: &Stages) {
        self.on |= other.on;
        for (own, other) in self.taken.iter_mut().zip(&other.taken) {
            own.calls += other.calls;
            own.time += other.time;
        }
        self.calls.iter_mut().zip(&other.calls).for_each(|(own, other)| *own += other);
    }
}

/// The table: calls, share, time and µs per call.
impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Duration = self.taken.iter().map(|taken| taken.time).sum();
        writeln!(f, "{:<20} {:>10} {:>7} {:>12} {:>12}", "stage", "calls", "%", "time µs", "µs/call")?;
        for stage in Stage::ALL {
            let Taken { calls, time } = self.of(stage);
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
    use super::*;

    #[test]
    fn nothing_is_measured_unless_it_is_switched_on() {
        let mut stages = Stages::default();
        let begun = stages.begin();
        let begun = stages.end(Stage::Decode, begun);
        _ = stages.end(Stage::Route, begun);
        assert!(stages.is_empty());
        stages.measure(true);
        let begun = stages.begin();
        let begun = stages.end(Stage::Decode, begun);
        _ = stages.end(Stage::Write, begun);
        let mut sum = stages.clone();
        sum += &stages;
        assert_eq!((sum.of(Stage::Decode).calls, sum.of(Stage::Write).calls, sum.of(Stage::Route).calls), (2, 2, 0));
        assert!(sum.of(Stage::Write).time >= 2 * stages.of(Stage::Write).time);
        stages.clear();
        assert!(stages.is_empty());
    }

    #[test]
    fn every_stage_has_a_line_and_its_own_place() {
        let text = Stages::default().to_string();
        assert_eq!(text.lines().count(), Stage::ALL.len() + 2);
        let mut places = Stage::ALL.map(|stage| stage as usize);
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
