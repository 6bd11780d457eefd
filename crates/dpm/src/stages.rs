//! Where the time goes that a reading takes from its datagram to its readers: the table that eprof gave of the Erlang daemon, always compiled in.
//!
//! Switched off, a stage costs a branch; on, a reading of the clock. Times are those of the wall: on a busy machine they hold what others took.

use std::fmt;
use std::time::{Duration, Instant};

/// A stage on a reading's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A datagram is received and taken apart into packets.
    Datagram,
    /// The request that a reply answers is found by its id.
    LookUp,
    /// A reply is split to the things that were read; once for each of them.
    Split,
    /// Bytes become engineering values.
    Scale,
    /// Values become a message.
    Encode,
    /// The readers of a message get their references to it; once for each reading.
    Queue,
    /// What waits for a client is rendered and written; once for each write.
    Send,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 7] =
        [Self::Datagram, Self::LookUp, Self::Split, Self::Scale, Self::Encode, Self::Queue, Self::Send];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Datagram => "datagram in",
            Self::LookUp => "id look-up",
            Self::Split => "split",
            Self::Scale => "scale",
            Self::Encode => "encode",
            Self::Queue => "queue",
            Self::Send => "send",
        }
    }
}

/// What a stage has taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// How often it was passed.
    pub calls: u64,
    /// How long that took in all.
    pub time: Duration,
}

/// What all stages have taken while that was measured.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Stages {
    on: bool,
    taken: [Taken; Stage::ALL.len()],
}

/// The beginning of a stage, as far as it is measured.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Begun(Option<Instant>);

impl Stages {
    /// Switches measuring on or off. Switching it on forgets what was measured before.
    pub fn measure(&mut self, on: bool) {
        if on && !self.on {
            self.taken = Default::default();
        }
        self.on = on;
    }

    /// A stage begins.
    #[inline]
    pub fn begin(&self) -> Begun {
        Begun(self.on.then(Instant::now))
    }

    /// A stage ends, and the next one begins.
    #[inline]
    pub fn end(&mut self, stage: Stage, begun: Begun) -> Begun {
        let Some(begun) = begun.0 else { return Begun(None) };
        let now = Instant::now();
        if let Some(taken) = self.taken.get_mut(stage as usize) {
            taken.calls += 1;
            taken.time += now - begun;
        }
        Begun(Some(now))
    }

    /// What a stage has taken.
    pub fn of(&self, stage: Stage) -> Taken {
        self.taken.get(stage as usize).copied().unwrap_or_default()
    }
}

/// The table: calls, share, time and µs per call.
impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Duration = self.taken.iter().map(|taken| taken.time).sum();
        writeln!(f, "{:<12} {:>12} {:>7} {:>14} {:>10}", "stage", "calls", "%", "time µs", "µs/call")?;
        for stage in Stage::ALL {
            let Taken { calls, time } = self.of(stage);
            let micros = time.as_secs_f64() * 1e6;
            let share = if all.is_zero() { 0.0 } else { 100.0 * time.as_secs_f64() / all.as_secs_f64() };
            let each = if calls == 0 { 0.0 } else { micros / calls as f64 };
            writeln!(f, "{:<12} {calls:>12} {share:>7.2} {micros:>14.1} {each:>10.3}", stage.name())?;
        }
        write!(f, "{:<12} {:>12} {:>7} {:>14.1}", "all", "", "", all.as_secs_f64() * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_measured_unless_it_is_switched_on() {
        let mut stages = Stages::default();
        let begun = stages.begin();
        let _ = stages.end(Stage::Scale, begun);
        assert_eq!(stages, Stages::default());
        stages.measure(true);
        let begun = stages.begin();
        let begun = stages.end(Stage::Scale, begun);
        let _ = stages.end(Stage::Encode, begun);
        stages.measure(true);
        assert_eq!(
            (stages.of(Stage::Scale).calls, stages.of(Stage::Encode).calls, stages.of(Stage::Send).calls),
            (1, 1, 0)
        );
        stages.measure(false);
        stages.measure(true);
        assert_eq!(stages.of(Stage::Scale).calls, 0);
        assert_eq!(stages.to_string().lines().count(), Stage::ALL.len() + 2);
    }
}
