//! Messages to servers that don't exist: how soon their sender is told, and at what cost.

use std::time::{Duration, Instant};

use super::servers::{Two, target};
use crate::fleet::Fleet;
use crate::process::Cpu;
use crate::{BenchOutcome, chat};

/// Sends a message to each of many domains whose server takes no connections.
pub fn measure(two: &Two) -> BenchOutcome<()> {
    let mut fleet = Fleet::new(two.one.server.address, target(&two.one.server, "nobody"))?;
    fleet.log_in(0..1, 1, chat::PRESENCE)?;
    fleet.run(Instant::now() + super::SETTLING, &mut |_, _, _| {})?;
    let (cpu, begun) = (Cpu::of(two.one.server.pid)?, Instant::now());
    for domain in two.closed_domains() {
        let message = format!("<message to='x@{domain}' type='chat'><body>x</body></message>");
        fleet.send(0, message.as_bytes())?;
    }
    let (mut told, mut last) = (0, Duration::ZERO);
    while told < two.closed_domains().count() && begun.elapsed() < MOST {
        let mut react = |_: usize, stanza: &[u8], _: &mut Vec<u8>| {
            if memchr::memmem::find(stanza, b"remote-server-timeout").is_some() {
                told += 1;
                last = begun.elapsed();
            }
        };
        fleet.run(Instant::now() + Duration::from_millis(100), &mut react)?;
    }
    if told < two.closed_domains().count() {
        return Err(format!("{told} of {} senders were told", two.closed_domains().count()).into());
    }
    let us = Cpu::of(two.one.server.pid)?.since(&cpu).nanoseconds as f64 / 1e3 / told as f64;
    println!("{told} servers that aren't there: told after {:.2} s, {us:.0} µs of CPU each", last.as_secs_f64());
    Ok(())
}

/// The time within which every sender has to be told.
const MOST: Duration = Duration::from_secs(30);
