//! `rookery dpm database import`: a device database from tables that are kept elsewhere.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use super::failure::DpmFailure;
use crate::database::{Database, Imported, Mistake, SqlTable, import, import_sql};

/// Reads a table or view of the database at an address; the error is a text for the operator.
pub type SqlReader<'a> = dyn Fn(&str, &str) -> Result<SqlTable, String> + 'a;

#[derive(Debug, Clone, Args)]
pub(super) struct Import {
    /// The table of front-ends, in CSV; `-` is standard input. With --from, its name in the
    /// database
    #[arg(long, value_name = "FILE.csv|TABLE")]
    nodes: String,
    /// The table of devices, likewise
    #[arg(long, value_name = "FILE.csv|TABLE")]
    devices: String,
    /// Read the tables, or views, of this database: postgres://USER@HOST/DATABASE, mysql://…, or a
    /// file of SQLite. The password and the settings of TLS are those of [store] in the
    /// configuration
    #[arg(long, value_name = "URL")]
    from: Option<String>,
}

/// A table that was read: its name for messages, what its parts are called, and its content.
struct ReadTable {
    name: String,
    part: &'static str,
    imported: Result<Imported, Mistake>,
}

impl Import {
    /// Makes a database of the tables, and prints it if it is valid.
    pub(super) fn run(self, read_sql: &SqlReader<'_>) -> Result<(), DpmFailure> {
        let (mut text, mut origins) = (String::new(), Vec::new());
        for (kind, table) in [("node", &self.nodes), ("device", &self.devices)] {
            let ReadTable { name, part, imported } = match &self.from {
                Some(from) => of_database(kind, from, table, read_sql)?,
                None => of_file(kind, Path::new(table))?,
            };
            let imported = imported.map_err(|mistake| unfit(place_mistake(&name, part, &mistake)))?;
            text.push_str(&imported.text);
            origins.extend(imported.lines.into_iter().map(|line| (name.clone(), part, line)));
        }
        Database::check(&text).map_err(|mistakes| {
            let all = mistakes.into_iter().map(|mistake| match origins.get(mistake.line.saturating_sub(1)) {
                Some((name, part, line)) => place_mistake(name, part, &Mistake { line: *line, ..mistake }),
                None => mistake.to_string(),
            });
            unfit(all.collect::<Vec<_>>().join("\n"))
        })?;
        print!("{text}");
        Ok(())
    }
}

fn unfit(words: String) -> DpmFailure {
    DpmFailure { words, code: ExitCode::from(78) }
}

/// Returns a mistake in words: with the name of its table, and its line or row.
fn place_mistake(name: &str, part: &str, Mistake { line, field, what }: &Mistake) -> String {
    let place = if *line == 0 { name.to_owned() } else { format!("{name}: {part} {line}") };
    match field.as_str() {
        "" => format!("{place}: {what}"),
        field => format!("{place}, {field}: {what}"),
    }
}

fn of_database(kind: &str, from: &str, table: &str, read_sql: &SqlReader<'_>) -> Result<ReadTable, DpmFailure> {
    let read = read_sql(from, table).map_err(DpmFailure::new)?;
    Ok(ReadTable { name: table.to_owned(), part: "row", imported: import_sql(kind, read) })
}

fn of_file(kind: &str, path: &Path) -> Result<ReadTable, DpmFailure> {
    let (name, text) = match path == Path::new("-") {
        true => ("standard input".to_owned(), std::io::read_to_string(std::io::stdin())),
        false => (path.display().to_string(), std::fs::read_to_string(path)),
    };
    let text = text.map_err(|error| DpmFailure::new(format!("{name}: {error}")))?;
    Ok(ReadTable { name, part: "line", imported: import(kind, &text) })
}

pub(super) const IMPORT_EXAMPLES: &str = "\
Examples:
  rookery dpm database import --nodes nodes.csv --devices devices.csv > all.toml
  psql --csv -c 'SELECT di AS index, name, ... AS \"reading.node\" FROM ...' |
    rookery dpm database import --nodes nodes.csv --devices -
  rookery dpm database import --from postgres://dpm@db.example.org/controls \\
    --nodes dpm_nodes --devices dpm_devices > all.toml

The first row, or the columns of a table, have names of keys from doc/device-file.md: index, name,
reading.node, reading.ssdn, ... A view gives a table that exists these columns.";
