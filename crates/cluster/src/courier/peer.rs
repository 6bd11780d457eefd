//! The traffic with one other process: its queue, the entries on their way, and the notes in which
//! both sides report what they have read and handled.

use std::collections::{BTreeSet, VecDeque};

use rookery_observe::cluster::NodeTraffic;

use super::{
    AT_WORK, Append, Appending, CourierLetter, CourierPeer, CourierSent, HURRY_MS, LARGE, MISSING, MOST_NAMED,
    MOST_UNREAD, NamedEntries, PATIENCE_MS, RECEIVED, REMIND_MS, REMINDER, TELL_MS, note, number_in, size,
};
use crate::wire::{self, CarriedMail, EntryHeader, NodeProcess};

impl<S> CourierPeer<S> {
    pub(super) fn new(process: NodeProcess, shards: u16) -> Self {
        Self {
            process,
            shards,
            away_since: None,
            is_silent: false,
            queue: VecDeque::new(),
            unread: VecDeque::new(),
            unhandled: VecDeque::new(),
            cursor: 0,
            received: 0,
            bytes: 0,
            last_seq: 0,
            is_appending: None,
            heard_ms: 0,
            missed: (0, 0),
            read: 0,
            is_missing: false,
            at_work: BTreeSet::new(),
            told: (0, 0),
            told_at: 0,
            is_urgent: false,
            awaited: 0,
            told_in: (0, 0),
            ends: false,
            traffic: NodeTraffic::default(),
        }
    }

    pub(super) fn into_letters(self) -> Vec<CourierLetter<S>> {
        let sent = self.unhandled.into_iter().chain(self.unread);
        sent.flat_map(|sent| sent.letters).chain(self.queue).collect()
    }

    /// Returns whether the other side knows that all of its entries were handled, or can't be
    /// informed any more.
    pub(super) fn has_told(&self) -> bool {
        let is_told = self.at_work.is_empty() && self.told == (self.read, self.read) && !self.is_urgent;
        let is_known = !self.owes_last_entry() && (self.awaited == 0 || self.received >= self.told_in.1);
        self.is_silent || is_told && is_known && self.is_appending.is_none()
    }

    /// Returns whether no numbered entry, which the other side confirms, has confirmed yet that
    /// everything was handled for which it waits.
    fn owes_last_entry(&self) -> bool {
        self.at_work.is_empty() && self.told_in.0 < self.awaited
    }

    /// Returns the last entry up to which all have been handled.
    pub(super) fn last_confirmed(&self) -> u64 {
        self.at_work.first().map_or(self.read, |first| first.saturating_sub(1))
    }

