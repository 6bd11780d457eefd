//! The slots that a shard acts for, and its knowledge of those that move: data of
//! [`crate::moves`], kept separate so that the world can hold it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rookery_fanout::view::SLOTS;
use rookery_fanout::{Member, Station};
use rookery_jid::Jid;

use crate::card::Card;

/// A set of slots, with one bit for each slot of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct SlotSet(Box<[u64]>);

impl Default for SlotSet {
    fn default() -> Self {
        Self(vec![0; SLOTS / 64].into())
    }
}

impl SlotSet {
    pub(crate) fn has(&self, slot: usize) -> bool {
        self.0.get(slot / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    pub(crate) fn set(&mut self, slot: usize, is_in: bool) {
        if let Some(word) = self.0.get_mut(slot / 64) {
            *word = *word & !(1 << (slot % 64)) | u64::from(is_in) << (slot % 64);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// A process: its node, and the number among that node's processes.
pub(crate) type MovesProcess = (u16, u32);

pub(crate) fn process(station: Station) -> MovesProcess {
    (station.node, station.incarnation)
}

/// The last reports of another shard about the views that it uses.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct OtherShard {
    /// The name of the view that it uses now.
    pub(crate) goes_by: Option<u64>,
    /// The name of the view for which it has sent everything that it had for others.
    pub(crate) has_sent_by: Option<u64>,
}

/// The stages in which a shard hands homes over to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartingStage {
    /// Some others are not known to use the view yet.
    Agreeing,
    /// The sessions that leave come to rest: nothing more is taken from their clients.
    Freezing,
    /// Everything is being sent; others have still to be told when that was all.
    Sending,
}

/// The cards that were sent and that their new homes may not have taken yet.
#[derive(Debug, Default)]
pub(crate) struct SendingCards {
    /// True while there are any.
    pub(crate) is_under_way: bool,
    /// Counts the batches of cards, so that the timer of an earlier batch does nothing.
    pub(crate) number: u64,
}

/// The homes of a shard that move, or may.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// The slots that this shard acts for.
    pub(crate) acting: SlotSet,
    /// Slots that it acts for as soon as others have sent their data for them.
    pub(crate) awaited: SlotSet,
    /// The shards that have this data, each with the names of the views for which it may report
    /// that it has sent everything: the view that caused the move, and later ones.
    pub(crate) sources: BTreeMap<Station, Vec<u64>>,
    /// Processes that have died, and whose journals have still to be read.
    pub(crate) journals: Vec<MovesProcess>,
    pub(crate) times: MovesTimes,
    pub(crate) heard: BTreeMap<Station, OtherShard>,
    /// Processes that no longer report anything, because they have died or are silent.
    pub(crate) gone: BTreeSet<MovesProcess>,
    pub(crate) parting: Option<(PartingStage, u64)>,
    /// The cards that have still to be sent, each with the hash of its home.
    pub(crate) leaving: VecDeque<(u64, Vec<u8>)>,
    pub(crate) sending: SendingCards,
    pub(crate) late: MovesLateness,
    pub(crate) arrived: ArrivedCards,
}

/// The times of moves, on the clock that never goes back.
#[derive(Debug, Default)]
pub(crate) struct MovesTimes {
    /// The time at which this shard began to wait for data.
    pub(crate) awaiting_since_ms: u64,
    /// The time at which homes changed last.
    pub(crate) changed_ms: Option<u64>,
}

/// The cards that have arrived.
#[derive(Debug, Default)]
pub(crate) struct ArrivedCards {
    /// Those from living processes.
    pub(crate) living: Vec<Vec<u8>>,
    /// Those from journals of dead processes.
    pub(crate) recovered: Vec<Vec<u8>>,
}

/// A record of the data that other processes did not send in time.
#[derive(Debug, Default)]
pub(crate) struct MovesLateness {
    /// The number of times that this shard continued without such data.
    pub(crate) times: u64,
    /// The time since which processes that can be fenced off are late, or at which they were last
    /// reported.
    pub(crate) since_ms: Option<u64>,
    /// The late processes that have still to be reported.
    pub(crate) overdue: BTreeSet<MovesProcess>,
}

/// The place of an address, as a shard knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// This shard acts for it.
    Here,
    /// This shard will act for it.
    Awaited,
    /// Another shard does, which is reached by this hop.
    Elsewhere(usize),
}

impl ArrivedCards {
    /// Returns whether there are any.
    pub(crate) fn are_there(&self) -> bool {
        !self.living.is_empty() || !self.recovered.is_empty()
    }

    /// Takes all of them. A process that died may have given a home away before its journal knew:
    /// the cards of living processes are newer, so they come first, and their sessions' cards from
    /// journals are dropped.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        let Self { living: mut cards, mut recovered } = std::mem::take(self);
        if !cards.is_empty() && !recovered.is_empty() {
            let session = |encoded: &Vec<u8>| match Card::decode(encoded) {
                Ok(Card::Session(card)) => Some(card.jid),
                _ => None,
            };
            let newer: BTreeSet<Jid> = cards.iter().filter_map(session).collect();
            recovered.retain(|encoded| session(encoded).is_none_or(|jid| !newer.contains(&jid)));
        }
        cards.append(&mut recovered);
        cards
    }
}

impl Moves {
    /// Forgets the sources of everything that has arrived.
    pub(crate) fn forget_sources(&mut self) {
        self.sources.clear();
        self.journals.clear();
    }

    /// Waits for the shards of a process to report that they have sent everything for the view of
    /// this name, unless they have.
    pub(crate) fn wait_for(&mut self, member: Member, name: u64) {
        for shard in 0..member.shards {
            let station = Station { node: member.node, incarnation: member.incarnation, shard };
            if self.heard.get(&station).is_none_or(|heard| heard.has_sent_by != Some(name)) {
                self.sources.insert(station, vec![name]);
            }
        }
    }
}

/// Returns the process that a member is.
pub(crate) fn process_of(member: Member) -> MovesProcess {
    (member.node, member.incarnation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_slots_has_what_was_put_into_it() {
        let mut set = SlotSet::default();
        assert!(set.is_empty());
        for slot in [0, 63, 64, SLOTS - 1] {
            set.set(slot, true);
            assert!(set.has(slot) && !set.has(slot ^ 1));
        }
        [0, 63, 64, SLOTS - 1].iter().for_each(|slot| set.set(*slot, false));
        assert!(set.is_empty() && !set.has(SLOTS));
    }
}
