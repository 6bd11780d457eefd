//! Tests a database whose primary dies or hangs under load, and whose standby takes over:
//! acknowledged writes are there once.

#[allow(dead_code, reason = "tests of other troubles need more of it")]
mod engines;
#[path = "engines/writers.rs"]
mod writers;

use engines::EngineServer;
use rookery_needs::{Followed, Pair};
use rookery_store::Stores;
use std::sync::Arc;

engines::tests! {
    what_was_acknowledged_survives_the_primary,
    what_was_acknowledged_survives_a_primary_that_hangs,
}

fn what_was_acknowledged_survives_the_primary<S: EngineServer + Followed>() {
    acknowledged_writes_survive::<S>(|stores, pair| writers::fail_over(stores, pair, 2));
}

/// Checks the same for a primary that still has its connections, and writes that it never
/// acknowledges.
fn what_was_acknowledged_survives_a_primary_that_hangs<S: EngineServer + Followed>() {
    acknowledged_writes_survive::<S>(|stores, pair| {
        pair.freeze();
        writers::until_trouble(stores);
        let earlier = pair.take_over();
        writers::until_no_trouble(stores);
        Followed::kill(&earlier);
    });
}

fn acknowledged_writes_survive<S: EngineServer + Followed>(disturb: impl FnOnce(&Stores, &mut Pair<S>)) {
    if rookery_needs::skips(S::NAME) {
        return;
    }
    let mut pair = Pair::<S>::start();
    let stores = Stores::of(Arc::new(S::open(&pair.database(), 8)));
    writers::prepare(&stores).expect("accounts");
    let told = writers::write_while(&stores, || disturb(&stores, &mut pair));
    let outcome = writers::compare(&stores, &told).expect("a comparison");
    println!("{outcome}\n{:?}", stores.meta.activity());
    assert!(outcome.acknowledged >= writers::WRITERS, "{outcome}");
    assert_eq!((outcome.lost, outcome.doubled, outcome.disordered), (0, 0, 0), "{outcome}");
}
