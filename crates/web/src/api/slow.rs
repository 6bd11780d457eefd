//! The newest slow events of the process, and their number.

use rookery_base::date;
use rookery_observe::{SlowEvent, slow};
use serde_json::{Map, Value, json};

use super::call::{ApiCall, ApiReply};
use super::problem::Problem;

pub(super) async fn events(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let counts: Map<String, Value> =
        slow().counts().map(|(kind, count)| (kind.name().to_owned(), count.into())).collect();
    let events: Vec<_> = slow().newest().iter().map(event).collect();
    Ok(ApiReply::json(&json!({ "limit_ms": slow().limit_ms(), "counts": counts, "events": events })))
}

fn event(event: &SlowEvent) -> Value {
    json!({
        "time": date::timestamp_ms(event.unix_ms),
        "kind": event.kind.name(),
        "milliseconds": u64::try_from(event.lasted.as_millis()).unwrap_or(u64::MAX),
        "what": event.what,
        "whose": event.whose,
        "why": event.why,
    })
}
