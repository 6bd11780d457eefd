//! Device databases that are kept in SQL: the tables that `rookery dpm database import --from`
//! names.

use rookery_dpm::database::SqlTable;
use rookery_store::StoreError;
use rookery_store::sql::foreign::{Foreign, WantedRows};

use crate::database::read_address;
use crate::loaded::ConfigSource;

/// Reads a table or view of the database at an address, with the password and TLS of `[store]`. The
/// rows are in the order of the devices' numbers or the nodes' names.
///
/// # Errors
/// The reason as a text for the operator: the address, the configuration or the table can't be
/// read.
pub fn read_table(source: &ConfigSource, from: &str, table: &str) -> Result<SqlTable, String> {
    let config = source.read().map_err(|error| error.to_string())?;
    let address = read_address(from, &config.store).map_err(|error| error.to_string())?;
    let wrong = |error: StoreError| format!("{address}: {error}");
    let mut database = Foreign::open(&address).map_err(wrong)?;
    let columns = database.columns(table).map_err(wrong)?;
    if columns.is_empty() {
        return Err(format!("{address} has no table or view {table:?} that this user may read"));
    }
    let names: Vec<_> = columns.iter().map(String::as_str).collect();
    let order: Vec<_> = ["index", "name"].into_iter().filter(|name| names.contains(name)).take(1).collect();
    let wanted = WantedRows { order: &order, ..WantedRows::of(table, &names, &[]) };
    let rows = database.rows(&wanted).map_err(wrong)?;
    Ok(SqlTable { columns, rows })
}
