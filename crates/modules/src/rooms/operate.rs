//! Describes and destroys rooms for operators, and lets a room go on with a request once the store
//! has answered. A request comes to the room's home shard as a letter, and waits for its turn there
//! like a stanza.

use rookery_hub::{ErrandReply, Iq, World};
use rookery_jid::Jid;
use rookery_modkit::asker::condition;
use rookery_store::StoreError;
use rookery_stream::error::Condition;
use rookery_xml::{Element, ns};

use super::role::affiliation_name;
use super::room::Room;

/// A request to a room.
pub(crate) struct Work {
    /// The bare JID of the room.
    pub room: Jid,
    /// What is asked; the answer is `None` where there is no such room.
    pub what: What,
}

/// What may be asked of a room.
pub(crate) enum What {
    /// What it is, and who is there.
    Describe(ErrandReply<Result<Option<Described>, StoreError>>),
    /// To be no more, for a reason.
    Destroy(Option<String>, ErrandReply<Result<Option<()>, StoreError>>),
    /// To go on with a user's request to register, now that it is known how many rooms know the
    /// user.
    Register { iq: Iq, known_in: u64 },
}

/// A room as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name for people.
    pub name: String,
    /// Whether everybody may find it.
    pub is_public: bool,
    /// Whether it stays when everybody has left.
    pub is_persistent: bool,
    /// Whether only members may enter.
    pub is_members_only: bool,
    /// Users with an affiliation.
    pub affiliations: usize,
    /// Who is there, by nick.
    pub occupants: Vec<Inside>,
}

/// An occupant as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// The nick.
    pub nick: String,
    /// The full JIDs of its sessions.
    pub sessions: Vec<Jid>,
    /// Its role.
    pub role: &'static str,
    /// Its affiliation.
    pub affiliation: &'static str,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("room", &self.room).finish_non_exhaustive()
    }
}

impl Work {
    /// There is no such room, or the store failed to bring it.
    pub(crate) fn without_room(self, world: &mut World, failed: Option<StoreError>) {
        match self.what {
            What::Describe(reply) => reply.give(world, failed.map_or(Ok(None), Err)),
            What::Destroy(_, reply) => reply.give(world, failed.map_or(Ok(None), Err)),
            What::Register { iq, .. } => {
                let condition = failed.as_ref().map_or(Condition::ItemNotFound, condition);
                world.reply_error(&iq, condition);
            }
        }
    }
}

impl Room {
    /// Does what an operator asks for.
    pub(crate) fn operated(&mut self, world: &mut World, work: Work) {
        if self.is_over {
            return work.without_room(world, None);
        }
        match work.what {
            What::Describe(reply) => {
                let described = self.described();
                reply.give(world, Ok(Some(described)));
            }
            What::Destroy(reason, reply) => self.end(world, reason.as_deref(), reply),
            What::Register { iq, known_in } => {
                if let Err(error) = self.register_knowing(world, &iq, Some(known_in)) {
                    world.reply_error(&iq, error);
                }
            }
        }
        self.keep_changes(world);
    }

    fn described(&self) -> Described {
        let mut occupants: Vec<_> = self
            .occupants
            .iter()
            .map(|(_, occupant)| Inside {
                nick: occupant.nick().to_owned(),
                sessions: occupant.seats.iter().map(|seat| seat.jid.clone()).collect(),
                role: occupant.role.name(),
                affiliation: affiliation_name(occupant.affiliation),
            })
            .collect();
        occupants.sort_unstable_by(|a, b| a.nick.cmp(&b.nick));
        Described {
            name: self.name().to_owned(),
            is_public: self.config.is_public,
            is_persistent: self.config.is_persistent,
            is_members_only: self.config.is_members_only,
            affiliations: self.affiliations.len(),
            occupants,
        }
    }

    fn end(&mut self, world: &mut World, reason: Option<&str>, reply: ErrandReply<Result<Option<()>, StoreError>>) {
        let destroy = Element::new("destroy", ns::MUC_USER);
        let destroy = match reason {
            Some(reason) => destroy.with_child(Element::new("reason", ns::MUC_USER).with_text(reason)),
            None => destroy,
        };
        self.destroy_with(world, &destroy, move |world, removed| reply.give(world, removed.map(Some)));
    }
}
