//! The output of a ring's sockets: the output of a tick, its remainders, and the output of
//! connections that were closed before it was sent.

use std::mem;
use std::os::fd::AsRawFd;

use rustix::io::Errno;

use super::outputs::NO_OUTPUT;
use super::sockets::{NOTHING, RingSocket};
use super::{RingDriver, kernel};
use crate::socket::MOST_LEFT;

impl RingDriver {
    /// Sends bytes that were accepted.
    pub(super) fn send_rest(&mut self, place: u32, bytes: Vec<u8>) {
        let Some(socket) = self.sockets.get(place as usize) else { return };
        let sent = kernel::send_now(socket.number, &bytes);
        let sent = sent.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PIPE));
        self.sent(place, &bytes, sent);
    }

    /// Notes the outcome of sending accepted bytes.
    pub(super) fn sent(&mut self, place: u32, bytes: &[u8], result: Result<usize, Errno>) {
        let Some(socket) = self.sockets.get_mut(place as usize) else { return };
        let rest = match result {
            Ok(sent) => bytes.get(sent..).unwrap_or_default(),
            Err(Errno::AGAIN) => bytes,
            Err(error) => {
                socket.error.get_or_insert(error);
                &[]
            }
        };
        if rest.is_empty() {
            if mem::take(&mut socket.output.is_ending) {
                kernel::end_now(socket.number);
            }
        } else {
            socket.output.unsent = rest.to_vec();
            socket.output.is_writable = false;
        }
        self.stir(place);
        self.close_left(place);
    }

    /// Sends the output of the tick.
    pub(super) fn flush(&mut self) {
        if self.outputs.len() == 0 {
            return;
        }
        let outputs = mem::take(&mut self.outputs);
        let mut sent = mem::take(&mut self.sent);
        sent.clear();
        if outputs.len() < WORTH_A_SUBMISSION {
            for (place, bytes) in outputs.all() {
                let number = self.sockets.get(place as usize).map_or(-1, |socket| socket.number);
                let one = if bytes.is_empty() { Ok(0) } else { kernel::send_now(number, bytes) };
                sent.push(one.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PIPE)));
            }
        } else {
            let sockets = &self.sockets;
            let number = |place: u32| sockets.get(place as usize).map_or(-1, |socket| socket.number);
            let sends = outputs.all().map(|(place, bytes)| (number(place), bytes));
            self.kernel.send_all(sends, &mut sent);
        }
        for ((place, bytes), result) in outputs.all().zip(&sent) {
            // An output that was taken may belong to an earlier socket at this place.
            if bytes.is_empty() {
                continue;
            }
            if let Some(socket) = self.sockets.get_mut(place as usize) {
                socket.output.at = NO_OUTPUT;
            }
            if *result != Ok(bytes.len()) {
                self.sent(place, bytes, *result);
            }
        }
        self.outputs = outputs;
        self.outputs.clear();
        self.sent = sent;
    }

    /// Sends what a socket has in the output of the tick.
    pub(super) fn flush_socket(&mut self, place: u32) {
        let Some(socket) = self.sockets.get_mut(place as usize) else { return };
        let at = mem::replace(&mut socket.output.at, NO_OUTPUT);
        if at != NO_OUTPUT {
            let bytes = self.outputs.take(at);
            self.send_rest(place, bytes);
        }
    }

    /// Takes the connections over that were closed before their output was sent.
    pub(super) fn adopt_left(&mut self) {
        for (stream, output) in self.left.queue.take() {
            if self.left.now >= MOST_LEFT {
                continue;
            }
            let mut socket = RingSocket::new(stream.as_raw_fd(), NOTHING);
            (socket.input.reads, socket.output.own) = (false, Some(stream));
            let place = self.sockets.insert(socket) as u32;
            self.left.now += 1;
            self.send_rest(place, output);
        }
    }

    /// Closes a connection of which only the output was left, once that is sent or can't be.
    fn close_left(&mut self, place: u32) {
        let is_over = |socket: &RingSocket| {
            socket.output.own.is_some() && (socket.output.unsent.is_empty() || socket.error.is_some())
        };
        if self.sockets.get(place as usize).is_some_and(is_over) && self.end_operations(place) {
            self.sockets.remove(place as usize);
            self.left.now -= 1;
        }
    }
}

/// The number of outputs from which one submission costs less than a call for each.
const WORTH_A_SUBMISSION: usize = 3;
