//! Records stacks of this process, as numbers.
//!
//! The library behind it walks a stack by the tables that every function has for its own unwinding.
//! In this way it also finds functions of C and of the system's library, which have no frame
//! pointers; following frame pointers would be cheaper, but would also miss the innermost function.
//! Finding the tables from a signal is safe with recent C libraries (glibc 2.35).

use std::collections::HashMap;
use std::fmt;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use pprof::{ProfilerGuard, ProfilerGuardBuilder};
use serde::{Deserialize, Serialize};

use crate::clocks::ThreadClocks;
use crate::mapped::{self, Mapping};

/// Samples this process until it is finished or dropped.
pub struct Sampler {
    /// The library's guard; `None` after the end.
    guard: Option<ProfilerGuard<'static>>,
    /// The clocks of the threads; `None` if the system doesn't allow them, and after the end.
    clocks: Option<ThreadClocks>,
    begun: Instant,
    rate: u32,
}

/// The recorded stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// The requested samples for each second of CPU time.
    pub rate: u32,
    /// The duration in milliseconds.
    pub milliseconds: u64,
    /// The CPU time of the process meanwhile, in milliseconds; 0 if unknown.
    #[serde(default)]
    pub cpu_milliseconds: u64,
    /// True if samples were taken only when the system's clock ticked, since the system doesn't
    /// allow the process clocks for its threads.
    #[serde(default)]
    pub is_by_ticks: bool,
    /// The number of all samples.
    pub samples: u64,
    /// The number of samples whose stacks are left out, since they are rare.
    pub left_out: u64,
    /// The files of the sampled code.
    pub modules: Vec<SampledModule>,
    /// The different stacks, the most frequent first.
    pub stacks: Vec<Stack>,
}

/// A file with sampled code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledModule {
    /// The path of the file when it was mapped, or the system's name for memory without a file.
    pub path: String,
    /// The device and the inode of the file.
    pub file: String,
}

/// A stack, and the number of its samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The name of the thread.
    pub thread: String,
    /// The number of its samples.
    pub samples: u64,
    /// Its frames, innermost first: the number of a module and the hexadecimal offset in its file,
    /// such as `0+1f3a0`, or only an address if that is outside of files.
    pub frames: Vec<String>,
}

/// The reason why there is no profile.
#[derive(Debug)]
pub enum Unsampled {
    /// Another profile is being taken.
    Busy,
    /// The system or the library has failed.
    Failed(String),
}

impl Sampler {
    /// Starts to take this number of stacks for each second of CPU time.
    ///
    /// # Errors
    /// Another profile is being taken, the machine has too little memory left, or the library can't
    /// make its temporary file.
    pub fn start(rate: u32) -> Result<Sampler, Unsampled> {
        let rate = rate.clamp(1, MOST_RATE);
        // This is within the range that the library accepts.
        let frequency = i32::try_from(rate).unwrap_or(1);
        if let Some(left) = memory_left().filter(|left| *left < NEEDED_BYTES) {
            return Err(Unsampled::Failed(format!(
                "it takes up to {} MiB of memory, and the machine has {} left",
                NEEDED_BYTES / MIB,
                left / MIB
            )));
        }
        keep(move || {
            let guard = ProfilerGuardBuilder::default().frequency(frequency).build()?;
            // The library has resolved a name to be ready for signals, and no longer needs the
            // memory of that.
            backtrace::clear_symbol_cache();
            let clocks = ThreadClocks::start(rate);
            Ok(Sampler { guard: Some(guard), clocks, begun: Instant::now(), rate })
        })
    }

    /// Stops sampling, and returns the recorded stacks.
    ///
    /// # Errors
    /// The library can't read its temporary file, or the system doesn't list the mappings.
    pub fn finish(self) -> Result<Sampled, Unsampled> {
        keep(move || self.collect())
    }

    fn collect(mut self) -> Result<Sampled, Unsampled> {
        let guard = self.guard.take().ok_or(Unsampled::Busy)?;
        let is_by_ticks = self.clocks.take().is_none();
        let milliseconds = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let report = guard.report().build_unresolved()?;
        let mappings = mapped::of_process().map_err(|error| Unsampled::Failed(format!("/proc/self/maps: {error}")))?;
        let mut places = SampledPlaces { mappings, modules: Vec::new(), numbers: HashMap::new() };
        let mut stacks: Vec<Stack> = Vec::with_capacity(report.data.len());
        for (found, &count) in &report.data {
            let name = found.thread_name.get(..found.thread_name_length).unwrap_or_default();
            stacks.push(Stack {
                thread: String::from_utf8_lossy(name).into_owned(),
                samples: u64::try_from(count).unwrap_or_default(),
                frames: found.frames.iter().map(|frame| places.of(frame.ip() as u64)).collect(),
            });
        }
        let samples = stacks.iter().map(|stack| stack.samples).sum();
        stacks.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.frames.cmp(&b.frames)));
        let left_out = stacks.iter().skip(MOST_STACKS).map(|stack| stack.samples).sum();
        stacks.truncate(MOST_STACKS);
        Ok(Sampled {
            rate: self.rate,
            milliseconds,
            cpu_milliseconds: 0,
            is_by_ticks,
            samples,
            left_out,
            modules: places.modules,
            stacks,
        })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            let clocks = self.clocks.take();
            // Nothing can be done if the thread is gone.
            let _ = post(Box::new(move || {
                drop(clocks);
                drop(guard);
            }));
        }
    }
}

