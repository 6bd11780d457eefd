//! Events as they happen, for other programs.

use hyper::StatusCode;

use super::call::{ApiCall, ApiReply};
use super::field::{ApiField, ApiFieldKind};
use super::problem::Problem;
use crate::events::EventStream;
use crate::reply::Body;

/// Replies with events as they happen, as server-sent events.
pub(super) async fn stream(call: ApiCall) -> Result<ApiReply, Problem> {
    let events = call.shared.events.clone();
    let told = match call.query.text("after") {
        // An id of another run is older than all events of this one.
        Some(after) => events.serial_of(after).unwrap_or(0),
        None => events.newest(),
    };
    let crowded = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many", "too many clients already read events");
    let place = call.shared.feeds.enter(call.caller.from).ok_or_else(crowded)?;
    let stream = EventStream::new(events, told, call.token.domain.clone(), place);
    Ok(ApiReply::coming("text/event-stream", Body::coming(stream)))
}

/// The parameters.
pub(super) const FIELDS: &[ApiField] = &[ApiField {
    name: "after",
    kind: ApiFieldKind::Text { min: 1, max: 100 },
    is_required: false,
    doc: "Only events after the one with this id, as far as they are in memory; for an id from before a restart, all events since then. Without it, only new ones.",
}];
