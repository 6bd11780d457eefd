//! PostgreSQL that goes away, stands still, is full, can't be written to, kills its clients, deadlocks or is slow: whoever needs it waits or is refused, and
//! goes on when it is there again.

use rookery_jid::Jid;
use rookery_needs::{Postgres, Proxy};
use rookery_sasl::Credentials;
use rookery_store::{OfflineRoom, Pending, Pushed, StoreError, Stores, postgres, wait};
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

#[test]
fn a_database_that_comes_back_soon_is_waited_for() {
    let Some(rig) = Rig::start(2) else { return };
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

#[test]
fn a_database_that_stays_away_refuses_in_time_and_is_found_again() {
    let Some(rig) = Rig::start(2) else { return };
    rig.proxy.refuse(true);
    rig.proxy.cut_all();
    let answers = [rig.push("romeo", "1"), rig.push("juliet", "2")];
    assert_eq!(answers.map(wait), [Err(StoreError::Busy), Err(StoreError::Busy)]);
    let trouble = rig.stores.meta.trouble();
    assert!(matches!(trouble, Some(StoreError::Lost(_))), "probes hear of it: {trouble:?}");
    // Many ask meanwhile: a bounded number waits.
    let many: Vec<_> = (0..40_000).map(|n| rig.push("romeo", &format!("many {n}"))).collect();
    let refused = many.into_iter().map(wait).filter(|answer| *answer == Err(StoreError::Busy)).count();
    assert_eq!(refused, 40_000);
    rig.proxy.refuse(false);
    while rig.stores.meta.trouble().is_some() {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(wait(rig.push("romeo", "3")), Ok(Pushed::Kept), "nobody had to ask for it to be found");
    rig.expect_waiting("romeo", &["3"]);
}

#[test]
fn a_database_that_stands_still_is_given_up_and_found_again() {
    let Some(rig) = Rig::start(2) else { return };
    let processes = rig.processes();
    signal("STOP", &processes);
    let answers = [rig.push("romeo", "1"), rig.push("juliet", "2")];
    let refused = answers.map(wait);
    let trouble = rig.stores.meta.trouble();
    signal("CONT", &processes);
    for answer in refused {
        assert!(matches!(answer, Err(StoreError::Busy | StoreError::Lost(_))), "{answer:?}");
    }
    assert!(trouble.is_some(), "probes hear of it");
    assert_eq!(rig.push_until_kept("romeo", "3"), Pushed::Kept);
    rig.expect_waiting("romeo", &["3"]);
}

#[test]
fn a_database_that_ends_its_connections_loses_nothing() {
    let Some(rig) = Rig::start(3) else { return };
    let names: Vec<_> = (0..300).map(|n| n.to_string()).collect();
    for portion in names.chunks(10) {
        let pushed: Vec<_> = portion.iter().map(|name| rig.push("romeo", name)).collect();
        rig.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'rookery'");
        for pushed in pushed {
            assert_eq!(wait(pushed), Ok(Pushed::Kept));
        }
    }
    rig.expect_waiting("romeo", &names.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_deadlock_is_resolved() {
    let Some(rig) = Rig::start(1) else { return };
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let sql = "BEGIN; UPDATE accounts SET offline_messages = offline_messages WHERE localpart = 'romeo'; SELECT pg_sleep(0.7); \
                 UPDATE accounts SET offline_messages = offline_messages WHERE localpart = 'juliet'; COMMIT";
            rig.cluster.psql(&rig.database, sql)
        });
        let is_locked = || {
            rig.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(0.7)%' AND state = 'active' AND pid <> pg_backend_pid()")
        };
        while is_locked() == "0" && !other.is_finished() {}
        // One transaction: juliet is locked first, then romeo waited for.
        let answers = [rig.push("juliet", "1"), rig.push("romeo", "2")];
        assert_eq!(answers.map(wait), [Ok(Pushed::Kept), Ok(Pushed::Kept)]);
        // Whichever of the two the database chose to end.
        let _ = other.join().expect("the other one");
    });
    rig.expect_waiting("juliet", &["1"]);
    rig.expect_waiting("romeo", &["2"]);
}

#[test]
fn what_is_slow_for_one_is_not_slow_for_others() {
    let Some(rig) = Rig::start(4) else { return };
    rig.trigger("PERFORM pg_sleep(2)");
    let mut slow = rig.push("romeo", "1");
    let accounts: Vec<_> = (0..20).map(|n| jid(&format!("user{n}"))).collect();
    let mut reads: Vec<_> = accounts.iter().map(|account| rig.stores.accounts.for_login(account.as_ref())).collect();
    // Those in the other lanes.
    while reads.iter_mut().filter_map(ready).count() == 0 {
        thread::sleep(Duration::from_millis(1));
        assert!(ready(&mut slow).is_none(), "none of twenty logins was done before the slow one");
    }
    assert_eq!(wait(slow), Ok(Pushed::Kept));
}

