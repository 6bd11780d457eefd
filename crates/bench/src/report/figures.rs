//! Results: a readable table, and JSON for programs that compare them with earlier ones.

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs, io};

/// The results of one benchmark.
#[derive(Debug)]
pub struct FigureReport {
    name: &'static str,
    rows: Vec<FigureRow>,
}

#[derive(Debug)]
struct FigureRow {
    what: String,
    value: f64,
    unit: &'static str,
    note: String,
}

impl FigureReport {
    /// Returns an empty report.
    pub fn new(name: &'static str) -> FigureReport {
        FigureReport { name, rows: Vec::new() }
    }

    /// Adds a figure and prints it at once, so that a long benchmark shows its progress.
    pub fn add(&mut self, what: impl Into<String>, value: f64, unit: &'static str, note: impl Into<String>) {
        let row = FigureRow { what: what.into(), value, unit, note: note.into() };
        println!("{}", row.line());
        self.rows.push(row);
    }

    /// Writes `target/bench/NAME.json` and prints its path.
    ///
    /// # Errors
    /// The error of the system.
    pub fn write(&self) -> io::Result<()> {
        let folder = target_folder()?.join("bench");
        fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{}.json", self.name));
        fs::write(&file, self.json())?;
        println!("written to {}", file.display());
        Ok(())
    }

    fn json(&self) -> String {
        let mut text = format!("{{\"benchmark\":{},\"results\":[", quote(self.name));
        for (at, row) in self.rows.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // JSON has neither infinity nor NaN.
            let value = if row.value.is_finite() { row.value.to_string() } else { "null".to_owned() };
            let (what, unit, note) = (quote(&row.what), quote(row.unit), quote(&row.note));
            let _ = write!(text, "{comma}\n{{\"what\":{what},\"value\":{value},\"unit\":{unit},\"note\":{note}}}");
        }
        text + "\n]}\n"
    }
}

impl FigureRow {
    fn line(&self) -> String {
        format!("{:<52} {:>12.3} {:<24} {}", self.what, self.value, self.unit, self.note).trim_end().to_owned()
    }
}

/// Returns cargo's target folder: three levels above the executable of a benchmark
/// (`target/release/deps/NAME`).
///
/// # Errors
/// The error of the system.
pub fn target_folder() -> io::Result<PathBuf> {
    let own = env::current_exe()?;
    Ok(own.ancestors().nth(3).map_or_else(|| PathBuf::from("target"), PathBuf::from))
}

/// Returns a number from the environment, or the default.
pub fn setting(name: &str, default: usize) -> usize {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            char if u32::from(char) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_escaped_and_has_no_numbers_that_json_lacks() {
        let mut report = FigureReport::new("x");
        report.add("a \"b\" \\ \n", 1.5, "ns", "");
        report.add("c", f64::NAN, "ns", "none");
        let wanted = "{\"benchmark\":\"x\",\"results\":[\n\
            {\"what\":\"a \\\"b\\\" \\\\ \\u000a\",\"value\":1.5,\"unit\":\"ns\",\"note\":\"\"},\n\
            {\"what\":\"c\",\"value\":null,\"unit\":\"ns\",\"note\":\"none\"}\n]}\n";
        assert_eq!(report.json(), wanted);
    }
}
