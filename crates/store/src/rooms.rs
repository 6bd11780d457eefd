//! Persistent rooms (XEP-0045 §10.1): configuration, subject, and affiliations.

use crate::Pending;
use rookery_jid::{Jid, JidRef};

/// The persistent rooms of all services. Rooms and affiliated users are identified by their bare
/// JIDs.
pub trait RoomStore: Send + Sync {
    /// Returns all rooms of a service, in the order of their localparts.
    fn list(&self, host: &str) -> Pending<Vec<ListedRoom>>;

    /// Returns everything about a room; `None` if it doesn't exist.
    fn load(&self, room: JidRef<'_>) -> Pending<Option<StoredRoom>>;

    /// Creates a room, or replaces all its data except its affiliations.
    fn put(&self, room: JidRef<'_>, document: RoomDocument) -> Pending<()>;

    /// Gives users an affiliation, or removes it with [`Affiliation::None`]: all of them or, on an
    /// error, none. Returns `false` if there is no such room.
    fn affiliate(&self, room: JidRef<'_>, changes: Vec<Affiliated>) -> Pending<bool>;

    /// Removes a room with all its data. Returns whether it was there.
    fn remove(&self, room: JidRef<'_>) -> Pending<bool>;

    /// Returns the number of rooms of all services that have data about a user, such as an
    /// affiliation.
    fn known_in(&self, user: JidRef<'_>) -> Pending<u64>;
}

/// A long-lived association of a user with a room (XEP-0045 §5.2), from the least to the most
/// rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Affiliation {
    /// May not enter.
    Outcast,
    /// The absence of an affiliation.
    None,
    /// On the member list.
    Member,
    /// Manages members and moderators.
    Admin,
    /// Decides about the room.
    Owner,
}

/// A user's affiliation with a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affiliated {
    /// The bare JID.
    pub user: Jid,
    /// The user's long-lived relation to the room.
    pub affiliation: Affiliation,
    /// The reserved nick, if there is one (XEP-0045 §7.10).
    pub nick: Option<String>,
    /// The reason, if one was given.
    pub reason: Option<String>,
}

/// A room as lists of rooms show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRoom {
    /// The room's bare JID.
    pub room: Jid,
    /// Its name for display.
    pub name: String,
    /// True if lists of the service's rooms show it (XEP-0045 §6.3).
    pub is_public: bool,
    /// The bare JID of the creator, unless that account was removed.
    pub creator: Option<Jid>,
}

/// The data of a room except its affiliations. The store doesn't read the documents, which are the
/// caller's.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RoomDocument {
    /// Its name for display.
    pub name: String,
    /// True if lists of the service's rooms show it (XEP-0045 §6.3).
    pub is_public: bool,
    /// The bare JID of the creator, among whose rooms it counts; removed together with that
    /// account.
    pub creator: Option<Jid>,
    /// The configuration.
    pub config: Vec<u8>,
    /// Days after which messages leave the room's archive, unless its domain sets fewer; 0 for
    /// never.
    pub archive_days: u64,
    /// The subject, if one was ever set: a stanza with a stamp.
    pub subject: Option<Vec<u8>>,
    /// The vCard with the avatar, if there is one.
    pub vcard: Option<Vec<u8>>,
    /// The room's data about single users, in the room's order, each with the bare JID; removed
    /// together with the account.
    pub of_users: Vec<(Jid, Vec<u8>)>,
}

/// A room as the store has it, from which its home makes a live one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRoom {
    /// Everything but the affiliations.
    pub document: RoomDocument,
    /// All users with an affiliation, in the order of their addresses; never [`Affiliation::None`].
    pub affiliations: Vec<Affiliated>,
}
