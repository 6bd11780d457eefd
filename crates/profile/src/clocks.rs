//! Clocks of single threads, each of which interrupts its thread by SIGPROF whenever that has used
//! some more CPU time, whatever the system's ticks are doing.
//!
//! The timer of the process (setitimer(2)) only looks at which thread is running when the system's
//! clock ticks, so that work which always lies between two ticks is never seen. These clocks
//! (perf_event_open(2)) run in the processor's time. They count the kernel's time for the thread as
//! well, which is most of a server's, and not every system allows that to everybody: to root, to
//! processes with `CAP_PERFMON`, or to all where `kernel.perf_event_paranoid` is at most 1.
//!
//! # Invariants
//!
//! - A clock rings for the first time after a random part of its period. Otherwise threads that use
//!   less than a period would never be seen, and all others too rarely.
//! - There is somebody to handle the signal for as long as there is a clock: the sampler starts
//!   clocks after its handler, and stops them before it.
#![allow(unsafe_code, reason = "no library that the server needs anyway offers these calls of the kernel")]

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The clocks of all threads of this process, until it is dropped.
pub(crate) struct ThreadClocks {
    stop: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl ThreadClocks {
    /// Starts the clocks in place of the timer of the process, with this number of signals for each
    /// second of CPU time. Returns `None`, and leaves the timer alone, if the system refuses.
    pub(crate) fn start(rate: u32) -> Option<Self> {
        let period_ns = 1_000_000_000 / u64::from(rate.max(1));
        let mut clocks = OpenClocks { period_ns, open: HashMap::new() };
        clocks.open_new().ok()?;
        let (stop, stopped) = channel();
        let work = move || {
            for look in 1_u64.. {
                if stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                clocks.go_on();
                if look.is_multiple_of(LOOKS) {
                    // New threads are left out where there are no more descriptors.
                    let _ = clocks.open_new();
                }
            }
        };
        let keeper = thread::Builder::new().name("profile clocks".into()).spawn(work).ok()?;
        stop_timer();
        Some(Self { stop: Some(stop), keeper: Some(keeper) })
    }
}

impl Drop for ThreadClocks {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(keeper) = self.keeper.take() {
            // It can't panic.
            let _ = keeper.join();
        }
    }
}

struct OpenClocks {
    period_ns: u64,
    /// The clocks by the numbers of their threads.
    open: HashMap<i32, ThreadClock>,
}

impl OpenClocks {
    /// Gives each new thread a clock, and forgets those of threads that have ended.
    fn open_new(&mut self) -> io::Result<()> {
        let mut found = HashMap::new();
        for task in fs::read_dir("/proc/self/task")? {
            let Some(thread) = task?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let clock = match self.open.remove(&thread) {
                Some(clock) => clock,
                None if found.len() + self.open.len() >= MOST_CLOCKS => continue,
                None => match ThreadClock::open(thread, self.period_ns) {
                    Ok(clock) => clock,
                    // The thread has ended.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                    Err(error) if found.is_empty() => return Err(error),
                    Err(_) => continue,
                },
            };
            found.insert(thread, clock);
        }
        self.open = found;
        Ok(())
    }

    /// Lets the clocks go on that have rung for the first time.
    fn go_on(&mut self) {
        for clock in self.open.values_mut() {
            // If that fails, the thread isn't sampled any more.
            let _ = clock.go_on(self.period_ns);
        }
    }
}

/// The clock of a thread.
struct ThreadClock {
    file: File,
    /// The time after which it rings for the first time, and stops; `None` once it goes on.
    first_ns: Option<u64>,
}

