//! Tests processes that share a database and take over from each other: one that was fenced off
//! never writes again, whatever it was about to do.

#[allow(dead_code, reason = "tests of other troubles need more of it")]
mod engines;

use engines::{EngineServer, Harm};
use rookery_jid::Jid;
use rookery_needs::{Mariadb, Proxy};
use rookery_sasl::Credentials;
use rookery_store::sql::SqlStore;
use rookery_store::{Fencing, OfflineRoom, Pending, ProcessWriter, Pushed, StoreError, Stores, wait};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

engines::tests! {
    a_process_that_was_fenced_off_writes_nothing_and_is_told,
    what_a_process_has_begun_is_undone_when_it_is_fenced_off,
    of_two_that_fence_each_other_off_one_goes_on,
    a_row_that_is_missing_counts_as_marked,
    a_process_is_fenced_off_once,
    a_write_that_is_under_way_when_a_process_is_enlisted_is_done,
}

#[test]
fn the_process_of_a_file_has_no_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = rookery_store::sqlite::SqliteOptions::default();
    let store = rookery_store::sqlite::open(&folder.path().join("rookery.db"), &options).expect("a database");
    assert!(matches!(wait(store.enlist(FIRST)), Err(StoreError::Other(_))));
    assert!(matches!(wait(store.fence(SECOND)), Err(StoreError::Other(_))));
}

fn a_process_that_was_fenced_off_writes_nothing_and_is_told<S: EngineServer>() {
    let Some(rig) = FencingRig::<S>::start() else { return };
    let first = rig.process(FIRST);
    let second = rig.process(SECOND);
    let names: Vec<_> = (0..8).map(|n| format!("user{n}")).collect();
    for name in &names {
        assert_eq!(wait(first.push(name, "before")), Ok(Pushed::Kept));
    }
    assert_eq!(wait(second.store.fence(FIRST)), Ok(true));
    assert_eq!(first.told.try_recv(), Err(TryRecvError::Empty), "it has written nothing since");
    // On all of its connections, and more than once on each.
    for round in 0..2 {
        for name in &names {
            let refused = wait(first.push(name, "after"));
            assert!(matches!(refused, Err(StoreError::Fenced(_))), "{round}: {refused:?}");
        }
    }
    first.told.recv_timeout(Duration::from_secs(10)).expect("it is told");
    let entry = wait(first.stores.meta.put("fenced", vec![1]));
    assert!(matches!(entry, Err(StoreError::Fenced(_))), "{entry:?}");
    for name in &names {
        assert_eq!(second.waiting(name), ["before"]);
        assert_eq!(wait(second.push(name, "from another")), Ok(Pushed::Kept));
    }
    assert_eq!(wait(second.stores.meta.get("fenced")), Ok(None));
    assert_eq!(second.told.try_recv(), Err(TryRecvError::Empty));
}

/// The process was stopped in the middle of a transaction, which holds locks.
fn what_a_process_has_begun_is_undone_when_it_is_fenced_off<S: EngineServer>() {
    let Some(rig) = FencingRig::<S>::start() else { return };
    let proxy = Proxy::start(&rig.server.socket());
    let first = rig.process_at(&rig.server.address_by(&proxy, &rig.database), FIRST);
    let second = rig.process(SECOND);
    rig.server.harm(&rig.database, Harm::Slow);
    let stuck = first.push("romeo", "begun");
    while !rig.server.is_slow(&rig.database) {
        thread::sleep(Duration::from_millis(20));
    }
    proxy.stand(true);
    assert_eq!(wait(second.store.fence(FIRST)), Ok(true));
    rig.server.harm(&rig.database, Harm::None);
    assert_eq!(wait(second.push("romeo", "meanwhile")), Ok(Pushed::Kept));
    proxy.stand(false);
    // A write that is cut off for too long is given up before the fence is noticed.
    let refused = wait(stuck);
    assert!(
        matches!(
            refused,
            Err(StoreError::Fenced(_) | StoreError::Busy | StoreError::Away { .. } | StoreError::Lost(_))
        ),
        "{refused:?}"
    );
    let later = loop {
        match wait(first.push("romeo", "later")) {
            Err(StoreError::Busy | StoreError::Away { .. } | StoreError::Lost(_)) => {
                thread::sleep(Duration::from_millis(50))
            }
            other => break other,
        }
    };
    assert!(matches!(later, Err(StoreError::Fenced(_))), "{later:?}");
    first.told.recv_timeout(Duration::from_secs(10)).expect("it is told");
    assert_eq!(second.waiting("romeo"), ["meanwhile"]);
}

