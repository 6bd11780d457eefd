//! The operations of [`RoomStore`](crate::RoomStore).

use super::connection::{Row, SqlConnection, SqlValue, account_values, all, one};
use super::dialect::{DialectText, locking};
use super::many::{Among, Rows};
use crate::{Affiliated, Affiliation, ListedRoom, RoomDocument, StoreError, StoredRoom};
use rookery_jid::{Jid, JidRef};
use std::collections::BTreeMap;

pub(crate) fn list(c: &mut dyn SqlConnection, host: &str) -> Result<Vec<ListedRoom>, StoreError> {
    all(c, LIST, &[SqlValue::Text(host)], |row| {
        Ok(ListedRoom {
            room: address(row, row.text(0)?, host)?,
            name: row.text(1)?.to_owned(),
            is_public: row.integer(2)? != 0,
            creator: creator(row, 3)?,
        })
    })
}

fn creator(row: &dyn Row, column: usize) -> Result<Option<Jid>, StoreError> {
    row.optional_text(column)?.is_some().then(|| row.jid(column)).transpose()
}

pub(crate) fn load(c: &mut dyn SqlConnection, room: JidRef<'_>) -> Result<Option<StoredRoom>, StoreError> {
    let document = |row: &dyn Row| {
        let document = RoomDocument {
            name: row.text(1)?.to_owned(),
            is_public: row.integer(2)? != 0,
            config: row.bytes(3)?.to_vec(),
            subject: row.optional_bytes(4)?.map(<[u8]>::to_vec),
            vcard: row.optional_bytes(5)?.map(<[u8]>::to_vec),
            of_users: Vec::new(),
            creator: creator(row, 6)?,
            archive_days: row.number(7)?,
        };
        Ok((row.integer(0)?, document))
    };
    let Some((id, mut document)) = one(c, LOAD, &account_values(room), document)? else { return Ok(None) };
    document.of_users = all(c, OF_USERS, &[SqlValue::Integer(id)], |row| Ok((row.jid(0)?, row.bytes(1)?.to_vec())))?;
    let affiliations = all(c, AFFILIATIONS, &[SqlValue::Integer(id)], |row| {
        let number = row.integer(1)?;
        let affiliation =
            affiliation_of(number).ok_or_else(|| row.corrupt(format!("{number} isn't an affiliation")))?;
        let optional = |column| Ok::<_, StoreError>(row.optional_text(column)?.map(str::to_owned));
        Ok(Affiliated { user: row.jid(0)?, affiliation, nick: optional(2)?, reason: optional(3)? })
    })?;
    Ok(Some(StoredRoom { document, affiliations }))
}

pub(crate) fn put(c: &mut dyn SqlConnection, room: JidRef<'_>, document: &RoomDocument) -> Result<(), StoreError> {
    let bytes = |bytes| if let Some(bytes) = bytes { SqlValue::Bytes(bytes) } else { SqlValue::Null };
    let [domain, local] = account_values(room);
    let values = [
        SqlValue::Text(&document.name),
        SqlValue::flag(document.is_public),
        SqlValue::Bytes(&document.config),
        bytes(document.subject.as_deref()),
        bytes(document.vcard.as_deref()),
        document.creator.as_ref().map_or(SqlValue::Null, |creator| SqlValue::Text(creator.bare_str())),
        SqlValue::number(document.archive_days),
        domain,
        local,
    ];
    if c.execute(UPDATE, &values)? == 0 {
        c.execute(INSERT, &values)?;
    }
    let room = ID.on(c.dialect());
    let Some(id) = one(c, room, &[domain, local], |row| row.integer(0))? else { return Ok(()) };
    let id = SqlValue::Integer(id);
    c.execute(REMOVE_OF_USERS, &[id])?;
    let rows = (0..).zip(&document.of_users).map(|(place, (user, document))| {
        [id, SqlValue::number(place), SqlValue::Text(user.bare_str()), SqlValue::Bytes(document)]
    });
    INSERT_OF_USERS.insert(c, &rows.collect::<Vec<_>>())
}

pub(crate) fn affiliate(
    c: &mut dyn SqlConnection,
    room: JidRef<'_>,
    changes: &[Affiliated],
) -> Result<bool, StoreError> {
    let head = ID.on(c.dialect());
    let Some(id) = one(c, head, &account_values(room), |row| row.integer(0))? else { return Ok(false) };
    let id = SqlValue::Integer(id);
    let text = |text| if let Some(text) = text { SqlValue::Text(text) } else { SqlValue::Null };
    // Of several changes of one user, the last holds.
    let changes: BTreeMap<_, _> = changes.iter().map(|change| (change.user.bare_str(), change)).collect();
    let users: Vec<_> = changes.keys().map(|user| SqlValue::Text(user)).collect();
    REMOVE_AFFILIATIONS.execute(c, (&[id], &users, &[]))?;
    let stay = changes.iter().filter(|(_, change)| change.affiliation != Affiliation::None);
    let rows = stay.map(|(user, change)| {
        let affiliation = SqlValue::Integer(number(change.affiliation));
        [id, SqlValue::Text(user), affiliation, text(change.nick.as_deref()), text(change.reason.as_deref())]
    });
    INSERT_AFFILIATIONS.insert(c, &rows.collect::<Vec<_>>())?;
    Ok(true)
}

