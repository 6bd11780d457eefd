//! The operations of [`Accounts`](crate::Accounts).

use super::connection::{Row, SqlConnection, SqlValue, account_values, all, one};
use super::many::{Among, Rows, by_domain};
use super::{archive, ids, pubsub, rooms, statements::*};
use crate::StoreError;
use rookery_jid::{Jid, JidRef};
use rookery_sasl::{Credentials, Hash, Keys};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

pub(crate) fn credentials(c: &mut dyn SqlConnection, account: JidRef<'_>) -> Result<Option<Credentials>, StoreError> {
    Ok(for_login(c, account)?.map(|(credentials, _)| credentials))
}

pub(crate) fn for_login(
    c: &mut dyn SqlConnection,
    account: JidRef<'_>,
) -> Result<Option<(Credentials, bool)>, StoreError> {
    let read = |row: &dyn Row| {
        let keys = row.optional_bytes(2)?.is_some().then(|| read_keys(row)).transpose()?;
        Ok((keys, row.integer(5)? != 0))
    };
    let (mut keys, disabled): (Vec<_>, Vec<_>) = all(c, FOR_LOGIN, &account_values(account), read)?.into_iter().unzip();
    let Some(disabled) = disabled.first() else { return Ok(None) };
    let mut take = |hash| keys.iter_mut().find_map(|keys| keys.take_if(|keys| keys.hash == hash));
    match (take(Hash::Sha1), take(Hash::Sha256), take(Hash::Sha512)) {
        (Some(sha1), Some(sha256), Some(sha512)) => Ok(Some((Credentials { sha1, sha256, sha512 }, *disabled))),
        _ => Err(c.corrupt(format!("SCRAM keys of {} are missing", account.as_str()))),
    }
}

pub(crate) fn create(
    c: &mut dyn SqlConnection,
    account: JidRef<'_>,
    credentials: &Credentials,
) -> Result<bool, StoreError> {
    let [domain, local] = account_values(account);
    let statement = CREATE_ACCOUNT.on(c.dialect());
    if c.execute(statement, &[domain, local, domain, local])? == 0 {
        return Ok(false);
    }
    let Some(id) = ids::of_account(c, account)? else {
        return Err(c.corrupt("an account vanished while it was created".into()));
    };
    INSERT_KEYS.insert(c, &keys_of(id, credentials))?;
    Ok(true)
}

pub(crate) fn create_many(c: &mut dyn SqlConnection, accounts: &[(Jid, Credentials)]) -> Result<Vec<bool>, StoreError> {
    let mut known: HashSet<(&str, String)> = HashSet::new();
    for (domain, ids) in ids_of(c, accounts)? {
        known.extend(ids.into_keys().map(|local| (domain, local)));
    }
    // A name that occurs twice is new only once.
    let names = accounts.iter().map(|(account, _)| (account.domain(), localpart(account).to_owned()));
    let created: Vec<bool> = names.map(|name| known.insert(name)).collect();
    let new = || accounts.iter().zip(&created).filter(|(_, is_new)| **is_new).map(|(account, _)| account);
    let version = one(c, NEXT_ROSTER_VERSION, &[], |row| row.integer(0))?.unwrap_or(1);
    let now = now(c)?;
    let rows = new().map(|(account, _)| {
        let [domain, local] = account_values(account.as_ref());
        [domain, local, now, SqlValue::Integer(version), SqlValue::Integer(version)]
    });
    INSERT_ACCOUNTS.insert(c, &rows.collect::<Vec<_>>())?;
    let ids = ids_of(c, accounts)?;
    let mut keys = Vec::with_capacity(created.len() * 3);
    for (account, credentials) in new() {
        let id = ids.get(account.domain()).and_then(|ids| ids.get(localpart(account)));
        let Some(id) = id else { return Err(c.corrupt("an account vanished while it was created".into())) };
        keys.extend(keys_of(*id, credentials));
    }
    INSERT_KEYS.insert(c, &keys)?;
    Ok(created)
}

/// Returns the time of the database.
fn now(c: &mut dyn SqlConnection) -> Result<SqlValue<'static>, StoreError> {
    let statement = NOW.on(c.dialect());
    let now = one(c, statement, &[], |row| row.integer(0))?;
    Ok(SqlValue::Integer(now.unwrap_or_default()))
}

/// Returns the keys of those accounts that exist, by domain and localpart.
fn ids_of<'a>(
    c: &mut dyn SqlConnection,
    accounts: &'a [(Jid, Credentials)],
) -> Result<BTreeMap<&'a str, HashMap<String, i64>>, StoreError> {
    let mut found = BTreeMap::new();
    for (domain, locals) in by_domain(accounts.iter().map(|(account, _)| account)) {
        let mut ids = HashMap::new();
        IDS.query(c, (&[SqlValue::Text(domain)], &locals, &[]), &mut |row| {
            ids.insert(row.text(0)?.to_owned(), row.integer(1)?);
            Ok(ControlFlow::Continue(()))
        })?;
        found.insert(domain, ids);
    }
    Ok(found)
}

