//! Measures idle sessions: the memory of one, and the cost of logging in.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::LoadTarget;
use crate::fleet::Fleet;
use crate::process::{Cpu, private_bytes, slope};
use crate::rookery::MeasuredServer;
use crate::{BenchOutcome, chat};

/// The figures of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// The slope of the server's private resident memory over the number of sessions.
    pub bytes_per_session: f64,
    /// Logins per second of the server's CPU, from the first connection to available presence.
    pub logins_per_cpu_second: f64,
    /// The part of that CPU time outside of the kernel, 0 to 1.
    pub user_share: f64,
}

/// Logs accounts in, from the first of `sessions` up to the last in several steps, and measures the
/// server after each step.
///
/// # Errors
/// A login failed.
pub fn measure(
    server: &MeasuredServer,
    target: Arc<LoadTarget>,
    sessions: RangeInclusive<usize>,
) -> BenchOutcome<Idle> {
    let (first, last) = sessions.into_inner();
    let mut fleet = Fleet::new(server.address, target)?;
    let mut points = Vec::new();
    let mut cpu = Cpu::default();
    for step in 0..=STEPS {
        let before = Cpu::of(server.pid)?;
        let until = first + (last - first) * step / STEPS;
        fleet.log_in(fleet.len()..until, AT_ONCE, chat::PRESENCE)?;
        fleet.run(Instant::now() + SETTLE, &mut |_, _, _| {})?;
        if step > 0 {
            let more = Cpu::of(server.pid)?.since(&before);
            cpu = cpu.plus(&more);
        }
        points.push((fleet.len() as f64, private_bytes(server.pid)? as f64));
    }
    Ok(Idle {
        bytes_per_session: slope(&points),
        logins_per_cpu_second: (last - first) as f64 / cpu.seconds(),
        user_share: cpu.user_share(),
    })
}

/// Returns the number of sessions that this process may open: the limit of its descriptors, minus a
/// few for itself.
pub fn most_sessions() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    usize::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX).saturating_sub(1000)
}

const STEPS: usize = 8;
const AT_ONCE: usize = 50;
const SETTLE: Duration = Duration::from_secs(1);
