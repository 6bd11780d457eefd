//! Reads the results of statements without values, within bounds.

use crate::StoreError;
use crate::sql::remote::{MOST_ROWS, is_too_much};
use futures_util::TryStreamExt;
use std::pin::pin;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// The reason why a statement has no result.
pub(super) enum StatementFailed {
    Database(Error),
    TooMuch,
    /// An error of the code that read the rows.
    Row(StoreError),
}

/// Runs statements without values. Returns their results.
pub(super) async fn answers(client: &Client, statements: &str) -> Result<Vec<SimpleQueryMessage>, StatementFailed> {
    let mut answers = pin!(client.simple_query_raw(statements).await.map_err(StatementFailed::Database)?);
    let (mut messages, mut bytes) = (Vec::new(), 0);
    while let Some(message) = answers.try_next().await.map_err(StatementFailed::Database)? {
        if let SimpleQueryMessage::Row(row) = &message {
            bytes += (0..row.len()).filter_map(|at| row.get(at)).map(str::len).sum::<usize>();
        }
        messages.push(message);
        if messages.len() > MOST_ROWS || is_too_much(bytes) {
            return Err(StatementFailed::TooMuch);
        }
    }
    Ok(messages)
}
