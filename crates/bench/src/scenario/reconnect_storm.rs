//! Everyone drops and comes back at once, as after a failure of the network.

use std::time::Duration;

use clap::Args;
use rookery_xml::Stanza;
use serde::Serialize;

use super::{Scenario, ScenarioRun};
use crate::engine::{LoadCount, LoadWorker, NEVER, WorkerLoad};
use crate::result::SweepPoint;
use crate::{BenchOutcome, chat};

/// Sizes of the load.
#[derive(Debug, Clone, Args, Serialize)]
pub struct ReconnectStorm {
    /// Users, or as many as the limit of open files allows
    #[arg(long, default_value_t = 10_000)]
    users: usize,
    /// Number of times that everyone drops and reconnects
    #[arg(long, default_value_t = 1)]
    waves: usize,
    /// Seconds between dropping and reconnecting
    #[arg(long, default_value_t = 1.0)]
    away: f64,
    /// Let a login fetch the contacts and last until the client sees its own presence, not only
    /// until its resource is bound
    #[arg(long)]
    until_seen: bool,
}

impl Scenario for ReconnectStorm {
    const NAME: &'static str = "reconnect-storm";

    fn clients(&self) -> usize {
        self.users
    }

    fn run(&self, run: &mut ScenarioRun<'_>) -> BenchOutcome<()> {
        let users = run.limit_clients(self.users);
        run.log_in(0..users, chat::PRESENCE)?;
        for number in 1..=self.waves.max(1) {
            run.meter.doing(format!("reconnect-storm: everyone drops ({number})"));
            run.hang_up(0..users)?;
            run.rest(Duration::try_from_secs_f64(self.away)?)?;
            run.meter.doing(format!("reconnect-storm: everyone comes back ({number})"));
            let wave = run.wave_of(self.until_seen);
            let from = run.read();
            run.arrive(0..users, &wave, true)?;
            let to = run.read();
            run.fill_in_logins(&from, &to);
            let logins = to.totals.since(&from.totals);
            let count = logins.get(LoadCount::LoggedIn);
            run.result.parts.push(SweepPoint {
                curve: "wave".into(),
                label: format!("wave {number}"),
                n: number as u64,
                rounds: 1,
                delivered: count,
                expected: users as u64,
                us_per_destination_wall: run.result.seconds * 1e6 / count.max(1) as f64,
                us_cpu_per_destination: run.result.server_cpu.as_ref().map(|cpu| cpu.us_per_operation),
                latency: logins.latency.latency(),
            });
            run.failed_logins()?;
        }
        Ok(())
    }
}

impl ScenarioRun<'_> {
    /// Closes connections.
    ///
    /// # Errors
    /// The error of the system.
    pub fn hang_up(&mut self, clients: std::ops::Range<usize>) -> BenchOutcome<()> {
        let load = |thread| {
            let own = clients.clone().filter(|number| number % self.crew.threads() == thread);
            Drop { own: own.collect::<Vec<_>>().into_iter() }
        };
        let mut loads: Vec<Drop> = (0..self.crew.threads()).map(load).collect();
        self.watch(&mut loads, |_| false)
    }
}

/// Closes the connections of one thread.
#[derive(Debug)]
struct Drop {
    own: std::vec::IntoIter<usize>,
}

impl WorkerLoad for Drop {
    fn due(&mut self, _now: u64, worker: &mut LoadWorker) -> u64 {
        self.own.by_ref().for_each(|number| worker.hang_up(number));
        NEVER
    }

    fn stanza(&mut self, _number: usize, _stanza: &Stanza<'_>, _now: u64, _out: &mut Vec<u8>) {}

    fn is_finished(&self) -> bool {
        self.own.len() == 0
    }
}