    /// Handles the other side's confirmations of our entries.
    pub(super) fn heard(&mut self, header: &EntryHeader, letters: &[CarriedMail<'_>], now_ms: u64) {
        let received = number_in(letters, RECEIVED);
        let known = received.unwrap_or_default().max(header.read).min(self.last_seq);
        if known > self.received {
            (self.received, self.heard_ms) = (known, now_ms);
        }
        if let Some(missing) = number_in(letters, MISSING).filter(|missing| *missing == self.received + 1) {
            // The other side says so for each later entry that is still on its way.
            let is_known = self.missed.0 == missing && now_ms < self.missed.1 + REMIND_MS;
            if missing < self.cursor && !is_known {
                (self.cursor, self.missed, self.heard_ms) = (missing, (missing, now_ms), now_ms);
            }
        }
        while let Some(mut sent) = self.unread.pop_front_if(|sent| sent.seq <= self.received) {
            self.bytes -= size(&sent.letters);
            sent.letters.retain(CourierLetter::is_awaited);
            if sent.seq > header.read && !sent.letters.is_empty() {
                self.bytes += size(&sent.letters);
                self.unhandled.push_back(sent);
            }
        }
        while let Some(sent) = self.unhandled.pop_front_if(|sent| sent.seq <= header.read) {
            self.bytes -= size(&sent.letters);
        }
        let named = letters.iter().find(|letter| letter.kind == AT_WORK);
        if let Some((upto, at_work)) = named.and_then(|letter| postcard::from_bytes::<NamedEntries>(letter.body).ok()) {
            let from_here = |seq: u64| seq - header.read - 1;
            self.unhandled.retain(|sent| {
                let is_handled = from_here(sent.seq) <= upto && !at_work.contains(&from_here(sent.seq));
                self.bytes -= if is_handled { size(&sent.letters) } else { 0 };
                !is_handled
            });
        }
    }

    /// Appends the numbers up to which the other side's entries were read and handled, as far as
    /// the header lacks them, and that of a missing entry.
    pub(super) fn note(&self, entry: &mut Vec<u8>) {
        if self.is_missing {
            note(MISSING, &(self.read + 1).to_le_bytes(), entry);
        }
        if self.at_work.is_empty() {
            return;
        }
        note(RECEIVED, &self.read.to_le_bytes(), entry);
        // The first of them is the one after the confirmed ones.
        let from_here = |seq: u64| seq - self.last_confirmed() - 1;
        let named: Vec<u64> = self.at_work.iter().take(MOST_NAMED).copied().map(from_here).collect();
        let is_all = named.len() == self.at_work.len();
        let upto = named.last().copied().filter(|_| !is_all).unwrap_or(from_here(self.read));
        if let Ok(body) = postcard::to_allocvec::<NamedEntries>(&(upto, named)) {
            note(AT_WORK, &body, entry);
        }
    }

    /// Returns the next entry to be appended.
    pub(super) fn next_entry(&self) -> Option<&CourierSent<S>> {
        let first = self.unread.front()?.seq;
        self.unread.get(usize::try_from(self.cursor.saturating_sub(first)).ok()?)
    }

    pub(super) fn append(&mut self, me: NodeProcess, now_ms: u64, unix_ms: u64) -> Option<Append> {
        if self.is_appending.is_some() || self.away_since.is_some() {
            return None;
        }
        if self.next_entry().is_none() && !self.queue.is_empty() && self.last_seq - self.received < MOST_UNREAD {
            self.pack(now_ms);
        }
        if self.ends_with_entry() {
            // It has no letters.
            self.pack(now_ms);
        }
        let reminds = self.reminds_at().is_some_and(|at| now_ms >= at);
        let oldest = self.unhandled.front().or(self.unread.front());
        let first = oldest.map_or(self.last_seq + 1, |sent| sent.seq);
        let (read, received) = (self.last_confirmed(), self.read);
        let header = |seq, is_urgent| EntryHeader { from: me, seq, first, read, is_urgent, unix_ms };
        let mut entry = Vec::new();
        let next = match self.next_entry() {
            Some(sent) => {
                let is_urgent = sent.letters.iter().any(|letter| letter.share.is_some()) || self.bytes > LARGE;
                wire::begin(&header(sent.seq, is_urgent), &mut entry);
                self.note(&mut entry);
                sent.letters.iter().for_each(|letter| wire::push(&letter.as_mail(), &mut entry));
                Appending::Letters(sent.seq, sent.letters.len(), entry.len())
            }
            None if reminds || self.tells_at((read, received)).is_some_and(|at| now_ms >= at) => {
                wire::begin(&header(0, false), &mut entry);
                self.note(&mut entry);
                if reminds {
                    self.heard_ms = now_ms;
                    note(REMINDER, &self.last_seq.to_le_bytes(), &mut entry);
                }
                Appending::Header
            }
            None => return None,
        };
        (self.is_appending, self.told, self.told_at, self.is_urgent) = (Some(next), (read, received), now_ms, false);
        self.is_missing = false;
        if let Appending::Letters(seq, ..) = next {
            self.cursor = seq;
            // An earlier copy of the entry, which may be the one that is read, confirmed less.
            if seq > self.told_in.1 {
                self.told_in = (read, seq);
            }
        }
        Some(Append { to: self.process, entry })
    }

    /// Returns whether a last entry is due, since everything else is done.
    fn ends_with_entry(&self) -> bool {
        let is_at_rest = self.queue.is_empty() && self.next_entry().is_none() && self.is_appending.is_none();
        self.ends && self.owes_last_entry() && is_at_rest
    }

    /// Packs waiting letters into an entry.
    pub(super) fn pack(&mut self, now_ms: u64) {
        if self.unread.is_empty() {
            self.heard_ms = now_ms;
        }
        let (mut letters, mut size) = (Vec::new(), 0);
        while let Some(letter) = self.queue.pop_front_if(|letter| size == 0 || size + letter.size() <= LARGE) {
            size += letter.size();
            letters.push(letter);
        }
        self.last_seq += 1;
        self.unread.push_back(CourierSent { seq: self.last_seq, letters });
    }

    /// Returns the time at which the other side is told which of its entries were handled and read,
    /// unless a letter to it says so earlier.
    pub(super) fn tells_at(&self, now: (u64, u64)) -> Option<u64> {
        match self.is_urgent {
            true => Some(self.told_at + HURRY_MS),
            false => (self.told != now).then_some(self.told_at + TELL_MS),
        }
    }

    /// Returns the time at which the other side is reminded of entries that it has not confirmed:
    /// the engine may have lost the entries, or the confirmation.
    pub(super) fn reminds_at(&self) -> Option<u64> {
        let waits = !(self.unread.is_empty() && self.unhandled.is_empty()) && self.next_entry().is_none();
        waits.then_some(self.heard_ms + REMIND_MS)
    }

    pub(super) fn due(&self) -> Option<u64> {
        let tell = self.tells_at((self.last_confirmed(), self.read));
        let tell = if self.ends_with_entry() { Some(self.told_at) } else { tell };
        let over = self.away_since.filter(|_| self.bytes > 0).map(|since| since + PATIENCE_MS);
        if self.away_since.is_some() { over } else { tell.into_iter().chain(self.reminds_at()).min() }
    }
}
