//! The search for silent devices, in requests that get no answer or one without readings.
//!
//! A front-end answers a request as a whole. One device in it that is silent, or that makes the
//! front-end refuse, therefore hides all others. While the node answers other requests, such a
//! request is sent again in halves, until the device is alone; from then on it is asked separately
//! ([`Silence`]). A node that answers nothing gets the same requests after growing pauses and, at
//! each pause, a request for a single device: if that one is answered, the node is alive.
//!
//! Invariants:
//! - Finding one silent device among *n* takes about 2 log₂ *n* requests. At most [`SEARCHES`] of
//!   them wait for a node's answer at a time, and the others follow at intervals of [`PACE`], as do
//!   all requests for silent devices of the node, of which at most [`ALONE`] wait.
//! - A node that answers nothing is never asked in parts.
//! - A single request has its answer or status within [`patience`](When::patience): it is divided
//!   only twice, first into about as many parts as the root of the number of its devices, then into
//!   single ones, while the first request stays outstanding.
//!
//! [`Silence`]: super::silence::Silence

use super::group::GroupKey;
use super::group::{OnceState, RequestGroup, RequestSlot, RequestState};
use super::grouping::rest_after;
use super::silence::Rank;
use super::state::{Acnet, AcnetEntry};
use crate::pool::readers::Turn;
use crate::pool::readers::{Deliver, PoolReaders};
use crate::show::Sample;
use crate::status::Status;
use crate::time::Moment;
use crate::when::When;

impl Acnet {
    /// Does all due work.
    pub(super) fn ring(&mut self, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        while let Some((due, key)) = self.timers.first().copied().filter(|(due, _)| *due <= now.millis) {
            match self.groups.get(key).map(|group| group.deadline) {
                // The request was answered in the meantime.
                Some(deadline) if deadline > now.millis => self.wait_until(key, deadline),
                Some(_) => self.due(key, now, readers),
                None => {
                    self.timers.remove(&(due, key));
                }
            }
        }
    }

    fn due(&mut self, key: GroupKey, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        let Some(group) = self.groups.get(key) else { return };
        let Some(poll) = self.polls.get(group.poll).filter(|_| !group.is_probe) else {
            self.close(key, true);
            return;
        };
        if poll.when == When::Once {
            return self.due_once(key, now, readers);
        }
        let is_patient = poll.when.is_event() && !group.has_missed;
        match group.state {
            RequestState::Asked(_) if !is_patient => {
                self.counters.timeouts += 1;
                self.fail(key, Status::UTIME, true, now, readers);
            }
            RequestState::Failed if self.is_divisible(key, now) => self.halve(key, now),
            state => {
                // The time of an event is unknown: after this long, the front-end may have
                // forgotten the request.
                self.release(key, true);
                if let Some(group) = self.groups.get_mut(key) {
                    group.attempts += u32::from(state != RequestState::Queued);
                }
                if !self.ask(key, now) {
                    self.tell(key, Status::BUSY, false, now, readers);
                }
            }
        }
    }

    /// Handles a group that was not answered, or was refused.
    pub(super) fn fail(
        &mut self,
        key: GroupKey,
        status: Status,
        cancel: bool,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(group) = self.groups.get(key) else { return };
        if self.polls.get(group.poll).is_some_and(|poll| poll.when == When::Once) {
            return self.refused_once(key, status, now, readers);
        }
        let (live, was_divided, is_alive) = (group.live, group.is_search, self.is_alive(key));
        let is_divisible = self.is_divisible(key, now) && status != Status::NODE_DOWN;
        self.release(key, cancel);
        if !is_divisible || was_divided && status == Status::UTIME {
            // Readers aren't told at the first division of a request, since most of them soon get
            // their readings, nor if the front-end refuses at once.
            self.tell(key, status, false, now, readers);
        }
        if is_divisible {
            return self.halve(key, now);
        }
        if live == 1 && is_alive && status != Status::NODE_DOWN {
            self.found_silent(key);
        }
        self.rest(key, now);
        if !is_alive && status != Status::NODE_DOWN {
            self.probe(key, 1, now);
        }
    }

