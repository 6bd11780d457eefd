//! PostgreSQL's side of a copy.

use super::driver::PostgresDriver;
use crate::StoreError;
use crate::sql::archive::months::Months;
use crate::sql::copy::catalogue::Table;
use crate::sql::copy::cells::RowCells;
use crate::sql::copy::copying::Copying;

impl Copying for PostgresDriver {
    fn last_number(&mut self, table: &'static Table) -> Result<i64, StoreError> {
        let Some(sequence) = sequence(self, table)? else { return Ok(0) };
        let last = self.run(&format!("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"))?;
        Ok(last.first().and_then(|last| last.parse().ok()).unwrap_or_default())
    }

    fn go_on_above(&mut self, table: &'static Table, number: i64) -> Result<(), StoreError> {
        let is_needed = number > 0;
        match sequence(self, table)?.filter(|_| is_needed) {
            Some(sequence) => self.run(&format!("SELECT setval('{sequence}', {number})")).map(drop),
            None => Ok(()),
        }
    }

    /// Does nothing: PostgreSQL computes derived columns itself.
    fn derive(&mut self, _: &'static Table, _: &[RowCells]) -> Result<(), StoreError> {
        Ok(())
    }

    fn clear_derived(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn months(&mut self) -> Option<&mut dyn Months> {
        Some(self)
    }

    /// Analyses the tables. The server would do so by itself only after a minute, and read whole
    /// tables until then.
    fn look_over(&mut self) -> Result<(), StoreError> {
        self.run("ANALYZE").map(drop)
    }
}

/// Returns the name of the sequence that numbers the rows of a table, if they are numbered.
fn sequence(driver: &mut PostgresDriver, table: &'static Table) -> Result<Option<String>, StoreError> {
    let name = table.name;
    let found = driver.run(&format!(
        "SELECT pg_get_serial_sequence('{name}', 'id') FROM pg_attribute \
         WHERE attrelid = '{name}'::regclass AND attname = 'id' AND attidentity <> ''"
    ))?;
    Ok(found.into_iter().next())
}
