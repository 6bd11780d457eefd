//! One request to a front-end serves any number of readers.

use std::fmt::Write;

use rookery_dpm::sdd::reply::Reply;

use crate::DEMO;
use crate::world::{ServiceWorld, numbers, statuses};

#[test]
fn many_readers_cost_the_front_end_one_request() {
    let mut world = ServiceWorld::new(DEMO);
    let clients: Vec<_> = (0..50).map(|_| world.client()).collect();
    for client in &clients {
        world.add(client, 1, "G:COUNTR@P,1000");
        world.add(client, 2, "G:COUNTR.RAW@p,1S");
        world.add(client, 3, "G:COUNTR@Q,1000");
        world.start(client);
    }
    assert_eq!((world.simulator.requests(), world.simulator.streams()), (1, 1));
    let before = world.statistics().pool;
    world.pass(3000);
    let after = world.statistics().pool;
    assert_eq!(after.readings - before.readings, 3);
    assert_eq!(after.encoded - before.encoded, 9, "once for each form");
    assert_eq!(after.delivered - before.delivered, 3 * 3 * 50);
    assert_eq!((after.asked, after.shared), (150, 149));
    for client in &clients {
        let replies = world.replies(client);
        assert_eq!(numbers(&replies, 1), numbers(&replies, 3));
        assert!(numbers(&replies, 1).ends_with(&[2.0, 3.0, 4.0]), "{:?}", numbers(&replies, 1));
    }
}

#[test]
fn requests_are_merged_into_datagrams_up_to_their_size() {
    let mut database =
        String::from("[[node]]\nname='FE'\naddress='0c23'\nsocket='127.0.0.1:6801'\nprotocol='RETDAT'\n");
    for index in 1..=2000 {
        write!(database, "[[device]]\nindex={index}\nname='T:D{index}'\n[device.reading]\nnode='FE'\nssdn='{index:016x}'\nprimary=10\nelement=4\n")
            .expect("a string takes it");
        writeln!(database, "[[script]]\ndevice='T:D{index}'\nshape='constant'\nlow={index}")
            .expect("a string takes it");
    }
    let mut world = ServiceWorld::new(&database);
    let client = world.client();
    for index in 1..=2000 {
        world.add(&client, index, &format!("T:D{index}@P,1000"));
    }
    world.start(&client);
    // 2000 devices of 16 bytes each, in datagrams of 8450 bytes.
    assert_eq!(world.simulator.requests(), 4);
    assert!(world.datagrams.iter().all(|datagram| datagram.len() <= 8450));
    let replies = world.replies(&client);
    for index in 1..=2000 {
        assert_eq!(numbers(&replies, index), [index as f64], "a reading of its own device");
    }
    // Once most readers have left, the rest is requested again in fewer requests.
    for index in 101..=2000 {
        world.ask(&client, rookery_dpm::sdd::request::RemoveFromList { list_id: client.list_id, ref_id: index });
    }
    world.pass(5000);
    assert_eq!((world.statistics().entries, world.statistics().groups, world.simulator.streams()), (100, 1, 1));
    let replies = world.replies(&client);
    assert!((1..=100).all(|index| numbers(&replies, index).iter().all(|number| *number == index as f64)));
}

#[test]
fn a_new_reader_gets_the_current_value_if_it_wants_it() {
    let mut world = ServiceWorld::new(DEMO);
    let (first, eager, patient) = (world.client(), world.client(), world.client());
    world.add(&first, 1, "G:COUNTR@P,10S");
    world.start(&first);
    world.pass(5000);
    world.add(&eager, 1, "G:COUNTR@P,10S");
    world.start(&eager);
    world.add(&patient, 1, "G:COUNTR@P,10S,FALSE");
    world.start(&patient);
    assert_eq!(numbers(&world.replies(&eager), 1), [1.0]);
    assert!(numbers(&world.replies(&patient), 1).is_empty());
    world.pass(5000);
    assert_eq!((numbers(&world.replies(&eager), 1), numbers(&world.replies(&patient), 1)), (vec![2.0], vec![2.0]));
}

#[test]
fn only_changes_are_reported() {
    let script = DEMO.replace("shape = \"ramp\"", "shape = \"constant\"");
    let mut world = ServiceWorld::new(&script);
    let client = world.client();
    world.add(&client, 1, "Z:CUBE_X@Q,1000");
    world.add(&client, 2, "Z:CUBE_X@P,1000");
    world.start(&client);
    world.pass(5000);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1).len(), numbers(&replies, 2).len()), (1, 6));
}

