//! Events for other programs, as JSON: streamed to clients of the API, or posted to an address in
//! batches.
//!
//! # Layout
//!
//! `spool` keeps events on the disk until they are posted, `post` posts them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Bytes;
use rookery_base::date::timestamp_ms;
use rookery_operations::events::{EventLog, Occurrence};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep};

use crate::body::ComingBytes;
use crate::readings::FeedPlace;

pub mod post;
mod spool;

/// Returns an event as JSON.
fn to_json(event: &Occurrence) -> Value {
    let fields = event.fields.iter().map(|(name, text)| ((*name).to_owned(), Value::from(text.as_str())));
    json!({
        "id": event.id,
        "time": timestamp_ms(event.unix_ms),
        "kind": event.kind,
        "domain": event.domain,
        "data": Value::Object(fields.collect()),
    })
}

/// The events after a given one, in the format of server-sent events (HTML, section 9.2), for the
/// domains that the client may see.
pub(crate) struct EventStream {
    pub events: EventLog,
    /// The serial of the last event that was sent.
    pub told: u64,
    /// The domains; `None` for all.
    pub domain: Option<String>,
    pub silence: Pin<Box<Sleep>>,
    pub _place: FeedPlace,
}

impl EventStream {
    /// Returns the events after a given one.
    pub fn new(events: EventLog, told: u64, domain: Option<String>, place: FeedPlace) -> Self {
        Self { events, told, domain, silence: Box::pin(sleep(ALIVE)), _place: place }
    }

    fn text(&mut self, events: Vec<Arc<Occurrence>>, missed: u64) -> String {
        let mut text = if missed > 0 { format!("event: missed\ndata: {missed}\n\n") } else { String::new() };
        for event in events {
            self.told = event.serial;
            if self.domain.as_ref().is_none_or(|domain| *domain == event.domain) {
                text.push_str(&format!("id: {}\nevent: {}\ndata: {}\n\n", event.id, event.kind, to_json(&event)));
            }
        }
        text
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").field("told", &self.told).finish_non_exhaustive()
    }
}

impl ComingBytes for EventStream {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        while let Poll::Ready(behind) = self.events.poll_behind(self.told, PORTION, context) {
            let text = self.text(behind.events, behind.missed);
            if !text.is_empty() {
                self.silence.as_mut().reset(Instant::now() + ALIVE);
                return Poll::Ready(Some(Ok(text.into())));
            }
        }
        self.silence.as_mut().poll(context).map(|()| {
            self.silence.as_mut().reset(Instant::now() + ALIVE);
            // The timer is polled once more, so that it wakes this task.
            context.waker().wake_by_ref();
            // A comment, which shows both sides that the other is alive.
            Some(Ok(Bytes::from_static(b":\n\n")))
        })
    }
}

/// The number of events that are sent at a time.
const PORTION: usize = 100;
/// The time after which a client without events gets a sign of life.
const ALIVE: Duration = Duration::from_secs(20);
