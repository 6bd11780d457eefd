//! Pairs in a closed loop: the cost of relaying one message, and how many a server can relay.

use clap::Args;
use rookery_xml::{Kind, Stanza};
use serde::Serialize;

use super::compose::Composer;
use super::run::Window;
use super::{Scenario, ScenarioRun};
use crate::engine::{LoadWorker, NEVER, Receiver, TrackedPair, Tracker, WorkerLoad, tally};
use crate::{BenchOutcome, chat};

/// Sizes of the load.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Chat {
    /// Pairs of clients
    #[arg(long, default_value_t = 1000)]
    pairs: usize,
    /// Messages of each pair in flight
    #[arg(long, default_value_t = 1)]
    window: usize,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seconds to warm up before that
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
}

impl Scenario for Chat {
    const NAME: &'static str = "chat";

    fn clients(&self) -> usize {
        2 * self.pairs
    }

    fn run(&self, run: &mut ScenarioRun<'_>) -> BenchOutcome<()> {
        let clients = run.limit_clients(self.clients()) & !1;
        run.log_in(0..clients, chat::PRESENCE)?;
        run.meter.doing(format!("chat: {} pairs, window {}", clients / 2, self.window));
        let window = run.window(self.warm_up, self.seconds);
        let mut loads: Vec<ChatPairs> =
            (0..run.crew.threads()).map(|thread| self.pairs(run, window, clients, thread)).collect();
        run.measure(&mut loads, window)?;
        let trackers: Vec<&Tracker> = loads.iter().map(|load| &load.receiver.tracker).collect();
        let threads = loads.len();
        let sent = (0..clients).map(|number| {
            let sent = loads.get(number % threads).and_then(|load| load.outgoing.sent.get(number / threads));
            let pair = TrackedPair { sender: number as u32, receiver: (number ^ 1) as u32 };
            (pair, sent.copied().unwrap_or_default())
        });
        run.account(tally(sent, &trackers));
        Ok(())
    }
}

impl Chat {
    fn pairs(&self, run: &ScenarioRun<'_>, window: Window, clients: usize, thread: usize) -> ChatPairs {
        let threads = run.crew.threads();
        let own = || (0..clients).filter(move |number| number % threads == thread);
        let composer = Composer::new(run, thread);
        // The messages of all pairs alternate, so that no pair waits for another's window.
        let first = (0..self.window).flat_map(|_| own().filter(|number| number % 2 == 0));
        ChatPairs {
            window,
            first: first.collect::<Vec<_>>().into_iter(),
            receiver: Receiver::new(run.number, composer.counters().clone()),
            outgoing: ChatOutgoing { composer, sent: vec![0; own().count()], threads },
            out: Vec::new(),
        }
    }
}

/// The pairs' clients of one thread.
#[derive(Debug)]
struct ChatPairs {
    window: Window,
    /// The clients that send without having received a message.
    first: std::vec::IntoIter<usize>,
    outgoing: ChatOutgoing,
    receiver: Receiver,
    out: Vec<u8>,
}

#[derive(Debug)]
struct ChatOutgoing {
    composer: Composer,
    /// The number of messages that each client of the thread has sent.
    sent: Vec<u32>,
    threads: usize,
}

impl ChatOutgoing {
    /// Appends the next message of a client to its partner.
    fn write(&mut self, number: usize, now: u64, out: &mut Vec<u8>) {
        let Some(sent) = self.sent.get_mut(number / self.threads) else { return };
        let mark = self.composer.mark(number, *sent, now);
        *sent += 1;
        self.composer.chat(number ^ 1, mark, out);
    }
}

impl WorkerLoad for ChatPairs {
    fn due(&mut self, now: u64, worker: &mut LoadWorker) -> u64 {
        if now < self.window.start {
            return self.window.start;
        }
        for number in self.first.by_ref().take(AT_ONCE) {
            self.out.clear();
            self.outgoing.write(number, now, &mut self.out);
            worker.send(number, &self.out);
        }
        if self.first.len() > 0 { now } else { NEVER }
    }

    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, now: u64, out: &mut Vec<u8>) {
        if stanza.kind() == Kind::Message
            && self.receiver.take(number, stanza, now).is_some()
            && now < self.window.until
        {
            self.outgoing.write(number, now, out);
        }
    }
}

/// The number of messages that are sent before input is read.
const AT_ONCE: usize = 64;
