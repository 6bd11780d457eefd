//! Kills the primary of a pair of PostgreSQLs repeatedly during writes, makes the standby take
//! over, and counts lost and repeated writes, of which there should be none.
//!
//! `cargo run --release -p rookery-store --example failovers [TIMES]`; starts its own PostgreSQLs,
//! of which the standby has everything that is acknowledged.

#[allow(dead_code, reason = "another example needs more of it")]
#[path = "../tests/engines/writers.rs"]
mod writers;

use rookery_needs::{Pair, Postgres};
use rookery_store::{Stores, postgres};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let times = std::env::args().nth(1).map_or(Ok(100), |times| times.parse())?;
    let mut pair = Pair::<Postgres>::start();
    let address = postgres::PostgresAddress::parse(&pair.database())?;
    let options = postgres::PostgresOptions { trusts_durability: true, ..postgres::PostgresOptions::at(address) };
    let stores = Stores::of(Arc::new(postgres::open(&options)?));
    writers::prepare(&stores)?;
    let start = Instant::now();
    let told = writers::write_while(&stores, || writers::fail_over(&stores, &mut pair, times));
    let elapsed = start.elapsed();
    println!("{}", writers::compare(&stores, &told)?);
    println!("{times} failovers in {elapsed:.0?}; {:?}", stores.meta.activity());
    Ok(())
}
