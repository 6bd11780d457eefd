//! The grouping of entries into requests, the times at which these are sent, and the life of their
//! ids.

use super::group::GroupKey;
use super::group::{RequestGroup, RequestSlot, RequestState};
use super::silence::Rank;
use super::state::Acnet;
use super::wire::{item, item_size, sizes};
use crate::acnet::LARGEST;
use crate::pool::keys::EntryKey;
use crate::time::Moment;
use crate::when::When;

impl Acnet {
    /// Makes groups of a poll's waiting entries. Running groups are left alone unless there are too
    /// many, and are merged then.
    pub(super) fn settle(&mut self, poll_key: usize, now: Moment) {
        let Some(poll) = self.polls.get_mut(poll_key) else { return };
        poll.is_unsettled = false;
        let is_once = poll.when == When::Once;
        let (mut plain, mut proving) = (Vec::new(), Vec::new());
        for key in std::mem::take(&mut poll.waiting) {
            let Some(entry) = self.asked.get_mut(key) else { continue };
            entry.waits_at = None;
            match self.silence.rank(&entry.wanted, now) {
                Rank::Plain => plain.push(key),
                Rank::Proving => proving.push(key),
                Rank::Silent => self.ask_apart(poll_key, key, now),
            }
        }
        for (keys, rank) in [(plain, Rank::Plain), (proving, Rank::Proving)] {
            for key in self.pack(poll_key, keys, rank, now) {
                self.ask(key, now);
            }
        }
        if !is_once {
            self.merge(poll_key, now);
        }
        self.drop_if_empty(poll_key);
    }

    /// Merges groups within each kind: the answered ones, those that wait for an answer, and those
    /// whose node is silent. Entries without an answer are never merged with answered ones.
    pub(super) fn merge(&mut self, poll_key: usize, now: Moment) {
        let Some(poll) = self.polls.get(poll_key) else { return };
        let beats = self.fronts.get(poll.node).map_or(0, |front| front.beats);
        let mut kinds: [(Vec<GroupKey>, usize, usize); 4] = Default::default();
        for key in &poll.groups {
            let Some(group) = self.groups.get_mut(*key) else { continue };
            if group.rank == Rank::Proving {
                let ranks = group.slots.iter().filter(|slot| slot.entry.is_some());
                let silence = &mut self.silence;
                let rank = ranks.map(|slot| silence.rank(&slot.wanted, now)).max();
                // A device that was silent at another event has answered at this one.
                group.rank = rank.unwrap_or(group.rank).min(Rank::Proving);
            }
            let kind = match (group.state, group.rank) {
                (_, Rank::Silent) => continue,
                (RequestState::Asked(_), rank) if group.has_answered => usize::from(rank == Rank::Proving),
                (RequestState::Failed, _) if group.pulse == beats => UNANSWERED,
                (RequestState::Asked(_), _) if !group.is_search && !group.has_missed => WAITING,
                _ => continue,
            };
            let (keys, live, slots) = &mut kinds[kind];
            keys.push(*key);
            (*live, *slots) = (*live + group.live, *slots + group.slots.len());
        }
        for (kind, (keys, live, slots)) in kinds.into_iter().enumerate() {
            let needed = live.div_ceil(USUAL_GROUP);
            // Waiting groups will most likely be answered soon.
            let spare = if kind == WAITING { 16 } else { 2 };
            if keys.len() <= 2 * needed + spare && slots <= 2 * live + USUAL_GROUP {
                continue;
            }
            let closed: Vec<RequestGroup> = keys.into_iter().filter_map(|key| self.close(key, true)).collect();
            let attempts = closed.iter().map(|group| group.attempts).max().unwrap_or_default();
            // No merged group may fail later than it would have by itself.
            let deadline = closed.iter().map(|group| group.deadline).min().unwrap_or(now.millis);
            let rank = closed.iter().map(|group| group.rank).max().unwrap_or(Rank::Plain);
            let pulse = closed.iter().map(|group| group.pulse).max().unwrap_or_default();
            let entries = closed.iter().flat_map(|group| &group.slots).filter_map(|slot| slot.entry).collect();
            for key in self.pack(poll_key, entries, rank, now) {
                if kind != UNANSWERED {
                    self.ask(key, now);
                    let waits = self.groups.get(key).is_some_and(|group| kind == WAITING && group.is_asked());
                    if waits {
                        self.wait_until(key, deadline.max(now.millis + 1));
                    }
                } else if let Some(group) = self.groups.get_mut(key) {
                    (group.state, group.attempts, group.pulse) = (RequestState::Failed, attempts, pulse);
                    self.wait_until(key, deadline);
                }
            }
        }
    }

