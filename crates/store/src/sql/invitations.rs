//! The operations of [`Invitations`](crate::Invitations).

use super::connection::{Row, SqlConnection, SqlValue, account_values, all, one};
use super::ids;
use crate::invitations::GRACE_MS;
use crate::{Invitation, Purpose, StoreError};
use rookery_jid::{Jid, JidRef};

pub(crate) fn put(
    c: &mut dyn SqlConnection,
    invitation: &Invitation,
    now_ms: u64,
    limit: u64,
) -> Result<bool, StoreError> {
    c.execute(REMOVE_EXPIRED, &[SqlValue::number(now_ms.saturating_sub(GRACE_MS))])?;
    let owner = match &invitation.owner {
        Some(owner) => Some(ids::of_locked(c, owner.as_ref())?.ok_or(StoreError::NoAccount)?),
        None => None,
    };
    if let Some(owner) = owner
        && one(c, COUNT, &[SqlValue::Integer(owner), SqlValue::number(now_ms)], |row| row.number(0))?
            .unwrap_or_default()
            >= limit
    {
        return Ok(false);
    }
    let (purpose, localpart) = match &invitation.purpose {
        Purpose::Account(localpart) => (ACCOUNT, localpart.as_deref()),
        Purpose::Password => (PASSWORD, None),
    };
    let values = [
        SqlValue::Text(&invitation.token),
        SqlValue::Text(&invitation.domain),
        SqlValue::Integer(purpose),
        localpart.map_or(SqlValue::Null, SqlValue::Text),
        owner.map_or(SqlValue::Null, SqlValue::Integer),
        SqlValue::number(invitation.expires_ms),
    ];
    c.execute(INSERT, &values)?;
    Ok(true)
}

pub(crate) fn get(c: &mut dyn SqlConnection, token: &str, now_ms: u64) -> Result<Option<Invitation>, StoreError> {
    one(c, INVITATION, &[SqlValue::Text(token), SqlValue::number(now_ms)], |row| read(row, token))
}

pub(crate) fn take(c: &mut dyn SqlConnection, token: &str, now_ms: u64) -> Result<Option<Invitation>, StoreError> {
    let found = get(c, token, now_ms)?;
    // Another caller may have taken it in the meantime.
    let is_removed = c.execute(REMOVE, &[SqlValue::Text(token)])? > 0;
    Ok(found.filter(|_| is_removed))
}

pub(crate) fn open(
    c: &mut dyn SqlConnection,
    domain: &str,
    now_ms: u64,
    limit: usize,
) -> Result<Vec<Invitation>, StoreError> {
    let values = [SqlValue::Text(domain), SqlValue::number(now_ms), SqlValue::number(limit as u64)];
    all(c, OPEN, &values, |row| read(row, row.text(6)?))
}

pub(crate) fn is_reserved(c: &mut dyn SqlConnection, account: JidRef<'_>, now_ms: u64) -> Result<bool, StoreError> {
    let [domain, local] = account_values(account);
    Ok(one(c, RESERVED, &[domain, local, SqlValue::number(now_ms)], |_| Ok(()))?.is_some())
}

fn read(row: &dyn Row, token: &str) -> Result<Invitation, StoreError> {
    let localpart = row.optional_text(2)?.map(str::to_owned);
    let owner = row.optional_text(3)?.map(str::to_owned).zip(row.optional_text(4)?.map(str::to_owned));
    let jid = |(domain, local): (String, String)| Jid::new(Some(&local), &domain, None);
    let owner =
        owner.map(jid).transpose().map_err(|error| row.corrupt(format!("the owner of an invitation: {error}")))?;
    let purpose = match row.integer(1)? {
        ACCOUNT => Purpose::Account(localpart),
        PASSWORD => Purpose::Password,
        other => return Err(row.corrupt(format!("{other} isn't a purpose of an invitation"))),
    };
    let (token, domain, expires_ms) = (token.to_owned(), row.text(0)?.to_owned(), row.number(5)?);
    Ok(Invitation { token, domain, purpose, owner, expires_ms })
}

/// The numbers that stand for the purposes in rows.
const ACCOUNT: i64 = 1;
const PASSWORD: i64 = 2;

/// Values: time.
const REMOVE_EXPIRED: &str = "DELETE FROM invitations WHERE expires_ms <= ?";

/// Values: owner, time.
const COUNT: &str = "SELECT COUNT(*) FROM invitations WHERE owner = ? AND expires_ms > ?";

/// Values: token, domain, purpose, localpart, owner, time.
const INSERT: &str =
    "INSERT INTO invitations (token, domain, purpose, localpart, owner, expires_ms) SELECT ?, ?, ?, ?, ?, ?";

/// Values: token, time.
const INVITATION: &str = "\
    SELECT invitations.domain, invitations.purpose, invitations.localpart, accounts.domain, accounts.localpart, \
    invitations.expires_ms FROM invitations LEFT JOIN accounts ON accounts.id = invitations.owner \
    WHERE invitations.token = ? AND invitations.expires_ms > ?";

/// Values: domain, time, limit.
const OPEN: &str = "\
    SELECT invitations.domain, invitations.purpose, invitations.localpart, accounts.domain, accounts.localpart, \
    invitations.expires_ms, invitations.token FROM invitations LEFT JOIN accounts ON accounts.id = invitations.owner \
    WHERE invitations.domain = ? AND invitations.expires_ms > ? ORDER BY invitations.expires_ms, invitations.token LIMIT ?";

/// Values: domain, localpart, time.
const RESERVED: &str = "SELECT 1 FROM invitations WHERE domain = ? AND localpart = ? AND expires_ms > ?";

/// Values: token.
const REMOVE: &str = "DELETE FROM invitations WHERE token = ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![REMOVE_EXPIRED, COUNT, INSERT, INVITATION, OPEN, RESERVED, REMOVE]
}
