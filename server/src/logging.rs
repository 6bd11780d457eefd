//! The log: to standard error, in the form for the terminal or for systemd's journal, and the
//! newest lines in memory.
//!
//! # Layout
//!
//! `recent` keeps lines, `levels` filters them.

mod levels;
mod recent;

use std::fmt;
use std::io::{IsTerminal, stderr};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use rookery_observe::lines::Lines;
use rookery_web::control::log::Levels;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};
use levels::WantedFilter;
use recent::Keep;

/// Installs lines of one format as the log, with a filter that can be replaced. It is a macro
/// because each format has a type of its own.
macro_rules! install {
    ($lines:expr) => {{
        let lines = $lines.with_filter_reloading();
        let handle = lines.reload_handle();
        // Only tests start logging twice; the first log stays.
        if lines.finish().with(Keep(recent().clone())).try_init().is_ok() {
            let _ = SET_FILTER.set(Box::new(move |filter| handle.reload(filter)));
        }
    }};
}

/// Starts logging, for the rest of the process.
pub fn start(log: &LogConfig) {
    // The filter was checked with the configuration; it is applied before there is a log.
    let _ = WANTED.configure(&log.level);
    let filter = EnvFilter::try_new(&log.level).unwrap_or_default();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_ansi(is_coloured(&stderr()));
    match (log.format, is_journal()) {
        (LogFormat::Json, _) => install!(lines.json()),
        (LogFormat::Text, false) => install!(lines),
        // systemd's journal has its own timestamps.
        (LogFormat::Text, true) => {
            let lines = lines.without_time().with_ansi(false);
            install!(lines.map_event_format(ForJournal));
        }
    }
}

/// Returns whether standard error is a stream of systemd's journal: the service manager names its
/// device and inode (systemd.exec(5), `JOURNAL_STREAM`). If it has been redirected to a file since,
/// it isn't.
fn is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(stderr()).is_ok_and(|found| named == format!("{}:{}", found.st_dev, found.st_ino))
}

/// Lines for systemd's journal, which expects a number for the priority at their beginning
/// (sd-daemon(3)).
struct ForJournal<F>(F);

impl<S, N, F> FormatEvent<S, N> for ForJournal<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// Returns the priority of a level (RFC 5424 §6.2.1).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// Replaces the filter. The format stays, since it can't be replaced once it is installed.
pub fn reload(log: &LogConfig) {
    if let Err(error) = WANTED.configure(&log.level) {
        tracing::warn!(error, "the level of the log was not changed");
    }
}

/// Returns the newest lines.
pub fn recent() -> &'static Lines {
    static RECENT: LazyLock<Lines> = LazyLock::new(Lines::default);
    &RECENT
}

/// Changes levels for a while, on behalf of commands.
pub struct ByCommand;

impl Levels for ByCommand {
    fn raise(&self, module: &str, level: &str, lasts: Duration) -> Result<(), String> {
        WANTED.raise(module, level, lasts, Instant::now())
    }

    fn expire(&self) {
        if let Err(error) = WANTED.expire(Instant::now()) {
            tracing::warn!(error, "the level of the log was not changed back");
        }
    }
}

/// Replaces the filter of the log.
///
/// # Errors
///
/// The library refuses it.
fn apply(filter: &str) -> Result<(), String> {
    let Some(set) = SET_FILTER.get() else { return Ok(()) };
    let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    set(filter).map_err(|error| error.to_string())
}

/// Returns whether a text is a filter.
pub fn is_filter(text: &str) -> bool {
    // An empty filter is valid for the library and logs next to nothing.
    !text.trim().is_empty() && text.split(',').all(is_directive) && EnvFilter::try_new(text).is_ok()
}

/// Returns whether one part is `LEVEL` or `TARGET=LEVEL`. The library accepts any single word as
/// the name of a target, so a typo in a level would switch the log off.
fn is_directive(part: &str) -> bool {
    let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
    LEVELS.contains(&level.trim().to_lowercase().as_str())
}

/// Returns whether lines may be coloured: on a terminal, unless `NO_COLOR` is set to something.
pub fn is_coloured(out: &impl IsTerminal) -> bool {
    out.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The filter of the lines to log.
static WANTED: LazyLock<WantedFilter> = LazyLock::new(WantedFilter::default);

/// Replaces the filter of the process's log.
static SET_FILTER: OnceLock<SetFilter> = OnceLock::new();

type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), tracing_subscriber::reload::Error> + Send + Sync>;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use rookery_base::lock::lock;

    use super::*;

    #[derive(Clone, Default)]
    struct LogLines(Arc<Mutex<Vec<u8>>>);

    impl Write for LogLines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn slips_in_levels_are_found() {
        for right in ["info", "INFO", "warn,rookery_store=debug", "off"] {
            assert!(is_filter(right), "{right}");
        }
        for wrong in ["", "inof", "warn,rookery_store", "rookery_store=loud", "info,"] {
            assert!(!is_filter(wrong), "{wrong}");
        }
    }

    #[test]
    fn lines_for_the_journal_begin_with_their_priority() {
        let lines = LogLines::default();
        let written = lines.clone();
        let told = tracing_subscriber::fmt().with_writer(move || written.clone()).with_ansi(false).without_time();
        let told = told.with_max_level(Level::TRACE).map_event_format(ForJournal).finish();
        tracing::subscriber::with_default(told, || {
            tracing::error!("one");
            tracing::warn!("two");
            tracing::info!(peer = 3, "three");
            tracing::debug!("four");
        });
        let text = String::from_utf8(lock(&lines.0).clone()).expect("text");
        let heads: Vec<&str> = text.lines().map(|line| line.get(..3).unwrap_or_default()).collect();
        assert_eq!(heads, ["<3>", "<4>", "<6>", "<7>"], "{text}");
        assert!(text.contains("three peer=3"), "{text}");
    }
}
