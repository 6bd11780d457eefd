//! Lists of accounts in the orders that operators choose.

use super::connection::{Row, SqlConnection, SqlValue, all, one};
use super::dialect::DialectText;
use crate::StoreError;
use crate::accounts::{Browse, Browsed, Choice, Only, Order};
use rookery_jid::Jid;

pub(crate) fn browse(c: &mut dyn SqlConnection, domain: &str, choice: &Choice) -> Result<Browsed, StoreError> {
    let (count, parts) = match choice.only {
        Only::All => (COUNT_ALL, &ALL),
        Only::Disabled => (COUNT_DISABLED, &DISABLED),
        Only::NeverSeen => (COUNT_NEVER_SEEN, &NEVER_SEEN),
    };
    let statement = match choice.order {
        Order::Name => &parts.by_name,
        Order::Newest => &parts.newest,
        Order::Oldest => &parts.oldest,
        Order::Youngest => &parts.youngest,
        Order::Largest => &parts.largest,
    };
    let pattern = pattern(&choice.contains);
    let [domain_value, pattern] = [SqlValue::Text(domain), SqlValue::Text(&pattern)];
    let total = one(c, count, &[domain_value, pattern], |row| row.number(0))?.unwrap_or_default();
    let [limit, skip] = [choice.limit, choice.skip].map(|number| SqlValue::number(number as u64));
    let statement = statement.on(c.dialect());
    let accounts = all(c, statement, &[domain_value, pattern, limit, skip], |row| read(row, domain))?;
    Ok(Browsed { total, accounts })
}

fn read(row: &dyn Row, domain: &str) -> Result<Browse, StoreError> {
    let local = row.text(0)?;
    let jid = Jid::new(Some(local), domain, None);
    let jid = jid.map_err(|error| row.corrupt(format!("the localpart {local:?}: {error}")))?;
    // A time of 0 can't be real: it would be the first millisecond of 1970.
    let time = |unix_ms| Some(unix_ms).filter(|unix_ms| *unix_ms != 0);
    let (last_seen_ms, created_ms) = (time(row.number(2)?), time(row.number(3)?));
    Ok(Browse { jid, is_disabled: row.integer(1)? != 0, last_seen_ms, created_ms, bytes: row.number(4)? })
}

/// Returns the pattern of LIKE for texts that contain another one.
fn pattern(contains: &str) -> String {
    let escaped = contains.replace('!', "!!").replace('%', "!%").replace('_', "!_");
    format!("%{escaped}%")
}

/// Joins the accounts whose domain and localpart match with their data. Values: domain, pattern.
macro_rules! from {
    () => {
        " FROM accounts a LEFT JOIN disabled_accounts d ON d.account = a.id \
         LEFT JOIN last_presence p ON p.owner = a.id WHERE a.domain = ? AND a.localpart LIKE ? ESCAPE '!'"
    };
}

/// Returns the statement for a part of the accounts that meet a condition, in an order. Values:
/// domain, pattern, limit, accounts to skip. The engines differ in the name of their integers, to
/// which the sum is cast, since it is a decimal otherwise.
macro_rules! part {
    ($only:literal, $order:literal) => {
        DialectText {
            sqlite: part!($only, $order, "INTEGER"),
            postgres: part!($only, $order, "BIGINT"),
            mysql: part!($only, $order, "SIGNED"),
        }
    };
    ($only:literal, $order:literal, $integer:literal) => {
        concat!(
            "SELECT a.localpart, CASE WHEN d.account IS NULL THEN 0 ELSE 1 END, COALESCE(p.unix_ms, 0), a.created_ms, \
             a.offline_bytes + COALESCE((SELECT MAX(r.bytes) FROM archives r WHERE r.account = a.id), 0) \
             + COALESCE((SELECT CAST(SUM(s.size) AS ",
            $integer,
            ") FROM slots s WHERE s.owner = a.id), 0) AS stored",
            from!(),
            $only,
            $order,
            " LIMIT ? OFFSET ?"
        )
    };
}

/// The statements for a part of the accounts of a kind, by their orders.
struct BrowsingParts {
    by_name: DialectText,
    newest: DialectText,
    oldest: DialectText,
    youngest: DialectText,
    largest: DialectText,
}

/// Returns the parts of a query for the accounts that meet a condition.
macro_rules! parts {
    ($only:literal) => {
        BrowsingParts {
            by_name: part!($only, " ORDER BY a.localpart"),
            newest: part!($only, " ORDER BY COALESCE(p.unix_ms, 0) DESC, a.localpart"),
            oldest: part!($only, " ORDER BY COALESCE(p.unix_ms, 0), a.localpart"),
            youngest: part!($only, " ORDER BY a.created_ms DESC, a.localpart"),
            largest: part!($only, " ORDER BY stored DESC, a.localpart"),
        }
    };
}

static ALL: BrowsingParts = parts!("");
static DISABLED: BrowsingParts = parts!(" AND d.account IS NOT NULL");
static NEVER_SEEN: BrowsingParts = parts!(" AND p.owner IS NULL");

#[cfg(test)]
impl crate::sql::listed::ListOfTexts for BrowsingParts {
    fn texts(&self, dialect: crate::sql::dialect::Dialect) -> Vec<String> {
        let Self { by_name, newest, oldest, youngest, largest } = self;
        [by_name, newest, oldest, youngest, largest].map(|text| text.on(dialect).to_owned()).to_vec()
    }
}

const COUNT_ALL: &str = concat!("SELECT COUNT(*)", from!());
const COUNT_DISABLED: &str = concat!("SELECT COUNT(*)", from!(), " AND d.account IS NOT NULL");
const COUNT_NEVER_SEEN: &str = concat!("SELECT COUNT(*)", from!(), " AND p.owner IS NULL");

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![ALL, DISABLED, NEVER_SEEN, COUNT_ALL, COUNT_DISABLED, COUNT_NEVER_SEEN]
}
