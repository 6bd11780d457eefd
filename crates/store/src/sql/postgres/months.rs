//! PostgreSQL's months of archives: partitions of a table by ranges of ids.
//!
//! There is no default partition, because with one PostgreSQL would sort rows from several
//! partitions: the first has no beginning and the last no end. The existing table becomes the first
//! partition unchanged, with its indexes; the slow part, checking that everything is below its end,
//! blocks no other connection.

use super::driver::PostgresDriver;
use crate::StoreError;
use crate::error::EngineWords;
use crate::sql::archive::months::{ArchivePart, Month, Months};
use std::thread;
use std::time::Duration;

impl Months for PostgresDriver {
    fn parts(&mut self) -> Result<Vec<ArchivePart>, StoreError> {
        let rows = self.run(PARTS)?;
        let Some(mut parts) = rows.iter().map(|row| part(row)).collect::<Option<Vec<_>>>() else {
            let message = format!("its archives were divided by other means: {}", rows.join(", "));
            return Err(StoreError::Unfit(self.target().engine(message)));
        };
        parts.sort_unstable_by_key(|part| part.below.unwrap_or(u64::MAX));
        Ok(parts)
    }

    fn is_alone(&mut self) -> Result<bool, StoreError> {
        Ok(self.run(&format!("SELECT pg_try_advisory_lock({LOCK})"))?.concat() == "t")
    }

    fn fault(&self, what: &str) -> EngineWords {
        self.target().engine(what.to_owned())
    }

    fn newest(&mut self) -> Result<u64, StoreError> {
        let newest = self.patiently("SELECT COALESCE(MAX(id), 0) FROM archive_messages")?;
        Ok(newest.concat().parse().unwrap_or_default())
    }

    fn has_messages(&mut self) -> Result<bool, StoreError> {
        Ok(!self.run("SELECT 1 FROM archive_messages LIMIT 1")?.is_empty())
    }

    fn divide(&mut self, below: u64) -> Result<(), StoreError> {
        let [prepare, look, swap] = steps(below);
        if self.run(&format!("{CHECKED} AND pg_get_constraintdef(oid) LIKE '%{below}%'"))?.is_empty() {
            self.persistently(&prepare)?;
        }
        let looked = self.patiently(&look);
        // A failed check must not cause refusals later.
        looked.or_else(|error| self.persistently(UNCHECK).and(Err(error)))?;
        self.persistently(&swap)
    }

    fn division(below: u64) -> String {
        let [prepare, look, swap] = steps(below);
        format!("{prepare};\n{look};\nBEGIN;\n{swap};\nCOMMIT;\n")
    }

    /// Returns whether the condition is still there, which would refuse new messages once its month
    /// is over.
    fn is_untidy(&mut self) -> Result<bool, StoreError> {
        Ok(!self.run(CHECKED)?.is_empty())
    }

    fn tidy(&mut self) -> Result<(), StoreError> {
        self.persistently(UNCHECK)
    }

    fn split(&mut self, first: &ArchivePart, ends: &[u64]) -> Result<(), StoreError> {
        let (ArchivePart { name, below: Some(below) }, Some(end)) = (first, ends.first()) else { return Ok(()) };
        let others = ends.iter().zip(ends.iter().skip(1).chain([below]));
        let others = others.map(|(from, to)| {
            let name = format!("archive_messages_{}", Month::of(*from));
            of_table(&name, &format!("FROM ({from}) TO ({to})"))
        });
        self.persistently(&format!(
            "ALTER TABLE archive_messages DETACH PARTITION {name}; \
             ALTER TABLE archive_messages ATTACH PARTITION {name} FOR VALUES FROM (MINVALUE) TO ({end}); {}",
            others.collect::<Vec<_>>().join("; ")
        ))
    }

    fn add(&mut self, from: u64) -> Result<bool, StoreError> {
        let newest = self.run("SELECT COALESCE(MAX(id), 0) FROM archive_messages_rest")?;
        let newest: u64 = newest.concat().parse().unwrap_or_default();
        let name = format!("archive_messages_{}", Month::of(from));
        let Some(until) = Month::of(from.max(newest)).end() else { return Ok(false) };
        let part = format!("{name} FOR VALUES FROM ({from}) TO ({until})");
        let rest = format!("archive_messages_rest FOR VALUES FROM ({until}) TO (MAXVALUE)");
        let statements = if newest == 0 {
            let create = of_table(&name, &format!("FROM ({from}) TO ({until})"));
            format!("{create}; ALTER TABLE archive_messages ATTACH PARTITION {rest}")
        } else {
            // Messages that arrived too early stay where they are.
            let create = of_table("archive_messages_rest", &format!("FROM ({until}) TO (MAXVALUE)"));
            format!(
                "ALTER TABLE archive_messages_rest RENAME TO {name}; \
                 ALTER TABLE archive_messages ATTACH PARTITION {part}; {create}"
            )
        };
        self.persistently(&format!(
            "ALTER TABLE archive_messages DETACH PARTITION archive_messages_rest; {statements}"
        ))?;
        Ok(true)
    }

    fn take_out(&mut self, name: &str) -> Result<(), StoreError> {
        self.persistently(&format!(
            "UPDATE rookery_months SET owner = 0 WHERE id = 1; \
             ALTER TABLE archive_messages DETACH PARTITION {name}; ALTER TABLE {name} RENAME TO archive_messages_gone; \
             UPDATE rookery_epoch SET value = value + 1"
        ))
    }

