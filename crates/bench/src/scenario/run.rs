//! One run: the clients, the instruments and the result that is filled in, phase by phase.

use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::clients::{Arrivals, Wave};
use super::drain::Drain;
use super::meter::{Meter, MeterReading};
use super::{Against, Scenario, ServerArguments};
use crate::engine::bosh::LINES;
use crate::engine::{LoadCount, LoadCrew, LoadTally, Transport, WorkerLoad};
use crate::result::{DONE, FORMAT, LoginSeries, RunMachine, RunResult, ServerCpu, ServerMemory};
use crate::{BenchOutcome, chat};

/// A run in progress.
#[derive(Debug)]
pub struct ScenarioRun<'a> {
    /// The flags that all scenarios have.
    pub server: &'a ServerArguments,
    /// The clients.
    pub crew: LoadCrew,
    /// The instruments.
    pub meter: Meter,
    /// The results so far.
    pub result: RunResult,
    /// The number in the marks of this run's stanzas.
    pub number: u32,
    started: MeterReading,
    zero: Instant,
    waves: u32,
}

/// A period in which a load is sent, in nanoseconds since the crew was made.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// The time when sending begins.
    pub start: u64,
    /// The time when measuring begins.
    pub measured: u64,
    /// The time when both end.
    pub until: u64,
}

/// Runs a load from beginning to end. There is a result in any case.
pub(super) fn run<S: Scenario>(load: &Against<S>) -> RunResult {
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut result = RunResult {
        format: FORMAT,
        scenario: S::NAME.to_owned(),
        server: load.server.name.clone().unwrap_or_else(|| load.server.place.host.clone()),
        started_unix: begun.as_secs(),
        machine: RunMachine::this(),
        ..RunResult::default()
    };
    result.settings.extend(settings(&load.scenario));
    result.settings.insert("tls".into(), format!("{:?}", load.server.place.tls).to_lowercase());
    result.settings.insert("transport".into(), load.server.place.transport.label().to_owned());
    let seed = (begun.as_nanos() as u32) ^ std::process::id().rotate_left(16);
    let crew = load.server.settings(seed).and_then(|settings| Ok(LoadCrew::new(settings)?));
    let crew = match crew {
        Ok(crew) => crew,
        Err(error) => return RunResult { ended: error.to_string(), ..result },
    };
    let (mut meter, note) = Meter::new(&load.server.server_pid, false);
    result.notes.extend(note);
    let started = meter.read(crew.totals());
    let zero = Instant::now();
    let mut run = ScenarioRun { server: &load.server, crew, meter, result, number: seed, started, zero, waves: 0 };
    let outcome = load.scenario.run(&mut run);
    run.finish(outcome)
}

