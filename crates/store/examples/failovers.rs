//! Takes the primary of a pair of databases away repeatedly during writes, makes the standby take
//! over, and counts lost and repeated writes, of which there should be none. Measures the time from
//! the beginning of the trouble to a write at the standby, which is promoted at once.
//!
//! `cargo run --release -p rookery-store --example failovers [postgresql|mariadb]
//! [killed|frozen|silent] [TIMES]`; starts its own databases, of which the standby has everything
//! that is acknowledged.

#[allow(dead_code, reason = "another example needs more of it")]
#[path = "../tests/engines/writers.rs"]
mod writers;

use rookery_jid::Jid;
use rookery_needs::{Followed, Mariadb, Pair, Postgres, Proxy};
use rookery_sasl::Credentials;
use rookery_store::{OfflineRoom, Pushed, Stores, mysql, postgres, wait};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut named = |names: &[&str]| arguments.next_if(|argument| names.contains(&argument.as_str()));
    let engine = named(&["postgresql", "mariadb"]).unwrap_or("postgresql".into());
    let trouble = match named(&["killed", "frozen", "silent"]).as_deref() {
        Some("frozen") => FailoverTrouble::Frozen,
        Some("silent") => FailoverTrouble::Silent,
        _ => FailoverTrouble::Killed,
    };
    let times = arguments.next().map_or(Ok(100), |times| times.parse())?;
    match engine.as_str() {
        "mariadb" => fail_over::<Mariadb>(trouble, times),
        _ => fail_over::<Postgres>(trouble, times),
    }
}

/// The ways in which a primary is taken away.
#[derive(Clone, Copy)]
enum FailoverTrouble {
    /// Its processes end, and its connections with them.
    Killed,
    /// Its processes stop, and its connections stay.
    Frozen,
    /// The network passes nothing on, on old connections and new ones, while the primary is well.
    Silent,
}

/// A database server that is reached through a socket, and whose stores can be opened.
trait OpenedStore: Followed {
    fn stores(address: &str) -> Result<Stores, Box<dyn Error>>;

    fn socket(&self) -> PathBuf;
}

impl OpenedStore for Postgres {
    fn stores(address: &str) -> Result<Stores, Box<dyn Error>> {
        let options = postgres::PostgresOptions::at(postgres::PostgresAddress::parse(address)?);
        Ok(Stores::of(Arc::new(postgres::open(&postgres::PostgresOptions { trusts_durability: true, ..options })?)))
    }

    fn socket(&self) -> PathBuf {
        Postgres::socket(self)
    }
}

impl OpenedStore for Mariadb {
    fn stores(address: &str) -> Result<Stores, Box<dyn Error>> {
        let options = mysql::MysqlOptions::at(mysql::MysqlAddress::parse(address)?);
        Ok(Stores::of(Arc::new(mysql::open(&mysql::MysqlOptions { trusts_durability: true, ..options })?)))
    }

    fn socket(&self) -> PathBuf {
        Mariadb::socket(self)
    }
}

/// Fails over this many times, and prints the outcome of all writes and the times until the
/// standbys were written to.
fn fail_over<S: OpenedStore>(trouble: FailoverTrouble, times: usize) -> Result<(), Box<dyn Error>> {
    let (start, mut waits) = (Instant::now(), Vec::new());
    let mut pair = Pair::<S>::start();
    for _ in 0..times {
        // The network is before the primary only.
        let way = Proxy::start(&pair.primary().socket());
        let [own, through] = [pair.primary().folder(), way.folder()].map(|folder| pair.primary().host(folder));
        let stores = S::stores(&pair.database().replace(&own, &through))?;
        writers::prepare(&stores)?;
        let probe = Jid::parse("probe@a.example")?;
        let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
        wait(stores.accounts.create(probe.as_ref(), credentials))?;
        let told = writers::write_while(&stores, || {
            // Some writers are in the middle of an operation.
            thread::sleep(Duration::from_millis(500));
            let begin = Instant::now();
            match trouble {
                FailoverTrouble::Killed => pair.kill(),
                FailoverTrouble::Frozen => pair.freeze(),
                FailoverTrouble::Silent => way.stand(true),
            }
            let earlier = pair.take_over();
            let promoted = begin.elapsed();
            until_written(&stores, &probe);
            waits.push((promoted, begin.elapsed()));
            Followed::kill(&earlier);
        });
        println!("{}\n{:?}", writers::compare(&stores, &told)?, stores.meta.activity());
        drop(stores);
        pair.replace();
    }
    let mut took: Vec<_> = waits.iter().map(|(_, took)| *took).collect();
    took.sort();
    println!("{times} failovers in {:.0?}; promoted and written to after {waits:.2?}", start.elapsed());
    println!("median {:.2?}", took.get(took.len() / 2).copied().unwrap_or_default());
    Ok(())
}

/// Writes until that succeeds.
fn until_written(stores: &Stores, owner: &Jid) {
    let write = || stores.offline.push(owner.as_ref(), owner.as_ref(), vec![1], 1, OfflineRoom::UNBOUNDED);
    while wait(write()) != Ok(Pushed::Kept) {
        thread::sleep(Duration::from_millis(1));
    }
}