fn of_two_that_fence_each_other_off_one_goes_on<S: EngineServer>() {
    let Some(rig) = FencingRig::<S>::start() else { return };
    for round in 1..=4 {
        let [one, other] = [1, 2].map(|node| ProcessWriter { node, incarnation: round });
        let [first, second] = [rig.process(one), rig.process(other)];
        let outcomes = [first.store.fence(other), second.store.fence(one)].map(wait);
        let pushed = [&first, &second].map(|process| wait(process.push("romeo", "still here")));
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Ok(true)).count(), 1, "{outcomes:?}");
        for (outcome, pushed) in outcomes.iter().zip(&pushed) {
            assert_eq!(outcome.is_ok(), pushed.is_ok(), "{outcomes:?} {pushed:?}");
        }
        let is_told = |process: &FencedProcess| process.told.recv_timeout(Duration::from_millis(1)).is_ok();
        assert_eq!([is_told(&first), is_told(&second)], outcomes.map(|outcome| outcome.is_err()));
    }
}

fn a_row_that_is_missing_counts_as_marked<S: EngineServer>() {
    let Some(rig) = FencingRig::<S>::start() else { return };
    let first = rig.process(FIRST);
    rig.server.sql(&rig.database, "DELETE FROM rookery_lanes WHERE node = 1");
    let refused = wait(first.push("romeo", "without a row"));
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    assert_eq!(rig.process(SECOND).waiting("romeo"), Vec::<String>::new());
}

fn a_process_is_fenced_off_once<S: EngineServer>() {
    let Some(rig) = FencingRig::<S>::start() else { return };
    let first = rig.process(FIRST);
    let told: Vec<String> = S::check(&rig.address).iter().map(ToString::to_string).collect();
    assert!(!told.iter().any(|told| told.contains("nodes of the cluster")), "{told:?}");
    let another = rig.process(SECOND);
    let told: Vec<String> = S::check(&rig.address).iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|told| told.contains("the 2 nodes of the cluster 20")), "{told:?}");
    drop(another);
    // A command of the command line isn't one of the processes.
    let command = S::open(&rig.address, 1);
    assert_eq!(wait(command.fence(ProcessWriter { incarnation: 8, ..FIRST })), Ok(false), "it has never written");
    assert_eq!(wait(command.fence(FIRST)), Ok(true));
    assert_eq!(wait(command.fence(FIRST)), Ok(false));
    let next = rig.process(ProcessWriter { incarnation: 8, ..FIRST });
    assert_eq!(wait(next.push("romeo", "from the next one")), Ok(Pushed::Kept));
    assert!(matches!(wait(first.push("romeo", "from the last one")), Err(StoreError::Fenced(_))));
    assert_eq!(next.waiting("romeo"), ["from the next one"]);
}

