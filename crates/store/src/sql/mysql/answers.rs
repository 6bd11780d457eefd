//! Reads the results of statements without values, within bounds.

use crate::sql::remote::{MOST_ROWS, TOO_MUCH, is_too_much};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Row};

use super::values::size;

/// Runs statements without values. Returns the result rows as text.
pub(super) async fn answers(conn: &mut Conn, statements: &str) -> Result<Vec<Vec<String>>, Error> {
    let mut answer = conn.query_iter(statements).await?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    // No statements have more results than this.
    for _ in 0..MOST_ROWS {
        while let Some(row) = answer.next().await? {
            bytes += size(&row);
            found.push(words(&row));
            if found.len() > MOST_ROWS || is_too_much(bytes) {
                return Err(too_much());
            }
        }
        if answer.is_empty() {
            return answer.drop_result().await.map(|()| found);
        }
    }
    Err(too_much())
}

/// Returns the error for a server that returns more than is possible.
pub(super) fn too_much() -> Error {
    Error::Other(TOO_MUCH.into())
}

/// Returns the columns of a row as text; NULL becomes an empty text.
fn words(row: &Row) -> Vec<String> {
    let word = |at| row.get_opt::<String, _>(at).and_then(Result::ok).unwrap_or_default();
    (0..row.len()).map(word).collect()
}

/// Returns the only number of an answer.
pub(super) fn integer(rows: &[Vec<String>]) -> Option<i64> {
    rows.first()?.first()?.parse().ok()
}
