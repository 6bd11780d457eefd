//! Tests the worker over a database behind a failing network: wherever the connection is cut,
//! nothing is lost and nothing is done twice.

use super::super::*;
use crate::error::EngineWords;
use crate::pending::Pending;
use crate::sql::archives::KnownArchives;
use crate::sql::connection::{EachRow, Row, SqlConnection, SqlValue};
use crate::sql::dialect::Dialect;
use crate::sql::lanes::LaneRoute;
use crate::sql::operation::{Operation, StoreAccess, operation};
use crate::sql::queue::{Patience, QueueBounds};
use crate::sql::transactions::Remote;
use crate::wait;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[test]
fn wherever_the_connection_is_cut_all_is_done_once() {
    let uncut = LostRig::default();
    uncut.work();
    let calls = uncut.server().calls;
    assert!(calls > 20, "{calls} calls");
    for at in 1..=calls + 4 {
        for when in [Cut::Before, Cut::Behind] {
            // Cuts the connection again while the first cut is being handled, or soon after.
            for next in [None, Some(1), Some(2), Some(3), Some(5), Some(8)] {
                let rig = LostRig::default();
                rig.server().cuts =
                    std::iter::once(at).chain(next.map(|next| at + next)).map(|at| (at, when)).collect();
                rig.work();
            }
        }
    }
}

#[test]
fn a_failing_operation_is_undone_alone_without_savepoints() {
    let rig = LostRig::default();
    let answers = [rig.add(1), rig.add_and_fail(2), rig.add(3), rig.refuse(), rig.add(4)];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(1), Err(StoreError::NoAccount), Ok(2), Err(StoreError::NoAccount), Ok(3)]);
    assert_eq!(rig.server().committed, [1, 3, 4]);
}

#[test]
fn what_failed_before_it_wrote_undoes_nothing() {
    let rig = LostRig::default();
    let answers = [rig.add(1), rig.refuse(), rig.add(2)];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(1), Err(StoreError::NoAccount), Ok(2)]);
    assert_eq!(rig.server().batches, 1, "all in one transaction");
}

#[test]
fn a_deadlock_is_run_again() {
    let rig = LostRig::default();
    rig.server().conflicts = 3;
    let answers = [rig.add(1), rig.count(), rig.add(2)];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(1), Ok(1), Ok(2)]);
    assert_eq!(rig.server().committed, [1, 2]);
}

#[test]
fn an_operation_that_waits_for_too_long_is_refused() {
    let rig = LostRig::with_patience(Duration::from_millis(300));
    rig.server().cuts = vec![(1, Cut::Before)];
    rig.server().stays_away = true;
    let answers = [rig.add(1), rig.count()];
    rig.run();
    let since_ms = rig.shared.trouble.away_since_ms().expect("it is away");
    let away = StoreError::Away { engine: engine(), since_ms };
    assert_eq!(answers.map(wait), [Err(away.clone()), Err(away)]);
    assert_eq!(rig.shared.trouble.get(), Some(loss()), "probes hear of it");
    assert!(rig.server().committed.is_empty());
}

#[test]
fn what_nobody_knows_is_not_called_refused() {
    let rig = LostRig::with_patience(Duration::from_millis(300));
    let uncut = LostRig::default();
    assert_eq!(wait_after(&uncut, |rig| rig.add(1)), Ok(1));
    let commit = uncut.server().calls;
    rig.server().cuts = vec![(commit, Cut::Behind)];
    rig.server().stays_away = true;
    assert_eq!(wait_after(&rig, |rig| rig.add(1)), Err(loss()));
    assert_eq!(rig.server().committed, [1], "it was committed, but nobody can tell");
}

#[test]
fn a_host_that_can_only_be_read_is_left_for_another() {
    let rig = LostRig::default();
    rig.server().is_read_only = true;
    rig.server().another_host = Some(1);
    let answers = [rig.count(), rig.add(1), rig.add(2)];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(0), Ok(1), Ok(2)]);
}

#[test]
fn a_host_that_takes_over_is_waited_for() {
    let rig = LostRig::default();
    rig.server().is_read_only = true;
    rig.server().another_host = Some(5);
    let answers = [rig.add(1), rig.count(), rig.add(2)];
    rig.run();
    assert_eq!(answers.map(wait), [Ok(1), Ok(1), Ok(2)]);
    assert_eq!(rig.server().committed, [1, 2]);
    assert_eq!(rig.shared.trouble.get(), None);
}

/// Reads from a replica may be old.
#[test]
fn who_only_reads_looks_for_another_host_too() {
    let rig = LostRig::default();
    rig.server().is_read_only = true;
    rig.server().another_host = Some(1);
    assert_eq!(wait_after(&rig, LostRig::count), Ok(0));
    assert!(!rig.server().is_read_only);
}

