//! Spans as JSON, in the form of OTLP (opentelemetry-proto, `ExportTraceServiceRequest`): ids in
//! hexadecimal, times in nanoseconds since 1970 as text, enumerations as numbers.

use std::time::Duration;

use hyper::body::Bytes;
use rookery_base::{chance, hex};
use rookery_observe::SlowEvent;
use rookery_observe::spans::{CollectedSpans, RecordedSpan, RecordedTick, SpanKind};
use serde_json::{Value, json};

/// A request to the collector.
pub(super) struct TraceBatch {
    /// The body of the request, as JSON.
    pub body: Bytes,
    /// The number of spans in it.
    pub spans: u64,
}

/// Returns the request with these spans; `None` if there are none.
pub(super) fn batch(node: &str, collected: &CollectedSpans, slow: &[SlowEvent]) -> Option<TraceBatch> {
    let mut spans = Vec::new();
    for tick in &collected.ticks {
        tick_spans(tick, &mut spans);
    }
    spans.extend(slow.iter().filter_map(slow_span));
    if spans.is_empty() {
        return None;
    }
    let count = spans.len() as u64;
    let mut resource = vec![
        attribute("service.name", "rookery"),
        attribute("service.version", VERSION),
        attribute("process.pid", u64::from(std::process::id())),
    ];
    if !node.is_empty() {
        resource.push(attribute("service.instance.id", node));
    }
    let request = json!({
        "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": { "name": "rookery", "version": VERSION }, "spans": spans }],
        }],
    });
    Some(TraceBatch { body: request.to_string().into(), spans: count })
}

/// Adds the spans of a tick: its own, those of its stanzas below it, and those of stages below
/// their stanza, or the tick.
fn tick_spans(tick: &RecordedTick, spans: &mut Vec<Value>) {
    let Some(trace) = id::<16>() else { return };
    let Some(root) = id::<8>() else { return };
    spans.push(json!({
        "traceId": trace,
        "spanId": root,
        "name": "tick",
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(tick.unix),
        "endTimeUnixNano": nanoseconds(tick.unix + tick.lasted),
        "attributes": [attribute("rookery.shard", tick.shard as u64), attribute("rookery.spans_left_out", tick.left_out)],
    }));
    let is_stanza = |span: &&RecordedSpan| matches!(span.kind, SpanKind::Stanza(..));
    let stanzas: Vec<_> = tick.spans.iter().filter(is_stanza).filter_map(|span| Some((span, id::<8>()?))).collect();
    for span in &tick.spans {
        let own = stanzas.iter().find(|(stanza, _)| std::ptr::eq(*stanza, span));
        let around = stanzas.iter().find(|(stanza, _)| own.is_none() && is_within(span, stanza));
        let Some(id) = own.map(|(_, id)| id.clone()).or_else(id::<8>) else { return };
        let (name, attributes) = match span.kind {
            SpanKind::Stage(stage) => (stage.name(), Vec::new()),
            SpanKind::Stanza(name, bytes) => (name, vec![attribute("rookery.stanza.bytes", bytes as u64)]),
        };
        spans.push(json!({
            "traceId": trace,
            "spanId": id,
            "parentSpanId": around.map_or(&root, |(_, id)| id),
            "name": name,
            "kind": INTERNAL,
            "startTimeUnixNano": nanoseconds(tick.unix + span.began),
            "endTimeUnixNano": nanoseconds(tick.unix + span.began + span.lasted),
            "attributes": attributes,
        }));
    }
}

fn is_within(span: &RecordedSpan, around: &RecordedSpan) -> bool {
    span.began >= around.began && span.began + span.lasted <= around.began + around.lasted
}

/// Returns the span of a slow event, which ended when it was noticed.
fn slow_span(event: &SlowEvent) -> Option<Value> {
    let ended = Duration::from_millis(event.unix_ms);
    let mut attributes = vec![attribute("rookery.slow", true)];
    for (name, text) in [("rookery.what", &event.what), ("rookery.whose", &event.whose), ("rookery.why", &event.why)] {
        if !text.is_empty() {
            attributes.push(attribute(name, text.as_str()));
        }
    }
    Some(json!({
        "traceId": id::<16>()?,
        "spanId": id::<8>()?,
        "name": format!("slow {}", event.kind.name()),
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(ended.saturating_sub(event.lasted)),
        "endTimeUnixNano": nanoseconds(ended),
        "attributes": attributes,
    }))
}

