//! Threads that write to clients beside the serving thread, while that has more to write than it
//! should at once.
//!
//! A write takes several microseconds, most of them the kernel's, so that writing to a thousand
//! clients would keep the serving thread from reading datagrams for ten milliseconds. That thread
//! renders the output, which is cheap, writes some of it itself, and hands the rest over. What the
//! others have not begun to write, it takes back after two milliseconds, or when it has nothing
//! else to do: a thread that gets no processor delays nobody for long.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rookery_observe::vital;

use super::pipe::OutputPipe;
use super::wake::Wake;
use crate::service::ClientKey;
use crate::stages::{ReadingStage, ReadingStages};

/// The serving thread's handle on the writing threads, which end with it.
#[derive(Debug)]
pub(super) struct WriterThreads {
    desk: Arc<WriterDesk>,
    threads: Vec<JoinHandle<()>>,
}

/// A connection whose output is to be written, and the time at which it was handed over, in
/// milliseconds.
type WritingJob = (Arc<OutputPipe>, u64);

/// The part that all threads share.
#[derive(Debug)]
struct WriterDesk {
    jobs: Mutex<WriterJobs>,
    ready: Condvar,
    /// Connections at which the serving thread has to look.
    news: Mutex<Vec<ClientKey>>,
    bell: Wake,
    is_measured: AtomicBool,
    measured: Mutex<ReadingStages>,
}

#[derive(Debug, Default)]
struct WriterJobs {
    queue: VecDeque<WritingJob>,
    /// Threads that wait for work.
    idle: usize,
    is_over: bool,
}

impl WriterThreads {
    /// Starts this many threads.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn start(number: usize) -> io::Result<Self> {
        let desk = Arc::new(WriterDesk {
            jobs: Mutex::default(),
            ready: Condvar::new(),
            news: Mutex::default(),
            bell: Wake::new()?,
            is_measured: AtomicBool::new(false),
            measured: Mutex::default(),
        });
        let mut writers = Self { desk, threads: Vec::new() };
        for _ in 0..number {
            let desk = Arc::clone(&writers.desk);
            let thread = std::thread::Builder::new().name("dpm-write".into());
            writers.threads.push(thread.spawn(move || vital(|| desk.run()))?);
        }
        Ok(writers)
    }

    /// Returns as many threads as this machine has processors for beside the serving one.
    pub(super) fn usual() -> usize {
        std::thread::available_parallelism().map_or(0, |processors| (processors.get() - 1).min(MOST))
    }

    /// Returns the descriptor that is readable when there is news.
    pub(super) fn bell(&self) -> &Wake {
        &self.desk.bell
    }

    /// Returns how many more connections should be handed over now.
    pub(super) fn room(&self) -> usize {
        match self.threads.len() {
            0 => 0,
            threads => (threads * AHEAD).saturating_sub(lock(&self.desk.jobs).queue.len()),
        }
    }

    /// Hands connections over, which have agreed to it by [`OutputPipe::hand_over`].
    pub(super) fn hand_over(&self, jobs: &mut Vec<WritingJob>) {
        if jobs.is_empty() {
            return;
        }
        let wanted = jobs.len().div_ceil(CHUNK);
        let mut all = lock(&self.desk.jobs);
        all.queue.extend(jobs.drain(..));
        let woken = all.idle.min(wanted);
        drop(all);
        (0..woken).for_each(|_| self.desk.ready.notify_one());
    }

    /// Takes connections back, the oldest first, that no thread has begun to write to. They were
    /// handed over at this time or before.
    pub(super) fn take_back(&self, most: usize, handed_by: u64) -> Vec<WritingJob> {
        if self.threads.is_empty() {
            return Vec::new();
        }
        let queue = &mut lock(&self.desk.jobs).queue;
        let old = queue.iter().take(most).take_while(|(_, handed)| *handed <= handed_by).count();
        queue.drain(..old).collect()
    }

    /// Returns the connections to look at: output that somebody waits for is written, or a socket
    /// takes no more, or has failed.
    pub(super) fn take_news(&self) -> Vec<ClientKey> {
        self.desk.bell.rest();
        std::mem::take(&mut lock(&self.desk.news))
    }

    /// Adds the times of writes to those of the serving thread, while it measures.
    pub(super) fn measure(&self, stages: &mut ReadingStages) {
        let is_measured = stages.is_measured();
        if self.desk.is_measured.swap(is_measured, Ordering::Relaxed) {
            let mut measured = lock(&self.desk.measured);
            if is_measured {
                *stages += &measured;
            }
            measured.clear();
        }
    }
}

