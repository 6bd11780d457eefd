//! `rookery bench websocket-vs-bosh`: the cost of users in browsers, compared with users of TCP.
//!
//! The load is the same each time: users log in, are idle for a moment, in which the memory of
//! their sessions is read, and then write to each other at a fixed rate. Each run has a fresh
//! server. With several rounds, the one whose CPU time per message is the median is shown: the
//! speed of a shared machine varies.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use clap::Args;

use super::{PeerServer, Population, child, program, started, summary_of, write};
use crate::engine::{TRANSPORTS, Transport, parser};
use crate::result::RunResult;
use crate::{BenchOutcome, process};

/// Measure the same load over TCP, WebSocket and BOSH
#[derive(Debug, Clone, Args)]
pub struct WebsocketVsBosh {
    /// Users
    #[arg(long, default_value_t = 8000)]
    users: usize,
    /// Messages per second
    #[arg(long, default_value_t = 6000.0)]
    rate: f64,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Runs of each kind
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only these servers
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SERVER,…")]
    only: Vec<PeerServer>,
    /// Only these transports
    #[arg(long, value_parser = parser(), value_delimiter = ',', value_name = "TRANSPORT,…")]
    over: Vec<Transport>,
    /// Folder for the report and the results
    #[arg(long, value_name = "DIR", default_value = "target/bench/websocket-vs-bosh")]
    out: PathBuf,
}

impl WebsocketVsBosh {
    /// Runs everything and writes the report.
    ///
    /// # Errors
    /// The failed runs, or that the folder for the report can't be written.
    pub fn run(&self) -> BenchOutcome<()> {
        fs::create_dir_all(&self.out).map_err(|error| format!("{}: {error}", self.out.display()))?;
        child::end_all_on_signals()?;
        let mut all: Vec<Vec<RunResult>> = Vec::new();
        let kinds = self.kinds();
        all.resize_with(kinds.len(), Vec::new);
        for round in 1..=self.rounds.max(1) {
            for ((peer, transport), results) in kinds.iter().zip(&mut all) {
                let result = self.measure(*peer, *transport);
                println!("[{round}/{}] {}: {}", self.rounds, result.server, summary_of(&result));
                let name = format!("{}-{}-{round}.json", peer.name().to_lowercase(), transport.label());
                let file = self.out.join(name);
                result.write(&file).map_err(|error| format!("{}: {error}", file.display()))?;
                results.push(result);
            }
        }
        let mut shown: Vec<RunResult> = all.into_iter().filter_map(median).collect();
        if let (Some(first), Some(note)) = (shown.first_mut(), self.reference()) {
            first.notes.push(note);
        }
        write(&self.out, &shown)?;
        match shown.iter().filter(|result| !result.is_done()).count() {
            0 => Ok(()),
            failed => Err(format!("{failed} of {} kinds failed; the report says why", shown.len()).into()),
        }
    }

    /// Returns the available servers, each with all transports.
    fn kinds(&self) -> Vec<(PeerServer, Transport)> {
        let selected = PeerServer::select(&self.only).into_iter().filter(|peer| *peer != PeerServer::Raw);
        let peers = selected.filter(|peer| match peer.missing() {
            Some(missing) => {
                eprintln!("{} is left out: {missing}", peer.name());
                false
            }
            None => true,
        });
        let over = if self.over.is_empty() { &TRANSPORTS[..] } else { &self.over };
        peers.flat_map(|peer| over.iter().map(move |transport| (peer, *transport))).collect()
    }

    fn measure(&self, peer: PeerServer, transport: Transport) -> RunResult {
        let load = program::over(transport, self.users, self.rate, self.seconds);
        let found = started::start(peer, load.population).and_then(|server| load.run(peer, &server));
        let mut result = found.unwrap_or_else(|error| load.nothing(&error.to_string()));
        result.scenario = load.title.to_owned();
        result.server = format!("{} {}", peer.name(), transport.label());
        result
    }

    /// Measures a bare, persistent HTTP connection, of which a BOSH session has at least one.
    fn reference(&self) -> Option<String> {
        let population = Population { accounts: 1, friends: 0 };
        let server = started::start(PeerServer::Rookery, population).ok()?;
        let bytes = bare(server.web, server.pid(), self.users).ok()?;
        Some(format!("a bare connection of HTTP to Rookery that is kept alive, after one request: {bytes:.0} bytes"))
    }
}

/// Returns the bytes of the server's memory per idle HTTP connection.
fn bare(web: SocketAddr, pid: u32, count: usize) -> BenchOutcome<f64> {
    let mut open = Vec::with_capacity(count);
    let before = process::private_bytes(pid)?;
    for _ in 0..count {
        let mut connection = TcpStream::connect(web)?;
        connection.write_all(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut answer = [0; 1024];
        // The response is short enough to arrive at once.
        let _ = connection.read(&mut answer)?;
        open.push(connection);
    }
    let after = process::private_bytes(pid)?;
    Ok((after as f64 - before as f64) / count.max(1) as f64)
}

/// Returns the run with the median CPU time, with the figures of the others.
fn median(mut runs: Vec<RunResult>) -> Option<RunResult> {
    let cost = |run: &RunResult| run.server_cpu.as_ref().map_or(f64::INFINITY, |cpu| cpu.us_per_operation);
    runs.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
    let costs: Vec<String> = runs.iter().map(|run| format!("{:.1}", cost(run))).collect();
    let rounds: Vec<RunResult> = runs.iter().map(RunResult::without_course).collect();
    let mut shown = (!runs.is_empty()).then(|| runs.swap_remove((costs.len() - 1) / 2))?;
    if costs.len() > 1 {
        shown.rounds = rounds;
        shown.notes.push(format!("the median of {} runs; CPU per message in µs: {}", costs.len(), costs.join(", ")));
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ServerCpu;

    #[test]
    fn the_median_is_shown() {
        let run = |us: f64| RunResult {
            server_cpu: Some(ServerCpu { us_per_operation: us, ..ServerCpu::default() }),
            ..RunResult::default()
        };
        let shown = median(vec![run(3.0), run(1.0), run(2.0)]).unwrap();
        assert_eq!(shown.server_cpu.unwrap().us_per_operation, 2.0);
        assert_eq!(shown.notes, ["the median of 3 runs; CPU per message in µs: 1.0, 2.0, 3.0"]);
        assert!(median(Vec::new()).is_none());
    }
}
