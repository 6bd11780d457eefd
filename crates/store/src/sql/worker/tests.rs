//! Tests the worker over an engine that fails on demand, which no real disk does.

mod lost;

use super::*;
use crate::pending::Pending;
use crate::sql::archives::KnownArchives;
use crate::sql::connection::{EachRow, SqlConnection, SqlValue};
use crate::sql::dialect::Dialect;
use crate::sql::lanes::LaneRoute;
use crate::sql::operation::Operation;
use crate::sql::operation::{StoreAccess, operation};
use crate::sql::queue::QueueBounds;
use crate::wait;
use std::sync::Mutex;

#[test]
fn a_batch_is_one_transaction() {
    let rig = QueueRig::default();
    let answers = [rig.add(1), rig.sum(), rig.add(2), rig.sum()];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(1), Ok(1), Ok(3), Ok(3)]);
    assert_eq!(rig.log(), ["begin write", "commit"]);
}

#[test]
fn an_answer_comes_with_the_parts_of_its_time() {
    let rig = QueueRig::default();
    let pause = Duration::from_millis(2);
    let answer = rig.write(move |c| {
        std::thread::sleep(pause);
        c.execute("add", &[SqlValue::Integer(1)]).map(|sum| sum as i64)
    });
    std::thread::sleep(pause);
    rig.run();
    assert_eq!(wait(answer), Ok(1));
    let parts = WaitParts::take().to_string();
    let of = |part: &str| parts.split(", ").find(|it| it.ends_with(part)).map(|it| it.starts_with("0 ms"));
    // A pause is never shorter than it should be.
    assert_eq!(
        (of("in the queue of the store"), of("for the operation itself")),
        (Some(false), Some(false)),
        "{parts}"
    );
    assert!(of("for the commit").is_some(), "{parts}");
    assert_eq!(WaitParts::take(), WaitParts::default());
}

#[test]
fn reads_begin_no_transaction_that_writes() {
    let rig = QueueRig::default();
    let answers = [rig.sum(), rig.sum()];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(0), Ok(0)]);
    assert_eq!(rig.log(), ["begin read", "commit"]);
}

#[test]
fn a_failing_write_fails_alone() {
    let rig = QueueRig::default();
    let answers = [rig.add(1), rig.add_and_fail(10), rig.add_and_panic(100), rig.add(2), rig.sum()];
    rig.run();
    let panicked = Err(StoreError::Panicked("on demand".into()));
    assert_eq!(answers.map(wait), [Ok(1), Err(StoreError::NoAccount), panicked, Ok(3), Ok(3)]);
    assert_eq!(rig.state(|engine| engine.committed), 3);
}

#[test]
fn a_failing_commit_fails_the_writes_and_nothing_else() {
    let rig = QueueRig::default();
    let first = [rig.sum(), rig.add(1), rig.sum(), rig.add_and_fail(5), rig.add(2), rig.sum()];
    rig.state(|engine| engine.failing_commits = 1);
    rig.run();
    let failed = || Err(StoreError::Busy);
    assert_eq!(first.map(wait), [Ok(0), failed(), Ok(0), Err(StoreError::NoAccount), failed(), Ok(0)]);
    assert_eq!(rig.state(|engine| (engine.committed, engine.open)), (0, false));
}

#[test]
fn the_batch_behind_a_failing_commit_goes_on() {
    let rig = QueueRig::default();
    let before: Vec<_> = (0..BATCH_OPERATIONS).map(|_| rig.add(1)).collect();
    let behind = rig.add(5);
    rig.state(|engine| engine.failing_commits = 1);
    rig.run();
    // On a slow machine the first batch may be short; all operations in it failed, and no others.
    let failed = before.into_iter().map(wait).take_while(Result::is_err).count();
    assert!(failed > 0);
    assert_eq!(wait(behind), Ok((BATCH_OPERATIONS - failed + 5) as i64));
}

#[test]
fn without_a_transaction_that_writes_reads_go_on() {
    let rig = QueueRig::default();
    let answers = [rig.sum(), rig.add(1), rig.sum(), rig.add(2)];
    rig.state(|engine| engine.locked = true);
    rig.run();
    assert_eq!(answers.map(wait), [Ok(0), Err(StoreError::Busy), Ok(0), Err(StoreError::Busy)]);
    let begun = rig.log().into_iter().filter(|entry| *entry == "begin write").count();
    assert_eq!(begun, 1, "waiting for the lock once is enough");
}

#[test]
fn a_transaction_lost_halfway_takes_its_writes_along() {
    let rig = QueueRig::default();
    let answers = [rig.add(1), rig.sum(), rig.lose(), rig.add(2), rig.sum()];
    rig.run();
    let lost = || Err(StoreError::Closed);
    assert_eq!(answers.map(wait), [lost(), Ok(0), lost(), Ok(2), Ok(2)]);
}

