//! The operations of [`Documents`](crate::Documents).

use super::connection::{Row, SqlConnection, SqlValue, account_values, all, one};
use super::dialect::{DialectText, by_digest};
use super::ids;
use super::many::{Among, by_domain};
use crate::{DocumentRoom, DocumentsPut, StoreError, StoredDocument};
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

pub(crate) fn get(c: &mut dyn SqlConnection, owner: JidRef<'_>, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let [domain, local] = account_values(owner);
    let document = DOCUMENT.on(c.dialect());
    one(c, document, &[domain, local, SqlValue::Text(name)], |row| Ok(row.bytes(0)?.to_vec()))
}

pub(crate) fn put(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    name: &str,
    bytes: Option<&[u8]>,
) -> Result<(), StoreError> {
    let ([domain, local], dialect) = (account_values(owner), c.dialect());
    let done = match bytes {
        None => c.execute(REMOVE_DOCUMENT.on(dialect), &[domain, local, SqlValue::Text(name)])?,
        Some(bytes) => {
            let (bytes, name) = (SqlValue::Bytes(bytes), SqlValue::Text(name));
            match c.execute(UPDATE_DOCUMENT_OF.on(dialect), &[bytes, name, domain, local])? {
                0 => c.execute(INSERT_DOCUMENT_OF, &[bytes, name, domain, local])?,
                done => done,
            }
        }
    };
    if done == 0 && ids::of_account(c, owner)?.is_none() {
        return Err(StoreError::NoAccount);
    }
    Ok(())
}

pub(crate) fn put_within(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    prefix: &str,
    documents: &[StoredDocument],
    room: DocumentRoom,
) -> Result<DocumentsPut, StoreError> {
    let owner = ids::of_locked(c, owner)?.ok_or(StoreError::NoAccount)?;
    let read = |row: &dyn Row| Ok((row.text(0)?.to_owned(), row.number(1)?));
    let (id, first) = (SqlValue::Integer(owner), SqlValue::Text(prefix));
    let known = match behind(prefix) {
        Some(end) => all(c, SIZES_UP_TO, &[id, first, SqlValue::Text(&end)], read)?,
        None => all(c, SIZES, &[id, first], read)?,
    };
    let mut sizes: BTreeMap<String, u64> = known.into_iter().collect();
    let before: u64 = sizes.iter().map(|(name, bytes)| name.len() as u64 + bytes).sum();
    let new = documents.iter().map(|document| (document.name.clone(), document.bytes.len() as u64));
    let number = sizes.len();
    sizes.extend(new);
    let after: u64 = sizes.iter().map(|(name, bytes)| name.len() as u64 + bytes).sum();
    if sizes.len() > room.number.max(number) {
        return Ok(DocumentsPut::TooMany);
    }
    if after > room.bytes.max(before) {
        return Ok(DocumentsPut::TooLarge);
    }
    for StoredDocument { name, bytes } in documents {
        write(c, owner, name, bytes)?;
    }
    Ok(DocumentsPut::Done)
}

fn write(c: &mut dyn SqlConnection, owner: i64, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let values = [SqlValue::Bytes(bytes), SqlValue::Integer(owner), SqlValue::Text(name)];
    let update = UPDATE_DOCUMENT.on(c.dialect());
    if c.execute(update, &values)? == 0 {
        c.execute(INSERT_DOCUMENT, &values)?;
    }
    Ok(())
}

pub(crate) fn starting(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    prefix: &str,
) -> Result<Vec<StoredDocument>, StoreError> {
    let read = |row: &dyn Row| Ok(StoredDocument { name: row.text(0)?.to_owned(), bytes: row.bytes(1)?.to_vec() });
    let ([domain, local], first) = (account_values(owner), SqlValue::Text(prefix));
    match behind(prefix) {
        Some(end) => all(c, DOCUMENTS_UP_TO, &[domain, local, first, SqlValue::Text(&end)], read),
        None => all(c, DOCUMENTS, &[domain, local, first], read),
    }
}