    /// Lets a finished group wait until it is asked again.
    pub(super) fn rest(&mut self, key: GroupKey, now: Moment) {
        self.release(key, false);
        let Some(group) = self.groups.get_mut(key) else { return };
        group.state = RequestState::Failed;
        let (node, poll, rank) = (group.node, group.poll, group.rank);
        let mut deadline = now.millis + rest_after(group.attempts);
        if rank == Rank::Silent {
            deadline = self.pace(node, deadline, now);
        }
        self.wait_until(key, deadline);
        self.unsettle(poll);
    }

    /// Asks for a group in two halves.
    fn halve(&mut self, key: GroupKey, now: Moment) {
        self.compact(key);
        let Some(mut group) = self.close(key, true) else { return };
        self.counters.divided += 1;
        let rest = group.slots.split_off(group.slots.len() / 2);
        for slots in [group.slots, rest] {
            self.ask_part(RequestGroup::new(group.node, group.poll, slots, group.rank, now.millis), now);
        }
    }

    /// Asks for a part of a request, now if not too many are outstanding.
    fn ask_part(&mut self, mut part: RequestGroup, now: Moment) {
        let node = part.node;
        part.is_search = true;
        let is_full = self.fronts.get(node).is_none_or(|front| front.searching >= SEARCHES);
        let key = self.insert(part);
        if is_full {
            let deadline = self.pace(node, now.millis, now);
            self.wait_until(key, deadline);
        } else {
            self.ask(key, now);
        }
    }

    /// Sends requests for one device each, of a group whose node seems silent; each time for
    /// different devices.
    fn probe(&mut self, key: GroupKey, count: usize, now: Moment) {
        let Some(group) = self.groups.get(key).filter(|group| group.live > 1) else { return };
        let node = group.node;
        let live: Vec<RequestSlot> = group.slots.iter().copied().filter(|slot| slot.entry.is_some()).collect();
        for number in 0..count.min(live.len()) {
            if self.fronts.get(node).is_none_or(|front| front.probes >= PROBES) {
                return;
            }
            // The offset keeps two probes from hitting the same regular pattern.
            let place = (self.counters.probes as usize + number * (live.len() / 2 + 1)) % live.len();
            self.open_probe(node, NO_POLL, live[place], &When::Once, now.millis + PROBE);
        }
        self.counters.probes += 1;
    }

    /// Makes one device of a group wait separately for the group's event. If this device is
    /// answered and the group is not, the event has occurred.
    pub(super) fn send_canary(&mut self, key: GroupKey, slots: &[RequestSlot], now: Moment) -> Option<GroupKey> {
        let group = self.groups.get(key)?;
        let (node, poll, attempts) = (group.node, group.poll, group.attempts as usize);
        let when = self.polls.get(poll)?.when.clone();
        let deadline = now.millis + when.patience(self.once);
        self.open_probe(node, poll, slots[attempts % slots.len()], &when, deadline)
    }

    fn open_probe(
        &mut self,
        node: usize,
        poll: usize,
        slot: RequestSlot,
        when: &When,
        deadline: u64,
    ) -> Option<GroupKey> {
        let slot = RequestSlot { entry: None, ..slot };
        let mut group = RequestGroup::new(node, poll, vec![slot], Rank::Plain, deadline);
        group.is_probe = true;
        let key = self.insert(group);
        let Some(id) = self.requests.open(key) else {
            self.close(key, false);
            return None;
        };
        if let Some(group) = self.groups.get_mut(key) {
            group.state = RequestState::Asked(id);
        }
        self.send(node, id, when, &[slot]);
        Some(key)
    }

    /// Remembers that the only device of a group is silent.
    fn found_silent(&mut self, key: GroupKey) {
        let Some(group) = self.groups.get_mut(key) else { return };
        if let Some(slot) = group.slots.iter().find(|slot| slot.entry.is_some()) {
            self.silence.note_silent(&slot.wanted);
        }
        if group.rank != Rank::Silent
            && let Some(front) = self.fronts.get_mut(group.node)
        {
            group.rank = Rank::Silent;
            front.silent += 1;
            front.alone += usize::from(group.is_asked());
        }
    }