#[test]
fn a_full_database_is_read_and_written_to_again_when_there_is_room() {
    let Some(rig) = Rig::start(2) else { return };
    rig.trigger("RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'");
    let refused = wait(rig.push("romeo", "1"));
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert!(matches!(rig.stores.meta.trouble(), Some(StoreError::Full(_))));
    assert!(wait(rig.stores.accounts.for_login(jid("romeo").as_ref())).expect("a read").is_some());
    rig.sql("DROP TRIGGER harm ON offline_messages");
    assert_eq!(wait(rig.push("romeo", "2")), Ok(Pushed::Kept));
    assert_eq!(rig.stores.meta.trouble(), None);
    rig.expect_waiting("romeo", &["2"]);
}

#[test]
fn a_database_that_can_only_be_read_is_read() {
    let Some(rig) = Rig::start(2) else { return };
    let name = rig.database.clone();
    let set = |value: &str| {
        rig.cluster
            .psql("postgres", &format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}"))
            .expect("a setting");
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'rookery'";
        rig.cluster.psql("postgres", end).expect("connections that end");
    };
    set("on");
    let refused = wait(rig.push("romeo", "1"));
    assert!(matches!(refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
    assert!(wait(rig.stores.accounts.for_login(jid("romeo").as_ref())).expect("a read").is_some());
    assert!(rig.stores.meta.trouble().is_some(), "probes hear of it");
    set("off");
    assert_eq!(rig.push_until_kept("romeo", "2"), Pushed::Kept);
    rig.expect_waiting("romeo", &["2"]);
}

struct Rig {
    /// By way of the proxy.
    stores: Stores,
    proxy: Proxy,
    database: String,
    cluster: Postgres,
}

impl Rig {
    /// Starts a database with some accounts; `None` if it is to be left out here.
    fn start(connections: usize) -> Option<Rig> {
        if rookery_needs::skips("store.postgres") {
            return None;
        }
        let cluster = Postgres::start();
        let database = cluster.database().rsplit('/').next().expect("a name").to_owned();
        let proxy = Proxy::start(&cluster.socket());
        let address = postgres::Address::parse(&cluster.address_by(&proxy, &database)).expect("an address");
        let options = postgres::Options { trusts_durability: true, connections, ..postgres::Options::at(address) };
        let stores = Stores::of(Arc::new(postgres::open(&options).expect("a database")));
        let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
        let names = ["romeo".to_owned(), "juliet".to_owned()].into_iter().chain((0..20).map(|n| format!("user{n}")));
        let accounts = names.map(|name| (jid(&name), credentials.clone())).collect();
        wait(stores.accounts.create_many(accounts)).expect("accounts");
        Some(Rig { stores, proxy, database, cluster })
    }

    fn push(&self, to: &str, stanza: &str) -> Pending<Pushed> {
        let (to, from) = (jid(to), jid("mercutio"));
        self.stores.offline.push(to.as_ref(), from.as_ref(), stanza.into(), 1, OfflineRoom::UNBOUNDED)
    }

    /// Sends a message again and again until the database takes it.
    fn push_until_kept(&self, to: &str, stanza: &str) -> Pushed {
        loop {
            if let Ok(pushed) = wait(self.push(to, stanza)) {
                return pushed;
            }
        }
    }

    /// Compares the messages that wait with those that were acknowledged.
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

    fn sql(&self, sql: &str) -> String {
        self.cluster.psql(&self.database, sql).expect("a statement")
    }

    /// Lets something happen whenever a message is kept.
    fn trigger(&self, body: &str) {
        self.sql(&format!(
            "CREATE FUNCTION harm() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$; \
             CREATE TRIGGER harm BEFORE INSERT ON offline_messages FOR EACH ROW EXECUTE FUNCTION harm()"
        ));
    }

    /// The processes of the database.
    fn processes(&self) -> Vec<u32> {
        let main = self.cluster.process();
        let all = std::fs::read_dir("/proc")
            .expect("the processes")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let is_of = |process: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
            *process == main || parent == Some(main)
        };
        all.filter(is_of).collect()
    }
}

fn signal(signal: &str, processes: &[u32]) {
    let numbers = processes.iter().map(u32::to_string);
    let sent = Command::new("kill").arg(format!("-{signal}")).args(numbers).status().expect("kill");
    assert!(sent.success(), "{signal} to {processes:?}");
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
