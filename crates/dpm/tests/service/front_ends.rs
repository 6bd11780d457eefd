//! Front-ends that are silent, late, lossy or restarted, or that send answers nobody requested.

use rookery_dpm::acnet::{AcnetHeader, PacketKind, packet};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{ServiceWorld, front_end_address, numbers, statuses};

#[test]
fn silence_is_reported_repeatedly_until_the_front_end_comes_back() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,1000");
    world.start(&client);
    world.pass(2000);
    assert_eq!(numbers(&world.replies(&client), 1).len(), 3);
    world.cut = true;
    world.pass(60_000);
    let told = statuses(&world.replies(&client), 1);
    assert!(told.len() >= 4 && told.iter().all(|status| *status == Status::UTIME), "{told:?}");
    world.cut = false;
    world.pass(15_000);
    let replies = world.replies(&client);
    assert!(numbers(&replies, 1).len() >= 3, "it is read again");
    assert_eq!(world.statistics().groups, 1);
}

#[test]
fn events_are_asked_for_again_when_none_came_for_long() {
    let faults = "\n[[fault]]\nnode = 'DEMOFE'\nup_seconds = 20\ndown_seconds = 3\n";
    let mut world = ServiceWorld::new(&format!("{DEMO}{faults}"));
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@E,02");
    world.start(&client);
    // The front-end restarts after 20 seconds and has forgotten the request; silence alone is no
    // failure.
    world.pass(170_000);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1).len(), statuses(&replies, 1).len()), (3, 0));
    world.pass(60_000);
    assert!(!numbers(&world.replies(&client), 1).is_empty());
}

#[test]
fn a_single_request_for_a_silent_device_ends_with_a_status() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:SILENT@I");
    world.start(&client);
    // Clients give up after five seconds, so they get the status well before that.
    world.pass(2999);
    assert_eq!(statuses(&world.replies(&client), 1), []);
    world.pass(1);
    assert_eq!(statuses(&world.replies(&client), 1), [Status::UTIME]);
    assert_eq!((world.statistics().entries, world.statistics().groups), (0, 0));
}

#[test]
fn replies_that_nobody_asked_for_are_cancelled_and_harm_nobody() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,1000");
    world.start(&client);
    world.replies(&client);
    let mut asked = world.datagrams.last().expect("a request").clone();
    packet::swap(&mut asked);
    let header = packet::packets(&asked).next().expect("a packet").header;
    let body = [0, 0, 0x10, 0x27];
    let answer = |header: AcnetHeader| header.answer(Status::SUCCESS, true).datagram(&body);
    world.datagrams.clear();
    let deliver = |world: &mut ServiceWorld, mut datagram: Vec<u8>| {
        let now = world.moment();
        world.dpm.datagram(front_end_address(), &mut datagram, now);
        world.pass(0);
    };
    // Another id, another use of the same id, another node's answer, another of our tasks.
    deliver(&mut world, answer(AcnetHeader { message: header.message ^ 1, ..header }));
    deliver(&mut world, answer(AcnetHeader { message: header.message ^ 0x4000, ..header }));
    deliver(&mut world, answer(AcnetHeader { server: 0x0c24, ..header }));
    deliver(&mut world, answer(AcnetHeader { task_id: 9, ..header }));
    assert!(numbers(&world.replies(&client), 1).is_empty());
    assert_eq!(world.statistics().pool.strays, 4);
    for datagram in &mut world.datagrams {
        packet::swap(datagram);
        assert!(packet::packets(datagram).all(|packet| packet.header.kind == PacketKind::Cancel));
    }
    deliver(&mut world, answer(header));
    assert_eq!(numbers(&world.replies(&client), 1), [63.25]);
    // To another client node, and from an address without a front-end.
    deliver(&mut world, answer(AcnetHeader { client: 0x0a06, ..header }));
    let (now, mut datagram) = (world.moment(), answer(header));
    world.dpm.datagram("10.9.8.7:6801".parse().expect("an address"), &mut datagram, now);
    world.pass(0);
    assert!(numbers(&world.replies(&client), 1).is_empty());
}