impl ThreadClock {
    fn open(thread: i32, period_ns: u64) -> io::Result<Self> {
        let first_ns = 1 + RandomState::new().hash_one(thread) % period_ns;
        let attributes = ClockAttributes {
            type_: SOFTWARE,
            size: size_of::<ClockAttributes>() as u32,
            config: CPU_CLOCK,
            sample_period: first_ns,
            flags: DISABLED | WITHOUT_HYPERVISOR,
            wakeup_events: 1,
            ..ClockAttributes::default()
        };
        // SAFETY: the kernel reads as many bytes of the attributes as their `size` says, and writes
        // nothing; the other arguments are numbers.
        let opened =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, -1, -1, CLOSE_ON_EXEC) };
        let Ok(descriptor @ 0..) = i32::try_from(opened) else { return Err(io::Error::last_os_error()) };
        // SAFETY: the kernel has just opened this descriptor, which belongs to nobody else.
        let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let clock = Self { file: File::from(owned), first_ns: Some(first_ns) };
        clock.tell(thread)?;
        // SAFETY: the argument is a number.
        clock.check(unsafe { libc::ioctl(descriptor, REFRESH, 1) })?;
        Ok(clock)
    }

    /// Makes it send its signals to a thread.
    fn tell(&self, thread: i32) -> io::Result<()> {
        let descriptor = self.file.as_raw_fd();
        let owner = SignalOwner { type_: OWNER_IS_THREAD, thread };
        // SAFETY: the argument is a number.
        self.check(unsafe { libc::fcntl(descriptor, SET_SIGNAL, libc::SIGPROF) })?;
        // SAFETY: the kernel reads a structure of this form, and writes nothing.
        self.check(unsafe { libc::fcntl(descriptor, SET_OWNER, &raw const owner) })?;
        // SAFETY: the argument is a number.
        self.check(unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_ASYNC) })
    }

    /// Lets it ring after each period from now on, if it has rung for the first time.
    fn go_on(&mut self, period_ns: u64) -> io::Result<()> {
        let Some(first_ns) = self.first_ns else { return Ok(()) };
        let mut counted = [0; 8];
        self.file.read_exact(&mut counted)?;
        if u64::from_ne_bytes(counted) < first_ns {
            return Ok(());
        }
        self.first_ns = None;
        let descriptor = self.file.as_raw_fd();
        // SAFETY: the kernel reads the number, and writes nothing.
        self.check(unsafe { libc::ioctl(descriptor, SET_PERIOD, &raw const period_ns) })?;
        // It may be about to ring for the first time, so it isn't enough to switch it on.
        // SAFETY: the argument is a number.
        self.check(unsafe { libc::ioctl(descriptor, REFRESH, FOREVER) })
    }

    fn check(&self, returned: i32) -> io::Result<()> {
        if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Stops the timer of the process.
fn stop_timer() {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let never = libc::itimerval { it_interval: none, it_value: none };
    // SAFETY: the kernel reads the structure, and isn't asked for the old value.
    let _ = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const never, null_mut()) };
}

/// The first version of `struct perf_event_attr`, which every kernel knows.
#[repr(C)]
#[derive(Default)]
struct ClockAttributes {
    type_: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    address: u64,
}

/// `struct f_owner_ex`.
#[repr(C)]
struct SignalOwner {
    type_: i32,
    thread: i32,
}

/// The time between two looks at clocks that may have rung for the first time: until then, those
/// don't go on.
const LOOK: Duration = Duration::from_millis(20);
/// The number of looks between two searches for new threads.
const LOOKS: u64 = 10;
/// The most clocks, each of which is a descriptor.
const MOST_CLOCKS: usize = 1024;
/// `PERF_TYPE_SOFTWARE`
const SOFTWARE: u32 = 1;
/// `PERF_COUNT_SW_CPU_CLOCK`
const CPU_CLOCK: u64 = 0;
/// `disabled`
const DISABLED: u64 = 1;
/// `exclude_hv`
const WITHOUT_HYPERVISOR: u64 = 1 << 6;
/// `PERF_FLAG_FD_CLOEXEC`
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// `PERF_EVENT_IOC_REFRESH`, which lets it ring a number of times, and `PERF_EVENT_IOC_PERIOD`
const REFRESH: libc::Ioctl = 0x2402;
const SET_PERIOD: libc::Ioctl = 0x4008_2404;
/// A number of signals that no profile reaches.
const FOREVER: i32 = i32::MAX / 2;
/// `F_SETSIG`, `F_SETOWN_EX` and `F_OWNER_TID`
const SET_SIGNAL: i32 = 10;
const SET_OWNER: i32 = 15;
const OWNER_IS_THREAD: i32 = 0;
