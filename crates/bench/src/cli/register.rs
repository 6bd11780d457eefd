//! `rookery bench register`: makes the accounts that loads log in to.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use rookery_xml::Stanza;

use crate::engine::{LoadCount, LoadCrew, LoadWorker, WorkerLoad};
use crate::scenario::{Arrivals, ServerPlace, Wave};
use crate::{BenchOutcome, chat};

/// The accounts to make.
#[derive(Debug, Clone, Args)]
pub struct Register {
    /// The server.
    #[command(flatten)]
    place: ServerPlace,
    /// Number of accounts; they are user0000000@DOMAIN and up
    #[arg(long, value_name = "N")]
    users: usize,
    /// Write them into a file for `rookery user import` instead
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
}

impl Register {
    /// Makes the accounts. Those that exist already stay as they are.
    ///
    /// # Errors
    /// When not all of them could be made.
    pub fn run(self) -> BenchOutcome<()> {
        match &self.csv {
            Some(file) => {
                self.write(file).map_err(|error| format!("{}: {error}", file.display()))?;
                println!("{} accounts written to {}", self.users, file.display());
                Ok(())
            }
            None => self.register(),
        }
    }

    fn write(&self, file: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(fs::File::create(file)?);
        writeln!(out, "jid,password")?;
        let password = self.place.password.replace('"', "\"\"");
        for number in 0..self.users {
            writeln!(out, "{},\"{password}\"", chat::account(number, &self.place.domain))?;
        }
        out.flush()
    }

    fn register(&self) -> BenchOutcome<()> {
        let mut crew = LoadCrew::new(self.place.settings(None, true, std::process::id())?)?;
        let threads = crew.threads();
        let wave =
            Wave { number: 0, at_once: self.place.at_once, rate: None, start: 0, first: Vec::new(), until_seen: false };
        let load = |thread| Making { arrivals: Arrivals::new(0..self.users, &wave, thread, threads), made: Vec::new() };
        let mut loads: Vec<Making> = (0..threads).map(load).collect();
        let (counters, mut told) = (crew.counters().to_vec(), Instant::now());
        let sum = |what| counters.iter().map(|counters| counters.get(what)).sum::<u64>();
        crew.run(&mut loads, &mut |_| {
            if told.elapsed().as_secs() >= 5 {
                eprintln!("{} of {} accounts", sum(LoadCount::LoggedIn), self.users);
                told = Instant::now();
            }
            sum(LoadCount::LoginsFailed) > FAILURES
        })?;
        let made = sum(LoadCount::LoggedIn);
        println!("{made} of {} accounts are there", self.users);
        if made == self.users as u64 {
            return Ok(());
        }
        let reasons: Vec<String> = crew.reasons().into_keys().take(3).collect();
        let hint = "a server without registration (XEP-0077) needs another way: rookery bench register --csv FILE";
        Err(format!("{}\n{hint}", reasons.join("; ")).into())
    }
}

/// Registers the accounts of one thread; each connection is closed when it has done its part.
#[derive(Debug)]
struct Making {
    arrivals: Arrivals,
    made: Vec<usize>,
}

impl WorkerLoad for Making {
    fn due(&mut self, now: u64, worker: &mut LoadWorker) -> u64 {
        self.made.drain(..).for_each(|number| worker.hang_up(number));
        self.arrivals.due(now, worker)
    }

    fn bound(&mut self, number: usize, started: u64, now: u64, out: &mut Vec<u8>) {
        self.made.push(number);
        self.arrivals.bound(number, started, now, out);
    }

    fn stanza(&mut self, _number: usize, _stanza: &Stanza<'_>, _now: u64, _out: &mut Vec<u8>) {}

    fn ended(&mut self, number: usize, was_bound: bool) {
        self.arrivals.ended(number, was_bound);
    }

    fn finished(&self) -> bool {
        self.arrivals.finished()
    }
}

/// Failures after which no more accounts are tried.
const FAILURES: u64 = 20;
