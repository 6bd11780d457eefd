//! Measures roughly how many operations a second a store performs: SQLite on this machine's disk,
//! or a database at an address.
//!
//! `cargo run --release -p rookery-store --example rates [DIRECTORY or URL]`; the directory should
//! be on the disk in question, the database at the URL should be empty. The database's settings for
//! durability aren't checked.

use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::{Edit, OfflineRoom, Pending, RosterItem, Stores, Subscription, postgres, sqlite, wait};
use std::collections::VecDeque;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::args().nth(1);
    let _directory;
    let store = match place.as_deref().filter(|place| place.starts_with("postgres")) {
        Some(url) => {
            let options = postgres::PostgresOptions::at(postgres::PostgresAddress::parse(url)?);
            postgres::open(&postgres::PostgresOptions { trusts_durability: true, ..options })?
        }
        None => {
            let directory = tempfile::tempdir_in(place.map_or_else(std::env::temp_dir, PathBuf::from))?;
            let file = directory.path().join("rookery.db");
            _directory = directory;
            sqlite::open(&file, &sqlite::SqliteOptions::default())?
        }
    };
    let stores = Stores::of(Arc::new(store));

    let accounts: Vec<Jid> =
        (0..ACCOUNTS).map(|n| Jid::parse(&format!("user{n}@a.example"))).collect::<Result<_, _>>()?;
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).map_err(|error| error.to_string())?;
    let rows = accounts.iter().map(|account| (account.clone(), credentials.clone())).collect();
    let start = Instant::now();
    wait(stores.accounts.create_many(rows))?;
    report("accounts created in one call", ACCOUNTS, start);

    let stanza = vec![b'x'; 300];
    let push = |n: usize| {
        stores.offline.push(
            accounts[n % 1000].as_ref(),
            accounts[n % 1000].as_ref(),
            stanza.clone(),
            1,
            OfflineRoom::UNBOUNDED,
        )
    };
    measure("offline pushes of 300 bytes, 1000 in flight", 100_000, 1000, push)?;
    measure("offline pushes of 300 bytes, one at a time", 1000, 1, push)?;

    let contacts: Vec<Jid> = (0..50).map(|n| Jid::parse(&format!("contact{n}@b.example"))).collect::<Result<_, _>>()?;
    let change = |n: usize| {
        let (owner, contact) = (&accounts[n / 50 % ACCOUNTS], &contacts[n % 50]);
        let item = RosterItem { subscription: Subscription::Both, ..RosterItem::new(contact.clone()) };
        stores.rosters.change(owner.as_ref(), contact.as_ref(), Box::new(move |_, _| Edit::Put(item.clone())))
    };
    measure("roster changes, 1000 in flight", 50 * ROSTERS, 1000, change)?;

    let owner = |n: usize| accounts[n * 7919 % ROSTERS].as_ref();
    measure("reads of a roster of 50, 100 in flight", 20_000, 100, |n| stores.rosters.get(owner(n)))?;
    measure("reads of the contacts of a roster of 50, 100 in flight", 20_000, 100, |n| {
        stores.rosters.contacts(owner(n))
    })?;
    measure("reads of credentials, 100 in flight", 100_000, 100, |n| {
        stores.accounts.credentials(accounts[n * 7919 % ACCOUNTS].as_ref())
    })?;
    Ok(())
}

/// Calls an operation a number of times, with a number of unanswered calls at a time.
fn measure<T>(
    what: &str,
    times: usize,
    in_flight: usize,
    call: impl Fn(usize) -> Pending<T>,
) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut flight = VecDeque::new();
    for n in 0..times {
        if flight.len() >= in_flight
            && let Some(oldest) = flight.pop_front()
        {
            wait(oldest)?;
        }
        flight.push_back(call(n));
    }
    for rest in flight {
        wait(rest)?;
    }
    report(what, times, start);
    Ok(())
}

fn report(what: &str, times: usize, start: Instant) {
    println!("{:>9.0}/s  {what}", times as f64 / start.elapsed().as_secs_f64());
}

const ACCOUNTS: usize = 100_000;

const ROSTERS: usize = 1000;
