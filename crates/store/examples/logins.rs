//! Measures how many logins a second a store can serve, by a login's queries: eight statements for
//! a user with a hundred contacts who are all offline.
//!
//! `cargo run --release -p rookery-store --example logins [postgres://… | searches [MESSAGES]]`;
//! without an address it starts its own PostgreSQL, simulates round trips of 0, 1 and 2 ms, and
//! measures SQLite as well. With `searches` it measures SQLite with an archive of a million
//! messages while other users search in it.

use rookery_jid::Jid;
use rookery_needs::{Postgres, Proxy};
use rookery_sasl::Credentials;
use rookery_store::{
    ArchiveOf, ArchiveQuery, ArchivedMessage, Edit, RosterItem, StoreError, Stores, Subscription, postgres, sqlite,
    wait,
};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:>12}  {:>9}  {:>9}  {:>9}  {:>9}", "round trip", "logins/s", "median", "p99", "longest");
    if std::env::args().nth(1).as_deref() == Some("searches") {
        let messages = std::env::args().nth(2).map_or(Ok(1_000_000), |messages| messages.parse())?;
        return beside_searches(messages);
    }
    if let Some(address) = std::env::args().nth(1) {
        let stores = postgres(&address)?;
        fill(&stores)?;
        return measure(&stores, "as it is");
    }
    let folder = tempfile::tempdir()?;
    let embedded = sqlite::open(&folder.path().join("rookery.db"), &sqlite::SqliteOptions::default())?;
    let embedded = Stores::of(Arc::new(embedded));
    fill(&embedded)?;
    measure(&embedded, "SQLite")?;
    let cluster = Postgres::start();
    let database = cluster.database();
    fill(&postgres(&database)?)?;
    let proxy = Proxy::start(&cluster.socket());
    let stores = postgres(&cluster.address_by(&proxy, database.rsplit('/').next().unwrap_or_default()))?;
    for round_trip in [0, 1000, 2000] {
        proxy.delay(Duration::from_micros(round_trip / 2));
        measure(&stores, &format!("{} ms", round_trip / 1000))?;
    }
    Ok(())
}

/// Measures logins on SQLite alone, and while users search a large archive.
fn beside_searches(messages: u64) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = sqlite::open(&folder.path().join("rookery.db"), &sqlite::SqliteOptions::default())?;
    let stores = Stores::of(Arc::new(store));
    fill(&stores)?;
    let ids = (1..=messages).map(|id| id << 24).collect::<Vec<_>>();
    for ids in ids.chunks(1000) {
        let message = |id: &u64| ArchivedMessage {
            owner: account(0),
            of: ArchiveOf::Account,
            id: *id,
            with: account((*id >> 24) as usize % 100 + 1),
            contacts_only: false,
            stanza: vec![b'x'; 300],
            most: 0,
        };
        wait(stores.archive.append(ids.iter().map(message).collect()))?;
    }
    for searches in [0, 1, 4, 16] {
        let (is_over, portions) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let searching: Vec<_> =
                (0..searches).map(|_| scope.spawn(|| search(&stores, &is_over, &portions))).collect();
            let measured = measure(&stores, &format!("{searches} search"));
            is_over.store(true, Ordering::Relaxed);
            searching.into_iter().try_for_each(|search| search.join().unwrap_or(Err(StoreError::Closed)))?;
            measured
        })?;
        println!("{:>12}  {:>9.0} portions/s", "", portions.load(Ordering::Relaxed) as f64 / TIME.as_secs_f64());
    }
    Ok(())
}

/// Reads an archive from its end, portion by portion, as a search without a match does.
fn search(stores: &Stores, is_over: &AtomicBool, portions: &AtomicUsize) -> Result<(), StoreError> {
    let whole = ArchiveQuery { last: true, limit: 500, max_bytes: 1 << 20, ..ArchiveQuery::default() };
    let mut query = whole.clone();
    while !is_over.load(Ordering::Relaxed) {
        let page = wait(stores.archive.page(account(0).as_ref(), query.clone()))?.unwrap_or_default();
        portions.fetch_add(1, Ordering::Relaxed);
        query = match page.messages.first() {
            Some((oldest, _)) if page.more => ArchiveQuery { before: *oldest, ..whole.clone() },
            _ => whole.clone(),
        };
    }
    Ok(())
}

