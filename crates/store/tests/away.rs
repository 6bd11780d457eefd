//! Tests a database that becomes unreachable, freezes, is full, can't be written to, kills its
//! clients, deadlocks or is slow: a caller that needs it waits or is refused, and continues when it
//! is back.

#[allow(dead_code, reason = "tests of other troubles need more of it")]
mod engines;

use engines::{EngineServer, Harm};
use rookery_jid::Jid;
use rookery_needs::{Proxy, SilentPort, family, signal};
use rookery_sasl::Credentials;
use rookery_store::archive::BYTES_PER_MESSAGE;
use rookery_store::sql::QueueBounds;
use rookery_store::{
    ArchiveOf, ArchivePage, ArchiveQuery, ArchivedMessage, OfflineRoom, Pending, Pushed, StoreError, Stores, wait,
};
use std::fs;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

engines::tests! {
    a_database_that_comes_back_soon_is_waited_for,
    a_database_that_stays_away_refuses_in_time_and_is_found_again,
    what_waits_for_a_database_that_is_away_is_bounded,
    a_database_that_goes_away_is_missed_by_those_who_want_nothing_of_it,
    a_database_that_stands_still_is_given_up_and_found_again,
    a_database_that_ends_its_connections_loses_nothing,
    what_a_silent_connection_has_locked_is_let_go,
    long_reads_over_a_silent_network_hold_up_nobody_else,
    a_deadlock_is_resolved,
    what_is_slow_for_one_is_not_slow_for_others,
    a_full_database_is_read_and_written_to_again_when_there_is_room,
    a_database_that_can_only_be_read_is_read,
    what_others_take_out_of_an_archive_counts_no_more,
    hosts_that_are_silent_hide_none,
}

/// Like machines without power: there are more of them than a connection could wait for in turn.
fn hosts_that_are_silent_hide_none<S: EngineServer>() {
    let Some(server) = S::start() else { return };
    let (silent, database) = ([(); 3].map(|()| SilentPort::listen()), server.database());
    let hosts: String = silent.iter().map(|silent| format!("{},", silent.address())).collect();
    let address = database.replacen('@', &format!("@{hosts}"), 1);
    let stores = Stores::of(Arc::new(S::open(&address, 2)));
    assert_eq!(wait(stores.meta.put("key", vec![1])), Ok(()));
    server.disconnect(&database);
    assert_eq!(wait(stores.meta.put("key", vec![2])), Ok(()), "it is found again");
    let told: Vec<String> = S::check(&address).iter().map(ToString::to_string).collect();
    let count = |words: &str| told.iter().filter(|told| told.contains(words)).count();
    assert_eq!((count("can't be used: it doesn't answer"), count("can be written to")), (3, 1), "{told:?}");
}

fn a_database_that_comes_back_soon_is_waited_for<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(2) else { return };
    rig.proxy.refuse(true);
    rig.proxy.cut_all();
    let pushed = rig.push("romeo", "1");
    let read = rig.stores.accounts.for_login(jid("juliet").as_ref());
    thread::sleep(Duration::from_secs(1));
    rig.proxy.refuse(false);
    assert_eq!(wait(pushed), Ok(Pushed::Kept));
    assert!(wait(read).expect("a read").is_some());
    rig.expect_waiting("romeo", &["1"]);
}

fn a_database_that_stays_away_refuses_in_time_and_is_found_again<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(2) else { return };
    rig.proxy.refuse(true);
    rig.proxy.cut_all();
    let answers = [rig.push("romeo", "1"), rig.push("juliet", "2")];
    let answers = answers.map(wait);
    assert!(answers.iter().all(is_away), "{answers:?}");
    assert!(rig.stores.meta.activity().away_since_ms.is_some());
    let trouble = rig.stores.meta.trouble();
    assert!(matches!(trouble, Some(StoreError::Lost(_))), "probes hear of it: {trouble:?}");
    // Of many callers in the meantime, a bounded number waits.
    let many: Vec<_> = (0..40_000).map(|n| rig.push("romeo", &format!("many {n}"))).collect();
    let refused = many.into_iter().map(wait).filter(is_away).count();
    assert_eq!(refused, 40_000);
    rig.proxy.refuse(false);
    while rig.stores.meta.trouble().is_some() {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(wait(rig.push("romeo", "3")), Ok(Pushed::Kept), "nobody had to ask for it to be found");
    rig.expect_waiting("romeo", &["3"]);
}

