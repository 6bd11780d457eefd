//! Lets operators read and change the affiliations of a room. A change is made as if by an owner
//! (XEP-0045 §10), though the operator isn't an occupant: occupants see it, and it is stored.

use rookery_hub::{Question, QuestionReply, World};
use rookery_jid::Jid;
use rookery_store::Affiliation;
use serde::{Deserialize, Serialize};

use super::operate::{PATIENCE_MS, ask};
use super::role::{affiliation_name, affiliation_named};
use super::room::Room;
pub use super::work::{AffiliationSet, AffiliationView};
use super::work::{FoundRoom, RoomTask};

/// Asks the home of a room for its affiliations, in the order of the addresses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ListAffiliations {
    /// The bare JID of the room.
    pub room: Jid,
    /// The user after whom the list begins; `None` for its beginning.
    pub after: Option<Jid>,
    /// The most affiliations to return.
    pub limit: usize,
}

impl Question for ListAffiliations {
    const NAME: &'static str = "rooms affiliations";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = FoundRoom<Vec<AffiliationView>>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let Self { room, after, limit } = self;
        ask(world, room, reply, move |reply| RoomTask::ListAffiliations(after, limit, reply));
    }
}

/// Asks the home of a room to give a user an affiliation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetAffiliation {
    /// The bare JID of the room.
    pub room: Jid,
    /// The user and the affiliation.
    pub wanted: AffiliationView,
}

impl Question for SetAffiliation {
    const NAME: &'static str = "rooms affiliate";
    const PATIENCE_MS: u64 = PATIENCE_MS;
    type Answer = FoundRoom<AffiliationSet>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        let Self { room, wanted } = self;
        ask(world, room, reply, move |reply| RoomTask::SetAffiliation(wanted, reply));
    }
}

impl Room {
    /// Returns affiliations in the form that operators get.
    pub(super) fn affiliations_behind(&self, after: Option<&Jid>, limit: usize) -> Vec<AffiliationView> {
        let behind = self.affiliations.values().filter(|one| after.is_none_or(|after| one.user > *after));
        let shown = behind.map(|one| AffiliationView {
            user: one.user.clone(),
            affiliation: affiliation_name(one.affiliation).to_owned(),
            reason: one.reason.clone(),
        });
        shown.take(limit).collect()
    }

    /// Gives a user an affiliation for an operator.
    pub(super) fn affiliate_for(
        &mut self,
        world: &mut World,
        wanted: AffiliationView,
        reply: QuestionReply<FoundRoom<AffiliationSet>>,
    ) {
        let AffiliationView { user, affiliation, reason } = wanted;
        let Some(affiliation) = affiliation_named(&affiliation) else {
            return reply.answer(world, Ok(Some(AffiliationSet::Unknown)));
        };
        let now = [(user.clone(), affiliation)].into_iter().collect();
        if self.leaves_an_owner(&now).is_err() {
            return reply.answer(world, Ok(Some(AffiliationSet::NoOwner)));
        }
        // §9.1: an outcast reserves nothing.
        let nick = self.affiliations.get(&user).and_then(|before| before.nick.clone());
        let nick = nick.filter(|_| affiliation > Affiliation::None);
        let changes = vec![rookery_store::Affiliated { user, affiliation, nick, reason }];
        if self.has_place_for(&changes).is_err() {
            return reply.answer(world, Ok(Some(AffiliationSet::Full)));
        }
        self.set_affiliations(world, changes.clone(), None, |_, _| {});
        if !self.is_stored() {
            return reply.answer(world, Ok(Some(AffiliationSet::Done)));
        }
        self.affiliate(world, changes, move |world, kept| {
            reply.answer(world, kept.map(|()| Some(AffiliationSet::Done)));
        });
    }
}