fn localpart(account: &Jid) -> &str {
    account.local().unwrap_or_default()
}

pub(crate) fn set_credentials(
    c: &mut dyn SqlConnection,
    account: JidRef<'_>,
    credentials: &Credentials,
) -> Result<bool, StoreError> {
    let Some(id) = ids::of_locked(c, account)? else { return Ok(false) };
    c.execute(REMOVE_KEYS, &[SqlValue::Integer(id)])?;
    INSERT_KEYS.insert(c, &keys_of(id, credentials))?;
    Ok(true)
}

pub(crate) fn remove(c: &mut dyn SqlConnection, account: JidRef<'_>) -> Result<bool, StoreError> {
    let read = |row: &dyn Row| Ok((row.integer(0)?, row.number(1)?));
    let roster = ROSTER.on(c.dialect());
    let Some((id, version)) = one(c, roster, &account_values(account), read)? else { return Ok(false) };
    // The next account of this name continues the count, so no client's cached roster of this
    // account matches.
    let next = SqlValue::number(version.saturating_add(1));
    c.execute(RAISE_NEXT_ROSTER_VERSION, &[next, next])?;
    rooms::forget(c, account)?;
    pubsub::forget(c, account)?;
    archive::purge(c, account)?;
    c.execute(REMOVE_ACCOUNT, &[SqlValue::Integer(id)])?;
    Ok(true)
}

pub(crate) fn exists(c: &mut dyn SqlConnection, account: JidRef<'_>) -> Result<bool, StoreError> {
    Ok(ids::of_account(c, account)?.is_some())
}

pub(crate) fn list(
    c: &mut dyn SqlConnection,
    domain: &str,
    after: Option<JidRef<'_>>,
    limit: usize,
) -> Result<Vec<Jid>, StoreError> {
    list_by(c, LIST_ACCOUNTS, domain, after, limit)
}

fn list_by(
    c: &mut dyn SqlConnection,
    statement: &'static str,
    domain: &str,
    after: Option<JidRef<'_>>,
    limit: usize,
) -> Result<Vec<Jid>, StoreError> {
    let after = after.and_then(JidRef::local).unwrap_or_default();
    let values = [SqlValue::Text(domain), SqlValue::Text(after), SqlValue::number(limit as u64)];
    all(c, statement, &values, |row| {
        let local = row.text(0)?;
        Jid::new(Some(local), domain, None).map_err(|error| row.corrupt(format!("the localpart {local:?}: {error}")))
    })
}

pub(crate) fn count(c: &mut dyn SqlConnection, domain: Option<&str>) -> Result<u64, StoreError> {
    let count = |row: &dyn Row| row.number(0);
    let counted = match domain {
        Some(domain) => one(c, COUNT_ACCOUNTS_OF_DOMAIN, &[SqlValue::Text(domain)], count)?,
        None => one(c, COUNT_ACCOUNTS, &[], count)?,
    };
    Ok(counted.unwrap_or_default())
}

pub(crate) fn set_disabled(c: &mut dyn SqlConnection, account: JidRef<'_>, disabled: bool) -> Result<bool, StoreError> {
    let Some(id) = ids::of_locked(c, account)? else { return Ok(false) };
    let id = SqlValue::Integer(id);
    match disabled {
        true => c.execute(DISABLE, &[id, id])?,
        false => c.execute(ENABLE, &[id])?,
    };
    Ok(true)
}

pub(crate) fn is_disabled(c: &mut dyn SqlConnection, account: JidRef<'_>) -> Result<bool, StoreError> {
    Ok(one(c, IS_DISABLED, &account_values(account), |_| Ok(()))?.is_some())
}

pub(crate) fn list_disabled(
    c: &mut dyn SqlConnection,
    domain: &str,
    after: Option<JidRef<'_>>,
    limit: usize,
) -> Result<Vec<Jid>, StoreError> {
    list_by(c, LIST_DISABLED, domain, after, limit)
}

pub(crate) fn iterations(c: &mut dyn SqlConnection) -> Result<Vec<(u32, u64)>, StoreError> {
    let read = |row: &dyn Row| {
        let iterations = row.integer(0)?.try_into();
        Ok((iterations.map_err(|_| row.corrupt("impossible SCRAM iterations".into()))?, row.number(1)?))
    };
    all(c, COUNT_ITERATIONS, &[SqlValue::Integer(number_of(Hash::Sha256))], read)
}

