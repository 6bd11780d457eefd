//! `rookery doctor`: says what is wrong with the running server, in sentences with numbers.

use std::process::ExitCode;

use serde_json::Value;

use crate::arguments::ShownAs;
use crate::check::WARNINGS;
use crate::columns::{self, cell};
use crate::control::RunningServer;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Prints the server's findings about itself. Returns the exit code of a check: that for warnings,
/// if the operator should act.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if no server runs, or it doesn't answer.
pub fn run(source: &ConfigSource, shown: ShownAs) -> Result<ExitCode, CommandFailure> {
    let found = RunningServer::in_folder(&source.folder)?.get("/doctor")?;
    match shown.json {
        true => drop(columns::line(&found.to_string())?),
        false => say(&text(&found)),
    }
    Ok(if wrong(&found).next().is_none() { ExitCode::SUCCESS } else { ExitCode::from(WARNINGS) })
}

fn findings(found: &Value) -> impl Iterator<Item = &Value> {
    found["findings"].as_array().into_iter().flatten()
}

fn wrong(found: &Value) -> impl Iterator<Item = &Value> {
    findings(found).filter(|finding| finding["grade"] != "ok")
}

fn text(found: &Value) -> String {
    let mut text = String::new();
    for finding in findings(found) {
        text += &format!("{:<8} {:<14} {}\n", cell(finding, "grade"), cell(finding, "about"), cell(finding, "what"));
        for (member, head) in [("why", "it matters:"), ("remedy", "to do:")] {
            if let Some(words) = finding[member].as_str() {
                text += &format!("{:<23} {head} {words}\n", "");
            }
        }
    }
    text += &match wrong(found).count() {
        0 => "everything is fine\n".to_owned(),
        1 => "one thing needs attention\n".to_owned(),
        many => format!("{many} things need attention\n"),
    };
    // The text contains names that other servers and clients choose for themselves.
    text.chars().map(|char| if char.is_control() && char != '\n' { '\u{fffd}' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_comes_with_why_and_what_to_do() {
        let fine = json!({ "grade": "ok", "about": "disk", "what": "There is room.", "why": null, "remedy": null });
        let bad =
            json!({ "grade": "urgent", "about": "store", "what": "It waits 4 s.\u{1b}", "why": "A.", "remedy": "B." });
        assert_eq!(
            text(&json!({ "findings": [fine] })),
            "ok       disk           There is room.\neverything is fine\n"
        );
        let both = text(&json!({ "findings": [bad, fine] }));
        let lines: Vec<_> = both.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "urgent   store          It waits 4 s.\u{fffd}",
                "it matters: A.",
                "to do: B.",
                "ok       disk           There is room.",
                "one thing needs attention",
            ]
        );
    }
}