#[test]
fn without_another_host_what_is_there_is_still_read() {
    let rig = LostRig::with_patience(Duration::from_millis(300));
    rig.server().committed = vec![7];
    rig.server().is_read_only = true;
    let answers = [rig.add(1), rig.count_at_login()];
    rig.run();
    assert_eq!(answers.map(wait), [Err(read_only()), Ok(1)]);
    assert_eq!(rig.shared.trouble.get(), Some(read_only()));
}

fn wait_after<T>(rig: &LostRig, call: impl FnOnce(&LostRig) -> Pending<T>) -> Result<T, StoreError> {
    let pending = call(rig);
    rig.run();
    wait(pending)
}

fn loss() -> StoreError {
    StoreError::Lost(engine())
}

fn read_only() -> StoreError {
    StoreError::ReadOnly(engine())
}

fn engine() -> EngineWords {
    EngineWords { database: "of a test".into(), message: "on demand".into() }
}

/// The place where a call is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The call doesn't reach the server.
    Before,
    /// The server has carried it out, and its answer gets lost.
    Behind,
}

/// A table in which each number may be once, on a server behind a network.
#[derive(Default)]
struct NumbersServer {
    committed: Vec<i64>,
    last_batch: u64,
    calls: usize,
    batches: usize,
    cuts: Vec<(usize, Cut)>,
    conflicts: usize,
    is_away: bool,
    /// True if it stays unreachable after the first cut.
    stays_away: bool,
    is_read_only: bool,
    /// The number of attempts after which a writable host is found.
    another_host: Option<usize>,
}

struct LostRig {
    shared: Arc<LanesShared>,
    server: Arc<Mutex<NumbersServer>>,
}

impl Default for LostRig {
    fn default() -> LostRig {
        LostRig::with_patience(Duration::from_secs(600))
    }
}

impl LostRig {
    fn with_patience(other: Duration) -> LostRig {
        let queues = Queues::new(
            1,
            QueueBounds::default(),
            Some(Patience { login: Duration::from_secs(600), other, ..Patience::default() }),
        );
        let shared = LanesShared { queues, trouble: Trouble::default(), counts: Counts::default() };
        LostRig { shared: Arc::new(shared), server: Arc::default() }
    }

    fn server(&self) -> MutexGuard<'_, NumbersServer> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        self.shared.queues.close();
        let known = KnownArchives::default();
        run(NumbersClient { server: self.server.clone(), is_open: true, transaction: None, known }, 0, &self.shared);
    }

    /// Runs reads and writes of all kinds, and checks that each was done once with the right
    /// result.
    fn work(&self) {
        let answers = [
            self.count(),
            self.add(1),
            self.count(),
            self.add(2),
            self.add_and_fail(10),
            self.add(3),
            self.refuse(),
            self.count(),
            self.add(4),
        ];
        self.run();
        let refused = || Err(StoreError::NoAccount);
        let expected = [Ok(0), Ok(1), Ok(1), Ok(2), refused(), Ok(3), refused(), Ok(3), Ok(4)];
        let cuts = self.server().cuts.clone();
        assert_eq!(answers.map(wait), expected, "cut at {cuts:?}");
        assert_eq!(self.server().committed, [1, 2, 3, 4], "cut at {cuts:?}");
    }

    fn add(&self, number: i64) -> Pending<u64> {
        self.write(move |c| c.execute("add", &[SqlValue::Integer(number)]).and_then(|_| count(c)))
    }

    fn add_and_fail(&self, number: i64) -> Pending<u64> {
        self.write(move |c| c.execute("add", &[SqlValue::Integer(number)]).and(Err(StoreError::NoAccount)))
    }

    /// Fails before it writes.
    fn refuse(&self) -> Pending<u64> {
        self.write(|c| count(c).and(Err(StoreError::NoAccount)))
    }

    fn count(&self) -> Pending<u64> {
        self.enqueue(operation(StoreAccess::Read, count))
    }

    fn write(
        &self,
        run: impl FnMut(&mut dyn SqlConnection) -> Result<u64, StoreError> + Send + 'static,
    ) -> Pending<u64> {
        self.enqueue(operation(StoreAccess::Write, run))
    }

    /// Counts with the patience of a login.
    fn count_at_login(&self) -> Pending<u64> {
        self.queued_on(LaneRoute { is_login: true, ..LaneRoute::default() }, operation(StoreAccess::Read, count))
    }

    fn enqueue<T>(&self, both: (Box<dyn Operation>, Pending<T>)) -> Pending<T> {
        self.queued_on(LaneRoute::default(), both)
    }

    fn queued_on<T>(&self, route: LaneRoute, (operation, pending): (Box<dyn Operation>, Pending<T>)) -> Pending<T> {
        if let Err((operation, error)) = self.shared.queues.push(route, 1, operation) {
            operation.tell(Some(error));
        }
        pending
    }
}

