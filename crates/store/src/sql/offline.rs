//! The operations of [`Offline`](crate::Offline).

use super::connection::{Row, SqlConnection, SqlValue, account_values, one};
use super::statements::*;
use crate::offline::MOST_LOADED;
use crate::{OfflineMessage, OfflineRoom, Pushed, StoreError};
use rookery_jid::JidRef;
use std::ops::ControlFlow;

pub(crate) fn push(
    c: &mut dyn SqlConnection,
    to: JidRef<'_>,
    sender: JidRef<'_>,
    stanza: &[u8],
    unix_ms: u64,
    room: OfflineRoom,
) -> Result<Pushed, StoreError> {
    let head = OFFLINE.on(c.dialect());
    let Some(waiting) = waiting(c, head, to)? else { return Ok(Pushed::NoAccount) };
    let (bytes, sender) = (stanza.len() as u64, SqlValue::Text(sender.bare_str()));
    let Some(free) = room.take(waiting.messages, waiting.bytes) else { return Ok(Pushed::Full) };
    if free.take(1, bytes).is_none() {
        return Ok(Pushed::Full);
    }
    // The sender may have sent everything that waits; if that is less than half of the room, it
    // needs no counting.
    if !free.is_fair((waiting.messages, waiting.bytes), bytes) {
        let own = one(c, OFFLINE_OF, &[SqlValue::Integer(waiting.owner), sender], |row| {
            Ok((row.number(0)?, row.number(1)?))
        })?;
        if !free.is_fair(own.unwrap_or_default(), bytes) {
            return Ok(Pushed::Full);
        }
    }
    c.execute(
        INSERT_OFFLINE,
        &[SqlValue::Integer(waiting.owner), SqlValue::number(unix_ms), sender, SqlValue::Bytes(stanza)],
    )?;
    waiting.change(c, waiting.messages.saturating_add(1), waiting.bytes.saturating_add(bytes))?;
    Ok(Pushed::Kept)
}

pub(crate) fn load(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    after: u64,
    max_bytes: usize,
) -> Result<Vec<OfflineMessage>, StoreError> {
    let [domain, local] = account_values(owner);
    let (mut messages, mut room) = (Vec::new(), max_bytes);
    let values = [domain, local, SqlValue::number(after), SqlValue::number(MOST_LOADED as u64)];
    c.query(LOAD_OFFLINE, &values, &mut |row| {
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

pub(crate) fn remove(c: &mut dyn SqlConnection, owner: JidRef<'_>, up_to: u64) -> Result<u64, StoreError> {
    let head = OFFLINE.on(c.dialect());
    let Some(waiting) = waiting(c, head, owner)? else { return Ok(0) };
    let values = [SqlValue::Integer(waiting.owner), SqlValue::number(up_to)];
    let bytes = one(c, OFFLINE_BYTES, &values, |row| row.number(0))?.unwrap_or_default();
    let removed = c.execute(REMOVE_OFFLINE, &values)?;
    waiting.change(c, waiting.messages.saturating_sub(removed), waiting.bytes.saturating_sub(bytes))?;
    Ok(removed)
}

pub(crate) fn count(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<u64, StoreError> {
    Ok(waiting(c, OFFLINE.without_locks(), owner)?.map_or(0, |waiting| waiting.messages))
}

/// The waiting messages of an account, counted in its row so that no push has to count them.
struct WaitingMessages {
    /// The key of the account's row.
    owner: i64,
    messages: u64,
    bytes: u64,
}

impl WaitingMessages {
    fn change(&self, c: &mut dyn SqlConnection, messages: u64, bytes: u64) -> Result<(), StoreError> {
        let values = [SqlValue::number(messages), SqlValue::number(bytes), SqlValue::Integer(self.owner)];
        c.execute(UPDATE_OFFLINE, &values).map(drop)
    }
}

fn waiting(
    c: &mut dyn SqlConnection,
    head: &'static str,
    owner: JidRef<'_>,
) -> Result<Option<WaitingMessages>, StoreError> {
    let read =
        |row: &dyn Row| Ok(WaitingMessages { owner: row.integer(0)?, messages: row.number(1)?, bytes: row.number(2)? });
    one(c, head, &account_values(owner), read)
}
