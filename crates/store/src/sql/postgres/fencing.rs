//! The rows of a cluster's processes in PostgreSQL: see `sql/fence.rs`.

use super::driver::{END_SESSIONS, NOW_MS, PostgresDriver};
use crate::StoreError;
use crate::fencing::ProcessWriter;
use crate::sql::fence::FencingConnection;
use crate::sql::remote::{RemoteConnection, name_of};

impl FencingConnection for PostgresDriver {
    fn enlist(&mut self, own: ProcessWriter, lanes: &[i64]) -> Result<(), StoreError> {
        let ProcessWriter { node, incarnation } = own;
        let rows: Vec<_> = lanes.iter().map(|lane| format!("({lane}, 0, {NOW_MS}, {node}, {incarnation})")).collect();
        let statement = format!(
            "INSERT INTO rookery_lanes (lane, batch, since_ms, node, incarnation) VALUES {} \
             ON CONFLICT (lane) DO UPDATE SET node = EXCLUDED.node, incarnation = EXCLUDED.incarnation",
            rows.join(", ")
        );
        self.run(&statement).map(drop)
    }

    fn fence(&mut self, other: ProcessWriter, own: Option<i64>) -> Result<bool, StoreError> {
        let ProcessWriter { node, incarnation } = other;
        let of_other = format!("node = {node} AND incarnation = {incarnation} AND fenced_ms IS NULL");
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED")?;
        if let Some(own) = own {
            let own = format!("SELECT lane FROM rookery_lanes WHERE lane = {own} AND fenced_ms IS NULL FOR UPDATE");
            if self.run(&own)?.is_empty() {
                return Err(self.fail_as_fenced());
            }
        }
        let found = self.run(&format!("SELECT lane FROM rookery_lanes WHERE {of_other}"))?;
        let lanes: Vec<i64> = found.iter().filter_map(|lane| lane.parse().ok()).collect();
        if !lanes.is_empty() {
            // A stalled process holds its rows as long as its session lasts.
            let names: Vec<_> = lanes.iter().map(|lane| format!("'{}'", name_of(*lane))).collect();
            self.run(&format!("{END_SESSIONS} AND application_name IN ({})", names.join(", ")))?;
            self.run(&format!("UPDATE rookery_lanes SET fenced_ms = {NOW_MS} WHERE {of_other}"))?;
        }
        self.run("COMMIT")?;
        Ok(!lanes.is_empty())
    }
}
