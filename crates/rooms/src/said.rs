//! Notes the recent messages of rooms for the nodes that take over if this one dies, so that a
//! message that is sent again keeps its id.
//!
//! A room notes every message before it is acknowledged. If the room's home dies, the fate of an
//! unacknowledged message is unknown: its sender, or the sender's node, sends it again, and the
//! room passes it on once more, under the same id. The archive may have a message of which the dead
//! home could not leave a note any more, so the next home also recalls the last messages there.

use std::collections::VecDeque;

use rookery_base::Map;
use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Memo, World};
use rookery_jid::Jid;
use rookery_xml::ns;
use serde::{Deserialize, Serialize};

/// The recent messages in the rooms of a shard, including those noted by nodes that have died
/// since.
#[derive(Debug, Default)]
pub(super) struct SaidMessages {
    /// The ids of messages, by room and mark.
    ids: Map<(Jid, u64), String>,
    /// The times at which they were noted, oldest first.
    noted: VecDeque<(u64, Jid, u64)>,
}

/// The id of a message that a room has passed on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NotedMessage {
    room: Jid,
    mark: u64,
    id: String,
}

impl Memo for NotedMessage {
    const NAME: &'static str = "rooms said";

    fn open(self, world: &mut World) {
        note(world, &self.room, self.mark, &self.id);
    }
}

/// Returns the mark by which a message in a room is recognised, as the room sends it or as its
/// archive has it; `None` if no other node could look for it. The pseudonym in it tells senders
/// apart: the nick may have changed until a message is sent again.
pub(super) fn mark(world: &World, room: &Jid, seen: &Packet) -> Option<u64> {
    if !world.has_journal() || seen.id().is_none() {
        return None;
    }
    let essence = seen.without_children(|child| child.is("delay", ns::DELAY) || child.is("x", ns::MUC_USER));
    let essence = Packet::from_session(essence.stanza(), StanzaType::Groupchat, room.as_str(), None);
    std::str::from_utf8(essence.bytes()).ok().map(|text| world.common_hash(text))
}

/// Returns the id under which a message was passed on before, here or by a node that has died.
pub(super) fn id_before(world: &World, room: &Jid, packet: &Packet, mark: Option<u64>) -> Option<String> {
    let mark = mark.filter(|_| packet.is_again())?;
    world.state::<SaidMessages>().ids.get(&(room.clone(), mark)).cloned()
}

/// Notes the id of a message for a while.
pub(super) fn note(world: &mut World, room: &Jid, mark: u64, id: &str) {
    let memo = NotedMessage { room: room.clone(), mark, id: id.to_owned() };
    world.note_memo(room.as_str(), mark, Some(&memo));
    recall(world, room, mark, id);
}

/// Remembers for a while the id of a message that the archive has, where the next node would find
/// it as well.
pub(super) fn recall(world: &mut World, room: &Jid, mark: u64, id: &str) {
    let noted_ms = world.time();
    let said = world.state_mut::<SaidMessages>();
    if said.ids.insert((room.clone(), mark), id.to_owned()).is_some() {
        return;
    }
    said.noted.push_back((noted_ms, room.clone(), mark));
    if said.noted.len() > MOST {
        forget_first(world);
    }
}

/// Hands on the messages of rooms that the shard gives up.
pub(super) fn hand_on(world: &mut World) {
    let all = std::mem::take(&mut world.state_mut::<SaidMessages>().noted);
    for (noted_ms, room, mark) in all {
        if !world.parts_with(room.as_str()) {
            world.state_mut::<SaidMessages>().noted.push_back((noted_ms, room, mark));
        } else if let Some(id) = world.state_mut::<SaidMessages>().ids.remove(&(room.clone(), mark)) {
            world.note_memo::<NotedMessage>(room.as_str(), mark, None);
            world.hand_on(&room.to_string(), &NotedMessage { room, mark, id });
        }
    }
}

/// Drops the messages that no client can send again any more.
pub(super) fn forget(world: &mut World) {
    let until_ms = world.time().saturating_sub(world.longest_absence_ms());
    while world.state::<SaidMessages>().noted.front().is_some_and(|(noted_ms, ..)| until_ms > *noted_ms) {
        forget_first(world);
    }
}

fn forget_first(world: &mut World) {
    let said = world.state_mut::<SaidMessages>();
    if let Some((_, room, mark)) = said.noted.pop_front() {
        said.ids.remove(&(room.clone(), mark));
        world.note_memo::<NotedMessage>(room.as_str(), mark, None);
    }
}

/// Milliseconds between two cleanups.
pub(super) const PERIOD_MS: u64 = 5_000;
/// The most messages that are noted, per shard.
pub(super) const MOST: usize = 1 << 16;
