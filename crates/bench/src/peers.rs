//! `rookery bench peers`: the same loads on Rookery, Debian's ejabberd and Debian's Prosody, one
//! after the other, and one report.
//!
//! Every run has a fresh server in a temporary folder on a free port of the loopback interface, so
//! that no run inherits memory or open files from another. Accounts and rosters are written into
//! the servers' storage beforehand, since registering them isn't part of the measurement. The
//! configurations are the templates in `crates/bench/peers/`, which explain why they are fair.
//!
//! In addition to the servers, the [`raw`] limit runs: sockets without XMPP.
//!
//! If a server isn't installed, doesn't start or breaks, only its own runs are lost.

mod browsers;
mod child;
mod ejabberd;
mod population;
mod program;
mod prosody;
pub mod raw;
mod rookery;
mod started;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};

use crate::BenchOutcome;
use crate::report;
use crate::result::RunResult;
pub use browsers::WebsocketVsBosh;
use population::Population;
use program::ProgramLoad;

/// Run the same loads on Rookery, ejabberd and Prosody, and write a comparison
#[derive(Debug, Clone, Args)]
pub struct Peers {
    /// Small sizes: all loads on all servers in under three minutes
    #[arg(long)]
    quick: bool,
    /// Seconds for which each load is measured [default: those of the load]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u32>,
    /// Only these servers, in this order
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SERVER,…")]
    only: Vec<PeerServer>,
    /// Only these loads
    #[arg(long, value_delimiter = ',', value_name = "LOAD,…", value_parser = program::names())]
    scenarios: Vec<String>,
    /// Folder for the report and the results
    #[arg(long, value_name = "DIR", default_value = "target/bench/peers")]
    out: PathBuf,
    /// Be a server without XMPP instead, for a parent process that measures it
    #[arg(long, hide = true, value_name = "KIND:CONNECTIONS")]
    raw: Option<raw::RawKind>,
}

/// The servers that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PeerServer {
    /// This program
    Rookery,
    /// This program with `io = "io_uring"`; runs only if it is named
    RookeryIoUring,
    /// Debian's package ejabberd
    Ejabberd,
    /// Debian's package prosody
    Prosody,
    /// Sockets without XMPP
    Raw,
}

/// Runs the requested loads. It succeeds if every run did.
///
/// # Errors
/// The number of failed runs, or that the folder for the report can't be written.
pub fn run(args: &Peers) -> BenchOutcome<()> {
    if let Some(kind) = args.raw {
        return raw::serve(kind);
    }
    fs::create_dir_all(&args.out).map_err(|error| format!("{}: {error}", args.out.display()))?;
    child::end_all_on_signals()?;
    let runs = plan(args);
    let (begun, mut results, mut failed) = (Instant::now(), Vec::new(), 0);
    for (number, (load, peer)) in runs.iter().enumerate() {
        let name = format!("[{}/{}] {} on {}", number + 1, runs.len(), load.name, peer.name());
        println!("{name} …");
        let result = measure(load, *peer);
        println!("{name}: {}", summary_of(&result));
        failed += usize::from(!result.is_done());
        let file = args.out.join(format!("{}-{}.json", load.name, peer.name()));
        result.write(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        results.push(result);
    }
    for load in program::loads(args.quick, args.seconds) {
        let first = results.iter_mut().find(|result| result.scenario == load.title);
        first.into_iter().for_each(|result| result.notes.push(SAME.to_owned()));
    }
    write(&args.out, &results)?;
    println!("{} runs in {:.0} s", runs.len(), begun.elapsed().as_secs_f64());
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} runs failed; the report says why", runs.len()).into()),
    }
}

impl PeerServer {
    /// Returns its name in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            PeerServer::Rookery => "Rookery",
            PeerServer::RookeryIoUring => "Rookery-io_uring",
            PeerServer::Ejabberd => "ejabberd",
            PeerServer::Prosody => "Prosody",
            PeerServer::Raw => "raw",
        }
    }

    /// Returns the servers to be measured: those that were named, or all but variants of one.
    fn select(named: &[PeerServer]) -> Vec<PeerServer> {
        if !named.is_empty() {
            return named.to_vec();
        }
        let all = PeerServer::value_variants().iter().copied();
        all.filter(|peer| *peer != PeerServer::RookeryIoUring).collect()
    }

    /// Returns the steps for installing it; `None` if it is installed.
    fn missing(self) -> Option<String> {
        let (file, package) = match self {
            PeerServer::Rookery | PeerServer::RookeryIoUring | PeerServer::Raw => return None,
            PeerServer::Ejabberd => (ejabberd::CONTROL, "ejabberd"),
            PeerServer::Prosody => (prosody::PROGRAM, "prosody"),
        };
        let there = std::path::Path::new(file).exists();
        (!there).then(|| format!("there is no {file}: on Debian it comes with `apt install {package}`"))
    }
}

/// Returns the loads in order, each with its server.
fn plan(args: &Peers) -> Vec<(ProgramLoad, PeerServer)> {
    let peers = PeerServer::select(&args.only);
    for peer in &peers {
        if let Some(missing) = peer.missing() {
            eprintln!("{} is left out: {missing}", peer.name());
        }
    }
    let loads = program::loads(args.quick, args.seconds).into_iter();
    let loads = loads.filter(|load| args.scenarios.is_empty() || args.scenarios.iter().any(|name| name == load.name));
    let there = |(load, peer): &(ProgramLoad, PeerServer)| peer.missing().is_none() && load.fits(*peer);
    loads.flat_map(|load| peers.iter().map(move |peer| (load.clone(), *peer))).filter(there).collect()
}

/// Measures one load on one fresh server. A failure is a result, too.
fn measure(load: &ProgramLoad, peer: PeerServer) -> RunResult {
    let found = match peer {
        PeerServer::Raw => raw::measure(load),
        _ => started::start(peer, load.population).and_then(|server| load.run(peer, &server)),
    };
    let mut result = found.unwrap_or_else(|error| load.nothing(&error.to_string()));
    result.scenario = load.title.to_owned();
    result.server = peer.name().to_owned();
    result
}

/// Returns a result as one line for the terminal.
fn summary_of(result: &RunResult) -> String {
    if !result.is_done() {
        return format!("FAILED: {}", result.ended);
    }
    let headlines = report::metric::ALL.iter().filter(|metric| metric.headline && metric.of(result).is_some());
    let shown: Vec<String> = headlines.map(|metric| format!("{} {}", metric.name, metric.show(result))).collect();
    shown.join(", ")
}

fn write(folder: &Path, results: &[RunResult]) -> BenchOutcome<()> {
    let files = [("report.html", report::html(results)), ("report.md", report::markdown(results))];
    for (name, text) in files {
        let file = folder.join(name);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        println!("written to {}", file.display());
    }
    Ok(())
}

/// The conditions that hold for all servers of a comparison, and its limits.
const SAME: &str = "all servers have one domain, no encryption, SCRAM-SHA-1 with 4096 iterations, no limits of rate, no archive; \
                    raw is a bare exchange of the same bytes with a write for each message, so that servers that write many at once may be faster";

#[cfg(test)]
mod tests;
