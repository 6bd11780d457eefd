//! The six experiments of multicast_test (2007), in process: one message to N addresses, all on one
//! server or each on its own, by the normal router, the trusted and the untrusted route.
//!
//! The code under test is the server's own: the hub with all modules and a fan-out engine. It is
//! measured from the parsed stanza to the rendered copies of each session, or to the data handed to
//! the stream of each remote domain. Times are this thread's CPU time. As in 2007 they end when the
//! router has done its work; rendering the copies has a column of its own, since its work grows
//! with the bytes. The stages are the server's own counters.

mod bed;
mod table;

use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use rookery_profile::{Sampler, flamegraph};

use crate::BenchOutcome;
use bed::Bed;

/// `rookery bench multicast-test`.
#[derive(Debug, Clone, Args)]
pub struct MulticastTest {
    /// Routes to measure.
    #[arg(long, value_delimiter = ',', default_values = ["normal", "trusted", "untrusted"])]
    routes: Vec<MessageRoute>,
    /// Servers of the addresses: all on this one (`single`), each on its own (`multiple`), or all
    /// on this number of others, which have multicast services.
    #[arg(long, value_delimiter = ',', default_values = ["single", "multiple"])]
    servers: Vec<AddressServers>,
    /// The smallest number of destinations.
    #[arg(long, default_value_t = 1)]
    from: usize,
    /// The largest number of destinations.
    #[arg(long, default_value_t = 901)]
    to: usize,
    /// The step from one number of destinations to the next.
    #[arg(long, default_value_t = 100)]
    step: usize,
    /// Type of the addresses on the untrusted route: `to` or `bcc`.
    #[arg(long, default_value = "to")]
    address: AddressKind,
    /// Messages to measure for each number of destinations.
    #[arg(long, default_value_t = 100)]
    repeat: usize,
    /// Print where the time goes, stage by stage.
    #[arg(long)]
    profile: bool,
    /// Write the sampled stacks as a flame graph (SVG).
    #[arg(long, value_name = "FILE")]
    flamegraph: Option<std::path::PathBuf>,
}

/// The way of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MessageRoute {
    /// A message for each address.
    Normal,
    /// One message, by the server itself.
    Trusted,
    /// One message with a header, from a client, with all checks.
    Untrusted,
}

/// The distribution of the recipients over servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressServers {
    /// Each recipient has a session on the server that is measured.
    Single,
    /// Each recipient is at a remote domain of its own.
    Multiple,
    /// On this number of other servers, each of which sends multicasts on to its own (XEP-0033 §2).
    Services(usize),
}

impl FromStr for AddressServers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "single" => Ok(Self::Single),
            "multiple" => Ok(Self::Multiple),
            number => number
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .map(Self::Services)
                .ok_or_else(|| "single, multiple or a number from 1 is wanted".to_owned()),
        }
    }
}

/// The kind of the addresses in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AddressKind {
    /// Everybody sees them.
    To,
    /// Nobody sees them.
    Bcc,
}

/// The CPU times of one message, in µs.
#[derive(Debug, Clone, Copy)]
struct MessageTimes {
    destinations: usize,
    /// The mean time until every copy waits for its session or was passed to its stream.
    total_us: f64,
    /// Half of the 95 % confidence interval of the mean.
    plus_minus: f64,
    /// The mean time of rendering the waiting copies.
    write_us: f64,
    /// The bytes that were passed to sessions or streams.
    bytes: u64,
    /// The stanzas that were passed to streams.
    left: u64,
}

