//! One message to many recipients by XEP-0033, with the recipients hidden and shown, and the same
//! as single messages.
//!
//! The recipients are sessions that are logged in. A round ends when the last copy has arrived;
//! its time counts from sending to that arrival.

use std::fmt::Write;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex};

use clap::{Args, ValueEnum};
use rookery_base::lock::lock;
use rookery_xml::{Element, Kind, Stanza, ns};
use serde::Serialize;

use super::compose::Composer;
use super::{Scenario, ScenarioRun};
use crate::engine::{LoadTally, LoadWorker, NEVER, Receiver, TrackedPair, Tracker, WorkerLoad, tally};
use crate::process::median_and_min;
use crate::result::SweepPoint;
use crate::{BenchOutcome, chat};

/// Sizes of the load.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Multicast {
    /// Fewest recipients
    #[arg(long, default_value_t = 1)]
    from: usize,
    /// Most recipients
    #[arg(long, default_value_t = 901)]
    to: usize,
    /// Step from one number of recipients to the next
    #[arg(long, default_value_t = 100)]
    step: usize,
    /// Ways to address the recipients
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [MulticastWay::Bcc, MulticastWay::To, MulticastWay::Single])]
    ways: Vec<MulticastWay>,
    /// Maximum number of rounds at each point
    #[arg(long, default_value_t = 50)]
    rounds: usize,
    /// Approximate seconds at each point
    #[arg(long, default_value_t = 2.0)]
    part_seconds: f64,
    /// Seconds to wait for the last copy of a round
    #[arg(long, default_value_t = 20.0)]
    patience: f64,
    /// Address of the service [default: multicast.DOMAIN]
    #[arg(long)]
    service: Option<String>,
}

/// The way in which recipients are addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MulticastWay {
    /// As bcc: no copy names the others
    Bcc,
    /// As to: every copy names all of them
    To,
    /// By one message for each
    Single,
}

impl MulticastWay {
    fn name(self) -> &'static str {
        match self {
            MulticastWay::Bcc => "bcc",
            MulticastWay::To => "to",
            MulticastWay::Single => "single",
        }
    }
}

impl Scenario for Multicast {
    const NAME: &'static str = "multicast";

    fn clients(&self) -> usize {
        1 + self.to
    }

    fn run(&self, run: &mut ScenarioRun<'_>) -> BenchOutcome<()> {
        let clients = run.limit_clients(self.clients());
        run.log_in(0..clients, chat::PRESENCE)?;
        let shared = Arc::new(MulticastShared::default());
        let mut loads: Vec<Rounds> = (0..run.crew.threads()).map(|thread| self.load(run, thread, &shared)).collect();
        let from = run.read();
        let mut all = LoadTally::default();
        for way in &self.ways {
            for recipients in (self.from.max(1)..=self.to.min(clients - 1)).step_by(self.step.max(1)) {
                let (part, tally) = self.part(run, &mut loads, *way, recipients)?;
                all.add(&tally);
                let whole = part.delivered == part.expected;
                run.result.parts.push(part);
                if !whole {
                    let why = shared.take_refusal().unwrap_or_else(|| "not every copy came in time".into());
                    run.result.notes.push(format!("{} to {recipients}: {why}", way.name()));
                    break;
                }
            }
        }
        let to = run.read();
        run.fill_in(&from, &to);
        run.account(all);
        match run.result.parts.iter().all(|part| part.delivered == part.expected) {
            true => Ok(()),
            false => Err(run.result.notes.join("; ").into()),
        }
    }
}

impl Multicast {
    fn load(&self, run: &ScenarioRun<'_>, thread: usize, shared: &Arc<MulticastShared>) -> Rounds {
        let composer = Composer::new(run, thread);
        Rounds {
            receiver: Receiver::new(run.number, composer.counters().clone()),
            composer,
            shared: shared.clone(),
            sends: thread == 0,
            service: self.service.clone().unwrap_or_else(|| format!("multicast.{}", run.server.place.domain)),
            domain: run.server.domain(),
            patience: (self.patience * 1e9) as u64,
            plan: MulticastPlan { part: 0, way: MulticastWay::Bcc, recipients: 0, rounds: 0, until: 0 },
            walls: Vec::new(),
            sent_at: None,
            out: Vec::new(),
        }
    }