#[test]
fn a_write_that_others_got_in_the_way_of_is_run_again() {
    let rig = QueueRig::default();
    let answers = [rig.add(1), rig.add_contested(10, RUNS - 1), rig.add_contested(100, RUNS), rig.add(2)];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(1), Ok(11), Err(conflict()), Ok(13)]);
    assert_eq!(rig.log(), ["begin write", "commit"]);
}

#[test]
fn a_batch_that_others_got_in_the_way_of_is_run_again() {
    let rig = QueueRig::default();
    let answers = [rig.add(1), rig.sum(), rig.add(2)];
    rig.state(|engine| (engine.failing_commits, engine.commit_error) = (RUNS - 1, Some(conflict())));
    rig.run();
    assert_eq!(answers.map(wait), [Ok(1), Ok(1), Ok(3)]);
    assert_eq!(rig.state(|engine| engine.committed), 3);
}

#[test]
fn others_get_in_the_way_only_so_often() {
    let rig = QueueRig::default();
    let answers = [rig.add(1), rig.sum(), rig.add(2)];
    rig.state(|engine| (engine.failing_commits, engine.commit_error) = (RUNS, Some(conflict())));
    rig.run();
    assert_eq!(answers.map(wait), [Err(conflict()), Ok(0), Err(conflict())]);
    assert_eq!(rig.state(|engine| (engine.committed, engine.open)), (0, false));
}

fn conflict() -> StoreError {
    StoreError::Conflict(crate::error::EngineWords { database: "of a test".into(), message: "contested".into() })
}

#[test]
fn nobody_waits_for_a_worker_that_ended() {
    let rig = QueueRig::default();
    let answers = [rig.add(1), rig.add(2)];
    rig.state(|engine| engine.panics = true);
    let rig = std::panic::AssertUnwindSafe(rig);
    std::panic::catch_unwind(|| rig.run()).expect_err("the engine panics");
    assert_eq!(answers.map(wait), [Err(StoreError::Closed), Err(StoreError::Closed)]);
    assert_eq!(wait(rig.add(3)), Err(StoreError::Closed));
}

#[test]
fn a_full_queue_refuses_at_once() {
    let rig = QueueRig::with_bounds(QueueBounds { operations: 2, bytes: usize::MAX });
    let answers = [rig.sum(), rig.sum(), rig.sum()];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(0), Ok(0), Err(StoreError::Busy)]);
}

#[test]
fn owners_who_write_too_much_leave_room_for_those_who_read() {
    let rig = QueueRig::with_bounds(QueueBounds { operations: 4, bytes: usize::MAX });
    let answers = [rig.add(1), rig.add(2), rig.add(4), rig.sum(), rig.sum(), rig.sum()];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(1), Ok(3), Err(StoreError::Busy), Ok(3), Ok(3), Err(StoreError::Busy)]);
}

#[test]
fn a_queue_is_bounded_in_bytes() {
    // Each operation of the rig counts as 10 bytes.
    let rig = QueueRig::with_bounds(QueueBounds { operations: usize::MAX, bytes: 40 });
    let answers = [rig.add(1), rig.add(2), rig.add(4)];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(1), Ok(3), Err(StoreError::Busy)], "half is for those that read");
    let rig = QueueRig::with_bounds(QueueBounds { operations: usize::MAX, bytes: 5 });
    let answers = [rig.add(1), rig.add(2)];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(1), Err(StoreError::Busy)], "a large one is taken when nothing waits");
}

/// A queue and the engine that will run it.
struct QueueRig {
    shared: Arc<LanesShared>,
    engine: Arc<Mutex<NumberEngine>>,
}

impl Default for QueueRig {
    fn default() -> QueueRig {
        QueueRig::with_bounds(QueueBounds::default())
    }
}

impl QueueRig {
    fn with_bounds(bounds: QueueBounds) -> QueueRig {
        let queues = Queues::new(1, bounds, None);
        let shared = LanesShared { queues, trouble: Trouble::default(), counts: Counts::default() };
        QueueRig { shared: Arc::new(shared), engine: Arc::default() }
    }

    /// Runs the queued operations on this thread.
    fn run(&self) {
        self.shared.queues.close();
        super::run(Handle(self.engine.clone(), KnownArchives::default()), 0, &self.shared);
    }