fn count(c: &mut dyn SqlConnection) -> Result<u64, StoreError> {
    let mut count = 0;
    c.query("count", &[], &mut |row| {
        count = row.number(0)?;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(count)
}

/// A row of one number.
struct CountRow(i64);

impl Row for CountRow {
    fn integer(&self, _: usize) -> Result<i64, StoreError> {
        Ok(self.0)
    }

    fn optional_integer(&self, column: usize) -> Result<Option<i64>, StoreError> {
        self.integer(column).map(Some)
    }

    fn text(&self, _: usize) -> Result<&str, StoreError> {
        Err(self.corrupt("no text".into()))
    }

    fn optional_text(&self, _: usize) -> Result<Option<&str>, StoreError> {
        Ok(None)
    }

    fn bytes(&self, _: usize) -> Result<&[u8], StoreError> {
        Err(self.corrupt("no bytes".into()))
    }

    fn optional_bytes(&self, _: usize) -> Result<Option<&[u8]>, StoreError> {
        Ok(None)
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Panicked(what)
    }
}

struct NumbersClient {
    server: Arc<Mutex<NumbersServer>>,
    is_open: bool,
    transaction: Option<NumbersTransaction>,
    known: KnownArchives,
}

struct NumbersTransaction {
    rows: Vec<i64>,
    batch: Option<u64>,
}

impl NumbersClient {
    /// Runs a call on the server, unless the connection is cut.
    fn call<T>(
        &mut self,
        work: impl FnOnce(&mut NumbersClient, &mut NumbersServer) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if !self.is_open {
            return Err(loss());
        }
        let shared = self.server.clone();
        let mut server = shared.lock().unwrap_or_else(PoisonError::into_inner);
        server.calls += 1;
        let at = server.calls;
        let cut = server.cuts.iter().find(|(cut, _)| *cut == at).map(|(_, cut)| *cut);
        let answer = match cut {
            Some(Cut::Before) => Err(loss()),
            _ => work(self, &mut server),
        };
        if cut.is_some() {
            server.is_away = server.stays_away;
            // The server rolls back uncommitted changes.
            (self.is_open, self.transaction) = (false, None);
            return Err(loss());
        }
        answer
    }
}

impl SqlConnection for NumbersClient {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, _: &'static str, values: &[SqlValue<'_>]) -> Result<u64, StoreError> {
        let [SqlValue::Integer(number)] = *values else { panic!("one number is added at a time") };
        self.call(|client, server| {
            let transaction = client.transaction.as_mut().expect("everything runs in a transaction");
            if server.conflicts > 0 {
                server.conflicts -= 1;
                client.transaction = None;
                return Err(StoreError::Conflict(engine()));
            }
            assert!(!transaction.rows.contains(&number), "{number} is there already");
            transaction.rows.push(number);
            Ok(1)
        })
    }

    fn query(&mut self, _: &'static str, _: &[SqlValue<'_>], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let count = self.call(|client, _| {
            Ok(client.transaction.as_ref().expect("everything runs in a transaction").rows.len() as i64)
        })?;
        each(&CountRow(count)).map(drop)
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Panicked(what)
    }

    fn known_archives(&mut self) -> &mut KnownArchives {
        &mut self.known
    }
}

impl Transactions for NumbersClient {
    fn begin_read(&mut self) -> Result<(), StoreError> {
        self.call(|client, server| {
            client.transaction = Some(NumbersTransaction { rows: server.committed.clone(), batch: None });
            Ok(())
        })
    }

    fn begin_write(&mut self, batch: u64) -> Result<(), StoreError> {
        self.call(|client, server| {
            if server.is_read_only {
                return Err(read_only());
            }
            client.transaction = Some(NumbersTransaction { rows: server.committed.clone(), batch: Some(batch) });
            Ok(())
        })
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.call(|client, server| {
            let transaction = client.transaction.take().expect("a transaction to commit");
            if let Some(batch) = transaction.batch {
                (server.committed, server.last_batch) = (transaction.rows, batch);
                server.batches += 1;
            }
            Ok(())
        })
    }

    fn rollback(&mut self) {
        self.transaction = None;
    }

    fn in_transaction(&self) -> bool {
        self.is_open && self.transaction.is_some()
    }

    fn remote(&mut self) -> Option<&mut dyn Remote> {
        Some(self)
    }
}

impl Remote for NumbersClient {
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.is_open = true;
        self.transaction = None;
        let opened = self.call(|_, server| {
            server.another_host = server.another_host.map(|attempts| attempts.saturating_sub(1));
            server.is_read_only &= server.another_host != Some(0);
            if server.is_away { Err(loss()) } else { Ok(()) }
        });
        self.is_open = opened.is_ok();
        opened
    }

    fn ping(&mut self) -> Result<(), StoreError> {
        self.call(|_, server| if server.is_away { Err(loss()) } else { Ok(()) })
    }

    fn has_committed(&mut self, batch: u64) -> Result<bool, StoreError> {
        self.call(|_, server| Ok(server.last_batch == batch))
    }

    fn is_read_only(&self) -> bool {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).is_read_only
    }
}