    /// Returns whether a group with a silent device has to wait, since as many of its node as
    /// allowed are outstanding.
    pub(super) fn is_one_silent_too_many(&self, key: GroupKey) -> bool {
        let Some(group) = self.groups.get(key).filter(|group| group.rank == Rank::Silent) else { return false };
        self.fronts.get(group.node).is_some_and(|front| front.alone >= ALONE)
    }

    /// Returns the time from which a node may be asked for one more silent device: `earliest` or
    /// later, in milliseconds.
    pub(super) fn pace(&mut self, node: usize, earliest: u64, now: Moment) -> u64 {
        let Some(front) = self.fronts.get_mut(node) else { return earliest };
        // Requests that have ended in the meantime need no time.
        let waiting = (front.silent + front.searching) as u64 + 1;
        let at = earliest.max(front.next.min(now.millis + waiting * PACE));
        front.next = at + PACE;
        at
    }

    /// Counts an answer of a node.
    pub(super) fn beat(&mut self, node: usize, now: Moment) {
        if let Some(front) = self.fronts.get_mut(node) {
            front.beats += 1;
            front.beat_at = Some(now.millis);
        }
    }

    /// Shortens the wait of a poll's other groups when one group is answered on its event: a group
    /// without an answer since the previous event gets it soon, or has missed the event.
    pub(super) fn hurry(&mut self, poll: usize, now: Moment) {
        let Some(poll) = self.polls.get_mut(poll).filter(|poll| poll.when.is_event()) else { return };
        if poll.event_at.is_some_and(|at| now.millis < at + GRACE) {
            return;
        }
        poll.event_at = Some(now.millis);
        let late = |key: &GroupKey| {
            let group = self.groups.get(*key)?;
            (group.is_asked() && group.answered_at + GRACE < now.millis).then_some(*key)
        };
        for key in poll.groups.iter().filter_map(late).collect::<Vec<_>>() {
            if let Some(group) = self.groups.get_mut(key) {
                group.has_missed = true;
            }
            self.wait_until(key, now.millis + GRACE);
        }
    }

    /// Returns true if a group's node answered other requests when it should have answered this
    /// one.
    fn is_alive(&self, key: GroupKey) -> bool {
        let Some(group) = self.groups.get(key) else { return false };
        match self.polls.get(group.poll) {
            // The answers to groups without this event say nothing about it.
            Some(poll) if poll.when.is_event() => group.has_missed,
            _ => self.fronts.get(group.node).is_some_and(|front| front.beats != group.pulse),
        }
    }

    /// Returns true if there is a device to be found in a group: it has several, and its node
    /// answers.
    fn is_divisible(&self, key: GroupKey, now: Moment) -> bool {
        let Some(group) = self.groups.get(key).filter(|group| group.live > 1) else { return false };
        let is_event = self.polls.get(group.poll).is_some_and(|poll| poll.when.is_event());
        let beat_at = self.fronts.get(group.node).and_then(|front| front.beat_at).filter(|_| !is_event);
        // A refusal is immediate: other groups need not have been answered since.
        self.is_alive(key) || beat_at.is_some_and(|at| now.millis - at < RECENT)
    }

    /// Tells the readers of a group that there is no reading.
    fn tell(
        &mut self,
        key: GroupKey,
        status: Status,
        is_last: bool,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(group) = self.groups.get(key) else { return };
        let sample = Sample { status, bytes: Box::default(), timestamp: now.unix_millis, cycle: 0 };
        for slot in &group.slots {
            let Some(entry) = slot.entry else { continue };
            let is_its =
                |asked: &AcnetEntry| asked.serial == slot.serial && asked.group.is_some_and(|(own, _)| own == key);
            if self.asked.get(entry).is_some_and(is_its) {
                let begun = readers.entries.stages.begin();
                let _ = readers.take((entry, slot.serial), &sample, Turn { fresh_for: 0, is_last, now }, begun);
            }
        }
    }
}