impl Drop for WriterThreads {
    fn drop(&mut self) {
        lock(&self.desk.jobs).is_over = true;
        self.desk.ready.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was logged, and ended the process.
            let _ = thread.join();
        }
    }
}

impl WriterDesk {
    /// Writes until the service ends.
    fn run(&self) {
        let (mut jobs, mut news, mut stages) = (Vec::new(), Vec::new(), ReadingStages::default());
        while self.take(&mut jobs) {
            let is_measured = self.is_measured.load(Ordering::Relaxed);
            stages.measure(is_measured);
            for (pipe, now) in jobs.drain(..) {
                let begun = stages.begin();
                if pipe.write_on(now) {
                    news.push(pipe.client);
                }
                let _ = stages.end(ReadingStage::Send, begun);
            }
            if is_measured {
                *lock(&self.measured) += &stages;
                stages.clear();
            }
            if !news.is_empty() {
                lock(&self.news).append(&mut news);
                self.bell.wake();
            }
        }
    }

    /// Waits for jobs and takes some. Returns false if the service has ended.
    fn take(&self, jobs: &mut Vec<WritingJob>) -> bool {
        let mut all = lock(&self.jobs);
        while all.queue.is_empty() && !all.is_over {
            all.idle += 1;
            all = self.ready.wait(all).unwrap_or_else(PoisonError::into_inner);
            all.idle -= 1;
        }
        let taken = all.queue.len().min(CHUNK);
        jobs.extend(all.queue.drain(..taken));
        !all.is_over
    }
}

/// Locks what is whole even if a thread has panicked.
fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most threads.
const MOST: usize = 4;
/// The number of connections for each thread that are handed over in advance: the work of half a
/// millisecond.
const AHEAD: usize = 64;
/// The most connections that a thread takes at once: nobody else can write to them if it gets no
/// processor then.
const CHUNK: usize = 2;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::super::reception::ConnectionPeer;
    use super::*;

    #[test]
    fn what_is_handed_over_is_written_and_failures_are_news() {
        let writers = WriterThreads::start(2).expect("threads");
        let (pipes, mut peers): (Vec<_>, Vec<_>) = (0..CLIENTS).map(connect_pair).unzip();
        let hand_over = || {
            let handed = pipes.iter().filter(|pipe| pipe.hand_over(b"hello"));
            writers.hand_over(&mut handed.map(|pipe| (Arc::clone(pipe), 7)).collect());
        };
        hand_over();
        for peer in &mut peers {
            let mut taken = [0; 5];
            peer.read_exact(&mut taken).expect("it is written");
            assert_eq!(&taken, b"hello");
        }
        drop(peers);
        hand_over();
        let mut failed = BTreeSet::new();
        while failed.len() < CLIENTS {
            failed.extend(writers.take_news());
            std::thread::yield_now();
            // A thread may still be at an earlier output of some of them.
            hand_over();
        }
        assert_eq!(failed, (0..CLIENTS).collect());
    }

    #[test]
    fn without_threads_nothing_is_handed_over() {
        let writers = WriterThreads::start(0).expect("no threads");
        assert_eq!(writers.room(), 0);
        assert!(writers.take_back(1, u64::MAX).is_empty());
    }

    fn connect_pair(client: ClientKey) -> (Arc<OutputPipe>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("it can be set");
        (Arc::new(OutputPipe::new(ConnectionPeer::Thread(ours), client)), theirs)
    }

    const CLIENTS: usize = 100;
}
