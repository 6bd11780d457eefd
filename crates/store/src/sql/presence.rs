//! The operations of [`LastPresence`](crate::LastPresence).

use super::connection::{Connection, Row, Value, account_values, one};
use super::{accounts, statements::*};
use crate::{LastSeen, StoreError};
use rookery_jid::{Jid, JidRef};

pub(crate) fn put(c: &mut dyn Connection, owner: JidRef<'_>, unix_ms: u64, stanza: &[u8]) -> Result<(), StoreError> {
    let owner = accounts::id(c, owner)?.ok_or(StoreError::NoAccount)?;
    let values = [Value::number(unix_ms), Value::Bytes(stanza), Value::Integer(owner)];
    if c.execute(UPDATE_PRESENCE, &values)? == 0 {
        c.execute(INSERT_PRESENCE, &values)?;
    }
    Ok(())
}

pub(crate) fn last(c: &mut dyn Connection, owner: JidRef<'_>) -> Result<Option<LastSeen>, StoreError> {
    let read = |row: &dyn Row| {
        Ok(LastSeen { owner: owner.bare().to_jid(), unix_ms: row.number(0)?, stanza: row.bytes(1)?.to_vec() })
    };
    one(c, LAST_PRESENCE, &account_values(owner), read)
}

pub(crate) fn of(c: &mut dyn Connection, asker: JidRef<'_>, owners: &[Jid]) -> Result<Vec<LastSeen>, StoreError> {
    let mut seen = Vec::new();
    for owner in owners {
        let [domain, local] = account_values(owner.bare());
        let read = |row: &dyn Row| {
            Ok(LastSeen { owner: owner.clone(), unix_ms: row.number(0)?, stanza: row.bytes(1)?.to_vec() })
        };
        seen.extend(one(c, PRESENCE_FOR, &[domain, local, Value::Text(asker.bare_str())], read)?);
    }
    Ok(seen)
}

/// Values: domain, localpart.
const LAST_PRESENCE: &str = "\
    SELECT last_presence.unix_ms, last_presence.stanza FROM accounts \
    JOIN last_presence ON last_presence.owner = accounts.id WHERE accounts.domain = ? AND accounts.localpart = ?";
