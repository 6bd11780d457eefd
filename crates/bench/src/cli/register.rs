//! `rookery bench register`: creates the accounts that loads log in to.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use rookery_xml::Stanza;

use crate::engine::{LoadCount, LoadCrew, LoadWorker, WorkerLoad};
use crate::scenario::{Arrivals, ServerPlace, Tls, Wave};
use crate::{BenchOutcome, chat};

/// The accounts to create.
#[derive(Debug, Clone, Args)]
pub struct Register {
    /// The server.
    #[command(flatten)]
    place: ServerPlace,
    /// Number of accounts, named user0000000@DOMAIN and up
    #[arg(long, value_name = "N")]
    users: usize,
    /// Write them into a file for `rookery user import` instead
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Remove them instead, with everything stored for them, including archives of earlier loads
    #[arg(long, conflicts_with = "csv")]
    remove: bool,
}

impl Register {
    /// Makes the accounts, or removes them. Those that exist already stay as they are.
    ///
    /// # Errors
    /// Some accounts could not be made or removed.
    pub fn run(self) -> BenchOutcome<()> {
        match &self.csv {
            Some(file) => {
                self.write(file).map_err(|error| format!("{}: {error}", file.display()))?;
                println!("{} accounts written to {}", self.users, file.display());
                Ok(())
            }
            None if self.remove => self.unregister(),
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
        let encryption = match self.place.tls {
            Tls::None => "\na server that wants encryption first needs --tls starttls",
            _ => "",
        };
        Err(format!("{}\n{hint}{encryption}", reasons.join("; ")).into())
    }
}

impl Register {
    /// Lets each account remove itself (XEP-0077 §3.2).
    fn unregister(&self) -> BenchOutcome<()> {
        let mut crew = LoadCrew::new(self.place.settings(None, false, std::process::id())?)?;
        let threads = crew.threads();
        let first = REMOVE.as_bytes().to_vec();
        let wave = Wave { number: 0, at_once: self.place.at_once, rate: None, start: 0, first, until_seen: false };
        let load = |thread| Removal {
            arrivals: Arrivals::new(0..self.users, &wave, thread, threads),
            open: BTreeSet::new(),
            done: Vec::new(),
            gone: 0,
        };
        let mut loads: Vec<Removal> = (0..threads).map(load).collect();
        let counters = crew.counters().to_vec();
        let sum = |what| counters.iter().map(|counters| counters.get(what)).sum::<u64>();
        crew.run(&mut loads, &mut |_| sum(LoadCount::LoginsFailed) > FAILURES)?;
        let gone: usize = loads.iter().map(|load| load.gone).sum();
        println!("{gone} of {} accounts are removed", self.users);
        if gone == self.users {
            return Ok(());
        }
        let reasons: Vec<String> = crew.reasons().into_keys().take(3).collect();
        Err(format!("{}\n{HINT}", reasons.join("; ")).into())
    }
}

/// Removes the accounts of one thread; each connection is closed when it has its answer.
#[derive(Debug)]
struct Removal {
    arrivals: Arrivals,
    /// The numbers that are still unanswered.
    open: BTreeSet<usize>,
    done: Vec<usize>,
    gone: usize,
}

impl WorkerLoad for Removal {
    fn due(&mut self, now: u64, worker: &mut LoadWorker) -> u64 {
        self.done.drain(..).for_each(|number| worker.hang_up(number));
        self.arrivals.due(now, worker)
    }

    fn bound(&mut self, number: usize, started: u64, now: u64, out: &mut Vec<u8>) {
        self.open.insert(number);
        self.arrivals.bound(number, started, now, out);
    }

    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, _now: u64, _out: &mut Vec<u8>) {
        if stanza.id().as_deref() == Some(REMOVE_ID) && self.open.remove(&number) {
            self.gone += usize::from(stanza.type_().as_deref() == Some("result"));
            self.done.push(number);
        }
    }

    fn ended(&mut self, number: usize, was_bound: bool) {
        // A server may end the stream instead of replying: the account is removed.
        self.gone += usize::from(self.open.remove(&number) && was_bound);
        self.arrivals.ended(number, was_bound);
    }

    fn is_finished(&self) -> bool {
        self.arrivals.is_finished() && self.open.is_empty()
    }
}

const REMOVE_ID: &str = "remove";
const REMOVE: &str = "<iq type='set' id='remove'><query xmlns='jabber:iq:register'><remove/></query></iq>";
const HINT: &str =
    "a server without registration (XEP-0077) needs another way to remove them; Rookery's own is `rookery user remove`";

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

    fn is_finished(&self) -> bool {
        self.arrivals.is_finished()
    }
}

/// The number of failures after which no more accounts are tried.
const FAILURES: u64 = 20;
