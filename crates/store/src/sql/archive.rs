//! The operations of [`Archive`](crate::Archive).
//!
//! Pages are found by key and never by counting rows: whatever place in an archive they have, they cost the same. Messages don't refer to
//! their archive by a constraint: to remove an archive with a million of them would take seconds. Its row loses its name, so that the messages can't be
//! found any more, and goes when all of them have been removed, a few at a time.
//!
//! A message is one entry of one index, since it is places in indexes that cost: each is a page in the log. So there is none by contacts. The
//! entry holds the contact's address as a number, and for each conversation the stretches of ids, an hour or so, in which it has messages are noted.
//! Whoever asks for a conversation looks through its stretches and finds its messages there by that number, without reading the others. Engines on other
//! machines have an index by contacts instead: they keep their logs themselves.

use super::archives::{Place, contact_key, stretch};
use super::connection::{Connection, EachRow, Value, account_values, all, one};
use super::dialect::{Text, locking};
use super::many::{Among, Rows, by_domain};
use super::sizes::{self, Removed, Sizes};
use crate::archive::{ARCHIVES_PER_SWEEP, BYTES_PER_MESSAGE, Gathered, SWEPT_AT_ONCE};
use crate::{ArchiveOf, ArchivePage, ArchiveQuery, ArchivedMessage, Retention, StoreError, Swept};
use rookery_jid::JidRef;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

pub(crate) fn append(c: &mut dyn Connection, messages: &[ArchivedMessage]) -> Result<(), StoreError> {
    let (mut rows, mut doubtful, mut sizes) = (Vec::with_capacity(messages.len()), Vec::new(), Sizes::default());
    let (wanted, mut notes) = (wanted(c, messages)?, Vec::new());
    learn(c, &wanted)?;
    for message in wanted {
        let Some(Place { archive, is_newest }) = c.known_archives().place(message.owner.as_ref(), message.id) else {
            continue;
        };
        note_conversation(c, archive, message, is_newest, &mut notes);
        if is_newest {
            sizes.count(c, message);
            rows.push((archive, message));
        } else {
            doubtful.push((archive, message));
        }
    }
    // Neighbours in the keys are written one after the other.
    rows.sort_by_key(|(archive, message)| (*archive, message.id));
    let values: Vec<_> = rows.iter().map(|(archive, message)| row_values(*archive, message)).collect();
    APPEND_ROWS.insert(c, &values)?;
    NOTES_MADE.insert(c, &notes)?;
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
    if !has_all(c, archive, &query.known)? {
        return Ok(None);
    }
    match &query.ids {
        Some(ids) => by_ids(c, archive, ids, query),
        None => Ok(Some(Scan::new(archive, query).page(c)?)),
    }
}

pub(crate) fn replace(c: &mut dyn Connection, owner: JidRef<'_>, id: u64, stanza: &[u8]) -> Result<bool, StoreError> {
    let Some(archive) = locked(c, owner)? else { return Ok(false) };
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
    let Some(archive) = locked(c, owner)? else { return Ok(()) };
    // Names are told apart by the number.
    let name = archive.to_string();
    c.execute(LET_GO, &[Value::Text(&name), Value::Integer(archive)]).map(drop)
}

pub(crate) fn clear(c: &mut dyn Connection, limit: u64) -> Result<bool, StoreError> {
    let Some(archive) = one(c, NEXT_GONE, &[], |row| row.number(0))? else { return Ok(false) };
    let is_empty = remove_below(c, archive, u64::MAX, limit)? < limit
        && remove_conversations(c, archive, [FAR_SHARE, REMOVE_SHARES], limit)?
        && (!c.dialect().notes_stretches() || remove_conversations(c, archive, [FAR_NOTE, REMOVE_ALL_NOTES], limit)?);
    if is_empty {
        c.execute(REMOVE_ARCHIVE, &[Value::number(archive)])?;
    }
    Ok(true)
}

