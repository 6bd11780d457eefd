//! Messages that may be duplicates, because they were sent to a node that has died and can't be
//! asked any more. Its archive, or its notes of messages under way, show whether it had them: so a
//! message keeps one id, however often it is sent.
//!
//! # Invariants
//!
//! * Only a message with an id of its own (RFC 6120 §8.1.3) can be the same as another one.
//! * Later stanzas for the account wait until the message has been looked up.
//! * A store that is slow or away is asked again for a while. An archive that can't be asked even
//!   then counts as not having the message: chat continues without the database.

use rookery_fanout::Packet;
use rookery_hub::{Notes, World};
use rookery_jid::{Jid, JidRef};
use rookery_store::{ArchiveQuery, StoreError};

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
    let hold = hold.unwrap_or_else(|| world.hold_absent(to.as_ref()));
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
    let Some(essence) = packet.id().map(|_| essence(packet)) else { return then(world, None) };
    let key = mark(world, packet).map(|mark| (owner.clone(), mark));
    let until_ms = world.time() + PATIENCE_MS;
    ask(world, WantedMessage { owner: owner.clone(), with, essence, key, until_ms }, then);
}

/// A message that is looked for.
struct WantedMessage {
    owner: Jid,
    /// The other party of the conversation.
    with: Option<Jid>,
    essence: Vec<u8>,
    /// The archive and the mark of the message.
    key: Option<(Jid, u64)>,
    /// The time until which a store that is slow or away is asked again, in milliseconds.
    until_ms: u64,
}

fn ask(world: &mut World, wanted: WantedMessage, then: impl FnOnce(&mut World, Option<FoundMessage>) + 'static) {
    if let Some(found) = find_here(world, &wanted) {
        return then(world, Some(found));
    }
    // After that, waiting messages are on their way to the archive, with a mark or without.
    recorder::write(world);
    let after = id::at(world.time().saturating_sub(world.longest_absence_ms()));
    let with = wanted.with.clone();
    let query = ArchiveQuery { with, after, last: true, limit: MOST, max_bytes: MOST_BYTES, ..ArchiveQuery::default() };
    let page = world.stores.archive.page(wanted.owner.as_ref(), query);
    world.wait(page, move |world, page| {
        if page.as_ref().is_err_and(StoreError::is_outage) && world.time() < wanted.until_ms && !world.is_stopping() {
            world.after(AGAIN_MS, move |world| ask(world, wanted, then));
            return;
        }
        let messages = page.ok().flatten().map(|page| page.messages).unwrap_or_default();
        let is_same = |stanza: &[u8]| Packet::from_bytes(stanza).is_ok_and(|found| essence(&found) == wanted.essence);
        let archived = messages.into_iter().rev().find(|(_, stanza)| is_same(stanza));
        let archived = archived.map(|(id, _)| FoundMessage { id, is_archived: true });
        let noted = |world: &World| {
            let id = world.state::<KnownIds>().find(wanted.key.as_ref()?)?;
            Some(FoundMessage { id, is_archived: false })
        };
        // Another repetition may have been recorded meanwhile.
        let found = archived.or_else(|| find_here(world, &wanted)).or_else(|| noted(world));
        then(world, found);
    });
}

/// Finds a message that this process has recorded and the store has not confirmed. A store that is
/// slow or away gets it later, under this id.
fn find_here(world: &mut World, wanted: &WantedMessage) -> Option<FoundMessage> {
    let id = recorder::find_marked(world, wanted.key.as_ref()?)?;
    Some(FoundMessage { id, is_archived: true })
}

/// The most messages of the conversation that are searched.
const MOST: usize = 200;
const MOST_BYTES: usize = 1 << 20;
/// The time for which a store that is slow or away is asked, in milliseconds, and the time between
/// two questions. Meanwhile later stanzas for the account wait.
const PATIENCE_MS: u64 = 20_000;
const AGAIN_MS: u64 = 1000;