/// Single requests.
impl Acnet {
    fn due_once(&mut self, key: GroupKey, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        let Some(group) = self.groups.get(key) else { return };
        let OnceState { round, end, is_probed, refusal } = group.once;
        let is_over = now.millis >= end;
        let is_whole = group.live <= 1 || round > MOST_ROUNDS;
        match group.state {
            RequestState::Queued if is_over => self.give_up(key, refusal.unwrap_or(Status::UTIME), now, readers),
            RequestState::Queued => {
                if !self.ask(key, now) {
                    if let Some(group) = self.groups.get_mut(key) {
                        group.once.refusal = Some(Status::BUSY);
                    }
                    self.wait_until(key, (now.millis + PACE).min(end));
                }
            }
            RequestState::Asked(_) if is_over => {
                self.counters.timeouts += 1;
                self.give_up(key, Status::UTIME, now, readers);
            }
            _ if !is_whole && self.is_divisible(key, now) => self.divide(key, now),
            _ if !is_whole && !is_probed => {
                self.probe(key, PROBES, now);
                if let Some(group) = self.groups.get_mut(key) {
                    group.once.is_probed = true;
                }
                // Long enough for a live node, and short enough for the rounds that follow.
                self.wait_until(key, (now.millis + self.once / 12).min(end));
            }
            RequestState::Failed => self.give_up(key, refusal.unwrap_or(Status::UTIME), now, readers),
            RequestState::Asked(_) => self.wait_until(key, end),
        }
    }

    fn refused_once(
        &mut self,
        key: GroupKey,
        status: Status,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        self.release(key, false);
        let Some(group) = self.groups.get_mut(key) else { return };
        group.once.refusal = Some(status);
        if status == Status::NODE_DOWN {
            return self.give_up(key, status, now, readers);
        }
        self.due_once(key, now, readers);
    }

    /// Asks for a single request in parts. It stays outstanding: its answer may still come.
    fn divide(&mut self, key: GroupKey, now: Moment) {
        let Some(group) = self.groups.get(key) else { return };
        let once = OnceState { round: group.once.round + 1, is_probed: false, refusal: None, ..group.once };
        let (node, poll, rank, is_asked) = (group.node, group.poll, group.rank, group.is_asked());
        let pulse = group.pulse;
        let slots: Vec<RequestSlot> = group.slots.iter().copied().filter(|slot| self.is_of(slot, key)).collect();
        if let Some(group) = self.groups.get_mut(key) {
            group.once.round = MOST_ROUNDS + 1;
        }
        let size = if once.round == 1 { slots.len().isqrt().max(1) } else { 1 };
        self.counters.divided += 1;
        for part in slots.chunks(size) {
            let mut part = RequestGroup::new(node, poll, part.to_vec(), rank, now.millis);
            (part.once, part.pulse) = (once, pulse);
            self.ask_part(part, now);
        }
        if is_asked {
            self.wait_until(key, once.end);
        } else {
            self.close(key, false);
        }
    }

    fn give_up(&mut self, key: GroupKey, status: Status, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        let is_asked = self.groups.get(key).is_some_and(|group| group.state != RequestState::Queued);
        let single = self.groups.get(key).is_some_and(|group| group.slots.len() == 1 && group.live == 1);
        if single && is_asked && status != Status::NODE_DOWN && self.is_alive(key) {
            self.found_silent(key);
        }
        self.tell(key, status, true, now, readers);
        self.finish(key, false, readers);
    }

    /// Returns true if the entry of a request's part still exists, and belongs to that group.
    fn is_of(&self, slot: &RequestSlot, key: GroupKey) -> bool {
        slot.entry
            .and_then(|entry| self.asked.get(entry))
            .is_some_and(|entry| entry.serial == slot.serial && entry.group.is_some_and(|(own, _)| own == key))
    }
}

/// The most parts of unanswered requests that wait for a node's answer at a time.
const SEARCHES: usize = 128;
/// The poll of single requests, which have none.
const NO_POLL: usize = usize::MAX;
/// The most requests for single silent devices that wait for a node's answer at a time.
const ALONE: usize = 64;
/// Milliseconds between requests for silent devices of a node.
const PACE: u64 = 50;
/// The most probes that wait for a node's answer at a time.
const PROBES: usize = 2;
/// The time for which a probe may go unanswered, in milliseconds.
const PROBE: u64 = 2000;
/// The time after a reading for which a node counts as alive, in milliseconds.
const RECENT: u64 = 1000;
/// The time that devices have for an answer after an event was seen, in milliseconds.
const GRACE: u64 = 2000;
/// The last round in which a single request is divided again.
const MOST_ROUNDS: u8 = 1;
