//! Work of a room other than stanzas: operators' requests, and requests that continue once the
//! store has answered.

use rookery_hub::failure::condition;
use rookery_hub::{Iq, QuestionReply, World};
use rookery_jid::Jid;
use rookery_store::StoreError;
use rookery_stream::error::Condition;
use serde::{Deserialize, Serialize};

/// A piece of a room's work other than a stanza.
#[derive(Debug)]
pub(super) struct RoomWork {
    /// The bare JID of the room.
    pub room: Jid,
    pub what: RoomTask,
}

/// The kinds of such work.
#[derive(Debug)]
pub(super) enum RoomTask {
    /// To describe the room and its occupants.
    Describe(QuestionReply<FoundRoom<Described>>),
    /// To apply these settings; with an owner, to create the room first.
    Arrange(WantedSettings, Option<Jid>, QuestionReply<FoundRoom<Arranged>>),
    /// To list affiliations: only those after this user, and at most this many.
    ListAffiliations(Option<Jid>, usize, QuestionReply<FoundRoom<Vec<AffiliationView>>>),
    /// To give a user an affiliation.
    SetAffiliation(AffiliationView, QuestionReply<FoundRoom<AffiliationSet>>),
    /// To destroy the room, for a reason.
    Destroy(Option<String>, QuestionReply<FoundRoom<()>>),
    /// To continue a user's request to register, given the number of rooms that know the user.
    Register { iq: Iq, known_in: u64 },
}

/// The answer of a room to an operator; `None` if there is no such room.
pub(super) type FoundRoom<T> = Result<Option<T>, StoreError>;

impl RoomWork {
    /// Answers that there is no such room, or that the store failed to load it.
    pub(super) fn without_room(self, world: &mut World, failed: Option<StoreError>) {
        match self.what {
            RoomTask::Describe(reply) => reply.answer(world, failed.map_or(Ok(None), Err)),
            RoomTask::Arrange(_, _, reply) => reply.answer(world, failed.map_or(Ok(None), Err)),
            RoomTask::ListAffiliations(_, _, reply) => reply.answer(world, failed.map_or(Ok(None), Err)),
            RoomTask::SetAffiliation(_, reply) => reply.answer(world, failed.map_or(Ok(None), Err)),
            RoomTask::Destroy(_, reply) => reply.answer(world, failed.map_or(Ok(None), Err)),
            RoomTask::Register { iq, .. } => {
                let condition = failed.as_ref().map_or(Condition::ItemNotFound, condition);
                world.reply_error(&iq, condition);
            }
        }
    }
}

/// The counts by which operators find the largest rooms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Its bare JID.
    pub room: Jid,
    /// Sessions in it; each gets every message.
    pub sessions: usize,
    /// Occupants, counted by nick.
    pub occupants: usize,
    /// Accounts with an affiliation.
    pub affiliations: usize,
}

/// A room as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Its name for display.
    pub name: String,
    /// The description that its owner wrote; empty if there is none.
    pub description: String,
    /// True if lists of the service's rooms show it (XEP-0045 §6.3).
    pub is_public: bool,
    /// True if it stays when all occupants have left.
    pub is_persistent: bool,
    /// True if only members may enter.
    pub is_members_only: bool,
    /// Users with an affiliation.
    pub affiliations: usize,
    /// The occupants, by nick.
    pub occupants: Vec<OccupantView>,
}

/// Settings of a room; `None` leaves one unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedSettings {
    /// Its name for display.
    pub name: Option<String>,
    /// The new description; an empty text removes it.
    pub description: Option<String>,
    /// True to show it in lists of the service's rooms.
    pub is_public: Option<bool>,
    /// True if it stays when all occupants have left.
    pub is_persistent: Option<bool>,
    /// True if only members may enter.
    pub is_members_only: Option<bool>,
}

/// The outcome of changing a room's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arranged {
    /// The settings are applied and stored.
    Done,
    /// A text is longer than texts of rooms may be.
    TooLong,
    /// The room that was to be created exists already.
    Exists,
    /// No further room is allowed, for this reason.
    Full(String),
}

/// An occupant as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OccupantView {
    /// The nick, which the sessions below share.
    pub nick: String,
    /// The full JIDs of its sessions.
    pub sessions: Vec<Jid>,
    /// The role: `visitor`, `participant` or `moderator`.
    pub role: String,
    /// The affiliation: `owner`, `admin`, `member` or `none`.
    pub affiliation: String,
}

/// A user's affiliation as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AffiliationView {
    /// The bare JID of the user.
    pub user: Jid,
    /// The affiliation: `owner`, `admin`, `member`, `none` or `outcast`.
    pub affiliation: String,
    /// The reason, if one was given.
    pub reason: Option<String>,
}

/// The outcome of giving a user an affiliation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AffiliationSet {
    /// The affiliation is changed and stored.
    Done,
    /// There is no such affiliation.
    Unknown,
    /// The room would have no owner.
    NoOwner,
    /// The lists of the room are full.
    Full,
}
