//! Measures the cost of relaying one message, with pairs that play ping-pong in a closed loop.
//!
//! Several loads are alive at the same time and are measured in turn, so that other activity on
//! the machine affects all of them alike.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bare_relay::BareRelay;
use crate::engine::LoadTarget;
use crate::fleet::Fleet;
use crate::process::Cpu;
use crate::rookery::MeasuredServer;
use crate::{BenchOutcome, chat};

/// The two ends of many pairs, at one server.
#[derive(Debug)]
pub struct Pairs {
    fleet: Fleet,
    pid: u32,
    /// The messages that each client sends its partner.
    messages: Vec<Vec<u8>>,
    in_flight: usize,
}

/// The server's cost over a period.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Microseconds of the server's CPU per relayed message, including the kernel's part.
    pub us_per_message: f64,
    /// The part of it outside of the kernel, 0 to 1.
    pub user_share: f64,
    /// Messages per second of wall time.
    pub rate: f64,
}

impl Pairs {
    /// Logs in pairs of accounts: account 0 and 1, 2 and 3, and so on.
    ///
    /// # Errors
    /// A login failed.
    pub fn of_accounts(server: &MeasuredServer, target: Arc<LoadTarget>, pairs: usize) -> BenchOutcome<Pairs> {
        let jid = |number| format!("{}/{}", chat::account(number, target.domain()), target.resource());
        let messages =
            (0..2 * pairs).map(|number| chat::message(&jid(number), &jid(number ^ 1)).into_bytes()).collect();
        let mut fleet = Fleet::new(server.address, target)?;
        fleet.log_in(0..2 * pairs, AT_ONCE, chat::PRESENCE)?;
        // A server's stanzas for a new session come before the first message.
        fleet.run(Instant::now() + Duration::from_millis(500), &mut |_, _, _| {})?;
        Ok(Pairs { fleet, pid: server.pid, messages, in_flight: 0 })
    }

    /// Connects pairs to the relay.
    ///
    /// # Errors
    /// The error of the system.
    pub fn of_lines(relay: &BareRelay, target: Arc<LoadTarget>, pairs: usize) -> BenchOutcome<Pairs> {
        let mut fleet = Fleet::new(relay.address, target)?;
        fleet.connect_lines(2 * pairs)?;
        let mut line = vec![b'x'; chat::BYTES - 1];
        line.push(b'\n');
        Ok(Pairs { fleet, pid: relay.pid(), messages: vec![line; 2 * pairs], in_flight: 0 })
    }

    /// Lets messages in flight arrive, without replies, so that none are left.
    ///
    /// # Errors
    /// A connection that breaks.
    pub fn pause(&mut self) -> BenchOutcome<()> {
        self.fleet.run(Instant::now() + Duration::from_millis(500), &mut |_, _, _| {})?;
        self.in_flight = 0;
        Ok(())
    }

    /// Plays for that time with `in_flight` messages of each pair, after a warm-up of half a
    /// second. The number can only grow: messages stay in flight between measurements.
    ///
    /// # Errors
    /// A connection that breaks.
    pub fn play(&mut self, in_flight: usize, time: Duration) -> BenchOutcome<Cost> {
        while self.in_flight < in_flight {
            for seat in (0..self.fleet.len()).step_by(2) {
                let message = self.messages.get(seat).map(Vec::as_slice).unwrap_or_default();
                self.fleet.send(seat, message)?;
            }
            self.in_flight += 1;
        }
        let messages = &self.messages;
        let mut react = |seat: usize, stanza: &[u8], replies: &mut Vec<u8>| {
            if !stanza.starts_with(b"<presence") && !stanza.starts_with(b"<iq") {
                replies.extend_from_slice(messages.get(seat).map(Vec::as_slice).unwrap_or_default());
            }
        };
        self.fleet.run(Instant::now() + Duration::from_millis(500), &mut react)?;
        let (before, start) = (Cpu::of(self.pid)?, Instant::now());
        let count = self.fleet.run(start + time, &mut react)?;
        let (cpu, seconds) = (Cpu::of(self.pid)?.since(&before), start.elapsed().as_secs_f64());
        if count == 0 {
            return Err("no message came back".into());
        }
        Ok(Cost {
            us_per_message: cpu.nanoseconds as f64 / 1e3 / count as f64,
            user_share: cpu.user_share(),
            rate: count as f64 / seconds,
        })
    }
}

const AT_ONCE: usize = 100;
