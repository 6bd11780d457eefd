//! Connections: their input, and their output in turns.

use std::io::{self, Read};
use std::sync::Arc;

use super::super::pipe::{OutputPipe, PipeState};
use super::super::set::Ready;
use super::DpmServer;
use crate::service::ClientKey;
use crate::stages::ReadingStage;
use crate::time::Moment;

impl DpmServer {
    /// Handles what a client's socket is ready for.
    pub(super) fn take_client(&mut self, event: Ready, now: Moment) {
        let client = event.key as ClientKey;
        if event.write
            && let Some(pipe) = self.pipe(client)
        {
            pipe.unblock();
            self.write(client);
        }
        let Some(Some(connection)) = self.connections.get(client) else { return };
        if !event.read {
            return;
        }
        let is_over = match (&connection.pipe.stream).read(&mut self.buffer) {
            Ok(0) => true,
            Ok(length) => self.dpm.receive(client, &self.buffer[..length], now).is_err(),
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        if is_over {
            // The client may still have to get the reason.
            self.finish(client);
        }
    }

    /// Looks at connections to which other threads have written.
    pub(super) fn take_news(&mut self) {
        for client in self.writers.take_news() {
            self.write(client);
        }
    }

    /// Makes it a client's turn, after those of all others that are pending.
    pub(super) fn make_pending(&mut self, client: ClientKey) {
        if let Some(Some(connection)) = self.connections.get_mut(client)
            && !std::mem::replace(&mut connection.is_pending, true)
        {
            self.pending.push_back(client);
        }
    }

    /// Writes to the pending clients whose turn it is: to as many as the serving thread can before
    /// it should look at its sockets again, and hands as many over as other threads are ready for.
    pub(super) fn write_pending(&mut self) {
        self.writers.measure(self.dpm.stages());
        let beyond = self.pending.len().saturating_sub(TURN);
        if beyond > 0 {
            let mut jobs = Vec::new();
            for _ in 0..beyond.min(self.writers.room()) {
                let Some(client) = self.next_pending() else { break };
                let is_handed = |pipe: &Arc<OutputPipe>, rendered: &[u8], now| {
                    if pipe.hand_over(rendered) {
                        jobs.push((Arc::clone(pipe), now));
                    }
                    pipe.state()
                };
                self.write_by(client, is_handed);
            }
            self.writers.hand_over(&mut jobs);
        }
        let mut left = TURN - self.take_back(TURN, self.now.saturating_sub(LATE));
        while left > 0
            && let Some(client) = self.next_pending()
        {
            self.write(client);
            left -= 1;
        }
        self.take_back(left, self.now);
    }

    /// Writes what was handed over at this time or before and isn't written yet. Returns to how
    /// many clients.
    fn take_back(&mut self, most: usize, handed_by: u64) -> usize {
        let jobs = self.writers.take_back(most, handed_by);
        for (pipe, now) in &jobs {
            if pipe.write_on(*now) {
                self.write(pipe.client);
            }
        }
        jobs.len()
    }

    fn next_pending(&mut self) -> Option<ClientKey> {
        let client = self.pending.pop_front()?;
        if let Some(Some(connection)) = self.connections.get_mut(client) {
            connection.is_pending = false;
        }
        Some(client)
    }

    /// Writes a client's output, as far as its socket takes it.
    pub(super) fn write(&mut self, client: ClientKey) {
        let begun = self.dpm.stages().begin();
        self.write_by(client, |pipe, rendered, now| pipe.send(rendered, now));
        let _ = self.dpm.stages().end(ReadingStage::Send, begun);
    }

    /// Renders a client's output and gives it to `send`, unless too much waits for the socket
    /// already.
    fn write_by(&mut self, client: ClientKey, send: impl FnOnce(&Arc<OutputPipe>, &[u8], u64) -> PipeState) {
        let Some(pipe) = self.pipe(client) else { return };
        let mut has_more = true;
        self.rendered.clear();
        if pipe.unsent_bytes() < WRITE {
            has_more = self.dpm.render(client, &mut self.rendered, WRITE);
        }
        let mut state = send(&pipe, &self.rendered, self.now);
        if state == PipeState::Busy && (has_more || self.dpm.is_served(client)) {
            // The rest is rendered, or the connection closed, once this is written.
            state = pipe.tell_when_written();
        }
        match state {
            PipeState::Broken => return self.close(client),
            PipeState::Empty if has_more => self.make_pending(client),
            PipeState::Empty if self.dpm.is_served(client) => return self.close(client),
            _ => {}
        }
        let (reads, writes) = (self.dpm.wants_input(client), state == PipeState::Blocked);
        if let Some(Some(connection)) = self.connections.get_mut(client)
            && (reads, writes) != (connection.reads, connection.writes)
        {
            (connection.reads, connection.writes) = (reads, writes);
            let _ = self.set.change(&pipe.stream, client as u64, reads, writes);
        }
    }

    /// Writes what a client's socket takes now, and closes it.
    pub(super) fn finish(&mut self, client: ClientKey) {
        for _ in 0..ROUNDS {
            self.write(client);
            let Some(Some(connection)) = self.connections.get(client) else { return };
            if !connection.is_pending {
                break;
            }
        }
        self.close(client);
    }

    pub(super) fn close(&mut self, client: ClientKey) {
        if let Some(place) = self.connections.get_mut(client)
            && let Some(connection) = place.take()
        {
            // Another thread may still write to it, and close it then.
            let _ = self.set.remove(&connection.pipe.stream);
        }
        self.dpm.disconnect(client);
    }

    fn pipe(&self, client: ClientKey) -> Option<Arc<OutputPipe>> {
        let connection = self.connections.get(client)?.as_ref()?;
        Some(Arc::clone(&connection.pipe))
    }
}

/// The most clients that the serving thread writes to before it looks at its sockets again: the
/// work of a quarter of a millisecond.
const TURN: usize = 32;
/// The time after which the serving thread takes back what no other thread has begun to write, in
/// milliseconds.
const LATE: u64 = 2;
/// The approximate bytes that are rendered for one write, and the unsent bytes of a socket above
/// which no more are rendered for it.
const WRITE: usize = 64 << 10;
/// The most writes to a client that is to be closed.
const ROUNDS: usize = 32;