/// Stanzas of one and a half gibibytes are offered, and also logins, which have separate
/// places in the queue.
fn what_waits_for_a_database_that_is_away_is_bounded<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(4) else { return };
    rig.proxy.refuse(true);
    rig.proxy.cut_all();
    let bounds = QueueBounds::default();
    let (stanza, before) = ("x".repeat(64 << 10), resident());
    let (mut most, mut refused, mut waiting) = ((0, 0), 0, Vec::new());
    for number in 0..24_000 {
        let owner = format!("user{}", number % 20);
        let mut pushed = rig.push(&owner, &stanza);
        match ready(&mut pushed) {
            Some(answer) => {
                assert!(is_refused(&answer), "{answer:?}");
                refused += 1;
            }
            None => waiting.push(pushed),
        }
        drop(rig.stores.accounts.for_login(jid(&owner).as_ref()));
        if number % 100 == 0 {
            let activity = rig.stores.meta.activity();
            most = (most.0.max(activity.operations), most.1.max(activity.bytes));
            let grown = resident().saturating_sub(before);
            assert!(grown < 512 << 20, "{grown} bytes more than before, {activity:?}");
        }
    }
    // Each lane may have begun one when nothing waited.
    let (operations, bytes) = (bounds.operations + CONNECTIONS, bounds.bytes + CONNECTIONS * stanza.len());
    assert!(most.0 <= operations && most.1 <= bytes, "{most:?}");
    assert!(most.1 > bounds.bytes / 4, "{most:?}: some wait");
    assert!(refused > 20_000, "{refused} were refused at once");
    for pushed in waiting {
        let answer = wait(pushed);
        assert!(is_refused(&answer), "{answer:?}");
    }
    rig.proxy.refuse(false);
    while rig.stores.meta.trouble().is_some() || rig.stores.meta.activity().operations > 0 {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(rig.stores.meta.activity().bytes, 0);
    assert_eq!(wait(rig.push("romeo", "1")), Ok(Pushed::Kept));
    rig.expect_waiting("romeo", &["1"]);
}

/// Operators learn the truth even if the server is idle.
fn a_database_that_goes_away_is_missed_by_those_who_want_nothing_of_it<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(2) else { return };
    assert_eq!(rig.stores.meta.trouble(), None);
    let before = rig.stores.meta.activity().reconnects;
    rig.proxy.refuse(true);
    rig.proxy.cut_all();
    while rig.stores.meta.trouble().is_none() {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(matches!(rig.stores.meta.trouble(), Some(StoreError::Lost(_))));
    rig.proxy.refuse(false);
    // Each connection notices by itself, and none may be in the middle of a login when all are cut
    // again.
    let all = 2 + BESIDE;
    while rig.stores.meta.trouble().is_some() || rig.stores.meta.activity().reconnects < before + all {
        thread::sleep(Duration::from_millis(50));
    }
    // One that was cut in its login has come twice, and another may be in the middle of its own.
    let mut reconnects = rig.stores.meta.activity().reconnects;
    loop {
        thread::sleep(Duration::from_secs(2));
        let later = rig.stores.meta.activity().reconnects;
        if later == std::mem::replace(&mut reconnects, later) {
            break;
        }
    }
    // A connection that merely ended is replaced without reports of trouble.
    rig.proxy.cut_all();
    while rig.stores.meta.activity().reconnects == reconnects {
        thread::sleep(Duration::from_millis(50));
        assert_eq!(rig.stores.meta.trouble(), None);
    }
}

fn a_database_that_stands_still_is_given_up_and_found_again<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(2) else { return };
    let processes = family(rig.server.process());
    signal("STOP", &processes);
    let answers = [rig.push("romeo", "1"), rig.push("juliet", "2")];
    let refused = answers.map(wait);
    let trouble = rig.stores.meta.trouble();
    signal("CONT", &processes);
    for answer in refused {
        assert!(is_refused(&answer) || matches!(answer, Err(StoreError::Lost(_))), "{answer:?}");
    }
    assert!(trouble.is_some(), "probes hear of it");
    assert_eq!(rig.push_until_kept("romeo", "3"), Pushed::Kept);
    rig.expect_waiting("romeo", &["3"]);
}

