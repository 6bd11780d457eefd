//! Measured ticks as spans, for the exporter to OpenTelemetry.
//!
//! The process has one queue, which stays empty unless an exporter collects. The queue is bounded:
//! spans that don't fit are counted and left out, since no stanza may wait for an observer. A
//! measured tick is chosen if it was slow, or if the last one was chosen long enough ago. Spans
//! contain neither addresses nor texts of users.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::bound::{Bound, Most, Per, Unit};
use crate::path::StanzaStage;
use crate::slow::{Slow, slow};

/// The kind of a span within a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A stage was current.
    Stage(StanzaStage),
    /// A stanza of a session was routed: its name, such as `message`, and its bytes.
    Stanza(&'static str, usize),
}

/// A span within a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedSpan {
    /// The stage or the stanza that took the time.
    pub kind: SpanKind,
    /// The time from the beginning of the tick to the beginning of the span.
    pub began: Duration,
    /// The time that it took.
    pub lasted: Duration,
}

/// One tick of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTick {
    /// The number of the shard.
    pub shard: usize,
    /// The time of day when it began, since 1970.
    pub unix: Duration,
    /// The time that it took.
    pub lasted: Duration,
    /// The spans of the tick, in the order of their ends; the stages within a stanza come before
    /// it.
    pub spans: Vec<RecordedSpan>,
    /// The number of spans that didn't fit.
    pub left_out: u64,
    began: Instant,
    stanza: Option<RecordedSpan>,
}

impl RecordedTick {
    /// Begins the record of a tick that began at this moment.
    pub(crate) fn new(shard: usize, began: Instant) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { shard, unix, lasted: Duration::ZERO, spans: Vec::new(), left_out: 0, began, stanza: None }
    }

    /// Returns the time from the beginning to a moment.
    pub(crate) fn since_begin(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.began)
    }

    /// Adds a span that has ended.
    pub(crate) fn add(&mut self, span: RecordedSpan) {
        if self.spans.len() < MOST_SPANS {
            self.spans.push(span);
        } else {
            self.left_out += 1;
        }
    }

    /// Begins the span of a stanza. If the span of an earlier stanza has not ended, it is dropped.
    pub(crate) fn begin_stanza(&mut self, name: &'static str, bytes: usize, now: Instant) {
        let began = self.since_begin(now);
        self.stanza = Some(RecordedSpan { kind: SpanKind::Stanza(name, bytes), began, lasted: Duration::ZERO });
    }

    /// Ends the stanza that was begun.
    pub(crate) fn end_stanza(&mut self, now: Instant) {
        if let Some(mut span) = self.stanza.take() {
            span.lasted = self.since_begin(now).saturating_sub(span.began);
            self.add(span);
        }
    }

    /// Ends the record, and sets its time to that from its beginning to `now`.
    pub(crate) fn end(&mut self, now: Instant) {
        self.lasted = self.since_begin(now);
    }
}

/// The spans that were collected since the last call.
#[derive(Debug, Default)]
pub struct CollectedSpans {
    /// Ticks of shards, oldest first.
    pub ticks: VecDeque<RecordedTick>,
    /// The number of ticks that didn't fit.
    pub left_out: u64,
}

/// The spans of a process that wait to be exported.
#[derive(Debug)]
pub struct SpanQueue {
    /// The shortest time between two ticks that aren't slow, in nanoseconds; 0 without an exporter.
    pause_ns: AtomicU64,
    waiting: Mutex<WaitingSpans>,
}

#[derive(Debug)]
struct WaitingSpans {
    collected: CollectedSpans,
    /// The time of the last tick that was chosen because its turn had come, and not as a slow one.
    chosen: Option<Instant>,
}

impl Default for SpanQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl SpanQueue {
    /// Returns a queue that collects nothing yet.
    pub const fn new() -> Self {
        let collected = CollectedSpans { ticks: VecDeque::new(), left_out: 0 };
        Self { pause_ns: AtomicU64::new(0), waiting: Mutex::new(WaitingSpans { collected, chosen: None }) }
    }

