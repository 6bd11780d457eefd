//! Events of simulated front-ends: by time, by clock events of a generator, by states of devices.

use crate::database::{Database, SimulatedEvent};
use crate::drf::{self, Comparison, DrfEvent};

/// The times at which a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SimulatedTimes {
    /// Once, now.
    Once,
    /// Now, and repeatedly at an interval in milliseconds.
    Every(u64),
    /// On an event of the generator's clock.
    Clock {
        /// Milliseconds between the events; `None` if the generator does not make this one.
        every: Option<u64>,
        /// The delay after it, in milliseconds.
        delay: u64,
    },
    /// At a state that a device reaches.
    State {
        /// The device and its state.
        state: AwaitedState,
        /// The delay after it, in milliseconds.
        delay: u64,
    },
}

/// A state on which a request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AwaitedState {
    /// The device's number.
    pub(super) device: u32,
    /// The value that it is compared with.
    pub(super) value: u16,
    /// The comparison that has to hold between the state and `value`.
    pub(super) comparison: Comparison,
}

impl SimulatedTimes {
    /// Returns the event that a frequency word of `RETDAT` means.
    pub(super) fn of_ftd(ftd: u16, clock: &SimulatedClock) -> Self {
        match ftd {
            0 => Self::Once,
            ftd if ftd & 0x8000 != 0 => Self::Clock { every: clock.period(ftd & 0x7fff), delay: 0 },
            ftd => Self::Every((u64::from(ftd) * 1000 / 60).max(1)),
        }
    }

    /// Returns the event that an event text of `GETS32` means; a text without a meaning is answered
    /// once.
    pub(super) fn of_text(text: &str, clock: &SimulatedClock) -> Self {
        if let ["s" | "S", device, value, delay, comparison] = text.split(',').collect::<Vec<_>>()[..]
            && let (Ok(device), Ok(value), Ok(delay), Some(comparison)) =
                (device.parse(), value.parse(), delay.parse(), Comparison::of_sign(comparison))
        {
            return Self::State { state: AwaitedState { device, value, comparison }, delay };
        }
        match drf::Request::parse(&format!("M:O@{text}")).map(|request| request.event) {
            Ok(DrfEvent::Periodic { period, .. } | DrfEvent::OnChange { period, .. }) => {
                Self::Every(period.millis().max(1))
            }
            Ok(DrfEvent::Clock { number, delay, .. }) => {
                Self::Clock { every: clock.period(number), delay: delay.millis() }
            }
            _ => Self::Once,
        }
    }

    /// Returns the next time at which a request is answered or its state is checked, after a given
    /// time; all in milliseconds.
    pub(super) fn next(&self, millis: u64) -> Option<u64> {
        match self {
            Self::Once => None,
            Self::Every(every) => Some(millis + every),
            Self::Clock { every, delay } => {
                let every = (*every)?;
                // Events come at whole multiples of their period.
                let since = millis.checked_sub(*delay).map_or(0, |since| since / every + 1);
                Some(since * every + delay)
            }
            Self::State { .. } => Some(millis + STATE_LOOK),
        }
    }

    /// Returns whether it is also answered now. Events have to occur first.
    pub(super) fn is_now(&self) -> bool {
        matches!(self, Self::Once | Self::Every(_))
    }
}

/// The generator of clock events.
#[derive(Debug)]
pub(super) struct SimulatedClock(Vec<SimulatedEvent>);

impl SimulatedClock {
    /// Returns a generator of the usual events and those of a database, which count first.
    pub(super) fn new(database: &Database) -> Self {
        let usual =
            EVENTS.iter().map(|(number, every_millis)| SimulatedEvent { number: *number, every_millis: *every_millis });
        Self(database.events().iter().copied().chain(usual).collect())
    }

    /// Returns the time between two events of a number, in milliseconds.
    fn period(&self, number: u16) -> Option<u64> {
        self.0.iter().find(|event| event.number == number).map(|event| event.every_millis)
    }
}

/// The generator's clock events and their periods. The periods differ from the accelerator's, so
/// that the two can't be confused.
const EVENTS: &[(u16, u64)] = &[(0x02, 5001), (0x0f, 67), (0x1d, 2001)];
/// The time between two checks of a state, in milliseconds.
const STATE_LOOK: u64 = 99;