#[test]
fn pending_extends_the_time_and_a_short_reply_is_a_status() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,1000");
    world.cut = true;
    world.start(&client);
    let mut asked = world.datagrams.last().expect("a request").clone();
    packet::swap(&mut asked);
    let header = packet::packets(&asked).next().expect("a packet").header;
    let deliver = |world: &mut ServiceWorld, mut datagram: Vec<u8>| {
        let now = world.moment();
        world.dpm.datagram(front_end_address(), &mut datagram, now);
        world.pass(0);
    };
    // "An answer will come" is no answer, but extends the time.
    world.pass(3000);
    deliver(&mut world, header.answer(Status::PEND, true).datagram(&[]));
    world.pass(3000);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1).len(), statuses(&replies, 1).len()), (0, 0));
    deliver(&mut world, header.answer(Status::SUCCESS, true).datagram(&[0, 0]));
    assert_eq!(statuses(&world.replies(&client), 1), [Status::TRUNC_REPLY]);
    let mut cancel = world.datagrams.last().expect("a cancel").clone();
    packet::swap(&mut cancel);
    let cancel = packet::packets(&cancel).next().expect("a packet").header;
    assert_eq!((cancel.kind, cancel.message), (PacketKind::Cancel, header.message));
    // The same answer again no longer belongs to a request.
    deliver(&mut world, header.answer(Status::SUCCESS, true).datagram(&[0, 0, 1, 0]));
    assert!(numbers(&world.replies(&client), 1).is_empty());
}

#[test]
fn a_missing_task_is_a_node_that_is_down() {
    let database = DEMO.replacen("protocol = \"RETDAT\"", "protocol = \"GETS32\"", 1);
    let mut world = ServiceWorld::new(&database);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,1000");
    world.cut = true;
    world.start(&client);
    let mut asked = world.datagrams.last().expect("a request").clone();
    packet::swap(&mut asked);
    let header = packet::packets(&asked).next().expect("a packet").header;
    assert_eq!(header.task, Rad50::parse("GETS32").expect("a name"));
    let now = world.moment();
    world.dpm.datagram(front_end_address(), &mut header.answer(Status::NO_TASK, false).datagram(&[]), now);
    world.pass(0);
    assert_eq!(statuses(&world.replies(&client), 1), [Status::NODE_DOWN]);
}

#[test]
fn lists_survive_front_ends_that_die_and_come_back() {
    let faults = "\n[[fault]]\nnode = 'MUONFE'\nup_seconds = 7\ndown_seconds = 5\nloss = 0.05\n\n\
                  [[fault]]\nnode = 'DEMOFE'\ndelay_millis = 30\nloss = 0.1\n";
    let mut world = ServiceWorld::new(&format!("{DEMO}{faults}"));
    let clients: Vec<_> = (0..5).map(|_| world.client()).collect();
    for client in &clients {
        world.add(client, 1, "M:OUTTMP@p,500");
        world.add(client, 2, "G:COUNTR@p,200");
        world.start(client);
    }
    for _ in 0..10 {
        world.pass(12_000);
        for client in &clients {
            let replies = world.replies(client);
            let (outdoor, counted) = (numbers(&replies, 1), numbers(&replies, 2));
            assert!(!outdoor.is_empty() && counted.len() > 20, "a list is stuck");
            assert!(
                outdoor.iter().all(|degrees| (69.0..76.0).contains(degrees)),
                "another device's reading: {outdoor:?}"
            );
            assert!(counted.is_sorted(), "an older reading came later: {counted:?}");
        }
    }
    assert!(world.statistics().pool.timeouts > 5);
}

#[test]
fn points_of_a_ramp_table_are_read_by_their_numbers() {
    // Each point is a value and a time, two bytes each: 1.2 after 881 ticks.
    let ramp = "
[[device]]
index = 7
name = 'B:RAMP'
[device.reading]
node = 'DEMOFE'
ssdn = '0000000000000007'
primary = 10
common = 6
constants = [1.0, 1000.0]
element = 4
input_length = 2
size = 16

[[script]]
device = 'B:RAMP'
shape = 'constant'
low = 57738416
";
    assert_eq!(57_738_416_i32.to_le_bytes(), [0xb0, 0x04, 0x71, 0x03]);
    let mut world = ServiceWorld::new(&format!("{DEMO}{ramp}"));
    let client = world.client();
    for (ref_id, drf) in [(1, "B:RAMP[]@I"), (2, "B:RAMP[2]@I"), (3, "B:RAMP[1].RAW@I")] {
        world.add(&client, ref_id, drf);
    }
    world.start(&client);
    let replies = world.replies(&client);
    let array = replies.iter().find_map(|reply| match reply {
        Reply::ScalarArray(array) => Some(array.data.clone()),
        _ => None,
    });
    assert_eq!((array, numbers(&replies, 2)), (Some(vec![1.2; 4]), vec![1.2]));
    let is_whole = |reply: &Reply| matches!(reply, Reply::Raw(raw) if raw.data.0 == [0xb0, 0x04, 0x71, 0x03]);
    assert!(replies.iter().any(is_whole), "{replies:?}");
}