    fn has_taken_out(&mut self) -> Result<bool, StoreError> {
        Ok(!self.run("SELECT 1 WHERE to_regclass('archive_messages_gone') IS NOT NULL")?.is_empty())
    }

    fn drop_taken_out(&mut self) -> Result<(), StoreError> {
        self.patiently("DROP TABLE archive_messages_gone").map(drop)
    }
}

impl PostgresDriver {
    /// Runs statements whose time depends on the number of rows.
    fn patiently(&mut self, statements: &str) -> Result<Vec<String>, StoreError> {
        let before = self.wait_for(PATIENCE)?;
        let outcome = self.run(statements);
        let restored = self.wait_for(before);
        outcome.and_then(|rows| restored.map(|_| rows))
    }

    /// Runs statements as one step that needs the table unused: repeatedly, each time briefly,
    /// since new requests wait for it.
    fn persistently(&mut self, statements: &str) -> Result<(), StoreError> {
        for _ in 1..ATTEMPTS {
            match self.run(statements) {
                Err(error) if error.is_conflict() => thread::sleep(PAUSE),
                outcome => return outcome.map(drop),
            }
        }
        self.run(statements).map(drop)
    }
}

/// Returns the statements that make the table one part that ends with an id: a condition for new
/// rows, a check of the existing ones, and the exchange of the names.
fn steps(below: u64) -> [String; 3] {
    let prepare = format!(
        "CREATE TABLE IF NOT EXISTS rookery_months (id SMALLINT PRIMARY KEY, owner BIGINT NOT NULL);\n\
         INSERT INTO rookery_months (id, owner) VALUES (1, 0) ON CONFLICT DO NOTHING;\n\
         {UNCHECK};\n\
         ALTER TABLE archive_messages ADD CONSTRAINT archive_messages_first CHECK (id < {below}) NOT VALID"
    );
    let look = "ALTER TABLE archive_messages VALIDATE CONSTRAINT archive_messages_first".to_owned();
    let rest = of_table("archive_messages_rest", &format!("FROM ({below}) TO (MAXVALUE)"));
    let swap = format!(
        "ALTER TABLE archive_messages RENAME TO archive_messages_first;\n\
         ALTER INDEX archive_messages_pkey RENAME TO archive_messages_first_pkey;\n\
         ALTER INDEX archive_messages_by_contact RENAME TO archive_messages_first_by_contact;\n\
         CREATE TABLE archive_messages (LIKE archive_messages_first, PRIMARY KEY (owner, id)) PARTITION BY RANGE (id);\n\
         CREATE INDEX archive_messages_by_contact ON archive_messages (owner, contact_key, id);\n\
         ALTER TABLE archive_messages ATTACH PARTITION archive_messages_first FOR VALUES FROM (MINVALUE) TO ({below});\n\
         ALTER TABLE archive_messages_first DROP CONSTRAINT archive_messages_first;\n\
         {rest};\n{RIGHTS}"
    );
    [prepare, look, swap]
}

/// Returns the statement that creates a part.
fn of_table(name: &str, bounds: &str) -> String {
    format!(
        "CREATE TABLE {name} PARTITION OF archive_messages FOR VALUES {bounds} \
         WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02)"
    )
}

/// Reads a part's name and bounds: `archive_messages_202612 FOR VALUES FROM ('…') TO ('…')`.
fn part(row: &str) -> Option<ArchivePart> {
    let (name, bounds) = row.split_once(' ')?;
    let (_, below) = bounds.split_once(" TO (")?;
    let below = match below.trim_end_matches(')').trim_matches('\'') {
        "MAXVALUE" => None,
        number => Some(number.parse().ok()?),
    };
    Some(ArchivePart { name: name.to_owned(), below })
}

const PARTS: &str = "\
    SELECT c.relname || ' ' || pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
    WHERE i.inhparent = to_regclass('archive_messages')";

/// Selects the condition that the table has until it is the first part.
const CHECKED: &str = "\
    SELECT 1 FROM pg_constraint WHERE conrelid = to_regclass('archive_messages') AND conname = 'archive_messages_first'";

const UNCHECK: &str = "ALTER TABLE archive_messages DROP CONSTRAINT IF EXISTS archive_messages_first";

/// Copies the permissions of the table to the one that has its name now.
const RIGHTS: &str = "\
DO $$ DECLARE given record; BEGIN
    FOR given IN SELECT privilege_type AS what, grantee::regrole AS role FROM pg_class, aclexplode(relacl)
        WHERE pg_class.oid = to_regclass('archive_messages_first') AND grantee NOT IN (0, relowner)
    LOOP
        EXECUTE format('GRANT %s ON archive_messages TO %s', given.what, given.role);
    END LOOP;
END $$";

/// The key of the lock for maintaining the months: that of the schema, plus one.
const LOCK: i64 = 0x526F_6F6C;

/// The time limit for reading all messages, or for dropping a month of them.
const PATIENCE: Duration = Duration::from_secs(6 * 60 * 60);

/// The number of attempts to change the table.
const ATTEMPTS: u32 = 20;

const PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read() {
        let read = |text: &str| part(text).map(|part| (part.name, part.below));
        assert_eq!(read("a_first FOR VALUES FROM (MINVALUE) TO ('7')"), Some(("a_first".into(), Some(7))));
        assert_eq!(read("a_rest FOR VALUES FROM ('7') TO (MAXVALUE)"), Some(("a_rest".into(), None)));
        assert_eq!(read("a_others DEFAULT"), None);
        assert_eq!(read("a FOR VALUES WITH (modulus 2, remainder 0)"), None);
    }
}
