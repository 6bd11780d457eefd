//! The operations of [`LastPresence`](crate::LastPresence).

use super::connection::{Connection, Row, Value, account_values, one};
use super::dialect::by_digest;
use super::many::{Among, by_domain};
use super::statements::*;
use crate::presence::SeenWith;
use crate::{LastSeen, StoreError};
use rookery_jid::{Jid, JidRef};
use std::collections::HashMap;
use std::ops::ControlFlow;

pub(crate) fn put(c: &mut dyn Connection, owner: JidRef<'_>, unix_ms: u64, stanza: &[u8]) -> Result<(), StoreError> {
    let [domain, local] = account_values(owner);
    let values = [Value::number(unix_ms), Value::Bytes(stanza), domain, local];
    if c.execute(UPDATE_PRESENCE, &values)? == 0 && c.execute(INSERT_PRESENCE, &values)? == 0 {
        return Err(StoreError::NoAccount);
    }
    Ok(())
}

pub(crate) fn last(c: &mut dyn Connection, owner: JidRef<'_>) -> Result<Option<LastSeen>, StoreError> {
    let read = |row: &dyn Row| {
        Ok(LastSeen { owner: owner.bare().to_jid(), unix_ms: row.number(0)?, stanza: row.bytes(1)?.to_vec() })
    };
    one(c, LAST_PRESENCE, &account_values(owner), read)
}

pub(crate) fn of(
    c: &mut dyn Connection,
    asker: JidRef<'_>,
    owners: &[Jid],
    document: &str,
) -> Result<Vec<SeenWith>, StoreError> {
    let mut found = HashMap::new();
    for (domain, locals) in by_domain(owners) {
        let before = [Value::Text(asker.bare_str()), Value::Text(document), Value::Text(domain)];
        PRESENCE_FOR.query(c, (&before, &locals, &[]), &mut |row| {
            let read = (row.number(1)?, row.bytes(2)?.to_vec(), row.optional_bytes(3)?.map(<[u8]>::to_vec));
            found.insert((domain, row.text(0)?.to_owned()), read);
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let seen = owners.iter().filter_map(|owner| {
        let (unix_ms, stanza, document) =
            found.get(&(owner.domain(), owner.local().unwrap_or_default().to_owned())).cloned()?;
        Some((LastSeen { owner: owner.clone(), unix_ms, stanza }, document))
    });
    Ok(seen.collect())
}

/// Subscriptions 2 and 3 are `from` and `both`. Values: asker, document, domain, localparts.
static PRESENCE_FOR: Among = Among::differing(
    by_digest!(
        "SELECT a.localpart, p.unix_ms, p.stanza, d.bytes FROM accounts a \
         JOIN last_presence p ON p.owner = a.id \
         JOIN roster_items i ON i.owner = a.id AND ",
        "i.contact",
        " AND i.subscription >= 2 \
         LEFT JOIN documents d ON d.owner = a.id AND d.name = ? \
         WHERE a.domain = ? AND a.localpart IN "
    ),
    "",
);

/// Values: domain, localpart.
const LAST_PRESENCE: &str = "\
    SELECT last_presence.unix_ms, last_presence.stanza FROM accounts \
    JOIN last_presence ON last_presence.owner = accounts.id WHERE accounts.domain = ? AND accounts.localpart = ?";
