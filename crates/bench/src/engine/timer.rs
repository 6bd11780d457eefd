//! A timer for waits that are finer than the milliseconds of epoll.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

/// A timer in an epoll set. It is level-triggered and armed only for waits for which epoll's own
/// timeout is too coarse.
#[derive(Debug)]
pub struct EpollTimer {
    timer: OwnedFd,
    armed: bool,
}

impl EpollTimer {
    /// Returns a timer whose events carry `key`.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(set: &OwnedFd, key: u64) -> io::Result<EpollTimer> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(set, &timer, epoll::EventData::new_u64(key), epoll::EventFlags::IN)?;
        Ok(EpollTimer { timer, armed: false })
    }

    /// Prepares a wait of `nanoseconds`, but at most `longest`; returns the timeout for epoll.
    ///
    /// A wait below 200 µs is made that long: a load of many thousand stanzas a second must not
    /// wake for each of them.
    pub fn arm(&mut self, nanoseconds: u64, longest: Duration) -> io::Result<Timespec> {
        let wait = Duration::from_nanos(nanoseconds).min(longest);
        if wait.is_zero() || wait >= COARSE {
            return Timespec::try_from(wait).map_err(io::Error::other);
        }
        let value = Timespec::try_from(wait.max(SHORTEST)).map_err(io::Error::other)?;
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        self.armed = true;
        Timespec::try_from(longest).map_err(io::Error::other)
    }

    /// Notes that the timer has expired.
    pub fn rang(&mut self) {
        if std::mem::take(&mut self.armed) {
            // If this fails, the timer is still armed again before the next wait.
            let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        }
    }
}

const SHORTEST: Duration = Duration::from_micros(200);
/// The length of a wait above which whole milliseconds are exact enough: the rest is waited for
/// afterwards.
const COARSE: Duration = Duration::from_millis(4);
