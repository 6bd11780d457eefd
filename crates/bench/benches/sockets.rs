//! Measures the cost of a separate server process, over the sockets of this machine: `cargo bench
//! -p rookery-bench --bench sockets`.
//!
//! 1. `pairs`: relaying messages between two clients. A bare relay that does nothing else is
//!    measured in turn: the ratio is the cost of being an XMPP server. Another relay uses io_uring.
//! 2. `idle`: memory per session by slope, logins per second of CPU.
//!
//! The server is this workspace's own, built first; `ROOKERY_BIN` names another executable. Any
//! other XMPP server on this machine can be measured if it has accounts from `user0000000@DOMAIN`
//! on: `ROOKERY_BENCH_SERVER=127.0.0.1:5222 ROOKERY_BENCH_PID=… ROOKERY_BENCH_DOMAIN=…
//! ROOKERY_BENCH_PASSWORD=…`. A word after `--` (`pairs`, `idle`) runs only that part.
//!
//! `ROOKERY_BENCH_PAIRS` (1000), `ROOKERY_BENCH_SECONDS` (5), `ROOKERY_BENCH_ROUNDS` (3),
//! `ROOKERY_BENCH_IDLE` (18 000); `ROOKERY_BENCH_ARCHIVE=1` archives messages, which no relay does.

use std::sync::Arc;
use std::time::Duration;

use rookery_bench::BenchOutcome;
use rookery_bench::bare_relay::{self, BareRelay};
use rookery_bench::engine::LoadTarget;
use rookery_bench::idle::{self, most_sessions};
use rookery_bench::pairs::{Cost, Pairs};
use rookery_bench::process::median_and_min;
use rookery_bench::report::{FigureReport, setting};
use rookery_bench::rookery::{MeasuredServer, Rookery, binary};
use rookery_client::SessionTerms;
use rookery_sasl::Mechanism;
use rookery_sasl::client::SaltedPasswords;
use rookery_shard::SystemInterface;
use rookery_stream::tls::client::{ClientSettings, Newest};

