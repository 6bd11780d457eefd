//! `rookery bench run`.

use std::process::ExitCode;

use crate::result::RunResult;
use crate::scenario::Command;

/// Runs a scenario, writes what was asked for and prints a summary.
pub fn run(command: &Command) -> ExitCode {
    let result = command.run();
    print!("{}", summary(&result));
    let server = command.server();
    let mut good = result.is_done() && result.lost + result.duplicated + result.reordered == 0;
    if let Some(file) = &server.out {
        good &= written(file.display(), result.write(file).map_err(|error| error.to_string()));
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn written(file: impl std::fmt::Display, outcome: Result<(), String>) -> bool {
    match outcome {
        Ok(()) => println!("written to {file}"),
        Err(ref error) => eprintln!("rookery bench: {file}: {error}"),
    }
    outcome.is_ok()
}

fn summary(result: &RunResult) -> String {
    format!("{result:#?}\n")
}
