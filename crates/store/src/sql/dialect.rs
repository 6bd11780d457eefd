//! The engines, and the differences of their SQL.
//!
//! There is one set of statements. Their texts keep to the SQL that all engines support; where that
//! is impossible, the statement is a [`DialectText`], made by the macro that names the difference,
//! and the operation asks for the text of its [`SqlConnection`](super::connection::SqlConnection).
//! Nothing else in the operations depends on engines, except where one needs less than another
//! ([`Dialect::notes_stretches`]).

/// An engine, by its SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// SQLite, which runs in this process.
    Sqlite,
    /// PostgreSQL.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "left out of this build"))]
    Postgres,
    /// MariaDB and MySQL.
    #[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "left out of this build"))]
    Mysql,
}

impl Dialect {
    /// Returns true if the archive notes the stretches of ids in which conversations have messages.
    /// An index of messages by contact costs SQLite a page of the log for each message, which the
    /// other engines don't have to write.
    pub(crate) fn notes_stretches(self) -> bool {
        self == Dialect::Sqlite
    }
}

impl Dialect {
    /// Returns the name of the engine.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Dialect::Sqlite => "SQLite",
            Dialect::Postgres => "PostgreSQL",
            Dialect::Mysql => "MariaDB or MySQL",
        }
    }

    /// Returns true if other connections may write during a writing transaction.
    pub(crate) fn has_other_writers(self) -> bool {
        self != Dialect::Sqlite
    }
}

/// A statement whose text differs between engines.
pub(crate) struct DialectText {
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
    pub(crate) mysql: &'static str,
}

impl DialectText {
    /// Returns a text that is the same for all engines.
    pub(crate) const fn same(text: &'static str) -> DialectText {
        DialectText { sqlite: text, postgres: text, mysql: text }
    }

    /// Returns the text of a query that locks nothing.
    pub(crate) const fn without_locks(&self) -> &'static str {
        self.sqlite
    }

    /// Returns the text for an engine.
    pub(crate) const fn on(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sqlite => self.sqlite,
            Dialect::Postgres => self.postgres,
            Dialect::Mysql => self.mysql,
        }
    }
}

/// Returns a text with its values numbered, as PostgreSQL expects, unless they already are.
#[cfg(feature = "postgres")]
pub(crate) fn number_values(sql: &str) -> String {
    let (mut text, mut number) = (String::with_capacity(sql.len() + sql.len() / 8), 0);
    for part in sql.split_inclusive('?') {
        match part.strip_suffix('?') {
            Some(before) => {
                number += 1;
                text.push_str(before);
                text.push_str(&format!("${number}"));
            }
            None => text.push_str(part),
        }
    }
    text
}

/// Returns a query of one row that stays locked until the transaction ends: the first statement of
/// an operation that writes what it has read, or counts. SQLite has only one writer anyway.
macro_rules! locking {
    ($sql:expr) => {
        $crate::sql::dialect::DialectText {
            sqlite: $sql,
            postgres: concat!($sql, " FOR UPDATE"),
            mysql: concat!($sql, " FOR UPDATE"),
        }
    };
}

/// Returns a statement with a condition that a column equals a value, where the column's texts can
/// be too long for an index of PostgreSQL or MariaDB: there a digest of the text is indexed.
macro_rules! by_digest {
    ($before:expr, $column:literal, $after:expr) => {
        by_digest!($before, $column, $after, "")
    };
    // The last clause is a lock, for engines with other connections.
    ($before:expr, $column:literal, $after:expr, $lock:literal) => {
        $crate::sql::dialect::DialectText {
            sqlite: concat!($before, $column, " = ?", $after),
            postgres: concat!($before, $column, "_digest = rookery_digest(?)", $after, $lock),
            mysql: concat!($before, $column, "_digest = UNHEX(SHA2(?, 256))", $after, $lock),
        }
    };
}

pub(crate) use {by_digest, locking};

#[cfg(test)]
#[cfg(feature = "postgres")]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_in_their_order() {
        assert_eq!(
            number_values("SELECT a FROM b WHERE c = ? AND d IN (?, ?)"),
            "SELECT a FROM b WHERE c = $1 AND d IN ($2, $3)"
        );
        assert_eq!(number_values("DELETE FROM b WHERE c = $1 OR d = $1"), "DELETE FROM b WHERE c = $1 OR d = $1");
    }
}
