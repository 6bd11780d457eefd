//! Simulated front-ends on a UDP socket.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use super::clock::MachineClock;
use super::datagram::{DATAGRAMS, LARGEST_DATAGRAM, RECEIVE_BUFFER, next_datagram};
use super::set::SocketSet;
use crate::simulator::Simulator;

/// A simulator and its socket.
#[derive(Debug)]
pub struct SimulatorFront {
    simulator: Simulator,
    socket: UdpSocket,
}

impl SimulatorFront {
    /// Opens the socket.
    ///
    /// # Errors
    /// The system's, such as for an address that can't be bound.
    pub fn open(listen: SocketAddr, simulator: Simulator) -> io::Result<Self> {
        let socket = UdpSocket::bind(listen)?;
        socket.set_nonblocking(true)?;
        // All of the front-ends may be asked at the same moment.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER);
        Ok(Self { simulator, socket })
    }

    /// Returns the address at which it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Answers until an error occurs or `stop` returns true.
    pub fn run(mut self, stop: impl Fn() -> bool) -> io::Result<()> {
        let (set, clock) = (SocketSet::new()?, MachineClock::new());
        set.add(&self.socket, 0)?;
        let mut ready = Vec::new();
        let mut buffer = vec![0; LARGEST_DATAGRAM];
        while !stop() {
            let now = clock.now();
            let wait = self.simulator.deadline().map_or(IDLE, |deadline| deadline.saturating_sub(now.millis).min(IDLE));
            set.wait(Some(wait), &mut ready)?;
            let now = clock.now();
            for _ in 0..DATAGRAMS {
                let Some((length, from)) = next_datagram(&self.socket, &mut buffer)? else { break };
                self.simulator.datagram(from, &mut buffer[..length], now);
            }
            self.simulator.tick(now);
            for (to, datagram) in self.simulator.flush() {
                // A datagram that can't be sent counts as lost on the way.
                let _ = self.socket.send_to(&datagram, to);
            }
        }
        Ok(())
    }
}

/// The interval at which `stop` is called, in milliseconds.
const IDLE: u64 = 200;
