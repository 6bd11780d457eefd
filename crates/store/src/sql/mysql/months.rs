//! MariaDB's and MySQL's months of archives: partitions by ranges of ids.
//!
//! The existing table becomes the first partition of a new one by an exchange, for which the server
//! checks whether all of its rows are below its end. Servers wait for as long as that takes: schema
//! changes aren't transactional here, and the tables must not be visible between two of them.

use super::driver::MysqlDriver;
use crate::StoreError;
use crate::error::EngineWords;
use crate::sql::archive::months::{ArchivePart, Month, Months};
use std::time::Duration;

impl Months for MysqlDriver {
    fn parts(&mut self) -> Result<Vec<ArchivePart>, StoreError> {
        let rows = self.run(&format!("{PARTS} ORDER BY partition_ordinal_position"))?;
        let Some(parts) = rows.iter().map(|row| part(row)).collect::<Option<Vec<_>>>() else {
            let message = format!("its archives were divided by other means: {}", rows.concat().join(", "));
            return Err(StoreError::Unfit(self.target().engine(message)));
        };
        Ok(parts)
    }

    /// Takes the lock, which the connection holds until it ends.
    fn is_alone(&mut self) -> Result<bool, StoreError> {
        Ok(self.run(&format!("SELECT GET_LOCK({LOCK}, 0)"))?.concat().concat() == "1")
    }

    fn fault(&self, what: &str) -> EngineWords {
        self.target().engine(what.to_owned())
    }

    fn newest(&mut self) -> Result<u64, StoreError> {
        let newest = self.patiently("SELECT COALESCE(MAX(id), 0) FROM archive_messages")?;
        Ok(newest.concat().concat().parse().unwrap_or_default())
    }

    fn has_messages(&mut self) -> Result<bool, StoreError> {
        self.has_rows("archive_messages")
    }

    fn divide(&mut self, below: u64) -> Result<(), StoreError> {
        let [prepare, exchange] = steps(below);
        // An exchange that was made but not answered has left the messages there.
        let is_exchanged = self.has_table("archive_messages_months")? && self.has_rows("archive_messages_months")?;
        if !is_exchanged {
            self.run(&prepare)?;
        }
        let exchange = if is_exchanged { SWAP } else { &exchange };
        let mut keeper = self.another(PATIENCE)?;
        keeper.run(KEEP_OUT)?;
        let outcome = self.patiently(exchange);
        keeper.run("UNLOCK TABLES")?;
        outcome.map(drop)
    }

    fn division(below: u64) -> String {
        let [prepare, exchange] = steps(below);
        format!(
            "{prepare};\n-- no server may run from here on; or let another session say {KEEP_OUT}; and UNLOCK TABLES at the end\n\
             {exchange};\n{TIDY};\n"
        )
    }

    fn is_untidy(&mut self) -> Result<bool, StoreError> {
        self.has_table("archive_messages_plain")
    }

    fn tidy(&mut self) -> Result<(), StoreError> {
        self.patiently(TIDY).map(drop)
    }

    fn split(&mut self, first: &ArchivePart, ends: &[u64]) -> Result<(), StoreError> {
        let (ArchivePart { name, below: Some(below) }, Some(end)) = (first, ends.first()) else { return Ok(()) };
        let others = ends.iter().zip(ends.iter().skip(1).chain([below]));
        let others = others.map(|(from, to)| format!(", PARTITION m{} VALUES LESS THAN ({to})", Month::of(*from)));
        self.patiently(&format!(
            "{BRIEFLY}; ALTER TABLE archive_messages REORGANIZE PARTITION {name} INTO (\
             PARTITION {name} VALUES LESS THAN ({end}){})",
            others.collect::<String>()
        ))
        .map(drop)
    }

    fn add(&mut self, from: u64) -> Result<bool, StoreError> {
        let month = Month::of(from);
        let Some(until) = month.end() else { return Ok(false) };
        self.patiently(&format!(
            "{BRIEFLY}; ALTER TABLE archive_messages REORGANIZE PARTITION rest INTO (\
             PARTITION m{month} VALUES LESS THAN ({until}), PARTITION rest VALUES LESS THAN MAXVALUE)"
        ))?;
        Ok(true)
    }

    fn take_out(&mut self, name: &str) -> Result<(), StoreError> {
        self.patiently(&format!(
            "{BRIEFLY}; CREATE TABLE archive_messages_gone LIKE archive_messages; \
             ALTER TABLE archive_messages_gone REMOVE PARTITIONING; \
             UPDATE rookery_months SET owner = 0 WHERE id = 1; \
             ALTER TABLE archive_messages EXCHANGE PARTITION {name} WITH TABLE archive_messages_gone; \
             UPDATE rookery_epoch SET value = value + 1 WHERE id = 1; \
             ALTER TABLE archive_messages DROP PARTITION {name}"
        ))
        .map(drop)
    }

