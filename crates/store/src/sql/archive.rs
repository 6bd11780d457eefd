//! The operations of [`Archive`](crate::Archive).
//!
//! Pages are found by key and never by counting rows, so they cost the same at any position in an
//! archive. Messages don't refer to their archive by a constraint, because removing an archive with
//! a million of them would take seconds. Instead its row loses its name, so that the messages can't
//! be found any more, and is deleted when all of them have been removed, a few at a time.
//!
//! A message is one entry of one index, since entries in indexes are the main cost: each is a page
//! in the log. So SQLite has no index by contact. The entry holds the contact's address as a
//! number, and for each conversation the database notes the stretches of ids, an hour or so, in
//! which it has messages. A query for a conversation goes through its stretches and finds its
//! messages there by that number, without reading the others. Engines on other machines have an
//! index by contact instead: they maintain their logs themselves.
//!
//! This file has the writes, `owners` the archives of owners, `pages` the reads, `expiry` the
//! removals; `months` manages partitioned archives, `search` an index of messages' texts.

pub(super) mod expiry;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) mod months;
pub(super) mod owners;
pub(super) mod pages;
pub(in crate::sql) mod search;

use super::archives::{MessagePlace, contact_key, stretch};
use super::connection::{SqlConnection, SqlValue, account_values, one};
use super::many::{Among, Rows, by_domain};
use super::sizes::{self, Removed, Sizes};
use crate::archive::BYTES_PER_MESSAGE;
use crate::{ArchiveOf, ArchivedMessage, StoreError};
pub(crate) use expiry::{clear, expire, purge, sweep};
use owners::lock_archive;
pub(crate) use pages::{ends, page};
use rookery_jid::JidRef;
use std::collections::HashSet;
use std::ops::ControlFlow;

pub(crate) fn append(c: &mut dyn SqlConnection, messages: &[ArchivedMessage]) -> Result<(), StoreError> {
    let (mut rows, mut doubtful, mut sizes) = (Vec::with_capacity(messages.len()), Vec::new(), Sizes::default());
    let (wanted, mut notes, notes_stretches) = (select_stored(c, messages)?, Vec::new(), c.dialect().notes_stretches());
    learn(c, &wanted)?;
    for message in wanted {
        let key = contact_key(message.with.bare_str());
        let Some(place) = c.known_archives().place(message.owner.as_ref(), message.id, key) else { continue };
        let MessagePlace { archive, is_newest, is_noted } = place;
        // The newest stretches are cached, but older ones may have been removed from the cache.
        if notes_stretches && !(is_noted && is_newest) {
            notes.push([SqlValue::Integer(archive), SqlValue::Integer(key), SqlValue::number(stretch(message.id))]);
        }
        if is_newest {
            sizes.count(c, message, key);
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
            rows.push(row);
        }
    }
    search::note(c, &rows)?;
    sizes.settle(c)
}

pub(crate) fn replace(
    c: &mut dyn SqlConnection,
    owner: JidRef<'_>,
    id: u64,
    stanza: &[u8],
) -> Result<bool, StoreError> {
    let Some(archive) = lock_archive(c, owner)? else { return Ok(false) };
    let values = [SqlValue::Integer(archive), SqlValue::number(id)];
    let Some(row) = one(c, ROW, &values, Removed::read)? else { return Ok(false) };
    sizes::uncount(c, archive, &[row])?;
    // The replacement has no terms: the message was retracted.
    search::forget(c, archive, id)?;
    c.execute(REPLACE, &[SqlValue::Bytes(stanza), SqlValue::Integer(archive), SqlValue::number(id)])?;
    let size = stanza.len() as u64 + BYTES_PER_MESSAGE;
    sizes::count_if_old(c, archive, id, row.contact_key, size)?;
    Ok(true)
}

/// Writes a message if it isn't there yet. Returns whether it was written.
fn append_one(c: &mut dyn SqlConnection, (archive, message): (i64, &ArchivedMessage)) -> Result<bool, StoreError> {
    let [archive, id, key, contact, resource, stanza] = row_values(archive, message);
    Ok(c.execute(APPEND, &[archive, id, key, contact, resource, stanza, archive, id])? > 0)
}

fn row_values(archive: i64, message: &ArchivedMessage) -> [SqlValue<'_>; 6] {
    [
        SqlValue::Integer(archive),
        SqlValue::number(message.id),
        SqlValue::Integer(contact_key(message.with.bare_str())),
        SqlValue::Text(message.with.bare_str()),
        SqlValue::Text(message.with.resource().unwrap_or_default()),
        SqlValue::Bytes(&message.stanza),
    ]
}

/// Returns the messages to store: some only if the other party is in the owner's roster.
fn select_stored<'m>(
    c: &mut dyn SqlConnection,
    messages: &'m [ArchivedMessage],
) -> Result<Vec<&'m ArchivedMessage>, StoreError> {
    let doubtful: Vec<_> = messages.iter().filter(|message| message.contacts_only).collect();
    let mut contacts = HashSet::new();
    for (domain, locals) in by_domain(doubtful.iter().map(|message| &message.owner)) {
        let of_domain = doubtful.iter().filter(|message| message.owner.domain() == domain);
        let mut with: Vec<_> = of_domain.map(|message| message.with.bare_str()).collect();
        with.sort_unstable();
        with.dedup();
        let with: Vec<_> = with.into_iter().map(SqlValue::Text).collect();
        for locals in locals.chunks(OWNERS) {
            let mut padded = locals.to_vec();
            padded.resize(OWNERS, locals[locals.len() - 1]);
            let before = [&[SqlValue::Text(domain)], &padded[..]].concat();
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

/// Loads the archives of these messages into the cache, and notes which of them don't exist.
fn learn(c: &mut dyn SqlConnection, messages: &[&ArchivedMessage]) -> Result<(), StoreError> {
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
        MAKE_FOR_ACCOUNTS.execute(c, (&[SqlValue::Text(domain)], &locals, &[]))?;
    }
    let rooms: Vec<_> = rooms.iter().map(|message| account_values(message.owner.as_ref())).collect();
    MAKE_FOR_ROOMS.insert(c, &rooms)?;
    sizes::learn(c, unknown.iter().map(|message| &message.owner))
}

/// Values: domain, localparts.
static MAKE_FOR_ACCOUNTS: Among = Among::new(
    "INSERT INTO archives (domain, localpart, account) SELECT a.domain, a.localpart, a.id FROM accounts a \
     WHERE NOT EXISTS (SELECT 1 FROM archives known WHERE known.domain = a.domain AND known.localpart = a.localpart) \
     AND a.domain = ? AND a.localpart IN ",
    "",
);

/// Values: domain, localpart.
static MAKE_FOR_ROOMS: Rows = Rows::new("INSERT INTO archives (domain, localpart, account) VALUES", "(?, ?, NULL)");

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

/// Values: stanza, archive, id.
const REPLACE: &str = "UPDATE archive_messages SET stanza = ? WHERE owner = ? AND id = ?";

/// Values: archive, id.
const ROW: &str = "SELECT id, contact_key, length(stanza) FROM archive_messages WHERE owner = ? AND id = ?";

#[cfg(test)]
#[cfg(all(feature = "postgres", feature = "mysql"))]
mod plans;

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        MAKE_FOR_ACCOUNTS,
        MAKE_FOR_ROOMS,
        APPEND,
        NOTES_MADE,
        APPEND_ROWS,
        CONTACTS,
        REPLACE,
        ROW
    ]
}
