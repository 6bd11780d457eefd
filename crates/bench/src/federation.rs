//! `rookery bench federation`: measures the cost of a conversation between accounts on different
//! servers.
//!
//! Two Rookeries run in temporary folders, on loopback, with certificates from an authority of
//! their own. The same pairs of people play ping-pong, alternately within one server and across
//! both, so that other activity on the machine affects both alike. Both servers work on a message
//! between them: its cost is reported for each. Then messages go to servers that don't exist, and
//! streams to many domains are opened and left idle, to measure the memory of one, and opened again
//! after the death of their server.
//!
//! With `--between`, the same pairs play on two running servers of any kind that can reach each
//! other.

mod nobody;
mod servers;

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::fleet::Fleet;
use crate::pairs::{Cost, Pairs};
use crate::process::{Cpu, median_and_min, private_bytes};
use crate::rookery::MeasuredServer;
use crate::{BenchOutcome, chat};
pub(crate) use servers::target;
use servers::{Two, running};

/// `rookery bench federation`.
#[derive(Debug, Clone, Args)]
pub struct FederationBench {
    /// Pairs of users
    #[arg(long, default_value_t = 100)]
    pairs: usize,
    /// Messages of each pair in flight at a time
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    window: Vec<usize>,
    /// Seconds of one measurement
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Repetitions of each measurement
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Domains to open idle streams to, to measure their memory; 0 skips this
    #[arg(long, default_value_t = 1000)]
    domains: usize,
    /// The server's executable [default: this program]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Two servers that already run, instead of two Rookeries; clients connect without TLS
    #[arg(long, num_args = 2, value_name = "DOMAIN=HOST:PORT=PID", value_parser = running)]
    between: Vec<MeasuredServer>,
    /// Password of the accounts on these servers, created by `rookery bench register`, two for each
    /// pair
    #[arg(long, default_value = "secret")]
    password: String,
    /// Write the costs of messages as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The costs of messages with this number of each pair in flight: medians of the rounds.
#[derive(Debug, Serialize)]
struct MeasuredCosts {
    window: usize,
    /// Microseconds of CPU per message within a server: of the first, and of the second if it is of
    /// another kind.
    within: Vec<f64>,
    /// Microseconds of CPU per message between servers: of the first server, and of the second.
    across: Vec<f64>,
    /// Messages between servers per second.
    per_second: f64,
    /// Half the time between a message and its reply, in milliseconds.
    mean_ms: f64,
}

/// The cost of messages to both servers over a period.
#[derive(Debug, Clone, Copy)]
struct Crossing {
    /// Microseconds of CPU per message: of the first server, and of the second.
    us: [f64; 2],
    /// Messages per second of wall time.
    rate: f64,
}

impl FederationBench {
    /// Measures, and prints the result.
    ///
    /// # Errors
    /// The error of the system or of a server.
    pub fn run(&self) -> BenchOutcome<()> {
        if let [one, two] = self.between.as_slice() {
            let [one, two] =
                [one, two].map(|server| MeasuredServer { password: self.password.clone(), ..server.clone() });
            return self.play(&[&one, &two], &[&one, &two]);
        }
        let binary = match &self.binary {
            Some(binary) => binary.clone(),
            None => std::env::current_exe()?,
        };
        let mut two = Two::start(&binary, SENDERS.max(2 * self.pairs), self.domains)?;
        self.play(&[&two.one.server, &two.two.server], &[&two.one.server])?;
        nobody::measure(&two)?;
        if self.domains > 0 {
            self.idle(&mut two)?;
        }
        Ok(())
    }

