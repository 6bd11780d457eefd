//! Lists on the terminal: columns for readers, a line of JSON for each entry for programs.

use std::io::{ErrorKind, Write};

pub use rookery_base::count_of;
use serde_json::Value;

use crate::failure::CommandFailure;

/// Prints rows below a head, each column as wide as its longest entry.
pub struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// Returns a table with these names of columns and no rows.
    pub fn new(names: &[&str]) -> Columns {
        Columns { rows: vec![names.iter().map(|name| (*name).to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Returns whether there is nothing but the head.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

impl std::fmt::Display for Columns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let len = |text: &String| text.chars().count();
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at).map(len)).max().unwrap_or_default();
        let widths: Vec<usize> = (0..count).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// Prints an object for each entry of a list, a line each, until the reader closes the pipe.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if standard output can't be written.
pub fn objects(list: impl IntoIterator<Item = Value>) -> Result<(), CommandFailure> {
    for object in list {
        if !line(&object.to_string())? {
            break;
        }
    }
    Ok(())
}

/// Prints a line on standard output. Returns `false` if the reader has closed the pipe.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if standard output can't be written.
pub fn line(text: &str) -> Result<bool, CommandFailure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")) {
        // `| head` has read enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).map_err(|error| CommandFailure::Failed(format!("standard output: {error}"))),
    }
}

/// Returns the text of a member; a dash if there is none.
pub fn cell(of: &Value, member: &str) -> String {
    match &of[member] {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_need_to_be() {
        let mut columns = Columns::new(&["NAME", "N"]);
        assert!(columns.is_empty());
        columns.row(vec!["bär".into(), "1".into()]);
        columns.row(vec!["longer".into(), "22".into()]);
        assert_eq!(columns.to_string(), "NAME    N\nbär     1\nlonger  22\n");
    }
}
