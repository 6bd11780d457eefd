//! The load that logs clients in.

use std::sync::Arc;

use rookery_xml::Stanza;

use crate::engine::{Counters, Load, NEVER, Worker};

/// Logs the clients of one thread in, except those that are.
#[derive(Debug)]
pub struct Arrivals {
    /// The clients that have not begun, and when each shall.
    waiting: std::vec::IntoIter<(u64, usize)>,
    next: Option<(u64, usize)>,
    at_once: usize,
    wave: u32,
    first: Vec<u8>,
    under_way: usize,
    /// There is a rate to keep.
    scheduled: bool,
    /// Where the time of each login is noted.
    note: Option<Arc<Counters>>,
}

/// How a wave of clients comes.
#[derive(Debug, Clone)]
pub struct Wave {
    /// Its number: each wave has its own source addresses.
    pub number: u32,
    /// Logins under way at the same time, over all threads.
    pub at_once: usize,
    /// Logins a second, from `start` on; `None`: as many as there can be.
    pub rate: Option<f64>,
    /// When the first comes.
    pub start: u64,
    /// What each client says first.
    pub first: Vec<u8>,
}

impl Arrivals {
    /// Those of `clients` that belong to this thread.
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
            under_way: 0,
            scheduled: wave.rate.is_some(),
            note: None,
        }
    }

    /// Notes how long each login took among the latencies.
    pub fn noting(mut self, counters: Arc<Counters>) -> Arrivals {
        self.note = Some(counters);
        self
    }
}

impl Load for Arrivals {
    fn due(&mut self, now: u64, worker: &mut Worker) -> u64 {
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

    fn bound(&mut self, _number: usize, started: u64, now: u64, out: &mut Vec<u8>) {
        self.under_way = self.under_way.saturating_sub(1);
        if let Some(counters) = &self.note {
            counters.latency.add(now.saturating_sub(started));
        }
        out.extend_from_slice(&self.first);
    }

    fn stanza(&mut self, _number: usize, _stanza: &Stanza<'_>, _now: u64, _out: &mut Vec<u8>) {}

    fn ended(&mut self, _number: usize, was_bound: bool) {
        if !was_bound {
            self.under_way = self.under_way.saturating_sub(1);
        }
    }

    fn finished(&self) -> bool {
        self.next.is_none() && self.under_way == 0
    }
}
