//! The operations of [`LastPresence`](crate::LastPresence).

use super::connection::{Connection, Row, Value, account_values, one};
use super::dialect::Text;
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

/// Makes the query of the last presence of many, whose roster has the asker where the text says so.
macro_rules! presence_for {
    ($asker:literal) => {
        concat!(
            "SELECT a.localpart, p.unix_ms, p.stanza, d.bytes FROM accounts a \
             JOIN last_presence p ON p.owner = a.id \
             JOIN roster_items i ON i.owner = a.id AND ",
            $asker,
            " AND i.subscription >= 2 \
             LEFT JOIN documents d ON d.owner = a.id AND d.name = ? \
             WHERE a.domain = ? AND a.localpart IN "
        )
    };
}

/// Subscriptions 2 and 3 are `from` and `both`. Values: asker, document, domain, localparts.
///
/// PostgreSQL expects as many rows as there are places in a list, and takes whole tables for less than they are: it is told to look up each account's
/// rows by themselves, and computes the digests once.
static PRESENCE_FOR: Among = Among::differing(
    Text {
        sqlite: presence_for!("i.contact = ?"),
        postgres: "WITH asked AS MATERIALIZED (SELECT rookery_digest(?) AS asker, rookery_digest(?) AS document) \
            SELECT a.localpart, p.unix_ms, p.stanza, d.bytes FROM accounts a \
            JOIN LATERAL (SELECT unix_ms, stanza FROM last_presence WHERE owner = a.id OFFSET 0) p ON true \
            JOIN LATERAL (SELECT 1 FROM roster_items WHERE owner = a.id \
                AND contact_digest = (SELECT asker FROM asked) AND subscription >= 2 OFFSET 0) i ON true \
            LEFT JOIN LATERAL (SELECT bytes FROM documents WHERE owner = a.id \
                AND name_digest = (SELECT document FROM asked) OFFSET 0) d ON true \
            WHERE a.domain = ? AND a.localpart IN ",
        mysql: presence_for!("i.contact_digest = UNHEX(SHA2(?, 256))"),
    },
    "",
);

/// Values: domain, localpart.
const LAST_PRESENCE: &str = "\
    SELECT last_presence.unix_ms, last_presence.stanza FROM accounts \
    JOIN last_presence ON last_presence.owner = accounts.id WHERE accounts.domain = ? AND accounts.localpart = ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn listed() -> Vec<crate::sql::listed::Listed> {
    crate::sql::listed::listed![PRESENCE_FOR, LAST_PRESENCE]
}