fn a_database_that_ends_its_connections_loses_nothing<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(3) else { return };
    let names: Vec<_> = (0..300).map(|n| n.to_string()).collect();
    for portion in names.chunks(10) {
        let pushed: Vec<_> = portion.iter().map(|name| rig.push("romeo", name)).collect();
        rig.server.disconnect(&rig.database);
        for pushed in pushed {
            assert_eq!(wait(pushed), Ok(Pushed::Kept));
        }
    }
    rig.expect_waiting("romeo", &names.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The server doesn't notice for a long time that the other end is gone.
fn what_a_silent_connection_has_locked_is_let_go<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(1) else { return };
    rig.server.harm(&rig.database, Harm::Slow);
    let first = rig.push("romeo", "1");
    while !rig.server.is_slow(&rig.database) {}
    rig.proxy.silence();
    // He and his account's row are in a transaction that nobody ends.
    let first = wait(first);
    assert!(is_refused(&first), "{first:?}");
    assert_eq!(wait(rig.push("romeo", "2")), Ok(Pushed::Kept));
    rig.expect_waiting("romeo", &["2"]);
    // Long reads would be waited for longer.
    rig.proxy.cut_all();
}

/// Long reads may take a minute: other operations, or later ones, don't wait that long.
fn long_reads_over_a_silent_network_hold_up_nobody_else<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(1) else { return };
    let page = || rig.stores.archive.page(jid("romeo").as_ref(), ArchiveQuery { limit: 9, ..ArchiveQuery::default() });
    assert_eq!(wait(page()), Ok(Some(ArchivePage::default())));
    rig.proxy.silence();
    let mut first = page();
    let pushed = wait(rig.push("romeo", "1"));
    assert!(is_refused(&pushed), "{pushed:?}");
    assert_eq!(rig.push_until_kept("romeo", "2"), Pushed::Kept);
    let second = wait(page());
    assert!(is_refused(&second), "{second:?}: the lane of long reads is busy, and says so");
    assert!(ready(&mut first).is_none(), "an answer may yet come");
    let first = wait(first);
    assert!(is_refused(&first) || matches!(first, Err(StoreError::Lost(_))), "{first:?}");
    while wait(page()) != Ok(Some(ArchivePage::default())) {}
    rig.expect_waiting("romeo", &["2"]);
}

fn a_deadlock_is_resolved<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(1) else { return };
    thread::scope(|scope| {
        let other = scope.spawn(|| rig.server.lock_slowly(&rig.database));
        while !rig.server.is_locking(&rig.database) && !other.is_finished() {}
        // One transaction: juliet is locked first, then it waits for romeo.
        let answers = [rig.push("juliet", "1"), rig.push("romeo", "2")];
        assert_eq!(answers.map(wait), [Ok(Pushed::Kept), Ok(Pushed::Kept)]);
        other.join().expect("the other one");
    });
    rig.expect_waiting("juliet", &["1"]);
    rig.expect_waiting("romeo", &["2"]);
}

fn what_is_slow_for_one_is_not_slow_for_others<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(4) else { return };
    rig.server.harm(&rig.database, Harm::Slow);
    let mut slow = rig.push("romeo", "1");
    let accounts: Vec<_> = (0..20).map(|n| jid(&format!("user{n}"))).collect();
    let mut reads: Vec<_> = accounts.iter().map(|account| rig.stores.accounts.for_login(account.as_ref())).collect();
    // The reads in the other lanes.
    while reads.iter_mut().filter_map(ready).count() == 0 {
        thread::sleep(Duration::from_millis(1));
        assert!(ready(&mut slow).is_none(), "none of twenty logins was done before the slow one");
    }
    assert_eq!(wait(slow), Ok(Pushed::Kept));
}

fn a_full_database_is_read_and_written_to_again_when_there_is_room<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(2) else { return };
    rig.server.harm(&rig.database, Harm::Full);
    let refused = wait(rig.push("romeo", "1"));
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert!(matches!(rig.stores.meta.trouble(), Some(StoreError::Full(_))));
    assert!(wait(rig.stores.accounts.for_login(jid("romeo").as_ref())).expect("a read").is_some());
    rig.server.harm(&rig.database, Harm::None);
    assert_eq!(wait(rig.push("romeo", "2")), Ok(Pushed::Kept));
    assert_eq!(rig.stores.meta.trouble(), None);
    rig.expect_waiting("romeo", &["2"]);
}