pub(crate) fn count_disabled(c: &mut dyn SqlConnection, domain: &str) -> Result<u64, StoreError> {
    Ok(one(c, COUNT_DISABLED, &[SqlValue::Text(domain)], |row| row.number(0))?.unwrap_or_default())
}

fn keys_of(account: i64, credentials: &Credentials) -> [[SqlValue<'_>; 6]; 3] {
    Hash::ALL.map(|hash| {
        let keys = credentials.keys(hash);
        [
            SqlValue::Integer(keys.iterations.into()),
            SqlValue::Bytes(&keys.salt),
            SqlValue::Bytes(&keys.stored_key),
            SqlValue::Bytes(&keys.server_key),
            SqlValue::Integer(account),
            SqlValue::Integer(number_of(hash)),
        ]
    })
}

fn read_keys(row: &dyn Row) -> Result<Keys, StoreError> {
    let number = row.integer(0)?;
    let hash = Hash::ALL.into_iter().find(|hash| number_of(*hash) == number);
    Ok(Keys {
        hash: hash.ok_or_else(|| row.corrupt(format!("{number} isn't a hash of SCRAM")))?,
        iterations: row.integer(1)?.try_into().map_err(|_| row.corrupt("impossible SCRAM iterations".into()))?,
        salt: row.bytes(2)?.to_vec(),
        stored_key: row.bytes(3)?.to_vec(),
        server_key: row.bytes(4)?.to_vec(),
    })
}

/// Returns the number in the name of a hash, which stands for the hash in rows.
fn number_of(hash: Hash) -> i64 {
    match hash {
        Hash::Sha1 => 1,
        Hash::Sha256 => 256,
        Hash::Sha512 => 512,
    }
}

/// The keys of each hash, and whether the account is disabled. Values: domain, localpart.
const FOR_LOGIN: &str = "\
    SELECT k.hash, k.iterations, k.salt, k.stored_key, k.server_key, CASE WHEN d.account IS NULL THEN 0 ELSE 1 END \
    FROM accounts a LEFT JOIN scram_keys k ON k.account = a.id LEFT JOIN disabled_accounts d ON d.account = a.id \
    WHERE a.domain = ? AND a.localpart = ?";

/// Values: domain, localparts.
static IDS: Among = Among::new("SELECT localpart, id FROM accounts WHERE domain = ? AND localpart IN ", "");

const NEXT_ROSTER_VERSION: &str = "SELECT value FROM counters WHERE name = 'next_roster_version'";

/// Values: domain, localpart, time, version, version.
static INSERT_ACCOUNTS: Rows = Rows::new(
    "INSERT INTO accounts (domain, localpart, created_ms, roster_version, roster_oldest, roster_items, offline_messages) VALUES",
    "(?, ?, ?, ?, ?, 0, 0)",
);

/// Values: iterations, salt, stored key, server key, account, hash.
static INSERT_KEYS: Rows = Rows::new(
    "INSERT INTO scram_keys (iterations, salt, stored_key, server_key, account, hash) VALUES",
    "(?, ?, ?, ?, ?, ?)",
);

/// Values: account, account.
const DISABLE: &str = "\
    INSERT INTO disabled_accounts (account) SELECT id FROM accounts WHERE id = ? \
    AND NOT EXISTS (SELECT 1 FROM disabled_accounts WHERE account = ?)";

/// Values: account.
const ENABLE: &str = "DELETE FROM disabled_accounts WHERE account = ?";

/// Values: domain, localpart.
const IS_DISABLED: &str = "\
    SELECT 1 FROM accounts JOIN disabled_accounts ON disabled_accounts.account = accounts.id \
    WHERE accounts.domain = ? AND accounts.localpart = ?";

/// Values: domain, localpart after which to start, limit.
const LIST_DISABLED: &str = "\
    SELECT accounts.localpart FROM disabled_accounts JOIN accounts ON accounts.id = disabled_accounts.account \
    WHERE accounts.domain = ? AND accounts.localpart > ? ORDER BY accounts.localpart LIMIT ?";

/// Values: hash.
const COUNT_ITERATIONS: &str = "SELECT iterations, COUNT(*) FROM scram_keys WHERE hash = ? GROUP BY iterations";

/// Values: domain.
const COUNT_DISABLED: &str = "\
    SELECT COUNT(*) FROM disabled_accounts JOIN accounts ON accounts.id = disabled_accounts.account \
    WHERE accounts.domain = ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        FOR_LOGIN,
        IDS,
        NEXT_ROSTER_VERSION,
        INSERT_ACCOUNTS,
        INSERT_KEYS,
        DISABLE,
        ENABLE,
        IS_DISABLED,
        LIST_DISABLED,
        COUNT_ITERATIONS,
        COUNT_DISABLED
    ]
}
