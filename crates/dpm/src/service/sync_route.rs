//! The route of events to a client of the task SYNC.

use crate::acnet::AcnetHeader;
use crate::sdd::SddMessage;
use crate::sdd::reply::Reply;
use crate::sdd::sync::{ClockOccurrence, EventOccurrence, EventReport, StateOccurrence, SyncReply};

/// The route of a list of events.
#[derive(Debug)]
pub(super) struct SyncRoute {
    /// The head of each reply.
    pub(super) header: AcnetHeader,
    /// The events by the numbers of their requests.
    events: Vec<AwaitedEvent>,
    /// The number of the next report.
    seq: i16,
    /// False until all requests have started: an earlier reading is no new event.
    pub(super) is_awake: bool,
}

/// An event that a client waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AwaitedEvent {
    /// A clock event, and how often it has occurred.
    Clock(i16, i32),
    /// A state of the device with a number.
    State(i32),
}

impl SyncRoute {
    /// Returns a route for events, in the order of their requests.
    pub(super) fn new(header: AcnetHeader, events: Vec<AwaitedEvent>) -> Self {
        Self { header, events, seq: 0, is_awake: false }
    }

    /// Returns the message for the client, if a reply of the pool means that an event has occurred.
    pub(super) fn report(&mut self, ref_id: i64, reply: &Reply) -> Option<Vec<u8>> {
        let (stamp, value) = match reply {
            Reply::Scalar(scalar) => (scalar.timestamp, scalar.data),
            Reply::ScalarArray(array) => (array.timestamp, array.data.first().copied().unwrap_or_default()),
            _ => return None,
        };
        let event = self.events.get_mut(usize::try_from(ref_id).ok()?).filter(|_| self.is_awake)?;
        let mut occurrence = EventOccurrence { stamp, ..EventOccurrence::default() };
        match event {
            AwaitedEvent::Clock(event, number) => {
                *number = number.saturating_add(1);
                occurrence.clock = Some(ClockOccurrence { event: *event, number: *number });
            }
            AwaitedEvent::State(device_index) => {
                occurrence.state = Some(StateOccurrence { device_index: *device_index, value: value as i32 });
            }
        }
        let seq = self.seq;
        self.seq = seq.wrapping_add(1);
        let mut message = Vec::new();
        SyncReply::from(EventReport { seq, events: vec![occurrence] }).encode(&mut message);
        Some(message)
    }
}