/// Returns an attribute: numbers are text in this form, since they have 64 bits.
fn attribute(key: &str, value: impl Into<Value>) -> Value {
    let value = match value.into() {
        Value::Bool(is) => json!({ "boolValue": is }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        other => json!({ "stringValue": other }),
    };
    json!({ "key": key, "value": value })
}

fn nanoseconds(unix: Duration) -> String {
    unix.as_nanos().to_string()
}

/// Returns a random id of this many bytes, in hexadecimal; `None` if the system provides none.
fn id<const BYTES: usize>() -> Option<String> {
    let mut bytes = [0; BYTES];
    chance::fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u64 = 1;
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use rookery_observe::spans::spans;
    use rookery_observe::{Slow, StanzaPath, StanzaStage};

    use super::*;

    /// Returns a tick with one message, by the clock that shards use.
    fn collect_one() -> CollectedSpans {
        spans().collect(Some(u32::MAX));
        let mut path = StanzaPath::default();
        let collected = loop {
            path.begin_tick(3);
            let read = path.enter(StanzaStage::Read);
            path.back(read);
            let stanza = path.enter_stanza(|| ("message", 120));
            let deliver = path.enter(StanzaStage::Deliver);
            path.back(deliver);
            path.end_stanza(stanza);
            path.end_tick();
            let collected = spans().take();
            if !collected.ticks.is_empty() {
                break collected;
            }
        };
        spans().collect(None);
        collected
    }

    fn spans_of(batch: &TraceBatch) -> Vec<Value> {
        let body: Value = serde_json::from_slice(&batch.body).unwrap();
        body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
    }

    #[test]
    fn stages_are_below_the_stanza_that_they_worked_for() {
        let batch = batch("n1", &collect_one(), &[]).unwrap();
        let spans = spans_of(&batch);
        assert_eq!(batch.spans, spans.len() as u64);
        let named = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
        assert!(named("tick").get("parentSpanId").is_none(), "it is the root");
        assert_eq!(named("message")["parentSpanId"], named("tick")["spanId"]);
        assert_eq!(named("read")["parentSpanId"], named("tick")["spanId"]);
        assert_eq!(named("deliver")["parentSpanId"], named("message")["spanId"]);
        assert_eq!(named("tick")["attributes"][0], attribute("rookery.shard", 3));
        assert!(spans.iter().all(|span| span["traceId"] == spans[0]["traceId"]));
        let time = |span: &Value, member: &str| span[member].as_str().unwrap().parse::<u64>().unwrap();
        for span in &spans {
            assert!(time(span, "startTimeUnixNano") <= time(span, "endTimeUnixNano"), "{span}");
            assert!(time(span, "endTimeUnixNano") <= time(named("tick"), "endTimeUnixNano"), "{span}");
        }
    }

    #[test]
    fn a_slow_event_is_a_span_that_ends_at_its_time() {
        assert!(batch("", &CollectedSpans::default(), &[]).is_none(), "nothing is posted for nothing");
        let event = SlowEvent {
            unix_ms: 10_000,
            kind: Slow::Store,
            lasted: Duration::from_millis(300),
            what: "archive page".into(),
            whose: String::new(),
            why: "the disk".into(),
        };
        let batch = batch("", &CollectedSpans::default(), &[event]).unwrap();
        let spans = spans_of(&batch);
        assert_eq!(spans[0]["name"], "slow store");
        assert_eq!(
            (&spans[0]["startTimeUnixNano"], &spans[0]["endTimeUnixNano"]),
            (&json!("9700000000"), &json!("10000000000"))
        );
        assert_eq!(spans[0]["attributes"].as_array().map(Vec::len), Some(3), "there is nobody's name");
    }
}
