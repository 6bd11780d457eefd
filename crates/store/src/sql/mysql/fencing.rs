//! The rows of a cluster's processes in MariaDB and MySQL: see `sql/fence.rs`.

use super::driver::{Driver, NOW_MS, integer};
use crate::StoreError;
use crate::fencing::Writer;
use crate::sql::remote::{Distant, name_of};

/// Gives the rows of connections the number of a process.
pub(super) fn enlist(driver: &mut Driver, own: Writer, lanes: &[i64]) -> Result<(), StoreError> {
    let Writer { node, incarnation } = own;
    let rows: Vec<_> = lanes.iter().map(|lane| format!("({lane}, 0, {NOW_MS}, {node}, {incarnation})")).collect();
    let statement = format!(
        "INSERT INTO rookery_lanes (lane, batch, since_ms, node, incarnation) VALUES {} \
         ON DUPLICATE KEY UPDATE node = VALUES(node), incarnation = VALUES(incarnation)",
        rows.join(", ")
    );
    driver.run(&statement).map(drop)
}

/// Marks the rows of a process.
pub(super) fn fence(driver: &mut Driver, other: Writer, own: Option<i64>) -> Result<bool, StoreError> {
    let Writer { node, incarnation } = other;
    driver.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION")?;
    if let Some(own) = own {
        let own = format!("SELECT lane FROM rookery_lanes WHERE lane = {own} AND fenced_ms IS NULL FOR UPDATE");
        if driver.run(&own)?.is_empty() {
            return Err(driver.fenced());
        }
    }
    let found = driver.run(&format!(
        "SELECT lane FROM rookery_lanes WHERE node = {node} AND incarnation = {incarnation} AND fenced_ms IS NULL"
    ))?;
    let lanes: Vec<i64> = found.iter().filter_map(|row| row.first()?.parse().ok()).collect();
    for lane in &lanes {
        // One that stands still holds its rows for as long as its session lasts.
        let session = driver.run(&format!("SELECT IS_USED_LOCK('{}')", name_of(*lane)))?;
        if let Some(session) = integer(&session) {
            end(driver, session)?;
        }
    }
    // By their keys: whatever else a statement looked at it would lock.
    for lane in &lanes {
        driver.run(&format!("UPDATE rookery_lanes SET fenced_ms = {NOW_MS} WHERE lane = {lane}"))?;
    }
    driver.run("COMMIT")?;
    Ok(!lanes.is_empty())
}

/// Ends a session, which may have ended by itself meanwhile.
fn end(driver: &mut Driver, session: i64) -> Result<(), StoreError> {
    match driver.run(&format!("KILL {session}")) {
        Ok(_) => Ok(()),
        Err(StoreError::Lost(engine)) => Err(StoreError::Lost(engine)),
        Err(_) => Ok(()),
    }
}
