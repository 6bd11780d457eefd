//! The rows of a cluster's processes in PostgreSQL: see `sql/fence.rs`.

use super::driver::{Driver, END_SESSIONS, NOW_MS};
use crate::StoreError;
use crate::fencing::Writer;
use crate::sql::remote::{Distant, name_of};

/// Gives the rows of connections the number of a process.
pub(super) fn enlist(driver: &mut Driver, own: Writer, lanes: &[i64]) -> Result<(), StoreError> {
    let Writer { node, incarnation } = own;
    let rows: Vec<_> = lanes.iter().map(|lane| format!("({lane}, 0, {NOW_MS}, {node}, {incarnation})")).collect();
    let statement = format!(
        "INSERT INTO rookery_lanes (lane, batch, since_ms, node, incarnation) VALUES {} \
         ON CONFLICT (lane) DO UPDATE SET node = EXCLUDED.node, incarnation = EXCLUDED.incarnation",
        rows.join(", ")
    );
    driver.run(&statement).map(drop)
}

/// Marks the rows of a process.
pub(super) fn fence(driver: &mut Driver, other: Writer, own: Option<i64>) -> Result<bool, StoreError> {
    let Writer { node, incarnation } = other;
    let of_other = format!("node = {node} AND incarnation = {incarnation} AND fenced_ms IS NULL");
    driver.run("BEGIN ISOLATION LEVEL READ COMMITTED")?;
    if let Some(own) = own {
        let own = format!("SELECT lane FROM rookery_lanes WHERE lane = {own} AND fenced_ms IS NULL FOR UPDATE");
        if driver.run(&own)?.is_empty() {
            return Err(driver.fenced());
        }
    }
    let found = driver.run(&format!("SELECT lane FROM rookery_lanes WHERE {of_other}"))?;
    let lanes: Vec<i64> = found.iter().filter_map(|lane| lane.parse().ok()).collect();
    if !lanes.is_empty() {
        // One that stands still holds its rows for as long as its session lasts.
        let names: Vec<_> = lanes.iter().map(|lane| format!("'{}'", name_of(*lane))).collect();
        driver.run(&format!("{END_SESSIONS} AND application_name IN ({})", names.join(", ")))?;
        driver.run(&format!("UPDATE rookery_lanes SET fenced_ms = {NOW_MS} WHERE {of_other}"))?;
    }
    driver.run("COMMIT")?;
    Ok(!lanes.is_empty())
}
