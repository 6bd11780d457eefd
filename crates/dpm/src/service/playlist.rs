//! Requests of a list that are still to be played back, and the archive's unanswered questions.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::share::ClientAddress;
use crate::history::HistoryQuestion;

/// The requests of a list that are still to be played back.
#[derive(Debug, Default)]
pub(super) struct Playlist {
    /// The requests in their order.
    pub(super) waiting: BTreeMap<u64, Playback>,
    /// The place of each, by the client's number.
    pub(super) places: HashMap<i64, u64, ahash::RandomState>,
    pub(super) last: u64,
    /// The list's unanswered question.
    pub(super) asked: Option<u64>,
    /// True if it is among the lists that wait until their address may ask again.
    pub(super) is_waiting: bool,
}

/// The unanswered questions to the archive.
#[derive(Debug)]
pub(super) struct Questions {
    /// The most questions of an address.
    pub(super) most: usize,
    /// The number of questions so far.
    pub(super) count: u64,
    pub(super) asked: HashMap<u64, ClientAddress, ahash::RandomState>,
    /// The number of unanswered questions of each address, and its lists that wait.
    pub(super) addresses: HashMap<ClientAddress, (usize, VecDeque<usize>), ahash::RandomState>,
}

impl Questions {
    pub(super) fn new(most: usize) -> Self {
        Self { most, count: 0, asked: HashMap::default(), addresses: HashMap::default() }
    }

    /// Returns the number for another question of an address; `None` if it has too many, and then
    /// the list waits.
    pub(super) fn ask(&mut self, address: ClientAddress, list: usize) -> Option<u64> {
        let (count, waiting) = self.addresses.entry(address).or_default();
        if *count >= self.most {
            waiting.push_back(list);
            return None;
        }
        *count += 1;
        self.count += 1;
        self.asked.insert(self.count, address);
        Some(self.count)
    }

    /// Closes a question that was answered. Returns the list that may ask now.
    pub(super) fn close(&mut self, number: u64) -> Option<usize> {
        let address = self.asked.remove(&number)?;
        let (count, waiting) = self.addresses.get_mut(&address)?;
        *count -= 1;
        let next = waiting.pop_front();
        if *count == 0 && waiting.is_empty() {
            self.addresses.remove(&address);
        }
        next
    }
}

/// A request that is being played back.
#[derive(Debug)]
pub(super) struct Playback {
    pub(super) ref_id: i64,
    pub(super) question: HistoryQuestion,
    /// The time that its messages carry, in milliseconds since 1970.
    pub(super) timestamp: i64,
    /// True if the answer was an array.
    pub(super) is_array: bool,
}

impl Playlist {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Removes everything. An outstanding answer is then ignored.
    pub(super) fn clear(&mut self) {
        *self = Self { last: self.last, is_waiting: self.is_waiting, ..Self::default() };
    }

    /// Removes a request.
    pub(super) fn remove(&mut self, ref_id: i64) {
        let Some(place) = self.places.remove(&ref_id) else { return };
        if self.waiting.first_key_value().is_some_and(|(first, _)| *first == place) {
            self.asked = None;
        }
        self.waiting.remove(&place);
    }

    pub(super) fn push(&mut self, playback: Playback) {
        self.remove(playback.ref_id);
        self.last += 1;
        self.places.insert(playback.ref_id, self.last);
        self.waiting.insert(self.last, playback);
    }
}
