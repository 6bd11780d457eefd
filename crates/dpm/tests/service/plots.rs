//! Readings more often than twenty times a second.

use rookery_dpm::acnet::{PacketKind, packet};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::sdd::reply::{Reply, TimedScalarArray};
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{ServiceWorld, TcpClient, infos, numbers, statuses};

#[test]
fn points_come_in_batches_with_their_distances() {
    let mut world = ServiceWorld::new(DEMO);
    let client = start(&mut world, "M:OUTTMP@p,100H<-FTP");
    world.pass(2000);
    let replies = world.replies(&client);
    assert_eq!(infos(&replies), [(1, "M:OUTTMP")]);
    let batches = batches(&replies);
    assert_eq!(batches.len(), 10, "one each fifth of a second");
    let micros: Vec<i64> = batches.iter().flat_map(|batch| batch.micros.clone()).collect();
    let data: Vec<f64> = batches.iter().flat_map(|batch| batch.data.clone()).collect();
    assert_eq!((micros.len(), data.len()), (201, 201));
    assert!(micros.windows(2).all(|pair| pair[1] - pair[0] == 10_000), "ten milliseconds apart");
    assert_eq!(*micros.last().expect("points"), 1_700_000_002_000_000);
    assert!(data.iter().all(|degrees| (69.0..76.0).contains(degrees)));
}

#[test]
fn a_plot_is_shared_by_its_readers_and_ends_with_the_last() {
    let mut world = ServiceWorld::new(DEMO);
    let clients: Vec<_> = (0..5).map(|_| start(&mut world, "M:OUTTMP@p,100H")).collect();
    world.pass(1000);
    // One request for the class, one for the plot.
    assert_eq!((world.simulator.requests(), world.simulator.streams()), (2, 1));
    let all: Vec<_> = clients.iter().map(|client| batches(&world.replies(client))).collect();
    assert!(all.iter().all(|batches| batches.len() == 5 && *batches == all[0]));
    for client in &clients[1..] {
        world.stop(client);
    }
    world.pass(1000);
    assert_eq!((batches(&world.replies(&clients[0])).len(), world.statistics().plots), (5, 1));
    world.dpm.disconnect(clients[0].key);
    world.pass(1000);
    assert_eq!((world.simulator.streams(), world.statistics().plots), (0, 0));
}

#[test]
fn times_continue_across_the_clock_event() {
    let mut world = ServiceWorld::new(DEMO);
    let client = start(&mut world, "Z:CUBE_X@p,50H");
    world.pass(12_000);
    let micros: Vec<i64> = batches(&world.replies(&client)).iter().flat_map(|batch| batch.micros.clone()).collect();
    assert_eq!(micros.len(), 601);
    assert!(micros.windows(2).all(|pair| pair[1] - pair[0] == 20_000));
}

#[test]
fn readings_that_cannot_be_plotted_are_polled() {
    let mut world = ServiceWorld::new(DEMO);
    // Arrays, raw bytes and other properties are never plotted, and slow readings need no plot.
    for (drf, count) in [("B:ARRAY[0:3]@p,100H", 20), ("M:OUTTMP.RAW@p,100H", 15), ("M:OUTTMP@p,10H<-FTP", 10)] {
        let client = start(&mut world, drf);
        world.pass(1000);
        let replies = world.replies(&client);
        let readings =
            replies.iter().filter(|reply| matches!(reply, Reply::Scalar(_) | Reply::ScalarArray(_) | Reply::Raw(_)));
        let readings = readings.count();
        assert!((count..=count + 1).contains(&readings), "{drf}: {readings}");
        assert_eq!(world.statistics().plots, 0);
        world.stop(&client);
    }
    // The front-end has no class for a device without a script.
    let database = DEMO.replace("[[script]]\ndevice = \"Z:CUBE_X\"", "[[script]]\ndevice = \"G:SILENT\"");
    let mut world = ServiceWorld::new(&database);
    let client = start(&mut world, "Z:CUBE_X@p,100H");
    world.pass(1000);
    assert_eq!((numbers(&world.replies(&client), 1).len(), world.statistics().plots), (21, 0));
    world.stop(&client);
    world.pass(0);
    assert_eq!((world.statistics().entries, world.simulator.streams()), (0, 0));
}

