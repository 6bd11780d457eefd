//! The operations of [`Offline`](crate::Offline).

use super::connection::{Connection, Row, Value, account_values, one};
use super::{accounts, statements::*};
use crate::{OfflineMessage, Pushed, StoreError};
use rookery_jid::JidRef;
use std::ops::ControlFlow;

pub(crate) fn push(
    c: &mut dyn Connection,
    to: JidRef<'_>,
    stanza: &[u8],
    unix_ms: u64,
    limit: u64,
) -> Result<Pushed, StoreError> {
    let Some((owner, waiting)) = waiting(c, to)? else { return Ok(Pushed::NoAccount) };
    if waiting >= limit {
        return Ok(Pushed::Full);
    }
    c.execute(INSERT_OFFLINE, &[Value::Integer(owner), Value::number(unix_ms), Value::Bytes(stanza)])?;
    c.execute(UPDATE_OFFLINE, &[Value::number(waiting.saturating_add(1)), Value::Integer(owner)])?;
    Ok(Pushed::Kept)
}

pub(crate) fn load(
    c: &mut dyn Connection,
    owner: JidRef<'_>,
    after: u64,
    max_bytes: usize,
) -> Result<Vec<OfflineMessage>, StoreError> {
    let Some(owner) = accounts::id(c, owner)? else { return Ok(Vec::new()) };
    let (mut messages, mut room) = (Vec::new(), max_bytes);
    c.query(LOAD_OFFLINE, &[Value::Integer(owner), Value::number(after)], &mut |row| {
        let stanza = row.bytes(2)?;
        if stanza.len() > room && !messages.is_empty() {
            return Ok(ControlFlow::Break(()));
        }
        room = room.saturating_sub(stanza.len());
        messages.push(OfflineMessage { id: row.number(0)?, unix_ms: row.number(1)?, stanza: stanza.to_vec() });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(messages)
}

pub(crate) fn remove(c: &mut dyn Connection, owner: JidRef<'_>, up_to: u64) -> Result<u64, StoreError> {
    let Some((owner, waiting)) = waiting(c, owner)? else { return Ok(0) };
    let removed = c.execute(REMOVE_OFFLINE, &[Value::Integer(owner), Value::number(up_to)])?;
    c.execute(UPDATE_OFFLINE, &[Value::number(waiting.saturating_sub(removed)), Value::Integer(owner)])?;
    Ok(removed)
}

pub(crate) fn count(c: &mut dyn Connection, owner: JidRef<'_>) -> Result<u64, StoreError> {
    Ok(waiting(c, owner)?.map_or(0, |(_, waiting)| waiting))
}

/// The owner's row key and how many messages wait, which its row counts so that no push has to.
fn waiting(c: &mut dyn Connection, owner: JidRef<'_>) -> Result<Option<(i64, u64)>, StoreError> {
    let read = |row: &dyn Row| Ok((row.integer(0)?, row.number(1)?));
    one(c, OFFLINE, &account_values(owner), read)
}
