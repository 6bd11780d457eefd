//! PostgreSQL's index of searches: a GIN index of arrays of numbers.

use super::driver::PostgresDriver;
use crate::StoreError;
use crate::sql::archive::search::fill::Searches;

impl Searches for PostgresDriver {
    fn has_index(&mut self) -> Result<bool, StoreError> {
        Ok(!self.run("SELECT 1 WHERE to_regclass('rookery_search') IS NOT NULL")?.is_empty())
    }

    /// Creates an index in one transaction, which statements that are sent together form.
    fn make_index(&mut self, is_whole: bool) -> Result<(), StoreError> {
        self.run(&PostgresDriver::statements(is_whole)).map(drop)
    }

    fn statements(is_whole: bool) -> String {
        let filled = if is_whole { i64::MAX } else { 0 };
        format!(
            "CREATE TABLE archive_terms (owner BIGINT NOT NULL, id BIGINT NOT NULL, terms INT[] NOT NULL, PRIMARY KEY (owner, id)) \
             WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);\n\
             ALTER TABLE archive_terms ALTER COLUMN terms SET STATISTICS 0;\n\
             CREATE INDEX archive_terms_by_term ON archive_terms USING gin (terms);\n\
             CREATE TABLE rookery_search (id SMALLINT PRIMARY KEY, filled BIGINT NOT NULL);\n\
             INSERT INTO rookery_search (id, filled) VALUES (1, {filled});\n"
        )
    }

    fn drop_index(&mut self) -> Result<(), StoreError> {
        self.run("DROP TABLE archive_terms, rookery_search").map(drop)
    }
}
