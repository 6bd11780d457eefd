//! The operations of [`Archive`](crate::Archive).
//!
//! Pages are found by key and never by counting rows: whatever place in an archive they have, they cost the same. Messages don't refer to
//! their archive by a constraint: to remove an archive with a million of them would take seconds. Its row loses its name, so that the messages can't be
//! found any more, and goes when all of them have been removed, a few at a time.
//!
//! A message is one entry of one index, since it is places in indexes that cost: each is a page in the log. So there is none by contacts. The
//! entry holds the contact's address as a number, and for each conversation the stretches of ids, an hour or so, in which it has messages are noted.
//! Whoever asks for a conversation looks through its stretches and finds its messages there by that number, without reading the others.

use super::archives::Place;
use super::connection::{Connection, EachRow, Value, account_values, all, one};
use super::sizes::{self, Removed, Sizes};
use crate::archive::{ARCHIVES_PER_SWEEP, BYTES_PER_MESSAGE, Gathered};
use crate::{ArchiveOf, ArchivePage, ArchiveQuery, ArchivedMessage, Expiry, StoreError, Swept};
use rookery_jid::JidRef;
use std::ops::ControlFlow;
use std::sync::LazyLock;

pub(crate) fn append(c: &mut dyn Connection, messages: &[ArchivedMessage]) -> Result<(), StoreError> {
    let (mut rows, mut doubtful, mut sizes) = (Vec::with_capacity(messages.len()), Vec::new(), Sizes::default());
    for message in messages {
        if message.contacts_only && !is_contact(c, message)? {
            continue;
        }
        let Some(Place { archive, is_newest }) = place(c, message)? else { continue };
        note_conversation(c, archive, message, is_newest)?;
        if is_newest {
            sizes.count(c, message);
            rows.push((archive, message));
        } else {
            doubtful.push((archive, message));
        }
    }
    // Neighbours in the keys are written one after the other.
    rows.sort_by_key(|(archive, message)| (*archive, message.id));
    let (many, rest) = rows.as_chunks::<MANY>();
    for rows in many {
        append_together(c, &APPEND_MANY, rows)?;
    }
    let (some, rest) = rest.as_chunks::<SOME>();
    for rows in some {
        append_together(c, &APPEND_SOME, rows)?;
    }
    for row in rest {
        append_one(c, *row)?;
    }
    for row in doubtful {
        if append_one(c, row)? {
            sizes.count_older(c, row)?;
        }
    }
    sizes.settle(c)
}

pub(crate) fn page(
    c: &mut dyn Connection,
    owner: JidRef<'_>,
    query: &ArchiveQuery,
) -> Result<Option<ArchivePage>, StoreError> {
    let Some(archive) = archive(c, owner)? else {
        let is_known = query.known.is_empty() && query.ids.as_ref().is_none_or(Vec::is_empty);
        return Ok(is_known.then(|| ArchivePage { count: (query.count_to > 0).then_some(0), ..ArchivePage::default() }));
    };
    for &id in &query.known {
        if one(c, HAS, &[Value::Integer(archive), Value::number(id)], |_| Ok(()))?.is_none() {
            return Ok(None);
        }
    }
    match &query.ids {
        Some(ids) => by_ids(c, archive, ids, query),
        None => Ok(Some(Scan::new(archive, query).page(c)?)),
    }
}

pub(crate) fn replace(c: &mut dyn Connection, owner: JidRef<'_>, id: u64, stanza: &[u8]) -> Result<bool, StoreError> {
    let Some(archive) = archive(c, owner)? else { return Ok(false) };
    let values = [Value::Integer(archive), Value::number(id)];
    let Some(row) = one(c, ROW, &values, Removed::read)? else { return Ok(false) };
    sizes::uncount(c, archive, &[row])?;
    c.execute(REPLACE, &[Value::Bytes(stanza), Value::Integer(archive), Value::number(id)])?;
    let size = stanza.len() as u64 + BYTES_PER_MESSAGE;
    sizes::count_if_old(c, archive, id, row.contact_key, size)?;
    Ok(true)
}

pub(crate) fn ends(c: &mut dyn Connection, owner: JidRef<'_>) -> Result<Option<(u64, u64)>, StoreError> {
    let Some(archive) = archive(c, owner)? else { return Ok(None) };
    let archive = [Value::Integer(archive)];
    let oldest = one(c, OLDEST, &archive, |row| row.number(0))?;
    let newest = one(c, NEWEST, &archive, |row| row.number(0))?;
    Ok(oldest.zip(newest))
}