#[test]
fn clock_events_of_the_generator_are_followed() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@E,02");
    world.add(&client, 2, "Z:CUBE_X@E,0F,H,0");
    world.add(&client, 3, "M:OUTTMP@E,02,H,100");
    world.start(&client);
    world.pass(10_010);
    let replies = world.replies(&client);
    assert_eq!(numbers(&replies, 1).len(), 2);
    assert_eq!(numbers(&replies, 2).len(), 149);
    // RETDAT can't express a delay.
    assert_eq!(statuses(&replies, 3), [rookery_dpm::status::Status::NO_TCLK]);
}

#[test]
fn state_events_are_answered_when_the_state_comes() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    // The ramp of Z:CUBE_X passes 5000 once in ten seconds.
    world.add(&client, 1, "G:COUNTR@S,Z:CUBE_X,5000,0,>");
    world.add(&client, 2, "M:OUTTMP@S,Z:CUBE_X,5000,0,>");
    world.start(&client);
    world.pass(20_000);
    let replies = world.replies(&client);
    assert_eq!(numbers(&replies, 1).len(), 2);
    assert_eq!(statuses(&replies, 2), [rookery_dpm::status::Status::BAD_EVENT]);
}

#[test]
fn times_of_gets32_are_passed_on() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.pass(777);
    world.add(&client, 1, "G:COUNTR@I");
    world.start(&client);
    let replies = world.replies(&client);
    let cycles: Vec<_> = replies
        .iter()
        .filter_map(|reply| match reply {
            Reply::Scalar(scalar) => Some((scalar.timestamp, scalar.cycle)),
            _ => None,
        })
        .collect();
    assert_eq!(cycles, [(1_700_000_000_777, 1_700_000_000_777)]);
}

#[test]
fn events_that_are_the_same_to_a_front_end_share_one_request() {
    let mut world = ServiceWorld::new(DEMO);
    let clients: Vec<_> = (1000..1010).map(|_| world.client()).collect();
    for (client, millis) in clients.iter().zip(1000..) {
        // For a front-end with RETDAT, periods are in sixtieths of a second: all of these become
        // sixty. With GETS32 they are in milliseconds.
        world.add(client, 1, &format!("M:OUTTMP@P,{millis}"));
        world.add(client, 2, &format!("G:COUNTR@P,{millis}"));
        world.start(client);
    }
    assert_eq!(world.simulator.streams(), 11);
    world.pass(50_000);
    for (client, millis) in clients.iter().zip(1000..) {
        let replies = world.replies(client);
        assert_eq!(numbers(&replies, 1).len(), 51, "as often as the word says");
        assert_eq!(numbers(&replies, 2).len(), 1 + 50_000 / millis, "as often as it was asked for");
    }
    // Events with one number are one request, too: the word has no room for their clocks.
    for (client, clock) in clients.iter().zip(["H", "S", "E"]) {
        world.add(client, 3, &format!("M:OUTTMP@E,0F,{clock}"));
        world.start(client);
    }
    assert_eq!(world.simulator.streams(), 12);
}

#[test]
fn readers_leave_in_constant_time() {
    let mut world =
        ServiceWorld::with(DEMO, rookery_dpm::service::ServiceOptions { requests: 60_000, ..Default::default() });
    let clients = [world.client(), world.client()];
    for client in &clients {
        for ref_id in 0..50_000 {
            world.add(client, ref_id, if ref_id % 2 == 0 { "G:COUNTR@P,1000" } else { "G:WATER@P,100H" });
        }
        world.start(client);
        world.replies(client);
    }
    assert_eq!((world.statistics().entries, world.statistics().plots), (1, 1));
    // In several orders: the first first, the last first, and all of a connection.
    for ref_id in (0..10_000).chain((40_000..50_000).rev()) {
        world.ask(&clients[0], rookery_dpm::sdd::request::RemoveFromList { list_id: clients[0].list_id, ref_id });
    }
    world.dpm.disconnect(clients[1].key);
    world.pass(1000);
    let replies = world.replies(&clients[0]);
    let heard = (0..50_000).filter(|ref_id| !numbers(&replies[..], *ref_id).is_empty());
    assert_eq!(heard.take(3).collect::<Vec<_>>(), [10_000, 10_002, 10_004]);
    world.dpm.disconnect(clients[0].key);
    world.pass(0);
    assert_eq!((world.statistics().entries, world.statistics().plots, world.simulator.streams()), (0, 0, 0));
}
