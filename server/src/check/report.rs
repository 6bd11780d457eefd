//! Findings of a check, in four grades: all is fine, the server starts but something needs
//! attention, it can't start at the moment, or it won't start until something is repaired.

use std::fmt;
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Style};
use rookery_store::sqlite::Severity;
use serde_json::{Value, json};

use crate::failure::{EX_CONFIG, EX_TEMPFAIL};

/// The findings so far, in their order.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// All of them.
    pub findings: Vec<CheckFinding>,
}

/// A finding of `rookery check`, for a line of its report.
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
    pub fn add_blocked(&mut self, about: &'static str, text: String) {
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

    /// Returns a line for each finding; those that are fine only if `has_all`. With colours,
    /// problems stand out from the findings that are fine.
    pub fn lines(&self, has_all: bool, has_colours: bool) -> String {
        let shown = self.findings.iter().filter(|finding| has_all || finding.severity > Severity::Note);
        let line = |finding: &CheckFinding| match has_colours.then(|| style(finding.severity)) {
            Some(style) => format!("{style}{finding}{style:#}\n"),
            None => format!("{finding}\n"),
        };
        shown.map(line).collect()
    }

    /// Returns the report for people: its lines, the grade, and how many findings there are of
    /// each.
    pub fn text(&self, has_all: bool, has_colours: bool) -> String {
        let [fine, warnings, blocked, faults] = [Severity::Note, Severity::Warning, Severity::Blocked, Severity::Fault]
            .map(|severity| self.count(severity));
        let words = match self.grade() {
            Severity::Note if has_all => "everything is fine".to_owned(),
            Severity::Note => return String::new(),
            Severity::Warning => format!("the server will start; warnings: {warnings}"),
            Severity::Blocked => format!("the server can't start now; in its way: {blocked}, warnings: {warnings}"),
            Severity::Fault => format!("the server will not start; faults: {}, warnings: {warnings}", faults + blocked),
        };
        let separator = if self.grade() == Severity::Note { ';' } else { ',' };
        let fine = if has_all { format!("{separator} ok: {fine}") } else { String::new() };
        let last = match has_colours.then(|| style(self.grade())) {
            Some(style) if self.grade() > Severity::Note => format!("{style}{words}{style:#}{fine}\n"),
            _ => format!("{words}{fine}\n"),
        };
        self.lines(has_all, has_colours) + &last
    }

    /// Returns the report for programs. Findings that are fine are included if `has_all`.
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

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Note => Style::new().dimmed(),
        Severity::Warning => AnsiColor::Yellow.on_default(),
        Severity::Blocked | Severity::Fault => AnsiColor::Red.on_default(),
    }
}

/// The exit code of a server that will start although something wants attention.
pub const WARNINGS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_is_the_grade() {
        let mut report = CheckReport::default();
        report.note("ports", "free".into());
        assert_eq!(report.text(true, false), "ok       ports          free\neverything is fine; ok: 1\n");
        assert_eq!((report.text(false, false), report.grade()), (String::new(), Severity::Note));
        report.warn("disk", "nearly full".into());
        assert_eq!(
            report.text(false, false),
            "warning  disk           nearly full\nthe server will start; warnings: 1\n"
        );
        let coloured = "\u{1b}[2mok       ports          free\u{1b}[0m\n\u{1b}[33mwarning  disk           nearly full\u{1b}[0m\n\
                        \u{1b}[33mthe server will start; warnings: 1\u{1b}[0m, ok: 1\n";
        assert_eq!(report.text(true, true), coloured);
        report.add_blocked("ports", "taken".into());
        assert!(report.text(false, false).ends_with("the server can't start now; in its way: 1, warnings: 1\n"));
        report.fault("storage", "damaged".into());
        report.note("disk", "there".into());
        assert!(report.text(false, false).ends_with("the server will not start; faults: 2, warnings: 1\n"));
        let json = report.json(true);
        assert_eq!((&json["grade"], &json["findings"][2]["text"]), (&"fault".into(), &"taken".into()));
        let few = report.json(false);
        assert_eq!(few["findings"].as_array().map(Vec::len), Some(3));
        assert_eq!(report.warnings().count(), 1);
    }
}
