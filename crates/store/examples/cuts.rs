//! Cuts connections to a database at random during writes, and counts lost and repeated writes, of
//! which there should be none.
//!
//! `cargo run --release -p rookery-store --example cuts [postgresql|mariadb] [CUTS]`; starts a
//! database of its own.

#[allow(dead_code, reason = "another example needs more of it")]
#[path = "../tests/engines/writers.rs"]
mod writers;

use rookery_needs::{Mariadb, Postgres, Proxy, ProxyDirection};
use rookery_store::{Stores, mysql, postgres};
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
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
            write_through_cuts(&open(&database)?, &open(&way)?, &proxy, cuts)
        }
        "mariadb" => {
            let server = Mariadb::start();
            let (database, proxy) = (server.database(), Proxy::start(&server.socket()));
            let way = server.address_by(&proxy, database.rsplit('/').next().unwrap_or_default());
            write_through_cuts(&open(&database)?, &open(&way)?, &proxy, cuts)
        }
        other => Err(format!("{other} is neither postgresql nor mariadb").into()),
    }
}

fn open(address: &str) -> Result<Stores, Box<dyn Error>> {
    if address.starts_with("mysql:") {
        let options = mysql::MysqlOptions::at(mysql::MysqlAddress::parse(address)?);
        return Ok(Stores::of(Arc::new(mysql::open(&mysql::MysqlOptions { trusts_durability: true, ..options })?)));
    }
    let options = postgres::PostgresOptions::at(postgres::PostgresAddress::parse(address)?);
    Ok(Stores::of(Arc::new(postgres::open(&postgres::PostgresOptions { trusts_durability: true, ..options })?)))
}

/// Cuts this many connections through the proxy, and reports over a connection that bypasses it.
fn write_through_cuts(direct: &Stores, stores: &Stores, proxy: &Proxy, cuts: u64) -> Result<(), Box<dyn Error>> {
    writers::prepare(direct)?;
    let start = Instant::now();
    let told = writers::write_while(stores, || {
        while proxy.cuts() < cuts {
            let random = RandomState::new().hash_one(());
            let direction = if random & 1 == 0 { ProxyDirection::Asked } else { ProxyDirection::Answered };
            let before = proxy.cuts();
            proxy.cut_behind(direction, random / 2 % MOST_BYTES);
            while proxy.cuts() == before {
                thread::sleep(Duration::from_micros(100));
            }
        }
    });
    println!("{}", writers::compare(direct, &told)?);
    println!("{} cuts in {:.0?}; {:?}", proxy.cuts(), start.elapsed(), stores.meta.activity());
    Ok(())
}

/// The most bytes that pass before a cut.
const MOST_BYTES: u64 = 6000;
