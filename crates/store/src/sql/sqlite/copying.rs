//! SQLite's side of a copy.

use super::driver::SqliteDriver;
use crate::StoreError;
use crate::sql::archives::stretch;
use crate::sql::connection::{SqlConnection, SqlValue, one};
use crate::sql::copy::catalogue::{MESSAGES, Table};
use crate::sql::copy::cells::{Cell, RowCells};
use crate::sql::copy::copying::Copying;
use crate::sql::many::Rows;
use std::collections::BTreeSet;

impl Copying for SqliteDriver {
    /// Returns the last number that was assigned. A file only records it for tables whose numbers
    /// are never reused.
    fn last_number(&mut self, table: &'static Table) -> Result<i64, StoreError> {
        Ok(one(self, LAST_NUMBER, &[SqlValue::Text(table.name)], |row| row.integer(0))?.unwrap_or_default())
    }

    fn go_on_above(&mut self, table: &'static Table, number: i64) -> Result<(), StoreError> {
        let values = [SqlValue::Integer(number), SqlValue::Text(table.name)];
        let is_remembered = one(self, IS_REMEMBERED, &values[1..], |row| row.integer(0))?.unwrap_or_default() > 0;
        if is_remembered && self.execute(SET_NUMBER, &values)? == 0 {
            self.execute(INSERT_NUMBER, &values)?;
        }
        Ok(())
    }

    /// Notes the stretches in which conversations have messages.
    fn derive(&mut self, table: &'static Table, rows: &[RowCells]) -> Result<(), StoreError> {
        if table.name != MESSAGES {
            return Ok(());
        }
        let conversations: BTreeSet<_> = rows.iter().filter_map(|row| conversation(row)).collect();
        let notes: Vec<_> = conversations.into_iter().map(|note| note.map(SqlValue::Integer)).collect();
        NOTES.insert(self, &notes)
    }

    fn clear_derived(&mut self) -> Result<(), StoreError> {
        self.execute("DELETE FROM archive_conversations", &[]).map(drop)
    }
}

/// Returns the archive, the contact's key and the stretch of a message.
fn conversation(row: &[Cell]) -> Option<[i64; 3]> {
    let [owner, id, contact_key] = row.first_chunk()?;
    let stretch = stretch(u64::try_from(id.integer()).ok()?);
    Some([owner.integer(), contact_key.integer(), i64::try_from(stretch).ok()?])
}

/// Values: table.
const LAST_NUMBER: &str = "SELECT seq FROM sqlite_sequence WHERE name = ?";

/// Values: table.
const IS_REMEMBERED: &str = "SELECT instr(sql, 'AUTOINCREMENT') FROM sqlite_schema WHERE type = 'table' AND name = ?";

/// Values: number, table.
const SET_NUMBER: &str = "UPDATE sqlite_sequence SET seq = ? WHERE name = ?";

/// Values: number, table.
const INSERT_NUMBER: &str = "INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)";

static NOTES: Rows =
    Rows::new("INSERT OR IGNORE INTO archive_conversations (owner, contact_key, stretch) VALUES", "(?, ?, ?)");
