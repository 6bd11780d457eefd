//! `rookery bench watch`: measures the cost of the instruments for the observed server.
//!
//! One Rookery runs in a temporary folder, and pairs of people play ping-pong on it. Each
//! instrument is measured next to a stretch without it, in each round, so that other activity on
//! the machine affects both alike; its cost is the median of these differences. Only the CPU of the
//! server counts, not that of the command that shows the result.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;

use crate::BenchOutcome;
use crate::federation::target;
use crate::pairs::Pairs;
use crate::process::median_and_min;
use crate::rookery::Rookery;

/// `rookery bench watch`.
#[derive(Debug, Clone, Args)]
pub struct WatchBench {
    /// Pairs of users
    #[arg(long, default_value_t = 100)]
    pairs: usize,
    /// Messages of each pair in flight at a time
    #[arg(long, default_value_t = 8)]
    window: usize,
    /// Seconds of one measurement
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Repetitions of each measurement
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// The server's executable [default: this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// An instrument, as the command that uses it.
struct WatchingCommand {
    name: &'static str,
    words: &'static [&'static str],
}

/// All instruments that take time while they are in use.
const COMMANDS: &[WatchingCommand] = &[
    WatchingCommand { name: "top", words: &["top", "--json"] },
    WatchingCommand { name: "top --by stages", words: &["top", "--by", "stages", "--json"] },
    WatchingCommand { name: "top --by sessions", words: &["top", "--by", "sessions", "--json"] },
    WatchingCommand { name: "top --by modules", words: &["top", "--by", "modules", "--json"] },
    WatchingCommand { name: "profile", words: &["profile", "--seconds", "120", "--output", "-", "--format", "folded"] },
    // A trace of an idle account: each stanza costs a check.
    WatchingCommand { name: "trace (of another)", words: &["trace", "nobody@localhost", "--seconds", "600"] },
];

/// A running command; it is killed when this is dropped.
struct RunningCommand(Child);

impl RunningCommand {
    fn start(binary: &Path, data: &Path, words: &[&str]) -> BenchOutcome<Self> {
        let mut command = Command::new(binary);
        command.args(words).arg("--data-dir").arg(data);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn()?))
    }

    /// Ends the command, which must still be running.
    fn end(mut self, name: &str) -> BenchOutcome<()> {
        match self.0.try_wait()? {
            Some(status) => Err(format!("`rookery {name}` has ended by itself: {status}").into()),
            None => Ok(()),
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl WatchBench {
    /// Measures, and prints the result.
    ///
    /// # Errors
    /// The error of the system or of a server.
    pub fn run(&self) -> BenchOutcome<()> {
        let binary = match &self.binary {
            Some(binary) => binary.clone(),
            None => std::env::current_exe()?,
        };
        let server = Rookery::start(&binary, 2 * self.pairs)?;
        let mut pairs = Pairs::of_accounts(&server.server, target(&server.server, "watched"), self.pairs)?;
        println!("{} pairs, window {}, {} s, {} rounds", self.pairs, self.window, self.seconds, self.rounds);
        println!("{:<24}{:>16}{:>16}{:>12}{:>20}", "", "without µs", "with µs", "costs", "rounds");
        for command in COMMANDS {
            let (mut without, mut with, mut costs) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..self.rounds.max(1) {
                let plain = self.play(&mut pairs)?;
                let running = RunningCommand::start(&binary, &server.data(), command.words)?;
                // The command has to find the server and send its first request.
                sleep(STARTING);
                let watched = self.play(&mut pairs)?;
                running.end(command.name)?;
                without.push(plain);
                with.push(watched);
                costs.push(100.0 * (watched / plain - 1.0));
            }
            costs.sort_by(f64::total_cmp);
            let (least, most) = (costs.first().copied().unwrap_or(f64::NAN), costs.last().copied().unwrap_or(f64::NAN));
            println!(
                "{:<24}{:>16.3}{:>16.3}{:>12}{:>20}",
                command.name,
                median_and_min(&without).0,
                median_and_min(&with).0,
                format!("{:+.2} %", median_and_min(&costs).0),
                format!("{least:+.1} to {most:+.1} %"),
            );
        }
        Ok(())
    }

    /// Returns the microseconds of the server's CPU per message.
    fn play(&self, pairs: &mut Pairs) -> BenchOutcome<f64> {
        Ok(pairs.play(self.window, Duration::from_secs(self.seconds))?.us_per_message)
    }
}

/// The time that a command has to start.
const STARTING: Duration = Duration::from_millis(700);
