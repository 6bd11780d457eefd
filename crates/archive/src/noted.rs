//! Notes the ids of messages on their way to archives, for the nodes that take over if this one
//! dies, and keeps the notes of nodes that have died.

use std::collections::VecDeque;

use rookery_base::Map;
use rookery_fanout::Packet;
use rookery_hub::{Memo, World};
use rookery_jid::Jid;
use rookery_xml::ns;
use serde::{Deserialize, Serialize};

use super::last_id::LastId;

/// The ids that dead nodes had given to messages and that the store may lack.
#[derive(Debug, Default)]
pub(super) struct KnownIds {
    /// By the archive's owner, and the mark of the message.
    ids: Map<(Jid, u64), u64>,
    /// Oldest first.
    order: VecDeque<(Jid, u64)>,
}

/// The id of a message that is on its way to an archive.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NotedId {
    pub owner: Jid,
    pub mark: u64,
    pub id: u64,
}

impl KnownIds {
    /// Returns the id of the message of an owner that has a mark.
    pub(super) fn find(&self, message: &(Jid, u64)) -> Option<u64> {
        self.ids.get(message).copied()
    }
}

impl Memo for NotedId {
    const NAME: &'static str = "archive id";

    fn open(self, world: &mut World) {
        // This node may die as well before the message is sent again.
        world.note_memo(self.owner.as_str(), self.mark, Some(&self));
        // Later messages get later ids, also if that node's clock was ahead.
        LastId(self.id).open(world);
        let known = world.state_mut::<KnownIds>();
        let key = (self.owner, self.mark);
        if known.ids.insert(key.clone(), self.id).is_none() {
            known.order.push_back(key);
        }
        while world.state::<KnownIds>().order.len() > MOST_KNOWN {
            let known = world.state_mut::<KnownIds>();
            let Some(oldest) = known.order.pop_front() else { return };
            known.ids.remove(&oldest);
            world.note_memo::<Self>(oldest.0.as_str(), oldest.1, None);
        }
    }
}

/// Hands on the notes about messages to accounts that the shard gives away.
pub(super) fn hand_on(world: &mut World) {
    let all = std::mem::take(&mut world.state_mut::<KnownIds>().order);
    for (owner, mark) in all {
        if !world.parts_with(owner.as_str()) {
            world.state_mut::<KnownIds>().order.push_back((owner, mark));
        } else if let Some(id) = world.state_mut::<KnownIds>().ids.remove(&(owner.clone(), mark)) {
            world.note_memo::<NotedId>(owner.as_str(), mark, None);
            world.hand_on(&owner.to_string(), &NotedId { owner, mark, id });
        }
    }
}

/// Returns the mark by which a message can be recognised; `None` if no node would look for it.
pub(super) fn mark(world: &World, packet: &Packet) -> Option<u64> {
    if !world.has_journal() || packet.id().is_none() {
        return None;
    }
    std::str::from_utf8(&essence(packet)).ok().map(|text| world.common_hash(text))
}

/// Returns the part that two copies of a message share: a client that sends one again may add the
/// time when it was written (XEP-0203 §4).
pub(super) fn essence(packet: &Packet) -> Vec<u8> {
    packet.without_children(|child| child.is("delay", ns::DELAY)).bytes().to_vec()
}

/// The most ids of dead nodes that are remembered.
pub(super) const MOST_KNOWN: usize = 1 << 16;
