//! `rookery trace`: the way of the stanzas of one address through the running server, with each
//! decision and its reason.

use rookery_base::count_of;
use rookery_hub::Subject;
use rookery_hub::trace::{MOST_SECONDS, MOST_STANZAS};
use rookery_web::control::trace::TRACE;
use serde_json::Value;

use crate::arguments::ShownAs;
use crate::columns::{self, cell};
use crate::control::{RunningServer, encode};
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;

/// The options of `rookery trace`.
#[derive(Debug, clap::Args)]
pub struct TraceWishes {
    /// The account, room or session whose stanzas to show, both from and to it, or the domain of
    /// another server
    #[arg(value_name = "JID|DOMAIN")]
    subject: String,
    /// End after this number of stanzas
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=MOST_STANZAS as u64))]
    stanzas: u64,
    /// End after this number of seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=MOST_SECONDS))]
    seconds: u64,
    /// Also show what people write, not only its length; passwords are never shown
    #[arg(long)]
    contents: bool,
    #[command(flatten)]
    shown: ShownAs,
}

/// Prints the events of a trace until it ends.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if no server runs, it refuses, or standard output can't be written.
pub fn run(source: &ConfigSource, wishes: &TraceWishes) -> Result<(), CommandFailure> {
    Subject::parse(&wishes.subject).map_err(CommandFailure::Failed)?;
    let contents = if wishes.contents { "yes" } else { "no" };
    let path = format!(
        "{TRACE}?jid={}&stanzas={}&seconds={}&contents={contents}",
        encode(&wishes.subject),
        wishes.stanzas,
        wishes.seconds
    );
    let mut last = String::new();
    RunningServer::in_folder(&source.folder)?.follow(&path, |line| match wishes.shown.json {
        true => columns::line(&line.to_string()),
        false => columns::line(&text(line, &mut last)),
    })
}

/// Formats a sighting for people. The stanza is named only if the previous line was about another
/// one.
fn text(line: &Value, last: &mut String) -> String {
    if let Some(left_out) = line["left_out"].as_u64() {
        return format!("… {left_out} lines were left out because they came faster than they were read");
    }
    if let Some(subject) = line["tracing"].as_str() {
        return format!("tracing {subject} for {} seconds; Ctrl+C ends it", cell(line, "seconds"));
    }
    if line["refused"].is_string() {
        return format!("node {} shows nothing: {}", cell(line, "node"), cell(line, "refused"));
    }
    match line["missing"].as_u64() {
        Some(0) => return "all nodes answer again".into(),
        Some(missing) => {
            let shards = count_of(missing, "shard");
            return format!("{shards} of other nodes can't be asked at the moment: what happens there is missing");
        }
        None => {}
    }
    match line["ended"].as_str() {
        Some("stanzas") => return "the trace has reached its number of stanzas (--stanzas)".into(),
        Some(_) if last.is_empty() => {
            return "the trace has reached its time limit (--seconds), and no stanza was from or to this address"
                .into();
        }
        Some(_) => return "the trace has reached its time limit (--seconds)".into(),
        None => {}
    }
    let stanza = line["trace"].as_str().unwrap_or_default();
    let mut text = String::new();
    if stanza.is_empty() {
        text += &format!("session {}\n", cell(line, "to"));
        "session".clone_into(last);
    } else {
        // A response has the number of its request, so only the type tells them apart.
        let one = format!("{stanza} {}", line["type"].as_str().unwrap_or_default());
        if one != *last {
            text += &head(line);
            *last = one;
        }
    }
    let time = cell(line, "time");
    let time = time.split_once('T').map_or(time.as_str(), |(_, time)| time.trim_end_matches('Z'));
    let node = line["node"].as_str().map(|node| format!("{node} ")).unwrap_or_default();
    let shard = cell(line, "shard");
    text += &format!(
        "  {time}  {node}shard {shard}  {:<8}  {}: {}",
        cell(line, "step"),
        cell(line, "to"),
        cell(line, "why")
    );
    text.chars().map(|char| if char.is_control() && char != '\n' { '\u{fffd}' } else { char }).collect()
}

fn head(line: &Value) -> String {
    let mut head = format!("{} {}", cell(line, "trace"), cell(line, "kind"));
    if let Some(type_) = line["type"].as_str() {
        head += &format!(" {type_}");
    }
    if let Some(id) = line["id"].as_str() {
        head += &format!(" id={id:?}");
    }
    head += &format!(" from {} to {}", cell(line, "from"), cell(line, "to"));
    if let Some(bytes) = line["bytes"].as_u64() {
        head += &format!(", {bytes} B: {}", cell(line, "content"));
    }
    head + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stanza_is_named_when_it_is_another_one() {
        let sighting = |stanza: &str, step: &str| {
            json!({
                "time": "2026-01-01T00:00:00.000Z", "shard": 1, "trace": stanza, "step": step, "why": "b\u{1b}[2J",
                "from": "a@x/r", "to": "b@x", "kind": "message", "type": "chat", "id": "1", "bytes": 9, "content": "body [4 B]",
            })
        };
        let mut last = String::new();
        assert_eq!(
            text(&sighting("1", "given"), &mut last),
            "1 message chat id=\"1\" from a@x/r to b@x, 9 B: body [4 B]\n  \
             00:00:00.000  shard 1  given     b@x: b\u{fffd}[2J"
        );
        assert_eq!(text(&sighting("1", "kept"), &mut last), "  00:00:00.000  shard 1  kept      b@x: b\u{fffd}[2J");
        assert!(text(&sighting("2", "kept"), &mut last).starts_with("2 message"));
        assert!(text(&json!({ "left_out": 7 }), &mut last).contains("7 lines were left out"));
        let mut elsewhere = sighting("2", "kept");
        elsewhere["node"] = "n2".into();
        assert!(text(&elsewhere, &mut last).starts_with("  00:00:00.000  n2 shard 1  kept"));
        assert!(text(&json!({ "missing": 1 }), &mut last).starts_with("1 shard of other nodes can't be asked"));
    }
}
