//! The times at which requests are answered: by front-ends, their clock and the states of devices.

use rookery_dpm::sdd::reply::Reply;

use crate::DEMO;
use crate::world::{ServiceWorld, numbers};

#[test]
fn a_reader_that_wants_nothing_at_once_waits_for_the_first_period() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@P,1000,FALSE");
    world.add(&client, 2, "G:COUNTR@P,1000,TRUE");
    world.start(&client);
    assert_eq!(numbers(&world.replies(&client), 2), [1.0]);
    world.pass(900);
    assert!(numbers(&world.replies(&client), 1).is_empty());
    world.pass(1100);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1), numbers(&replies, 2)), (vec![2.0, 3.0], vec![2.0, 3.0]));
    // A request that ends while it waits leaves nothing behind.
    world.stop(&client);
    world.add(&client, 3, "Z:CUBE_X@Q,9000,FALSE");
    world.start(&client);
    world.stop(&client);
    world.pass(100);
    assert_eq!((world.statistics().entries, world.simulator.streams()), (0, 0));
}

#[test]
fn changes_without_the_first_value_are_changes_only() {
    let script = DEMO.replace("shape = \"ramp\"\nlow = 0", "shape = \"constant\"\nlow = 7");
    let mut world = ServiceWorld::new(&script);
    let client = world.client();
    world.add(&client, 1, "Z:CUBE_X@Q,500,FALSE");
    world.add(&client, 2, "G:COUNTR@Q,500,FALSE");
    world.start(&client);
    world.pass(1600);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1), numbers(&replies, 2)), (vec![], vec![2.0, 3.0, 4.0]));
}

#[test]
fn a_delay_counts_from_the_clock_event() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@E,02,E,300");
    world.add(&client, 2, "Z:CUBE_X@E,02");
    world.start(&client);
    world.pass(10_400);
    let times = |replies: &[Reply], wanted: i64| -> Vec<i64> {
        let time = |reply: &Reply| match reply {
            Reply::Scalar(scalar) if scalar.ref_id == wanted => Some(scalar.timestamp - 1_700_000_000_000),
            _ => None,
        };
        replies.iter().filter_map(time).collect()
    };
    let replies = world.replies(&client);
    assert_eq!(times(&replies, 2), [5001, 10_002]);
    assert_eq!(times(&replies, 1), [300, 5301, 10_302]);
}

#[test]
fn an_event_that_never_comes_is_never_answered_and_no_failure() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@E,55");
    world.add(&client, 2, "M:OUTTMP@E,55");
    world.start(&client);
    world.pass(100_000);
    let told = world.replies(&client);
    assert!(told.iter().all(|reply| !matches!(reply, Reply::Scalar(_) | Reply::Status(_))), "{told:?}");
    world.stop(&client);
    world.pass(0);
    assert_eq!(world.simulator.streams(), 0);
}

#[test]
fn a_delay_counts_from_the_state() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    // The ramp of Z:CUBE_X passes 5000 at five seconds, and every ten seconds after that.
    world.add(&client, 1, "G:COUNTR@S,Z:CUBE_X,5000,0,>");
    world.add(&client, 2, "B:ARRAY@S,Z:CUBE_X,5000,2000,>");
    world.start(&client);
    world.pass(6000);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1).len(), numbers(&replies, 2).len()), (1, 0));
    world.pass(2000);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1).len(), numbers(&replies, 2).len()), (0, 1));
}