fn main() -> BenchOutcome<()> {
    if bare_relay::be_one_if_told()? {
        return Ok(());
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |word: &str| words.is_empty() || words.iter().any(|given| given == word);
    let subject = match MeasuredServer::from_environment()? {
        Some(server) => SocketSubject::Given(server),
        None => SocketSubject::Ours(binary()?),
    };
    if wanted("pairs") {
        pairs(&subject)?;
    }
    if wanted("idle") {
        idle(&subject)?;
    }
    Ok(())
}

/// The server that is measured.
enum SocketSubject {
    /// A server that is running already.
    Given(MeasuredServer),
    /// Our own: a new one for each measurement.
    Ours(std::path::PathBuf),
}

impl SocketSubject {
    fn start(&self, accounts: usize) -> BenchOutcome<(MeasuredServer, Option<Rookery>)> {
        match self {
            SocketSubject::Given(server) => Ok((server.clone(), None)),
            SocketSubject::Ours(binary) => {
                let rookery = Rookery::start(binary, accounts)?;
                Ok((rookery.server.clone(), Some(rookery)))
            }
        }
    }
}

fn target(server: &MeasuredServer, mechanism: Mechanism, tls: bool) -> BenchOutcome<Arc<LoadTarget>> {
    let tls = tls.then(|| ClientSettings::trusting_anyone(Newest::Tls13, &[], false)).transpose()?;
    Ok(Arc::new(LoadTarget {
        transport: rookery_bench::engine::Transport::Tcp,
        terms: Arc::new(SessionTerms {
            domain: server.domain.clone(),
            tls,
            mechanism: Some(mechanism),
            password: server.password.clone(),
            resource: Some("bench".to_owned()),
            register: false,
            cache: SaltedPasswords::new(),
        }),
    }))
}

fn pairs(subject: &SocketSubject) -> BenchOutcome<()> {
    let mut report = FigureReport::new("pairs");
    let pairs = setting("ROOKERY_BENCH_PAIRS", 1000);
    let time = Duration::from_secs(setting("ROOKERY_BENCH_SECONDS", 5) as u64);
    let (server, rookery) = subject.start(2 * pairs)?;
    if let Some(rookery) = &rookery {
        report.add(
            "rookery user import",
            rookery.imports_per_second,
            "accounts/s, wall time",
            "4096 iterations, 3 hashes",
        );
    }
    let plain = target(&server, Mechanism::ScramSha1, false)?;
    let relay = BareRelay::start(pairs, SystemInterface::Epoll)?;
    let ring_relay = BareRelay::start(pairs, SystemInterface::IoUring)?;
    let mut loads = [
        ("relay", Pairs::of_lines(&relay, plain.clone(), pairs)?, Vec::new()),
        ("relay by io_uring", Pairs::of_lines(&ring_relay, plain.clone(), pairs)?, Vec::new()),
        ("server", Pairs::of_accounts(&server, plain, pairs)?, Vec::new()),
    ];
    for in_flight in [1, 8] {
        for _ in 0..setting("ROOKERY_BENCH_ROUNDS", 3) {
            for (_, load, costs) in &mut loads {
                costs.push(load.play(in_flight, time)?);
            }
        }
        let mut both = Vec::new();
        for (name, _, costs) in &mut loads {
            both.push(tell(&mut report, &format!("{name}, {pairs} pairs, {in_flight} in flight"), costs));
            costs.clear();
        }
        if let [relay, ring_relay, server] = both.as_slice() {
            for (what, one) in [("relay by io_uring", ring_relay), ("server", server)] {
                let what = format!("{what} over relay, {in_flight} in flight");
                report.add(what, one.0 / relay.0, "median", format!("{:.2} by the minima", one.1 / relay.1));
            }
        }
    }
    report.write()?;
    Ok(())
}

/// Adds a row; returns median and minimum.
fn tell(report: &mut FigureReport, what: &str, costs: &[Cost]) -> (f64, f64) {
    let (median, min) = median_and_min(&costs.iter().map(|cost| cost.us_per_message).collect::<Vec<_>>());
    let (user, _) = median_and_min(&costs.iter().map(|cost| cost.us_per_message * cost.user_share).collect::<Vec<_>>());
    let (rate, _) = median_and_min(&costs.iter().map(|cost| cost.rate).collect::<Vec<_>>());
    let note = format!("median; min {min:.3}; {user:.3} in user mode; {rate:.0} messages/s");
    report.add(what, median, "µs CPU/message", note);
    (median, min)
}

fn idle(subject: &SocketSubject) -> BenchOutcome<()> {
    let mut report = FigureReport::new("idle");
    let all = setting("ROOKERY_BENCH_IDLE", 18_000).min(most_sessions());
    let few = all.min(4_000);
    let cases = [
        ("plain, SCRAM-SHA-1", false, Mechanism::ScramSha1, all),
        ("plain, SCRAM-SHA-256", false, Mechanism::ScramSha256, few),
        ("TLS 1.3, SCRAM-SHA-1", true, Mechanism::ScramSha1, few),
        ("TLS 1.3, SCRAM-SHA-256", true, Mechanism::ScramSha256, all),
    ];
    for (name, tls, mechanism, sessions) in cases {
        let (server, rookery) = subject.start(sessions)?;
        let target = target(&server, mechanism, tls)?;
        let found = match idle::measure(&server, target, sessions / 9..=sessions) {
            Ok(found) => found,
            // Another server may not support the mechanism.
            Err(error) => {
                println!("{name} is left out: {error}");
                continue;
            }
        };
        let note = format!("slope, {} to {sessions} sessions", sessions / 9);
        report.add(format!("idle, {name}"), found.bytes_per_session, "bytes/session", note);
        let note = format!("{:.0} % of it in user mode", found.user_share * 100.0);
        report.add(format!("login, {name}"), found.logins_per_cpu_second, "logins/CPU second", note);
        drop(rookery);
    }
    report.write()?;
    Ok(())
}
