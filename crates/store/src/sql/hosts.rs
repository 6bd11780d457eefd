//! The hosts of a database, and the addresses of a host. A silent one, such as a machine without
//! power, delays nobody: attempts begin one after another and continue in parallel, as in RFC 8305
//! §5 for the addresses of a name.
//!
//! # Invariants
//!
//! - Each host has its own time limit, whatever the others do.
//! - The host that was right for the last connection is tried first, by all connections of a store.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::StoreError;

/// The hosts of a database, in the order in which they are wanted.
pub(crate) struct Hosts {
    hosts: Vec<KnownHost>,
    /// The place of the host that could be written to last.
    last: AtomicUsize,
}

struct KnownHost {
    name: String,
    /// Set if it didn't answer last time.
    is_silent: AtomicBool,
}

/// The name of a host, and whether it can only be read.
pub(crate) type HostFound = (String, Result<bool, StoreError>);

impl Hosts {
    pub(crate) fn new(names: Vec<String>) -> Hosts {
        let host = |name| KnownHost { name, is_silent: AtomicBool::new(false) };
        Hosts { hosts: names.into_iter().map(host).collect(), last: AtomicUsize::new(0) }
    }

    /// Connects to the first host that reports that it can be written to, otherwise to one that can
    /// be read. `connect` returns a connection, and whether its host can't be written to.
    ///
    /// # Errors
    ///
    /// The error of the first host, with the words of all, if none can be connected to.
    pub(crate) async fn first_writable<C>(
        &self,
        connect: impl AsyncFn(usize) -> Result<(C, bool), StoreError>,
        lost: impl Fn(&str) -> StoreError,
    ) -> Result<C, StoreError> {
        let mut attempts = Staggered::new(self.order().map(|host| self.attempt(host, &connect, &lost)));
        let (mut readable, mut failed, mut until): (Option<(usize, C)>, _, _) = (None, Vec::new(), None);
        let mut waiting: BTreeSet<usize> = (0..self.hosts.len()).collect();
        loop {
            let next = match until {
                Some(until) => timeout_at(until, attempts.next()).await.ok().flatten(),
                None => attempts.next().await,
            };
            if let Some((host, _)) = &next {
                waiting.remove(host);
            }
            match next {
                Some((host, Ok((connected, false)))) => {
                    self.last.store(host, Ordering::Relaxed);
                    return Ok(connected);
                }
                Some((host, Ok((connected, true)))) => {
                    until = until.or_else(|| Some(Instant::now() + self.rest(&waiting)));
                    if readable.as_ref().is_none_or(|(before, _)| host < *before) {
                        readable = Some((host, connected));
                    }
                }
                Some((host, Err(error))) => failed.push((host, error)),
                None => break,
            }
        }
        self.note_silence(waiting);
        readable.map(|(_, connected)| connected).ok_or_else(|| self.none(failed, &lost))
    }

    /// Returns the time to wait for the hosts that haven't answered, if another one can be read.
    fn rest(&self, waiting: &BTreeSet<usize>) -> Duration {
        let is_silent = |host: &usize| self.hosts.get(*host).is_none_or(|host| host.is_silent.load(Ordering::Relaxed));
        if waiting.iter().all(is_silent) { STAGGER } else { REST }
    }

    fn note_silence(&self, hosts: impl IntoIterator<Item = usize>) {
        for host in hosts.into_iter().filter_map(|host| self.hosts.get(host)) {
            host.is_silent.store(true, Ordering::Relaxed);
        }
    }

    /// Connects to each host, if there are several, and disconnects again.
    pub(crate) async fn each<C>(
        &self,
        connect: impl AsyncFn(usize) -> Result<(C, bool), StoreError>,
        lost: impl Fn(&str) -> StoreError,
    ) -> Vec<HostFound> {
        let several = if self.hosts.len() > 1 { self.hosts.len() } else { 0 };
        let attempts = (0..several).map(|host| self.attempt(host, &connect, &lost));
        let found = join_all(attempts).await.into_iter();
        found.map(|(host, outcome)| (self.name(host), outcome.map(|(_, is_read_only)| is_read_only))).collect()
    }

    /// Returns the places of the hosts, beginning with the host that was right last time.
    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (last, all) = (self.last.load(Ordering::Relaxed), self.hosts.len());
        std::iter::once(last).filter(move |last| *last < all).chain((0..all).filter(move |host| *host != last))
    }

    async fn attempt<C>(
        &self,
        host: usize,
        connect: &impl AsyncFn(usize) -> Result<(C, bool), StoreError>,
        lost: &impl Fn(&str) -> StoreError,
    ) -> (usize, Result<(C, bool), StoreError>) {
        let outcome = timeout(CONNECT, connect(host)).await;
        if let Some(known) = self.hosts.get(host) {
            known.is_silent.store(outcome.is_err(), Ordering::Relaxed);
        }
        (host, outcome.unwrap_or_else(|_| Err(lost(SILENT))))
    }

    /// Returns the error for hosts of which none can be connected to.
    fn none(&self, mut failed: Vec<(usize, StoreError)>, lost: &impl Fn(&str) -> StoreError) -> StoreError {
        failed.sort_by_key(|(host, _)| *host);
        let words = failed.iter().map(|(host, error)| format!("{}: {}", self.name(*host), error.message()));
        let words = (failed.len() > 1).then(|| words.collect::<Vec<_>>().join("; "));
        let Some((_, mut error)) = failed.into_iter().next() else { return lost("no host is named") };
        if let (Some(words), Some(engine)) = (words, error.words_mut()) {
            engine.message = words;
        }
        error
    }

    fn name(&self, host: usize) -> String {
        self.hosts.get(host).map(|host| host.name.clone()).unwrap_or_default()
    }
}

