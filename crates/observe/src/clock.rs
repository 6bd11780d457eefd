//! The clock that measures the stages on the path of stanzas, in one tick of [`SAMPLED_TICKS`].
//!
//! At any moment of a tick one stage is current, and entering another stage takes one reading of
//! the clock: the time since the last reading belongs to the stage that was current. So the time of
//! a stage excludes the time of stages within it, and all stages together take as long as the tick.
//! In a tick that isn't measured, a stage costs a comparison.
//!
//! # Invariants
//!
//! * Ticks are chosen by their number, so that busy ticks are measured as often as idle ones.
//! * A caller that enters a stage returns to the one before, by [`StanzaPath::back`].
//! * A recorded tick is bounded: see [`MOST_SPANS`](crate::spans::MOST_SPANS).

use std::ops::AddAssign;
use std::time::Instant;

use crate::path::StanzaStage;
use crate::spans::{RecordedSpan, RecordedTick, SpanKind, spans};
use crate::stages::{StageTime, Stages};

/// The clock of one shard, and the times that it has measured.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct StanzaPath {
    /// The current stage and its start; `None` in a tick that isn't measured.
    current: Option<(StanzaStage, Instant)>,
    turn: u32,
    times: Stages<StanzaStage>,
    /// The record of the tick for collectors of traces.
    recorded: Option<Box<RecordedTick>>,
}

/// The stage that was current before another one, to which [`StanzaPath::back`] returns.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct OuterStage(Option<StanzaStage>);

impl StanzaPath {
    /// Begins a tick of this shard: one of [`SAMPLED_TICKS`] is measured.
    pub fn begin_tick(&mut self, shard: usize) {
        self.turn = self.turn.wrapping_add(1);
        if !self.turn.is_multiple_of(SAMPLED_TICKS) {
            return;
        }
        self.times.measure(true);
        let now = Instant::now();
        self.current = Some((StanzaStage::Rest, now));
        self.recorded = spans().wants_ticks().then(|| Box::new(RecordedTick::new(shard, now)));
    }

    /// Ends the tick, and hands its spans to the exporter if they are recorded. Does nothing if the
    /// tick isn't measured.
    pub fn end_tick(&mut self) {
        if self.current.is_none() {
            return;
        }
        self.switch(StanzaStage::Rest);
        let ended = self.current.take().map(|(_, now)| now);
        if let (Some(mut tick), Some(ended)) = (self.recorded.take(), ended) {
            tick.end(ended);
            spans().add_tick(*tick);
        }
    }

    /// Enters a stage.
    #[inline]
    pub fn enter(&mut self, stage: StanzaStage) -> OuterStage {
        if self.current.is_none() { OuterStage(None) } else { OuterStage(self.switch(stage)) }
    }

    /// Enters the routing of a stanza of a session, with its name, such as `message`, and its size
    /// in bytes, if spans are recorded.
    #[inline]
    pub fn enter_stanza(&mut self, stanza: impl FnOnce() -> (&'static str, usize)) -> OuterStage {
        if self.current.is_none() {
            return OuterStage(None);
        }
        let outer = self.switch(StanzaStage::Route);
        if let (Some(tick), Some((_, now))) = (&mut self.recorded, self.current) {
            let (name, bytes) = stanza();
            tick.begin_stanza(name, bytes, now);
        }
        OuterStage(outer)
    }

    /// Returns to the stage that was current before.
    #[inline]
    pub fn back(&mut self, outer: OuterStage) {
        if let Some(stage) = outer.0 {
            self.switch(stage);
        }
    }

    /// Ends the routing of a stanza, and returns to the stage that was current before.
    #[inline]
    pub fn end_stanza(&mut self, outer: OuterStage) {
        let Some(stage) = outer.0 else { return };
        self.switch(stage);
        if let (Some(tick), Some((_, now))) = (&mut self.recorded, self.current) {
            tick.end_stanza(now);
        }
    }

    /// Returns whether this tick is measured.
    #[inline]
    pub fn is_measured(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the times of the measured ticks.
    pub fn times(&self) -> &Stages<StanzaStage> {
        &self.times
    }

    /// Estimates, from the measured ticks, the time that a stage has taken in all ticks.
    pub fn estimate(&self, stage: StanzaStage) -> StageTime {
        let StageTime { calls, time } = self.times.of(stage);
        StageTime { calls: calls * u64::from(SAMPLED_TICKS), time: time * SAMPLED_TICKS }
    }

    /// Makes a stage current, and returns the stage that was current. Does nothing in a tick that
    /// isn't measured: only stages of a measured tick end with it.
    #[inline(never)]
    fn switch(&mut self, stage: StanzaStage) -> Option<StanzaStage> {
        let (before, since) = self.current?;
        let now = Instant::now();
        let lasted = now.saturating_duration_since(since);
        self.times.add(before, lasted);
        if let Some(tick) = &mut self.recorded {
            tick.add(RecordedSpan { kind: SpanKind::Stage(before), began: tick.since_begin(since), lasted });
        }
        self.current = Some((stage, now));
        Some(before)
    }
}

impl AddAssign<&StanzaPath> for StanzaPath {
    fn add_assign(&mut self, other: &StanzaPath) {
        self.times += &other.times;
    }
}

/// The number of ticks of which one is measured. It is prime, so that it matches no rhythm of a
/// client.
pub const SAMPLED_TICKS: u32 = 61;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn measured_tick(path: &mut StanzaPath) {
        loop {
            path.begin_tick(0);
            if path.is_measured() {
                return;
            }
            path.end_tick();
        }
    }

    #[test]
    fn one_tick_of_many_is_measured() {
        let mut path = StanzaPath::default();
        let mut measured = 0;
        for _ in 0..3 * SAMPLED_TICKS {
            path.begin_tick(0);
            measured += u32::from(path.is_measured());
            let outer = path.enter(StanzaStage::Read);
            path.back(outer);
            path.end_tick();
        }
        assert_eq!(measured, 3);
        assert_eq!(path.times().of(StanzaStage::Read).calls, 3);
        assert_eq!(path.estimate(StanzaStage::Read).calls, 3 * u64::from(SAMPLED_TICKS));
    }

    #[test]
    fn the_time_of_a_stage_is_its_own() {
        let mut path = StanzaPath::default();
        measured_tick(&mut path);
        let scan = path.enter(StanzaStage::Scan);
        let route = path.enter_stanza(|| ("message", 10));
        let deliver = path.enter(StanzaStage::Deliver);
        std::thread::sleep(Duration::from_millis(20));
        path.back(deliver);
        path.end_stanza(route);
        path.back(scan);
        path.end_tick();
        let of = |stage| path.times().of(stage).time;
        assert!(of(StanzaStage::Deliver) >= Duration::from_millis(20));
        assert!(of(StanzaStage::Scan) + of(StanzaStage::Route) < of(StanzaStage::Deliver));
        assert!(!path.is_measured(), "the tick is over");
        path.back(OuterStage(Some(StanzaStage::Scan)));
        assert!(!path.is_measured(), "a stage of an earlier tick isn't gone back to");
    }

    #[test]
    fn shards_are_added_up() {
        let mut path = StanzaPath::default();
        measured_tick(&mut path);
        path.end_tick();
        let mut sum = path.clone();
        sum += &path;
        assert_eq!(sum.times().of(StanzaStage::Rest).calls, 2 * path.times().of(StanzaStage::Rest).calls);
    }
}