pub(crate) fn remove(c: &mut dyn SqlConnection, room: JidRef<'_>) -> Result<bool, StoreError> {
    Ok(c.execute(REMOVE, &account_values(room))? > 0)
}

/// Removes a user from all rooms, since the account is removed.
pub(crate) fn forget(c: &mut dyn SqlConnection, user: JidRef<'_>) -> Result<(), StoreError> {
    c.execute(FORGET, &[SqlValue::Text(user.bare_str())])?;
    c.execute(FORGET_OF_USER, &[SqlValue::Text(user.bare_str())])?;
    c.execute(FORGET_CREATOR, &[SqlValue::Text(user.bare_str())]).map(drop)
}

pub(crate) fn known_in(c: &mut dyn SqlConnection, user: JidRef<'_>) -> Result<u64, StoreError> {
    let user = SqlValue::Text(user.bare_str());
    let count = one(c, KNOWN_IN, &[user, user], |row| row.integer(0))?;
    Ok(count.map_or(0, |count| u64::try_from(count).unwrap_or_default()))
}

fn address(row: &dyn Row, local: &str, host: &str) -> Result<Jid, StoreError> {
    Jid::new(Some(local), host, None).map_err(|error| row.corrupt(format!("the room {local:?} of {host}: {error}")))
}

fn number(affiliation: Affiliation) -> i64 {
    match affiliation {
        Affiliation::Outcast => -1,
        Affiliation::None => 0,
        Affiliation::Member => 1,
        Affiliation::Admin => 2,
        Affiliation::Owner => 3,
    }
}

fn affiliation_of(found: i64) -> Option<Affiliation> {
    [Affiliation::Outcast, Affiliation::Member, Affiliation::Admin, Affiliation::Owner]
        .into_iter()
        .find(|affiliation| number(*affiliation) == found)
}

/// Values: host.
const LIST: &str = "SELECT localpart, name, is_public, creator FROM rooms WHERE host = ? ORDER BY localpart";

/// Values: host, localpart.
const ID: DialectText = locking!("SELECT id FROM rooms WHERE host = ? AND localpart = ?");

/// Values: host, localpart.
const LOAD: &str = "SELECT id, name, is_public, config, subject, vcard, creator, archive_days FROM rooms WHERE host = ? AND localpart = ?";

/// Values: room.
const AFFILIATIONS: &str =
    "SELECT member, affiliation, nick, reason FROM room_affiliations WHERE room = ? ORDER BY member";

/// Values: name, public, configuration, subject, vCard, creator, days in the archive, host,
/// localpart.
const UPDATE: &str = "\
    UPDATE rooms SET name = ?, is_public = ?, config = ?, subject = ?, vcard = ?, creator = ?, archive_days = ? \
    WHERE host = ? AND localpart = ?";

/// Values: as for [`UPDATE`].
const INSERT: &str = "\
    INSERT INTO rooms (name, is_public, config, subject, vcard, creator, archive_days, host, localpart) \
    SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?";

/// Values: host, localpart.
const REMOVE: &str = "DELETE FROM rooms WHERE host = ? AND localpart = ?";

/// Values: room, users.
static REMOVE_AFFILIATIONS: Among = Among::new("DELETE FROM room_affiliations WHERE room = ? AND member IN ", "");

/// Values of a row: room, user, affiliation, nick, reason.
static INSERT_AFFILIATIONS: Rows =
    Rows::new("INSERT INTO room_affiliations (room, member, affiliation, nick, reason) VALUES", "(?, ?, ?, ?, ?)");

/// Values: user.
const FORGET: &str = "DELETE FROM room_affiliations WHERE member = ?";

/// Values: room.
const OF_USERS: &str = "SELECT member, document FROM room_users WHERE room = ? ORDER BY place";

/// Values: room.
const REMOVE_OF_USERS: &str = "DELETE FROM room_users WHERE room = ?";

/// Values of a row: room, place, user, document.
static INSERT_OF_USERS: Rows =
    Rows::new("INSERT INTO room_users (room, place, member, document) VALUES", "(?, ?, ?, ?)");

/// Values: user.
const FORGET_OF_USER: &str = "DELETE FROM room_users WHERE member = ?";

/// Values: user.
const FORGET_CREATOR: &str = "UPDATE rooms SET creator = NULL WHERE creator = ?";

/// Values: user, user.
const KNOWN_IN: &str = "\
    SELECT COUNT(*) FROM (\
        SELECT room FROM room_affiliations WHERE member = ? UNION SELECT room FROM room_users WHERE member = ?) AS known";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        LIST,
        ID,
        LOAD,
        AFFILIATIONS,
        UPDATE,
        INSERT,
        REMOVE,
        REMOVE_AFFILIATIONS,
        INSERT_AFFILIATIONS,
        FORGET,
        OF_USERS,
        REMOVE_OF_USERS,
        INSERT_OF_USERS,
        FORGET_OF_USER,
        FORGET_CREATOR,
        KNOWN_IN
    ]
}
