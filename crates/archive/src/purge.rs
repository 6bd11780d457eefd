//! Empties an archive for an operator. The home of its owner does it, since messages may be
//! waiting there to be written: they are dropped, too.

use rookery_hub::{Question, QuestionReply, World};
use rookery_jid::Jid;
use rookery_store::StoreError;
use serde::{Deserialize, Serialize};

use super::recorder::write;
use super::sweep;

/// The request to empty an archive, which goes to the home of its owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Purge {
    /// The bare JID of the account.
    pub owner: Jid,
}

impl Question for Purge {
    const NAME: &'static str = "archive purge";
    const PATIENCE_MS: u64 = 60_000;
    type Answer = Result<(), StoreError>;

    fn ask(self, world: &mut World, reply: QuestionReply<Self::Answer>) {
        write(world);
        let purged = world.stores.archive.purge(self.owner.as_ref());
        world.wait(purged, move |world, purged| reply.answer(world, purged));
        sweep::clear(world);
    }
}
