//! `rookery status` and `rookery reload`: the running server, in a few lines.

use rookery_web::health::{DiskFill, Space};
use serde_json::{Value, json};

use crate::arguments::ShownAs;
use crate::columns::{self, cell};
use crate::control::{RunningServer, note_partial};
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Prints the state of the server.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if none runs, or it doesn't answer.
pub fn status(source: &ConfigSource, shown: ShownAs) -> Result<(), CommandFailure> {
    let found = RunningServer::in_folder(&source.folder)?.get("/status")?;
    note_partial(&found);
    if shown.json {
        return columns::line(&found.to_string()).map(drop);
    }
    say(&text(&found));
    Ok(())
}

/// Makes the server read configuration and certificates again.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if they are wrong, in which case nothing has changed, or if no server
/// runs.
pub fn reload(source: &ConfigSource, shown: ShownAs) -> Result<(), CommandFailure> {
    let reloaded = RunningServer::in_folder(&source.folder)?.ask("POST", "/reload", None)?;
    if shown.json {
        let restart = if reloaded["restart"].is_array() { reloaded["restart"].clone() } else { json!([]) };
        return columns::objects([json!({ "reloaded": true, "restart": restart })]);
    }
    say("reloaded configuration and certificates\n");
    for words in texts(&reloaded["restart"]) {
        say(&format!("{words}\n"));
    }
    Ok(())
}

fn text(found: &Value) -> String {
    let cell = |member| cell(found, member);
    let mut lines = vec![
        ("version", cell("version")),
        ("process", cell("process")),
        ("started", cell("started")),
        ("folder", cell("folder")),
        ("domains", texts(&found["domains"]).join(", ")),
        ("accounts", if found["accounts"].is_null() { "unknown".to_owned() } else { cell("accounts") }),
        ("sessions", format!("{}, of which {} wait for their clients", cell("sessions"), cell("waiting_sessions"))),
        ("connections", cell("connections")),
    ];
    if let Some(since) = found["database_away_since"].as_str() {
        lines.push(("database", format!("unreachable since {since}; `rookery doctor` says more")));
    }
    for certificate in found["certificates"].as_array().into_iter().flatten() {
        let names = texts(&certificate["names"]).join(", ");
        lines.push(("certificate", format!("for {names}, until {}", columns::cell(certificate, "expires"))));
    }
    if let (Some(free), Some(total)) = (found["disk"]["free_bytes"].as_u64(), found["disk"]["total_bytes"].as_u64()) {
        let space = Space { free, total };
        let words = match space.fill() {
            DiskFill::Fine => format!("{space}"),
            DiskFill::Low => format!("{space}: nearly full"),
            DiskFill::Full => format!("{space}: full, nothing can be stored"),
        };
        lines.push(("disk", words));
    }
    lines.extend(texts(&found["restart"]).into_iter().map(|words| ("restart", words)));
    lines.iter().map(|(name, words)| format!("{name:<12} {words}\n")).collect()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
