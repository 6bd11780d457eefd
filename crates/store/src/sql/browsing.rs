//! Lists of accounts in the orders that operators choose.

use super::connection::{Connection, Row, Value, all, one};
use crate::StoreError;
use crate::accounts::{Browse, Browsed, Choice, Only, Order};
use rookery_jid::Jid;

pub(crate) fn browse(c: &mut dyn Connection, domain: &str, choice: &Choice) -> Result<Browsed, StoreError> {
    let (count, [by_name, newest, oldest]) = match choice.only {
        Only::All => (COUNT_ALL, [ALL_BY_NAME, ALL_NEWEST, ALL_OLDEST]),
        Only::Disabled => (COUNT_DISABLED, [DISABLED_BY_NAME, DISABLED_NEWEST, DISABLED_OLDEST]),
        Only::NeverSeen => (COUNT_NEVER_SEEN, [NEVER_SEEN; 3]),
    };
    let statement = match choice.order {
        Order::Name => by_name,
        Order::Newest => newest,
        Order::Oldest => oldest,
    };
    let pattern = pattern(&choice.contains);
    let [domain_value, pattern] = [Value::Text(domain), Value::Text(&pattern)];
    let total = one(c, count, &[domain_value, pattern], |row| row.number(0))?.unwrap_or_default();
    let [limit, skip] = [choice.limit, choice.skip].map(|number| Value::number(number as u64));
    let accounts = all(c, statement, &[domain_value, pattern, limit, skip], |row| read(row, domain))?;
    Ok(Browsed { total, accounts })
}

fn read(row: &dyn Row, domain: &str) -> Result<Browse, StoreError> {
    let local = row.text(0)?;
    let jid = Jid::new(Some(local), domain, None);
    let jid = jid.map_err(|error| row.corrupt(format!("the localpart {local:?}: {error}")))?;
    // Nobody was last seen in the first millisecond of 1970.
    let last_seen_ms = Some(row.number(2)?).filter(|unix_ms| *unix_ms != 0);
    Ok(Browse { jid, is_disabled: row.integer(1)? != 0, last_seen_ms })
}

/// Returns the pattern of LIKE for texts that contain another one.
fn pattern(contains: &str) -> String {
    let escaped = contains.replace('!', "!!").replace('%', "!%").replace('_', "!_");
    format!("%{escaped}%")
}

/// Makes a statement over the accounts whose domain and localpart fit, and of which a condition holds. Values: domain, pattern, and what follows.
macro_rules! accounts {
    ($what:literal, $only:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $what,
            " FROM accounts a LEFT JOIN disabled_accounts d ON d.account = a.id \
             LEFT JOIN last_presence p ON p.owner = a.id WHERE a.domain = ? AND a.localpart LIKE ? ESCAPE '!'",
            $only,
            $rest
        )
    };
}

/// Makes the statement for a part of the accounts of which a condition holds, in an order. Values: domain, pattern, limit, accounts to skip.
macro_rules! part {
    ($only:literal, $order:literal) => {
        accounts!("a.localpart, CASE WHEN d.account IS NULL THEN 0 ELSE 1 END, COALESCE(p.unix_ms, 0)", $only, $order)
    };
}

const ALL_BY_NAME: &str = part!("", " ORDER BY a.localpart LIMIT ? OFFSET ?");
const ALL_NEWEST: &str = part!("", " ORDER BY COALESCE(p.unix_ms, 0) DESC, a.localpart LIMIT ? OFFSET ?");
const ALL_OLDEST: &str = part!("", " ORDER BY COALESCE(p.unix_ms, 0), a.localpart LIMIT ? OFFSET ?");
const DISABLED_BY_NAME: &str = part!(" AND d.account IS NOT NULL", " ORDER BY a.localpart LIMIT ? OFFSET ?");
const DISABLED_NEWEST: &str =
    part!(" AND d.account IS NOT NULL", " ORDER BY COALESCE(p.unix_ms, 0) DESC, a.localpart LIMIT ? OFFSET ?");
const DISABLED_OLDEST: &str =
    part!(" AND d.account IS NOT NULL", " ORDER BY COALESCE(p.unix_ms, 0), a.localpart LIMIT ? OFFSET ?");
const NEVER_SEEN: &str = part!(" AND p.owner IS NULL", " ORDER BY a.localpart LIMIT ? OFFSET ?");

const COUNT_ALL: &str = accounts!("COUNT(*)", "", "");
const COUNT_DISABLED: &str = accounts!("COUNT(*)", " AND d.account IS NOT NULL", "");
const COUNT_NEVER_SEEN: &str = accounts!("COUNT(*)", " AND p.owner IS NULL", "");

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn listed() -> Vec<crate::sql::listed::Listed> {
    crate::sql::listed::listed![
        ALL_BY_NAME,
        ALL_NEWEST,
        ALL_OLDEST,
        DISABLED_BY_NAME,
        DISABLED_NEWEST,
        DISABLED_OLDEST,
        NEVER_SEEN,
        COUNT_ALL,
        COUNT_DISABLED,
        COUNT_NEVER_SEEN
    ]
}
