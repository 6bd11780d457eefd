//! Devices that do not answer, or make their front-end refuse, among others that answer: the others
//! are served.

use std::fmt::Write;

use rookery_dpm::acnet::PacketKind;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::RemoveFromList;
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{BrokenDevice, ServiceWorld, TcpClient, numbers, read_request, statuses};

#[test]
fn a_silent_device_that_joins_stops_nobody() {
    let mut world = ServiceWorld::new(DEMO);
    let water = world.client();
    world.add(&water, 1, "G:WATER@P,500");
    world.start(&water);
    world.pass(5000);
    world.replies(&water);
    let silent = world.client();
    world.add(&silent, 1, "G:SILENT@P,500");
    world.start(&silent);
    let arrays: Vec<TcpClient> = (0..8).map(|_| world.client()).collect();
    for (element, client) in arrays.iter().enumerate() {
        world.add(client, 1, &format!("B:ARRAY[{element}]@P,500"));
        world.start(client);
    }
    world.pass(60_000);
    for client in arrays.iter().chain([&water]) {
        let replies = world.replies(client);
        assert_eq!(statuses(&replies, 1), [], "nobody else hears of it");
        assert!(numbers(&replies, 1).len() >= 120, "{} readings in a minute", numbers(&replies, 1).len());
    }
    let told = statuses(&world.replies(&silent), 1);
    assert!(told.len() > 5 && told.iter().all(|status| *status == Status::UTIME), "{told:?}");
    let before = world.simulator.requests();
    world.pass(60_000);
    let more = world.simulator.requests() - before;
    assert!((3..=8).contains(&more), "it is asked for at a decent pace: {more} requests a minute");
}

#[test]
fn silent_devices_of_one_list_are_found_by_halving() {
    for protocol in ["RETDAT", "GETS32"] {
        for silent in [vec![7], vec![1], vec![200], vec![3, 4, 50, 120, 199], (1..=200).step_by(2).collect()] {
            let mut world = many(protocol);
            world.silent.extend(silent.iter().copied());
            let other = read(&mut world, 201..=201, "P,1000");
            let client = read(&mut world, 1..=200, "P,1000");
            world.pass(60_000);
            world.replies(&client);
            let asked = world.simulator.requests();
            let searches = 2 * silent.len() as u64 * 9;
            assert!(asked <= 20 + searches + 10 * silent.len() as u64, "{protocol}, {}: {asked}", silent.len());
            world.pass(60_000);
            let replies = world.replies(&client);
            for index in 1..=200 {
                let (numbers, statuses) = (numbers(&replies, index), statuses(&replies, index));
                if silent.contains(&(index as u32)) {
                    assert!(numbers.is_empty() && !statuses.is_empty(), "{index}: {numbers:?}, {statuses:?}");
                } else {
                    assert_eq!((numbers.len(), statuses.len()), (60, 0), "{protocol}, {}: {index}", silent.len());
                }
            }
            assert_eq!(statuses(&world.replies(&other), 201), []);
            let running = world.statistics().groups - silent.len().min(world.statistics().groups);
            assert!(running <= 6, "those that answer are merged again: {:?}", world.statistics());
        }
    }
}

#[test]
fn the_only_request_of_a_node_is_halved_too() {
    let mut world = many("GETS32");
    world.silent.insert(9);
    let client = read(&mut world, 1..=100, "P,500");
    world.pass(40_000);
    world.replies(&client);
    world.pass(10_000);
    let replies = world.replies(&client);
    for index in (1..=100).filter(|index| *index != 9) {
        assert_eq!((numbers(&replies, index).len(), statuses(&replies, index).len()), (20, 0), "{index}");
    }
}