    /// Measures one point of a curve.
    fn part(
        &self,
        run: &mut ScenarioRun<'_>,
        loads: &mut [Rounds],
        way: MulticastWay,
        n: usize,
    ) -> BenchOutcome<(SweepPoint, LoadTally)> {
        let label = format!("{} {n}", way.name());
        run.meter.doing(format!("multicast: {label}"));
        let number = loads.first().map_or(0, |load| load.plan.part + 1);
        let until = run.crew.now() + (self.part_seconds * 1e9) as u64;
        let plan = MulticastPlan { part: number, way, recipients: n, rounds: self.rounds.max(1) as u32, until };
        loads.iter_mut().for_each(|load| load.begin(plan));
        let shared = loads.first().map(|load| load.shared.clone()).unwrap_or_default();
        let from = run.read();
        run.watch(loads, |_| shared.over.load(Relaxed))?;
        let to = run.read();
        let done = to.totals.since(&from.totals);
        let (sent, walls) = loads.first().map_or((0, Vec::new()), |load| (load.rounds_sent(), load.walls.clone()));
        let trackers: Vec<&Tracker> = loads.iter().map(|load| &load.receiver.tracker).collect();
        let receivers = (1..=n).map(|receiver| (TrackedPair { sender: number, receiver: receiver as u32 }, sent));
        let tally = tally(receivers, &trackers);
        let cpu = to.server.zip(from.server).map(|(to, from)| to.since(&from).seconds());
        let part = SweepPoint {
            curve: way.name().to_owned(),
            label,
            n: n as u64,
            rounds: u64::from(sent),
            delivered: tally.delivered,
            expected: tally.expected,
            us_per_destination_wall: median_and_min(&walls).0.max(0.0) / 1e3 / n as f64,
            us_cpu_per_destination: cpu
                .filter(|_| tally.delivered > 0)
                .map(|seconds| seconds * 1e6 / tally.delivered as f64),
            latency: done.latency.latency(),
        };
        Ok((part, tally))
    }
}

/// The state that the threads share.
#[derive(Debug, Default)]
struct MulticastShared {
    /// The current part and round.
    current: AtomicU64,
    /// The number of copies of the current round that have arrived.
    arrived: AtomicU64,
    /// The time of the last arrival.
    last: AtomicU64,
    /// True if the part is over.
    over: AtomicBool,
    refused: Mutex<Option<String>>,
}

impl MulticastShared {
    /// Returns the service's error for a message, if there was one.
    fn take_refusal(&self) -> Option<String> {
        lock(&self.refused).take()
    }
}

/// A point of a curve.
#[derive(Debug, Clone, Copy)]
struct MulticastPlan {
    part: u32,
    way: MulticastWay,
    recipients: usize,
    rounds: u32,
    until: u64,
}

/// The clients of one thread; the first thread has the sender, client 0.
#[derive(Debug)]
struct Rounds {
    composer: Composer,
    receiver: Receiver,
    shared: Arc<MulticastShared>,
    sends: bool,
    service: String,
    /// The domain, escaped.
    domain: String,
    patience: u64,
    plan: MulticastPlan,
    /// The duration of each round, in nanoseconds.
    walls: Vec<f64>,
    sent_at: Option<u64>,
    out: Vec<u8>,
}

impl Rounds {
    fn begin(&mut self, plan: MulticastPlan) {
        self.plan = plan;
        self.walls.clear();
        self.sent_at = None;
        self.shared.over.store(false, Relaxed);
    }

    /// Returns the number of rounds of this part, including an unfinished one.
    fn rounds_sent(&self) -> u32 {
        self.walls.len() as u32 + u32::from(self.sent_at.is_some())
    }

