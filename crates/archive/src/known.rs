//! Messages that may be duplicates, because they were sent to a node that has died and can't be
//! asked any more. Its archive, or its notes of messages under way, show whether it had them: so a
//! message keeps one id, however often it is sent.
//!
//! # Invariants
//!
//! * Only a message with an id of its own (RFC 6120 §8.1.3) can be the same as another one.
//! * Later stanzas for the account wait until the message has been looked up.
//! * An archive that can't be asked counts as not having the message.

use rookery_fanout::Packet;
use rookery_hub::{Notes, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::ArchiveQuery;

use super::noted::{KnownIds, essence, mark};
use super::{id, recorder};

/// A message as an archive knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundMessage {
    pub id: u64,
    /// True if the archive has it, or will have it once the store is available; otherwise it is to
    /// be recorded under this id.
    pub is_archived: bool,
}

/// Asks the archive of an account for a message, and then delivers it. `keep` records a message
/// under the id that it had before.
pub(super) fn deliver_known(
    world: &mut World,
    packet: &Packet,
    to: JidRef<'_>,
    notes: &Notes,
    keep: fn(&mut World, &Packet, JidRef<'_>, u64),
) {
    let (packet, to, mut notes) = (packet.clone(), to.to_jid(), notes.clone());
    let (hold, with) = (world.hold(to.as_ref()), packet.sender());
    find(world, &to.to_bare(), with, &packet.clone(), move |world, found| {
        if let Some(FoundMessage { id, is_archived: false }) = found {
            keep(world, &packet, to.as_ref(), id);
        }
        notes.found = Some(found.map(|found| id::text(found.id).into_boxed_str()));
        world.deliver_first(hold, &packet, to.as_ref(), notes);
    });
}

/// Asks an archive for a message of a conversation, and runs `then` with the result.
pub(super) fn find(
    world: &mut World,
    owner: &Jid,
    with: Option<Jid>,
    packet: &Packet,
    then: impl FnOnce(&mut World, Option<FoundMessage>) + 'static,
) {
    let Some(wanted) = packet.id().map(|_| essence(packet)) else { return then(world, None) };
    let key = mark(world, packet).map(|mark| (owner.clone(), mark));
    // A store that is slow or away gets it later, under this id.
    if let Some(id) = key.as_ref().and_then(|key| recorder::find_marked(world, key)) {
        return then(world, Some(FoundMessage { id, is_archived: true }));
    }
    let after = id::at(world.time().saturating_sub(world.longest_absence_ms()));
    let query = ArchiveQuery { with, after, last: true, limit: MOST, max_bytes: MOST_BYTES, ..ArchiveQuery::default() };
    let page = world.stores.archive.page(owner.as_ref(), query);
    world.wait(page, move |world, page| {
        let messages = page.ok().flatten().map(|page| page.messages).unwrap_or_default();
        let is_same = |stanza: &[u8]| Packet::from_bytes(stanza).is_ok_and(|found| essence(&found) == wanted);
        let archived = messages.into_iter().rev().find(|(_, stanza)| is_same(stanza));
        let archived = archived.map(|(id, _)| FoundMessage { id, is_archived: true });
        let noted = || {
            let id = world.state::<KnownIds>().find(key.as_ref()?)?;
            Some(FoundMessage { id, is_archived: false })
        };
        let found = archived.or_else(noted);
        then(world, found);
    });
}

/// The most messages of the conversation that are searched.
const MOST: usize = 200;
const MOST_BYTES: usize = 1 << 20;