fn postgres(address: &str) -> Result<Stores, Box<dyn Error>> {
    let address = postgres::PostgresAddress::parse(address)?;
    let options = postgres::PostgresOptions { trusts_durability: true, ..postgres::PostgresOptions::at(address) };
    Ok(Stores::of(Arc::new(postgres::open(&options)?)))
}

/// Makes the accounts, their rosters, and their last presence.
fn fill(stores: &Stores) -> Result<(), Box<dyn Error>> {
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).map_err(|error| error.to_string())?;
    let all = (0..ACCOUNTS).map(account);
    wait(stores.accounts.create_many(all.clone().map(|account| (account, credentials.clone())).collect()))?;
    let mut under_way = Vec::new();
    for (number, owner) in all.enumerate() {
        under_way.push(stores.last_presence.put(owner.as_ref(), 1, b"<presence type='unavailable'/>".to_vec()));
        for contact in contacts(number) {
            let item = RosterItem { subscription: Subscription::Both, ..RosterItem::new(contact.clone()) };
            let edit = Box::new(move |_: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| Edit::Put(item.clone()));
            drop(stores.rosters.change(owner.as_ref(), contact.as_ref(), edit));
        }
        // The operations after the contacts are done when those are.
        let last = under_way.pop();
        last.map(wait).transpose()?;
        wait(stores.rosters.item(owner.as_ref(), owner.as_ref()))?;
    }
    Ok(())
}

/// Runs the queries of the server for a client that logs in, fetches the roster and becomes
/// available.
fn login(stores: &Stores, number: usize) -> Result<(), StoreError> {
    let account = account(number);
    let owner = account.as_ref();
    wait(stores.accounts.for_login(owner))?;
    let (lists, contacts_of) = (stores.documents.get(owner, "privacy"), stores.rosters.contacts(owner));
    wait(lists)?;
    wait(contacts_of)?;
    wait(stores.rosters.get(owner))?;
    let (requests, offline) = (stores.rosters.pending_in(owner, None, 50), stores.offline.load(owner, 0, 1 << 16));
    let announced = stores.documents.get(owner, "announced");
    let seen = stores.last_presence.of(owner, contacts(number), "privacy");
    wait(requests)?;
    wait(offline)?;
    wait(announced)?;
    wait(seen).map(drop)
}

fn measure(stores: &Stores, what: &str) -> Result<(), Box<dyn Error>> {
    let (next, start) = (AtomicUsize::new(0), Instant::now());
    let mut times = thread::scope(|scope| {
        let client = || -> Result<Vec<Duration>, StoreError> {
            let mut times = Vec::new();
            while start.elapsed() < TIME {
                let began = Instant::now();
                login(stores, next.fetch_add(1, Ordering::Relaxed) * 7919 % ACCOUNTS)?;
                times.push(began.elapsed());
            }
            Ok(times)
        };
        let clients: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(client)).collect();
        let times = clients.into_iter().map(|client| client.join().unwrap_or(Err(StoreError::Closed)));
        times.collect::<Result<Vec<_>, _>>()
    })?
    .concat();
    times.sort_unstable();
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    let at = |share: usize| times.get((times.len() * share / 100).min(times.len() - 1)).copied().unwrap_or_default();
    println!("{what:>12}  {rate:>9.0}  {:>9.1?}  {:>9.1?}  {:>9.1?}", at(50), at(99), at(100));
    Ok(())
}

fn account(number: usize) -> Jid {
    Jid::parse(&format!("user{}@a.example", number % ACCOUNTS)).unwrap_or_else(|_| unreachable!("an address"))
}

fn contacts(number: usize) -> Vec<Jid> {
    (1..=CONTACTS).map(|n| account(number + n)).collect()
}

const ACCOUNTS: usize = 1000;
const CONTACTS: usize = 100;
/// The logins in progress.
const AT_ONCE: usize = 64;
/// The time for each row.
const TIME: Duration = Duration::from_secs(10);