/// Runs work on the thread that makes all calls to the library, and waits for it. At the end of
/// each profile, the library drops its table and makes another one of the same size: on one thread,
/// the allocator uses the same memory again.
fn keep<T: Send + 'static>(work: impl FnOnce() -> Result<T, Unsampled> + Send + 'static) -> Result<T, Unsampled> {
    let (done, outcome) = sync_channel(1);
    // The receiver may be gone.
    let posted = post(Box::new(move || drop(done.send(work()))));
    let gone = || Unsampled::Failed("the profiling thread has ended".to_owned());
    posted.then_some(()).ok_or_else(gone)?;
    outcome.recv().map_err(|_| gone())?
}

type SamplerJob = Box<dyn FnOnce() + Send>;

/// Posts a job to that thread, which the first profile starts. Returns false if there is no thread.
fn post(job: SamplerJob) -> bool {
    static KEEPER: OnceLock<Sender<SamplerJob>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (sender, jobs) = channel::<SamplerJob>();
        // The library walks its table by a chain of thousands of iterators, each within the next,
        // which needs a large stack.
        let thread = thread::Builder::new().name("profile".into()).stack_size(STACK_BYTES);
        // If the thread doesn't start, its receiver is dropped, which the sender notices.
        drop(thread.spawn(move || work_off(&jobs)));
        sender
    });
    keeper.send(job).is_ok()
}

fn work_off(jobs: &Receiver<SamplerJob>) {
    let mut next = jobs.recv().ok();
    while let Some(job) = next {
        job();
        next = match jobs.recv_timeout(DECAY) {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                give_memory_back();
                jobs.recv().ok()
            }
        };
    }
}

/// Makes the allocator return memory that was freed a while ago to the system. It does so only
/// while it is in use, and each thread has a part of its own: so this must run on the thread that
/// freed the memory.
fn give_memory_back() {
    for _ in 0..TICKS {
        drop(black_box(Vec::<u8>::with_capacity(LARGE_BYTES)));
    }
}

/// Returns the available memory of the machine in bytes (proc_meminfo(5)).
fn memory_left() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Maps addresses to offsets in files.
struct SampledPlaces {
    mappings: Vec<Mapping>,
    modules: Vec<SampledModule>,
    /// The numbers of the modules of mappings, as far as they were needed so far.
    numbers: HashMap<usize, usize>,
}

impl SampledPlaces {
    fn of(&mut self, address: u64) -> String {
        let is_within = |mapping: &Mapping| (mapping.start..mapping.end).contains(&address);
        let Some(at) = self.mappings.iter().position(is_within) else { return format!("{address:x}") };
        let Some(mapping) = self.mappings.get(at) else { return String::new() };
        let modules = &mut self.modules;
        let number = *self.numbers.entry(at).or_insert_with(|| {
            modules.push(SampledModule { path: mapping.path.clone(), file: mapping.file.clone() });
            modules.len() - 1
        });
        format!("{number}+{:x}", address - mapping.start + mapping.offset)
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("rate", &self.rate).finish_non_exhaustive()
    }
}

impl From<pprof::Error> for Unsampled {
    fn from(error: pprof::Error) -> Self {
        match error {
            pprof::Error::Running => Self::Busy,
            error => Self::Failed(error.to_string()),
        }
    }
}

impl fmt::Display for Unsampled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("another profile is being recorded; try again when it is done"),
            Self::Failed(words) => write!(f, "stacks can't be sampled: {words}"),
        }
    }
}

impl std::error::Error for Unsampled {}

/// The most samples for each second of CPU time. The timer of the process seldom achieves more than
/// 250.
pub const MOST_RATE: u32 = 1000;
/// The default for samples per second. It isn't a round number, so that samples don't coincide with
/// work that the program does at round intervals.
pub const USUAL_RATE: u32 = 99;
const MIB: u64 = 1024 * 1024;
/// The most memory of the first profile: two tables of the library, of which one stays.
const NEEDED_BYTES: u64 = 256 * MIB;
/// The time after which the allocator returns freed memory: ten seconds, and some reserve.
const DECAY: Duration = Duration::from_secs(12);
/// The number of allocations by which the allocator notices that time, and their size, which is too
/// large for its caches.
const TICKS: usize = 4096;
const LARGE_BYTES: usize = 128 * 1024;
/// The stack size of the thread that makes all calls to the library.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// The most different stacks of a profile.
pub const MOST_STACKS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads of a pool may each take a fraction of a sample's time.
    #[test]
    fn threads_that_take_less_time_than_a_sample_stands_for_are_sampled() {
        let sampler = Sampler::start(USUAL_RATE).expect("a sampler");
        let (go, begin) = (std::sync::Barrier::new(65), Duration::from_millis(5));
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    go.wait();
                    // All of them are known by now.
                    thread::sleep(Duration::from_millis(300));
                    let end = Instant::now() + begin;
                    while Instant::now() < end {
                        black_box(0);
                    }
                });
            }
            go.wait();
        });
        let sampled = sampler.finish().expect("samples");
        assert!(sampled.samples > 0, "{sampled:?}");
    }
}
