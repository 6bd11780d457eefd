//! Waiting for the store without a thread or a task per session.
//!
//! A handler that has to wait gives the world a future and a continuation for its outcome. The
//! future knows nothing of the world (it only uses storage), the continuation runs on the shard
//! with the whole world: no locks, no borrowed state across a wait.
//!
//! Invariants:
//! * Continuations run in the order in which their futures completed, and the store completes in
//!   the order of the calls for one owner: an account, a room, a host of nodes. Between owners
//!   there is no order.
//! * A future that is ready at once joins the end of the list of those that were woken, so it
//!   cannot overtake another.
//! * A continuation runs in the custody of the stanza that asked for it ([`crate::custody`]).
//! * While a continuation of a session is outstanding, the session's backlog holds back its later
//!   stanzas (`ARCHITECTURE.md`, rule 5).

use std::any::type_name;
use std::pin::Pin;
use std::task::{Context, Poll};

use rookery_observe::{Since, Slow, WaitParts, slow};

use crate::World;
use crate::session::SessionRef;
use crate::waiting::{LaterJob, Task};
use crate::wakeups::waker;

struct WaitingJob<P: Future, F> {
    pending: P,
    outcome: Option<P::Output>,
    then: F,
    /// The start, if the time counts as waiting for the store.
    since: Option<Since>,
    /// The parts of the time, of the operations that have been answered.
    parts: WaitParts,
}

impl<P: Future + Unpin, F: FnOnce(&mut World, P::Output)> LaterJob for WaitingJob<P, F> {
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if self.outcome.is_none() {
            if let Poll::Ready(outcome) = Pin::new(&mut self.pending).poll(context) {
                self.outcome = Some(outcome);
            }
            self.parts += WaitParts::take();
        }
        self.outcome.is_some()
    }

    fn finish(self: Box<Self>, world: &mut World, session: Option<SessionRef>) {
        if let Some(outcome) = self.outcome {
            if let Some(since) = self.since {
                let names = (type_name::<F>(), type_name::<P::Output>());
                world.note_wait(names, (since, self.parts), session);
            }
            (self.then)(world, outcome);
        }
    }
}

/// Returns the function in which a continuation of this type was written, for people.
fn place(continuation: &'static str) -> &'static str {
    let path = continuation.split("::{{closure}}").next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or(path)
}

/// Returns whether an answer of this type comes from the store. Others come from clients, which
/// read when they like. The language doesn't promise any form of type names, so nothing but a
/// measurement depends on it.
fn is_of_store(answer: &str) -> bool {
    answer.ends_with("::StoreError>")
}

impl World {
    /// Runs `then` when the store, or another thread that was asked, has answered. Nothing is held
    /// back meanwhile.
    pub fn wait<P: Future + Unpin + 'static>(
        &mut self,
        pending: P,
        then: impl FnOnce(&mut World, P::Output) + 'static,
    ) {
        self.spawn(None, pending, then, Some(Since::now()));
    }

    /// Runs `then` when somebody outside this server has answered, whose slowness says nothing
    /// about the store.
    pub(crate) fn wait_outside<P: Future + Unpin + 'static>(
        &mut self,
        pending: P,
        then: impl FnOnce(&mut World, P::Output) + 'static,
    ) {
        self.waiting.outside += 1;
        let answered = move |world: &mut World, answer| {
            debug_assert!(world.waiting.outside > 0, "somebody outside answers once");
            world.waiting.outside -= 1;
            then(world, answer);
        };
        self.spawn(None, pending, answered, None);
    }

    /// Runs `then` as [`World::wait`] does; until then the session's later stanzas wait in its
    /// backlog.
    pub fn wait_in_order<P: Future + Unpin + 'static>(
        &mut self,
        session: SessionRef,
        pending: P,
        then: impl FnOnce(&mut World, P::Output) + 'static,
    ) {
        let held = self.hold_backlog(session);
        debug_assert!(
            held.is_none() || self.session(session).is_some_and(|session| session.is_busy()),
            "what a session sends now waits"
        );
        self.spawn(held.map(|()| session), pending, then, Some(Since::now()));
    }

    /// Makes a session's later stanzas wait in its backlog, until `World::backlog_done`. Returns
    /// `None` if the session is gone.
    pub(crate) fn hold_backlog(&mut self, session: SessionRef) -> Option<()> {
        self.session_mut(session).map(|session| session.rare().backlog.waiting += 1)
    }

    fn spawn<P: Future + Unpin + 'static>(
        &mut self,
        session: Option<SessionRef>,
        pending: P,
        then: impl FnOnce(&mut World, P::Output) + 'static,
        since: Option<Since>,
    ) {
        let entry = self.waiting.tasks.vacant_entry();
        let task = entry.key();
        let waker = waker(task, self.waiting.wakeups.clone());
        let mut job = WaitingJob { pending, outcome: None, then, since, parts: WaitParts::default() };
        if job.poll(&mut Context::from_waker(&waker)) {
            self.waiting.wakeups.push(task);
        }
        entry.insert(Task { job: Box::new(job), waker, session, custody: self.waiting.custody.clone() });
    }

    /// Counts a wait that has ended, by the names of the types of its continuation and answer. The
    /// types aren't parameters, since each of hundreds of pairs would have a copy.
    fn note_wait(
        &mut self,
        (continuation, answer): (&'static str, &'static str),
        (since, parts): (Since, WaitParts),
        session: Option<SessionRef>,
    ) {
        let label = self.catalogue.registry.labels.of(continuation);
        let waited = since.elapsed();
        self.counters.store_waits.of(label).record_time(waited);
        if !is_of_store(answer) || !slow().is_slow(Slow::Wait, waited) {
            return;
        }
        let what = format!("{label}, in {}", place(continuation));
        let why = parts.reason(waited);
        if let Some(session) = session {
            self.sight_session(session.link, || format!("it has waited {} ms for {what}: {why}", waited.as_millis()));
        }
        slow().note(Slow::Wait, waited, || {
            let address = session.and_then(|session| self.outboxes.address(session.link));
            (what, address.map_or_else(String::new, |address| address.as_str().to_owned()), why)
        });
    }

    /// Polls every task that was woken and runs the continuations of the finished ones. `true` if
    /// there was any.
    pub fn run_tasks(&mut self) -> bool {
        let woken = self.waiting.wakeups.take();
        for &task in &woken {
            let Some(entry) = self.waiting.tasks.get_mut(task) else { continue };
            let waker = entry.waker.clone();
            if !entry.job.poll(&mut Context::from_waker(&waker)) {
                continue;
            }
            debug_assert!(self.waiting.custody.is_none(), "between two continuations nothing is in custody");
            let Task { job, session, custody, .. } = self.waiting.tasks.remove(task);
            self.in_custody(custody, |world| job.finish(world, session));
            if let Some(session) = session {
                self.backlog_done(session);
            }
        }
        !woken.is_empty()
    }

    /// Returns whether any work still waits for the store, or another thread. Parts of another
    /// process that are to be tried again don't count, nor do waits of logins.
    pub fn is_at_work(&self) -> bool {
        self.tasks_waiting() > self.people.returning.watchers() + self.waiting.outside + self.journal_waits()
    }

    /// Returns the number of outstanding continuations.
    pub fn tasks_waiting(&self) -> usize {
        self.waiting.tasks.len()
    }
}
