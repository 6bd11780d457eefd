//! The operations of [`Rosters`](crate::Rosters).
//!
//! An item's row has the version of its latest change that clients saw; a contact that vanished for
//! clients has a row in `roster_removals` until it comes back or too many others were removed.

use super::connection::{Row, SqlConnection, SqlValue, account_values, all, one};
use super::dialect::{DialectText, by_digest};
use super::statements::*;
use crate::rosters::{Effect, REMEMBERED_REMOVALS, effect, replacing};
use crate::{
    Changed, Changes, Edit, EditRoster, Roster, RosterChange, RosterItem, RosterSize, StoreError, Subscription,
};
use rookery_jid::{Jid, JidRef};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

pub(crate) fn get(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<Roster, StoreError> {
    let RosterSince { version, items, .. } = items_since(c, owner, -1)?;
    Ok(Roster { version, items: items.into_iter().map(|(_, item)| item).collect() })
}

pub(crate) fn since(c: &mut dyn SqlConnection, owner: JidRef<'_>, version: u64) -> Result<Option<Changes>, StoreError> {
    let RosterSince { version: now, oldest, items } =
        items_since(c, owner, i64::try_from(version).unwrap_or(i64::MAX))?;
    if version < oldest || version > now {
        return Ok(None);
    }
    let [domain, local] = account_values(owner);
    let values = [domain, local, SqlValue::number(version)];
    let mut changes = all(c, REMOVALS_SINCE, &values, |row| Ok((row.number(1)?, RosterChange::Removed(row.jid(0)?))))?;
    changes.extend(items.into_iter().filter(|(_, item)| item.visible()).map(|(v, item)| (v, RosterChange::Put(item))));
    changes.sort_unstable_by_key(|(version, _)| *version);
    Ok(Some(Changes { version: now, changes }))
}

/// The changed part of a roster.
struct RosterSince {
    version: u64,
    /// The oldest version since which all changes are known.
    oldest: u64,
    /// The items, each with the version of its latest change.
    items: Vec<(u64, RosterItem)>,
}

/// Returns the items that changed after a version (-1: all).
fn items_since(c: &mut dyn SqlConnection, owner: JidRef<'_>, version: i64) -> Result<RosterSince, StoreError> {
    let [domain, local] = account_values(owner);
    let (mut head, mut items) = (None, Vec::new());
    c.query(ROSTER_ITEMS, &[SqlValue::Integer(version), domain, local], &mut |row| {
        head = Some((row.number(9)?, row.number(10)?));
        if row.optional_text(0)?.is_some() {
            items.push(read_item(row)?);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let (version, oldest) = head.ok_or(StoreError::NoAccount)?;
    Ok(RosterSince { version, oldest, items })
}

pub(crate) fn contacts(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<Vec<(Jid, Subscription)>, StoreError> {
    of_owner(c, CONTACTS, &account_values(owner), |row| Ok((row.jid(0)?, read_subscription(row, 1)?)))
}

pub(crate) fn pending_in(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    after: Option<&Jid>,
    limit: usize,
) -> Result<Vec<(Jid, Vec<u8>)>, StoreError> {
    let [domain, local] = account_values(owner);
    let values = [SqlValue::Text(after.map_or("", Jid::as_str)), domain, local, SqlValue::number(limit as u64)];
    of_owner(c, REQUESTS, &values, |row| Ok((row.jid(0)?, row.bytes(1)?.to_vec())))
}

/// Returns all rows of a query that returns one row with a NULL in the first column for an owner
/// without data.
fn of_owner<T>(
    c: &mut dyn SqlConnection,
    sql: &'static str,
    values: &[SqlValue<'_>],
    read: impl Fn(&dyn Row) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let rows = all(c, sql, values, |row| row.optional_text(0)?.is_some().then(|| read(row)).transpose())?;
    if rows.is_empty() {
        return Err(StoreError::NoAccount);
    }
    Ok(rows.into_iter().flatten().collect())
}

fn size(c: &mut dyn SqlConnection, owner: i64) -> Result<RosterSize, StoreError> {
    let read = |row: &dyn Row| {
        let number = |at| Ok::<_, StoreError>(usize::try_from(row.number(at)?).unwrap_or(usize::MAX));
        let (items, bytes, all) = (number(0)?, number(1)?, number(2)?);
        Ok(RosterSize { items, requests: all.saturating_sub(items), bytes })
    };
    Ok(one(c, ROSTER_SIZE, &[SqlValue::Integer(owner)], read)?.unwrap_or_default())
}

pub(crate) fn item(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    contact: JidRef<'_>,
) -> Result<Option<RosterItem>, StoreError> {
    let [domain, local] = account_values(owner);
    let values = [SqlValue::Text(contact.as_str()), domain, local];
    let item = ITEM_OF.on(c.dialect());
    let found = of_owner(c, item, &values, |row| read_item(row).map(|(_, item)| item))?;
    Ok(found.into_iter().next())
}

pub(crate) fn change(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    contact: JidRef<'_>,
    edit: &mut EditRoster,
) -> Result<Changed, StoreError> {
    let head = head(c, owner)?;
    let item = ROSTER_ITEM.on(c.dialect());
    let found = one(c, item, &[SqlValue::Integer(head.owner), SqlValue::Text(contact.as_str())], read_item)?;
    let (item_version, before) = found.map_or((0, None), |(version, item)| (version, Some(item)));
    let mut failed = None;
    let mut size_of = || match size(c, head.owner) {
        Ok(size) => size,
        Err(error) => {
            failed = Some(error);
            RosterSize { items: usize::MAX, requests: usize::MAX, bytes: usize::MAX }
        }
    };
    let decided = edit(before.as_ref(), &mut size_of);
    if let Some(error) = failed {
        return Err(error);
    }
    let after = match decided {
        Edit::Keep => before.clone(),
        Edit::Put(item) => Some(RosterItem { jid: contact.to_jid(), ..item }),
        Edit::Remove => None,
    };
    let effect = effect(before.as_ref(), after.as_ref());
    let version = if effect.is_seen() { head.version.saturating_add(1) } else { head.version };
    if effect != Effect::None {
        let item_version = if effect == Effect::Put { version } else { item_version };
        write_item(c, &head, contact, before.is_some(), after.as_ref().map(|item| (item_version, item)))?;
        write_head(c, &head, version, before.is_some(), after.is_some())?;
        write_removal(c, &head, contact, version, effect)?;
    }
    Ok(Changed { version, before, after })
}

pub(crate) fn put_many(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    items: &BTreeMap<String, RosterItem>,
) -> Result<(), StoreError> {
    let mut head = head(c, owner)?;
    let (there, removed) = (there(c, &head, items)?, removals(c, owner)?);
    let mut made = Vec::new();
    for item in items.values() {
        let contact = item.jid.as_ref();
        let before = there.get(contact.as_str());
        let after = replacing(before.map(|(_, item)| item), item.clone());
        let effect = effect(before.map(|(_, item)| item), Some(&after));
        if effect == Effect::None {
            continue;
        }
        head.version = head.version.saturating_add(u64::from(effect.is_seen()));
        let unseen = before.map_or(0, |(version, _)| *version);
        let item_version = if effect == Effect::Put { head.version } else { unseen };
        match before {
            Some(_) => write_item(c, &head, contact, true, Some((item_version, &after)))?,
            None => made.push((item_version, after)),
        }
        if effect == Effect::Removed || removed.contains(contact.as_str()) {
            write_removal(c, &head, contact, head.version, effect)?;
        }
    }
    insert_items(c, head.owner, &made)?;
    let items = head.items.saturating_add(made.len() as u64);
    c.execute(
        UPDATE_ROSTER,
        &[SqlValue::number(head.version), SqlValue::number(items), SqlValue::Integer(head.owner)],
    )?;
    Ok(())
}

/// Returns the existing items of these contacts, by address, each with the version of its latest
/// change. Other items aren't read: the import of a large roster comes in many portions.
fn there(
    c: &mut dyn SqlConnection,
    head: &RosterHead,
    contacts: &BTreeMap<String, RosterItem>,
) -> Result<BTreeMap<String, (u64, RosterItem)>, StoreError> {
    let mut there = BTreeMap::new();
    // An import begins with an empty roster.
    if head.items > 0 {
        ROSTER_ITEMS_OF.query(c, head.owner, contacts.keys().map(String::as_str), &mut |row| {
            let (version, item) = read_item(row)?;
            there.insert(item.jid.as_str().to_owned(), (version, item));
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(there)
}

/// Returns the contacts that vanished for clients.
fn removals(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<BTreeSet<String>, StoreError> {
    let [domain, local] = account_values(owner);
    let values = [domain, local, SqlValue::Integer(-1)];
    Ok(all(c, REMOVALS_SINCE, &values, |row| Ok(row.jid(0)?.as_str().to_owned()))?.into_iter().collect())
}

fn insert_items(c: &mut dyn SqlConnection, owner: i64, items: &[(u64, RosterItem)]) -> Result<(), StoreError> {
    let groups: Vec<_> = items.iter().map(|(_, item)| write_groups(&item.groups)).collect();
    let rows = items
        .iter()
        .zip(&groups)
        .map(|((version, item), groups)| item_values(owner, item.jid.as_ref(), (*version, item), groups));
    INSERT_ROSTER_ITEMS.insert(c, &rows.collect::<Vec<_>>())
}

/// The part of a roster in the account's row.
struct RosterHead {
    owner: i64,
    version: u64,
    items: u64,
}

fn head(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<RosterHead, StoreError> {
    let roster = ROSTER.on(c.dialect());
    one(c, roster, &account_values(owner), |row| {
        Ok(RosterHead { owner: row.integer(0)?, version: row.number(1)?, items: row.number(2)? })
    })?
    .ok_or(StoreError::NoAccount)
}

fn write_head(
    c: &mut dyn SqlConnection,
    head: &RosterHead,
    version: u64,
    was: bool,
    is: bool,
) -> Result<(), StoreError> {
    let items = match (was, is) {
        (false, true) => head.items.saturating_add(1),
        (true, false) => head.items.saturating_sub(1),
        _ => head.items,
    };
    c.execute(UPDATE_ROSTER, &[SqlValue::number(version), SqlValue::number(items), SqlValue::Integer(head.owner)])?;
    Ok(())
}

fn write_item(
    c: &mut dyn SqlConnection,
    head: &RosterHead,
    contact: JidRef<'_>,
    exists: bool,
    after: Option<(u64, &RosterItem)>,
) -> Result<(), StoreError> {
    let Some((version, item)) = after else {
        let values = [SqlValue::Integer(head.owner), SqlValue::Text(contact.as_str())];
        c.execute(REMOVE_ROSTER_ITEM.on(c.dialect()), &values)?;
        return Ok(());
    };
    let groups = write_groups(&item.groups);
    let values = item_values(head.owner, contact, (version, item), &groups);
    c.execute(if exists { UPDATE_ROSTER_ITEM.on(c.dialect()) } else { INSERT_ROSTER_ITEM }, &values)?;
    Ok(())
}

/// Returns the values of an item's row, in the order of [`INSERT_ROSTER_ITEM`]. `groups` is a text
/// of [`write_groups`].
fn item_values<'v>(
    owner: i64,
    contact: JidRef<'v>,
    (version, item): (u64, &'v RosterItem),
    groups: &'v str,
) -> [SqlValue<'v>; 10] {
    [
        SqlValue::number(version),
        item.name.as_deref().map_or(SqlValue::Null, SqlValue::Text),
        SqlValue::Text(groups),
        SqlValue::Integer(i64::from(item.subscription.to()) + 2 * i64::from(item.subscription.from())),
        SqlValue::flag(item.ask),
        SqlValue::flag(item.approved),
        SqlValue::flag(item.listed),
        item.pending_in.as_deref().map_or(SqlValue::Null, SqlValue::Bytes),
        SqlValue::Integer(owner),
        SqlValue::Text(contact.as_str()),
    ]
}

fn write_removal(
    c: &mut dyn SqlConnection,
    head: &RosterHead,
    contact: JidRef<'_>,
    version: u64,
    effect: Effect,
) -> Result<(), StoreError> {
    let (owner, contact) = (SqlValue::Integer(head.owner), SqlValue::Text(contact.as_str()));
    match effect {
        Effect::Put => {
            c.execute(FORGET_REMOVAL.on(c.dialect()), &[owner, contact])?;
        }
        Effect::Removed => {
            c.execute(INSERT_REMOVAL, &[owner, contact, SqlValue::number(version)])?;
            let remembered = SqlValue::number(REMEMBERED_REMOVALS as u64);
            if let Some(excess) = one(c, EXCESS_REMOVAL, &[owner, remembered], |row| row.number(0))? {
                c.execute(FORGET_REMOVALS, &[owner, SqlValue::number(excess)])?;
                c.execute(UPDATE_ROSTER_OLDEST, &[SqlValue::number(excess), owner])?;
            }
        }
        Effect::None | Effect::Unseen => {}
    }
    Ok(())
}

fn read_item(row: &dyn Row) -> Result<(u64, RosterItem), StoreError> {
    let groups = row.text(3)?;
    let item = RosterItem {
        jid: row.jid(0)?,
        name: row.optional_text(2)?.map(str::to_owned),
        groups: self::groups(row, groups)?,
        subscription: read_subscription(row, 4)?,
        ask: row.integer(5)? != 0,
        approved: row.integer(6)? != 0,
        listed: row.integer(7)? != 0,
        pending_in: row.optional_bytes(8)?.map(<[u8]>::to_vec),
    };
    Ok((row.number(1)?, item))
}

/// Reads the directions: in bit 0, the owner sees the contact's presence; in bit 1, the contact
/// sees the owner's.
fn read_subscription(row: &dyn Row, column: usize) -> Result<Subscription, StoreError> {
    match row.integer(column)? {
        bits @ 0..=3 => Ok(Subscription::new(bits & 1 != 0, bits & 2 != 0)),
        other => Err(row.corrupt(format!("{other} isn't a subscription"))),
    }
}

/// Writes group names into one text: each as its length in bytes, a colon, and itself. A separate
/// table would double the rows of a roster for data that is only read together with the item.
fn write_groups(groups: &[String]) -> String {
    groups.iter().map(|group| format!("{}:{group}", group.len())).collect()
}

/// Reads the groups of an item.
pub(crate) fn groups(row: &dyn Row, text: &str) -> Result<Vec<String>, StoreError> {
    read_groups(text).ok_or_else(|| row.corrupt(format!("roster groups {text:?}")))
}

fn read_groups(mut text: &str) -> Option<Vec<String>> {
    let mut groups = Vec::new();
    while !text.is_empty() {
        let (length, rest) = text.split_once(':')?;
        let (group, rest) = rest.split_at_checked(length.parse().ok()?)?;
        groups.push(group.to_owned());
        text = rest;
    }
    Some(groups)
}

/// The row has no contact if the account doesn't have the item. Values: contact, domain, localpart.
const ITEM_OF: DialectText = by_digest!(
    "SELECT i.contact, i.version, i.name, i.roster_groups, i.subscription, i.ask, i.approved, i.listed, i.pending_in \
     FROM accounts a LEFT JOIN roster_items i ON i.owner = a.id AND ",
    "i.contact",
    " WHERE a.domain = ? AND a.localpart = ?"
);

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![ITEM_OF]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::archives::KnownArchives;
    use crate::sql::connection::EachRow;
    use crate::sql::copy::copying::Copying;
    use crate::sql::dialect::Dialect;
    use crate::sql::{accounts, sqlite};
    use proptest::prelude::*;
    use rookery_sasl::Credentials;

    /// A connection that counts the rows that it returns.
    struct RowCounting<'c> {
        connection: &'c mut dyn Copying,
        rows: usize,
    }

    impl SqlConnection for RowCounting<'_> {
        fn dialect(&self) -> Dialect {
            self.connection.dialect()
        }

        fn execute(&mut self, sql: &'static str, values: &[SqlValue<'_>]) -> Result<u64, StoreError> {
            self.connection.execute(sql, values)
        }

        fn query(
            &mut self,
            sql: &'static str,
            values: &[SqlValue<'_>],
            each: &mut EachRow<'_>,
        ) -> Result<(), StoreError> {
            let rows = &mut self.rows;
            self.connection.query(sql, values, &mut |row| {
                *rows += 1;
                each(row)
            })
        }

        fn corrupt(&self, what: String) -> StoreError {
            self.connection.corrupt(what)
        }

        fn known_archives(&mut self) -> &mut KnownArchives {
            self.connection.known_archives()
        }
    }

    /// An import of tens of thousands comes in portions: existing items aren't read again for each.
    #[test]
    fn a_portion_of_contacts_reads_none_but_its_own() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut connection = sqlite::destination(&folder.path().join("rookery.db")).expect("a database");
        let owner = Jid::parse("romeo@a.example").expect("an address");
        connection.begin_write(1).expect("a transaction");
        let keys = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("keys");
        accounts::create_many(&mut *connection, &[(owner.clone(), keys)]).expect("an account");
        let mut counting = RowCounting { connection: &mut *connection, rows: 0 };
        let portion = |first: usize| {
            let contacts = (first..first + PORTION).map(|at| format!("contact{at}@b.example"));
            let items = contacts.map(|contact| {
                let item = RosterItem::new(Jid::parse(&contact).expect("an address"));
                (contact, RosterItem { subscription: Subscription::Both, ..item })
            });
            items.collect::<BTreeMap<_, _>>()
        };
        for first in (0..20 * PORTION).step_by(PORTION) {
            put_many(&mut counting, owner.as_ref(), &portion(first)).expect("contacts");
        }
        assert!(counting.rows <= 20 * 2, "{} rows were read for contacts that weren't there", counting.rows);
        counting.rows = 0;
        put_many(&mut counting, owner.as_ref(), &portion(0)).expect("contacts");
        assert!(counting.rows <= PORTION + 2, "{} rows were read for those of a portion", counting.rows);
    }

    /// A roster of tens of thousands isn't read for each portion, even if the statistics of the
    /// table are missing or wrong.
    #[cfg(feature = "postgres")]
    #[test]
    fn postgres_finds_contacts_by_their_keys() {
        use crate::sql::listed::ListOfTexts;
        use crate::sql::postgres;
        if rookery_needs::skips("store.postgres") {
            return;
        }
        let cluster = rookery_needs::Postgres::start();
        let address = cluster.database();
        let options = postgres::PostgresOptions::at(postgres::PostgresAddress::parse(&address).expect("an address"));
        drop(
            postgres::destination(&postgres::PostgresOptions { trusts_durability: true, ..options })
                .expect("a database"),
        );
        let fill = "INSERT INTO accounts (domain, localpart, roster_version, roster_oldest, roster_items, offline_messages) \
                VALUES ('a.example', 'romeo', 1, 1, 9000, 0); \
             INSERT INTO roster_items (owner, contact, version, roster_groups, subscription, ask, approved, listed) \
                SELECT id, number || '@b.example', 1, '', 3, 0, 0, 1 FROM accounts, generate_series(1, 9000) number";
        cluster.psql(&address, fill).expect("a roster");
        let texts = ROSTER_ITEMS_OF.texts(Dialect::Postgres);
        for analyze in ["SELECT 1", "ANALYZE"] {
            cluster.psql(&address, analyze).expect(analyze);
            for mode in ["force_custom_plan", "force_generic_plan"] {
                let plan = cluster.psql(
                    &address,
                    &format!(
                        "SET plan_cache_mode = {mode}; SET enable_seqscan = off; SET enable_bitmapscan = off; \
                         PREPARE asked AS {}; EXPLAIN EXECUTE asked(1, '{}')",
                        texts.concat(),
                        "x".repeat(6400)
                    ),
                );
                let plan = plan.expect("a plan");
                let is_by_key = plan.contains("Index Cond: ((owner = ") && plan.contains("(contact_digest = substr(");
                assert!(is_by_key && !plan.contains("Filter"), "{mode} after {analyze}: {plan}");
            }
        }
    }

    const PORTION: usize = 50;

    #[test]
    fn groups_that_nobody_wrote_are_refused() {
        for text in ["x", "1:", "2:é3", "1:é", "-1:a", ":a"] {
            assert_eq!(read_groups(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn groups_read_as_written(groups: Vec<String>) {
            prop_assert_eq!(read_groups(&write_groups(&groups)), Some(groups));
        }
    }
}
