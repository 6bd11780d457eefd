//! `rookery bench run`.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::report;
use crate::result::RunResult;
use crate::scenario::ScenarioCommand;

/// Runs a scenario, prints the result and writes the requested files.
pub fn run(command: &ScenarioCommand) -> ExitCode {
    let result = command.run();
    let server = command.server();
    let runs = std::slice::from_ref(&result);
    // `| head` may have closed the pipe.
    let _ = io::stdout().write_all(report::text(runs).as_bytes());
    let mut good = is_good(&result);
    if !result.is_done() {
        eprintln!("rookery bench: {}", result.ended);
    }
    if let Some(file) = &server.out {
        good &= report_write(file, result.write(file));
    }
    if let Some(file) = &server.html {
        good &= report_write(file, fs::write(file, report::html(runs)));
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns whether everything was done, and every stanza arrived once and in order.
fn is_good(result: &RunResult) -> bool {
    result.is_done() && result.lost + result.duplicated + result.reordered == 0
}

fn report_write(file: &std::path::Path, outcome: std::io::Result<()>) -> bool {
    match &outcome {
        Ok(()) => _ = writeln!(io::stdout(), "written to {}", file.display()),
        Err(error) => eprintln!("rookery bench: {}: {error}", file.display()),
    }
    outcome.is_ok()
}
