//! The rows of a cluster's processes in MariaDB and MySQL: see `sql/fence.rs`.

use super::answers::integer;
use super::driver::{MysqlDriver, NOW_MS};
use crate::StoreError;
use crate::fencing::ProcessWriter;
use crate::sql::fence::FencingConnection;
use crate::sql::remote::{RemoteConnection, name_of};

impl FencingConnection for MysqlDriver {
    fn enlist(&mut self, own: ProcessWriter, lanes: &[i64]) -> Result<(), StoreError> {
        let ProcessWriter { node, incarnation } = own;
        let rows: Vec<_> = lanes.iter().map(|lane| format!("({lane}, 0, {NOW_MS}, {node}, {incarnation})")).collect();
        let statement = format!(
            "INSERT INTO rookery_lanes (lane, batch, since_ms, node, incarnation) VALUES {} \
             ON DUPLICATE KEY UPDATE node = VALUES(node), incarnation = VALUES(incarnation)",
            rows.join(", ")
        );
        self.run(&statement).map(drop)
    }

    fn fence(&mut self, other: ProcessWriter, own: Option<i64>) -> Result<bool, StoreError> {
        let ProcessWriter { node, incarnation } = other;
        self.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION")?;
        if let Some(own) = own {
            let own = format!("SELECT lane FROM rookery_lanes WHERE lane = {own} AND fenced_ms IS NULL FOR UPDATE");
            if self.run(&own)?.is_empty() {
                return Err(self.fail_as_fenced());
            }
        }
        let found = self.run(&format!(
            "SELECT lane FROM rookery_lanes WHERE node = {node} AND incarnation = {incarnation} AND fenced_ms IS NULL"
        ))?;
        let lanes: Vec<i64> = found.iter().filter_map(|row| row.first()?.parse().ok()).collect();
        for lane in &lanes {
            // A stalled process holds its rows as long as its session lasts.
            let session = self.run(&format!("SELECT IS_USED_LOCK('{}')", name_of(*lane)))?;
            if let Some(session) = integer(&session) {
                end(self, session)?;
            }
        }
        // Rows are found by their keys, since a statement locks every row that it examines.
        for lane in &lanes {
            self.run(&format!("UPDATE rookery_lanes SET fenced_ms = {NOW_MS} WHERE lane = {lane}"))?;
        }
        self.run("COMMIT")?;
        Ok(!lanes.is_empty())
    }
}

/// Ends a session, which may have ended by itself.
fn end(driver: &mut MysqlDriver, session: i64) -> Result<(), StoreError> {
    match driver.run(&format!("KILL {session}")) {
        Ok(_) => Ok(()),
        Err(StoreError::Lost(engine)) => Err(StoreError::Lost(engine)),
        Err(_) => Ok(()),
    }
}
