//! Describes and destroys rooms for operators, and lets a room continue a request once the store
//! has answered. Operators ask a room's home shard; their requests wait for their turn there like
//! a stanza.

use rookery_hub::{Question, QuestionReply, World};
use rookery_jid::Jid;
use rookery_xml::{Element, ns};
use serde::{Deserialize, Serialize};

use super::actor;
use super::directory::with_list;
use super::role::affiliation_name;
use super::room::Room;
pub use super::work::{Described, OccupantView, Size};
use super::work::{FoundRoom, RoomTask, RoomWork};

/// Asks the home of a room, by its bare JID, for a description and the occupants.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Describe(pub Jid);

impl Question for Describe {
    const NAME: &'static str = "rooms describe";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = FoundRoom<Described>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        ask(world, self.0, reply, RoomTask::Describe);
    }
}

/// Asks the home of a room to destroy it, with a reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Destroy {
    /// The bare JID of the room.
    pub room: Jid,
    /// The reason that is given to the occupants.
    pub reason: Option<String>,
}

impl Question for Destroy {
    const NAME: &'static str = "rooms destroy";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = FoundRoom<()>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let Self { room, reason } = self;
        ask(world, room, reply, |reply| RoomTask::Destroy(reason, reply));
    }
}

/// Asks a shard for its largest rooms by the number of sessions, at most as many as given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Largest(pub usize);

impl Question for Largest {
    const NAME: &'static str = "rooms largest";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = Vec<Size>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let sizes = world.state::<actor::Actors>().largest(self.0);
        reply.answer(world, sizes);
    }
}

pub(super) fn ask<T: Serialize + 'static>(
    world: &mut World,
    room: Jid,
    reply: QuestionReply<FoundRoom<T>>,
    what: impl FnOnce(QuestionReply<FoundRoom<T>>) -> RoomTask + 'static,
) {
    let host = room.domain().to_owned();
    with_list(world, &host, move |world, listed| match listed {
        Ok(()) => actor::operate(world, RoomWork { room, what: what(reply) }),
        Err(error) => reply.answer(world, Err(error)),
    });
}

impl Room {
    /// Does an operator's work, or continues a request.
    pub(super) fn operate(&mut self, world: &mut World, work: RoomWork) {
        if self.is_over {
            return work.without_room(world, None);
        }
        match work.what {
            RoomTask::Describe(reply) => {
                let described = self.describe();
                reply.answer(world, Ok(Some(described)));
            }
            RoomTask::Arrange(wanted, owner, reply) => self.arrange(world, &wanted, owner.is_some(), reply),
            RoomTask::ListAffiliations(after, limit, reply) => {
                let found = self.affiliations_behind(after.as_ref(), limit);
                reply.answer(world, Ok(Some(found)));
            }
            RoomTask::SetAffiliation(wanted, reply) => self.affiliate_for(world, wanted, reply),
            RoomTask::Destroy(reason, reply) => self.end(world, reason.as_deref(), reply),
            RoomTask::Register { iq, known_in } => {
                if let Err(error) = self.register_knowing(world, &iq, Some(known_in)) {
                    world.reply_error(&iq, error);
                }
            }
        }
        self.keep_changes(world);
    }

    fn describe(&self) -> Described {
        let mut occupants: Vec<_> = self
            .occupants
            .iter()
            .map(|(_, occupant)| OccupantView {
                nick: occupant.nick().to_owned(),
                sessions: occupant.seats.iter().map(|seat| seat.jid.clone()).collect(),
                role: occupant.role.name().to_owned(),
                affiliation: affiliation_name(occupant.affiliation).to_owned(),
            })
            .collect();
        occupants.sort_unstable_by(|a, b| a.nick.cmp(&b.nick));
        Described {
            name: self.name().to_owned(),
            description: self.config.description.clone(),
            is_public: self.is_listed(),
            is_persistent: self.config.is_persistent,
            is_members_only: self.config.is_members_only,
            affiliations: self.affiliations.len(),
            occupants,
        }
    }

    fn end(&mut self, world: &mut World, reason: Option<&str>, reply: QuestionReply<FoundRoom<()>>) {
        let destroy = Element::new("destroy", ns::MUC_USER);
        let destroy = match reason {
            Some(reason) => destroy.with_child(Element::new("reason", ns::MUC_USER).with_text(reason)),
            None => destroy,
        };
        self.destroy_with(world, &destroy, move |world, removed| reply.answer(world, removed.map(Some)));
    }
}

/// The time that a room may take to answer an operator, in milliseconds: it may have to be loaded.
pub(super) const PATIENCE_MS: u64 = 10_000;
