//! The operations of [`Documents`](crate::Documents).

use super::accounts;
use super::connection::{Connection, Row, Value, account_values, all, one};
use crate::{Document, DocumentRoom, DocumentsPut, StoreError};
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;

pub(crate) fn get(c: &mut dyn Connection, owner: JidRef<'_>, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(owner) = accounts::id(c, owner)? else { return Ok(None) };
    one(c, DOCUMENT, &[Value::Integer(owner), Value::Text(name)], |row| Ok(row.bytes(0)?.to_vec()))
}

pub(crate) fn put(
    c: &mut dyn Connection,
    owner: JidRef<'_>,
    name: &str,
    bytes: Option<&[u8]>,
) -> Result<(), StoreError> {
    let owner = accounts::id(c, owner)?.ok_or(StoreError::NoAccount)?;
    match bytes {
        None => drop(c.execute(REMOVE_DOCUMENT, &[Value::Integer(owner), Value::Text(name)])?),
        Some(bytes) => write(c, owner, name, bytes)?,
    }
    Ok(())
}

pub(crate) fn put_within(
    c: &mut dyn Connection,
    owner: JidRef<'_>,
    prefix: &str,
    documents: &[Document],
    room: DocumentRoom,
) -> Result<DocumentsPut, StoreError> {
    let owner = accounts::id(c, owner)?.ok_or(StoreError::NoAccount)?;
    let read = |row: &dyn Row| Ok((row.text(0)?.to_owned(), row.number(1)?));
    let (id, first) = (Value::Integer(owner), Value::Text(prefix));
    let known = match behind(prefix) {
        Some(end) => all(c, SIZES_UP_TO, &[id, first, Value::Text(&end)], read)?,
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
    for Document { name, bytes } in documents {
        write(c, owner, name, bytes)?;
    }
    Ok(DocumentsPut::Done)
}

fn write(c: &mut dyn Connection, owner: i64, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let values = [Value::Bytes(bytes), Value::Integer(owner), Value::Text(name)];
    if c.execute(UPDATE_DOCUMENT, &values)? == 0 {
        c.execute(INSERT_DOCUMENT, &values)?;
    }
    Ok(())
}

pub(crate) fn starting(c: &mut dyn Connection, owner: JidRef<'_>, prefix: &str) -> Result<Vec<Document>, StoreError> {
    let Some(owner) = accounts::id(c, owner)? else { return Ok(Vec::new()) };
    let read = |row: &dyn Row| Ok(Document { name: row.text(0)?.to_owned(), bytes: row.bytes(1)?.to_vec() });
    let (owner, first) = (Value::Integer(owner), Value::Text(prefix));
    match behind(prefix) {
        Some(end) => all(c, DOCUMENTS_UP_TO, &[owner, first, Value::Text(&end)], read),
        None => all(c, DOCUMENTS, &[owner, first], read),
    }
}

pub(crate) fn of(c: &mut dyn Connection, owners: &[Jid], name: &str) -> Result<Vec<(Jid, Vec<u8>)>, StoreError> {
    let mut found = Vec::new();
    for owner in owners {
        let [domain, local] = account_values(owner.bare());
        let read = |row: &dyn Row| Ok((owner.clone(), row.bytes(0)?.to_vec()));
        found.extend(one(c, DOCUMENT_OF, &[domain, local, Value::Text(name)], read)?);
    }
    Ok(found)
}

/// The least text behind all that begin with a prefix; `None` if there is none.
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

/// Values: owner, name.
const DOCUMENT: &str = "SELECT bytes FROM documents WHERE owner = ? AND name = ?";

/// Values: domain, localpart, name.
const DOCUMENT_OF: &str = "\
    SELECT d.bytes FROM accounts a, documents d \
    WHERE a.domain = ? AND a.localpart = ? AND d.owner = a.id AND d.name = ?";

/// Values: owner, first name.
const DOCUMENTS: &str = "SELECT name, bytes FROM documents WHERE owner = ? AND name >= ? ORDER BY name";

/// Values: owner, first name, name behind the last.
const DOCUMENTS_UP_TO: &str =
    "SELECT name, bytes FROM documents WHERE owner = ? AND name >= ? AND name < ? ORDER BY name";

/// Values: owner, first name.
const SIZES: &str = "SELECT name, LENGTH(bytes) FROM documents WHERE owner = ? AND name >= ?";

/// Values: owner, first name, name behind the last.
const SIZES_UP_TO: &str = "SELECT name, LENGTH(bytes) FROM documents WHERE owner = ? AND name >= ? AND name < ?";

/// Values: bytes, owner, name.
const UPDATE_DOCUMENT: &str = "UPDATE documents SET bytes = ? WHERE owner = ? AND name = ?";

/// Values: bytes, owner, name.
const INSERT_DOCUMENT: &str = "INSERT INTO documents (bytes, owner, name) SELECT ?, ?, ?";

/// Values: owner, name.
const REMOVE_DOCUMENT: &str = "DELETE FROM documents WHERE owner = ? AND name = ?";
