//! An archive that is emptied because an operator wants it. The request comes to the home of its owner as a letter, since messages may wait there to be
//! written: they go too.

use rookery_hub::{ErrandReply, World};
use rookery_jid::Jid;
use rookery_store::StoreError;

use super::Archives;

/// A request to empty an archive.
pub(crate) struct Purge {
    /// The bare JID of the account.
    pub owner: Jid,
    /// Hears when it is done.
    pub reply: ErrandReply<Result<(), StoreError>>,
}

impl Purge {
    /// Empties the archive, at the home of its owner.
    pub(super) fn run(self, world: &mut World, archives: &Archives) {
        archives.write(world);
        let purged = world.stores.archive.purge(self.owner.as_ref());
        world.wait(purged, move |world, purged| self.reply.give(world, purged));
    }
}
