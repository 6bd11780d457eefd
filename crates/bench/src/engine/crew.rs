//! The threads, and the phases that they go through together.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::counters::{LoadCounters, Totals};
use super::source::Sources;
use super::target::LoadTarget;
use super::worker::{LoadWorker, WorkerLoad, WorkerPlace};
use crate::BenchOutcome;

/// The server, the accounts and the threads of a crew.
#[derive(Debug, Clone)]
pub struct CrewSettings {
    /// The addresses that clients connect to, in turn.
    pub servers: Vec<SocketAddr>,
    /// The terms on which they log in.
    pub target: Arc<LoadTarget>,
    /// True for direct TLS (XEP-0368).
    pub direct_tls: bool,
    /// The number of threads.
    pub threads: usize,
    /// The longest time that one login may take.
    pub login_patience: Duration,
    /// The seed of the source addresses, which differ for each run.
    pub seed: u32,
}

/// The clients of one server, on several threads.
#[derive(Debug)]
pub struct LoadCrew {
    workers: Vec<LoadWorker>,
    counters: Vec<Arc<LoadCounters>>,
    epoch: Instant,
}

impl LoadCrew {
    /// Makes a crew without clients.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(settings: CrewSettings) -> io::Result<LoadCrew> {
        let (threads, epoch) = (settings.threads.max(1), Instant::now());
        let place = Arc::new(WorkerPlace {
            sources: Sources::new(&settings.servers, settings.seed),
            target: settings.target,
            direct_tls: settings.direct_tls,
            epoch,
            patience: settings.login_patience,
        });
        let workers = (0..threads).map(|index| LoadWorker::new(place.clone(), index, threads));
        let workers: Vec<LoadWorker> = workers.collect::<io::Result<_>>()?;
        let counters = workers.iter().map(|worker| worker.counters().clone()).collect();
        Ok(LoadCrew { workers, counters, epoch })
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Returns the counters of each thread.
    pub fn counters(&self) -> &[Arc<LoadCounters>] {
        &self.counters
    }

    /// Returns all counts of all threads since the beginning.
    pub fn totals(&self) -> Totals {
        Totals::of(self.counters.iter().map(Arc::as_ref))
    }

    /// Returns the nanoseconds since the crew was made.
    pub fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Returns whether a client is logged in.
    pub fn is_bound(&self, number: usize) -> bool {
        self.workers.get(number % self.threads()).is_some_and(|worker| worker.is_bound(number))
    }

    /// Returns the reasons why connections have ended, and the number for each, over all threads.
    pub fn reasons(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (reason, count) in self.workers.iter().flat_map(LoadWorker::reasons) {
            *all.entry(reason.clone()).or_default() += count;
        }
        all
    }

    /// Runs a phase: each thread drives one of the loads, until all are finished or `watch`, which
    /// is called every few milliseconds with the time since the crew was made, returns true.
    ///
    /// # Errors
    /// The system provides no thread, or a thread panicked.
    pub fn run<L: WorkerLoad>(&mut self, loads: &mut [L], watch: &mut dyn FnMut(u64) -> bool) -> BenchOutcome<()> {
        let (stop, epoch) = (AtomicBool::new(false), self.epoch);
        thread::scope(|scope| {
            let start = |(worker, load): (_, _)| start(scope, worker, load, &stop);
            let running: Vec<_> = self.workers.iter_mut().zip(loads).map(start).collect();
            while !running.iter().all(thread::ScopedJoinHandle::is_finished) {
                if watch(epoch.elapsed().as_nanos() as u64) {
                    stop.store(true, Relaxed);
                    break;
                }
                thread::sleep(WATCH);
            }
            for thread in running {
                thread.join().map_err(|_| "a thread of the load generator panicked")??;
            }
            Ok(())
        })
    }
}

fn start<'scope, L: WorkerLoad>(
    scope: &'scope thread::Scope<'scope, '_>,
    worker: &'scope mut LoadWorker,
    load: &'scope mut L,
    stop: &'scope AtomicBool,
) -> thread::ScopedJoinHandle<'scope, io::Result<()>> {
    scope.spawn(move || worker.run(load, stop))
}

const WATCH: Duration = Duration::from_millis(5);
