//! Counts the bytes of archives, and makes room in one that is full.
//!
//! # Invariants
//!
//! * `archives.bytes` are the bytes of the messages up to and including the id `archives.counted`;
//!   the cached [`KnownArchives`](super::archives::KnownArchives) add newer ones. Both change in
//!   the transaction that changes the messages.
//! * The shares of conversations only decide whose messages are removed: they may lack the newest
//!   messages, and never decide how much is removed.
//! * A full archive loses as much as was added to it and no more: one that was larger before it had
//!   a bound doesn't lose years at once.

use super::archive::search;
use super::archives::{ArchiveNoted, contact_key, stretch};
use super::connection::{Row, SqlConnection, SqlValue, account_values, all, one};
use super::dialect::{DialectText, locking};
use super::many::{Among, by_domain};
use crate::archive::{BYTES_PER_MESSAGE, FAIR_PART};
use crate::{ArchivedMessage, StoreError};
use rookery_jid::{Jid, JidRef};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

/// The archives that grow by a group of messages.
#[derive(Default)]
pub(super) struct Sizes<'m> {
    /// The owners whose count has to be written.
    due: Vec<JidRef<'m>>,
    /// The conversations that have added to a full archive.
    excess: Vec<Excess<'m>>,
}

/// A conversation that has added to a full archive.
struct Excess<'m> {
    owner: JidRef<'m>,
    contact_key: i64,
    /// The bytes that were added.
    added: u64,
    /// The bytes that the archive may take.
    most: u64,
}

/// A message that is removed.
#[derive(Clone, Copy)]
pub(super) struct Removed {
    pub(super) id: u64,
    pub(super) contact_key: i64,
    pub(super) size: u64,
}

impl Removed {
    /// Reads the columns id, contact's key and length of the stanza.
    pub(super) fn read(row: &dyn Row) -> Result<Self, StoreError> {
        Ok(Self { id: row.number(0)?, contact_key: row.integer(1)?, size: row.number(2)? + BYTES_PER_MESSAGE })
    }
}

impl<'m> Sizes<'m> {
    /// Counts a message that is written to its archive, which is cached; `key` is its contact's.
    pub(super) fn count(&mut self, c: &mut dyn SqlConnection, message: &'m ArchivedMessage, key: i64) {
        let owner = message.owner.as_ref();
        let counted = c.known_archives().count(owner, key, message.size());
        if counted.is_due && !self.due.contains(&owner) {
            self.due.push(owner);
        }
        if message.most > 0 && counted.bytes > message.most {
            self.exceed(message, key);
        }
    }

