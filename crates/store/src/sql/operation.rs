//! An operation on its way: queued, run, told.
//!
//! Running and telling are two steps because the commit lies between them. A read can be run again: it is, when the
//! transaction it ran in is lost with the writes it saw.

use super::connection::Connection;
use crate::StoreError;
use crate::pending::{Completer, Pending, caught, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An operation whose caller waits.
pub(crate) trait Operation: Send {
    /// Whether it needs a transaction that writes, and can be run only once.
    fn writes(&self) -> bool;

    /// Carries it out and keeps the answer. An error means that what it wrote must be undone.
    fn run(&mut self, connection: &mut dyn Connection) -> Result<(), StoreError>;

    /// Tells the caller: the kept answer, or `failure` in place of a good one.
    fn tell(self: Box<Self>, failure: Option<StoreError>);
}

/// An operation that only reads.
pub(crate) fn read<T, F>(run: F) -> (Box<dyn Operation>, Pending<T>)
where
    T: Send + 'static,
    F: FnMut(&mut dyn Connection) -> Result<T, StoreError> + Send + 'static,
{
    let (completer, pending) = pending();
    (Box::new(Read { run, told: Told::new(completer) }), pending)
}

/// An operation that writes.
pub(crate) fn write<T, F>(run: F) -> (Box<dyn Operation>, Pending<T>)
where
    T: Send + 'static,
    F: FnOnce(&mut dyn Connection) -> Result<T, StoreError> + Send + 'static,
{
    let (completer, pending) = pending();
    (Box::new(Write { run: Some(run), told: Told::new(completer) }), pending)
}

struct Read<T: Send + 'static, F> {
    run: F,
    told: Told<T>,
}

impl<T, F> Operation for Read<T, F>
where
    T: Send + 'static,
    F: FnMut(&mut dyn Connection) -> Result<T, StoreError> + Send,
{
    fn writes(&self) -> bool {
        false
    }

    fn run(&mut self, connection: &mut dyn Connection) -> Result<(), StoreError> {
        let run = &mut self.run;
        self.told.keep(caught(|| run(connection)))
    }

    fn tell(self: Box<Self>, failure: Option<StoreError>) {
        self.told.tell(failure);
    }
}

struct Write<T: Send + 'static, F> {
    run: Option<F>,
    told: Told<T>,
}

impl<T, F> Operation for Write<T, F>
where
    T: Send + 'static,
    F: FnOnce(&mut dyn Connection) -> Result<T, StoreError> + Send,
{
    fn writes(&self) -> bool {
        true
    }

    fn run(&mut self, connection: &mut dyn Connection) -> Result<(), StoreError> {
        let Some(run) = self.run.take() else { return Ok(()) };
        self.told.keep(caught(|| run(connection)))
    }

    fn tell(self: Box<Self>, failure: Option<StoreError>) {
        self.told.tell(failure);
    }
}

struct Told<T: Send + 'static> {
    completer: Completer<T>,
    answer: Option<Result<T, StoreError>>,
}

impl<T: Send + 'static> Told<T> {
    fn new(completer: Completer<T>) -> Told<T> {
        Told { completer, answer: None }
    }

    fn keep(&mut self, answer: Result<T, StoreError>) -> Result<(), StoreError> {
        let outcome = answer.as_ref().map(|_| ()).map_err(Clone::clone);
        self.answer = Some(answer);
        outcome
    }

    fn tell(self, failure: Option<StoreError>) {
        let answer = match (self.answer, failure) {
            (Some(Err(error)), _) | (_, Some(error)) => Err(error),
            (Some(Ok(answer)), None) => Ok(answer),
            (None, None) => Err(StoreError::Closed),
        };
        // The waker is the caller's code: if it panics, that must not take the worker along.
        drop(catch_unwind(AssertUnwindSafe(|| self.completer.complete(answer))));
    }
}