pub(crate) fn of(c: &mut dyn SqlConnection, owners: &[Jid], name: &str) -> Result<Vec<(Jid, Vec<u8>)>, StoreError> {
    let mut found = BTreeMap::new();
    for (domain, locals) in by_domain(owners) {
        DOCUMENTS_OF.query(c, (&[SqlValue::Text(name), SqlValue::Text(domain)], &locals, &[]), &mut |row| {
            found.insert((domain, row.text(0)?.to_owned()), row.bytes(1)?.to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let of = |owner: &Jid| found.get(&(owner.domain(), owner.local().unwrap_or_default().to_owned())).cloned();
    Ok(owners.iter().filter_map(|owner| Some((owner.clone(), of(owner)?))).collect())
}

/// Returns the smallest text after all texts with a prefix; `None` if there is none.
fn behind(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// The key of an account's row. Values: domain, localpart.
macro_rules! owner {
    () => {
        "(SELECT id FROM accounts WHERE domain = ? AND localpart = ?)"
    };
}

/// Values: domain, localpart, name.
const DOCUMENT: DialectText =
    by_digest!(concat!("SELECT bytes FROM documents WHERE owner = ", owner!(), " AND "), "name", "");

/// Values: name, domain, localparts.
static DOCUMENTS_OF: Among = Among::differing(
    by_digest!(
        "SELECT a.localpart, d.bytes FROM accounts a JOIN documents d ON d.owner = a.id AND ",
        "name",
        " WHERE a.domain = ? AND a.localpart IN "
    ),
    "",
);

/// Values: domain, localpart, first name.
const DOCUMENTS: &str =
    concat!("SELECT name, bytes FROM documents WHERE owner = ", owner!(), " AND name >= ? ORDER BY name");

/// Values: domain, localpart, first name, name after the last.
const DOCUMENTS_UP_TO: &str =
    concat!("SELECT name, bytes FROM documents WHERE owner = ", owner!(), " AND name >= ? AND name < ? ORDER BY name");

/// Values: bytes, name, domain, localpart.
const UPDATE_DOCUMENT_OF: DialectText =
    by_digest!("UPDATE documents SET bytes = ? WHERE ", "name", concat!(" AND owner = ", owner!()));

/// Values: bytes, name, domain, localpart.
const INSERT_DOCUMENT_OF: &str = "\
    INSERT INTO documents (bytes, name, owner) SELECT ?, ?, id FROM accounts WHERE domain = ? AND localpart = ?";

/// Values: owner, first name.
const SIZES: &str = "SELECT name, LENGTH(bytes) FROM documents WHERE owner = ? AND name >= ?";

/// Values: owner, first name, name after the last.
const SIZES_UP_TO: &str = "SELECT name, LENGTH(bytes) FROM documents WHERE owner = ? AND name >= ? AND name < ?";

/// Values: bytes, owner, name.
const UPDATE_DOCUMENT: DialectText = by_digest!("UPDATE documents SET bytes = ? WHERE owner = ? AND ", "name", "");

/// Values: bytes, owner, name.
const INSERT_DOCUMENT: &str = "INSERT INTO documents (bytes, owner, name) SELECT ?, ?, ?";

/// Values: domain, localpart, name.
const REMOVE_DOCUMENT: DialectText =
    by_digest!(concat!("DELETE FROM documents WHERE owner = ", owner!(), " AND "), "name", "");

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        DOCUMENT,
        DOCUMENTS_OF,
        DOCUMENTS,
        DOCUMENTS_UP_TO,
        UPDATE_DOCUMENT_OF,
        INSERT_DOCUMENT_OF,
        SIZES,
        SIZES_UP_TO,
        UPDATE_DOCUMENT,
        INSERT_DOCUMENT,
        REMOVE_DOCUMENT
    ]
}
