//! Pages of archives, by key or by the stretches of a conversation.

use super::owners::archive;
use super::search;
use crate::archive::GatheredPage;
use crate::sql::archives::{contact_key, stretch};
use crate::sql::connection::{EachRow, SqlConnection, SqlValue, all, one};
use crate::sql::many::Among;
use crate::{ArchivePage, ArchiveQuery, StoreError};
use rookery_jid::JidRef;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

pub(crate) fn page(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    query: &ArchiveQuery,
) -> Result<Option<ArchivePage>, StoreError> {
    let Some(archive) = archive(c, owner)? else {
        let is_known = query.known.is_empty() && query.ids.as_ref().is_none_or(Vec::is_empty);
        return Ok(is_known.then(|| ArchivePage { count: (query.count_to > 0).then_some(0), ..ArchivePage::default() }));
    };
    if !has_all(c, archive, &query.known)? {
        return Ok(None);
    }
    match &query.ids {
        Some(ids) => by_ids(c, archive, ids, query),
        None => Ok(Some(PageScan::new(archive, query).page(c)?)),
    }
}

pub(crate) fn ends(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<Option<(u64, u64)>, StoreError> {
    let Some(archive) = archive(c, owner)? else { return Ok(None) };
    let archive = [SqlValue::Integer(archive)];
    let oldest = one(c, OLDEST, &archive, |row| row.number(0))?;
    let newest = one(c, NEWEST, &archive, |row| row.number(0))?;
    Ok(oldest.zip(newest))
}

fn by_ids(
    c: &mut dyn SqlConnection,
    archive: i64,
    ids: &[u64],
    query: &ArchiveQuery,
) -> Result<Option<ArchivePage>, StoreError> {
    if !has_all(c, archive, ids)? {
        return Ok(None);
    }
    let (mut page, wanted) = (GatheredPage::new(query), query.ids_in_order(ids));
    'page: for ids in wanted.chunks(STANZAS_AT_ONCE) {
        let values: Vec<_> = ids.iter().copied().map(SqlValue::number).collect();
        let mut stanzas = HashMap::new();
        STANZAS.query(c, (&[SqlValue::Integer(archive)], &values, &[]), &mut |row| {
            stanzas.insert(row.number(0)?, row.bytes(1)?.to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
        for id in ids {
            if !page.take(*id, stanzas.get(id).map(Vec::as_slice).unwrap_or_default()) {
                break 'page;
            }
        }
    }
    Ok(Some(page.page()))
}

/// Returns whether an archive has messages with all of these ids.
fn has_all(c: &mut dyn SqlConnection, archive: i64, ids: &[u64]) -> Result<bool, StoreError> {
    let (values, mut found): (Vec<_>, _) = (ids.iter().copied().map(SqlValue::number).collect(), HashSet::new());
    HAS.query(c, (&[SqlValue::Integer(archive)], &values, &[]), &mut |row| {
        found.insert(row.number(0)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(ids.iter().all(|id| found.contains(id)))
}

/// The selection of an archive's messages.
struct PageScan<'q> {
    id: i64,
    archive: SqlValue<'q>,
    query: &'q ArchiveQuery,
    /// The bounds between which ids lie.
    after: SqlValue<'q>,
    before: SqlValue<'q>,
}

impl<'q> PageScan<'q> {
    fn new(archive: i64, query: &'q ArchiveQuery) -> Self {
        let (after, before) = (SqlValue::number(query.after), SqlValue::number(before_id(query)));
        Self { id: archive, archive: SqlValue::Integer(archive), query, after, before }
    }

    fn page(&self, c: &mut dyn SqlConnection) -> Result<ArchivePage, StoreError> {
        let query = self.query;
        if let Some(found) = search::page(c, self.id, query, [self.after, self.before])? {
            return Ok(found);
        }
        let mut page = GatheredPage::new(query);
        // One more message shows whether there are more.
        let limit = query.limit.saturating_add(1) as u64;
        self.each(c, if query.last { &BACKWARD } else { &FORWARD }, limit, &mut |row| {
            let is_taken = page.take(row.number(0)?, row.bytes(1)?);
            Ok(if is_taken { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        let mut page = page.page();
        if query.count_to > 0 && self.is_countable(c)? {
            page.count = Some(self.count(c)?).filter(|count| *count <= query.count_to);
        }
        Ok(page)
    }

    /// Counts the result, up to one more than requested.
    fn count(&self, c: &mut dyn SqlConnection) -> Result<usize, StoreError> {
        let (mut count, limit) = (0, self.query.count_to.saturating_add(1) as u64);
        let read: &mut EachRow<'_> = &mut |row| {
            count = row.integer(0)?.try_into().unwrap_or(usize::MAX);
            Ok(ControlFlow::Break(()))
        };
        match &self.query.with {
            Some(with) if with.resource().is_none() && !c.dialect().notes_stretches() => {
                let key = SqlValue::Integer(contact_key(with.bare_str()));
                c.query(COUNT_BY_KEY, &[self.archive, key, self.after, self.before, SqlValue::number(limit)], read)?;
            }
            _ => self.each(c, &COUNT, limit, read)?,
        }
        Ok(count)
    }

    /// Returns true if counting the result is cheap. A conversation is found in all of its
    /// stretches, of which there may be thousands; an index counts it without reading its messages,
    /// except for those with a certain resource.
    fn is_countable(&self, c: &mut dyn SqlConnection) -> Result<bool, StoreError> {
        let Some(with) = &self.query.with else { return Ok(true) };
        let (key, limit) = (SqlValue::Integer(contact_key(with.bare_str())), SqlValue::number(MOST_COUNTED + 1));
        let found = if c.dialect().notes_stretches() {
            let (first, last) = self.stretches();
            all(c, NOTES, &[self.archive, key, first, last, limit], |_| Ok(()))?
        } else if with.resource().is_some() {
            all(c, SOME, &[self.archive, key, self.after, self.before, limit], |_| Ok(()))?
        } else {
            Vec::new()
        };
        Ok(found.len() as u64 <= MOST_COUNTED)
    }

    /// Returns the first and the last stretch of the result.
    fn stretches(&self) -> (SqlValue<'static>, SqlValue<'static>) {
        (SqlValue::number(stretch(self.query.after)), SqlValue::number(stretch(before_id(self.query))))
    }

    /// Passes the rows to `each`, with the statement for all contacts, for a bare JID or for a full
    /// one.
    fn each(
        &self,
        c: &mut dyn SqlConnection,
        statements: &PageStatements,
        limit: u64,
        each: &mut EachRow<'_>,
    ) -> Result<(), StoreError> {
        let (archive, after, before, limit) = (self.archive, self.after, self.before, SqlValue::number(limit));
        let Some(with) = &self.query.with else {
            return c.query(statements.everybody, &[archive, after, before, limit], each);
        };
        let (key, contact) = (SqlValue::Integer(contact_key(with.bare_str())), SqlValue::Text(with.bare_str()));
        let (first, last) = self.stretches();
        let resource = with.resource().map(SqlValue::Text);
        let (bare, full) = if c.dialect().notes_stretches() { statements.by_stretch } else { statements.by_index };
        let stretches = [first, last];
        let stretches: &[_] = if c.dialect().notes_stretches() { &stretches } else { &[] };
        let values = [&[archive, key], stretches, &[after, before, contact], resource.as_slice(), &[limit]].concat();
        c.query(if resource.is_some() { full } else { bare }, &values, each)
    }
}

/// Returns the upper bound of the ids, beyond all of them if there is none.
fn before_id(query: &ArchiveQuery) -> u64 {
    if query.before == 0 { u64::MAX } else { query.before }
}

/// The most stretches of a conversation in which its messages are counted, and the most of its
/// messages that are examined for a resource.
const MOST_COUNTED: u64 = 100;

/// Values: archive, ids.
static HAS: Among = Among::new("SELECT id FROM archive_messages WHERE owner = ? AND id IN ", "");

/// Values: archive, ids.
static STANZAS: Among = Among::new("SELECT id, stanza FROM archive_messages WHERE owner = ? AND id IN ", "");

/// The number of stanzas that are loaded at once by their ids.
const STANZAS_AT_ONCE: usize = 64;

/// Values: archive.
pub(super) const OLDEST: &str = "SELECT id FROM archive_messages WHERE owner = ? ORDER BY id LIMIT 1";

/// Values: archive.
const NEWEST: &str = "SELECT id FROM archive_messages WHERE owner = ? ORDER BY id DESC LIMIT 1";

/// Values: archive, contact's key, first stretch, last stretch, limit.
const NOTES: &str = "\
    SELECT 1 FROM archive_conversations WHERE owner = ? AND contact_key = ? AND stretch >= ? AND stretch <= ? LIMIT ?";

/// Values: archive, contact's key, after, before, limit.
const SOME: &str = "SELECT 1 FROM archive_messages WHERE owner = ? AND contact_key = ? AND id > ? AND id < ? LIMIT ?";

/// The messages of a conversation, stretch by stretch. A stretch is bounded by its own last id and
/// not by the next one's first, which may be beyond all numbers.
macro_rules! conversation {
    () => {
        " FROM archive_conversations AS c CROSS JOIN archive_messages AS m \
         WHERE c.owner = ? AND c.contact_key = ? AND c.stretch >= ? AND c.stretch <= ? \
         AND m.owner = c.owner AND m.id >= max(c.stretch << 43, ? + 1) AND m.id <= min((c.stretch << 43) + 8796093022207, ? - 1) \
         AND m.contact_key = c.contact_key AND m.contact = ? "
    };
}

/// The messages of a conversation by an index that has all of them in their order.
macro_rules! indexed {
    () => {
        " FROM archive_messages WHERE owner = ? AND contact_key = ? AND id > ? AND id < ? AND contact = ? "
    };
}

/// The statements of a query.
struct PageStatements {
    /// Values: archive, after, before, limit.
    everybody: &'static str,
    /// For a bare JID: archive, contact's key, first stretch, last stretch, after, before, contact,
    /// limit. For a full one: a resource in front of the limit.
    by_stretch: (&'static str, &'static str),
    /// Values: the same without stretches.
    by_index: (&'static str, &'static str),
}

const FORWARD: PageStatements = PageStatements {
    everybody: "SELECT id, stanza FROM archive_messages WHERE owner = ? AND id > ? AND id < ? ORDER BY id LIMIT ?",
    by_stretch: (
        concat!("SELECT m.id, m.stanza", conversation!(), "ORDER BY c.stretch, m.id LIMIT ?"),
        concat!("SELECT m.id, m.stanza", conversation!(), "AND m.resource = ? ORDER BY c.stretch, m.id LIMIT ?"),
    ),
    by_index: (
        concat!("SELECT id, stanza", indexed!(), "ORDER BY id LIMIT ?"),
        concat!("SELECT id, stanza", indexed!(), "AND resource = ? ORDER BY id LIMIT ?"),
    ),
};

const BACKWARD: PageStatements = PageStatements {
    everybody: "SELECT id, stanza FROM archive_messages WHERE owner = ? AND id > ? AND id < ? ORDER BY id DESC LIMIT ?",
    by_stretch: (
        concat!("SELECT m.id, m.stanza", conversation!(), "ORDER BY c.stretch DESC, m.id DESC LIMIT ?"),
        concat!(
            "SELECT m.id, m.stanza",
            conversation!(),
            "AND m.resource = ? ORDER BY c.stretch DESC, m.id DESC LIMIT ?"
        ),
    ),
    by_index: (
        concat!("SELECT id, stanza", indexed!(), "ORDER BY id DESC LIMIT ?"),
        concat!("SELECT id, stanza", indexed!(), "AND resource = ? ORDER BY id DESC LIMIT ?"),
    ),
};

/// Returns the statement that counts the rows of another one. The database counts, since sending a
/// thousand rows would cost more than the page.
macro_rules! counted {
    ($($rows:expr),+) => {
        concat!("SELECT COUNT(*) FROM (", $($rows),+, " LIMIT ?) AS counted")
    };
}

/// The statements that count.
const COUNT: PageStatements = PageStatements {
    everybody: counted!("SELECT id FROM archive_messages WHERE owner = ? AND id > ? AND id < ?"),
    by_stretch: (
        counted!("SELECT m.id", conversation!()),
        counted!("SELECT m.id", conversation!(), "AND m.resource = ?"),
    ),
    by_index: (counted!("SELECT id", indexed!()), counted!("SELECT id", indexed!(), "AND resource = ?")),
};

/// Counts a conversation by its entries in the index, since reading ten thousand messages takes
/// MariaDB 0.2 s. Contacts whose addresses have the same key are counted as well, one pair in two
/// thousand million by chance; a count may be approximate (XEP-0059 §2.2). Values: archive,
/// contact's key, after, before, limit.
const COUNT_BY_KEY: &str =
    counted!("SELECT id FROM archive_messages WHERE owner = ? AND contact_key = ? AND id > ? AND id < ?");

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![HAS, STANZAS, OLDEST, NEWEST, NOTES, SOME, FORWARD, BACKWARD, COUNT, COUNT_BY_KEY]
}

#[cfg(test)]
impl crate::sql::listed::ListOfTexts for PageStatements {
    fn texts(&self, dialect: crate::sql::dialect::Dialect) -> Vec<String> {
        let (bare, full) = if dialect.notes_stretches() { self.by_stretch } else { self.by_index };
        [self.everybody, bare, full].map(str::to_owned).into()
    }
}