    fn send(&mut self, worker: &mut LoadWorker) {
        let (MulticastPlan { part, way, recipients, .. }, round) = (self.plan, self.walls.len() as u32);
        self.shared.arrived.store(0, Relaxed);
        self.shared.last.store(0, Relaxed);
        self.shared.current.store(u64::from(part) << 32 | u64::from(round), SeqCst);
        self.out.clear();
        let now = worker.now();
        let mark = self.composer.mark(part as usize, round, now);
        match way {
            MulticastWay::Single => (1..=recipients).for_each(|to| self.composer.chat(to, mark, &mut self.out)),
            MulticastWay::Bcc | MulticastWay::To => {
                let head = self.head(way.name());
                self.composer.message(&head, mark, recipients as u64, &mut self.out);
            }
        }
        self.sent_at = Some(now);
        worker.send(0, &self.out);
    }

    /// Returns the message up to its body.
    fn head(&self, kind: &str) -> String {
        let service = rookery_xml::escape_attr(&self.service);
        let mut head =
            format!("<message to='{service}' type='chat' id='{:x}'><addresses xmlns='{ADDRESS}'>", self.walls.len());
        for recipient in 1..=self.plan.recipients {
            // Writing to a string does not fail.
            let _ = write!(head, "<address type='{kind}' jid='{}'/>", chat::account(recipient, &self.domain));
        }
        head + "</addresses>"
    }
}

impl WorkerLoad for Rounds {
    fn due(&mut self, now: u64, worker: &mut LoadWorker) -> u64 {
        if !self.sends || self.shared.over.load(Relaxed) {
            return NEVER;
        }
        if let Some(sent_at) = self.sent_at {
            if self.shared.arrived.load(SeqCst) < self.plan.recipients as u64 {
                let gone = !worker.is_bound(0) || now > sent_at + self.patience;
                let refused = self.shared.refused.lock().is_ok_and(|refused| refused.is_some());
                self.shared.over.store(gone || refused, Relaxed);
                return now + LOOK;
            }
            self.walls.push(self.shared.last.load(Relaxed).saturating_sub(sent_at) as f64);
            self.sent_at = None;
        }
        let rounds = self.walls.len() as u32;
        if rounds >= self.plan.rounds || (rounds >= FEWEST && now > self.plan.until) {
            self.shared.over.store(true, Relaxed);
            return NEVER;
        }
        self.send(worker);
        now + LOOK
    }

    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, now: u64, _out: &mut Vec<u8>) {
        if stanza.kind() != Kind::Message {
            return;
        }
        if number == 0 && stanza.type_().as_deref() == Some("error") {
            let mut refused = lock(&self.shared.refused);
            refused.get_or_insert_with(|| condition(stanza));
        }
        let Some(mark) = self.receiver.take(number, stanza, now) else { return };
        if self.shared.current.load(SeqCst) == u64::from(mark.sender) << 32 | u64::from(mark.sequence) {
            self.shared.last.fetch_max(now, Relaxed);
            self.shared.arrived.fetch_add(1, SeqCst);
        }
    }

    fn is_finished(&self) -> bool {
        self.sends && self.shared.over.load(Relaxed)
    }
}

/// Returns the condition and text of an error stanza.
pub fn condition(stanza: &Stanza<'_>) -> String {
    let stanza = Element::read(stanza);
    let Some(error) = stanza.children().find(|child| child.name() == "error") else { return "error".into() };
    let text = error.child("text", ns::STANZA_ERRORS).map(Element::text).filter(|text| !text.is_empty());
    let condition = error.children().find(|child| child.name() != "text").map_or("error", Element::name);
    text.map_or_else(|| condition.to_owned(), |text| format!("{condition}: {text}"))
}

const ADDRESS: &str = "http://jabber.org/protocol/address";
/// The time between two checks by the sender whether a round is over, in nanoseconds.
const LOOK: u64 = 100_000;
/// The fewest rounds at a point, however long they take.
const FEWEST: u32 = 3;
