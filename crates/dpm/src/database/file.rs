//! The file that the database is read from: TOML, with tables `[[node]]` and `[[device]]`, for what
//! is recorded `[[record]]`, and for simulated front-ends `[[script]]`, `[[fault]]` and
//! `[[event]]`.
//!
//! [`keys`] and [`properties`] define the keys of each table. The parser ([`given`]), the
//! [`reference`] and the example are made from them; [`rows`], [`nodes`] and [`places`] are tables
//! as they were read, and convert them.
//!
//! A file is read as a whole: every wrong row is reported, and a file with a mistake isn't used at
//! all.

mod given;
mod import;
mod keys;
mod mistake;
mod nodes;
mod places;
mod played;
mod properties;
mod reference;
mod rows;
mod script;
mod table;
mod transforms;

pub use import::{Imported, SqlTable, import, import_sql};
pub use mistake::Mistake;
pub(crate) use mistake::line;
pub(crate) use mistake::{At, Wrong};
pub(crate) use played::played_raw;
pub use reference::{example, reference};
pub use script::{NodeFaults, Script, SimulatedEvent};

use super::Database;
use given::Given;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads a file. The error has all of its mistakes by line, at least one.
pub(super) fn read(text: &str) -> Result<Database, Vec<Mistake>> {
    let root = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line(text, &span));
        vec![Mistake { line, field: String::new(), what: format!("this is not TOML: {}", error.message()) }]
    })?;
    let span = root.span();
    let root = Spanned::new(span, DeValue::Table(root.into_inner()));
    let (file, wrongs) = Given::new(&root).table_in_part(&keys::FILE).map_err(|wrong| wrong.in_text(text, true))?;
    let mistakes = wrongs.end().err().map(|wrong| wrong.in_text(text, true)).unwrap_or_default();
    let mut reader = FileReader { text, database: Database::default(), mistakes };
    reader.file(file.value);
    reader.mistakes.sort_by_key(|mistake| mistake.line);
    if reader.mistakes.is_empty() { Ok(reader.database) } else { Err(reader.mistakes) }
}

struct FileReader<'t> {
    text: &'t str,
    database: Database,
    mistakes: Vec<Mistake>,
}

impl FileReader<'_> {
    fn file(&mut self, file: rows::DatabaseFile) {
        for row in file.node {
            self.row(row, "node", |database, row| {
                let node = row.read()?;
                database.add_node(node).map_err(|(field, what)| Wrong::new(field, what))
            });
        }
        for row in file.device {
            self.row(row, "device", |database, row| {
                let (name, index) = (row.name.clone(), row.index.clone());
                let device = row.read(&database.nodes)?;
                database.add_device(device).map_err(|field| match field {
                    "name" => name.wrong("name", "another device has this name"),
                    _ => index.wrong("index", "another device has this index"),
                })
            });
        }
        if let Some(row) = file.names {
            self.row(row, "names", |database, row| {
                database.names_of_this = row.read(database)?;
                Ok(())
            });
        }
        for row in file.script {
            self.row(row, "script", |database, script| {
                played::check(&script, database)?;
                database.scripts.push(script);
                Ok(())
            });
        }
        for row in file.fault {
            self.row(row, "fault", |database, fault| {
                if !database.nodes.iter().any(|node| node.name.to_string() == fault.node) {
                    return Err(Wrong::new("node", format!("there is no node {:?}", fault.node)).into_unfound());
                }
                if !(0.0..=1.0).contains(&fault.loss) {
                    return Err(Wrong::new("loss", "a share from 0 to 1"));
                }
                database.faults.push(fault);
                Ok(())
            });
        }
        for row in file.event {
            self.row(row, "event", |database, event| {
                event.check()?;
                database.events.push(event);
                Ok(())
            });
        }
        for row in file.record {
            self.row(row, "record", |database, row| {
                let request = row.read(database, "recorded")?;
                database.records.push(request);
                Ok(())
            });
        }
        for row in file.metric {
            self.row(row, "metric", |database, row| {
                let request = row.read(database, "shown in /metrics")?;
                database.metrics.push(request);
                Ok(())
            });
        }
    }

    fn row<T>(&mut self, row: At<T>, table: &str, read: impl FnOnce(&mut Database, T) -> Result<(), Wrong>) {
        let At { value, span } = row;
        if let Err(wrong) = read(&mut self.database, value) {
            let has_all = self.mistakes.is_empty();
            self.mistakes.extend(wrong.within(table).or_at(&span).in_text(self.text, has_all));
        }
    }
}