impl ScenarioRun<'_> {
    /// Notes that a load is smaller than requested if this process's descriptors don't allow more;
    /// returns the possible number of clients.
    pub fn limit_clients(&mut self, clients: usize) -> usize {
        let each = if self.server.place.transport == Transport::Bosh { LINES } else { 1 };
        let most = crate::idle::most_sessions() / each;
        if clients > most {
            let note =
                format!("{clients} clients were asked for; the limit of descriptors of this process allows {most}");
            eprintln!("{note}");
            self.result.notes.push(note);
        }
        clients.min(most)
    }

    /// Returns a new wave of clients, which begins now, with as many logins at once as the flags
    /// allow.
    pub fn wave(&mut self, first: &str) -> Wave {
        self.waves += 1;
        let start = self.crew.now();
        let at_once = self.server.place.at_once;
        Wave { number: self.waves, at_once, rate: None, start, first: first.into(), until_seen: false }
    }

    /// Makes a new wave of clients that become available and, if requested, fetch their contacts
    /// before and wait for their own presence.
    pub fn wave_of(&mut self, until_seen: bool) -> Wave {
        let first = if until_seen { format!("{FETCH}{}", chat::PRESENCE) } else { chat::PRESENCE.to_owned() };
        Wave { until_seen, ..self.wave(&first) }
    }

    /// Logs clients in and waits for the server's stanzas to new sessions; fills in the logins.
    ///
    /// # Errors
    /// One of them could not log in.
    pub fn log_in(&mut self, clients: Range<usize>, first: &str) -> BenchOutcome<()> {
        let wave = self.wave(first);
        let count = clients.len();
        self.meter.doing(format!("{}: logging in {count} clients", self.result.scenario));
        self.arrive(clients.clone(), &wave, false)?;
        self.try_again(clients, first)?;
        self.failed_logins()?;
        self.rest(SETTLE)?;
        self.ask_version()
    }

    /// Repeats the failed logins if they are few, and notes that: a server that drops one in a
    /// thousand can still be measured.
    fn try_again(&mut self, clients: Range<usize>, first: &str) -> BenchOutcome<()> {
        let Some(before) = self.result.login.clone() else { return Ok(()) };
        if before.failed == 0 || before.failed > before.count / FORGOTTEN {
            return Ok(());
        }
        let all = before.count + before.failed;
        self.result.notes.push(format!(
            "{} of {all} logins failed and were tried again: {}",
            before.failed,
            self.reasons()
        ));
        let wave = self.wave(first);
        self.arrive(clients, &wave, false)?;
        if let Some(login) = &mut self.result.login {
            // The duration stays that of the first attempts: the repeated ones took no extra time.
            *login = LoginSeries { count: before.count + login.count, failed: login.failed, ..before };
        }
        Ok(())
    }

    /// Logs in a wave of clients; fills in the logins. With `noting`, the duration of each login is
    /// among the latencies.
    ///
    /// # Errors
    /// The error of the system. Failed logins are counted.
    pub fn arrive(&mut self, clients: Range<usize>, wave: &Wave, noting: bool) -> BenchOutcome<()> {
        let threads = self.crew.threads();
        let load = |thread| {
            let arrivals = Arrivals::new(clients.clone(), wave, thread, threads);
            match self.crew.counters().get(thread) {
                Some(counters) if noting => arrivals.noting(counters.clone()),
                _ => arrivals,
            }
        };
        let mut loads: Vec<Arrivals> = (0..threads).map(load).collect();
        let before = self.meter.read(self.crew.totals());
        let all = clients.len() as u64;
        self.watch(&mut loads, |totals| {
            // A server that admits no client isn't tried thousands of times.
            let failed = totals.get(LoadCount::LoginsFailed) - before.totals.get(LoadCount::LoginsFailed);
            failed > (all / 10).max(20)
        })?;
        let after = self.meter.read(self.crew.totals());
        self.limits(&before, &after);
        let (done, seconds) = (after.totals.since(&before.totals), (after.at - before.at).as_secs_f64());
        let count = done.get(LoadCount::LoggedIn);
        let cpu = after.server.zip(before.server).map(|(after, before)| after.since(&before).seconds());
        self.result.sessions = after.totals.get(LoadCount::Sessions);
        self.result.login = Some(LoginSeries {
            count,
            failed: done.get(LoadCount::LoginsFailed),
            seconds,
            per_second: count as f64 / seconds,
            per_cpu_second: cpu.filter(|cpu| *cpu > 0.0).map(|cpu| count as f64 / cpu),
        });
        Ok(())
    }

    /// Returns an error if logins have failed.
    ///
    /// # Errors
    /// Some logins have failed.
    pub fn failed_logins(&self) -> BenchOutcome<()> {
        let Some(LoginSeries { count, failed, .. }) = self.result.login else { return Ok(()) };
        if failed == 0 {
            return Ok(());
        }
        let reasons = self.reasons();
        let mut text = format!("{failed} of {} logins failed: {reasons}", count + failed);
        if reasons.contains("not-authorized") {
            let (host, domain) = (&self.server.place.host, &self.server.place.domain);
            text += &format!(
                "\nCheck that the accounts exist and have that password. To create them:\n  \
                 rookery bench register --host {host} --domain {domain} --users {}\n\
                 or, if the server has no registration, let the same command write a file for the server with --csv FILE",
                count + failed
            );
        }
        Err(text.into())
    }

    /// Runs loads until they are finished or `enough` returns true, sampling meanwhile.
    ///
    /// # Errors
    /// The error of the system.
    pub fn watch<L: WorkerLoad>(
        &mut self,
        loads: &mut [L],
        mut enough: impl FnMut(&crate::engine::Totals) -> bool,
    ) -> BenchOutcome<()> {
        let counters = self.crew.counters().to_vec();
        let totals = || crate::engine::Totals::of(counters.iter().map(AsRef::as_ref));
        let meter = &mut self.meter;
        self.crew.run(loads, &mut |_| {
            meter.tick(totals);
            enough(&totals())
        })
    }

    /// Reads input for this time, without sending.
    ///
    /// # Errors
    /// The error of the system.
    pub fn rest(&mut self, time: Duration) -> BenchOutcome<()> {
        let until = Instant::now() + time;
        let mut loads: Vec<Drain> = (0..self.crew.threads()).map(|_| Drain).collect();
        self.watch(&mut loads, |_| Instant::now() >= until)
    }

    /// Returns a window that begins now.
    pub fn window(&self, warm_up: f64, seconds: f64) -> Window {
        let start = self.crew.now() + LEAD;
        let nanoseconds = |seconds: f64| (seconds.max(0.0) * 1e9) as u64;
        let measured = start + nanoseconds(warm_up);
        Window { start, measured, until: measured + nanoseconds(seconds) }
    }

    /// Runs loads that send within the window, waits for stanzas in flight, and fills in all
    /// measurements.
    ///
    /// # Errors
    /// The error of the system.
    pub fn measure<L: WorkerLoad>(&mut self, loads: &mut [L], window: Window) -> BenchOutcome<()> {
        let counters = self.crew.counters().to_vec();
        let totals = || crate::engine::Totals::of(counters.iter().map(AsRef::as_ref));
        let (mut from, mut to, mut last) = (None, None, (0, 0));
        let meter = &mut self.meter;
        self.crew.run(loads, &mut |now| {
            meter.tick(totals);
            if from.is_none() && now >= window.measured {
                from = Some(meter.read(totals()));
            }
            if now < window.until {
                return false;
            }
            let totals = totals();
            if to.is_none() {
                to = Some(meter.read(totals.clone()));
            }
            if last.0 != totals.get(LoadCount::Stanzas) {
                last = (totals.get(LoadCount::Stanzas), now);
            }
            let all = totals.get(LoadCount::Delivered) >= totals.get(LoadCount::Expected);
            (all && now > window.until + GRACE) || now > last.1 + QUIET || now > window.until + LONGEST_DRAIN
        })?;
        if let (Some(from), Some(to)) = (from, to) {
            self.fill_in(&from, &to);
            self.limits(&from, &to);
        }
        Ok(())
    }

    /// Reads the instruments now.
    pub fn read(&mut self) -> MeterReading {
        let totals = self.crew.totals();
        self.meter.read(totals)
    }

    /// Fills in the difference of two readings, per delivery.
    pub fn fill_in(&mut self, from: &MeterReading, to: &MeterReading) {
        self.fill_in_by(LoadCount::Delivered, from, to);
    }

    /// Fills in the difference of two readings, per login.
    pub fn fill_in_logins(&mut self, from: &MeterReading, to: &MeterReading) {
        self.fill_in_by(LoadCount::LoggedIn, from, to);
    }

    fn fill_in_by(&mut self, operation: LoadCount, from: &MeterReading, to: &MeterReading) {
        let (totals, seconds) = (to.totals.since(&from.totals), (to.at - from.at).as_secs_f64());
        let operations = totals.get(operation);
        self.zero = from.at;
        self.result.seconds = seconds;
        self.result.throughput = Some(operations as f64 / seconds);
        self.result.latency = totals.latency.latency();
        let server = to.server.as_ref().zip(from.server.as_ref());
        self.result.server_cpu = server.map(|(to, from)| cpu_of(&to.since(from), operations));
        self.result.generator_cpu = cpu_of(&to.generator.since(&from.generator), operations);
        self.remember(to, None);
    }

    /// Fills in the memory that a reading shows.
    pub fn remember(&mut self, to: &MeterReading, per_session: Option<f64>) {
        self.result.memory = self.started.memory.zip(to.memory).map(|(start, end)| ServerMemory {
            start,
            end,
            peak: self.meter.peak(),
            per_session,
        });
    }

    /// Notes if the generator was the limit.
    fn limits(&mut self, from: &MeterReading, to: &MeterReading) {
        let seconds = (to.at - from.at).as_secs_f64();
        let totals = to.totals.since(&from.totals);
        let busiest = totals.threads.iter().max().map_or(0.0, |nanoseconds| *nanoseconds as f64 / 1e9);
        let mut reasons = Vec::new();
        if busiest > BUSY * seconds {
            reasons.push(format!("one of its threads was on a CPU {:.0} % of the time", busiest / seconds * 100.0));
        }
        let late_ms = totals.lateness.quantile(0.99) as f64 / 1e6;
        if late_ms > LATE_MS {
            reasons.push(format!("1 % of its sends were more than {late_ms:.0} ms behind schedule"));
        }
        self.result.generator_limit = (!reasons.is_empty()).then(|| reasons.join("; "));
        let server = to.server.as_ref().zip(from.server.as_ref()).map_or(0.0, |(to, from)| to.since(from).seconds());
        let both = (server + to.generator.since(&from.generator).seconds()) / seconds;
        let cores = f64::from(self.result.machine.cores);
        if both > BUSY * cores {
            self.result.notes.push(format!("server and generator together kept {both:.1} of {cores:.0} cores busy"));
        }
    }

    /// Fills in the numbers of sent, delivered and lost stanzas.
    pub fn account(&mut self, tally: LoadTally) {
        self.result.expected = tally.expected;
        self.result.delivered = tally.delivered;
        self.result.lost = tally.lost;
        if tally.invented > 0 {
            self.result.notes.push(format!("{} stanzas came that nobody has sent", tally.invented));
        }
    }

    /// Returns the reasons why connections have ended.
    pub fn reasons(&self) -> String {
        let mut all: Vec<(String, u64)> = self.crew.reasons().into_iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let some = all.iter().take(3).map(|(reason, count)| match count {
            1 => reason.clone(),
            count => format!("{reason} ({count} times)"),
        });
        some.collect::<Vec<_>>().join("; ")
    }

    fn finish(mut self, outcome: BenchOutcome<()>) -> RunResult {
        let totals = self.crew.totals();
        let mut result = std::mem::take(&mut self.result);
        result.sent = totals.get(LoadCount::Sent);
        result.duplicated = totals.get(LoadCount::Duplicated);
        result.reordered = totals.get(LoadCount::Reordered);
        result.errors = totals.get(LoadCount::Errors);
        if totals.get(LoadCount::Foreign) > 0 {
            result.notes.push(format!("{} stanzas of other runs came", totals.get(LoadCount::Foreign)));
        }
        result.series = self.meter.series(self.zero);
        let broken = totals.get(LoadCount::Broken);
        result.ended = match outcome {
            Err(error) => with_hint(error.to_string()),
            Ok(()) if broken > 0 => format!("{broken} sessions were ended by the server: {}", self.reasons()),
            Ok(()) => DONE.to_owned(),
        };
        result
    }
}

