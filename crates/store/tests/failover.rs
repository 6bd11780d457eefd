//! Tests a PostgreSQL whose primary dies under load, and whose standby takes over: acknowledged
//! writes are there once.

#[path = "engines/writers.rs"]
mod writers;

use rookery_needs::Pair;
use rookery_store::{Stores, postgres};
use std::sync::Arc;

#[test]
fn what_was_acknowledged_survives_the_primary() {
    if rookery_needs::skips("store.postgres") {
        return;
    }
    let mut pair = Pair::start();
    let address = postgres::PostgresAddress::parse(&pair.database()).expect("an address");
    let options = postgres::PostgresOptions { trusts_durability: true, ..postgres::PostgresOptions::at(address) };
    let stores = Stores::of(Arc::new(postgres::open(&options).expect("a database")));
    writers::prepare(&stores).expect("accounts");
    let told = writers::write_while(&stores, || writers::fail_over(&stores, &mut pair, 3));
    let outcome = writers::compare(&stores, &told).expect("a comparison");
    println!("{outcome}\n{:?}", stores.meta.activity());
    assert!(outcome.acknowledged >= writers::WRITERS, "{outcome}");
    assert_eq!((outcome.lost, outcome.doubled, outcome.disordered), (0, 0, 0), "{outcome}");
}
