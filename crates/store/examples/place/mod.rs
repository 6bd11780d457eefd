//! The database that an example measures, and the CPU that it takes.

use rookery_store::sql::{Patience, SqlStore};
use rookery_store::{mysql, postgres, sqlite};
use std::error::Error;
use std::fs;
use std::path::PathBuf;

/// Opens the store at a URL, or in a new directory within one, which is removed when the second
/// result is dropped.
pub fn open(place: &str) -> Result<(SqlStore, Option<tempfile::TempDir>), Box<dyn Error>> {
    let patience = Patience::of_commands();
    if place.starts_with("postgres") {
        let options = postgres::PostgresOptions::at(postgres::PostgresAddress::parse(place)?);
        return Ok((
            postgres::open(&postgres::PostgresOptions { trusts_durability: true, patience, ..options })?,
            None,
        ));
    }
    if place.starts_with("mysql") {
        let options = mysql::MysqlOptions::at(mysql::MysqlAddress::parse(place)?);
        return Ok((mysql::open(&mysql::MysqlOptions { trusts_durability: true, patience, ..options })?, None));
    }
    let within = if place.is_empty() { std::env::temp_dir() } else { PathBuf::from(place) };
    let directory = tempfile::tempdir_in(within)?;
    Ok((sqlite::open(&directory.path().join("rookery.db"), &sqlite::SqliteOptions::default())?, Some(directory)))
}

/// Returns the CPU time of this process, in milliseconds.
pub fn cpu_ms() -> Result<u64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).ok_or("a field of /proc/self/stat")?.parse::<u64>().map_err(Box::from);
    let both: Result<u64, Box<dyn Error>> = ticks(11).and_then(|user: u64| Ok(user + ticks(12)?));
    Ok(both? * 10)
}
