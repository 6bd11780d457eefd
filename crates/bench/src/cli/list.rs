//! `rookery bench list`.

use std::fmt::Write;

use clap::{Command, Subcommand};

use crate::BenchOutcome;
use crate::scenario;

/// Prints the table of scenarios.
pub fn run() -> BenchOutcome<()> {
    print!("{}", text());
    Ok(())
}

/// Returns each scenario with its own flags; `--help` shows those common to all.
fn text() -> String {
    let table = scenario::ScenarioCommand::augment_subcommands(Command::new("run"));
    let mut text = String::new();
    for scenario in table.get_subcommands() {
        let about = scenario.get_about().map(ToString::to_string).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}\n    {about}", scenario.get_name());
        for flag in scenario.get_arguments().filter(|flag| flag.get_help_heading() == Some("Sizes")) {
            let name = flag.get_long().unwrap_or_default();
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            let defaults: Vec<_> = flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
            let default = if defaults.is_empty() { String::new() } else { format!(" [{}]", defaults.join(" ")) };
            let _ = writeln!(text, "      --{name:<16} {help}{default}");
        }
    }
    text + "\nrookery bench run SCENARIO --help shows the flags that all of them have.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_listed_with_its_sizes() {
        let text = text();
        assert!(text.contains("\nchat\n") || text.starts_with("chat\n"), "{text}");
        assert!(text.contains("--pairs            Pairs of clients [1000]"), "{text}");
        assert!(!text.contains("--host "), "{text}");
    }
}
