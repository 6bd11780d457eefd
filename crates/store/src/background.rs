//! Threads for work that takes milliseconds, such as deriving keys from a password: shards never do
//! it themselves.
//!
//! The result is a future like those of the store, so that it can be awaited in the same way; its
//! errors are those of the work, since the store isn't involved.
//!
//! # Invariants
//!
//! * A login only ever waits for logins: checking passwords has its own threads.
//! * No account's work waits for all the work of another: accounts take turns, one piece each.
//! * Waiting work is bounded per account and in total, so that an account with too much work is
//!   refused before others are.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rookery_base::lock::lock;
use rookery_base::{Abandoned, one_shot};
use rookery_observe::{Bound, Most, Per, Unit, vital};

/// Holds a few threads for logins and a few for everything else. Cloning shares them; they end with
/// the last clone.
#[derive(Clone, Debug)]
pub struct Background {
    place: WorkPlace,
}

/// The place where work is done.
#[derive(Clone, Debug)]
enum WorkPlace {
    Threads(Arc<Crews>),
    /// On the thread that requests it.
    Here,
    /// On the thread that calls [`BackgroundDesk::run_one`].
    Desk(Arc<Turns>),
}

/// Does the work of a [`Background`] piece by piece, on demand.
#[derive(Clone, Debug)]
pub struct BackgroundDesk(Arc<Turns>);

impl BackgroundDesk {
    /// Does the next piece of work. Returns `false` if none waits.
    pub fn run_one(&self) -> bool {
        // The lock is free while the work is done, since the work may request more.
        let next = self.0.waiting().take();
        next.map(|work| work()).is_some()
    }

    /// Drops all waiting work, as a process does when it dies.
    pub fn clear(&self) {
        while self.0.waiting().take().is_some() {}
    }
}

#[derive(Debug)]
struct Crews {
    logins: Crew,
    others: Crew,
}

type BackgroundWork = Box<dyn FnOnce() + Send>;

/// The outcome of work that was given to the background. Dropping it cancels nothing.
pub type WorkOutcome<T> = Pin<Box<dyn Future<Output = Result<T, WorkError>> + Send>>;

/// The reason why work has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkError {
    /// It was refused: too much work waits in total, or for this account or room.
    Crowded,
    /// The work panicked; the thread goes on with other work.
    Panicked,
    /// The threads ended before its turn.
    Closed,
}

impl WorkError {
    /// Returns whether the same work may succeed later.
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Crowded | Self::Closed)
    }
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crowded => {
                "too much background work waits: the processors are slower than logins, searches and logs need; look \
                 for an account or a room that asks for too much"
            }
            Self::Panicked => "background work panicked; please report this as a bug",
            Self::Closed => "the background is shut down",
        })
    }
}

impl std::error::Error for WorkError {}

