//! `rookery log`: the newest lines of the running server's log, new ones as they come, and more
//! detailed levels for a while.

use std::time::Duration;

use rookery_jid::Jid;
use rookery_web::control::log::{LEVEL, LOG, MOST_SECONDS};
use serde_json::{Value, json};

use crate::arguments::{LogCommand, LogWishes};
use crate::columns::{self, cell};
use crate::control::{RunningServer, encode};
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Runs one command.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if no server runs, it refuses, or standard output can't be written.
pub fn run(source: &ConfigSource, wishes: &LogWishes, command: Option<&LogCommand>) -> Result<(), CommandFailure> {
    let server = RunningServer::in_folder(&source.folder)?;
    if let Some(LogCommand::Level { module, level, lasts }) = command {
        let body = json!({ "module": module, "level": level, "seconds": lasts.as_secs() });
        server.ask("POST", LEVEL, Some(&body))?;
        say(&format!("{module} is logged at {level} for {} seconds\n", lasts.as_secs()));
        return Ok(());
    }
    let mut path = format!("{LOG}?level={}", encode(wishes.level.as_deref().unwrap_or("trace")));
    if let Some(account) = &wishes.account {
        let jid = Jid::parse(account)
            .map_err(|error| CommandFailure::Failed(format!("{account:?} isn't an address: {error}")))?;
        path += &format!("&account={}", encode(jid.bare_str()));
    }
    if wishes.follow {
        path += "&follow=yes";
    }
    server.follow(&path, |line| match wishes.shown.json {
        true => columns::line(&line.to_string()),
        false => columns::line(&text(line)),
    })
}

/// Formats a line for people.
fn text(line: &Value) -> String {
    if let Some(left_out) = line["left_out"].as_u64() {
        return format!("… {left_out} lines were left out because they came faster than they were read");
    }
    let mut text = format!(
        "{}  {:>5} {}: {}",
        cell(line, "time"),
        cell(line, "level").to_uppercase(),
        cell(line, "target"),
        line["message"].as_str().unwrap_or_default(),
    );
    for (name, value) in line["fields"].as_object().into_iter().flatten() {
        text += &format!(" {name}={value}");
    }
    text.chars().map(|char| if char.is_control() && char != '\n' { '\u{fffd}' } else { char }).collect()
}

/// Parses a time such as `90s`, `10m` or `2h`.
///
/// # Errors
///
/// The text isn't such a time, or is longer than a level may stay raised.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a time such as 90s, 10m or 2h, at most {} hours", MOST_SECONDS / 3600);
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = text.get(..text.len() - 1).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    match number.saturating_mul(unit) {
        seconds @ 1..=MOST_SECONDS => Ok(Duration::from_secs(seconds)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("24h"), Ok(Duration::from_secs(86_400)));
        for wrong in ["", "10", "m", "0s", "25h", "1.5h", "-1s", "10 m", "1\u{e9}"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn lines_are_for_terminals() {
        let line = json!({
            "time": "2026-01-01T00:00:00.000Z", "level": "info", "target": "a", "message": "b\u{1b}[2J",
            "fields": { "account": "c\"\u{1b}", "number": 1 },
        });
        assert_eq!(text(&line), "2026-01-01T00:00:00.000Z   INFO a: b\u{fffd}[2J account=\"c\\\"\\u001b\" number=1");
        assert!(text(&json!({ "left_out": 7 })).contains("7 lines were left out"));
    }
}
