//! The times at which a front-end answers: an event in the form in which requests are merged.

use crate::database::{Database, DeviceNode, Protocol, Reached};
use crate::drf::{Comparison, DrfEvent, EventClock, Time};
use crate::status::Status;

/// The times at which a front-end answers. Equal times at one node make one request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum When {
    /// Once, now.
    Once,
    /// Repeatedly, at an interval in milliseconds.
    Every(u64),
    /// At each change of the value, with at least this many milliseconds in between. Only for
    /// front-ends that report changes themselves.
    Changed(u64),
    /// On an event of the accelerator's clock.
    Clock {
        /// The number of the event.
        number: u16,
        /// Its source.
        clock: EventClock,
        /// The delay after it, in milliseconds.
        delay: u64,
    },
    /// At a state that a device reaches.
    State {
        /// The device's number.
        device: u32,
        /// The state.
        value: u16,
        /// The delay after it, in milliseconds.
        delay: u64,
        /// The comparison of the state.
        comparison: Comparison,
    },
}

/// The meaning of an event for a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderWish {
    /// The times at which the front-end answers.
    pub when: When,
    /// True if the reader only wants answers that differ from the previous one.
    pub on_change: bool,
    /// True if the reader wants the current value, if there is one.
    pub at_once: bool,
}

impl ReaderWish {
    /// Returns the meaning of an event; `None` if it never leads to a reading.
    ///
    /// # Errors
    /// [`BAD_EVENT`](Status::BAD_EVENT) for the state of a device that the database doesn't have.
    pub fn of(event: &DrfEvent, database: &Database) -> Result<Option<Self>, Status> {
        let every = |period: &Time| When::Every(period.millis().clamp(SHORTEST, LONGEST));
        Ok(Some(match event {
            DrfEvent::Never => return Ok(None),
            DrfEvent::Default | DrfEvent::Immediate => Self { when: When::Once, on_change: false, at_once: false },
            DrfEvent::Periodic { period, at_once } => Self { when: every(period), on_change: false, at_once: *at_once },
            DrfEvent::OnChange { period, at_once } => Self { when: every(period), on_change: true, at_once: *at_once },
            DrfEvent::Clock { number, clock, delay } => Self {
                when: When::Clock { number: *number, clock: *clock, delay: delay.millis() },
                on_change: false,
                at_once: false,
            },
            DrfEvent::State { device, value, delay, comparison } => {
                let device = database.by_name(device).ok_or(Status::BAD_EVENT)?.index;
                let when = When::State { device, value: *value, delay: delay.millis(), comparison: *comparison };
                Self { when, on_change: false, at_once: false }
            }
        }))
    }
}

impl When {
    /// Returns the frequency word of `RETDAT`, if there is one for this.
    pub fn ftd(&self) -> Option<u16> {
        match self {
            Self::Once => Some(0),
            Self::Every(millis) => Some((millis * 60 / 1000).clamp(4, 0x7fff) as u16),
            Self::Clock { number, clock: _, delay: 0 } if *number < 0x8000 => Some(0x8000 | number),
            Self::Clock { .. } | Self::State { .. } | Self::Changed(_) => None,
        }
    }

    /// Checks that a node can answer at these times, whichever protocol it has.
    ///
    /// # Errors
    /// [`NO_TCLK`](Status::NO_TCLK) and [`BAD_EVENT`](Status::BAD_EVENT) for events that the node
    /// doesn't support.
    pub fn check_at(&self, node: &DeviceNode) -> Result<(), Status> {
        match (&node.reached, self) {
            (Reached::Acnet(node), _) => self.check(node.protocol),
            // Events of the accelerator's clock don't reach other networks.
            (_, Self::Clock { .. }) => Err(Status::NO_TCLK),
            (_, Self::State { .. }) => Err(Status::BAD_EVENT),
            (_, _) => Ok(()),
        }
    }

    /// Returns the event for a front-end that speaks `protocol`: events with the same wording in it
    /// are equal.
    pub fn on_wire(self, protocol: Protocol) -> Self {
        match (protocol, &self, self.ftd()) {
            (Protocol::Retdat, Self::Every(_), Some(ftd)) => Self::Every((u64::from(ftd) * 1000).div_ceil(60)),
            (Protocol::Retdat, Self::Clock { number, delay, .. }, Some(_)) => {
                Self::Clock { number: *number, clock: EventClock::Either, delay: *delay }
            }
            _ => self,
        }
    }

    /// Checks that a front-end with this protocol can answer at these times.
    ///
    /// # Errors
    /// [`NO_TCLK`](Status::NO_TCLK) and [`BAD_EVENT`](Status::BAD_EVENT) for events that the
    /// protocol can't express.
    pub fn check(&self, protocol: Protocol) -> Result<(), Status> {
        match (protocol, self) {
            (Protocol::Gets32, _) => Ok(()),
            (Protocol::Retdat, when) if when.ftd().is_some() => Ok(()),
            // The front-end would need our clock, and we have none.
            (Protocol::Retdat, Self::Clock { .. }) => Err(Status::NO_TCLK),
            _ => Err(Status::BAD_EVENT),
        }
    }

    /// Returns the event text of `GETS32`.
    pub fn text(&self) -> String {
        match self {
            Self::Once => "i".into(),
            Self::Every(millis) | Self::Changed(millis) => format!("p,{millis},true"),
            Self::Clock { number, clock, delay } => {
                format!("e,{number:x},{},{delay}", clock.letter().to_ascii_lowercase())
            }
            Self::State { device, value, delay, comparison } => {
                format!("s,{device},{value},{delay},{}", comparison.sign())
            }
        }
    }

    /// Returns the time limit for an answer, in milliseconds: three and a half periods within
    /// limits. The time of an event is unknown; after this long the front-end may have forgotten
    /// the request. A one-shot request has `once`.
    pub fn patience(&self, once: u64) -> u64 {
        match self {
            Self::Once => once,
            Self::Every(millis) | Self::Changed(millis) => {
                (millis * 7 / 2).clamp(LEAST_PATIENCE, MOST_PATIENCE.max(millis * 3 / 2))
            }
            Self::Clock { .. } | Self::State { .. } => EVENT,
        }
    }

    /// Returns whether it is an event that may never occur, for which silence isn't a failure.
    pub fn is_event(&self) -> bool {
        matches!(self, Self::Clock { .. } | Self::State { .. })
    }
}

/// The shortest period; faster readings are plotted if the front-end can do that.
const SHORTEST: u64 = 50;
/// The longest period, limited by 15 bits of sixtieths of a second.
const LONGEST: u64 = 546_000;
const EVENT: u64 = 180_000;
const LEAST_PATIENCE: u64 = 400;
const MOST_PATIENCE: u64 = 15_000;
