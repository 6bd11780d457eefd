//! MariaDB's and MySQL's side of a copy.

use super::driver::MysqlDriver;
use crate::StoreError;
use crate::sql::archive::months::Months;
use crate::sql::copy::catalogue::Table;
use crate::sql::copy::cells::RowCells;
use crate::sql::copy::copying::Copying;

impl Copying for MysqlDriver {
    fn last_number(&mut self, table: &'static Table) -> Result<i64, StoreError> {
        let next = self.run(&format!(
            "SELECT auto_increment FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_name = '{}'",
            table.name
        ))?;
        let next: Option<i64> = next.first().and_then(|row| row.first()).and_then(|next| next.parse().ok());
        Ok(next.map_or(0, |next| next - 1))
    }

    /// Changes the table. This ends the copy's transaction, and begins another one: nothing of the
    /// server's own data was written in it yet.
    fn go_on_above(&mut self, table: &'static Table, number: i64) -> Result<(), StoreError> {
        if !table.is_numbered || number <= self.last_number(table)? {
            return Ok(());
        }
        let above = number.saturating_add(1);
        self.run(&format!("ALTER TABLE {} AUTO_INCREMENT = {above}; START TRANSACTION", table.name)).map(drop)
    }

    /// Does nothing: derived columns have their values by default.
    fn derive(&mut self, _: &'static Table, _: &[RowCells]) -> Result<(), StoreError> {
        Ok(())
    }

    fn clear_derived(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn months(&mut self) -> Option<&mut dyn Months> {
        Some(self)
    }
}