    /// Makes groups of entries, as large as datagrams allow. They wait to be sent.
    pub(super) fn pack(&mut self, poll_key: usize, entries: Vec<EntryKey>, rank: Rank, now: Moment) -> Vec<GroupKey> {
        let mut made = Vec::new();
        let Some((poll, node)) = self.polls.get(poll_key).and_then(|poll| Some((poll, self.node(poll.node)?))) else {
            return made;
        };
        let number = poll.node;
        let end = now.millis + poll.when.patience(self.once);
        let (mut request, mut reply) = sizes(node);
        let mut slots: Vec<RequestSlot> = Vec::new();
        let mut parts = Vec::new();
        for key in entries {
            let Some(slot) = self.slot(key) else { continue };
            let (request_more, reply_more) = (item_size(node), item(&slot.wanted).reply_size());
            if !slots.is_empty() && (request + request_more > LARGEST || reply + reply_more > LARGEST) {
                parts.push(std::mem::take(&mut slots));
                (request, reply) = sizes(node);
            }
            request += request_more;
            reply += reply_more;
            slots.push(slot);
        }
        if !slots.is_empty() {
            parts.push(slots);
        }
        for slots in parts {
            let mut group = RequestGroup::new(number, poll_key, slots, rank, now.millis);
            group.once.end = end;
            made.push(self.insert(group));
        }
        made
    }

    /// Makes a silent device be asked alone, once its node may be asked for another such device.
    pub(super) fn ask_apart(&mut self, poll_key: usize, key: EntryKey, now: Moment) {
        let (Some(poll), Some(slot)) = (self.polls.get(poll_key), self.slot(key)) else { return };
        let (node, end) = (poll.node, now.millis + poll.when.patience(self.once));
        let deadline = self.pace(node, now.millis, now);
        let mut group = RequestGroup::new(node, poll_key, vec![slot], Rank::Silent, deadline);
        group.once.end = end;
        let key = self.insert(group);
        if deadline <= now.millis {
            self.ask(key, now);
        }
    }

    pub(super) fn slot(&self, key: EntryKey) -> Option<RequestSlot> {
        let entry = self.asked.get(key)?;
        Some(RequestSlot { entry: Some(key), serial: entry.serial, wanted: entry.wanted })
    }

    /// Stores a group, which owns its entries from now on.
    pub(super) fn insert(&mut self, group: RequestGroup) -> GroupKey {
        let key = self.groups.vacant_key();
        self.timers.insert((group.timer, key));
        if let Some(poll) = self.polls.get_mut(group.poll).filter(|_| !group.is_probe) {
            poll.groups.insert(key);
        }
        if let Some(front) = self.fronts.get_mut(group.node) {
            front.silent += usize::from(group.rank == Rank::Silent);
            front.probes += usize::from(group.is_probe);
        }
        for (place, slot) in group.slots.iter().enumerate() {
            if let Some(entry) = slot.entry.and_then(|entry| self.asked.get_mut(entry)) {
                entry.group = Some((key, place));
            }
        }
        self.groups.insert(group)
    }

    /// Removes a group; cancels it at the front-end if that would continue to answer.
    pub(super) fn close(&mut self, key: GroupKey, cancel: bool) -> Option<RequestGroup> {
        self.release(key, cancel);
        let group = self.groups.try_remove(key)?;
        self.timers.remove(&(group.timer, key));
        if let Some(poll) = self.polls.get_mut(group.poll) {
            poll.groups.swap_remove(&key);
        }
        if let Some(front) = self.fronts.get_mut(group.node) {
            front.silent -= usize::from(group.rank == Rank::Silent);
            front.probes -= usize::from(group.is_probe);
        }
        Some(group)
    }

