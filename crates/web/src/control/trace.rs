//! Traces for commands: the way of the stanzas of one address, as the shards of all nodes see it.
//!
//! # Invariants
//!
//! - A trace ends with its connection, its time or its number of stanzas, on every shard.
//! - Every trace is recorded in the action log before it begins: its author, its subject, its
//!   duration, and whether it shows users' texts.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Response, StatusCode};
use rookery_base::{Awaited, chance, count_of, one_shot};
use rookery_hub::trace::{MOST_SECONDS, MOST_STANZAS, MOST_TRACES};
use rookery_hub::{Subject, Trace, TraceExtent};
use rookery_operations::Refusal;
use rookery_operations::action_log::Entry;
use rookery_shard::Door;
use rookery_shard::elsewhere::AnswersElsewhere;
use rookery_shard::traced::SeenElsewhere;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};

use crate::api::BY_COMMAND;
use crate::api::problem::Problem;
use crate::ask::now_ms;
use crate::body::ComingBytes;
use crate::control::journey::Journey;
use crate::reply::{Body, reply};
use crate::{WebShared, form};

/// Begins a trace, and replies with a line of JSON for each sighting. `begins` has the free rights
/// to trace.
pub(super) async fn show(
    query: &str,
    who: &str,
    shared: &WebShared,
    begins: impl FnOnce() -> Option<OwnedSemaphorePermit>,
) -> Response<Body> {
    let Some(pairs) = form::pairs(query) else {
        return Problem::bad_request("the query can't be read").response();
    };
    let subject = match Subject::parse(form::value(&pairs, "jid")) {
        Ok(subject) => subject,
        Err(words) => return Problem::bad_request(words).response(),
    };
    if let Subject::Domain(domain) = &subject
        && shared.domain_of(domain).is_some()
    {
        let words = format!("{domain} is served here: trace an account, a room, or the domain of another server");
        return Problem::bad_request(words).response();
    }
    let number = |name: &str, most: u64| form::value(&pairs, name).parse().ok().filter(|it| (1..=most).contains(it));
    let (Some(stanzas), Some(seconds)) = (number("stanzas", MOST_STANZAS as u64), number("seconds", MOST_SECONDS))
    else {
        let words = format!("a trace covers 1 to {MOST_STANZAS} stanzas, and lasts 1 to {MOST_SECONDS} seconds");
        return Problem::bad_request(words).response();
    };
    let Some(place) = begins() else {
        let words = format!("{MOST_TRACES} traces are already running");
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many", words).response();
    };
    let has_contents = form::value(&pairs, "contents") == "yes";
    note(shared, who, &subject, stanzas, seconds, has_contents);
    let Some(reader) = random() else { return Problem::from(Refusal::Late).response() };
    let until = Instant::now() + Duration::from_secs(seconds);
    let until_ms = shared.door.now_ms() + seconds * 1000;
    let extent = TraceExtent { has_contents, most_stanzas: stanzas as usize };
    let trace = Trace::new(reader, subject, extent, until_ms, shared.door.shards());
    let Some(armed) = Armed::new(shared.door.clone(), Arc::new(trace), extent).await else {
        return Problem::from(Refusal::Late).response();
    };
    let mut response = reply(StatusCode::OK, "application/x-ndjson", "");
    *response.body_mut() = Body::coming(TraceReading::new(armed, until, place));
    response
}

/// Returns a number by which the shards of all nodes know a reader.
fn random() -> Option<u128> {
    let mut bytes = [0; 16];
    chance::fill(&mut bytes).ok()?;
    Some(u128::from_ne_bytes(bytes))
}

fn note(shared: &WebShared, who: &str, subject: &Subject, stanzas: u64, seconds: u64, has_contents: bool) {
    let with = if has_contents { "with" } else { "without" };
    let act = format!(
        "traced {} for {}, {} at most, {with} what people write",
        subject.as_str(),
        count_of(seconds, "second"),
        count_of(stanzas, "stanza")
    );
    let domain = match subject {
        Subject::Address(jid) => shared.domain_of(jid.domain()).unwrap_or_default(),
        Subject::Domain(_) => String::new(),
    };
    shared.action_log.note(Entry { unix_ms: now_ms(), who: who.to_owned(), by: BY_COMMAND.to_owned(), act, domain });
}

/// A trace that all shards write until this is dropped.
#[derive(Debug)]
struct Armed {
    door: Door,
    trace: Arc<Trace>,
    extent: TraceExtent,
}

