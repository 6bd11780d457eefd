//! Measures the memory of an idle session, with a million of them: `cargo bench -p rookery-bench
//! --bench million`.
//!
//! Sessions log in through the server's own code over a network in memory, with a roster of 50
//! contacts who are all online in the end, and available presence with entity capabilities. Bytes
//! are the growth of this process's private resident memory, which includes rounding by the
//! allocators, the C library of TLS, and slack. Sockets are not included: the kernel needs another
//! 4 to 5 KiB for each.
//!
//! `ROOKERY_BENCH_SESSIONS` (1 000 000) is the number of sessions, `ROOKERY_BENCH_TLS_SESSIONS`
//! (20 000) the number with TLS, from which a million is extrapolated.

use std::sync::Arc;
use std::time::Instant;

use rookery_bench::engine::LoadTarget;
use rookery_bench::network::{BenchNetwork, DOMAIN, PASSWORD, Parts};
use rookery_bench::process::{Cpu, private_bytes, slope};
use rookery_bench::report::{FigureReport, setting};
use rookery_bench::{BenchOutcome, chat};
use rookery_client::SessionTerms;
use rookery_sasl::Mechanism;
use rookery_sasl::client::SaltedPasswords;
use rookery_stream::tls::client::{ClientSettings, Newest};

/// The server's allocator: its rounding belongs to the measurement.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> BenchOutcome<()> {
    let mut report = FigureReport::new("million");
    let tls_sessions = setting("ROOKERY_BENCH_TLS_SESSIONS", 20_000);
    let tls = ClientSettings::trusting_anyone(Newest::Tls13, &[], false)?;
    // The small number comes first: a large measurement reuses the memory that a small one leaves
    // in the allocator, but not the other way round.
    let plain = measure(tls_sessions, 50, None)?;
    report.add(format!("plain, {tls_sessions} sessions"), plain.bytes, "bytes/session", "");
    let with_tls = measure(tls_sessions, 50, Some(tls))?;
    report.add(format!("TLS 1.3, {tls_sessions} sessions"), with_tls.bytes, "bytes/session", "");
    let of_tls = with_tls.bytes - plain.bytes;
    report.add("of that TLS", of_tls, "bytes/session", "Rust's heap and aws-lc's");
    let sessions = setting("ROOKERY_BENCH_SESSIONS", 1_000_000);
    let all = measure(sessions, 50, None)?;
    report.add(format!("plain, {sessions} sessions"), all.bytes, "bytes/session", "roster of 50, available");
    report.add("all of them", all.total / f64::from(1 << 30), "GiB resident", format!("{:.0} s", all.seconds));
    report.add("login and presence, user space", all.login_us, "µs/session", "client's part included");
    report.add("deliveries meanwhile", all.deliveries, "", "presence, probes answered");
    let million = (all.bytes + of_tls) * 1e6 / f64::from(1 << 30);
    report.add("a million with TLS", million, "GiB", "extrapolated");
    report.write()?;
    Ok(())
}

struct Measured {
    bytes: f64,
    total: f64,
    seconds: f64,
    login_us: f64,
    deliveries: f64,
}

fn measure(sessions: usize, contacts: usize, tls: Option<ClientSettings>) -> BenchOutcome<Measured> {
    let parts = Parts::new(sessions, contacts)?;
    let target = LoadTarget {
        transport: rookery_bench::engine::Transport::Tcp,
        terms: Arc::new(SessionTerms {
            domain: DOMAIN.to_owned(),
            tls,
            mechanism: Some(Mechanism::ScramSha1),
            password: PASSWORD.to_owned(),
            resource: Some("phone-3f9a1c7e".to_owned()),
            register: false,
            cache: SaltedPasswords::new(),
        }),
    };
    let (pid, start) = (std::process::id(), Instant::now());
    let mut network = BenchNetwork::new(&parts, target)?;
    let before = Cpu::of(pid)?;
    let mut points = Vec::new();
    for step in 1..=STEPS {
        while network.sessions_made() < sessions * step / STEPS {
            let left = sessions * step / STEPS - network.sessions_made();
            network.log_in(left.min(AT_ONCE), chat::PRESENCE)?;
        }
        network.pass_time();
        points.push((network.sessions_made() as f64, private_bytes(pid)? as f64));
    }
    let cpu = Cpu::of(pid)?.since(&before);
    assert_eq!(network.sessions(), sessions, "every session lives");
    Ok(Measured {
        // The first steps include one-time costs.
        bytes: slope(points.get(STEPS / 5..).unwrap_or_default()),
        total: points.last().map_or(0.0, |point| point.1),
        seconds: start.elapsed().as_secs_f64(),
        login_us: cpu.seconds() * 1e6 / sessions as f64,
        deliveries: network.deliveries() as f64,
    })
}

/// Logins at the same time: the number of stanzas in a tick.
const AT_ONCE: usize = 100;
/// The points of the line whose slope is the result.
const STEPS: usize = 10;
