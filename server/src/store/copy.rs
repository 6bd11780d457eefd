//! `rookery store copy` and `rookery store verify`: from one database to another.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use rookery_base::lock::lock;
use rookery_store::sql::copy::{self, Compared, CopyEnd, CopyError, CopyPhase, EndAddress, Progress};
use serde_json::json;

use crate::arguments::{Ends, ShownAs};
use crate::columns;
use crate::database;
use crate::failure::CommandFailure;
use crate::folder::Folder;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Copies a database, compares the two and prints the result.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if a server runs on one of the two, if the destination has other
/// contents, or if either fails.
pub fn copy(source: &ConfigSource, ends: &Ends, live: bool) -> Result<(), CommandFailure> {
    let (from, to) = addresses(source, ends)?;
    if from == to {
        return Err(CommandFailure::Failed(format!("{from} can't be copied to itself")));
    }
    if !live {
        not_running(
            &from,
            "anything that it writes meanwhile would be missing: stop it, or copy its current state with --live",
        )?;
    }
    not_running(&to, "stop it first")?;
    let mut source = CopyEnd::source(&from).map_err(|error| side("source", error))?;
    let mut destination = CopyEnd::destination(&to).map_err(|error| side("destination", error))?;
    let bar = Bar::new();
    let copied = copy::copy(&mut source, &mut destination, &mut |progress| bar.show(progress));
    bar.end();
    let tables = copied.map_err(|error| explain_failure(&error))?;
    report(&tables)?;
    let rows: u64 = tables.iter().map(|table| table.to.0).sum();
    say(&format!("copied {rows} rows from {from} to {to}; both are identical\n"));
    Ok(())
}

/// Compares two databases and prints how they differ.
///
/// # Errors
///
/// [`CommandFailure::Told`] if they differ, [`CommandFailure::Failed`] if either fails.
pub fn verify(source: &ConfigSource, ends: &Ends, shown: ShownAs) -> Result<(), CommandFailure> {
    let (from, to) = addresses(source, ends)?;
    let mut source = CopyEnd::source(&from).map_err(|error| side("source", error))?;
    let mut destination = CopyEnd::source(&to).map_err(|error| side("destination", error))?;
    let bar = Bar::new();
    let compared = copy::compare(&mut source, &mut destination, &mut |progress| bar.show(progress));
    bar.end();
    let tables = compared.map_err(|error| explain_failure(&error))?;
    if shown.json {
        columns::objects(tables.iter().map(|Compared { table, from, to, difference }| {
            let side = |(rows, digest): &(u64, String)| json!({ "rows": rows, "sha256": digest });
            json!({ "table": table, "from": side(from), "to": side(to), "differs_from_row": difference })
        }))?;
        return same(&tables);
    }
    report(&tables)?;
    say(&format!("{from} and {to} are identical\n"));
    Ok(())
}

/// Returns the database to copy from, which is this server's own if none is named, and the one to
/// copy to.
fn addresses(source: &ConfigSource, ends: &Ends) -> Result<(EndAddress, EndAddress), CommandFailure> {
    let store = source.read()?.store;
    let own = || database::address(&source.folder, &store);
    let from = ends.from.as_deref().map_or_else(own, |from| database::read_address(from, &store))?;
    Ok((from, database::read_address(&ends.to, &store)?))
}

/// Ensures that no server runs on a file.
fn not_running(address: &EndAddress, remedy: &str) -> Result<(), CommandFailure> {
    // A database server's other clients can't be seen from here.
    let EndAddress::Sqlite(file) = address else { return Ok(()) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match Folder::new(folder.to_owned()).running() {
        Some(pid) => Err(CommandFailure::Failed(format!("a server (process {pid}) is using {address}; {remedy}"))),
        None => Ok(()),
    }
}

fn side(side: &str, error: rookery_store::StoreError) -> CommandFailure {
    CommandFailure::Failed(format!("the {side}: {error}"))
}

/// Explains why a copy ended early, and how to continue it.
fn explain_failure(error: &CopyError) -> CommandFailure {
    CommandFailure::Failed(match error {
        CopyError::NotEmpty(_) => format!("{error}; name a new database, or one that this copy was interrupted in"),
        _ => format!("{error}; what was copied stays, and the same command continues from there"),
    })
}

/// Prints the counts of both sides for each table.
fn report(tables: &[Compared]) -> Result<(), CommandFailure> {
    for Compared { table, from, to, difference } in tables {
        let (rows, digest) = from;
        match difference {
            None => say(&format!("{table:<22}{rows:>12}  {digest}\n")),
            Some(key) => {
                let (other, other_digest) = to;
                say(&format!(
                    "{table:<22}{rows:>12}  {digest}\n{:<22}{other:>12}  {other_digest}  differs from the row {key} on\n",
                    ""
                ));
            }
        }
    }
    same(tables)
}

/// Ensures that both sides have the same contents.
fn same(tables: &[Compared]) -> Result<(), CommandFailure> {
    match tables.iter().filter(|table| !table.is_same()).count() {
        0 => Ok(()),
        1 => Err(CommandFailure::Failed("the two differ in one table".to_owned())),
        several => Err(CommandFailure::Failed(format!("the two databases differ in {several} tables"))),
    }
}

/// The progress bar of a copy, on a terminal.
pub struct Bar {
    bar: ProgressBar,
    /// The time of the last progress.
    moved: Arc<Mutex<Instant>>,
}

impl Bar {
    /// Creates an empty bar, which warns once if there is no progress for long.
    pub fn new() -> Bar {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style);
        }
        let moved = Arc::new(Mutex::new(Instant::now()));
        let (last, shown) = (Arc::downgrade(&moved), bar.downgrade());
        let waiting = move || Some(lock(&*last.upgrade()?).elapsed());
        database::tell_long_wait(waiting, move |minutes| {
            let tell = || eprintln!("a database keeps this copy waiting; it gives up after {minutes} minutes");
            shown.upgrade().into_iter().for_each(|bar| bar.suspend(tell));
        });
        Bar { bar, moved }
    }

    /// Shows the progress.
    pub fn show(&self, progress: Progress) {
        let phase = match progress.phase {
            CopyPhase::Copying => "copying",
            CopyPhase::Mending => "mending",
            CopyPhase::Comparing => "comparing",
        };
        *lock(&self.moved) = Instant::now();
        self.bar.set_length(progress.of);
        self.bar.set_position(progress.rows);
        self.bar.set_prefix(phase);
        self.bar.set_message(progress.table);
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

const STYLE: &str = "{prefix} {wide_bar} {pos}/{len} rows, {eta} left, {msg}";
