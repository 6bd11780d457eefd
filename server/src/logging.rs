//! The log: to standard error, as the terminal or the journal wants it.

use std::io::{IsTerminal, stderr};
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Makes lines of one format the log, with a filter that can be replaced. A macro, since each
/// format is a type of its own.
macro_rules! install {
    ($lines:expr) => {{
        let lines = $lines.with_filter_reloading();
        let handle = lines.reload_handle();
        // A second start can only be a test's; the first one stays.
        if lines.try_init().is_ok() {
            let _ = SET_FILTER.set(Box::new(move |filter| handle.reload(filter)));
        }
    }};
}

/// Starts logging, for the rest of the process.
pub fn start(log: &Log) {
    // The filter was tried when the configuration was read.
    let filter = EnvFilter::try_new(&log.level).unwrap_or_default();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_ansi(coloured());
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    match (log.format, journal) {
        (LogFormat::Json, _) => install!(lines.json()),
        (LogFormat::Text, false) => install!(lines),
        // The journal has a clock of its own.
        (LogFormat::Text, true) => install!(lines.without_time()),
    }
}

/// Logs other lines from now on. The format stays: it is a part of what was installed.
pub fn reload(log: &Log) {
    if let Some(Err(error)) = SET_FILTER.get().map(|set| set(EnvFilter::try_new(&log.level).unwrap_or_default())) {
        tracing::warn!(%error, "the level of the log was not changed");
    }
}

/// Returns whether a text says which lines to log.
pub fn is_filter(text: &str) -> bool {
    // An empty filter is valid for the library and logs next to nothing.
    !text.trim().is_empty() && text.split(',').all(is_directive) && EnvFilter::try_new(text).is_ok()
}

/// Returns whether one part is `LEVEL` or `TARGET=LEVEL`. The library takes any single word for the
/// name of a target, so that a slip in a level would switch the log off.
fn is_directive(part: &str) -> bool {
    let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
    LEVELS.contains(&level.trim().to_lowercase().as_str())
}

/// Returns whether lines may be coloured: on a terminal, unless `NO_COLOR` is set to something.
fn coloured() -> bool {
    stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Replaces the filter of the process's log.
static SET_FILTER: OnceLock<SetFilter> = OnceLock::new();

type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), tracing_subscriber::reload::Error> + Send + Sync>;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_in_levels_are_found() {
        for right in ["info", "INFO", "warn,rookery_store=debug", "off"] {
            assert!(is_filter(right), "{right}");
        }
        for wrong in ["", "inof", "warn,rookery_store", "rookery_store=loud", "info,"] {
            assert!(!is_filter(wrong), "{wrong}");
        }
    }
}