/// Lets go of an owner's archive: nobody finds it any more, whoever has the name next begins another one, and its messages are for [`clear`].
pub(crate) fn purge(c: &mut dyn Connection, owner: JidRef<'_>) -> Result<(), StoreError> {
    c.known_archives().forget(owner);
    let Some(archive) = archive(c, owner)? else { return Ok(()) };
    // Names are told apart by the number.
    let name = archive.to_string();
    c.execute(LET_GO, &[Value::Text(&name), Value::Integer(archive)]).map(drop)
}

pub(crate) fn clear(c: &mut dyn Connection, limit: u64) -> Result<bool, StoreError> {
    let Some(archive) = one(c, NEXT_GONE, &[], |row| row.number(0))? else { return Ok(false) };
    if remove_below(c, archive, u64::MAX, limit)? < limit {
        c.execute(REMOVE_NOTES, &[Value::number(archive), Value::number(u64::MAX)])?;
        c.execute(REMOVE_SHARES, &[Value::number(archive)])?;
        c.execute(REMOVE_ARCHIVE, &[Value::number(archive)])?;
    }
    Ok(true)
}

pub(crate) fn sweep(c: &mut dyn Connection, after: u64, expiry: &[Expiry], limit: usize) -> Result<Swept, StoreError> {
    let (mut at, mut removed) = (after, 0);
    for _ in 0..ARCHIVES_PER_SWEEP {
        let Some(archive) = one(c, NEXT_OWNER, &[Value::number(at)], |row| row.number(0))? else {
            return Ok(Swept { removed, next: None });
        };
        let domain = one(c, DOMAIN, &[Value::number(archive)], |row| row.text(0).map(str::to_owned))?;
        let before = match domain {
            Some(domain) if domain.is_empty() => u64::MAX,
            Some(domain) => expiry.iter().find(|expiry| expiry.domain == domain).map_or(0, |expiry| expiry.before),
            None => u64::MAX,
        };
        removed += remove_below(c, archive, before, (limit as u64).saturating_sub(removed))?;
        if removed >= limit as u64 {
            // There may be more in this archive.
            return Ok(Swept { removed, next: Some(at) });
        }
        at = archive;
    }
    Ok(Swept { removed, next: Some(at) })
}

/// Removes the oldest messages below an id, and the notes of stretches that have none any more; how many messages.
fn remove_below(c: &mut dyn Connection, archive: u64, before: u64, limit: u64) -> Result<u64, StoreError> {
    if before == 0 || limit == 0 {
        return Ok(0);
    }
    let values = [Value::number(archive), Value::number(before), Value::number(limit)];
    let expired = all(c, EXPIRED, &values, Removed::read)?;
    let Some((first, last)) = expired.first().zip(expired.last()).map(|(first, last)| (first.id, last.id)) else {
        return Ok(0);
    };
    let removed = c.execute(REMOVE_UP_TO, &[Value::number(archive), Value::number(last)])?;
    sizes::uncount(c, i64::try_from(archive).unwrap_or_default(), &expired)?;
    let rest = one(c, OLDEST, &[Value::number(archive)], |row| row.number(0))?.map_or(u64::MAX, stretch);
    if stretch(first) < rest {
        c.execute(REMOVE_NOTES, &[Value::number(archive), Value::number(rest)])?;
        c.known_archives().forget_conversations();
    }
    Ok(removed)
}

/// Notes that an archive has messages of a conversation in the stretch of this one. What is known of older stretches may have been removed.
fn note_conversation(
    c: &mut dyn Connection,
    archive: i64,
    message: &ArchivedMessage,
    is_newest: bool,
) -> Result<(), StoreError> {
    let (key, stretch) = (contact_key(message.with.bare_str()), stretch(message.id));
    if c.known_archives().learn_conversation((archive, key, stretch)) || !is_newest {
        c.execute(NOTE, &[Value::Integer(archive), Value::Integer(key), Value::number(stretch)])?;
    }
    Ok(())
}

/// Writes messages that aren't there yet.
fn append_together(
    c: &mut dyn Connection,
    statement: &'static str,
    rows: &[(i64, &ArchivedMessage)],
) -> Result<(), StoreError> {
    let values: Vec<_> = rows.iter().flat_map(|(archive, message)| row_values(*archive, message)).collect();
    c.execute(statement, &values).map(drop)
}

/// Writes a message if it isn't there yet. Returns whether it was written.
fn append_one(c: &mut dyn Connection, (archive, message): (i64, &ArchivedMessage)) -> Result<bool, StoreError> {
    let [archive, id, key, contact, resource, stanza] = row_values(archive, message);
    Ok(c.execute(APPEND, &[archive, id, key, contact, resource, stanza, archive, id])? > 0)
}

