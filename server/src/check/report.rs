//! Findings of a check, in four grades: it is fine, the server will start but …, it can't start
//! now, it won't start.

use std::fmt;
use std::process::ExitCode;

use rookery_store::sqlite::Severity;
use serde_json::{Value, json};

use crate::failure::{EX_CONFIG, EX_TEMPFAIL};

/// The findings so far, in their order.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// All of them.
    pub findings: Vec<CheckFinding>,
}

/// A finding.
#[derive(Debug)]
pub struct CheckFinding {
    /// The grade.
    pub severity: Severity,
    /// The part of the server that it is about.
    pub about: &'static str,
    /// The text for the operator: the finding and, unless it is fine, the remedy.
    pub text: String,
}

impl fmt::Display for CheckFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8} {:<14} {}", word(self.severity), self.about, self.text)
    }
}

impl CheckReport {
    /// Adds a finding that is fine.
    pub fn note(&mut self, about: &'static str, text: String) {
        self.findings.push(CheckFinding { severity: Severity::Note, about, text });
    }

    /// Adds a finding that doesn't keep the server from starting.
    pub fn warn(&mut self, about: &'static str, text: String) {
        self.findings.push(CheckFinding { severity: Severity::Warning, about, text });
    }

    /// Adds a finding that keeps the server from starting for now, and may go away by itself.
    pub fn blocked(&mut self, about: &'static str, text: String) {
        self.findings.push(CheckFinding { severity: Severity::Blocked, about, text });
    }

    /// Adds a finding that keeps the server from starting until it is repaired.
    pub fn fault(&mut self, about: &'static str, text: String) {
        self.findings.push(CheckFinding { severity: Severity::Fault, about, text });
    }

    /// Returns the findings that need attention although the server starts.
    pub fn warnings(&self) -> impl Iterator<Item = &CheckFinding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Warning)
    }

    /// Returns the grade of the whole: that of the worst finding.
    pub fn grade(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Note)
    }

    /// Returns the exit code of the grade, for scripts.
    pub fn exit_code(&self) -> ExitCode {
        match self.grade() {
            Severity::Note => ExitCode::SUCCESS,
            Severity::Warning => ExitCode::from(WARNINGS),
            Severity::Blocked => ExitCode::from(EX_TEMPFAIL),
            Severity::Fault => ExitCode::from(EX_CONFIG),
        }
    }

    /// Returns a line for each finding; those that are fine are included on demand.
    pub fn lines(&self, has_all: bool) -> String {
        let shown = self.findings.iter().filter(|finding| has_all || finding.severity > Severity::Note);
        shown.map(|finding| format!("{finding}\n")).collect()
    }

    /// Returns the report for people: its lines, and the grade.
    pub fn text(&self, has_all: bool) -> String {
        let mut text = self.lines(has_all);
        let [warnings, blocked, faults] =
            [Severity::Warning, Severity::Blocked, Severity::Fault].map(|severity| self.count(severity));
        text.push_str(&match self.grade() {
            Severity::Note if has_all => "everything is fine\n".to_owned(),
            Severity::Note => String::new(),
            Severity::Warning => format!("the server will start; warnings: {warnings}\n"),
            Severity::Blocked => {
                format!("the server can't start now; in its way: {blocked}, warnings: {warnings}\n")
            }
            Severity::Fault => {
                format!("the server will not start; faults: {}, warnings: {warnings}\n", faults + blocked)
            }
        });
        text
    }

    /// Returns the report for programs; findings that are fine are included on demand.
    pub fn json(&self, has_all: bool) -> Value {
        let shown = self.findings.iter().filter(|finding| has_all || finding.severity > Severity::Note);
        let findings: Vec<_> = shown
            .map(|finding| json!({ "grade": word(finding.severity), "about": finding.about, "text": finding.text }))
            .collect();
        json!({ "grade": word(self.grade()), "findings": findings })
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "ok",
        Severity::Warning => "warning",
        Severity::Blocked => "blocked",
        Severity::Fault => "fault",
    }
}

/// The exit code for a server that will start although a finding needs attention.
pub const WARNINGS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_is_the_grade() {
        let mut report = CheckReport::default();
        report.note("ports", "free".into());
        assert_eq!(report.text(true), "ok       ports          free\neverything is fine\n");
        assert_eq!((report.text(false), report.grade()), (String::new(), Severity::Note));
        report.warn("disk", "nearly full".into());
        assert_eq!(report.text(false), "warning  disk           nearly full\nthe server will start; warnings: 1\n");
        report.blocked("ports", "taken".into());
        assert!(report.text(false).ends_with("the server can't start now; in its way: 1, warnings: 1\n"));
        report.fault("storage", "damaged".into());
        report.note("disk", "there".into());
        assert!(report.text(false).ends_with("the server will not start; faults: 2, warnings: 1\n"));
        let json = report.json(true);
        assert_eq!((&json["grade"], &json["findings"][2]["text"]), (&"fault".into(), &"taken".into()));
        let few = report.json(false);
        assert_eq!(few["findings"].as_array().map(Vec::len), Some(3));
        assert_eq!(report.warnings().count(), 1);
    }
}