impl MulticastTest {
    /// Runs the experiments and prints their tables.
    pub fn run(&self) -> ExitCode {
        match self.experiments() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("rookery bench multicast-test: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn experiments(&self) -> BenchOutcome<()> {
        if self.from == 0 || self.step == 0 || self.from > self.to || self.to > MOST || self.repeat < 2 {
            return Err(format!("needs 1 ≤ --from ≤ --to ≤ {MOST}, --step from 1 and --repeat from 2").into());
        }
        if let Some(file) = &self.flamegraph {
            // Written now rather than after a long run, so that a mistake shows.
            std::fs::write(file, "").map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let sampler = self.flamegraph.is_some().then(|| Sampler::start(PER_SECOND)).transpose()?;
        for &servers in &self.servers {
            for &route in &self.routes {
                let mut bed = Bed::new(servers, self.to)?;
                let mut points = Vec::new();
                println!("{}", table::head(route, servers, self.address));
                for destinations in (self.from..=self.to).step_by(self.step) {
                    let point = self.point(&mut bed, route, destinations)?;
                    println!("{}", table::line(&point, route, servers));
                    points.push(point);
                }
                println!("{}", table::foot(&points));
                if self.profile {
                    println!("{}\n", bed.stages());
                }
            }
        }
        if let (Some(sampler), Some(file)) = (sampler, &self.flamegraph) {
            let named = rookery_profile::names::find(&sampler.finish()?)?;
            std::fs::write(file, flamegraph::draw(&named.profile, "rookery bench multicast-test"))?;
            println!("stacks: {}", file.display());
        }
        Ok(())
    }

    fn point(&self, bed: &mut Bed, route: MessageRoute, destinations: usize) -> BenchOutcome<MessageTimes> {
        let load = bed.load(route, destinations, self.address)?;
        for _ in 0..WARM_UP {
            bed.play(&load)?;
        }
        bed.measure_stages(self.profile);
        let mut times = Vec::with_capacity(self.repeat);
        let (mut bytes, mut left, mut write_us) = (0, 0, 0.0);
        for _ in 0..self.repeat {
            let played = bed.play(&load)?;
            let wanted = bed.copies(route, destinations);
            if played.copies != wanted {
                return Err(format!("{wanted} copies were to be made, {} were", played.copies).into());
            }
            times.push(played.us);
            (bytes, left) = (played.bytes, played.left);
            write_us += played.write_us / self.repeat as f64;
        }
        bed.measure_stages(false);
        let (total_us, plus_minus) = mean(&times);
        Ok(MessageTimes { destinations, total_us, plus_minus, write_us, bytes, left })
    }
}

/// Returns the mean, and half of its 95 % confidence interval by the normal distribution.
fn mean(times: &[f64]) -> (f64, f64) {
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, 1.96 * (variance / count).sqrt())
}

/// Messages before the measurement begins, so that caches and allocators settle.
const WARM_UP: usize = 5;
/// Samples per second of CPU: not a round number, so that it doesn't coincide with periodic work.
const PER_SECOND: u32 = 997;
/// The most addresses that fit into a stanza.
const MOST: usize = 3000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_delivers_what_it_should() {
        for servers in [AddressServers::Single, AddressServers::Multiple] {
            for route in [MessageRoute::Normal, MessageRoute::Trusted, MessageRoute::Untrusted] {
                for kind in [AddressKind::To, AddressKind::Bcc] {
                    let mut bed = Bed::new(servers, 7).unwrap();
                    let load = bed.load(route, 7, kind).unwrap();
                    bed.measure_stages(true);
                    let played = bed.play(&load).unwrap();
                    assert_eq!(played.copies, 7, "{route:?} {servers:?} {kind:?}");
                    assert!(played.bytes > 7 * 100, "{route:?} {servers:?} {kind:?}: {}", played.bytes);
                    assert_eq!(
                        bed.stages().contains("decode                        1"),
                        route == MessageRoute::Untrusted
                    );
                }
            }
        }
    }

    #[test]
    fn services_get_one_stanza_each() {
        for route in [MessageRoute::Trusted, MessageRoute::Untrusted] {
            let mut bed = Bed::new(AddressServers::Services(3), 7).unwrap();
            let load = bed.load(route, 7, AddressKind::To).unwrap();
            // The first message goes to each address separately, since answers aren't awaited.
            assert_eq!(bed.play(&load).unwrap().left, 7, "{route:?}");
            assert_eq!(bed.play(&load).unwrap().left, 3, "{route:?}");
        }
    }

    #[test]
    fn the_interval_covers_the_mean_of_known_numbers() {
        let (mean, half) = mean(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((mean - 3.0).abs() < 1e-9 && (half - 1.386).abs() < 1e-3, "{mean} {half}");
    }
}
