//! Metrics of times by stage, of stanzas and of multicasts, and of the spans for a collector of
//! traces.

use std::sync::atomic::{AtomicU64, Ordering};

use rookery_observe::{MulticastStage, StanzaStage};
use rookery_shard::ShardCensus;

use super::page::{COUNTER, MetricPage, label};
use crate::traces::TraceCounts;

/// Writes the times of all stanzas by stage.
pub(super) fn stanzas(page: &mut MetricPage, census: &ShardCensus) {
    let taken = |stage: StanzaStage| (label(stage.name()), census.counters.path.estimate(stage));
    let (calls, seconds) = ("rookery_stage_calls_total", "rookery_stage_seconds_total");
    page.head(
        calls,
        COUNTER,
        "Number of times that a stage on the path of stanzas was entered, estimated from one tick of 61.",
    );
    for (name, taken) in StanzaStage::ALL.map(taken) {
        page.line(calls, &format!("{{stage=\"{name}\"}}"), taken.calls);
    }
    page.head(
        seconds,
        COUNTER,
        "Time that the stages on the path of stanzas took on the shards, estimated from one tick of 61.",
    );
    for (name, taken) in StanzaStage::ALL.map(taken) {
        page.line(seconds, &format!("{{stage=\"{name}\"}}"), taken.time.as_secs_f64());
    }
}

/// Writes the times of stanzas with many recipients by stage; nothing while `profile` is off.
pub(super) fn multicasts(page: &mut MetricPage, census: &ShardCensus) {
    let taken = |stage: MulticastStage| (label(stage.name()), census.counters.stages.of(stage));
    let (calls, seconds) = ("rookery_multicast_stage_calls_total", "rookery_multicast_stage_seconds_total");
    page.head(calls, COUNTER, "Number of times that a stage of a multicast was measured.");
    for (name, taken) in MulticastStage::ALL.map(taken) {
        page.line(calls, &format!("{{stage=\"{name}\"}}"), taken.calls);
    }
    page.head(seconds, COUNTER, "Time that the stages of multicasts took in total.");
    for (name, taken) in MulticastStage::ALL.map(taken) {
        page.line(seconds, &format!("{{stage=\"{name}\"}}"), taken.time.as_secs_f64());
    }
}

/// Writes the counts of spans for a collector of traces.
pub(super) fn traces(page: &mut MetricPage, counts: &TraceCounts) {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    page.one(
        "rookery_trace_spans_total",
        COUNTER,
        "Spans that the collector of [traces] has accepted.",
        "",
        of(&counts.sent),
    );
    let help = "Spans that it hasn't accepted, and slow events that were lost before they were sent.";
    page.one("rookery_trace_spans_lost_total", COUNTER, help, "", of(&counts.lost));
}
