//! Tests that a process that is killed at any moment loses nothing that it acknowledged, and that
//! the next start needs no repair.
//!
//! The test runs itself again as a child, which writes and prints an acknowledgement for each
//! write, and kills it.

use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::{Edit, OfflineMessage, OfflineRoom, RosterItem, Stores, Subscription, sqlite, wait};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[test]
fn acknowledged_writes_survive_a_kill() {
    if let Some(database) = std::env::var_os(DATABASE) {
        return write_until_killed(Path::new(&database));
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let database = directory.path().join("rookery.db");
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let heard = killed_child(&database, round);
        acknowledged = heard.unwrap_or(acknowledged);
        let kept = verify(&database, acknowledged);
        assert!(kept >= acknowledged, "round {round}: {acknowledged} were acknowledged, {kept} kept");
    }
    assert!(acknowledged > ROUNDS, "the children wrote {acknowledged}");
}

/// Starts a child, kills it at a moment that differs from round to round, and returns the last
/// number that it acknowledged.
fn killed_child(database: &Path, round: u64) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "acknowledged_writes_survive_a_kill", "--nocapture"])
        .env(DATABASE, database)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test once more");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let (heard, first_heard) = mpsc::channel();
    let reader = thread::spawn(move || {
        let numbers = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix(ACKNOWLEDGED)?.parse().ok());
        numbers.inspect(|_| heard.send(()).unwrap_or_default()).last()
    });
    // One child in eight is killed around its start, the others at some moment after their first
    // acknowledgement.
    if !round.is_multiple_of(8) {
        first_heard.recv().expect("a child that writes");
    }
    // The multiples of a prime spread over the 40 ms.
    thread::sleep(Duration::from_micros(round * 7_919 % 40_000));
    child.kill().expect("a child that runs");
    child.wait().expect("a child that was killed");
    reader.join().expect("the reader")
}

/// Opens the child's file and returns the number of writes in it, of which the first `acknowledged`
/// must be complete.
fn verify(database: &Path, acknowledged: u64) -> u64 {
    if !database.exists() {
        return 0;
    }
    let store = Arc::new(sqlite::open(database, &sqlite::SqliteOptions::default()).expect("no repair is needed"));
    let stores = Stores::of(store.clone());
    let owner = owner();
    if !wait(stores.accounts.exists(owner.as_ref())).expect("a whole database") {
        return 0;
    }
    let kept = wait(stores.offline.count(owner.as_ref())).expect("a whole database");
    let mut messages: Vec<OfflineMessage> = Vec::new();
    loop {
        let after = messages.last().map_or(0, |message| message.id);
        let page = wait(stores.offline.load(owner.as_ref(), after, usize::MAX)).expect("a whole database");
        if page.is_empty() {
            break;
        }
        messages.extend(page);
    }
    assert_eq!(messages.len() as u64, kept, "the count is that of the rows");
    for (n, message) in messages.iter().enumerate() {
        assert_eq!(message.stanza, stanza(n as u64 + 1), "no gap, nothing torn");
    }
    let contacts = wait(stores.rosters.contacts(owner.as_ref())).expect("a whole database").len() as u64;
    // Each number is first pushed and then made a contact, so the contacts may be one behind.
    assert!(contacts >= acknowledged && contacts <= kept, "{contacts} contacts, {kept} messages");
    drop(stores);
    store.close();
    let findings = sqlite::check(database);
    assert!(findings.iter().all(|finding| finding.severity == sqlite::Severity::Note), "{findings:?}");
    kept
}

/// The child: writes numbered messages and contacts, several at a time, and prints the number of
/// each finished one.
fn write_until_killed(database: &Path) {
    let store = sqlite::open(database, &sqlite::SqliteOptions::default()).expect("no repair is needed");
    let (stores, owner) = (Stores::of(Arc::new(store)), owner());
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
    wait(stores.accounts.create(owner.as_ref(), credentials)).expect("an account");
    let mut next = wait(stores.offline.count(owner.as_ref())).expect("a count") + 1;
    // The previous child may have been killed between a message and its contact.
    for behind in wait(stores.rosters.contacts(owner.as_ref())).expect("contacts").len() as u64 + 1..next {
        wait(stores.rosters.change(owner.as_ref(), contact(behind).as_ref(), add(behind))).expect("a contact");
    }
    loop {
        let flight: Vec<_> = (next..next + 1 + next % 7)
            .map(|n| {
                let pushed = stores.offline.push(owner.as_ref(), owner.as_ref(), stanza(n), n, OfflineRoom::UNBOUNDED);
                (n, pushed, stores.rosters.change(owner.as_ref(), contact(n).as_ref(), add(n)))
            })
            .collect();
        for (n, pushed, changed) in flight {
            wait(pushed).expect("a message kept");
            wait(changed).expect("a contact added");
            let mut output = std::io::stdout().lock();
            writeln!(output, "{ACKNOWLEDGED}{n}").and_then(|()| output.flush()).expect("a parent that listens");
            next = n + 1;
        }
    }
}

fn add(n: u64) -> rookery_store::EditRoster {
    Box::new(move |_, _| Edit::Put(RosterItem { subscription: Subscription::Both, ..RosterItem::new(contact(n)) }))
}

fn owner() -> Jid {
    Jid::parse("romeo@a.example").expect("an address")
}

fn contact(n: u64) -> Jid {
    Jid::parse(&format!("contact{n}@b.example")).expect("an address")
}

fn stanza(n: u64) -> Vec<u8> {
    format!("<message><body>{n}</body><pad>{}</pad></message>", "x".repeat((n % 3000) as usize)).into_bytes()
}

/// The variable that makes a process a child, with the path of its database.
const DATABASE: &str = "ROOKERY_KILLED_CHILD_DATABASE";

/// The beginning of an acknowledgement; the test harness prints lines of its own.
const ACKNOWLEDGED: &str = "acknowledged ";

const ROUNDS: u64 = 24;
