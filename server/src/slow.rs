//! `rookery slow`: lists the events that took the running server longer than they should.

use serde_json::Value;

use crate::arguments::ShownAs;
use crate::columns::{self, Columns, cell};
use crate::control::RunningServer;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Prints the newest slow events.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if no server runs, or it doesn't answer.
pub fn run(source: &ConfigSource, shown: ShownAs) -> Result<(), CommandFailure> {
    let found = RunningServer::in_folder(&source.folder)?.get("/slow")?;
    if shown.json {
        return columns::line(&found.to_string()).map(drop);
    }
    say(&text(&found));
    Ok(())
}

fn text(found: &Value) -> String {
    let limit_ms = found["limit_ms"].as_u64().unwrap_or_default();
    if limit_ms == 0 {
        return "nothing counts as slow, because slow_ms in [instruments] is 0\n".to_owned();
    }
    let counts = found["counts"].as_object().into_iter().flatten().filter(|(_, count)| count.as_u64() != Some(0));
    let counts: Vec<_> = counts.map(|(kind, count)| format!("{kind} {count}")).collect();
    if counts.is_empty() {
        return format!("nothing has taken {limit_ms} ms or longer since the start\n");
    }
    let mut columns = Columns::new(&["TIME", "KIND", "MS", "WHOSE", "WHAT", "WHY"]);
    for event in found["events"].as_array().into_iter().flatten() {
        let row = ["time", "kind", "milliseconds", "whose", "what", "why"].map(|member| plain(&cell(event, member)));
        columns.row(row.to_vec());
    }
    format!("{columns}since the start: {}\n", counts.join(", "))
}

/// Replaces control characters for terminals: domains and addresses are chosen by others.
fn plain(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_listed_with_their_number() {
        let event = json!({
            "time": "2026-01-01T00:00:00.000Z", "kind": "tick", "milliseconds": 120, "what": "3 messages", "whose": "shard 0", "why": "a\u{1b}",
        });
        let found = json!({ "limit_ms": 100, "counts": { "tick": 1, "store": 0 }, "events": [event] });
        let text = text(&found);
        assert!(text.contains("tick  120  shard 0  3 messages  a\u{fffd}"), "{text}");
        assert!(text.ends_with("since the start: tick 1\n"), "{text}");
    }

    #[test]
    fn that_nothing_was_slow_is_said() {
        let found = json!({ "limit_ms": 100, "counts": { "tick": 0 }, "events": [] });
        assert_eq!(text(&found), "nothing has taken 100 ms or longer since the start\n");
        assert!(text(&json!({ "limit_ms": 0 })).contains("[instruments]"));
    }
}
