//! Many users who write to each other at a fixed rate, in an open loop.

use std::time::Duration;

use clap::Args;
use rookery_xml::{Kind, Stanza};
use serde::Serialize;

use super::compose::Composer;
use super::pace::{Dice, Pace};
use super::{Scenario, ScenarioRun};
use crate::engine::{LoadWorker, NEVER, Receiver, TrackedPair, Tracker, WorkerLoad, tally};
use crate::{BenchOutcome, chat};

/// Sizes of the load.
#[derive(Debug, Clone, Args, Serialize)]
pub struct MaxMessages {
    /// Users, or as many as the limit of open files allows
    #[arg(long, default_value_t = 75_000)]
    users: usize,
    /// Messages per second
    #[arg(long, default_value_t = 21_000.0)]
    rate: f64,
    /// Users that each one writes to
    #[arg(long, default_value_t = 8)]
    partners: usize,
    /// Seconds to measure
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Seconds to warm up before that
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
    /// Seconds of silence before that, to measure the memory of sessions; twice, with a quarter of
    /// the users and with all
    #[arg(long, default_value_t = 0.0)]
    idle: f64,
}

impl Scenario for MaxMessages {
    const NAME: &'static str = "max-messages";

    fn clients(&self) -> usize {
        self.users
    }

    fn run(&self, run: &mut ScenarioRun<'_>) -> BenchOutcome<()> {
        let users = run.limit_clients(self.users);
        let mut by_session = None;
        if self.idle > 0.0 {
            by_session = self.log_in_and_weigh(run, users)?;
        } else {
            run.log_in(0..users, chat::PRESENCE)?;
        }
        run.meter.doing(format!("max-messages: {} messages/s among {users} users", self.rate));
        let (window, threads) = (run.window(self.warm_up, self.seconds), run.crew.threads());
        let partners = self.partners.clamp(1, users.saturating_sub(1).max(1));
        let load = |thread| {
            let composer = Composer::new(run, thread);
            Writers {
                pace: Pace::new(self.rate, window, thread, threads),
                dice: Dice::new(thread as u64),
                receiver: Receiver::new(run.number, composer.counters().clone()),
                composer,
                thread,
                threads,
                users,
                partners,
                sent: vec![0; users.div_ceil(threads) * partners],
                out: Vec::new(),
            }
        };
        let mut loads: Vec<Writers> = (0..threads).map(load).collect();
        run.measure(&mut loads, window)?;
        if let Some(memory) = &mut run.result.memory {
            memory.per_session = by_session;
        }
        let trackers: Vec<&Tracker> = loads.iter().map(|load| &load.receiver.tracker).collect();
        run.account(tally(loads.iter().flat_map(Writers::sent_by_pair), &trackers));
        Ok(())
    }
}

impl MaxMessages {
    /// Logs all users in and returns the bytes per idle user, measured with those who came last:
    /// the memory that a server takes once, for its first clients, isn't included.
    fn log_in_and_weigh(&self, run: &mut ScenarioRun<'_>, users: usize) -> BenchOutcome<Option<f64>> {
        let idle = Duration::try_from_secs_f64(self.idle)?;
        let first = users / FIRST;
        run.log_in(0..first, chat::PRESENCE)?;
        run.rest(idle)?;
        let before = run.read();
        run.log_in(first..users, chat::PRESENCE)?;
        run.meter.doing("max-messages: idle");
        run.rest(idle)?;
        let after = run.read();
        let bytes = after.memory.zip(before.memory).map(|(after, before)| after as f64 - before as f64);
        Ok(bytes.map(|bytes| bytes / (users - first).max(1) as f64))
    }
}

/// The users of one thread.
#[derive(Debug)]
struct Writers {
    pace: Pace,
    dice: Dice,
    composer: Composer,
    receiver: Receiver,
    thread: usize,
    threads: usize,
    users: usize,
    partners: usize,
    /// The number of messages to each partner of each user of the thread.
    sent: Vec<u32>,
    out: Vec<u8>,
}

impl Writers {
    /// Returns a partner of a user. The partners are spread over all users, always the same.
    fn partner(&self, user: usize, which: usize) -> usize {
        (user + 1 + which * (self.users / self.partners).max(1)) % self.users.max(1)
    }

    fn send(&mut self, intended: u64, now: u64, worker: &mut LoadWorker) {
        let threads = self.threads;
        let own = self.users.saturating_sub(self.thread).div_ceil(threads);
        let (slot, which) = (self.dice.roll(own), self.dice.roll(self.partners));
        let user = slot * threads + self.thread;
        let partner = self.partner(user, which);
        let Some(sent) = self.sent.get_mut(slot * self.partners + which) else { return };
        let mark = self.composer.mark(user, *sent, intended);
        *sent += 1;
        self.out.clear();
        self.composer.chat(partner, mark, &mut self.out);
        self.composer.counters().lateness.add(now.saturating_sub(intended));
        worker.send(user, &self.out);
    }

    /// Returns the number of messages of each pair of users.
    fn sent_by_pair(&self) -> impl Iterator<Item = (TrackedPair, u32)> + '_ {
        let threads = self.threads;
        self.sent.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(at, count)| {
            let user = at / self.partners * threads + self.thread;
            let receiver = self.partner(user, at % self.partners);
            (TrackedPair { sender: user as u32, receiver: receiver as u32 }, *count)
        })
    }
}

impl WorkerLoad for Writers {
    fn due(&mut self, now: u64, worker: &mut LoadWorker) -> u64 {
        for _ in 0..AT_ONCE {
            let Some((_, intended)) = self.pace.take(now) else { break };
            self.send(intended, now, worker);
        }
        self.pace.upcoming().unwrap_or(NEVER)
    }

    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, now: u64, _out: &mut Vec<u8>) {
        if stanza.kind() == Kind::Message {
            self.receiver.take(number, stanza, now);
        }
    }
}

/// The number of messages that are sent before input is read.
const AT_ONCE: usize = 64;

/// The share of users, one in this number, who log in before the memory of the others is measured.
const FIRST: usize = 4;