    /// Lets the pairs play between two servers, and within each of some.
    fn play(&self, servers: &[&MeasuredServer; 2], within: &[&MeasuredServer]) -> BenchOutcome<()> {
        let local = |server: &&MeasuredServer| Pairs::of_accounts(server, target(server, "local"), self.pairs);
        let mut locals = within.iter().map(local).collect::<BenchOutcome<Vec<_>>>()?;
        let mut across = Across::new(servers, self.pairs)?;
        println!("{} pairs, {} s, median (and least) of {}", self.pairs, self.seconds, self.rounds);
        println!("{:<32}{:>20}{:>12}{:>12}", "", "CPU per message", "messages/s", "mean ms");
        let mut windows = self.window.clone();
        windows.sort_unstable();
        let measured = windows.into_iter().map(|window| self.measure(window, &mut locals, &mut across));
        let measured = measured.collect::<BenchOutcome<Vec<_>>>()?;
        if let Some(file) = &self.out {
            fs::write(file, serde_json::to_vec_pretty(&measured)?)
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    }

    fn measure(&self, window: usize, locals: &mut [Pairs], across: &mut Across) -> BenchOutcome<MeasuredCosts> {
        let time = Duration::from_secs(self.seconds);
        let (mut within, mut crossing) = (vec![Vec::<Cost>::new(); locals.len()], Vec::<Crossing>::new());
        for _ in 0..self.rounds.max(1) {
            for (local, within) in locals.iter_mut().zip(&mut within) {
                within.push(local.play(window, time)?);
                local.pause()?;
            }
            crossing.push(across.play(window, time)?);
            across.pause()?;
        }
        let mean_ms = |rate: f64| (window * self.pairs) as f64 / rate * 1e3;
        let line = |name: &str, us: Vec<f64>, rate: f64| {
            let (us, least) = median_and_min(&us);
            println!("{name:<32}{:>20}{rate:>12.0}{:>12.2}", format!("{us:.2} µs ({least:.2})"), mean_ms(rate));
            us
        };
        let mut owns = Vec::new();
        for (costs, which) in within.iter().zip(WHICH) {
            let rates: Vec<f64> = costs.iter().map(|it| it.rate).collect();
            let name = if within.len() == 1 { "one" } else { which };
            let us = costs.iter().map(|it| it.us_per_message).collect();
            owns.push(line(&format!("within {name} server, window {window}"), us, median_and_min(&rates).0));
        }
        let rates: Vec<f64> = crossing.iter().map(|it| it.rate).collect();
        let (per_second, _) = median_and_min(&rates);
        let mut crossed = Vec::new();
        for (at, which) in WHICH.into_iter().enumerate() {
            let name = format!("across, {which} server, window {window}");
            let us = line(&name, crossing.iter().filter_map(|it| it.us.get(at).copied()).collect(), per_second);
            if let Some(own) = owns.get(at).or(owns.first()) {
                println!("{:<32}{:>20}", "", format!("{:.2} of that within", us / own));
            }
            crossed.push(us);
        }
        Ok(MeasuredCosts { window, within: owns, across: crossed, per_second, mean_ms: mean_ms(per_second) })
    }

    /// Opens a stream to each of many domains. Reports the memory of a stream at both ends and the
    /// time for opening all of them, also after the called server was killed.
    fn idle(&self, two: &mut Two) -> BenchOutcome<()> {
        let pids = [two.one.server.pid, two.two.server.pid];
        let mut fleet = Fleet::new(two.one.server.address, target(&two.one.server, "idle"))?;
        fleet.log_in(0..SENDERS, SENDERS, chat::PRESENCE)?;
        fleet.run(Instant::now() + SETTLING, &mut |_, _, _| {})?;
        let before = [private_bytes(pids[0])?, private_bytes(pids[1])?];
        let (streams, opened) = self.open(two, &mut fleet)?;
        // The memory of the handshakes is returned first.
        fleet.run(Instant::now() + 4 * SETTLING, &mut |_, _, _| {})?;
        println!("idle streams: {streams} of {}, opened in {:.1} s", self.domains, opened.as_secs_f64());
        let show = |when: &str| -> BenchOutcome<()> {
            for ((pid, before), which) in pids.iter().zip(before).zip(["that calls", "that is called"]) {
                let more = private_bytes(*pid)?.saturating_sub(before);
                let each = format!("{} bytes each", more / streams as u64);
                println!("{:<48}{each:>20}", format!("the server {which}, {when}"));
            }
            Ok(())
        };
        show("two seconds later")?;
        fleet.run(Instant::now() + GIVING_BACK, &mut |_, _, _| {})?;
        show("half a minute later")?;
        two.start_second_again()?;
        let (streams, opened) = self.open(two, &mut fleet)?;
        println!("after a restart: {streams} of {}, opened in {:.1} s", self.domains, opened.as_secs_f64());
        Ok(())
    }

    /// Opens a stream to each domain; returns how many are ready, and the time that this took.
    fn open(&self, two: &Two, fleet: &mut Fleet) -> BenchOutcome<(usize, Duration)> {
        let begun = Instant::now();
        for (number, domain) in two.many().enumerate() {
            // Headlines to nonexistent users aren't replied to, so each stream has one direction.
            // Several people send, since a single sender may not cause searches for so many
            // domains.
            fleet.send(
                number % SENDERS,
                format!("<message to='nobody@{domain}' type='headline'><body>x</body></message>").as_bytes(),
            )?;
        }
        let mut streams = 0;
        while begun.elapsed() < MOST_OPENING && streams < self.domains {
            fleet.run(Instant::now() + SETTLING, &mut |_, _, _| {})?;
            streams = two.ready_streams()?;
        }
        if streams == 0 {
            return Err("no stream to the many domains was opened".into());
        }
        Ok((streams, begun.elapsed()))
    }
}

/// Pairs whose halves are on two servers.
struct Across {
    halves: [Half; 2],
    in_flight: usize,
}

struct Half {
    fleet: Fleet,
    pid: u32,
    /// The messages that each client sends its partner on the other server.
    messages: Vec<Vec<u8>>,
}

impl Across {
    fn new([one, other]: &[&MeasuredServer; 2], pairs: usize) -> BenchOutcome<Across> {
        let half = |own: &MeasuredServer, other: &MeasuredServer| -> BenchOutcome<Half> {
            let jid = |number, domain: &str| format!("{}/across", chat::account(number, domain));
            let message = |number| chat::message(&jid(number, &own.domain), &jid(number, &other.domain)).into_bytes();
            let mut fleet = Fleet::new(own.address, target(own, "across"))?;
            fleet.log_in(0..pairs, AT_ONCE, chat::PRESENCE)?;
            fleet.run(Instant::now() + SETTLING, &mut |_, _, _| {})?;
            Ok(Half { fleet, pid: own.pid, messages: (0..pairs).map(message).collect() })
        };
        Ok(Across { halves: [half(one, other)?, half(other, one)?], in_flight: 0 })
    }