#[test]
fn rates_that_a_front_end_refuses_get_a_status() {
    let mut world = ServiceWorld::new(DEMO);
    let client = start(&mut world, "M:OUTTMP@p,5K");
    world.pass(3000);
    let told = statuses(&world.replies(&client), 1);
    assert!(told.len() >= 2 && told.iter().all(|status| *status == Status::FTP_UNSFREQ), "{told:?}");
    let client = start(&mut world, "M:OUTTMP@p,1000K");
    assert_eq!(statuses(&world.replies(&client), 1), [Status::BAD_EVENT]);
}

#[test]
fn plots_survive_front_ends_that_die_and_come_back() {
    let faults = "\n[[fault]]\nnode = 'MUONFE'\nup_seconds = 11\ndown_seconds = 7\n";
    let mut world = ServiceWorld::new(&format!("{DEMO}{faults}"));
    let client = start(&mut world, "M:OUTTMP@p,100H");
    for _ in 0..5 {
        world.pass(36_000);
        let replies = world.replies(&client);
        assert!(batches(&replies).len() > 20, "the plot is stuck");
        assert!(statuses(&replies, 1).contains(&Status::UTIME));
        let micros: Vec<i64> = batches(&replies).iter().flat_map(|batch| batch.micros.clone()).collect();
        assert!(micros.is_sorted(), "times went back");
    }
    assert!(world.simulator.streams() <= 1);
}

#[test]
fn replies_to_other_requests_do_not_reach_a_plot() {
    let mut world = ServiceWorld::new(DEMO);
    let client = start(&mut world, "M:OUTTMP@p,100H");
    world.pass(500);
    world.replies(&client);
    let mut asked = world.datagrams.last().expect("a request").clone();
    packet::swap(&mut asked);
    let header = packet::packets(&asked).next().expect("a packet").header;
    assert_eq!((header.task, header.kind), (Rad50::parse("FTPMAN").expect("a name"), PacketKind::MultipleRequest));
    let reply = header.answer(Status::SUCCESS, true);
    for (header, body) in [
        (rookery_dpm::acnet::AcnetHeader { message: header.message ^ 1, ..reply }, &[0, 0, 2, 0][..]),
        (rookery_dpm::acnet::AcnetHeader { server: 0x0c24, ..reply }, &[0, 0, 2, 0]),
        (rookery_dpm::acnet::AcnetHeader { client: 0x0a06, ..reply }, &[0, 0, 2, 0]),
    ] {
        let (now, mut datagram) = (world.moment(), header.datagram(body));
        world.dpm.datagram(crate::world::front_end_address(), &mut datagram, now);
        world.pass(0);
        assert_eq!(world.replies(&client), []);
    }
    // The right request's reply, cut short.
    let (now, mut datagram) = (world.moment(), reply.datagram(&[0, 0, 2, 0]));
    world.dpm.datagram(crate::world::front_end_address(), &mut datagram, now);
    world.pass(0);
    assert_eq!(statuses(&world.replies(&client), 1), [Status::TRUNC_REPLY]);
    world.pass(1000);
    assert!(!batches(&world.replies(&client)).is_empty());
}

fn start(world: &mut ServiceWorld, drf: &str) -> TcpClient {
    let client = world.client();
    world.add(&client, 1, drf);
    world.start(&client);
    client
}

fn batches(replies: &[Reply]) -> Vec<TimedScalarArray> {
    let batch = |reply: &Reply| match reply {
        Reply::TimedScalarArray(batch) => Some(batch.clone()),
        _ => None,
    };
    replies.iter().filter_map(batch).collect()
}

#[test]
fn two_forms_of_a_device_are_one_plot() {
    let mut world = ServiceWorld::new(DEMO);
    let clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    for (client, form) in clients.iter().zip(["", ".PRIMARY", ""]) {
        world.add(client, 1, &format!("G:WATER{form}@P,100H"));
        world.start(client);
    }
    world.pass(5000);
    assert_eq!((world.statistics().plots, world.simulator.streams()), (1, 1));
    let points = |replies: &[Reply]| -> Vec<f64> {
        let batches = replies.iter().filter_map(|reply| match reply {
            Reply::TimedScalarArray(batch) => Some(batch.data.clone()),
            _ => None,
        });
        batches.flatten().collect()
    };
    let [scaled, primary, again] = [0, 1, 2].map(|number| points(&world.replies(&clients[number])));
    assert!(scaled.len() > 400 && scaled.len() == primary.len() && scaled == again, "{}", scaled.len());
    assert!(scaled.iter().zip(&primary).all(|(scaled, primary)| (scaled - (10.0 * primary + 20.0)).abs() < 1e-9));
    for client in &clients {
        world.stop(client);
    }
    assert_eq!((world.statistics().plots, world.simulator.streams()), (0, 0));
}