#[test]
fn a_node_that_is_down_is_not_asked_in_parts() {
    let mut world = many("GETS32");
    let client = read(&mut world, 1..=400, "P,1000");
    let event = read(&mut world, 1..=1, "E,02");
    world.pass(3000);
    world.replies(&client);
    world.cut = true;
    world.pass(60_000);
    world.datagrams.clear();
    world.pass(600_000);
    let sizes: Vec<usize> = requests(&world).iter().map(|(_, devices)| devices.len()).collect();
    // Each time the whole request, and one single device.
    assert!(sizes.iter().all(|size| matches!(size, 1 | 400)), "{sizes:?}");
    assert!((80..=130).contains(&sizes.len()), "{} requests in ten minutes", sizes.len());
    assert_eq!(world.statistics().pool.divided, 0);
    let told = statuses(&world.replies(&client), 17);
    assert!(told.len() > 40 && told.iter().all(|status| *status == Status::UTIME), "{}", told.len());
    world.cut = false;
    world.pass(15_000);
    world.replies(&client);
    world.pass(10_000);
    let replies = world.replies(&client);
    for index in 1..=400 {
        assert_eq!(numbers(&replies, index).len(), 10, "{index} is read again");
    }
    assert!(world.statistics().groups <= 4, "{:?}", world.statistics());
    world.pass(400_000);
    assert!(!numbers(&world.replies(&event), 1).is_empty());
}

#[test]
fn a_device_that_keeps_falling_silent_is_asked_apart_for_longer() {
    let mut world = many("GETS32");
    let client = read(&mut world, 1..=50, "P,500");
    let mut lost = Vec::new();
    for _ in 0..6 {
        world.silent.insert(20);
        world.pass(20_000);
        world.silent.clear();
        world.pass(20_000);
        let replies = world.replies(&client);
        let others = (1..=50).filter(|index| *index != 20);
        lost.push(others.map(|index| statuses(&replies, index).len()).sum::<usize>());
        let read = numbers(&replies, 20).len();
        assert!(read > 20, "it is read when it answers: {read}");
    }
    // The first time, the search affects some; after that the device hasn't answered for long
    // enough to be asked with the others.
    assert!(lost[1..].iter().all(|lost| *lost == 0), "{lost:?}");
}

#[test]
fn a_device_that_has_answered_for_long_is_asked_with_the_others_again() {
    let mut world = many("GETS32");
    let client = read(&mut world, 1..=50, "P,500");
    world.pass(1000);
    world.silent.insert(20);
    world.pass(20_000);
    world.silent.clear();
    world.pass(200_000);
    // Others join, so that new requests are made; the silent device is no longer in a request of
    // its own.
    for index in 51..=60 {
        read(&mut world, index..=index, "P,500");
        world.pass(1000);
    }
    world.replies(&client);
    world.pass(10_000);
    let replies = world.replies(&client);
    assert!((1..=50).all(|index| numbers(&replies, index).len() == 20));
    assert!(world.statistics().groups <= 4, "{:?}", world.statistics());
}

#[test]
fn a_silent_device_is_remembered_when_its_readers_come_back() {
    let mut world = many("GETS32");
    world.silent.insert(5);
    let other = read(&mut world, 11..=20, "P,500");
    let client = read(&mut world, 1..=10, "P,500");
    world.pass(30_000);
    for _ in 0..5 {
        for ref_id in 1..=10 {
            world.ask(&client, RemoveFromList { list_id: client.list_id, ref_id });
        }
        world.replies(&client);
        for index in 1..=10 {
            world.add(&client, index, &format!("T:D{index}@P,700"));
        }
        world.start(&client);
        let replies = world.replies(&client);
        for index in (1..=10).filter(|index| *index != 5) {
            assert_eq!(numbers(&replies, index).len(), 1, "all others are there at once");
        }
        world.pass(5000);
    }
    let replies = world.replies(&other);
    assert!((11..=20).all(|index| statuses(&replies, index).is_empty()));
}

/// The milliseconds after which readers of single requests have a status, regardless of front-ends.
const ONCE: u64 = 3000;

