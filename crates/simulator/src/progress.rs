//! A long run in parts: a file keeps how far the run has come and which failures it has found, so
//! that the next part continues there.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::seeds::{self, SeedFailure};

/// The finished part of a long run, and the failures in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// The first seed.
    pub from: u64,
    /// The first seed that was not tried yet.
    pub next: u64,
    /// The number of events in each run, on which the meaning of a seed depends.
    pub events: usize,
    /// The number of runs, without the seeds that were left out.
    pub runs: u64,
    /// The seconds that the runs took.
    pub seconds: u64,
    /// The failures, in the order in which they were found.
    pub failures: Vec<SeedFailure>,
}

impl RunProgress {
    /// Reads a file; returns `None` if there is none.
    ///
    /// # Errors
    /// The error of the file system, or a description of the first text that isn't that of a run.
    pub fn load(file: &Path) -> Result<Option<Self>, String> {
        match fs::read_to_string(file) {
            Ok(text) => Self::read(&text).map(Some).ok_or_else(|| format!("{}: no progress of a run", file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }

    /// Writes the file in place of the last one.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn store(&self, file: &Path) -> Result<(), String> {
        let new = file.with_extension("new");
        let written = fs::write(&new, self.text()).and_then(|()| fs::rename(&new, file));
        written.map_err(|error| format!("{}: {error}", file.display()))
    }

    fn read(text: &str) -> Option<Self> {
        let (numbers, rest) = text.split_once('\n')?;
        let mut numbers = numbers.split(' ');
        let mut number = |name: &str| (numbers.next()? == name).then(|| numbers.next()?.parse::<u64>().ok()).flatten();
        let (from, next) = (number("from")?, number("next")?);
        let events = usize::try_from(number("events")?).ok()?;
        let (runs, seconds) = (number("runs")?, number("seconds")?);
        let failures = rest.split(seeds::FAILED).skip(1);
        let failures = failures.map(|failure| SeedFailure::read(&format!("{}{failure}", seeds::FAILED)));
        Some(Self { from, next, events, runs, seconds, failures: failures.collect::<Option<_>>()? })
    }

    fn text(&self) -> String {
        let Self { from, next, events, runs, seconds, failures } = self;
        let mut text = format!("from {from} next {next} events {events} runs {runs} seconds {seconds}\n");
        failures.iter().for_each(|failure| _ = writeln!(text, "{}{failure}", seeds::FAILED));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_is_written() {
        let failure = |seed| SeedFailure { seed, broken: "a: rule (RFC 6120)".into(), events: 400 };
        let mut progress = RunProgress { from: 7, next: 90, events: 400, runs: 80, seconds: 3, failures: Vec::new() };
        assert_eq!(RunProgress::read(&progress.text()), Some(progress.clone()));
        progress.failures = vec![failure(8), failure(70)];
        assert_eq!(RunProgress::read(&progress.text()), Some(progress));
        assert_eq!(RunProgress::read("12 seeds\n"), None);
    }
}