/// A statement for so many rows. Values: archive, id, contact's key, contact, resource and stanza of each.
fn append_rows(rows: usize) -> String {
    let values = vec!["(?, ?, ?, ?, ?, ?)"; rows].join(", ");
    format!("INSERT INTO archive_messages (owner, id, contact_key, contact, resource, stanza) VALUES {values}")
}

/// The stretch in which an id lies.
pub(super) fn stretch(id: u64) -> u64 {
    id >> STRETCH_BITS
}

/// A contact's address as a number, to find it by: the one that the schema tells of. Different contacts may share one.
pub(super) fn contact_key(contact: &str) -> i64 {
    contact.chars().fold(0, |key, character| (key * 31 + i64::from(u32::from(character))) & 0x7FFF_FFFF)
}

fn row_values(archive: i64, message: &ArchivedMessage) -> [Value<'_>; 6] {
    [
        Value::Integer(archive),
        Value::number(message.id),
        Value::Integer(contact_key(message.with.bare_str())),
        Value::Text(message.with.bare_str()),
        Value::Text(message.with.resource().unwrap_or_default()),
        Value::Bytes(&message.stanza),
    ]
}

/// Whether the other party is in the owner's roster.
fn is_contact(c: &mut dyn Connection, message: &ArchivedMessage) -> Result<bool, StoreError> {
    let [domain, local] = account_values(message.owner.as_ref());
    let contact = Value::Text(message.with.bare_str());
    Ok(one(c, CONTACT, &[domain, local, contact], |_| Ok(()))?.is_some())
}

/// Returns the place of a message in its archive, which is made if there may be one.
fn place(c: &mut dyn Connection, message: &ArchivedMessage) -> Result<Option<Place>, StoreError> {
    let owner = message.owner.as_ref();
    if let Some(place) = c.known_archives().place(owner, message.id) {
        return Ok(Some(place));
    }
    let mut found = sizes::learn(c, owner)?;
    if !found {
        let [domain, local] = account_values(owner);
        let make = match message.of {
            ArchiveOf::Account => MAKE_FOR_ACCOUNT,
            ArchiveOf::Room => MAKE_FOR_ROOM,
        };
        c.execute(make, &[domain, local, domain, local])?;
        found = sizes::learn(c, owner)?;
    }
    Ok(if found { c.known_archives().place(owner, message.id) } else { None })
}

fn archive(c: &mut dyn Connection, owner: JidRef<'_>) -> Result<Option<i64>, StoreError> {
    one(c, ARCHIVE, &account_values(owner), |row| row.integer(0))
}

fn by_ids(
    c: &mut dyn Connection,
    archive: i64,
    ids: &[u64],
    query: &ArchiveQuery,
) -> Result<Option<ArchivePage>, StoreError> {
    for &id in ids {
        if one(c, HAS, &[Value::Integer(archive), Value::number(id)], |_| Ok(()))?.is_none() {
            return Ok(None);
        }
    }
    let mut page = Gathered::new(query);
    for id in query.wanted(ids) {
        let values = [Value::Integer(archive), Value::number(id)];
        let stanza = one(c, STANZA, &values, |row| row.bytes(0).map(<[u8]>::to_vec))?.unwrap_or_default();
        if !page.take(id, &stanza) {
            break;
        }
    }
    Ok(Some(page.page()))
}

/// The messages of an archive that are asked for.
struct Scan<'q> {
    archive: Value<'q>,
    query: &'q ArchiveQuery,
    /// Ids lie between these.
    after: Value<'q>,
    before: Value<'q>,
}

impl<'q> Scan<'q> {
    fn new(archive: i64, query: &'q ArchiveQuery) -> Self {
        let (after, before) = (Value::number(query.after), Value::number(before_id(query)));
        Self { archive: Value::Integer(archive), query, after, before }
    }