    /// Sends a group's request. Returns false if no id is free; then it waits.
    pub(super) fn ask(&mut self, key: GroupKey, now: Moment) -> bool {
        self.compact(key);
        if self.is_one_silent_too_many(key) {
            let node = self.groups.get(key).map_or(0, |group| group.node);
            let deadline = self.pace(node, now.millis + 1, now);
            self.wait_until(key, deadline);
            return true;
        }
        let Some(group) = self.groups.get_mut(key) else { return true };
        let Some(poll) = self.polls.get(group.poll) else { return true };
        let Some(id) = self.requests.open(key) else {
            let deadline = now.millis + rest_after(group.attempts);
            (group.state, group.attempts) = (RequestState::Queued, group.attempts + 1);
            self.wait_until(key, deadline);
            return false;
        };
        group.state = RequestState::Asked(id);
        (group.has_answered, group.has_missed, group.answered_at) = (false, false, now.millis);
        let mut deadline = now.millis + poll.when.patience(self.once);
        if poll.when == When::Once {
            // The rest of the time is for the steps between the rounds.
            let patience = if group.once.round == 0 { self.once * 3 / 8 } else { self.once / 4 };
            deadline = (now.millis + patience).min(group.once.end);
        }
        let (node, when, live) = (group.node, poll.when.clone(), group.live);
        let slots = std::mem::take(&mut group.slots);
        if let Some(front) = self.fronts.get_mut(node) {
            if group.once.round == 0 {
                group.pulse = front.beats;
            }
            front.searching += usize::from(group.is_search && !std::mem::replace(&mut group.is_counted, true));
            front.alone += usize::from(group.rank == Rank::Silent);
        }
        self.send(node, id, &when, &slots);
        let canary = if when.is_event() && live > 1 { self.send_canary(key, &slots, now) } else { None };
        if let Some(group) = self.groups.get_mut(key) {
            (group.slots, group.canary) = (slots, canary);
        }
        self.wait_until(key, deadline);
        true
    }

    /// Frees a group's id; cancels the request at the front-end if that would continue to answer.
    pub(super) fn release(&mut self, key: GroupKey, cancel: bool) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let (node, canary) = (group.node, group.canary.take());
        if let Some(front) = self.fronts.get_mut(node) {
            front.searching -= usize::from(std::mem::take(&mut group.is_counted));
            front.alone -= usize::from(group.rank == Rank::Silent && group.is_asked());
        }
        if let RequestState::Asked(id) = group.state {
            group.state = RequestState::Failed;
            self.requests.close(id);
            if cancel {
                self.cancel(node, id);
            }
        }
        if let Some(canary) = canary {
            self.close(canary, true);
        }
    }

    /// Notes that a group was answered, which ends its search.
    pub(super) fn found_answering(&mut self, key: GroupKey, now: Moment) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.has_answered = true;
        group.is_search = false;
        let (node, poll, canary) = (group.node, group.poll, group.canary.take());
        let Some(front) = self.fronts.get_mut(node) else { return };
        front.searching -= usize::from(std::mem::take(&mut group.is_counted));
        if group.rank != Rank::Plain {
            for slot in group.slots.iter().filter(|slot| slot.entry.is_some()) {
                self.silence.note_answer(&slot.wanted, now);
            }
        }
        if group.rank == Rank::Silent {
            group.rank = Rank::Proving;
            front.silent -= 1;
            front.alone -= 1;
        }
        if let Some(canary) = canary {
            self.close(canary, true);
        }
        self.unsettle(poll);
    }

    /// Sets the time of a group's timer, in milliseconds.
    pub(super) fn wait_until(&mut self, key: GroupKey, deadline: u64) {
        let Some(group) = self.groups.get_mut(key) else { return };
        self.timers.remove(&(group.timer, key));
        (group.deadline, group.timer) = (deadline, deadline);
        self.timers.insert((deadline, key));
    }

    /// Removes entries without readers from a group.
    pub(super) fn compact(&mut self, key: GroupKey) {
        let Some(group) = self.groups.get_mut(key).filter(|group| group.live < group.slots.len()) else { return };
        group.slots.retain(|slot| slot.entry.is_some());
        for (place, slot) in group.slots.iter().enumerate() {
            if let Some(entry) = slot.entry.and_then(|entry| self.asked.get_mut(entry)) {
                entry.group = Some((key, place));
            }
        }
    }
}

/// Returns the pause after this many attempts, in milliseconds.
pub(super) fn rest_after(attempts: u32) -> u64 {
    (FIRST_REST << attempts.min(10)).min(LONGEST_REST)
}

/// The kinds of groups that can be merged, besides the answered ones by rank.
pub(super) const UNANSWERED: usize = 2;

pub(super) const WAITING: usize = 3;

/// The approximate number of devices that fit one request.
pub(super) const USUAL_GROUP: usize = 400;

/// The first pause in milliseconds; doubled with each attempt.
pub(super) const FIRST_REST: u64 = 250;

/// The longest pause in milliseconds, and so the longest time until devices are read again after
/// their front-end is back.
pub(super) const LONGEST_REST: u64 = 8000;