    /// Counts a message that was inserted among older ones.
    pub(super) fn count_older(
        &mut self,
        c: &mut dyn SqlConnection,
        (archive, message): (i64, &'m ArchivedMessage),
    ) -> Result<(), StoreError> {
        self.count(c, message, contact_key(message.with.bare_str()));
        if c.known_archives().counted_up_to(message.owner.as_ref()).is_some_and(|counted| message.id <= counted) {
            // The database has already counted up to an id above this one.
            c.execute(ADD, &[SqlValue::number(message.size()), SqlValue::Integer(archive)])?;
        }
        Ok(())
    }

    fn exceed(&mut self, message: &'m ArchivedMessage, contact_key: i64) {
        let (owner, added, most) = (message.owner.as_ref(), message.size(), message.most);
        let known = self.excess.iter_mut().find(|excess| excess.contact_key == contact_key && excess.owner == owner);
        match known {
            Some(excess) => excess.added += added,
            None => self.excess.push(Excess { owner, contact_key, added, most }),
        }
    }

    /// Writes the sizes that have grown enough, and makes room in full archives. The messages are
    /// already written.
    pub(super) fn settle(self, c: &mut dyn SqlConnection) -> Result<(), StoreError> {
        for owner in self.due {
            settle(c, owner)?;
        }
        for excess in self.excess {
            make_room(c, &excess)?;
        }
        Ok(())
    }
}

/// Loads the stored state of the existing archives of these owners.
pub(super) fn learn<'j>(
    c: &mut dyn SqlConnection,
    owners: impl Iterator<Item = &'j Jid> + Clone,
) -> Result<(), StoreError> {
    let mut found = BTreeMap::new();
    for (domain, locals) in by_domain(owners.clone()) {
        ARCHIVES.query(c, (&[SqlValue::Text(domain)], &locals, &[]), &mut |row| {
            let owner = (domain, row.text(0)?.to_owned());
            found.insert(row.integer(1)?, (owner, ArchiveNoted::new(row.integer(1)?, row.number(2)?, row.number(3)?)));
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let ids: Vec<_> = found.keys().copied().map(SqlValue::Integer).collect();
    UNCOUNTED.query(c, (&[], &ids, &[]), &mut |row| {
        if let Some((_, archive)) = found.get_mut(&row.integer(3)?) {
            let newer = Removed::read(row)?;
            archive.add(newer.id, newer.contact_key, newer.size);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut found: HashMap<_, _> = found.into_values().collect();
    for owner in owners {
        if let Some(archive) = found.remove(&(owner.domain(), owner.local().unwrap_or_default().to_owned())) {
            c.known_archives().learn(owner.as_ref(), archive);
        }
    }
    Ok(())
}

/// Subtracts messages that are removed or replaced from the counts of their archive.
pub(super) fn uncount(c: &mut dyn SqlConnection, archive: i64, removed: &[Removed]) -> Result<(), StoreError> {
    // The rest is read from the database later.
    c.known_archives().forget_archive(archive);
    let locked = COUNTED.on(c.dialect());
    let Some(counted) = one(c, locked, &[SqlValue::Integer(archive)], |row| row.number(0))? else { return Ok(()) };
    let mut shares: Vec<(i64, u64)> = Vec::new();
    for message in removed.iter().filter(|message| message.id <= counted) {
        match shares.iter_mut().find(|(key, _)| *key == message.contact_key) {
            Some((_, bytes)) => *bytes += message.size,
            None => shares.push((message.contact_key, message.size)),
        }
    }
    let bytes = shares.iter().map(|(_, bytes)| bytes).sum();
    c.execute(TAKE, &[SqlValue::number(bytes), SqlValue::number(bytes), SqlValue::Integer(archive)])?;
    for (key, bytes) in shares {
        take_share(c, archive, key, bytes)?;
    }
    Ok(())
}

/// Counts a message that was replaced, unless it will be counted with the newest ones.
pub(super) fn count_if_old(
    c: &mut dyn SqlConnection,
    archive: i64,
    id: u64,
    contact_key: i64,
    size: u64,
) -> Result<(), StoreError> {
    let locked = COUNTED.on(c.dialect());
    let counted = one(c, locked, &[SqlValue::Integer(archive)], |row| row.number(0))?;
    if counted.is_some_and(|counted| id <= counted) {
        c.execute(ADD, &[SqlValue::number(size), SqlValue::Integer(archive)])?;
        add_share(c, archive, contact_key, size)?;
    }
    Ok(())
}

/// Writes the cached state of an archive, all of whose messages are written.
fn settle(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<(), StoreError> {
    if c.dialect().has_other_writers()
        && let Some(archive) = c.known_archives().id(owner)
    {
        // A transaction that removes messages from it locks its row first, until its end.
        let locked = COUNTED.on(c.dialect());
        one(c, locked, &[SqlValue::Integer(archive)], |_| Ok(()))?;
        c.renew_archives()?;
    }
    // An archive that isn't cached any more is counted when it is loaded again.
    let Some(settlement) = c.known_archives().settle(owner) else { return Ok(()) };
    for (key, bytes) in settlement.shares {
        add_share(c, settlement.archive, key, bytes)?;
    }
    let (bytes, counted) = (SqlValue::number(settlement.bytes), SqlValue::number(settlement.counted));
    c.execute(SETTLE, &[bytes, counted, SqlValue::Integer(settlement.archive)]).map(drop)
}

fn add_share(c: &mut dyn SqlConnection, archive: i64, key: i64, bytes: u64) -> Result<(), StoreError> {
    let (bytes, archive, key) = (SqlValue::number(bytes), SqlValue::Integer(archive), SqlValue::Integer(key));
    if c.execute(ADD_SHARE, &[bytes, archive, key])? == 0 {
        c.execute(INSERT_SHARE, &[archive, key, bytes])?;
    }
    Ok(())
}

fn take_share(c: &mut dyn SqlConnection, archive: i64, key: i64, bytes: u64) -> Result<(), StoreError> {
    let bytes = SqlValue::number(bytes);
    c.execute(TAKE_SHARE, &[bytes, bytes, SqlValue::Integer(archive), SqlValue::Integer(key)]).map(drop)
}

/// Removes the oldest messages of the conversation that has too much in a full archive.
fn make_room(c: &mut dyn SqlConnection, excess: &Excess<'_>) -> Result<(), StoreError> {
    settle(c, excess.owner)?;
    let read = |row: &dyn Row| Ok((row.integer(0)?, row.number(1)?));
    let locked = ARCHIVE.on(c.dialect());
    let Some((archive, bytes)) = one(c, locked, &account_values(excess.owner), read)? else { return Ok(()) };
    let mut left = excess.added.min(bytes.saturating_sub(excess.most));
    let wanted = left;
    while left > 0 {
        let victim = victim(c, archive, excess)?;
        let oldest = oldest(c, archive, victim)?;
        if oldest.is_empty() {
            let Some(key) = victim else { break };
            // The share was an estimate.
            c.execute(REMOVE_SHARE, &[SqlValue::Integer(archive), SqlValue::Integer(key)])?;
            continue;
        }
        let (mut going, mut last) = (0, 0);
        for message in &oldest {
            if going >= left {
                break;
            }
            c.execute(REMOVE, &[SqlValue::Integer(archive), SqlValue::number(message.id)])?;
            search::forget(c, archive, message.id)?;
            if victim.is_none() {
                take_share(c, archive, message.contact_key, message.size)?;
            }
            (going, last) = (going + message.size, message.id);
        }
        left = left.saturating_sub(going);
        if let Some(key) = victim {
            take_share(c, archive, key, going)?;
            tidy(c, archive, key, last)?;
        }
        c.execute(TAKE, &[SqlValue::number(going), SqlValue::number(going), SqlValue::Integer(archive)])?;
        if c.known_archives().shrink(excess.owner, going) {
            let (owner, bytes) = (excess.owner.bare_str(), excess.most);
            tracing::info!(
                owner,
                bytes,
                wanted,
                "an archive is full: from now on its oldest messages are removed as new ones arrive"
            );
        }
    }
    Ok(())
}

/// Returns the conversation that loses messages: the one that needs room if it already has its fair
/// part, otherwise the largest one; `None` if none is known to be large.
fn victim(c: &mut dyn SqlConnection, archive: i64, excess: &Excess<'_>) -> Result<Option<i64>, StoreError> {
    let (archive, key) = (SqlValue::Integer(archive), SqlValue::Integer(excess.contact_key));
    let own = one(c, SHARE, &[archive, key], |row| row.number(0))?.unwrap_or_default();
    if own >= excess.most / FAIR_PART {
        return Ok(Some(excess.contact_key));
    }
    one(c, LARGEST, &[archive], |row| row.integer(0))
}

/// Returns the oldest messages of a conversation, or of all.
fn oldest(c: &mut dyn SqlConnection, archive: i64, contact_key: Option<i64>) -> Result<Vec<Removed>, StoreError> {
    let (archive, oldest_of) = (SqlValue::Integer(archive), OLDEST_OF.on(c.dialect()));
    match contact_key {
        Some(key) => all(c, oldest_of, &[archive, SqlValue::Integer(key)], Removed::read),
        None => all(c, OLDEST, &[archive], Removed::read),
    }
}

/// Removes the notes of stretches in which a conversation has no messages any more; `last` is a
/// removed message. The newest note stays in any case, since caches may rely on it.
fn tidy(c: &mut dyn SqlConnection, archive: i64, contact_key: i64, last: u64) -> Result<(), StoreError> {
    if !c.dialect().notes_stretches() {
        return Ok(());
    }
    let first = oldest(c, archive, Some(contact_key))?.first().map_or(last, |message| message.id);
    let values = [SqlValue::Integer(archive), SqlValue::Integer(contact_key), SqlValue::number(stretch(first))];
    c.execute(REMOVE_NOTES_OF, &values).map(drop)
}

/// Values: domain, localpart.
const ARCHIVE: DialectText = locking!("SELECT id, bytes, counted FROM archives WHERE domain = ? AND localpart = ?");

/// Values: archive.
const COUNTED: DialectText = locking!("SELECT counted FROM archives WHERE id = ?");

/// Values: domain, localparts.
static ARCHIVES: Among =
    Among::new("SELECT localpart, id, bytes, counted FROM archives WHERE domain = ? AND localpart IN ", "");

/// The messages of archives that are not counted. PostgreSQL doesn't know how few they are and
/// would rather read all messages than go to each archive, unless the query forces it. Values:
/// archives.
static UNCOUNTED: Among = Among::differing(
    DialectText {
        postgres: "SELECT m.id, m.contact_key, m.length, m.owner FROM archives a CROSS JOIN LATERAL (\
            SELECT owner, id, contact_key, length(stanza) AS length FROM archive_messages \
            WHERE owner = a.id AND id > a.counted OFFSET 0) m WHERE a.id IN ",
        ..DialectText::same(
            "SELECT m.id, m.contact_key, length(m.stanza), m.owner FROM archives a \
             JOIN archive_messages m ON m.owner = a.id AND m.id > a.counted WHERE a.id IN ",
        )
    },
    "",
);

/// Values: bytes, id, archive.
const SETTLE: &str = "UPDATE archives SET bytes = ?, counted = ? WHERE id = ?";

/// Values: bytes, archive.
const ADD: &str = "UPDATE archives SET bytes = bytes + ? WHERE id = ?";

/// Values: bytes, bytes, archive.
const TAKE: &str = "UPDATE archives SET bytes = CASE WHEN bytes > ? THEN bytes - ? ELSE 0 END WHERE id = ?";

/// Values: archive, contact's key.
const SHARE: &str = "SELECT bytes FROM archive_shares WHERE owner = ? AND contact_key = ?";

/// Values: archive.
const LARGEST: &str =
    "SELECT contact_key FROM archive_shares WHERE owner = ? AND bytes > 0 ORDER BY bytes DESC LIMIT 1";

/// Values: bytes, archive, contact's key.
const ADD_SHARE: &str = "UPDATE archive_shares SET bytes = bytes + ? WHERE owner = ? AND contact_key = ?";

/// Values: archive, contact's key, bytes.
const INSERT_SHARE: &str = "INSERT INTO archive_shares (owner, contact_key, bytes) SELECT ?, ?, ?";

/// Values: bytes, bytes, archive, contact's key.
const TAKE_SHARE: &str = "UPDATE archive_shares SET bytes = CASE WHEN bytes > ? THEN bytes - ? ELSE 0 END WHERE owner = ? AND contact_key = ?";

/// Values: archive, contact's key.
const REMOVE_SHARE: &str = "DELETE FROM archive_shares WHERE owner = ? AND contact_key = ?";

/// Values: archive.
const OLDEST: &str =
    "SELECT id, contact_key, length(stanza) FROM archive_messages WHERE owner = ? ORDER BY id LIMIT 100";

/// Values: archive, contact's key.
const OLDEST_OF: DialectText = DialectText {
    sqlite: "SELECT m.id, m.contact_key, length(m.stanza) FROM archive_conversations AS c CROSS JOIN archive_messages AS m \
        WHERE c.owner = ? AND c.contact_key = ? \
        AND m.owner = c.owner AND m.id >= c.stretch << 43 AND m.id <= (c.stretch << 43) + 8796093022207 \
        AND m.contact_key = c.contact_key ORDER BY c.stretch, m.id LIMIT 100",
    ..DialectText::same(
        "SELECT id, contact_key, length(stanza) FROM archive_messages \
         WHERE owner = ? AND contact_key = ? ORDER BY id LIMIT 100",
    )
};

/// Values: archive, id.
const REMOVE: &str = "DELETE FROM archive_messages WHERE owner = ? AND id = ?";

/// Values: archive, contact's key, stretch.
const REMOVE_NOTES_OF: &str = "DELETE FROM archive_conversations WHERE owner = ? AND contact_key = ? AND stretch < ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        ARCHIVE,
        COUNTED,
        ARCHIVES,
        UNCOUNTED,
        SETTLE,
        ADD,
        TAKE,
        SHARE,
        LARGEST,
        ADD_SHARE,
        INSERT_SHARE,
        TAKE_SHARE,
        REMOVE_SHARE,
        OLDEST,
        OLDEST_OF,
        REMOVE,
        REMOVE_NOTES_OF
    ]
}