    fn has_taken_out(&mut self) -> Result<bool, StoreError> {
        self.has_table("archive_messages_gone")
    }

    fn drop_taken_out(&mut self) -> Result<(), StoreError> {
        self.patiently("DROP TABLE archive_messages_gone").map(drop)
    }
}

impl MysqlDriver {
    /// Runs statements whose time depends on the number of rows.
    fn patiently(&mut self, statements: &str) -> Result<Vec<Vec<String>>, StoreError> {
        let before = self.wait_for(PATIENCE)?;
        let outcome = self.run(statements);
        let restored = self.wait_for(before);
        outcome.and_then(|rows| restored.map(|_| rows))
    }

    pub(super) fn has_table(&mut self, name: &str) -> Result<bool, StoreError> {
        let found = self.run(&format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{name}'"
        ))?;
        Ok(!found.is_empty())
    }

    fn has_rows(&mut self, table: &str) -> Result<bool, StoreError> {
        Ok(!self.run(&format!("SELECT 1 FROM {table} LIMIT 1"))?.is_empty())
    }
}

/// Returns the statement that creates an empty, divided table, and the one that exchanges it for
/// the undivided one at once.
fn steps(below: u64) -> [String; 2] {
    let prepare = format!(
        "CREATE TABLE IF NOT EXISTS rookery_months (id TINYINT PRIMARY KEY, owner BIGINT NOT NULL) ENGINE = InnoDB;\n\
         INSERT IGNORE INTO rookery_months (id, owner) VALUES (1, 0);\n\
         DROP TABLE IF EXISTS archive_messages_months;\n\
         CREATE TABLE archive_messages_months LIKE archive_messages;\n\
         ALTER TABLE archive_messages_months PARTITION BY RANGE (id) (\
         PARTITION first VALUES LESS THAN ({below}), PARTITION rest VALUES LESS THAN MAXVALUE)"
    );
    let exchange =
        format!("ALTER TABLE archive_messages_months EXCHANGE PARTITION first WITH TABLE archive_messages;\n{SWAP}");
    [prepare, exchange]
}

/// Reads a partition's name and its end.
fn part(row: &[String]) -> Option<ArchivePart> {
    let [method, name, below] = row else { return None };
    let below = match below.as_str() {
        _ if method != "RANGE" => return None,
        "MAXVALUE" => None,
        number => Some(number.parse().ok()?),
    };
    Some(ArchivePart { name: name.clone(), below })
}

const PARTS: &str = "\
    SELECT partition_method, partition_name, partition_description FROM information_schema.partitions \
    WHERE table_schema = DATABASE() AND table_name = 'archive_messages' AND partition_name IS NOT NULL";

/// Keeps servers out while the table is exchanged: all writers begin with the one table, and all
/// readers of archives with the other.
const KEEP_OUT: &str = "SET SESSION lock_wait_timeout = 60; LOCK TABLES rookery_lanes WRITE, archives WRITE";

/// Renames the divided table to the name of the undivided one.
const SWAP: &str = "\
    RENAME TABLE archive_messages TO archive_messages_plain, archive_messages_months TO archive_messages";

/// Saves the messages between the exchange and the new name, if a server was stopped just then.
const TIDY: &str = "\
    INSERT IGNORE INTO archive_messages SELECT * FROM archive_messages_plain;\nDROP TABLE archive_messages_plain";

/// Gives up soon if the table is in use: new requests wait for this one.
const BRIEFLY: &str = "SET SESSION lock_wait_timeout = 2";

/// The name of the lock for maintaining the months: locks are server-wide, so it includes the
/// database.
const LOCK: &str = "CONCAT('rookery months ', LEFT(SHA2(DATABASE(), 256), 40))";

/// The time limit for reading all messages, or for dropping a month of them.
const PATIENCE: Duration = Duration::from_secs(6 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read() {
        let read = |row: [&str; 3]| part(&row.map(str::to_owned)).map(|part| (part.name, part.below));
        assert_eq!(read(["RANGE", "first", "7"]), Some(("first".into(), Some(7))));
        assert_eq!(read(["RANGE", "rest", "MAXVALUE"]), Some(("rest".into(), None)));
        assert_eq!(read(["HASH", "p0", ""]), None);
    }
}
