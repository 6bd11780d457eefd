//! Loads the newest messages of an archive, with which a room that is loaded again begins its
//! history for entering users (XEP-0045 §7.2.13).

use rookery_fanout::Packet;
use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::ArchiveQuery;

use super::id;
use super::recorder::write;

/// A message of an archive, as it was recorded.
#[derive(Debug)]
pub struct NewestMessage {
    /// Its id, as clients see it.
    pub id: String,
    /// The time when it arrived, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The stanza.
    pub packet: Packet,
}

/// Passes the newest messages of the archive of an account or room whose home this shard is to
/// `then`, oldest first, limited in number and bytes. There are none if the store fails, which is
/// logged.
pub fn newest(
    world: &mut World,
    owner: &Jid,
    (limit, max_bytes): (usize, usize),
    then: impl FnOnce(&mut World, Vec<NewestMessage>) + 'static,
) {
    // Very recent messages may still wait to be written.
    write(world);
    let query = ArchiveQuery { last: true, limit, max_bytes, ..ArchiveQuery::default() };
    let page = world.stores.archive.page(owner.as_ref(), query);
    let owner = owner.clone();
    world.wait(page, move |world, page| {
        let page = page.unwrap_or_else(|error| {
            world.store_failed("reading an archive", &owner, &error);
            None
        });
        let read = |(id, stanza): (u64, Vec<u8>)| {
            let packet = Packet::from_bytes(&stanza).ok()?;
            Some(NewestMessage { id: id::text(id), unix_ms: id::time(id), packet })
        };
        then(world, page.unwrap_or_default().messages.into_iter().filter_map(read).collect());
    });
}