impl Background {
    /// Starts `threads` threads, at least one, for logins, and half as many, at least one, for
    /// everything else.
    ///
    /// # Errors
    /// The error of the system if it can't start a thread.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let logins = Crew::start("logins", threads.max(1))?;
        let others = Crew::start("background", (threads / 2).max(1))?;
        Ok(Self { place: WorkPlace::Threads(Arc::new(Crews { logins, others })) })
    }

    /// Returns a background that does all work at once, on the requesting thread: for tests, which
    /// must not depend on timing.
    pub fn in_place() -> Self {
        Self { place: WorkPlace::Here }
    }

    /// Returns a background that works on demand: for tests that choose the order themselves.
    pub fn at_desk() -> (Self, BackgroundDesk) {
        let turns = Arc::<Turns>::default();
        (Self { place: WorkPlace::Desk(turns.clone()) }, BackgroundDesk(turns))
    }

    /// Checks something that a login of the account `whose` waits for. The outcome is like that of
    /// [`Background::run`].
    pub fn verify<T: Send + 'static>(&self, whose: &str, work: impl FnOnce() -> T + Send + 'static) -> WorkOutcome<T> {
        self.give(|crews| &crews.logins, whose, work)
    }

    /// Does `work` for `whose`, the account or room that the work counts for. The outcome is
    /// [`WorkError::Crowded`] if too much of its work already waits, [`WorkError::Panicked`] if the
    /// work panics.
    pub fn run<T: Send + 'static>(&self, whose: &str, work: impl FnOnce() -> T + Send + 'static) -> WorkOutcome<T> {
        self.give(|crews| &crews.others, whose, work)
    }

    fn give<T: Send + 'static>(
        &self,
        to: impl FnOnce(&Crews) -> &Crew,
        whose: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> WorkOutcome<T> {
        let (completer, awaited) = one_shot::<Result<T, WorkError>>();
        let outcome = Box::pin(async { awaited.await.unwrap_or_else(|Abandoned| Err(WorkError::Closed)) });
        let job: BackgroundWork = Box::new(move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            completer.complete(outcome.map_err(|_| WorkError::Panicked));
        });
        let turns = match &self.place {
            WorkPlace::Threads(crews) => &to(crews).turns,
            WorkPlace::Desk(turns) => turns,
            WorkPlace::Here => {
                job();
                return outcome;
            }
        };
        match turns.push(whose, job) {
            Ok(()) => outcome,
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// Threads that share the waiting work.
#[derive(Debug)]
struct Crew {
    turns: Arc<Turns>,
}

impl Crew {
    fn start(name: &str, threads: usize) -> std::io::Result<Self> {
        let crew = Self { turns: Arc::default() };
        for _ in 0..threads {
            let turns = crew.turns.clone();
            let serve = move || {
                while let Some(work) = turns.next() {
                    work();
                }
            };
            std::thread::Builder::new().name(name.into()).spawn(|| vital(serve))?;
        }
        Ok(crew)
    }
}

impl Drop for Crew {
    /// Lets the threads end after they have finished the waiting work.
    fn drop(&mut self) {
        self.turns.waiting().is_closed = true;
        self.turns.wake.notify_all();
    }
}

/// The waiting work of a crew.
#[derive(Default)]
struct Turns {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// The work by the name that it counts for; an entry is never empty.
    work: HashMap<Box<str>, VecDeque<BackgroundWork>>,
    /// The names that have an entry, each once, in the order of their turns.
    order: VecDeque<Box<str>>,
    count: usize,
    is_closed: bool,
}

impl Turns {
    fn push(&self, whose: &str, work: BackgroundWork) -> Result<(), WorkError> {
        let mut waiting = self.waiting();
        let own = waiting.work.get(whose).map_or(0, VecDeque::len);
        if waiting.count >= MOST_WAITING || own >= MOST_WAITING_FOR_ONE {
            return Err(WorkError::Crowded);
        }
        if own == 0 {
            waiting.order.push_back(whose.into());
        }
        waiting.work.entry(whose.into()).or_default().push_back(work);
        waiting.count += 1;
        drop(waiting);
        self.wake.notify_one();
        Ok(())
    }

    /// Waits for the next piece of work; `None` at the end.
    fn next(&self) -> Option<BackgroundWork> {
        let mut waiting = self.waiting();
        loop {
            if let Some(work) = waiting.take() {
                return Some(work);
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Locks the waiting work. No work is done under the lock, so a panic can't leave it half
    /// changed.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }
}

impl Waiting {
    /// Takes the first piece of the name whose turn it is, and moves that name to the end of the
    /// order.
    fn take(&mut self) -> Option<BackgroundWork> {
        let whose = self.order.pop_front()?;
        let own = self.work.get_mut(&whose)?;
        let work = own.pop_front()?;
        self.count -= 1;
        if own.is_empty() {
            self.work.remove(&whose);
        } else {
            self.order.push_back(whose);
        }
        Some(work)
    }
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turns").field("waiting", &self.waiting().count).finish()
    }
}

/// The most pieces of work that may wait.
const MOST_WAITING: usize = 4000;
/// The most pieces of work that may wait for one name.
const MOST_WAITING_FOR_ONE: usize = 16;

/// The bounds of background work, for the page of limits.
pub const BOUNDS: &[Bound] = &[
    Bound::on("work that waits for a thread", Per::Server, Most::Fixed(MOST_WAITING as u64), Unit::Number)
        .or("the request that needs it gets <resource-constraint/>"),
    Bound::on("work that waits for a thread", Per::Account, Most::Fixed(MOST_WAITING_FOR_ONE as u64), Unit::Number)
        .or("the request that needs it gets <resource-constraint/>"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait;
    use std::sync::mpsc::{Sender, channel};

    /// Keeps a crew busy until the sender is dropped.
    fn occupy(crew: impl FnOnce(BackgroundWork) -> WorkOutcome<()>) -> (Sender<()>, WorkOutcome<()>) {
        let (started, has_started) = channel();
        let (free, is_free) = channel::<()>();
        let answer = crew(Box::new(move || {
            started.send(()).unwrap();
            assert!(is_free.recv().is_err());
        }));
        has_started.recv().unwrap();
        (free, answer)
    }

    #[test]
    fn a_desk_works_when_it_is_told_to() {
        let (background, desk) = Background::at_desk();
        let done = background.run("a@x", || 6 * 7);
        assert!(desk.run_one() && !desk.run_one());
        assert_eq!(wait(done), Ok(42));
        let forgotten = background.run("a@x", || 1);
        desk.clear();
        assert_eq!(wait(forgotten), Err(WorkError::Closed));
    }

    #[test]
    fn work_is_answered_and_a_panic_harms_nobody() {
        let background = Background::new(2).unwrap();
        assert_eq!(wait(background.run("a@x", || 6 * 7)), Ok(42));
        for _ in 0..3 {
            let broken: WorkOutcome<u8> = background.run("a@x", || panic!("as a bug would"));
            assert!(matches!(wait(broken), Err(WorkError::Panicked)));
        }
        assert_eq!(wait(background.run("a@x", || 1)), Ok(1));
    }

    #[test]
    fn a_login_waits_for_no_other_work() {
        let background = Background::new(1).unwrap();
        let (free, long) = occupy(|work| background.run("a@x", work));
        let behind = background.run("b@x", || 1);
        assert_eq!(wait(background.verify("b@x", || 2)), Ok(2));
        drop(free);
        assert_eq!((wait(long), wait(behind)), (Ok(()), Ok(1)));
    }

    #[test]
    fn everybody_has_a_turn() {
        let background = Background::new(1).unwrap();
        let (free, first) = occupy(|work| background.run("x", work));
        let (done, order) = channel();
        let given = ["a1", "a2", "a3", "b1", "b2", "c1"].map(|piece| {
            let done = done.clone();
            background.run(&piece[..1], move || done.send(piece).unwrap())
        });
        drop(free);
        for answer in given.into_iter().chain([first]) {
            assert_eq!(wait(answer), Ok(()));
        }
        assert_eq!(order.try_iter().collect::<Vec<_>>(), ["a1", "b1", "c1", "a2", "b2", "a3"]);
    }

    #[test]
    fn an_account_that_asks_for_too_much_is_refused_alone() {
        let background = Background::new(1).unwrap();
        let (free, first) = occupy(|work| background.run("a@x", work));
        let given: Vec<_> = (0..MOST_WAITING_FOR_ONE).map(|_| background.run("a@x", || ())).collect();
        assert_eq!(wait(background.run("a@x", || ())), Err(WorkError::Crowded));
        let others: Vec<_> =
            (MOST_WAITING_FOR_ONE..MOST_WAITING).map(|n| background.run(&format!("{n}@x"), || ())).collect();
        assert_eq!(wait(background.run("b@x", || ())), Err(WorkError::Crowded));
        drop(free);
        for answer in given.into_iter().chain(others).chain([first]) {
            assert_eq!(wait(answer), Ok(()));
        }
    }
}