/// Adds a hint for servers that admit no client without encryption.
fn with_hint(error: String) -> String {
    match error.contains("SASL") && error.contains("<starttls/>") {
        true => format!("{error}; the server wants encryption first: try --tls starttls"),
        false => error,
    }
}

fn cpu_of(cpu: &crate::process::Cpu, operations: u64) -> ServerCpu {
    let total_s = cpu.seconds();
    let us_per_operation = if operations == 0 { 0.0 } else { total_s * 1e6 / operations as f64 };
    ServerCpu { total_s, user_s: total_s * cpu.user_share(), us_per_operation }
}

/// Returns the flags of a scenario, as text.
fn settings<S: Scenario>(scenario: &S) -> Vec<(String, String)> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(scenario) else { return Vec::new() };
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    fields.into_iter().map(|(name, value)| (name.replace('_', "-"), text(value))).collect()
}

/// Asks for the contacts, as clients do before they become available.
const FETCH: &str = "<iq type='get' id='contacts'><query xmlns='jabber:iq:roster'/></iq>";
/// The number of logins of which one may fail once.
const FORGOTTEN: u64 = 500;
/// The time within which a server's stanzas to new sessions arrive.
const SETTLE: Duration = Duration::from_millis(500);
/// The time from making a window to its start, in which the threads begin.
const LEAD: u64 = 20_000_000;
/// The time to wait for unexpected copies once everything has arrived.
const GRACE: u64 = 300_000_000;
/// The silence after which no more stanzas are expected.
const QUIET: u64 = 3_000_000_000;
const LONGEST_DRAIN: u64 = 20_000_000_000;
const BUSY: f64 = 0.95;
const LATE_MS: f64 = 10.0;
