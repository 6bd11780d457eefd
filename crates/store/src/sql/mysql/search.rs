//! MariaDB's and MySQL's index of searches: a `FULLTEXT` index of texts in which each term is a
//! word.
//!
//! Words of six letters and digits are neither too short for the index nor among the frequent ones
//! that it leaves out.

use super::driver::MysqlDriver;
use crate::StoreError;
use crate::sql::archive::months::Months;
use crate::sql::archive::search::fill::Searches;

impl Searches for MysqlDriver {
    fn has_index(&mut self) -> Result<bool, StoreError> {
        self.has_table("rookery_search")
    }

    /// Creates an index. The table by which it is recognised is created last, so an interrupted
    /// creation is repeated.
    fn make_index(&mut self, is_whole: bool) -> Result<(), StoreError> {
        let shortest = self.run("SELECT @@global.innodb_ft_min_token_size")?.concat().concat();
        if shortest.parse::<usize>().map_or(true, |shortest| shortest > WORD) {
            let what = format!(
                "its innodb_ft_min_token_size is {shortest}, with which it can't have an index for searches: set it to \
                 {WORD} or less, or `search` under [store] to \"look\""
            );
            return Err(StoreError::Unfit(self.fault(&what)));
        }
        self.run(&MysqlDriver::statements(is_whole)).map(drop)
    }

    fn statements(is_whole: bool) -> String {
        let filled = if is_whole { i64::MAX } else { 0 };
        format!(
            "CREATE TABLE IF NOT EXISTS archive_terms (owner BIGINT NOT NULL, id BIGINT NOT NULL, \
             terms MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL, \
             PRIMARY KEY (owner, id), FULLTEXT INDEX archive_terms_by_term (terms)) ENGINE = InnoDB;\n\
             CREATE TABLE IF NOT EXISTS rookery_search (id TINYINT PRIMARY KEY, filled BIGINT NOT NULL) ENGINE = InnoDB;\n\
             INSERT IGNORE INTO rookery_search (id, filled) VALUES (1, {filled});\n"
        )
    }

    fn drop_index(&mut self) -> Result<(), StoreError> {
        self.run("DROP TABLE rookery_search; DROP TABLE archive_terms").map(drop)
    }
}

/// The letters of a word.
const WORD: usize = 6;
