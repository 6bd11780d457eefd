//! Readings of devices: once, or as server-sent events while the client stays.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use rookery_operations::Refusal;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::call::{ApiCall, ApiReply};
use super::field::{ApiField, ApiFieldKind};
use super::problem::Problem;
use crate::body::ComingBytes;
use crate::readings::{Feed, FeedPlace, Told};
use crate::reply::Body;

/// Replies with one reading per request.
pub(super) async fn once(call: ApiCall) -> Result<ApiReply, Problem> {
    let (mut feed, _place) = open(&call, true)?;
    let mut readings: Vec<Value> = Vec::new();
    let all = async {
        while let Some(told) = poll_fn(|context| feed.poll(context)).await {
            match told {
                Ok(Told::Reading(reading)) => readings.push(reading),
                Ok(Told::Alive) => {}
                Err(_) => return Err(Refusal::Late),
            }
        }
        Ok(())
    };
    timeout(PATIENCE, all).await.map_err(|_| Refusal::Late)??;
    Ok(ApiReply::json(&json!({ "readings": readings })))
}

/// Replies with an overview: the devices that are read, the readers and the delays.
pub(super) async fn overview(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let readings = call.shared.readings.clone().ok_or_else(none_served)?;
    let _place = call.shared.feeds.enter(call.caller.from).ok_or_else(too_many_readers)?;
    let mut feed = readings.overview(call.caller.from).map_err(|_| Refusal::Late)?;
    let told = timeout(LOOK, poll_fn(|context| feed.poll(context))).await.map_err(|_| Refusal::Late)?;
    match told {
        Some(Ok(Told::Reading(overview))) => Ok(ApiReply::json(&overview)),
        _ => Err(Refusal::Late.into()),
    }
}

/// Replies with readings as they arrive, as events.
pub(super) async fn stream(call: ApiCall) -> Result<ApiReply, Problem> {
    let (feed, place) = open(&call, false)?;
    Ok(ApiReply::coming("text/event-stream", Body::coming(Events { feed, _place: place })))
}

fn none_served() -> Problem {
    Problem::missing("no readings are served: see [dpm] in the configuration")
}

fn too_many_readers() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many", "too many clients of the API read already")
}

/// Opens a feed for the devices of a call.
fn open(call: &ApiCall, is_once: bool) -> Result<(Box<dyn Feed>, FeedPlace), Problem> {
    call.may_all()?;
    let readings = call.shared.readings.clone().ok_or_else(none_served)?;
    let requests: Vec<String> =
        call.query.text("requests").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    if !(1..=MOST_REQUESTS).contains(&requests.len()) {
        return Err(Problem::bad_request(format!(
            "requests: expected 1 to {MOST_REQUESTS} requests, separated by spaces"
        )));
    }
    let from = call.caller.from;
    let place = call.shared.feeds.enter(from).ok_or_else(too_many_readers)?;
    let feed = readings.read(&requests, is_once, from).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Problem::bad_request(error.to_string()),
        _ => Refusal::Late.into(),
    })?;
    Ok((feed, place))
}

/// The events of a feed, in the format of server-sent events (HTML, section 9.2).
#[derive(Debug)]
struct Events {
    feed: Box<dyn Feed>,
    _place: FeedPlace,
}

impl ComingBytes for Events {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let told = ready!(self.feed.poll(context));
        Poll::Ready(told.map(|told| {
            told.map(|told| match told {
                Told::Reading(reading) => Bytes::from(format!("data: {reading}\n\n")),
                // A comment, which shows both sides that the other is alive.
                Told::Alive => Bytes::from_static(b":\n\n"),
            })
        }))
    }
}

/// The parameters of both operations.
pub(super) const FIELDS: &[ApiField] = &[ApiField {
    name: "requests",
    kind: ApiFieldKind::Text { min: 1, max: MOST_CHARACTERS },
    is_required: true,
    doc: "Requests for devices in the syntax of DPM's clients, separated by spaces, such as `M:OUTTMP@P,500 B:ARRAY[0:3]`.",
}];

/// The most requests in a call.
pub(crate) const MOST_REQUESTS: usize = 100;
/// The most characters of these requests together.
const MOST_CHARACTERS: usize = 4000;
/// The time for an overview.
const LOOK: Duration = Duration::from_secs(10);
/// The time for single readings: long enough that a silent front-end is reported before it ends.
const PATIENCE: Duration = Duration::from_secs(70);