#[test]
fn the_operator_sets_the_time_limit_of_single_requests() {
    for (once, is_read) in [(500, true), (3000, true), (500, false), (10_000, false)] {
        let options = ServiceOptions { once, ..ServiceOptions::default() };
        let mut world = ServiceWorld::with(&devices("GETS32"), options);
        world.silent.insert(42);
        world.cut = !is_read;
        let client = read(&mut world, 1..=100, "I");
        world.pass(once - 1);
        // Live devices were answered long before, by parts of the request.
        let replies = world.replies(&client);
        let there = (1..=100).filter(|index| numbers(&replies, *index).len() == 1).count();
        assert_eq!(there, if is_read { 99 } else { 0 });
        world.pass(1);
        let told = [replies, world.replies(&client)].concat();
        let silent = (1..=100).filter(|index| statuses(&told, *index) == [Status::UTIME]).count();
        assert_eq!(silent, 100 - there);
    }
}

#[test]
fn single_requests_are_answered_except_for_silent_devices() {
    for silent in [vec![42], vec![1, 2, 3], vec![10, 40, 70, 100], (1..=100).step_by(2).collect::<Vec<u32>>()] {
        for is_read in [true, false] {
            let mut world = many("RETDAT");
            world.silent.extend(silent.iter().copied());
            if is_read {
                read(&mut world, 201..=201, "P,500");
            }
            let client = read(&mut world, 1..=100, "I");
            world.pass(ONCE);
            check_once(&mut world, &client, &silent);
            assert!(world.simulator.requests() < 150, "{} requests", world.simulator.requests());
            assert_eq!(world.statistics().entries, usize::from(is_read));
            // Later readers don't have to wait for them.
            let client = read(&mut world, 1..=100, "I");
            world.pass(250);
            let replies = world.replies(&client);
            let there = (1..=100).filter(|index| numbers(&replies, *index).len() == 1).count();
            assert_eq!(there, 100 - silent.len());
            world.pass(ONCE);
            assert_eq!(world.statistics().entries, usize::from(is_read));
        }
    }
}

fn check_once(world: &mut ServiceWorld, client: &TcpClient, silent: &[u32]) {
    let replies = world.replies(client);
    for index in 1..=100 {
        let got = (numbers(&replies, index).len(), statuses(&replies, index));
        if silent.contains(&(index as u32)) {
            assert_eq!(got, (0, vec![Status::UTIME]), "{index}");
        } else {
            assert_eq!(got, (1, vec![]), "{index}");
        }
    }
}

#[test]
fn single_readings_of_a_dead_node_cost_three_requests() {
    let mut world = many("GETS32");
    world.cut = true;
    let client = read(&mut world, 1..=100, "I");
    world.pass(ONCE);
    let replies = world.replies(&client);
    assert!((1..=100).all(|index| statuses(&replies, index) == [Status::UTIME]));
    assert_eq!(requests(&world).len(), 3);
    // Probes have a time limit of their own.
    world.pass(1000);
    assert_eq!((world.statistics().entries, world.statistics().groups), (0, 0));
}

#[test]
fn a_late_answer_counts_while_parts_of_it_are_asked_for() {
    let faults = "\n[[fault]]\nnode = 'FE'\ndelay_millis = 2000\n";
    let mut world = ServiceWorld::new(&format!("{}{faults}", devices("GETS32")));
    read(&mut world, 201..=201, "P,200");
    world.pass(5000);
    let client = read(&mut world, 1..=20, "I");
    world.pass(2100);
    let replies = world.replies(&client);
    assert!((1..=20).all(|index| numbers(&replies, index).len() == 1), "{replies:?}");
    world.pass(5000);
    let replies = world.replies(&client);
    assert!((1..=20).all(|index| numbers(&replies, index).is_empty()), "and nothing comes twice: {replies:?}");
}

#[test]
fn refusals_and_short_answers_affect_only_their_device() {
    for broken in [BrokenDevice::Refused(Status::new(1, -25)), BrokenDevice::Short] {
        for event in ["P,1000", "I"] {
            let mut world = many("GETS32");
            world.broken.insert(33, broken);
            let other = read(&mut world, 201..=201, "P,500");
            world.pass(1000);
            let client = read(&mut world, 1..=64, event);
            world.pass(4000);
            let replies = world.replies(&client);
            let expected = match broken {
                BrokenDevice::Refused(status) => status,
                BrokenDevice::Short => Status::TRUNC_REPLY,
            };
            for index in (1..=64).filter(|index| *index != 33) {
                let numbers = numbers(&replies, index).len();
                assert!(numbers == 1 && event == "I" || numbers >= 3, "{broken:?}, {event}, {index}: {numbers}");
                assert!(statuses(&replies, index).len() <= 1, "{index}");
            }
            let told = statuses(&replies, 33);
            assert!(!told.is_empty() && told.iter().all(|status| *status == expected), "{told:?}");
            assert!(world.simulator.requests() < 40, "{}", world.simulator.requests());
            assert_eq!(statuses(&world.replies(&other), 201), []);
        }
    }
}