    /// Plays for `time` with `in_flight` messages of each pair, after a warm-up of half a second.
    fn play(&mut self, in_flight: usize, time: Duration) -> BenchOutcome<Crossing> {
        while self.in_flight < in_flight {
            let Half { fleet, messages, .. } = &mut self.halves[0];
            for (seat, message) in messages.iter().enumerate() {
                fleet.send(seat, message)?;
            }
            self.in_flight += 1;
        }
        self.run(SETTLING)?;
        let pids = [self.halves[0].pid, self.halves[1].pid];
        let (before, start) = ([Cpu::of(pids[0])?, Cpu::of(pids[1])?], Instant::now());
        let count = self.run(time)?;
        let seconds = start.elapsed().as_secs_f64();
        if count == 0 {
            return Err("no message came across".into());
        }
        let mut us = [0.0; 2];
        for ((us, pid), before) in us.iter_mut().zip(pids).zip(before) {
            *us = Cpu::of(pid)?.since(&before).nanoseconds as f64 / 1e3 / count as f64;
        }
        Ok(Crossing { us, rate: count as f64 / seconds })
    }

    /// Lets messages in flight arrive, without replies: the next measurement starts with none.
    fn pause(&mut self) -> BenchOutcome<()> {
        for half in &mut self.halves {
            half.fleet.run(Instant::now() + SETTLING, &mut |_, _, _| {})?;
        }
        self.in_flight = 0;
        Ok(())
    }

    /// Runs both halves at the same time; each message gets a reply. Returns the number of
    /// arrivals.
    fn run(&mut self, time: Duration) -> BenchOutcome<u64> {
        let until = Instant::now() + time;
        let counts: Vec<Result<u64, String>> = thread::scope(|scope| {
            let threads = self.halves.iter_mut().map(|half| {
                scope.spawn(move || {
                    let Half { fleet, messages, .. } = half;
                    let mut came_back = false;
                    let mut react = |seat: usize, stanza: &[u8], replies: &mut Vec<u8>| {
                        came_back |= memchr::memmem::find(stanza, b"type='error'").is_some();
                        if stanza.starts_with(b"<message") {
                            replies.extend_from_slice(messages.get(seat).map(Vec::as_slice).unwrap_or_default());
                        }
                    };
                    let count = fleet.run(until, &mut react).map_err(|error| error.to_string())?;
                    if came_back { Err("a message came back as an error".to_owned()) } else { Ok(count) }
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a half panicked".into()))).collect()
        });
        let mut all = 0;
        for count in counts {
            all += count?;
        }
        Ok(all)
    }
}

/// The names of the two servers in the output.
const WHICH: [&str; 2] = ["first", "second"];
/// The number of logins at a time.
const AT_ONCE: usize = 100;
/// The number of people who write to the many domains.
const SENDERS: usize = 10;
/// The time that servers have to settle before a measurement.
const SETTLING: Duration = Duration::from_millis(500);
/// The time within which an allocator returns unused memory.
const GIVING_BACK: Duration = Duration::from_secs(28);
/// The time within which the idle streams have to be open.
const MOST_OPENING: Duration = Duration::from_secs(120);
