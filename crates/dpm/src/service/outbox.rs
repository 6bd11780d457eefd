//! The queue of a client: references to shared messages, and messages of its own.
//!
//! When a list is stopped or closed, its queued messages stay here and are skipped when their turn
//! comes, so that the cost of stopping doesn't depend on their number.

use std::collections::VecDeque;
use std::sync::Arc;

use super::daq_messages;
use super::list::ClientList;
use crate::sdd::SharedReply;

/// Messages in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<OutboxMessage>,
    bytes: usize,
}

/// A message that waits for its client to read.
#[derive(Debug)]
pub(super) enum OutboxMessage {
    /// A reply about a request of a list.
    Shared {
        /// The key of the list that it belongs to.
        list: u32,
        /// The list's epoch when it was queued.
        epoch: u32,
        /// The client's number.
        ref_id: i64,
        /// The message without the number.
        message: Arc<SharedReply>,
    },
    /// An encoded message of a list as a whole.
    OfList {
        /// The key of the list that it belongs to.
        list: u32,
        /// The list's epoch when it was opened.
        opened: u32,
        /// The message in the form in which it is sent.
        message: Box<[u8]>,
    },
    /// Bytes that are sent as they are.
    Framed(Box<[u8]>),
}

impl Outbox {
    pub(super) fn push(&mut self, item: OutboxMessage) {
        self.bytes += item.size();
        self.queue.push_back(item);
    }

    pub(super) fn pop(&mut self) -> Option<OutboxMessage> {
        let item = self.queue.pop_front()?;
        self.bytes -= item.size();
        if self.queue.is_empty() {
            // An idle client doesn't keep the memory of an earlier, longer queue.
            self.queue.shrink_to(IDLE);
        }
        Some(item)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl OutboxMessage {
    /// Returns its list; `None` if the message is already framed.
    pub(super) fn list(&self) -> Option<usize> {
        match self {
            OutboxMessage::Shared { list, .. } | OutboxMessage::OfList { list, .. } => Some(*list as usize),
            OutboxMessage::Framed(_) => None,
        }
    }

    /// Returns whether the message is still wanted: false if its list was closed or stopped since
    /// it was queued.
    pub(super) fn counts(&self, list: &ClientList) -> bool {
        match self {
            OutboxMessage::Shared { epoch, .. } => *epoch == list.epoch,
            OutboxMessage::OfList { opened, .. } => *opened == list.opened,
            OutboxMessage::Framed(_) => true,
        }
    }

    /// Appends the message as it is sent.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            OutboxMessage::Shared { ref_id, message, .. } => message.write(*ref_id, out),
            OutboxMessage::OfList { message, .. } | OutboxMessage::Framed(message) => out.extend_from_slice(message),
        }
    }

    /// Appends the message for a client by gRPC, whose protocol has no lists.
    pub(super) fn write_daq(&self, out: &mut Vec<u8>) {
        if let OutboxMessage::Shared { ref_id, message, .. } = self {
            daq_messages::write(*ref_id, message, out);
        }
    }

    fn size(&self) -> usize {
        match self {
            OutboxMessage::Shared { message, .. } => message.size(),
            OutboxMessage::OfList { message, .. } | OutboxMessage::Framed(message) => message.len(),
        }
    }
}

/// The capacity that an idle queue keeps.
const IDLE: usize = 16;
