//! Records stacks of this process, as numbers.
//!
//! The library behind it walks a stack by the tables that every function has for its own
//! unwinding. That also shows functions of C and those of the system's library; frame pointers,
//! which are cheaper to follow, are kept by neither, and following them misses the innermost
//! function. Finding those tables from a signal is safe with recent C libraries (glibc 2.35).

use std::collections::HashMap;
use std::fmt;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use pprof::{ProfilerGuard, ProfilerGuardBuilder};
use serde::{Deserialize, Serialize};

use crate::mapped::{self, Mapping};

/// Samples this process until it is finished or dropped.
pub struct Sampler {
    /// There until it ends.
    guard: Option<ProfilerGuard<'static>>,
    begun: Instant,
    rate: u32,
}

/// The stacks that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Samples per second of CPU that were wanted.
    pub rate: u32,
    /// The time that it took, milliseconds.
    pub milliseconds: u64,
    /// Samples in all.
    pub samples: u64,
    /// Samples of rare stacks that aren't among the stacks.
    pub left_out: u64,
    /// The files that code was in.
    pub modules: Vec<SampledModule>,
    /// The different stacks, the most frequent first.
    pub stacks: Vec<Stack>,
}

/// A file that code was in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledModule {
    /// Its path.
    pub path: String,
    /// Device and inode.
    pub file: String,
}

/// A stack, and how often it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The name of the thread.
    pub thread: String,
    /// The number of times that it was found.
    pub samples: u64,
    /// Its places, innermost first: the number of a module and the hexadecimal place in that file,
    /// such as `0+1f3a0`; an address alone where no file is.
    pub frames: Vec<String>,
}

/// The reason why there is no profile.
#[derive(Debug)]
pub enum Unsampled {
    /// Another one is being taken.
    Busy,
    /// The system or the library fails.
    Failed(String),
}

impl Sampler {
    /// Begins to take so many stacks for each second of CPU.
    ///
    /// # Errors
    /// Another profile is being taken, the machine has too little memory left, or the library can't
    /// make its temporary file.
    pub fn start(rate: u32) -> Result<Sampler, Unsampled> {
        let rate = rate.clamp(1, MOST_RATE);
        // Within the range of what the library takes.
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
            // The library has looked for a name to be ready for signals; what that took goes again.
            backtrace::clear_symbol_cache();
            Ok(Sampler { guard: Some(guard), begun: Instant::now(), rate })
        })
    }

    /// Ends, and returns what was found.
    ///
    /// # Errors
    /// The library can't read its temporary file, or the system doesn't say what is mapped.
    pub fn finish(self) -> Result<Sampled, Unsampled> {
        keep(move || self.collect())
    }

    fn collect(mut self) -> Result<Sampled, Unsampled> {
        let guard = self.guard.take().ok_or(Unsampled::Busy)?;
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
        Ok(Sampled { rate: self.rate, milliseconds, samples, left_out, modules: places.modules, stacks })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            // Nothing can be done about a thread that is gone.
            let _ = post(Box::new(move || drop(guard)));
        }
    }
}

/// Runs work on the thread that has all dealings with the library, and waits for it. At each
/// end the library throws its table away and makes another one of the same size: on one thread the
/// allocator uses the same memory again.
fn keep<T: Send + 'static>(work: impl FnOnce() -> Result<T, Unsampled> + Send + 'static) -> Result<T, Unsampled> {
    let (done, outcome) = sync_channel(1);
    // Nobody waits any more where the receiver is gone.
    let posted = post(Box::new(move || drop(done.send(work()))));
    let gone = || Unsampled::Failed("the profiling thread has ended".to_owned());
    posted.then_some(()).ok_or_else(gone)?;
    outcome.recv().map_err(|_| gone())?
}

type SamplerJob = Box<dyn FnOnce() + Send>;

/// Gives something to that thread, which the first profile makes; `false` if there is none.
fn post(job: SamplerJob) -> bool {
    static KEEPER: OnceLock<Sender<SamplerJob>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (sender, jobs) = channel::<SamplerJob>();
        // The library walks its table by a chain of thousands of iterators, each inside the next.
        let thread = thread::Builder::new().name("profile".into()).stack_size(STACK_BYTES);
        // If there is no thread, nobody receives, which the sender is told.
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

/// Lets the allocator give back to the system what was freed a while ago: it does so while the part
/// of its memory is used that this thread has, and nobody else may use that.
fn give_memory_back() {
    for _ in 0..TICKS {
        drop(black_box(Vec::<u8>::with_capacity(LARGE_BYTES)));
    }
}

/// Returns the bytes of memory that the machine could still give (proc_meminfo(5)).
fn memory_left() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Turns addresses into places in files.
struct SampledPlaces {
    mappings: Vec<Mapping>,
    modules: Vec<SampledModule>,
    /// The modules that the mappings are of, as far as they were needed.
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

/// Samples for a second of CPU. The system's timer seldom gives more than 250.
pub const MOST_RATE: u32 = 1000;
/// Not a round number, so that it doesn't beat with what the program does at round ones.
pub const USUAL_RATE: u32 = 99;
const MIB: u64 = 1024 * 1024;
/// The memory that the first profile may take: two tables of the library, of which one stays.
const NEEDED_BYTES: u64 = 256 * MIB;
/// The time after which the allocator gives up what was freed: ten seconds, and a little.
const DECAY: Duration = Duration::from_secs(12);
/// The allocations by which it notices, each so large that no cache has it.
const TICKS: usize = 4096;
const LARGE_BYTES: usize = 128 * 1024;
/// The stack of the thread that collects them.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// Different stacks of a profile.
pub const MOST_STACKS: usize = 10_000;