/// Attempts that begin one after the other: each when the previous one has ended, or has taken
/// [`STAGGER`].
pub(crate) struct Staggered<I, F> {
    waiting: I,
    begun: FuturesUnordered<F>,
}

impl<I: Iterator<Item = F>, F: Future> Staggered<I, F> {
    pub(crate) fn new(attempts: I) -> Staggered<I, F> {
        Staggered { waiting: attempts, begun: FuturesUnordered::new() }
    }

    /// Returns the outcome of the next attempt that ends; `None` if all have.
    pub(crate) async fn next(&mut self) -> Option<F::Output> {
        for attempt in self.waiting.by_ref() {
            self.begun.push(attempt);
            if let Ok(Some(outcome)) = timeout(STAGGER, self.begun.next()).await {
                return Some(outcome);
            }
        }
        self.begun.next().await
    }
}

/// The time after which another attempt begins although the last one hasn't ended (RFC 8305 §8).
const STAGGER: Duration = Duration::from_millis(250);

/// The time that a host may take to accept a connection and a login.
const CONNECT: Duration = Duration::from_secs(5);

/// The time that the others have once a host was found that can be read, unless none of them
/// answered last time.
const REST: Duration = Duration::from_secs(2);

const SILENT: &str = "it doesn't answer";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::EngineWords;
    use std::cell::RefCell;
    use std::future::pending;

    fn loss(why: &str) -> StoreError {
        StoreError::Lost(EngineWords { database: "of a test".into(), message: why.into() })
    }

    fn hosts() -> Hosts {
        Hosts::new(["a", "b", "c", "d"].map(str::to_owned).to_vec())
    }

    /// Connects to hosts that have these fates. Returns the one that was connected to, and those
    /// that were tried.
    fn try_hosts(hosts: &Hosts, fates: &[HostFate]) -> (Result<usize, StoreError>, Vec<usize>) {
        let tried = RefCell::new(Vec::new());
        let connect = async |host: usize| {
            tried.borrow_mut().push(host);
            match fates[host] {
                HostFate::Writable => Ok((host, false)),
                HostFate::Readable => Ok((host, true)),
                HostFate::Silent => pending().await,
                HostFate::Refuses => Err(loss("no")),
            }
        };
        let found = super::super::remote::runtime().expect("a runtime").block_on(hosts.first_writable(connect, loss));
        (found, tried.into_inner())
    }

    #[derive(Clone, Copy)]
    enum HostFate {
        Writable,
        Readable,
        Silent,
        Refuses,
    }
    use HostFate::{Readable, Refuses, Silent, Writable};

    #[test]
    fn the_first_that_can_be_written_to_is_taken_and_remembered() {
        let hosts = hosts();
        assert_eq!(try_hosts(&hosts, &[Writable; 4]), (Ok(0), vec![0]), "the others are let alone");
        let silent = [Silent, Silent, Silent, Writable];
        assert_eq!(try_hosts(&hosts, &silent), (Ok(3), vec![0, 1, 2, 3]));
        assert_eq!(try_hosts(&hosts, &silent), (Ok(3), vec![3]), "nobody waits for the silent ones again");
        assert_eq!(try_hosts(&hosts, &[Refuses, Readable, Writable, Readable]), (Ok(2), vec![3, 0, 1, 2]));
    }

    #[test]
    fn one_that_can_be_read_is_better_than_none() {
        assert_eq!(try_hosts(&hosts(), &[Silent, Refuses, Readable, Refuses]).0, Ok(2));
        assert_eq!(try_hosts(&hosts(), &[Refuses, Readable, Readable, Refuses]).0, Ok(1));
        // A host that stays silent is waited for less, and found again.
        let hosts = hosts();
        assert_eq!(try_hosts(&hosts, &[Silent, Readable, Silent, Readable]).0, Ok(1));
        assert_eq!([REST, STAGGER], [[1, 2], [0, 2]].map(|waiting| hosts.rest(&BTreeSet::from(waiting))));
        assert_eq!(try_hosts(&hosts, &[Writable, Readable, Silent, Readable]).0, Ok(0));
    }

    #[test]
    fn all_that_fail_are_named() {
        let (found, _) = try_hosts(&hosts(), &[Refuses, Refuses, Silent, Refuses]);
        let StoreError::Lost(engine) = found.expect_err("no host") else { panic!("another error") };
        assert_eq!(engine.message, "a: no; b: no; c: it doesn't answer; d: no");
        let one = Hosts::new(vec!["a".into()]);
        assert_eq!(try_hosts(&one, &[Refuses]).0, Err(loss("no")));
        assert_eq!(try_hosts(&Hosts::new(Vec::new()), &[]).0, Err(loss("no host is named")));
    }
}