/// Removes what is kept of some conversations of an archive, by statements that find the first that stays and that remove those before it. Returns
/// whether nothing is left. An account may have had as many conversations as messages.
fn remove_conversations(
    c: &mut dyn Connection,
    archive: u64,
    [far, remove]: [&'static str; 2],
    limit: u64,
) -> Result<bool, StoreError> {
    let archive = Value::number(archive);
    let staying = one(c, far, &[archive, Value::number(limit)], |row| row.integer(0))?;
    c.execute(remove, &[archive, Value::Integer(staying.unwrap_or(i64::MAX))])?;
    Ok(staying.is_none())
}

pub(crate) fn sweep(
    c: &mut dyn Connection,
    after: u64,
    retention: &Retention,
    limit: usize,
) -> Result<Swept, StoreError> {
    let values = [Value::number(after), Value::number(ARCHIVES_PER_SWEEP as u64)];
    let next = NEXT.on(c.dialect());
    let found = all(c, next, &values, |row| {
        let days = row.optional_integer(2)?.and_then(|days| u64::try_from(days).ok());
        Ok((row.number(0)?, retention.before(row.text(1)?, days), row.optional_integer(3)?))
    })?;
    let (mut at, mut removed, mut visited) = (after, 0, 0);
    for (archive, before, oldest) in &found {
        if oldest.is_some_and(|oldest| oldest.unsigned_abs() < *before) {
            let left = (limit as u64).saturating_sub(removed);
            if left == 0 || visited >= SWEPT_AT_ONCE {
                return Ok(Swept { removed, next: Some(at) });
            }
            let of_this = remove_below(c, *archive, *before, left)?;
            (removed, visited) = (removed + of_this, visited + 1);
            if of_this >= left {
                // There may be more in this archive.
                return Ok(Swept { removed, next: Some(at) });
            }
        }
        at = *archive;
    }
    Ok(Swept { removed, next: (found.len() >= ARCHIVES_PER_SWEEP).then_some(at) })
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
    // Of an archive that nobody has any more they go by themselves.
    if before < u64::MAX && stretch(first) < rest {
        remove_notes(c, archive, rest)?;
        c.known_archives().forget_conversations();
    }
    Ok(removed)
}

/// Removes the notes of stretches below this one, on an engine that has them.
fn remove_notes(c: &mut dyn Connection, archive: u64, stretch: u64) -> Result<(), StoreError> {
    if c.dialect().notes_stretches() {
        c.execute(REMOVE_NOTES, &[Value::number(archive), Value::number(stretch)])?;
    }
    Ok(())
}

/// Collects the notes that an archive has messages of a conversation in the stretch of this one. What is known of older stretches may have been removed.
fn note_conversation(
    c: &mut dyn Connection,
    archive: i64,
    message: &ArchivedMessage,
    is_newest: bool,
    notes: &mut Vec<[Value<'static>; 3]>,
) {
    if !c.dialect().notes_stretches() {
        return;
    }
    let (key, stretch) = (contact_key(message.with.bare_str()), stretch(message.id));
    if c.known_archives().learn_conversation((archive, key, stretch)) || !is_newest {
        notes.push([Value::Integer(archive), Value::Integer(key), Value::number(stretch)]);
    }
}

/// Writes a message if it isn't there yet. Returns whether it was written.
fn append_one(c: &mut dyn Connection, (archive, message): (i64, &ArchivedMessage)) -> Result<bool, StoreError> {
    let [archive, id, key, contact, resource, stanza] = row_values(archive, message);
    Ok(c.execute(APPEND, &[archive, id, key, contact, resource, stanza, archive, id])? > 0)
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

/// Returns those messages that are to be kept: some only if the other party is in the owner's roster.
fn wanted<'m>(c: &mut dyn Connection, messages: &'m [ArchivedMessage]) -> Result<Vec<&'m ArchivedMessage>, StoreError> {
    let doubtful: Vec<_> = messages.iter().filter(|message| message.contacts_only).collect();
    let mut contacts = HashSet::new();
    for (domain, locals) in by_domain(doubtful.iter().map(|message| &message.owner)) {
        let of_domain = doubtful.iter().filter(|message| message.owner.domain() == domain);
        let mut with: Vec<_> = of_domain.map(|message| message.with.bare_str()).collect();
        with.sort_unstable();
        with.dedup();
        let with: Vec<_> = with.into_iter().map(Value::Text).collect();
        for locals in locals.chunks(OWNERS) {
            let mut padded = locals.to_vec();
            padded.resize(OWNERS, locals[locals.len() - 1]);
            let before = [&[Value::Text(domain)], &padded[..]].concat();
            CONTACTS.query(c, (&before, &with, &[]), &mut |row| {
                contacts.insert((domain, row.text(0)?.to_owned(), row.text(1)?.to_owned()));
                Ok(ControlFlow::Continue(()))
            })?;
        }
    }
    let is_wanted = |message: &&ArchivedMessage| {
        let (owner, with) = (&message.owner, message.with.bare_str());
        let contact = (owner.domain(), owner.local().unwrap_or_default().to_owned(), with.to_owned());
        !message.contacts_only || contacts.contains(&contact)
    };
    Ok(messages.iter().filter(is_wanted).collect())
}

/// Makes the archives of these messages known, and those that there may be and aren't.
fn learn(c: &mut dyn Connection, messages: &[&ArchivedMessage]) -> Result<(), StoreError> {
    c.known_archives().make_room();
    let mut unknown: Vec<_> =
        messages.iter().filter(|message| !c.known_archives().knows(message.owner.as_ref())).collect();
    unknown.sort_unstable_by_key(|message| &message.owner);
    unknown.dedup_by_key(|message| &message.owner);
    sizes::learn(c, unknown.iter().map(|message| &message.owner))?;
    unknown.retain(|message| !c.known_archives().knows(message.owner.as_ref()));
    if unknown.is_empty() {
        return Ok(());
    }
    let (accounts, rooms): (Vec<&ArchivedMessage>, Vec<_>) =
        unknown.iter().copied().partition(|message| message.of == ArchiveOf::Account);
    for (domain, locals) in by_domain(accounts.iter().map(|message| &message.owner)) {
        MAKE_FOR_ACCOUNTS.execute(c, (&[Value::Text(domain)], &locals, &[]))?;
    }
    let rooms: Vec<_> = rooms.iter().map(|message| account_values(message.owner.as_ref())).collect();
    MAKE_FOR_ROOMS.insert(c, &rooms)?;
    sizes::learn(c, unknown.iter().map(|message| &message.owner))
}

fn archive(c: &mut dyn Connection, owner: JidRef<'_>) -> Result<Option<i64>, StoreError> {
    one(c, ARCHIVE.unlocked(), &account_values(owner), |row| row.integer(0))
}

/// Returns the key of an archive's row, which nobody else changes until the transaction ends.
fn locked(c: &mut dyn Connection, owner: JidRef<'_>) -> Result<Option<i64>, StoreError> {
    let archive = ARCHIVE.on(c.dialect());
    one(c, archive, &account_values(owner), |row| row.integer(0))
}

fn by_ids(
    c: &mut dyn Connection,
    archive: i64,
    ids: &[u64],
    query: &ArchiveQuery,
) -> Result<Option<ArchivePage>, StoreError> {
    if !has_all(c, archive, ids)? {
        return Ok(None);
    }
    let (mut page, wanted) = (Gathered::new(query), query.wanted(ids));
    'page: for ids in wanted.chunks(STANZAS_AT_ONCE) {
        let values: Vec<_> = ids.iter().copied().map(Value::number).collect();
        let mut stanzas = HashMap::new();
        STANZAS.query(c, (&[Value::Integer(archive)], &values, &[]), &mut |row| {
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

/// Tells whether an archive has messages with all of these ids.
fn has_all(c: &mut dyn Connection, archive: i64, ids: &[u64]) -> Result<bool, StoreError> {
    let (values, mut found): (Vec<_>, _) = (ids.iter().copied().map(Value::number).collect(), HashSet::new());
    HAS.query(c, (&[Value::Integer(archive)], &values, &[]), &mut |row| {
        found.insert(row.number(0)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(ids.iter().all(|id| found.contains(id)))
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
            let (mut count, limit) = (0, query.count_to.saturating_add(1));
            self.each(c, &COUNT, limit as u64, &mut |row| {
                count = row.integer(0)?.try_into().unwrap_or(usize::MAX);
                Ok(ControlFlow::Break(()))
            })?;
            page.count = Some(count).filter(|count| *count <= query.count_to);
        }
        Ok(page)
    }

    /// Whether to count what is asked for is little work. A conversation is found in all of its stretches, of which there may be thousands.
    fn is_countable(&self, c: &mut dyn Connection) -> Result<bool, StoreError> {
        let Some(with) = self.query.with.as_ref().filter(|_| c.dialect().notes_stretches()) else { return Ok(true) };
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
        statements: &Statements,
        limit: u64,
        each: &mut EachRow<'_>,
    ) -> Result<(), StoreError> {
        let (archive, after, before, limit) = (self.archive, self.after, self.before, Value::number(limit));
        let Some(with) = &self.query.with else {
            return c.query(statements.everybody, &[archive, after, before, limit], each);
        };
        let (key, contact) = (Value::Integer(contact_key(with.bare_str())), Value::Text(with.bare_str()));
        let (first, last) = self.stretches();
        let resource = with.resource().map(Value::Text);
        let (bare, full) = if c.dialect().notes_stretches() { statements.by_stretch } else { statements.by_index };
        let stretches = [first, last];
        let stretches: &[_] = if c.dialect().notes_stretches() { &stretches } else { &[] };
        let values = [&[archive, key], stretches, &[after, before, contact], resource.as_slice(), &[limit]].concat();
        c.query(if resource.is_some() { full } else { bare }, &values, each)
    }
}

/// The bound of the ids, beyond all of them if there is none.
fn before_id(query: &ArchiveQuery) -> u64 {
    if query.before == 0 { u64::MAX } else { query.before }
}

/// Stretches of a conversation in which its messages are counted.
const MOST_COUNTED: u64 = 100;

/// Values: domain, localpart.
const ARCHIVE: Text = locking!("SELECT id FROM archives WHERE domain = ? AND localpart = ?");

/// Values: domain, localparts.
static MAKE_FOR_ACCOUNTS: Among = Among::new(
    "INSERT INTO archives (domain, localpart, account) SELECT a.domain, a.localpart, a.id FROM accounts a \
     WHERE NOT EXISTS (SELECT 1 FROM archives known WHERE known.domain = a.domain AND known.localpart = a.localpart) \
     AND a.domain = ? AND a.localpart IN ",
    "",
);

/// Values: domain, localpart.
static MAKE_FOR_ROOMS: Rows = Rows::new("INSERT INTO archives (domain, localpart, account) VALUES", "(?, ?, NULL)");

/// No domain is empty: what is there is nobody's, and waits to be removed. Values: new localpart, archive.
const LET_GO: &str = "UPDATE archives SET domain = '', localpart = ?, account = NULL WHERE id = ?";

const NEXT_GONE: &str = "SELECT id FROM archives WHERE domain = '' ORDER BY localpart LIMIT 1";

/// Values: archive.
const REMOVE_ARCHIVE: &str = "DELETE FROM archives WHERE id = ?";

/// Values: archive, id, contact's key, contact, resource, stanza, archive, id.
const APPEND: &str = "\
    INSERT INTO archive_messages (owner, id, contact_key, contact, resource, stanza) \
    SELECT ?, ?, ?, ?, ?, ? FROM counters WHERE name = 'next_roster_version' \
    AND NOT EXISTS (SELECT 1 FROM archive_messages WHERE owner = ? AND id = ?)";

/// Values: archive, contact's key, stretch.
static NOTES_MADE: Rows =
    Rows::new("INSERT OR IGNORE INTO archive_conversations (owner, contact_key, stretch) VALUES", "(?, ?, ?)");

/// Values: archive, id, contact's key, contact, resource, stanza.
static APPEND_ROWS: Rows = Rows::new(
    "INSERT INTO archive_messages (owner, id, contact_key, contact, resource, stanza) VALUES",
    "(?, ?, ?, ?, ?, ?)",
);

/// Values: domain, eight localparts, contacts.
static CONTACTS: Among = Among::new(
    "SELECT a.localpart, i.contact FROM accounts a JOIN roster_items i ON i.owner = a.id \
     WHERE a.domain = ? AND a.localpart IN (?, ?, ?, ?, ?, ?, ?, ?) AND i.listed = 1 AND i.contact IN ",
    "",
);

/// The owners whose contacts are looked up at once.
const OWNERS: usize = 8;

/// Values: archive, ids.
static HAS: Among = Among::new("SELECT id FROM archive_messages WHERE owner = ? AND id IN ", "");

/// Values: archive, ids.
static STANZAS: Among = Among::new("SELECT id, stanza FROM archive_messages WHERE owner = ? AND id IN ", "");

/// Stanzas that are loaded at once when they are asked for by their ids.
const STANZAS_AT_ONCE: usize = 64;

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

/// The messages of a conversation by an index that has all of them in their order.
macro_rules! indexed {
    () => {
        " FROM archive_messages WHERE owner = ? AND contact_key = ? AND id > ? AND id < ? AND contact = ? "
    };
}

/// The statements of a question.
struct Statements {
    /// Values: archive, after, before, limit.
    everybody: &'static str,
    /// For a bare JID: archive, contact's key, first stretch, last stretch, after, before, contact, limit. For a full one: a resource in front of the
    /// limit.
    by_stretch: (&'static str, &'static str),
    /// Values: the same without stretches.
    by_index: (&'static str, &'static str),
}

const FORWARD: Statements = Statements {
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

const BACKWARD: Statements = Statements {
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

/// Makes the statement that counts the rows of another one. The database counts: a thousand rows that are sent cost more than the page.
macro_rules! counted {
    ($($rows:expr),+) => {
        concat!("SELECT COUNT(*) FROM (", $($rows),+, " LIMIT ?) AS counted")
    };
}

/// To count them.
const COUNT: Statements = Statements {
    everybody: counted!("SELECT id FROM archive_messages WHERE owner = ? AND id > ? AND id < ?"),
    by_stretch: (
        counted!("SELECT m.id", conversation!()),
        counted!("SELECT m.id", conversation!(), "AND m.resource = ?"),
    ),
    by_index: (counted!("SELECT id", indexed!()), counted!("SELECT id", indexed!(), "AND resource = ?")),
};

/// Makes the query of archives behind one, with what their rooms say and their oldest messages.
macro_rules! next {
    ($index:literal) => {
        concat!(
            "SELECT a.id, a.domain, r.archive_days, \
            (SELECT m.id FROM archive_messages m",
            $index,
            " WHERE m.owner = a.id ORDER BY m.id LIMIT 1) \
            FROM archives a LEFT JOIN rooms r ON r.host = a.domain AND r.localpart = a.localpart \
            WHERE a.id > ? ORDER BY a.id LIMIT ?"
        )
    };
}

/// Archives that were emptied go by [`clear`]. MariaDB would sort all that an index has of an owner. Values: archive, limit.
const NEXT: Text = Text { mysql: next!(" FORCE INDEX (PRIMARY)"), ..Text::same(next!("")) };

/// Values: archive, id, limit.
const EXPIRED: &str =
    "SELECT id, contact_key, length(stanza) FROM archive_messages WHERE owner = ? AND id < ? ORDER BY id LIMIT ?";

/// Values: archive, id.
const ROW: &str = "SELECT id, contact_key, length(stanza) FROM archive_messages WHERE owner = ? AND id = ?";

/// Values: archive, how many to leave out.
const FAR_SHARE: &str = "SELECT contact_key FROM archive_shares WHERE owner = ? ORDER BY contact_key LIMIT 1 OFFSET ?";

/// Values: archive, contact's key.
const REMOVE_SHARES: &str = "DELETE FROM archive_shares WHERE owner = ? AND contact_key < ?";

/// Values: archive, how many to leave out.
const FAR_NOTE: &str = "\
    SELECT contact_key FROM archive_conversations WHERE owner = ? GROUP BY contact_key ORDER BY contact_key LIMIT 1 OFFSET ?";

/// Values: archive, contact's key.
const REMOVE_ALL_NOTES: &str = "DELETE FROM archive_conversations WHERE owner = ? AND contact_key < ?";

/// Values: archive, id.
const REMOVE_UP_TO: &str = "DELETE FROM archive_messages WHERE owner = ? AND id <= ?";

/// Values: archive, stretch.
const REMOVE_NOTES: &str = "DELETE FROM archive_conversations WHERE owner = ? AND stretch < ?";

#[cfg(test)]
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod plans;

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn listed() -> Vec<crate::sql::listed::Listed> {
    crate::sql::listed::listed![
        ARCHIVE,
        MAKE_FOR_ACCOUNTS,
        MAKE_FOR_ROOMS,
        LET_GO,
        NEXT_GONE,
        REMOVE_ARCHIVE,
        APPEND,
        NOTES_MADE,
        APPEND_ROWS,
        CONTACTS,
        HAS,
        STANZAS,
        REPLACE,
        OLDEST,
        NEWEST,
        NOTES,
        FORWARD,
        BACKWARD,
        COUNT,
        NEXT,
        EXPIRED,
        ROW,
        FAR_SHARE,
        REMOVE_SHARES,
        FAR_NOTE,
        REMOVE_ALL_NOTES,
        REMOVE_UP_TO,
        REMOVE_NOTES
    ]
}

#[cfg(test)]
impl crate::sql::listed::Texts for Statements {
    fn texts(&self, dialect: super::dialect::Dialect) -> Vec<String> {
        let (bare, full) = if dialect.notes_stretches() { self.by_stretch } else { self.by_index };
        [self.everybody, bare, full].map(str::to_owned).into()
    }
}
