//! Users who know each other and keep changing their presence, as in Jabsimul.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rookery_xml::{Kind, Stanza};
use serde::Serialize;

use super::compose::Composer;
use super::pace::Pace;
use super::rosters::{Ring, contact};
use super::{Scenario, ScenarioRun};
use crate::BenchOutcome;
use crate::engine::{LoadCount, LoadCounters, LoadWorker, NEVER, Receiver, TrackedPair, Tracker, WorkerLoad, tally};
use crate::result::SweepPoint;

/// Sizes of the load.
#[derive(Debug, Clone, Args, Serialize)]
pub struct PresenceStorm {
    /// Users
    #[arg(long, default_value_t = 300)]
    users: usize,
    /// Contacts of each user, who see each other; created first if need be [default: all users]
    #[arg(long)]
    contacts: Option<usize>,
    /// Seconds between two changes of a user
    #[arg(long, default_value_t = 60.0)]
    every: f64,
    /// Seconds to measure
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Seconds to warm up before that
    #[arg(long, default_value_t = 2.0)]
    warm_up: f64,
}

impl Scenario for PresenceStorm {
    const NAME: &'static str = "presence-storm";

    fn clients(&self) -> usize {
        self.users
    }

    fn run(&self, run: &mut ScenarioRun<'_>) -> BenchOutcome<()> {
        let users = run.limit_clients(self.users);
        let ring = Ring { users, contacts: self.contacts.unwrap_or(users) };
        run.make_rosters(ring)?;
        self.login_storm(run, ring)?;
        let rate = users as f64 / self.every;
        run.meter.doing(format!("presence-storm: {rate:.1} changes/s, {} contacts each", ring.degree()));
        let (window, threads) = (run.window(self.warm_up, self.seconds), run.crew.threads());
        let load = |thread| {
            let composer = Composer::new(run, thread);
            PresenceChanges {
                pace: Pace::new(rate, window, thread, threads),
                receiver: Receiver::new(run.number, composer.counters().clone()),
                composer,
                copies: ring.degree() as u64,
                sent: vec![0; users.saturating_sub(thread).div_ceil(threads)],
                thread,
                out: Vec::new(),
            }
        };
        let mut loads: Vec<PresenceChanges> = (0..threads).map(load).collect();
        run.measure(&mut loads, window)?;
        let trackers: Vec<&Tracker> = loads.iter().map(|load| &load.receiver.tracker).collect();
        let sent = (0..users).flat_map(|user| {
            let sent = loads.get(user % threads).and_then(|load| load.sent.get(user / threads));
            let sent = sent.copied().unwrap_or_default();
            ring.of(user).map(move |contact| (TrackedPair { sender: user as u32, receiver: contact as u32 }, sent))
        });
        run.account(tally(sent, &trackers));
        Ok(())
    }
}

impl PresenceStorm {
    /// Logs in all users, who learn that all of their contacts are available: the cost of that is a
    /// part of the result.
    fn login_storm(&self, run: &mut ScenarioRun<'_>, ring: Ring) -> BenchOutcome<()> {
        let expected = (ring.users * ring.degree()) as u64;
        let from = run.read();
        run.log_in(0..ring.users, "")?;
        run.meter.doing("presence-storm: everybody becomes available");
        let threads = run.crew.threads();
        let available = run.read();
        let load = |thread| {
            let counters = run.crew.counters().get(thread).cloned().unwrap_or_default();
            Coming { users: ring.users, thread, counters, begun: false, seen: HashSet::new() }
        };
        let mut loads: Vec<Coming> = (0..threads).map(load).collect();
        let before = run.crew.totals().get(LoadCount::Steps);
        let (mut last, mut seen) = (std::time::Instant::now(), 0);
        run.watch(&mut loads, |totals| {
            let now = totals.get(LoadCount::Steps) - before;
            if now != seen {
                (last, seen) = (std::time::Instant::now(), now);
            }
            seen >= expected || last.elapsed() > PATIENCE
        })?;
        let to = run.read();
        let seconds = |to: &super::meter::MeterReading, from: &super::meter::MeterReading| {
            to.server.zip(from.server).map(|(to, from)| to.since(&from).seconds())
        };
        if let Some((all, presence)) = seconds(&to, &from).zip(seconds(&to, &available)) {
            let note = format!(
                "login storm of mutual contacts: {all:.2} s of the server's CPU, {presence:.2} s of them for presence"
            );
            run.result.notes.push(note);
        }
        let wall = (to.at - available.at).as_secs_f64();
        run.result.parts.push(SweepPoint {
            curve: "login storm".into(),
            label: format!("login storm {}", ring.users),
            n: ring.users as u64,
            rounds: 1,
            delivered: seen,
            expected,
            us_per_destination_wall: wall * 1e6 / seen.max(1) as f64,
            us_cpu_per_destination: seconds(&to, &available).map(|cpu| cpu * 1e6 / seen.max(1) as f64),
            latency: None,
        });
        if seen < expected {
            return Err(format!("{seen} of {expected} presence stanzas arrived when everybody became available").into());
        }
        run.rest(Duration::from_secs(1))
    }
}

/// Sends the first presence of each user of a thread, and counts the contacts' presence.
#[derive(Debug)]
struct Coming {
    users: usize,
    thread: usize,
    counters: Arc<LoadCounters>,
    begun: bool,
    /// The pairs of a client and a contact that it has seen: some servers send presence twice.
    seen: HashSet<(usize, usize)>,
}

impl WorkerLoad for Coming {
    fn due(&mut self, _now: u64, worker: &mut LoadWorker) -> u64 {
        if !std::mem::replace(&mut self.begun, true) {
            let own = (self.thread..self.users).step_by(worker.threads());
            own.for_each(|user| worker.send(user, crate::chat::PRESENCE.as_bytes()));
        }
        NEVER
    }

    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, _now: u64, _out: &mut Vec<u8>) {
        if stanza.kind() == Kind::Presence && stanza.type_().is_none() {
            let from = stanza.from().and_then(|from| contact(&from));
            if let Some(from) = from
                && from != number
                && self.seen.insert((from, number))
            {
                self.counters.add(LoadCount::Steps, 1);
            }
        }
    }
}

/// The changes of the users of one thread.
#[derive(Debug)]
struct PresenceChanges {
    pace: Pace,
    composer: Composer,
    receiver: Receiver,
    copies: u64,
    sent: Vec<u32>,
    thread: usize,
    out: Vec<u8>,
}

impl WorkerLoad for PresenceChanges {
    fn due(&mut self, now: u64, worker: &mut LoadWorker) -> u64 {
        for _ in 0..AT_ONCE {
            let Some((number, intended)) = self.pace.take(now) else { break };
            let slot = number as usize % self.sent.len().max(1);
            let Some(sent) = self.sent.get_mut(slot) else { break };
            let user = slot * worker.threads() + self.thread;
            let mark = self.composer.mark(user, *sent, intended);
            self.out.clear();
            self.composer.presence(if *sent % 2 == 0 { "away" } else { "chat" }, mark, self.copies, &mut self.out);
            *sent += 1;
            self.composer.counters().lateness.add(now.saturating_sub(intended));
            worker.send(user, &self.out);
        }
        self.pace.upcoming().unwrap_or(NEVER)
    }

    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, now: u64, _out: &mut Vec<u8>) {
        // Servers send presence to the user's own resources too.
        let own = || stanza.from().and_then(|from| contact(&from)) == Some(number);
        if stanza.kind() == Kind::Presence && !own() {
            self.receiver.take(number, stanza, now);
        }
    }
}

/// The number of changes that are sent before input is read.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(20);