#[test]
fn a_front_end_that_refuses_everything_is_not_asked_in_parts() {
    let mut world = many("GETS32");
    for device in 1..=400 {
        world.broken.insert(device, BrokenDevice::Refused(Status::BUSY));
    }
    let client = read(&mut world, 1..=400, "P,1000");
    world.pass(600_000);
    assert_eq!(world.statistics().pool.divided, 0);
    assert!(world.simulator.requests() < 180, "{}", world.simulator.requests());
    let told = statuses(&world.replies(&client), 1);
    assert!(told.len() > 60 && told.iter().all(|status| *status == Status::BUSY));
}

#[test]
fn a_silent_device_hides_no_event() {
    let mut world = many("GETS32");
    world.silent.extend([7, 31]);
    let client = read(&mut world, 1..=40, "E,02");
    world.pass(120_000);
    world.replies(&client);
    world.pass(50_010);
    let replies = world.replies(&client);
    for index in (1..=40).filter(|index| ![7, 31].contains(index)) {
        assert_eq!((numbers(&replies, index).len(), statuses(&replies, index).len()), (10, 0), "{index}");
    }
    // Waiting for an event that never occurs is not a silence.
    let mut world = many("GETS32");
    let client = read(&mut world, 1..=40, "E,77");
    world.pass(1_000_000);
    assert!(world.replies(&client).iter().all(|reply| !matches!(reply, Reply::Status(_))));
    assert!(world.simulator.requests() < 20, "{}", world.simulator.requests());
}

#[test]
fn a_silent_plot_affects_no_other_reader() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:WATER@P,100H");
    world.add(&client, 2, "G:SILENT@P,100H");
    world.add(&client, 3, "G:COUNTR@P,500");
    world.start(&client);
    world.pass(30_000);
    let replies = world.replies(&client);
    assert_eq!((statuses(&replies, 1), statuses(&replies, 3)), (vec![], vec![]));
    assert!(statuses(&replies, 2).len() > 2);
    let batches = replies.iter().filter(|reply| matches!(reply, Reply::TimedScalarArray(_))).count();
    let polled = numbers(&replies, 1).len();
    assert!(batches + polled > 25, "{batches} batches, {polled} readings");
}

/// Returns a front-end with 500 devices.
fn many(protocol: &str) -> ServiceWorld {
    ServiceWorld::new(&devices(protocol))
}

fn devices(protocol: &str) -> String {
    let mut database = format!("[[node]]\nname='FE'\naddress='0c23'\nsocket='127.0.0.1:6801'\nprotocol='{protocol}'\n");
    for index in 1..=500 {
        write!(database, "[[device]]\nindex={index}\nname='T:D{index}'\n[device.reading]\nnode='FE'\nssdn='{index:016x}'\nprimary=10\n[[script]]\ndevice='T:D{index}'\nshape='constant'\nlow={index}\n")
            .expect("a string takes it");
    }
    database
}

/// Returns a client that reads devices on an event.
fn read(world: &mut ServiceWorld, devices: std::ops::RangeInclusive<i64>, event: &str) -> TcpClient {
    let client = world.client();
    for index in devices {
        world.add(&client, index, &format!("T:D{index}@{event}"));
    }
    world.start(&client);
    client
}

/// Returns the requests that were sent, without cancels.
fn requests(world: &ServiceWorld) -> Vec<(u16, Vec<u32>)> {
    let all = world.datagrams.iter().map(|datagram| read_request(datagram));
    all.filter(|(header, _)| header.kind != PacketKind::Cancel)
        .map(|(header, devices)| (header.message, devices))
        .collect()
}
