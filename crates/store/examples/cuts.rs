//! Cuts connections to a database at random while they are written through, and counts what was lost and what was done twice: nothing should be.
//!
//! `cargo run --release -p rookery-store --example cuts [postgresql|mariadb] [CUTS]`; starts a database of its own.

use rookery_jid::Jid;
use rookery_needs::{Direction, Mariadb, Postgres, Proxy};
use rookery_sasl::Credentials;
use rookery_store::{OfflineRoom, Pushed, StoreError, Stores, mysql, postgres, wait};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let engine = arguments.next_if(|argument| argument.parse::<u64>().is_err()).unwrap_or("postgresql".into());
    let cuts = arguments.next().map_or(Ok(10_000), |cuts| cuts.parse())?;
    match engine.as_str() {
        "postgresql" => {
            let cluster = Postgres::start();
            let (database, proxy) = (cluster.database(), Proxy::start(&cluster.socket()));
            let way = cluster.address_by(&proxy, database.rsplit('/').next().unwrap_or_default());
            cut(&open(&database)?, &open(&way)?, &proxy, cuts)
        }
        "mariadb" => {
            let server = Mariadb::start();
            let (database, proxy) = (server.database(), Proxy::start(&server.socket()));
            let way = server.address_by(&proxy, database.rsplit('/').next().unwrap_or_default());
            cut(&open(&database)?, &open(&way)?, &proxy, cuts)
        }
        other => Err(format!("{other} is neither postgresql nor mariadb").into()),
    }
}

fn open(address: &str) -> Result<Stores, Box<dyn Error>> {
    if address.starts_with("mysql:") {
        let options = mysql::Options::at(mysql::Address::parse(address)?);
        return Ok(Stores::of(Arc::new(mysql::open(&mysql::Options { trusts_durability: true, ..options })?)));
    }
    let options = postgres::Options::at(postgres::Address::parse(address)?);
    Ok(Stores::of(Arc::new(postgres::open(&postgres::Options { trusts_durability: true, ..options })?)))
}

/// Cuts connections that go over the proxy, so many, and reports by a connection that doesn't.
fn cut(direct: &Stores, stores: &Stores, proxy: &Proxy, cuts: u64) -> Result<(), Box<dyn Error>> {
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).map_err(|error| error.to_string())?;
    wait(direct.accounts.create_many((0..WRITERS).map(|n| (account(n), credentials.clone())).collect()))?;
    let (is_over, start) = (AtomicBool::new(false), Instant::now());
    let told = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| {
                scope.spawn({
                    let is_over = &is_over;
                    move || write(stores, n, is_over)
                })
            })
            .collect();
        while proxy.cuts() < cuts {
            let random = RandomState::new().hash_one(());
            let direction = if random & 1 == 0 { Direction::Asked } else { Direction::Answered };
            let before = proxy.cuts();
            proxy.cut_behind(direction, random / 2 % MOST_BYTES);
            while proxy.cuts() == before {
                thread::sleep(Duration::from_micros(100));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    report(direct, &told)?;
    println!("{} cuts in {:.0?}; {:?}", proxy.cuts(), start.elapsed(), stores.meta.activity());
    Ok(())
}

/// What a writer was told of each message.
type Told = Vec<Result<(), StoreError>>;

/// Sends numbered messages to an account, several at a time, until it is over.
fn write(stores: &Stores, writer: usize, is_over: &AtomicBool) -> Told {
    let (owner, mut told) = (account(writer), Told::new());
    while !is_over.load(Ordering::Relaxed) {
        let push = |n: usize| {
            let stanza = n.to_string().into_bytes();
            stores.offline.push(owner.as_ref(), owner.as_ref(), stanza, 1, OfflineRoom::UNBOUNDED)
        };
        let flight: Vec<_> = (told.len()..told.len() + 1 + told.len() % 5).map(push).collect();
        told.extend(flight.into_iter().map(|pushed| match wait(pushed) {
            Ok(Pushed::Kept) => Ok(()),
            Ok(_) => Err(StoreError::NoAccount),
            Err(error) => Err(error),
        }));
    }
    told
}

/// Compares what is there with what was told.
fn report(stores: &Stores, told: &[Told]) -> Result<(), Box<dyn Error>> {
    let (mut kept, mut lost, mut doubled, mut refused_kept, mut disordered) = (0, 0, 0, 0, 0);
    let mut refusals = HashMap::<String, usize>::new();
    for (writer, told) in told.iter().enumerate() {
        let (mut found, mut seen, mut after) = (Vec::new(), HashSet::new(), 0);
        loop {
            let page = wait(stores.offline.load(account(writer).as_ref(), after, usize::MAX))?;
            let Some(last) = page.last() else { break };
            after = last.id;
            for message in page {
                found.push(String::from_utf8(message.stanza)?.parse::<usize>()?);
            }
        }
        disordered += usize::from(!found.is_sorted());
        doubled += found.iter().filter(|number| !seen.insert(**number)).count();
        for (number, told) in told.iter().enumerate() {
            match told {
                Ok(()) => {
                    kept += 1;
                    lost += usize::from(!seen.contains(&number));
                }
                Err(error) => {
                    *refusals.entry(format!("{error:?}")).or_default() += 1;
                    refused_kept += usize::from(seen.contains(&number));
                }
            }
        }
    }
    println!("{kept} acknowledged, {lost} of them lost; {doubled} kept twice; {disordered} accounts out of order");
    println!("{} refused, {refused_kept} of them kept: {refusals:?}", refusals.values().sum::<usize>());
    Ok(())
}

fn account(writer: usize) -> Jid {
    Jid::parse(&format!("user{writer}@a.example")).unwrap_or_else(|_| unreachable!("an address"))
}

const WRITERS: usize = 16;

/// How many bytes go before a cut, at most.
const MOST_BYTES: u64 = 6000;