fn a_write_that_is_under_way_when_a_process_is_enlisted_is_done<S: EngineServer>() {
    let Some(rig) = FencingRig::<S>::start() else { return };
    // Its connection has no row yet, and creates one in this transaction.
    let first = rig.process_before(&rig.address);
    let pushed = thread::scope(|scope| {
        scope.spawn(|| rig.server.lock_slowly(&rig.database));
        while !rig.server.is_locking(&rig.database) {
            thread::sleep(Duration::from_millis(5));
        }
        let begun = first.push("romeo", "begun");
        wait(first.store.enlist(FIRST)).expect("its rows");
        wait(begun)
    });
    assert_eq!(pushed, Ok(Pushed::Kept));
    assert_eq!(wait(first.push("romeo", "behind")), Ok(Pushed::Kept));
    assert_eq!(first.told.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(wait(rig.process(SECOND).store.fence(FIRST)), Ok(true));
    assert!(matches!(wait(first.push("romeo", "after")), Err(StoreError::Fenced(_))));
}

/// Without its lock a stalled session can't be found, and ended, by the processes that take over.
#[test]
fn a_connection_to_mariadb_serves_under_its_lock_alone() {
    let Some(rig) = FencingRig::<Mariadb>::start() else { return };
    let first = rig.process(FIRST);
    let sql = |statements: &str| rig.server.sql(&rig.database, statements).unwrap_or_default();
    let users: Vec<_> = (0..8).map(|user| format!("user{user}")).collect();
    for user in &users {
        assert_eq!(wait(first.push(user, "before")), Ok(Pushed::Kept));
    }
    // The connections that have written.
    let lanes = sql("SELECT lane FROM rookery_lanes WHERE node = 1 AND batch > 0");
    let names: Vec<_> = lanes.lines().map(|lane| lane.parse::<i64>().expect("a number")).collect();
    let names: Vec<_> = names.iter().map(|lane| format!("rookery {:016x}", lane.cast_unsigned())).collect();
    assert!(!names.is_empty());
    let waiting = || sql("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT GET_LOCK%'");
    thread::scope(|scope| {
        // Sessions of an administrator are waiting for the locks, and the process can't end them.
        for name in &names {
            let line = format!("SELECT GET_LOCK('{name}', 60), SLEEP(5)");
            let rig = &rig;
            scope.spawn(move || rig.server.sql(&rig.database, &line).expect("an answer"));
        }
        while waiting() != names.len().to_string() {
            thread::sleep(Duration::from_millis(20));
        }
        for name in &names {
            let session = sql(&format!("SELECT IS_USED_LOCK('{name}')"));
            sql(&format!("KILL {session}"));
        }
        for user in &users {
            let mut kept = (0..100).map(|_| wait(first.push(user, "again")));
            let kept = kept
                .find(|kept| !matches!(kept, Err(StoreError::Lost(_) | StoreError::Busy | StoreError::Away { .. })));
            assert_eq!(kept, Some(Ok(Pushed::Kept)));
        }
        for name in &names {
            let holder = format!(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE id = IS_USED_LOCK('{name}') \
                 AND COALESCE(info, '') NOT LIKE 'SELECT GET_LOCK%'"
            );
            assert_eq!(sql(&holder), "1", "a connection of the process has {name}");
        }
    });
}

/// A database with some accounts.
struct FencingRig<S> {
    server: S,
    address: String,
    database: String,
}

/// One of several processes.
struct FencedProcess {
    store: Arc<SqlStore>,
    stores: Stores,
    told: Receiver<()>,
}

impl<S: EngineServer> FencingRig<S> {
    /// Starts a rig; `None` if it is left out here.
    fn start() -> Option<FencingRig<S>> {
        let server = S::start()?;
        let address = server.database();
        let database = address.rsplit('/').next().expect("a name").to_owned();
        let rig = FencingRig { server, address, database };
        let stores = Stores::of(Arc::new(S::open(&rig.address, 1)));
        let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
        let names = ["romeo".to_owned()].into_iter().chain((0..8).map(|n| format!("user{n}")));
        wait(stores.accounts.create_many(names.map(|name| (jid(&name), credentials.clone())).collect()))
            .expect("accounts");
        Some(rig)
    }

    fn process(&self, own: ProcessWriter) -> FencedProcess {
        self.process_at(&self.address, own)
    }

    fn process_at(&self, address: &str, own: ProcessWriter) -> FencedProcess {
        let process = self.process_before(address);
        wait(process.store.enlist(own)).expect("its rows");
        process
    }

    /// Returns a process that is not enlisted yet.
    fn process_before(&self, address: &str) -> FencedProcess {
        let store = Arc::new(S::open(address, 2));
        let (tell, told) = channel();
        store.when_fenced(Box::new(move || tell.send(()).expect("somebody hears it")));
        FencedProcess { stores: Stores::of(store.clone()), store, told }
    }
}

impl FencedProcess {
    fn push(&self, to: &str, stanza: &str) -> Pending<Pushed> {
        let (to, from) = (jid(to), jid("mercutio"));
        self.stores.offline.push(to.as_ref(), from.as_ref(), stanza.into(), 1, OfflineRoom::UNBOUNDED)
    }

    fn waiting(&self, owner: &str) -> Vec<String> {
        let page = wait(self.stores.offline.load(jid(owner).as_ref(), 0, usize::MAX)).expect("a page");
        page.into_iter().map(|message| String::from_utf8(message.stanza).expect("text")).collect()
    }
}

fn jid(local: &str) -> Jid {
    Jid::parse(&format!("{local}@a.example")).expect("an address")
}

const FIRST: ProcessWriter = ProcessWriter { node: 1, incarnation: 7 };
const SECOND: ProcessWriter = ProcessWriter { node: 2, incarnation: 1 };
