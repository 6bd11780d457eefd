//! An operation in progress: queued, run, reported.
//!
//! Running and reporting are two steps because the commit lies between them. Every operation can be
//! run again, and is when its transaction is lost or the engine gives another connection priority.

use super::connection::SqlConnection;
use crate::StoreError;
use crate::pending::{Pending, StoreCompleter, catch, pending};
use rookery_observe::WaitParts;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The kind of transaction that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreAccess {
    /// None: it reads by one statement, or by several that may see the database at different
    /// moments. If the engine is another process, this saves beginning and ending one.
    Glance,
    /// One whose reads all reflect one moment.
    Read,
    /// One that writes, completely or not at all.
    Write,
}

/// An operation whose caller waits.
pub(crate) trait Operation: Send {
    /// Returns the kind of transaction that it needs.
    fn access(&self) -> StoreAccess;

    /// Returns whether it needs a transaction that writes.
    fn writes(&self) -> bool {
        self.access() == StoreAccess::Write
    }

    /// Runs it and stores the answer, replacing that of an earlier run. An error means that its
    /// changes must be undone.
    fn run(&mut self, connection: &mut dyn SqlConnection) -> Result<(), StoreError>;

    /// Returns the parts of its time so far; `None` before it has run.
    fn parts(&mut self) -> &mut Option<WaitParts>;

    /// Gives the caller the stored answer, or `failure` in place of a successful one.
    fn tell(self: Box<Self>, failure: Option<StoreError>);

    /// Returns its name for operators, derived from its place in the source.
    fn name(&self) -> String;
}

/// Returns an operation and the future of its answer.
pub(crate) fn operation<T, F>(access: StoreAccess, run: F) -> (Box<dyn Operation>, Pending<T>)
where
    T: Send + 'static,
    F: FnMut(&mut dyn SqlConnection) -> Result<T, StoreError> + Send + 'static,
{
    let (completer, pending) = pending();
    (Box::new(Job { access, run, told: ToldCaller::new(completer) }), pending)
}

struct Job<T: Send + 'static, F> {
    access: StoreAccess,
    run: F,
    told: ToldCaller<T>,
}

impl<T, F> Operation for Job<T, F>
where
    T: Send + 'static,
    F: FnMut(&mut dyn SqlConnection) -> Result<T, StoreError> + Send,
{
    fn access(&self) -> StoreAccess {
        self.access
    }

    fn run(&mut self, connection: &mut dyn SqlConnection) -> Result<(), StoreError> {
        let run = &mut self.run;
        self.told.keep(catch(|| run(connection)))
    }

    fn parts(&mut self) -> &mut Option<WaitParts> {
        &mut self.told.parts
    }

    fn tell(self: Box<Self>, failure: Option<StoreError>) {
        self.told.tell(failure);
    }

    fn name(&self) -> String {
        name_of(std::any::type_name::<F>())
    }
}

/// Returns the file and the method that contain a closure. The language guarantees no form of
/// types' names, so only texts for operators depend on it.
fn name_of(path: &str) -> String {
    let path = path.replace("::{{closure}}", "");
    let method = path.rsplit("::").next().unwrap_or(&path);
    // `rookery_store::sql::store::traits::<impl rookery_store::rosters::RosterStore for …>::item`
    let of = path.split("<impl ").nth(1).and_then(|of| of.split([' ', '<', '>']).next()?.rsplit("::").next());
    match of {
        Some(of) => format!("{of}::{method}"),
        None => method.to_owned(),
    }
}

struct ToldCaller<T: Send + 'static> {
    completer: StoreCompleter<T>,
    answer: Option<Result<T, StoreError>>,
    parts: Option<WaitParts>,
}

impl<T: Send + 'static> ToldCaller<T> {
    fn new(completer: StoreCompleter<T>) -> ToldCaller<T> {
        ToldCaller { completer, answer: None, parts: None }
    }

    fn keep(&mut self, answer: Result<T, StoreError>) -> Result<(), StoreError> {
        let outcome = answer.as_ref().map(|_| ()).map_err(Clone::clone);
        self.answer = Some(answer);
        outcome
    }

    fn tell(self, failure: Option<StoreError>) {
        let answer = match (self.answer, failure) {
            // The caller can't use the loss of a connection as an answer.
            (Some(Err(StoreError::Lost(_))), Some(error)) => Err(error),
            (Some(Err(error)), _) | (_, Some(error)) => Err(error),
            (Some(Ok(answer)), None) => Ok(answer),
            (None, None) => Err(StoreError::Closed),
        };
        // The waker is the caller's code: its panic must not end the worker.
        drop(catch_unwind(AssertUnwindSafe(|| self.completer.complete_after(answer, self.parts))));
    }
}
