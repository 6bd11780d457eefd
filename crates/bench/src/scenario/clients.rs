//! The load that logs clients in.

use std::collections::HashMap;
use std::sync::Arc;

use rookery_xml::{Kind, Stanza};

use super::rosters::contact;
use crate::engine::{LoadCounters, LoadWorker, NEVER, WorkerLoad};

/// Logs in the clients of one thread, except those that are logged in already.
#[derive(Debug)]
pub struct Arrivals {
    /// The clients that have not begun, and the time for each.
    waiting: std::vec::IntoIter<(u64, usize)>,
    next: Option<(u64, usize)>,
    at_once: usize,
    wave: u32,
    first: Vec<u8>,
    /// The starting times of the clients that are logged in and have not seen their own presence
    /// yet; `None` if that isn't required.
    unseen: Option<HashMap<usize, u64>>,
    under_way: usize,
    /// True if the logins have a rate to keep.
    scheduled: bool,
    /// The counters that note the time of each login.
    note: Option<Arc<LoadCounters>>,
}

/// A wave of clients.
#[derive(Debug, Clone)]
pub struct Wave {
    /// Its number: each wave has its own source addresses.
    pub number: u32,
    /// The most logins in progress at the same time, over all threads.
    pub at_once: usize,
    /// Logins per second, from `start` on; `None` if they come as fast as possible.
    pub rate: Option<f64>,
    /// The time of the first login.
    pub start: u64,
    /// The first stanzas of each client.
    pub first: Vec<u8>,
    /// True if a login ends with the client's own presence, not with its resource.
    pub until_seen: bool,
}

impl Arrivals {
    /// Returns those of `clients` that belong to this thread.
    pub fn new(clients: std::ops::Range<usize>, wave: &Wave, thread: usize, threads: usize) -> Arrivals {
        let when =
            |position: usize| wave.rate.map_or(wave.start, |rate| wave.start + (position as f64 / rate * 1e9) as u64);
        let first = clients.start;
        let own = clients.filter(|number| number % threads == thread).map(|number| (when(number - first), number));
        let mut waiting = own.collect::<Vec<_>>().into_iter();
        Arrivals {
            next: waiting.next(),
            waiting,
            at_once: wave.at_once.div_ceil(threads).max(1),
            wave: wave.number,
            first: wave.first.clone(),
            unseen: wave.until_seen.then(HashMap::new),
            under_way: 0,
            scheduled: wave.rate.is_some(),
            note: None,
        }
    }

    /// Records the duration of each login among the latencies.
    pub fn noting(mut self, counters: Arc<LoadCounters>) -> Arrivals {
        self.note = Some(counters);
        self
    }

    fn end(&mut self, started: u64, now: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        if let Some(counters) = &self.note {
            counters.latency.add(now.saturating_sub(started));
        }
    }
}

impl WorkerLoad for Arrivals {
    fn due(&mut self, now: u64, worker: &mut LoadWorker) -> u64 {
        while let Some((when, number)) = self.next {
            if when > now {
                return when;
            }
            if worker.is_bound(number) {
                self.next = self.waiting.next();
                continue;
            }
            if self.under_way >= self.at_once {
                return NEVER;
            }
            self.under_way += 1;
            if self.scheduled {
                worker.counters().lateness.add(now.saturating_sub(when));
            }
            worker.connect(number, self.wave);
            self.next = self.waiting.next();
        }
        NEVER
    }

    fn bound(&mut self, number: usize, started: u64, now: u64, out: &mut Vec<u8>) {
        match &mut self.unseen {
            Some(unseen) => _ = unseen.insert(number, started),
            None => self.end(started, now),
        }
        out.extend_from_slice(&self.first);
    }

    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, now: u64, _out: &mut Vec<u8>) {
        let Some(unseen) = self.unseen.as_mut().filter(|unseen| !unseen.is_empty()) else { return };
        if stanza.kind() == Kind::Presence
            && stanza.type_().is_none()
            && stanza.from().and_then(|from| contact(&from)) == Some(number)
            && let Some(started) = unseen.remove(&number)
        {
            self.end(started, now);
        }
    }

    fn ended(&mut self, number: usize, was_bound: bool) {
        let is_unseen = self.unseen.as_mut().is_some_and(|unseen| unseen.remove(&number).is_some());
        if !was_bound || is_unseen {
            self.under_way = self.under_way.saturating_sub(1);
        }
    }

    fn is_finished(&self) -> bool {
        self.next.is_none() && self.under_way == 0
    }
}
