//! Mistakes in a configuration, described for the person who wrote it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

/// A configuration that can't be used: every reason, each with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// A line for each: `FILE:LINE: KEY: the mistake and the remedy`.
    reasons: Vec<String>,
}

/// A mistake in a configuration's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongValue {
    /// The place, in bytes of the text.
    pub at: Range<usize>,
    /// The key with its table, such as `limits.depth`; empty if it isn't about a key.
    pub key: String,
    /// The mistake, and its remedy.
    pub what: String,
}

impl WrongValue {
    /// Returns a mistake whose key is added later, by [`WrongValue::of`].
    pub fn new(at: Range<usize>, what: impl Into<String>) -> WrongValue {
        WrongValue { at, key: String::new(), what: what.into() }
    }

    /// Adds the key that it is about.
    pub fn of(self, key: impl Into<String>) -> WrongValue {
        WrongValue { key: key.into(), ..self }
    }
}

impl ConfigError {
    /// Returns the error of a file that can't be read at all.
    pub fn unreadable(file: &Path, error: &io::Error) -> ConfigError {
        ConfigError::because(format!("{}: cannot be read: {error}", file.display()))
    }

    /// Returns the error of something outside the file that the file refers to, such as a
    /// certificate.
    pub fn because(reason: String) -> ConfigError {
        ConfigError { reasons: vec![reason] }
    }

    /// Returns the error with the mistakes in the text of a file.
    pub fn in_text(file: &Path, text: &str, wrongs: Vec<WrongValue>) -> ConfigError {
        ConfigError::at(|at| format!("{}:{}", file.display(), line_of(text, at)), wrongs)
    }

    /// Returns the error with the mistakes in a text; `place` names the place of a byte in it.
    pub fn at(place: impl Fn(usize) -> String, wrongs: Vec<WrongValue>) -> ConfigError {
        let reasons = wrongs.iter().map(|wrong| match (place(wrong.at.start), wrong.key.as_str()) {
            (place, "") => format!("{place}: {}", wrong.what),
            (place, key) => format!("{place}: {key}: {}", wrong.what),
        });
        ConfigError { reasons: reasons.collect() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reasons.join("\n"))
    }
}

impl std::error::Error for ConfigError {}

/// Returns the number of the line with a byte, the first line being 1.
pub fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}
