//! The operations of [`Slots`](crate::Slots).

use super::connection::{Row, SqlConnection, SqlValue, all, one};
use super::ids;
use crate::slots::Taken;
use crate::{Reserved, Slot, SlotQuota, SlotStage, StoreError};
use rookery_jid::{Jid, JidRef};

pub(crate) fn reserve(c: &mut dyn SqlConnection, slot: &Slot, quota: SlotQuota) -> Result<Reserved, StoreError> {
    let owner = ids::of_locked(c, slot.owner.as_ref())?.ok_or(StoreError::NoAccount)?;
    let taken = |row: &dyn Row| {
        Ok(Taken { size: row.number(0)?, expires_ms: row.number(1)?, is_waiting: row.integer(2)? == RESERVED })
    };
    let taken = all(c, TAKEN, &[SqlValue::Integer(owner)], taken)?;
    match quota.fits_from(slot.size, &taken) {
        Some(0) => {}
        again_ms => return Ok(Reserved::Full { again_ms }),
    }
    let values = [
        SqlValue::Text(&slot.token),
        SqlValue::Integer(owner),
        SqlValue::Text(&slot.name),
        SqlValue::number(slot.size),
        slot.content_type.as_deref().map_or(SqlValue::Null, SqlValue::Text),
        SqlValue::number(slot.expires_ms),
        SqlValue::number(slot.keep_ms),
        SqlValue::Integer(number(slot.stage)),
    ];
    c.execute(INSERT, &values)?;
    Ok(Reserved::Done)
}

pub(crate) fn slot(c: &mut dyn SqlConnection, token: &str, now_ms: u64) -> Result<Option<Slot>, StoreError> {
    one(c, SLOT, &[SqlValue::Text(token), SqlValue::number(now_ms)], |row| read(row, token))
}

pub(crate) fn files_of(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    now_ms: u64,
    limit: u64,
) -> Result<Vec<Slot>, StoreError> {
    let Some(id) = ids::of_account(c, owner)? else { return Ok(Vec::new()) };
    let values = [SqlValue::Integer(id), SqlValue::number(now_ms), SqlValue::number(limit)];
    all(c, OF_OWNER, &values, |row| read(row, row.text(8)?))
}

pub(crate) fn advance(
    c: &mut dyn SqlConnection,
    token: &str,
    from: SlotStage,
    to: SlotStage,
    now_ms: u64,
    until_ms: u64,
) -> Result<bool, StoreError> {
    let (from, to) = (SqlValue::Integer(number(from)), SqlValue::Integer(number(to)));
    let values = [to, SqlValue::number(until_ms), SqlValue::Text(token), from, SqlValue::number(now_ms)];
    Ok(c.execute(ADVANCE, &values)? > 0)
}

pub(crate) fn list_expired(c: &mut dyn SqlConnection, now_ms: u64, limit: u64) -> Result<Vec<String>, StoreError> {
    let mut tokens = all(c, ORPHANED, &[SqlValue::number(limit)], |row| row.text(0).map(str::to_owned))?;
    let room = limit.saturating_sub(tokens.len() as u64);
    tokens.extend(all(c, EXPIRED, &[SqlValue::number(now_ms), SqlValue::number(room)], |row| {
        row.text(0).map(str::to_owned)
    })?);
    Ok(tokens)
}

pub(crate) fn forget(c: &mut dyn SqlConnection, token: &str) -> Result<(), StoreError> {
    c.execute(REMOVE, &[SqlValue::Text(token)]).map(|_| ())
}

fn read(row: &dyn Row, token: &str) -> Result<Slot, StoreError> {
    let owner = Jid::new(Some(row.text(1)?), row.text(0)?, None);
    let stage = match row.integer(7)? {
        RESERVED => SlotStage::Reserved,
        FILLING => SlotStage::Filling,
        FILLED => SlotStage::Filled,
        other => return Err(row.corrupt(format!("{other} isn't a stage of a slot"))),
    };
    Ok(Slot {
        token: token.to_owned(),
        owner: owner.map_err(|error| row.corrupt(format!("the owner of a slot: {error}")))?,
        name: row.text(2)?.to_owned(),
        size: row.number(3)?,
        content_type: row.optional_text(4)?.map(str::to_owned),
        expires_ms: row.number(5)?,
        keep_ms: row.number(6)?,
        stage,
    })
}

fn number(stage: SlotStage) -> i64 {
    match stage {
        SlotStage::Reserved => RESERVED,
        SlotStage::Filling => FILLING,
        SlotStage::Filled => FILLED,
    }
}

/// The numbers that stand for stages in rows.
const RESERVED: i64 = 1;
const FILLING: i64 = 2;
pub(super) const FILLED: i64 = 3;

/// Values: owner.
const TAKEN: &str = "SELECT size, expires_ms, stage FROM slots WHERE owner = ? ORDER BY expires_ms";

/// Values: token, owner, name, size, content type, time, duration, stage.
const INSERT: &str = "\
    INSERT INTO slots (token, owner, name, size, content_type, expires_ms, keep_ms, stage) SELECT ?, ?, ?, ?, ?, ?, ?, ?";

/// Values: token, time.
const SLOT: &str = "\
    SELECT accounts.domain, accounts.localpart, slots.name, slots.size, slots.content_type, slots.expires_ms, slots.keep_ms, \
    slots.stage FROM slots JOIN accounts ON accounts.id = slots.owner WHERE slots.token = ? AND slots.expires_ms > ?";

/// The stage is [`FILLED`]. Values: owner, time, number.
const OF_OWNER: &str = "\
    SELECT accounts.domain, accounts.localpart, slots.name, slots.size, slots.content_type, slots.expires_ms, slots.keep_ms, \
    slots.stage, slots.token FROM slots JOIN accounts ON accounts.id = slots.owner \
    WHERE slots.owner = ? AND slots.expires_ms > ? AND slots.stage = 3 ORDER BY slots.expires_ms DESC LIMIT ?";

/// Values: new stage, time, token, stage, time now.
const ADVANCE: &str = "\
    UPDATE slots SET stage = ?, expires_ms = ? WHERE token = ? AND stage = ? AND expires_ms > ? AND owner IS NOT NULL";

/// Two statements instead of one, since each has an index of its own. Values: number.
const ORPHANED: &str = "SELECT token FROM slots WHERE owner IS NULL LIMIT ?";

/// Values: time, number.
const EXPIRED: &str = "SELECT token FROM slots WHERE expires_ms <= ? AND owner IS NOT NULL ORDER BY expires_ms LIMIT ?";

/// Values: token.
const REMOVE: &str = "DELETE FROM slots WHERE token = ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![TAKEN, INSERT, SLOT, OF_OWNER, ADVANCE, ORPHANED, EXPIRED, REMOVE]
}
