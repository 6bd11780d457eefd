//! Findings of checks, for the operator: `rookery check`.

use std::fmt;

/// Something that a check of a database found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is and, unless it is good, what mends it.
    pub text: String,
}

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be, or good to know.
    Note,
    /// The server starts, but something wants attention.
    Warning,
    /// The server wouldn't start or would fail.
    Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "ok",
            Severity::Warning => "warning",
            Severity::Fault => "fault",
        };
        write!(f, "{severity}: {}", self.text)
    }
}