fn a_database_that_can_only_be_read_is_read<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(2) else { return };
    rig.server.set_read_only(&rig.database, true);
    let refused = wait(rig.push("romeo", "1"));
    assert!(matches!(refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
    assert!(wait(rig.stores.accounts.for_login(jid("romeo").as_ref())).expect("a read").is_some());
    assert!(rig.stores.meta.trouble().is_some(), "probes hear of it");
    rig.server.set_read_only(&rig.database, false);
    // The trouble also ends without writes by users, whom probes may keep away.
    while rig.stores.meta.trouble().is_some() {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(rig.push_until_kept("romeo", "2"), Pushed::Kept);
    rig.expect_waiting("romeo", &["2"]);
}

/// Another server removes a message from an archive while this one writes the archive's size.
fn what_others_take_out_of_an_archive_counts_no_more<S: EngineServer>() {
    let Some(rig) = AwayRig::<S>::start(1) else { return };
    let append = |id| {
        let (owner, with) = (jid("romeo"), jid("juliet"));
        let stanza = b"<message/>".to_vec();
        let of = ArchiveOf::Account;
        let message = ArchivedMessage { owner, of, id, with, contacts_only: false, stanza, most: 0 };
        rig.stores.archive.append([message].into())
    };
    // The size is written with the next one.
    for id in 1..64 {
        assert_eq!(wait(append(id)), Ok(()));
    }
    let take = format!(
        "BEGIN; SELECT id FROM archives FOR UPDATE; {}; DELETE FROM archive_messages WHERE owner = (SELECT MAX(id) FROM archives) AND id = 1; \
         UPDATE rookery_epoch SET value = value + 1; COMMIT",
        S::sleep()
    );
    thread::scope(|scope| {
        let other = scope.spawn(|| rig.server.sql(&rig.database, &take));
        while !rig.server.is_slow(&rig.database) && !other.is_finished() {}
        assert_eq!(wait(append(64)), Ok(()));
        other.join().expect("the other one");
    });
    for id in 65..256 {
        assert_eq!(wait(append(id)), Ok(()));
    }
    let size = BYTES_PER_MESSAGE + "<message/>".len() as u64;
    let counted = format!(
        "SELECT bytes > 0, bytes = {size} * (SELECT COUNT(*) FROM archive_messages WHERE id <= counted) FROM archives"
    );
    let counted = rig.server.sql(&rig.database, &counted);
    assert!(["t|t", "1\t1"].contains(&counted.as_str()), "{counted}");
}

struct AwayRig<S> {
    /// Through the proxy.
    stores: Stores,
    proxy: Proxy,
    database: String,
    server: S,
}

impl<S: EngineServer> AwayRig<S> {
    /// Starts a database with some accounts; `None` if it is left out here.
    fn start(connections: usize) -> Option<AwayRig<S>> {
        let server = S::start()?;
        let database = server.database().rsplit('/').next().expect("a name").to_owned();
        let proxy = Proxy::start(&server.socket());
        let stores = Stores::of(Arc::new(S::open(&server.address_by(&proxy, &database), connections)));
        let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
        let names = ["romeo".to_owned(), "juliet".to_owned()].into_iter().chain((0..20).map(|n| format!("user{n}")));
        let accounts = names.map(|name| (jid(&name), credentials.clone())).collect();
        wait(stores.accounts.create_many(accounts)).expect("accounts");
        Some(AwayRig { stores, proxy, database, server })
    }

    fn push(&self, to: &str, stanza: &str) -> Pending<Pushed> {
        let (to, from) = (jid(to), jid("mercutio"));
        self.stores.offline.push(to.as_ref(), from.as_ref(), stanza.into(), 1, OfflineRoom::UNBOUNDED)
    }

    /// Sends a message repeatedly until the database accepts it.
    fn push_until_kept(&self, to: &str, stanza: &str) -> Pushed {
        loop {
            if let Ok(pushed) = wait(self.push(to, stanza)) {
                return pushed;
            }
        }
    }

    /// Compares the waiting messages with the acknowledged ones.
    fn expect_waiting(&self, owner: &str, expected: &[&str]) {
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let page = wait(self.stores.offline.load(jid(owner).as_ref(), after, usize::MAX)).expect("a page");
            let Some(last) = page.last() else { break };
            after = last.id;
            found.extend(page.into_iter().map(|message| String::from_utf8(message.stanza).expect("text")));
        }
        assert_eq!(found, expected);
    }
}

/// Returns this process's resident memory in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let number = line.trim().trim_end_matches(" kB").trim();
    number.parse::<usize>().expect("a number of kibibytes") << 10
}

/// The connections of a store with four for owners.
const CONNECTIONS: usize = 6;

/// Returns whether the database was away for longer than the operation could wait.
fn is_away<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Away { .. }))
}

/// Returns whether the database was away, or the operation took too long although the database can
/// be reached.
fn is_refused<T>(answer: &Result<T, StoreError>) -> bool {
    is_away(answer) || matches!(answer, Err(StoreError::Busy))
}

fn ready<T>(pending: &mut Pending<T>) -> Option<Result<T, StoreError>> {
    match pending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn jid(local: &str) -> Jid {
    Jid::parse(&format!("{local}@a.example")).expect("an address")
}

/// The connections besides the requested ones: for archives, and for long reads.
const BESIDE: u64 = 2;