    /// Begins to collect slow ticks, and this number of other ticks per minute; `None` ends
    /// collecting.
    pub fn collect(&self, ticks_per_minute: Option<u32>) {
        let pause = |per_minute: u32| 60_000_000_000 / u64::from(per_minute.max(1));
        self.pause_ns.store(ticks_per_minute.map_or(0, pause), Ordering::Relaxed);
        if ticks_per_minute.is_none() {
            self.take();
        }
    }

    /// Returns whether ticks are collected.
    pub fn wants_ticks(&self) -> bool {
        self.pause_ns.load(Ordering::Relaxed) > 0
    }

    /// Adds a tick, if it is chosen.
    pub(crate) fn add_tick(&self, tick: RecordedTick) {
        let pause = Duration::from_nanos(self.pause_ns.load(Ordering::Relaxed));
        let mut waiting = self.lock();
        let is_due = waiting.chosen.is_none_or(|chosen| tick.began.saturating_duration_since(chosen) >= pause);
        if is_due {
            waiting.chosen = Some(tick.began);
        } else if !slow().is_slow(Slow::Tick, tick.lasted) {
            return;
        }
        let collected = &mut waiting.collected;
        if collected.ticks.len() >= MOST_TICKS {
            collected.left_out += 1;
        } else {
            collected.ticks.push_back(tick);
        }
    }

    /// Takes the collected spans.
    pub fn take(&self) -> CollectedSpans {
        std::mem::take(&mut self.lock().collected)
    }

    /// Locks the queue. No code under the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, WaitingSpans> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the queue of this process.
pub fn spans() -> &'static SpanQueue {
    static QUEUE: SpanQueue = SpanQueue::new();
    &QUEUE
}

/// The most ticks that wait to be collected.
const MOST_TICKS: usize = 64;
/// The most spans of a tick; further spans are only counted.
pub const MOST_SPANS: usize = 256;

/// The bounds of this module for the page of limits.
pub const BOUNDS: &[Bound] = &[
    Bound::on("ticks that wait for the collector of traces", Per::Server, Most::Fixed(MOST_TICKS as u64), Unit::Number)
        .or("further ones are counted, but left out"),
    Bound::on("spans of a tick", Per::Server, Most::Fixed(MOST_SPANS as u64), Unit::Number)
        .or("further ones are counted, but left out"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(began: Instant, lasted: Duration) -> RecordedTick {
        RecordedTick { lasted, ..RecordedTick::new(0, began) }
    }

    #[test]
    fn ticks_are_chosen_by_time_and_slow_ones_always() {
        let (queue, begin) = (SpanQueue::new(), Instant::now());
        assert!(!queue.wants_ticks());
        queue.collect(Some(60));
        assert!(queue.wants_ticks());
        for ms in [0, 10, 999, 1000, 1010] {
            queue.add_tick(tick(begin + Duration::from_millis(ms), Duration::ZERO));
        }
        assert_eq!(queue.take().ticks.len(), 2);
        queue.add_tick(tick(begin + Duration::from_millis(1020), Duration::from_secs(3600)));
        assert_eq!(queue.take().ticks.len(), 1, "it was slow");
    }

    #[test]
    fn the_queue_is_bounded() {
        let (queue, begin) = (SpanQueue::new(), Instant::now());
        queue.collect(Some(60));
        for at in 0..MOST_TICKS as u64 + 3 {
            queue.add_tick(tick(begin + Duration::from_secs(2 * at), Duration::ZERO));
        }
        let taken = queue.take();
        assert_eq!((taken.ticks.len(), taken.left_out), (MOST_TICKS, 3));
        queue.add_tick(tick(begin + Duration::from_secs(3600), Duration::ZERO));
        queue.collect(None);
        assert!(queue.take().ticks.is_empty(), "without an exporter they are dropped");
    }

    #[test]
    fn the_spans_of_a_tick_are_bounded() {
        let mut tick = RecordedTick::new(0, Instant::now());
        let span =
            RecordedSpan { kind: SpanKind::Stage(StanzaStage::Read), began: Duration::ZERO, lasted: Duration::ZERO };
        (0..MOST_SPANS + 4).for_each(|_| tick.add(span));
        assert_eq!((tick.spans.len(), tick.left_out), (MOST_SPANS, 4));
    }
}