    fn state<T>(&self, look: impl FnOnce(&mut NumberEngine) -> T) -> T {
        look(&mut self.engine.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn log(&self) -> Vec<&'static str> {
        self.state(|engine| engine.log.clone())
    }

    /// Adds to the engine's number and returns the sum.
    fn add(&self, number: i64) -> Pending<i64> {
        self.write(move |c| c.execute("add", &[SqlValue::Integer(number)]).map(|sum| sum as i64))
    }

    fn add_and_fail(&self, number: i64) -> Pending<i64> {
        self.write(move |c| c.execute("add", &[SqlValue::Integer(number)]).and(Err(StoreError::NoAccount)))
    }

    fn add_and_panic(&self, number: i64) -> Pending<i64> {
        self.write(move |c| {
            c.execute("add", &[SqlValue::Integer(number)])?;
            panic!("on demand")
        })
    }

    /// Adds to the engine's number after a number of conflicts with others.
    fn add_contested(&self, number: i64, mut times: usize) -> Pending<i64> {
        self.write(move |c| {
            let sum = c.execute("add", &[SqlValue::Integer(number)])?;
            let is_contested = times > 0;
            times = times.saturating_sub(1);
            if is_contested { Err(conflict()) } else { Ok(sum as i64) }
        })
    }

    fn lose(&self) -> Pending<i64> {
        self.write(|c| c.execute("lose", &[]).map(|sum| sum as i64))
    }

    fn sum(&self) -> Pending<i64> {
        self.enqueue(operation(StoreAccess::Read, |c| c.execute("sum", &[]).map(|sum| sum as i64)))
    }

    fn write(
        &self,
        run: impl FnMut(&mut dyn SqlConnection) -> Result<i64, StoreError> + Send + 'static,
    ) -> Pending<i64> {
        self.enqueue(operation(StoreAccess::Write, run))
    }

    fn enqueue(&self, (operation, pending): (Box<dyn Operation>, Pending<i64>)) -> Pending<i64> {
        if let Err((operation, error)) = self.shared.queues.push(LaneRoute::default(), 10, operation) {
            operation.tell(Some(error));
        }
        pending
    }
}

/// A single number with transactions.
#[derive(Default)]
struct NumberEngine {
    log: Vec<&'static str>,
    open: bool,
    writes: bool,
    committed: i64,
    working: i64,
    marked: i64,
    failing_commits: usize,
    commit_error: Option<StoreError>,
    locked: bool,
    panics: bool,
}

struct Handle(Arc<Mutex<NumberEngine>>, KnownArchives);

impl Handle {
    fn engine(&self) -> std::sync::MutexGuard<'_, NumberEngine> {
        self.0.lock().expect("no test panics under the lock")
    }

    fn begin(&self, entry: &'static str) -> Result<(), StoreError> {
        let mut engine = self.engine();
        assert!(!engine.open, "transactions don't nest");
        engine.log.push(entry);
        if engine.locked && entry == "begin write" {
            return Err(StoreError::Busy);
        }
        engine.open = true;
        engine.writes = entry == "begin write";
        engine.working = engine.committed;
        Ok(())
    }
}

impl SqlConnection for Handle {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, sql: &'static str, values: &[SqlValue<'_>]) -> Result<u64, StoreError> {
        let mut engine = self.engine();
        assert!(engine.open, "everything runs in a transaction");
        match (sql, values) {
            ("add", [SqlValue::Integer(number)]) => engine.working += number,
            ("lose", []) => {
                engine.open = false;
                return Err(StoreError::Closed);
            }
            _ => {}
        }
        Ok(engine.working as u64)
    }

    fn query(&mut self, _: &'static str, _: &[SqlValue<'_>], _: &mut EachRow<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Panicked(what)
    }

    fn known_archives(&mut self) -> &mut KnownArchives {
        &mut self.1
    }
}

impl Transactions for Handle {
    fn begin_read(&mut self) -> Result<(), StoreError> {
        self.begin("begin read")
    }

    fn begin_write(&mut self, _: u64) -> Result<(), StoreError> {
        let panics = self.engine().panics;
        assert!(!panics, "on demand");
        self.begin("begin write")
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let mut engine = self.engine();
        engine.log.push("commit");
        if engine.writes && engine.failing_commits > 0 {
            engine.failing_commits -= 1;
            return Err(engine.commit_error.clone().unwrap_or(StoreError::Busy));
        }
        engine.open = false;
        engine.committed = engine.working;
        Ok(())
    }

    fn rollback(&mut self) {
        self.engine().open = false;
    }

    fn in_transaction(&self) -> bool {
        self.engine().open
    }

    fn savepoints(&mut self) -> Option<&mut dyn Savepoints> {
        Some(self)
    }
}

impl Savepoints for Handle {
    fn begin_operation(&mut self) -> Result<(), StoreError> {
        let mut engine = self.engine();
        engine.marked = engine.working;
        Ok(())
    }

    fn keep_operation(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn rollback_operation(&mut self) -> Result<(), StoreError> {
        let mut engine = self.engine();
        engine.working = engine.marked;
        Ok(())
    }
}
