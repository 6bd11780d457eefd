//! The tables of the task SYNC, which tells clients of clock events and of devices that reach a
//! state.

use super::record::*;

direction! {
    /// A search for the service, or a request for events.
    SyncRequest of SYNC_PROTOCOL;

    /// Searches for a service that knows the events of a clock.
    SyncSearch = 0x973c {
        /// The clock.
        clock: EventSource = 0x1b19,
    }
    /// Asks for events, as long as the request is not cancelled.
    RegisterEvents = 0x12d6 {
        /// The events, in the grammar of requests, such as `e,02`.
        events: Vec<String> = 0x99df,
    }
}

direction! {
    /// A reply of the service.
    SyncReply of SYNC_PROTOCOL;

    /// The service is here.
    SyncPlace = 0xb731 {}
    /// Events that have occurred.
    EventReport = 0xed8e {
        /// The number of the report, which shows lost ones.
        seq: i16 = 0xc2de,
        /// The events.
        events: Vec<EventOccurrence> = 0x8b06,
    }
}

record! {
    /// An event that has occurred, of either kind.
    EventOccurrence {
        /// The time, in milliseconds since 1970.
        stamp: i64 = 0xc78d,
        /// The state that a device has reached.
        state: Option<StateOccurrence> = 0x9e2e,
        /// The clock event.
        clock: Option<ClockOccurrence> = 0x1b19,
    }
}

record! {
    /// A state that a device has reached.
    StateOccurrence {
        /// The number of the device.
        device_index: i32 = 0x05ad,
        /// Its state.
        value: i32 = 0xc160,
    }
}

record! {
    /// An event of a clock.
    ClockOccurrence {
        /// The number of the event.
        event: i16 = 0x6390,
        /// The number of its occurrences since the client asked for it.
        number: i32 = 0x248a,
    }
}

/// A clock whose events are sent to everyone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventSource(pub u16);

impl EventSource {
    /// The accelerator's clock.
    pub const TCLK: Self = Self(0x204b);
}

impl WireType for EventSource {
    const KIND: FieldKind = FieldKind::Choice;
    fn write(&self, out: &mut Vec<u8>) {
        put_choice(out, self.0);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, SddError> {
        reader.choice().map(Self)
    }
}

/// The id of the protocol of SYNC.
const SYNC_PROTOCOL: i64 = -940_213_363;