impl Armed {
    /// Returns the trace once all shards of this node have begun it; `None` if one of them doesn't
    /// answer in time.
    async fn new(door: Door, trace: Arc<Trace>, extent: TraceExtent) -> Option<Self> {
        let armed = Self { door, trace, extent };
        let begun: Vec<_> = (0..armed.door.shards())
            .map(|shard| {
                let (completer, begun) = one_shot::<bool>();
                let trace = armed.trace.clone();
                armed.door.run_at(shard, move |world| completer.complete(world.trace(trace)));
                begun
            })
            .collect();
        for begun in begun {
            let is_begun = timeout(PATIENCE, begun).await.ok()?.unwrap_or_default();
            if !is_begun {
                return None;
            }
        }
        // The other nodes begin with the first question.
        let asked = armed.ask(MOST_SECONDS * 1000);
        timeout(PATIENCE, asked).await.ok()?.ok()?;
        Some(armed)
    }

    /// Asks the other nodes what they have seen since the last question.
    fn ask(&self, remaining_ms: u64) -> AwaitedSightings {
        self.door.trace_elsewhere(self.trace.reader(), self.trace.subject(), self.extent, remaining_ms)
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        let reader = self.trace.reader();
        for shard in 0..self.door.shards() {
            self.door.run_at(shard, move |world| world.end_trace(reader));
        }
        self.door.end_trace_elsewhere(reader);
    }
}

/// The sightings of a trace: the body of a response.
#[derive(Debug)]
struct TraceReading {
    armed: Armed,
    /// The times of checks for more. A sighting wakes no task, since shards write them.
    looks: Interval,
    /// The answers of the other nodes that are on their way.
    asked: Option<AwaitedSightings>,
    journey: Journey,
    until: Instant,
    /// The time at which the trace had all of its stanzas.
    full_since: Option<Instant>,
    has_begun: bool,
    is_over: bool,
    _place: OwnedSemaphorePermit,
}

impl TraceReading {
    fn new(armed: Armed, until: Instant, place: OwnedSemaphorePermit) -> Self {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let journey = Journey::new(armed.extent.most_stanzas);
        Self {
            armed,
            looks,
            asked: None,
            journey,
            until,
            full_since: None,
            has_begun: false,
            is_over: false,
            _place: place,
        }
    }

    /// Returns the lines about everything that was seen since the last call, here and elsewhere.
    fn lines(&mut self, elsewhere: AnswersElsewhere<SeenElsewhere>) -> String {
        let (now, trace) = (Instant::now(), &self.armed.trace);
        let mut text = String::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            let seconds = self.until.saturating_duration_since(now).as_secs_f64().round() as u64;
            let begun = json!({ "tracing": trace.subject().as_str(), "seconds": seconds });
            text.push_str(&format!("{begun}\n"));
        }
        let here = trace.take();
        for line in self.journey.lines(here, elsewhere) {
            text.push_str(&format!("{line}\n"));
        }
        if trace.is_full() || self.journey.is_full() {
            self.full_since.get_or_insert(now);
        }
        // The trace still waits for the fate of its last stanzas.
        let is_full = self.full_since.is_some_and(|since| now >= since + OUTCOMES);
        if is_full || now >= self.until {
            self.is_over = true;
            let why = if is_full { "stanzas" } else { "seconds" };
            text.push_str(&format!("{{\"ended\":\"{why}\"}}\n"));
        }
        text
    }
}

impl ComingBytes for TraceReading {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if self.is_over {
                return Poll::Ready(None);
            }
            let Some(asked) = &mut self.asked else {
                ready!(self.looks.poll_tick(context));
                let remaining = self.until.saturating_duration_since(Instant::now());
                self.asked = Some(self.armed.ask(remaining.as_millis() as u64));
                continue;
            };
            let Ok(elsewhere) = ready!(Pin::new(asked).poll(context)) else {
                // The server is stopping.
                return Poll::Ready(None);
            };
            self.asked = None;
            let text = self.lines(elsewhere);
            if !text.is_empty() {
                return Poll::Ready(Some(Ok(text.into())));
            }
        }
    }
}

type AwaitedSightings = Awaited<AnswersElsewhere<SeenElsewhere>>;

/// The path of traces, after [`crate::api::PREFIX`].
pub const TRACE: &str = "/trace";
/// The time that shards may take to begin.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between two checks for more.
const LOOK: Duration = Duration::from_millis(100);
/// The time for which a trace that has all of its stanzas waits for their fate.
const OUTCOMES: Duration = Duration::from_secs(1);
