//! Work of a room other than stanzas: operators' requests, and requests that continue once the
//! store has answered.

use rookery_hub::failure::condition;
use rookery_hub::{Iq, QuestionReply, World};
use rookery_jid::Jid;
use rookery_store::StoreError;
use rookery_stream::error::Condition;
use serde::{Deserialize, Serialize};

/// Work of a room that is no stanza.
#[derive(Debug)]
pub(super) struct RoomWork {
    /// The bare JID of the room.
    pub room: Jid,
    pub what: RoomTask,
}

/// The kinds of such work.
#[derive(Debug)]
pub(super) enum RoomTask {
    /// To say what the room is, and who is there.
    Describe(QuestionReply<FoundRoom<Described>>),
    /// To have these settings; with an owner, to be made first.
    Arrange(WantedSettings, Option<Jid>, QuestionReply<FoundRoom<Arranged>>),
    /// To say who has which affiliation: behind this user, so many at most.
    ListAffiliations(Option<Jid>, usize, QuestionReply<FoundRoom<Vec<AffiliationView>>>),
    /// To give a user an affiliation.
    SetAffiliation(AffiliationView, QuestionReply<FoundRoom<AffiliationSet>>),
    /// To be no more, for a reason.
    Destroy(Option<String>, QuestionReply<FoundRoom<()>>),
    /// To go on with a user's request to register, now that it is known how many rooms know the
    /// user.
    Register { iq: Iq, known_in: u64 },
}

/// The answer of a room to an operator; `None` where there is no such room.
pub(super) type FoundRoom<T> = Result<Option<T>, StoreError>;

impl RoomWork {
    /// Answers that there is no such room, or that the store failed to bring it.
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

/// The size of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Its bare JID.
    pub room: Jid,
    /// Sessions in it: each gets what is said.
    pub sessions: usize,
    /// Those in it, by their nicks.
    pub occupants: usize,
    /// Accounts with an affiliation.
    pub affiliations: usize,
}

/// A room as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Its name for people.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Set if everybody may find it.
    pub is_public: bool,
    /// Set if it stays when everybody has left.
    pub is_persistent: bool,
    /// Set if only members may enter.
    pub is_members_only: bool,
    /// Users with an affiliation.
    pub affiliations: usize,
    /// The occupants, by nick.
    pub occupants: Vec<OccupantView>,
}

/// Settings of a room; those that are `None` stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedSettings {
    /// Its name for people.
    pub name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// True if everybody may find it.
    pub is_public: Option<bool>,
    /// True if it stays when everybody has left.
    pub is_persistent: Option<bool>,
    /// True if only members may enter.
    pub is_members_only: Option<bool>,
}

/// The outcome of changing a room's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arranged {
    /// It is done, and kept.
    Done,
    /// A text is longer than texts of rooms may be.
    TooLong,
    /// The room that was to be made is there already.
    Exists,
    /// There can't be one more room, for this reason.
    Full(String),
}

/// An occupant as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OccupantView {
    /// The nick.
    pub nick: String,
    /// The full JIDs of its sessions.
    pub sessions: Vec<Jid>,
    /// Its role.
    pub role: String,
    /// Its affiliation.
    pub affiliation: String,
}

/// A user's affiliation as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AffiliationView {
    /// The bare JID of the user.
    pub user: Jid,
    /// The affiliation: `owner`, `admin`, `member`, `none` or `outcast`.
    pub affiliation: String,
    /// The reason, if somebody gave one.
    pub reason: Option<String>,
}

/// The outcome of giving a user an affiliation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AffiliationSet {
    /// It is done, and kept.
    Done,
    /// There is no such affiliation.
    Unknown,
    /// The room would have no owner.
    NoOwner,
    /// The lists of the room are full.
    Full,
}
