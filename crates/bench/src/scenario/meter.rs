//! Observes the server, the generator and the counters while a load runs: samples over time, and a
//! progress line.

use std::fs;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::engine::{LoadCount, Totals};
use crate::process::Cpu;
use crate::result::RunSample;

/// The instruments of a run.
#[derive(Debug)]
pub struct Meter {
    servers: Vec<u32>,
    samples: Vec<(Instant, RunSample)>,
    last: Option<MeterReading>,
    every: Duration,
    progress: Option<ProgressBar>,
    told: Instant,
    what: String,
    peak: u64,
}

/// All values that are read at one moment.
#[derive(Debug, Clone)]
pub struct MeterReading {
    /// The time.
    pub at: Instant,
    /// The counts of the engine.
    pub totals: Totals,
    /// The server's use of CPU.
    pub server: Option<Cpu>,
    /// The generator's use of CPU.
    pub generator: Cpu,
    /// The server's resident memory.
    pub memory: Option<u64>,
}

impl Meter {
    /// Makes instruments for these processes. Returns a note if one can't be read.
    pub fn new(servers: &[u32], quiet: bool) -> (Meter, Option<String>) {
        let error = servers.iter().find_map(|pid| Cpu::of(*pid).err().or_else(|| resident(*pid).err()));
        let note =
            error.map(|error| format!("no figures of the server's CPU and memory: its process can't be read: {error}"));
        let progress = (!quiet && io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{elapsed_precise} {spinner} {msg}");
            ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        let meter = Meter {
            servers: if note.is_none() { servers.to_vec() } else { Vec::new() },
            samples: Vec::new(),
            last: None,
            every: FEW,
            progress,
            told: Instant::now(),
            what: String::new(),
            peak: 0,
        };
        (meter, note)
    }

    /// Sets the description of the current step in the progress line.
    pub fn doing(&mut self, what: impl Into<String>) {
        self.what = what.into();
        if self.progress.is_none() {
            eprintln!("{}", self.what);
        }
    }

    /// Reads everything now.
    pub fn read(&mut self, totals: Totals) -> MeterReading {
        let memory = self.of_servers(resident).map(|bytes| bytes.iter().sum());
        self.peak = self.peak.max(memory.unwrap_or_default());
        MeterReading {
            at: Instant::now(),
            totals,
            server: self.of_servers(Cpu::of).map(|used| used.iter().fold(Cpu::default(), |sum, one| sum.plus(one))),
            generator: Cpu::of_this_process(),
            memory,
        }
    }

    /// Returns a figure of each process of the server; `None` if there is no process, or one has
    /// ended.
    fn of_servers<T>(&self, figure: impl Fn(u32) -> io::Result<T>) -> Option<Vec<T>> {
        let all: io::Result<Vec<T>> = self.servers.iter().map(|pid| figure(*pid)).collect();
        all.ok().filter(|all| !all.is_empty())
    }

    /// Takes a sample if one is due.
    pub fn tick(&mut self, totals: impl FnOnce() -> Totals) {
        if self.last.as_ref().is_some_and(|last| last.at.elapsed() < self.every) {
            return;
        }
        let reading = self.read(totals());
        if let Some(last) = &self.last {
            let sample = sample(last, &reading);
            self.tell(&sample);
            self.samples.push((reading.at, sample));
        }
        self.last = Some(reading);
        // A long run is sampled at longer intervals: a report needs no more than a few hundred
        // points.
        if self.samples.len() > MOST {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.every *= 2;
        }
    }

    /// Returns the samples, with times since `zero`.
    pub fn series(&self, zero: Instant) -> Vec<RunSample> {
        let since = |at: Instant| {
            at.checked_duration_since(zero).map_or_else(|| -zero.duration_since(at).as_secs_f64(), |d| d.as_secs_f64())
        };
        self.samples.iter().map(|(at, sample)| RunSample { t_s: since(*at), ..sample.clone() }).collect()
    }

    /// Returns the largest memory of the server in any sample.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns memory by sessions, for each sample.
    pub fn memory_by_sessions(&self) -> Vec<(f64, f64)> {
        let points = self.samples.iter().map(|(_, sample)| (sample.sessions, sample.server_rss_bytes));
        points.filter_map(|(sessions, bytes)| Some((sessions as f64, bytes? as f64))).collect()
    }

    fn tell(&mut self, sample: &RunSample) {
        let server =
            sample.server_cpu_share.map_or_else(String::new, |share| format!(", server {:.0} %", share * 100.0));
        let line = format!(
            "{}: {} sessions, {:.0} sent/s, {:.0} delivered/s{server}, generator {:.0} %",
            self.what,
            sample.sessions,
            sample.sent_per_s,
            sample.delivered_per_s,
            sample.generator_cpu_share * 100.0
        );
        match &self.progress {
            Some(progress) => {
                progress.set_message(line);
                progress.tick();
            }
            None if self.told.elapsed() > SELDOM => {
                eprintln!("{line}");
                self.told = Instant::now();
            }
            None => {}
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(progress) = &self.progress {
            progress.finish_and_clear();
        }
    }
}

fn sample(last: &MeterReading, now: &MeterReading) -> RunSample {
    let seconds = now.at.duration_since(last.at).as_secs_f64().max(1e-9);
    let totals = now.totals.since(&last.totals);
    let share = |now: &Cpu, last: &Cpu| now.since(last).seconds() / seconds;
    RunSample {
        t_s: 0.0,
        delivered_per_s: totals.get(LoadCount::Delivered) as f64 / seconds,
        sent_per_s: totals.get(LoadCount::Sent) as f64 / seconds,
        sessions: now.totals.get(LoadCount::Sessions),
        server_cpu_share: now.server.as_ref().zip(last.server.as_ref()).map(|(now, last)| share(now, last)),
        server_rss_bytes: now.memory,
        generator_cpu_share: share(&now.generator, &last.generator),
        p99_us: (totals.latency.count() > 0).then(|| totals.latency.quantile(0.99) as f64 / 1e3),
    }
}

/// Returns the resident memory of a process.
fn resident(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(|| io::Error::other("it has ended"))
}

const FEW: Duration = Duration::from_millis(250);
const SELDOM: Duration = Duration::from_secs(5);
const MOST: usize = 400;
