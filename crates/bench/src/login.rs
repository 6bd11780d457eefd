//! `rookery bench login`: measures logins, with the rosters that people have.
//!
//! One Rookery runs in a temporary folder, on its own database or on another one. People whose
//! contacts are all away log in, request their rosters and send presence; then all leave, and the
//! next round begins. The contacts have them in their rosters, too, so that presence is sent as in
//! real life.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::federation::target;
use crate::fleet::Fleet;
use crate::process::{Cpu, median_and_min};
use crate::rookery::{IMPORTED, Rookery, RookerySetup};
use crate::{BenchOutcome, chat};

/// `rookery bench login`.
#[derive(Debug, Clone, Args)]
pub struct LoginBench {
    /// Users who log in
    #[arg(long, default_value_t = 200)]
    users: usize,
    /// Contacts of each user, who are offline
    #[arg(long, default_value_t = 100)]
    contacts: usize,
    /// Logins at the same time
    #[arg(long, default_value_t = 50)]
    at_once: usize,
    /// Repetitions
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// An empty database for the server, as `url` in [store] names it [default: an SQLite file]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The server's executable [default: this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

impl LoginBench {
    /// Measures, and prints the result.
    ///
    /// # Errors
    /// The error of the system or of the server.
    pub fn run(&self) -> BenchOutcome<()> {
        if self.users == 0 || self.users + self.contacts > IMPORTED {
            return Err(format!("--users and --contacts have to be {IMPORTED} at most together").into());
        }
        let binary = match &self.binary {
            Some(binary) => binary.clone(),
            None => std::env::current_exe()?,
        };
        let tables = self.store.as_ref().map(|url| format!("[store]\nurl = {url:?}\n")).unwrap_or_default();
        let setup = RookerySetup { tables, contacts: self.contacts, ..RookerySetup::default() };
        let server = Rookery::start_as(&binary, self.users, &setup)?;
        let (mut rates, mut costs) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds.max(1) {
            let mut fleet = Fleet::new(server.server.address, target(&server.server, "login"))?;
            let (before, begun) = (Cpu::of(server.server.pid)?, Instant::now());
            let first = format!("{ROSTER}{}", chat::PRESENCE);
            fleet.log_in(0..self.users, self.at_once.max(1), &first)?;
            rates.push(self.users as f64 / begun.elapsed().as_secs_f64());
            fleet.run(Instant::now() + SETTLING, &mut |_, _, _| {})?;
            costs.push(Cpu::of(server.server.pid)?.since(&before).seconds() * 1e3 / self.users as f64);
            drop(fleet);
            std::thread::sleep(SETTLING);
        }
        let most = rates.iter().copied().fold(f64::NAN, f64::max);
        let (rate, least) = median_and_min(&rates);
        let (cost, least_cost) = median_and_min(&costs);
        println!(
            "{} people with {} contacts, {} at once, {} rounds",
            self.users, self.contacts, self.at_once, self.rounds
        );
        println!("{:<28}{rate:>10.0}   ({least:.0} to {most:.0})", "logins per second");
        println!("{:<28}{cost:>10.3}   ({least_cost:.3} at least)", "ms of the server's CPU each");
        Ok(())
    }
}

const ROSTER: &str = "<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq>";
/// The time in which rosters and presence arrive, and in which sessions end.
const SETTLING: Duration = Duration::from_millis(1500);
