//! The archive's thread: it writes in groups and answers questions, so that the serving thread
//! never waits for a disk.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rookery_observe::vital;
use rustix::event::{EventfdFlags, eventfd};

use crate::history::{HistoryAnswer, HistoryArchive, HistoryTicket, HistoryWork};

/// The serving thread's handle on it. Dropping it waits until everything is written.
#[derive(Debug)]
pub(super) struct Historian {
    work: Option<Sender<Vec<HistoryWork>>>,
    answers: Receiver<(HistoryTicket, HistoryAnswer)>,
    bell: Arc<OwnedFd>,
    /// Readings that are not written yet.
    waiting: Arc<AtomicUsize>,
    /// Readings that were dropped because too many waited.
    lost: u64,
    thread: Option<JoinHandle<()>>,
}

impl Historian {
    /// Starts the thread.
    pub(super) fn start(archive: HistoryArchive) -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (work, to_do) = mpsc::channel();
        let (to_answer, answers) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let desk = HistoryDesk { archive, answers: to_answer, bell: Arc::clone(&bell), waiting: Arc::clone(&waiting) };
        let thread = std::thread::Builder::new().name("history".into()).spawn(move || vital(|| desk.run(&to_do)))?;
        Ok(Self { work: Some(work), answers, bell, waiting, lost: 0, thread: Some(thread) })
    }

    /// Returns the descriptor that is readable when there are answers.
    pub(super) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Hands over work. Readings are dropped while too many wait for a slow disk.
    pub(super) fn give(&mut self, mut work: Vec<HistoryWork>) {
        if work.is_empty() {
            return;
        }
        if self.waiting.load(Ordering::Relaxed) > MOST_WAITING {
            let before = work.len();
            work.retain(|work| !matches!(work, HistoryWork::Write(_)));
            self.lost += (before - work.len()) as u64;
        }
        let rows = work.iter().filter(|work| matches!(work, HistoryWork::Write(_))).count();
        self.waiting.fetch_add(rows, Ordering::Relaxed);
        if let Some(sender) = &self.work {
            // If the thread has died, questions go unanswered; its panic was logged.
            let _ = sender.send(work);
        }
    }

    /// Returns the answers so far.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (HistoryTicket, HistoryAnswer)> {
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        self.answers.try_iter()
    }

    /// Returns the number of readings that were dropped because the disk was too slow.
    pub(super) fn dropped_readings(&self) -> u64 {
        self.lost
    }
}

impl Drop for Historian {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's own data.
struct HistoryDesk {
    archive: HistoryArchive,
    answers: Sender<(HistoryTicket, HistoryAnswer)>,
    bell: Arc<OwnedFd>,
    waiting: Arc<AtomicUsize>,
}

impl HistoryDesk {
    fn run(mut self, to_do: &Receiver<Vec<HistoryWork>>) {
        let mut trimmed: Option<Instant> = None;
        let mut complained: Option<Instant> = None;
        let is_time = |last: Option<Instant>| last.is_none_or(|last| last.elapsed() >= TRIM);
        let mut is_too_much = false;
        loop {
            let (work, is_over) = gather(to_do, if is_too_much { Duration::ZERO } else { TRIM });
            let rows = work.iter().filter(|work| matches!(work, HistoryWork::Write(_))).count();
            let (answers, mut done) = self.archive.work(work);
            self.waiting.fetch_sub(rows, Ordering::Relaxed);
            if !answers.is_empty() {
                for answer in answers {
                    let _ = self.answers.send(answer);
                }
                let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
            }
            if is_too_much || is_time(trimmed) {
                trimmed = Some(Instant::now());
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                is_too_much = false;
                done = done.and_then(|()| {
                    is_too_much = self.archive.trim(now.as_micros() as i64)?;
                    Ok(())
                });
            }
            if let Err(error) = done
                && is_time(complained)
            {
                complained = Some(Instant::now());
                eprintln!("rookery: recorded readings can't be written: {error}");
            }
            if is_over {
                break;
            }
        }
    }
}

/// Waits for work, then collects more for a while, so that many readings share one transaction. A
/// question ends the wait. Returns the work, and whether it is the last.
fn gather(to_do: &Receiver<Vec<HistoryWork>>, wait: Duration) -> (Vec<HistoryWork>, bool) {
    let mut all = match to_do.recv_timeout(wait) {
        Ok(work) => work,
        Err(RecvTimeoutError::Timeout) => return (Vec::new(), false),
        Err(RecvTimeoutError::Disconnected) => return (Vec::new(), true),
    };
    let end = Instant::now() + GATHER;
    let asks = |work: &[HistoryWork]| work.iter().any(|work| matches!(work, HistoryWork::Ask(..)));
    while all.len() < MOST_AT_ONCE {
        let wait = if asks(&all) { Duration::ZERO } else { end.saturating_duration_since(Instant::now()) };
        match to_do.recv_timeout(wait) {
            Ok(more) => all.extend(more),
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return (all, true),
        }
    }
    (all, false)
}

/// The time for which readings are collected for one transaction.
const GATHER: Duration = Duration::from_millis(500);
/// The approximate number of pieces of work in one transaction, at most.
const MOST_AT_ONCE: usize = 100_000;
/// The time between two removals of old readings, and between two reports of failures.
const TRIM: Duration = Duration::from_secs(60);
/// The most readings that may wait for the disk.
const MOST_WAITING: usize = 1_000_000;