    fn page(&self, c: &mut dyn Connection) -> Result<ArchivePage, StoreError> {
        let query = self.query;
        let mut page = Gathered::new(query);
        // One more tells whether there is more.
        let limit = query.limit.saturating_add(1) as u64;
        self.each(c, if query.last { &BACKWARD } else { &FORWARD }, limit, &mut |row| {
            let is_taken = page.take(row.number(0)?, row.bytes(1)?);
            Ok(if is_taken { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        let mut page = page.page();
        if query.count_to > 0 && self.is_countable(c)? {
            let mut count = 0;
            let limit = query.count_to.saturating_add(1);
            self.each(c, &IDS, limit as u64, &mut |_| {
                count += 1;
                Ok(if count < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
            page.count = Some(count).filter(|count| *count <= query.count_to);
        }
        Ok(page)
    }

    /// Whether to count what is asked for is little work. A conversation is found in all of its stretches, of which there may be thousands.
    fn is_countable(&self, c: &mut dyn Connection) -> Result<bool, StoreError> {
        let Some(with) = &self.query.with else { return Ok(true) };
        let (first, last) = self.stretches();
        let key = Value::Integer(contact_key(with.bare_str()));
        let notes = all(c, NOTES, &[self.archive, key, first, last, Value::number(MOST_COUNTED + 1)], |_| Ok(()))?;
        Ok(notes.len() as u64 <= MOST_COUNTED)
    }

    /// The first and the last stretch of what is asked for.
    fn stretches(&self) -> (Value<'static>, Value<'static>) {
        (Value::number(stretch(self.query.after)), Value::number(stretch(before_id(self.query))))
    }

    /// Shows the rows to `each`, by the statement for everybody, for a bare JID or for a full one.
    fn each(
        &self,
        c: &mut dyn Connection,
        [everybody, bare, full]: &[&'static str; 3],
        limit: u64,
        each: &mut EachRow<'_>,
    ) -> Result<(), StoreError> {
        let (archive, after, before, limit) = (self.archive, self.after, self.before, Value::number(limit));
        let Some(with) = &self.query.with else { return c.query(everybody, &[archive, after, before, limit], each) };
        let (key, contact) = (Value::Integer(contact_key(with.bare_str())), Value::Text(with.bare_str()));
        let (first, last) = self.stretches();
        match with.resource().map(Value::Text) {
            None => c.query(bare, &[archive, key, first, last, after, before, contact, limit], each),
            Some(resource) => {
                c.query(full, &[archive, key, first, last, after, before, contact, resource, limit], each)
            }
        }
    }
}

/// The bound of the ids, beyond all of them if there is none.
fn before_id(query: &ArchiveQuery) -> u64 {
    if query.before == 0 { u64::MAX } else { query.before }
}

/// How many bits of an id count within a stretch, as in the statements. Ids whose upper bits are a time in units of 2⁻²¹ ms, as those of accounts
/// and rooms, share a stretch for 70 minutes.
const STRETCH_BITS: u32 = 43;

/// Stretches of a conversation in which its messages are counted.
const MOST_COUNTED: u64 = 100;

/// Values: domain, localpart.
const ARCHIVE: &str = "SELECT id FROM archives WHERE domain = ? AND localpart = ?";

/// Values: domain, localpart, domain, localpart.
const MAKE_FOR_ACCOUNT: &str = "\
    INSERT INTO archives (domain, localpart, account) SELECT domain, localpart, id FROM accounts \
    WHERE domain = ? AND localpart = ? \
    AND NOT EXISTS (SELECT 1 FROM archives WHERE domain = ? AND localpart = ?)";

/// Values as for [`MAKE_FOR_ACCOUNT`].
const MAKE_FOR_ROOM: &str = "\
    INSERT INTO archives (domain, localpart, account) SELECT ?, ?, NULL FROM counters \
    WHERE name = 'next_roster_version' AND NOT EXISTS (SELECT 1 FROM archives WHERE domain = ? AND localpart = ?)";

/// No domain is empty: what is there is nobody's, and waits to be removed. Values: new localpart, archive.
const LET_GO: &str = "UPDATE archives SET domain = '', localpart = ?, account = NULL WHERE id = ?";

const NEXT_GONE: &str = "SELECT id FROM archives WHERE domain = '' ORDER BY localpart LIMIT 1";

/// Values: archive.
const REMOVE_ARCHIVE: &str = "DELETE FROM archives WHERE id = ?";

/// Values: archive.
const DOMAIN: &str = "SELECT domain FROM archives WHERE id = ?";

/// Values: archive, id, contact's key, contact, resource, stanza, archive, id.
const APPEND: &str = "\
    INSERT INTO archive_messages (owner, id, contact_key, contact, resource, stanza) \
    SELECT ?, ?, ?, ?, ?, ? FROM counters WHERE name = 'next_roster_version' \
    AND NOT EXISTS (SELECT 1 FROM archive_messages WHERE owner = ? AND id = ?)";

/// Values: archive, contact's key, stretch.
const NOTE: &str = "INSERT OR IGNORE INTO archive_conversations (owner, contact_key, stretch) VALUES (?, ?, ?)";

/// Rows that are written by one statement, where there are as many: each statement costs a note of what would undo it.
const MANY: usize = 200;
/// And where there are fewer.
const SOME: usize = 20;

static APPEND_MANY: LazyLock<String> = LazyLock::new(|| append_rows(MANY));
static APPEND_SOME: LazyLock<String> = LazyLock::new(|| append_rows(SOME));

/// Values: domain, localpart, contact.
const CONTACT: &str = "\
    SELECT 1 FROM accounts JOIN roster_items ON roster_items.owner = accounts.id \
    WHERE domain = ? AND localpart = ? AND contact = ? AND listed = 1";

/// Values: archive, id.
const HAS: &str = "SELECT 1 FROM archive_messages WHERE owner = ? AND id = ?";

/// Values: archive, id.
const STANZA: &str = "SELECT stanza FROM archive_messages WHERE owner = ? AND id = ?";

/// Values: stanza, archive, id.
const REPLACE: &str = "UPDATE archive_messages SET stanza = ? WHERE owner = ? AND id = ?";

/// Values: archive.
const OLDEST: &str = "SELECT id FROM archive_messages WHERE owner = ? ORDER BY id LIMIT 1";

/// Values: archive.
const NEWEST: &str = "SELECT id FROM archive_messages WHERE owner = ? ORDER BY id DESC LIMIT 1";

/// Values: archive, contact's key, first stretch, last stretch, limit.
const NOTES: &str = "\
    SELECT 1 FROM archive_conversations WHERE owner = ? AND contact_key = ? AND stretch >= ? AND stretch <= ? LIMIT ?";

/// The messages of a conversation, stretch by stretch. A stretch is bounded by its own last id and not by the next one's first, which may be beyond
/// all numbers.
macro_rules! conversation {
    () => {
        " FROM archive_conversations AS c CROSS JOIN archive_messages AS m \
         WHERE c.owner = ? AND c.contact_key = ? AND c.stretch >= ? AND c.stretch <= ? \
         AND m.owner = c.owner AND m.id >= max(c.stretch << 43, ? + 1) AND m.id <= min((c.stretch << 43) + 8796093022207, ? - 1) \
         AND m.contact_key = c.contact_key AND m.contact = ? "
    };
}

/// For everybody: archive, after, before, limit. For a bare JID: archive, contact's key, first stretch, last stretch, after, before, contact,
/// limit. For a full one: a resource in front of the limit.
const FORWARD: [&str; 3] = [
    "SELECT id, stanza FROM archive_messages WHERE owner = ? AND id > ? AND id < ? ORDER BY id LIMIT ?",
    concat!("SELECT m.id, m.stanza", conversation!(), "ORDER BY c.stretch, m.id LIMIT ?"),
    concat!("SELECT m.id, m.stanza", conversation!(), "AND m.resource = ? ORDER BY c.stretch, m.id LIMIT ?"),
];

/// Values as for [`FORWARD`].
const BACKWARD: [&str; 3] = [
    "SELECT id, stanza FROM archive_messages WHERE owner = ? AND id > ? AND id < ? ORDER BY id DESC LIMIT ?",
    concat!("SELECT m.id, m.stanza", conversation!(), "ORDER BY c.stretch DESC, m.id DESC LIMIT ?"),
    concat!("SELECT m.id, m.stanza", conversation!(), "AND m.resource = ? ORDER BY c.stretch DESC, m.id DESC LIMIT ?"),
];

/// To count them. Values as for [`FORWARD`].
const IDS: [&str; 3] = [
    "SELECT id FROM archive_messages WHERE owner = ? AND id > ? AND id < ? LIMIT ?",
    concat!("SELECT m.id", conversation!(), "LIMIT ?"),
    concat!("SELECT m.id", conversation!(), "AND m.resource = ? LIMIT ?"),
];

/// Values: archive.
const NEXT_OWNER: &str = "SELECT owner FROM archive_messages WHERE owner > ? ORDER BY owner LIMIT 1";

/// Values: archive, id, limit.
const EXPIRED: &str =
    "SELECT id, contact_key, length(stanza) FROM archive_messages WHERE owner = ? AND id < ? ORDER BY id LIMIT ?";

/// Values: archive, id.
const ROW: &str = "SELECT id, contact_key, length(stanza) FROM archive_messages WHERE owner = ? AND id = ?";

/// Values: archive.
const REMOVE_SHARES: &str = "DELETE FROM archive_shares WHERE owner = ?";

/// Values: archive, id.
const REMOVE_UP_TO: &str = "DELETE FROM archive_messages WHERE owner = ? AND id <= ?";

/// Values: archive, stretch.
const REMOVE_NOTES: &str = "DELETE FROM archive_conversations WHERE owner = ? AND stretch < ?";
