//! Compares partitioned archives with those in one table, on PostgreSQL and MariaDB: the time for a
//! page, and for removing messages that are too old for all owners.
//!
//! `cargo run --release -p rookery-store --example months postgresql|mariadb [MESSAGES]`: 500
//! accounts with a million messages of 300 bytes in a year, the older half of which is removed.
//! The databases are the example's own, in temporary folders, durable. The year begins today,
//! since a server creates months as time goes by.

use rookery_jid::Jid;
use rookery_needs::{Mariadb, Postgres};
use rookery_sasl::Credentials;
use rookery_store::sql::copy::EndAddress;
use rookery_store::{ArchiveOf, ArchiveQuery, ArchivedMessage, Expiry, Retention, Stores, mysql, postgres, wait};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() -> Result<(), Box<dyn Error>> {
    let engine = std::env::args().nth(1).unwrap_or_default();
    let messages = std::env::args().nth(2).map_or(Ok(1_000_000), |messages| messages.parse())?;
    match engine.as_str() {
        "postgresql" => {
            let cluster = Postgres::start_with(&["fsync=on", "synchronous_commit=on", "full_page_writes=on"]);
            for months in [false, true] {
                let options = postgres::PostgresOptions::at(postgres::PostgresAddress::parse(&cluster.database())?);
                let address = EndAddress::Postgres(Box::new(postgres::PostgresOptions { months, ..options }));
                measure(&address, months, messages)?;
            }
        }
        "mariadb" => {
            let server = Mariadb::start_with(&["--innodb-flush-method=fsync", "--innodb-buffer-pool-size=128M"]);
            for months in [false, true] {
                let database = server.database();
                let name = database.rsplit('/').next().unwrap_or_default();
                server.sql(&database, &format!("GRANT DROP, LOCK TABLES ON {name}.* TO rookery@'%'"))?;
                let options = mysql::MysqlOptions::at(mysql::MysqlAddress::parse(&database)?);
                measure(&EndAddress::Mysql(Box::new(mysql::MysqlOptions { months, ..options })), months, messages)?;
            }
        }
        _ => return Err("name an engine: postgresql or mariadb".into()),
    }
    Ok(())
}

/// Fills a database, reads pages, and removes the messages of half a year.
fn measure(address: &EndAddress, months: bool, messages: u64) -> Result<(), Box<dyn Error>> {
    let stores = Stores::of(Arc::new(address.open()?));
    let keeping = |days| Retention {
        domains: vec![Expiry { domain: DOMAIN.into(), before: at(days) }],
        now: at(YEAR),
        day: at(1) - at(0),
    };
    wait(stores.archive.months(keeping(0)))?;
    let begun = Instant::now();
    fill(&stores, messages)?;
    let written = begun.elapsed().as_secs_f64();
    println!("{}: {messages} messages written in {written:.0} s", if months { "months" } else { "one table" });
    let asked = [("the newest", None, YEAR), ("of a conversation", Some(contact(3)?), YEAR), ("old ones", None, 40)];
    for (what, with, days) in asked {
        println!("  a page of 50, {what}: {:.2} ms", pages(&stores, with.as_ref(), at(days))?.as_secs_f64() * 1000.0);
    }
    let begun = Instant::now();
    let gone = wait(stores.archive.months(keeping(YEAR / 2)))?;
    println!("  {gone} months gone in {:.2} s", begun.elapsed().as_secs_f64());
    let (begun, mut removed, mut after) = (Instant::now(), 0, 0);
    loop {
        // As a server sweeps, but without its pauses.
        let swept = wait(stores.archive.sweep(after, keeping(YEAR / 2), 500))?;
        removed += swept.removed;
        match swept.next {
            Some(next) => after = next,
            None => break,
        }
    }
    println!("  {removed} messages gone one by one in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Returns the mean time of a page of 50 over the accounts.
fn pages(stores: &Stores, with: Option<&Jid>, before: u64) -> Result<Duration, Box<dyn Error>> {
    let query = ArchiveQuery { with: with.cloned(), before, last: true, limit: 50, ..ArchiveQuery::default() };
    let query = ArchiveQuery { max_bytes: 1 << 20, ..query };
    let read = |number| -> Result<(), Box<dyn Error>> {
        wait(stores.archive.page(account(number)?.as_ref(), query.clone()))?;
        Ok(())
    };
    (0..ACCOUNTS).try_for_each(read)?;
    let begun = Instant::now();
    (0..ACCOUNTS).try_for_each(read)?;
    Ok(begun.elapsed() / ACCOUNTS as u32)
}

/// Writes the messages of a year, day by day, for each account in turn.
fn fill(stores: &Stores, messages: u64) -> Result<(), Box<dyn Error>> {
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).map_err(|error| error.to_string())?;
    let accounts: Vec<_> = (0..ACCOUNTS).map(account).collect::<Result<_, _>>()?;
    wait(stores.accounts.create_many(accounts.iter().map(|account| (account.clone(), credentials.clone())).collect()))?;
    let contacts: Vec<_> = (0..CONTACTS).map(contact).collect::<Result<_, _>>()?;
    let apart = (at(YEAR) - at(0)) / messages;
    for first in (0..messages).step_by(1000) {
        let message = |number: u64| ArchivedMessage {
            owner: accounts[(number % ACCOUNTS) as usize].clone(),
            of: ArchiveOf::Account,
            id: at(0) + number * apart,
            with: contacts[(number / ACCOUNTS % CONTACTS) as usize].clone(),
            contacts_only: false,
            stanza: vec![b'x'; 300],
            most: 0,
        };
        wait(stores.archive.append((first..messages.min(first + 1000)).map(message).collect()))?;
    }
    Ok(())
}

/// Returns the lowest id of a day, counted from today.
fn at(day: u64) -> u64 {
    let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
    ((today + day) * 86_400_000) << 21
}

fn account(number: u64) -> Result<Jid, Box<dyn Error>> {
    Ok(Jid::parse(&format!("user{number}@{DOMAIN}"))?)
}

fn contact(number: u64) -> Result<Jid, Box<dyn Error>> {
    Ok(Jid::parse(&format!("contact{number}@b.example"))?)
}

const DOMAIN: &str = "a.example";
const ACCOUNTS: u64 = 500;
/// The number of each account's contacts.
const CONTACTS: u64 = 20;
const YEAR: u64 = 365;
