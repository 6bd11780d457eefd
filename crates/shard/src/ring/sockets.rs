//! One socket of a ring: its operations that the kernel has, and its bytes that the kernel hasn't.

use std::net::TcpStream;
use std::os::fd::RawFd;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::outputs::NO_OUTPUT;
use crate::driver::ReadySocket;

/// A socket that is watched.
#[derive(Debug)]
pub(super) struct RingSocket {
    pub(super) number: RawFd,
    pub(super) key: u32,
    pub(super) receive: RingOperation,
    pub(super) poll: RingOperation,
    /// The events of the poll that the kernel has.
    polled: PollFlags,
    pub(super) input: RingInput,
    pub(super) output: RingOutput,
    /// The error that broke it.
    pub(super) error: Option<Errno>,
    pub(super) is_connecting: bool,
    /// True if it broke while its input wasn't wanted.
    pub(super) is_broken: bool,
    /// True if it is in the list of sockets to be checked.
    pub(super) is_stirred: bool,
}

/// The direction of a socket that comes from the peer.
#[derive(Debug)]
pub(super) struct RingInput {
    /// The first and the last shared buffer with input; [`NOTHING`] if there is none.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Bytes of the first shared buffer that were read.
    pub(super) read_of_first: u32,
    /// Input that comes before that in shared buffers.
    pub(super) spilled: Vec<u8>,
    /// True if input is wanted.
    pub(super) reads: bool,
    /// True if the peer has ended its direction.
    pub(super) has_ended: bool,
}

/// The direction of a socket to the peer.
#[derive(Debug)]
pub(super) struct RingOutput {
    /// Output that was accepted and that the system has no room for.
    pub(super) unsent: Vec<u8>,
    /// The place of its output among that of the tick, or [`NO_OUTPUT`].
    pub(super) at: u32,
    /// The connection, if it was closed and only its output is left.
    pub(super) own: Option<TcpStream>,
    /// True if room for output is to be reported.
    pub(super) writes: bool,
    /// True if there was room for output, and none has been refused since.
    pub(super) is_writable: bool,
    /// True if our direction is to be ended after the output.
    pub(super) is_ending: bool,
}

/// The state of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RingOperation {
    /// The kernel has none.
    None,
    /// The kernel has it.
    Begun,
    /// The kernel has it, and was told to end it.
    Cancelled,
}

/// The next step of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RingStep {
    /// It is as it should be.
    Rest,
    Begin,
    Cancel,
}

impl RingSocket {
    pub(super) fn new(number: RawFd, key: u32) -> Self {
        Self {
            number,
            key,
            receive: RingOperation::None,
            poll: RingOperation::None,
            polled: PollFlags::empty(),
            input: RingInput {
                first: NOTHING,
                last: NOTHING,
                read_of_first: 0,
                spilled: Vec::new(),
                reads: true,
                has_ended: false,
            },
            output: RingOutput {
                unsent: Vec::new(),
                at: NO_OUTPUT,
                own: None,
                writes: false,
                is_writable: false,
                is_ending: false,
            },
            error: None,
            is_connecting: false,
            is_broken: false,
            is_stirred: false,
        }
    }

    fn has_input(&self) -> bool {
        self.input.first != NOTHING || !self.input.spilled.is_empty()
    }

    /// Returns the events of the socket to report, if there are any.
    pub(super) fn ready(&self) -> Option<ReadySocket> {
        let input = self.input.reads && (self.has_input() || self.input.has_ended);
        let read = input || self.error.is_some() || self.is_broken;
        let write = self.output.writes && self.output.is_writable && self.output.unsent.is_empty();
        let is_reported = (read || write) && self.output.own.is_none();
        is_reported.then_some(ReadySocket { key: self.key, read, write })
    }

    /// Returns whether more input may come.
    fn is_open(&self) -> bool {
        !self.input.has_ended && self.error.is_none() && !self.is_broken
    }

    /// Returns the next step of its receive.
    pub(super) fn receive_step(&mut self) -> RingStep {
        let is_heard = self.input.reads && self.is_open() && !self.is_connecting && self.output.own.is_none();
        let wants = is_heard && self.input.spilled.len() < MOST_SPILLED;
        step(&mut self.receive, wants, false)
    }

    /// Returns the next step of its poll, and the events to poll for.
    pub(super) fn poll_step(&mut self) -> (RingStep, PollFlags) {
        let mut events = PollFlags::empty();
        events.set(PollFlags::OUT, self.is_connecting || self.output.writes || !self.output.unsent.is_empty());
        // Otherwise the receive reports the end.
        let is_unheard = !self.input.reads && self.is_open();
        events.set(PollFlags::ERR | PollFlags::HUP, is_unheard || !events.is_empty());
        let step = step(&mut self.poll, !events.is_empty(), !self.polled.contains(events));
        if step == RingStep::Begin {
            self.polled = events;
        }
        (step, events)
    }

    /// Notes the events of a poll. Returns whether the socket may be written to.
    pub(super) fn polled(&mut self, result: Result<u32, Errno>) -> bool {
        let found = match result {
            Ok(events) => PollFlags::from_bits_retain(events as u16),
            // The poll was ended, so that another one can begin.
            Err(Errno::CANCELED) => return false,
            Err(error) => {
                self.error.get_or_insert(error);
                return false;
            }
        };
        let is_over = found.intersects(PollFlags::ERR | PollFlags::HUP);
        self.is_broken |= is_over && !self.input.reads && self.is_open();
        let is_writable = is_over || found.contains(PollFlags::OUT);
        if is_writable {
            (self.is_connecting, self.output.is_writable) = (false, true);
        }
        is_writable
    }
}

fn step(operation: &mut RingOperation, wants: bool, lacks: bool) -> RingStep {
    match (*operation, wants) {
        (RingOperation::None, true) => {
            *operation = RingOperation::Begun;
            RingStep::Begin
        }
        (RingOperation::Begun, true) if !lacks => RingStep::Rest,
        (RingOperation::Begun, _) => {
            *operation = RingOperation::Cancelled;
            RingStep::Cancel
        }
        _ => RingStep::Rest,
    }
}

/// The value that stands for no shared buffer.
pub(super) const NOTHING: u32 = u32::MAX;
/// The number of unread bytes from which no more are received.
const MOST_SPILLED: usize = 64 * 1024;
