//! Limits: connections, greetings, lists, requests, and clients that never read; also answers that
//! arrive late, twice, in pieces, or from another node.

use rookery_dpm::acnet::{AcnetHeader, packet};
use rookery_dpm::sdd::{reply::Reply, request};
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{ServiceWorld, frame, front_end_address, infos, numbers, statuses};

#[test]
fn connections_are_counted_by_address_and_all_together() {
    let mut world =
        ServiceWorld::with(DEMO, ServiceOptions { clients: 5, clients_of_address: 3, ..ServiceOptions::default() });
    let now = world.moment();
    let from = |host: u8, port: u16| ([10, 0, 0, host], port).into();
    let first: Vec<_> = (0..3).map(|port| world.dpm.connect_from(from(1, port), now).expect("a place")).collect();
    assert_eq!(world.dpm.connect_from(from(1, 9), now), None);
    world.dpm.connect_from(from(2, 1), now).expect("a place");
    let last = world.dpm.connect_from(from(3, 1), now).expect("a place");
    assert_eq!(world.dpm.connect_from(from(4, 1), now), None, "five are all");
    world.dpm.disconnect(first[0]);
    world.dpm.disconnect(first[0]);
    world.dpm.disconnect(last);
    world.dpm.connect_from(from(1, 10), now).expect("a place again");
    assert_eq!(world.dpm.connect_from(from(1, 11), now), None);
    assert_eq!(world.statistics().clients, 4);
}

#[test]
fn a_client_that_never_names_its_protocol_is_closed() {
    let mut world = ServiceWorld::with(DEMO, ServiceOptions { greeting: 5000, ..ServiceOptions::default() });
    let address = "10.0.0.1:5000".parse().expect("an address");
    let now = world.moment();
    let (silent, slow, quick) = (
        world.dpm.connect_from(address, now).expect("a place"),
        world.dpm.connect_from(address, now).expect("a place"),
        world.dpm.connect_from(address, now).expect("a place"),
    );
    world.send(quick, b"RAW\r\n\r\n").expect("a greeting");
    for byte in b"GET /dpm HT" {
        world.send(slow, &[*byte]).expect("so far");
        world.pass(400);
    }
    assert!(world.dpm.take_closing().is_empty());
    world.pass(1000);
    let mut closing = world.dpm.take_closing();
    closing.sort_unstable();
    assert_eq!(closing, [silent, slow]);
    // A client that gets the place of one that left is not closed for that one's silence.
    world.dpm.disconnect(silent);
    let later = world.moment();
    let next = world.dpm.connect_from(address, later).expect("a place");
    assert_eq!(next, silent);
    world.pass(4999);
    assert!(world.dpm.take_closing().is_empty());
    world.pass(1);
    assert_eq!(world.dpm.take_closing(), [next]);
}

#[test]
fn a_frame_that_is_never_ended_closes_its_connection() {
    let mut world = ServiceWorld::with(DEMO, ServiceOptions { frame: 30_000, ..ServiceOptions::default() });
    let now = world.moment();
    let connect = |world: &mut ServiceWorld| {
        let client = world.dpm.connect_from("10.0.0.1:5000".parse().expect("an address"), now).expect("a place");
        world.send(client, b"GET /dpm HTTP/1.1\r\n\r\n").expect("a greeting");
        client
    };
    let (slow, steady, idle) = (connect(&mut world), connect(&mut world), connect(&mut world));
    let start = frame(&request::StartList { list_id: 4097, model: None }.into());
    for second in 0..29 {
        world.send(slow, &[0, 0, 1][..usize::from(second < 3)]).expect("so far");
        // Each piece ends a frame and begins another.
        let (rest, next) = (&start[start.len() - 3..], &start[..start.len() - 3]);
        world.send(steady, if second == 0 { next } else { rest }).expect("so far");
        world.send(steady, if second == 0 { &[] } else { next }).expect("so far");
        world.pass(1000);
    }
    assert!(world.dpm.take_closing().is_empty());
    world.pass(1000);
    assert_eq!(world.dpm.take_closing(), [slow]);
    world.pass(29_000);
    assert_eq!(world.dpm.take_closing(), [steady], "what it began last isn't ended either");
    world.dpm.disconnect(slow);
    world.dpm.disconnect(steady);
    world.pass(300_000);
    assert!(world.dpm.take_closing().is_empty(), "{idle} owes nothing");
    assert!(world.statistics().timers <= 1, "{}", world.statistics().timers);
}

#[test]
fn when_too_much_waits_clients_that_are_far_behind_get_no_more() {
    let mut world =
        ServiceWorld::with(DEMO, ServiceOptions { queue: 640_000, queue_of_all: 100_000, ..ServiceOptions::default() });
    let (stuck, slow, quick) = (world.client(), world.client(), world.client());
    for ref_id in 0..100 {
        world.add(&stuck, ref_id, "B:ARRAY[]@p,100");
    }
    for client in [&slow, &quick] {
        world.add(client, 1, "G:COUNTR@p,1000");
        world.start(client);
        world.replies(client);
    }
    world.stuck.extend([stuck.key, slow.key]);
    world.start(&stuck);
    world.pass(60_000);
    // The client that doesn't read has about as much waiting as all may have; the other one, a
    // little behind, gets everything.
    let dropped = world.statistics().dropped;
    assert!(dropped > 50_000, "{dropped}");
    world.stuck.clear();
    world.read(stuck.key);
    let replies = world.replies(&stuck);
    assert!((500..2000).contains(&replies.len()), "{}", replies.len());
    assert!((0..100).all(|ref_id| statuses(&replies, ref_id) == [Status::REPLY_OVERFLOW]), "it is told what it lost");
    world.read(slow.key);
    for client in [&slow, &quick] {
        let replies = world.replies(client);
        assert_eq!((numbers(&replies, 1).len(), statuses(&replies, 1)), (60, vec![]));
    }
    // A client that reads again gets everything again.
    world.pass(1000);
    let arrays = world.replies(&stuck).iter().filter(|reply| matches!(reply, Reply::ScalarArray(_))).count();
    assert_eq!((arrays, world.statistics().dropped), (1000, dropped));
}

#[test]
fn unfinished_frames_of_an_address_have_a_bound_in_bytes() {
    let mut world = ServiceWorld::with(DEMO, ServiceOptions { input_of_address: 250_000, ..ServiceOptions::default() });
    let now = world.moment();
    let connect = |world: &mut ServiceWorld, host: u8| {
        let client = world.dpm.connect_from(([10, 0, 0, host], 5000).into(), now).expect("a place");
        world.send(client, b"GET /dpm HTTP/1.1\r\n\r\n").expect("a greeting");
        client
    };
    let frame = [&100_000u32.to_be_bytes()[..], &[0; 99_000]].concat();
    let clients: Vec<_> = (0..3).map(|_| connect(&mut world, 1)).collect();
    let other = connect(&mut world, 2);
    assert_eq!(world.send(clients[0], &frame), Ok(()));
    assert_eq!(world.send(clients[1], &frame), Ok(()));
    assert!(world.send(clients[2], &frame).is_err(), "two are as much as an address may have");
    assert_eq!(world.send(other, &frame), Ok(()), "another address has its own");
    world.dpm.disconnect(clients[2]);
    // Frames that were ended, or whose connection is gone, free their room.
    assert_eq!(world.send(clients[0], &[0; 1000]), Ok(()));
    world.dpm.disconnect(clients[1]);
    for _ in 0..2 {
        let client = connect(&mut world, 1);
        assert_eq!(world.send(client, &frame), Ok(()));
    }
    let client = connect(&mut world, 1);
    assert!(world.send(client, &frame).is_err());
}

#[test]
fn a_list_has_one_heartbeat_however_often_it_is_started() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    for _ in 0..1000 {
        world.start(&client);
        world.stop(&client);
    }
    world.start(&client);
    assert_eq!(world.statistics().timers, 1);
    world.replies(&client);
    world.pass(10_000);
    let beats = world.replies(&client);
    assert!(beats.iter().all(|reply| matches!(reply, Reply::ListStatus(_))), "{beats:?}");
    assert_eq!(beats.len(), 5);
    world.stop(&client);
    world.pass(2000);
    assert_eq!(world.statistics().timers, 0);
}

#[test]
fn bounds_leave_descriptors_for_everything_else() {
    let few = ServiceOptions::default().within(256);
    assert_eq!((few.clients, few.clients_of_address), (128, 64));
    assert_eq!((few.grpc_clients, few.grpc_clients_of_address), (32, 16));
    assert_eq!((few.grpc_calls, few.grpc_calls_of_address), (32, 16));
    assert!(few.clients + few.grpc_clients + 2 * few.grpc_calls <= 256 * 7 / 8);
    let (many, all) = (ServiceOptions::default().within(u64::MAX), ServiceOptions::default());
    assert_eq!((many.clients, many.clients_of_address), (all.clients, all.clients_of_address));
    assert_eq!((many.grpc_calls, many.grpc_calls_of_address), (all.grpc_calls, all.grpc_calls_of_address));
}

#[test]
fn a_million_requests_in_a_list_are_refused_by_name_and_harm_nobody() {
    let mut world = ServiceWorld::new(DEMO);
    let (client, other) = (world.client(), world.client());
    world.add(&other, 1, "G:COUNTR@p,1000");
    world.start(&other);
    world.replies(&other);
    let limit = ServiceOptions::default().requests;
    let mut refused = 0;
    let mut batch = Vec::new();
    for ref_id in 0..1_000_000 {
        let drf_request = format!("B:ARRAY[{}]@p,1000", ref_id % 16);
        batch.extend(frame(&request::AddToList { list_id: client.list_id, ref_id, drf_request }.into()));
        if batch.len() > 60_000 {
            world.send(client.key, &std::mem::take(&mut batch)).expect("the connection stays");
            for reply in world.replies(&client) {
                assert!(
                    matches!(&reply, Reply::Status(status) if Status(status.status) == Status::OUTOMEM),
                    "{reply:?}"
                );
                refused += 1;
            }
        }
    }
    world.send(client.key, &batch).expect("the connection stays");
    refused += world.replies(&client).len();
    assert_eq!(refused, 1_000_000 - limit);
    // All requests of the list start and stop together.
    for _ in 0..3 {
        world.start(&client);
        assert_eq!(infos(&world.replies(&client)).len(), limit);
        world.ask(&client, request::StopList { list_id: client.list_id });
    }
    world.ask(&client, request::ClearList { list_id: client.list_id });
    assert_eq!(world.statistics().entries, 1);
    world.pass(3000);
    assert_eq!(numbers(&world.replies(&other), 1).len(), 3);
}

#[test]
fn all_lists_together_have_a_limit_that_is_given_back() {
    let mut world =
        ServiceWorld::with(DEMO, ServiceOptions { requests: 10, all_requests: 15, ..ServiceOptions::default() });
    let (one, other) = (world.client(), world.client());
    for client in [&one, &other] {
        for ref_id in 0..10 {
            world.add(client, ref_id, "M:OUTTMP@I");
        }
    }
    assert_eq!((world.replies(&one).len(), world.replies(&other).len()), (0, 5));
    world.add(&one, 3, "G:COUNTR@I");
    world.ask(&one, request::RemoveFromList { list_id: one.list_id, ref_id: 4 });
    world.ask(&one, request::RemoveFromList { list_id: one.list_id, ref_id: 4 });
    world.add(&other, 11, "M:OUTTMP@I");
    world.add(&other, 12, "M:OUTTMP@I");
    assert_eq!(statuses(&world.replies(&other), 12), [Status::OUTOMEM]);
    world.dpm.disconnect(one.key);
    let third = world.client();
    for ref_id in 0..9 {
        world.add(&third, ref_id, "M:OUTTMP@I");
    }
    assert_eq!(world.replies(&third).len(), 0);
    world.ask(&third, request::ClearList { list_id: third.list_id });
    for ref_id in 0..10 {
        world.add(&third, ref_id, "M:OUTTMP@I");
    }
    assert_eq!(world.replies(&third).len(), 1);
}

#[test]
fn requests_of_a_client_that_never_reads_are_left_unread() {
    let mut world = ServiceWorld::with(DEMO, ServiceOptions { queue: 10_000, ..ServiceOptions::default() });
    let (client, other) = (world.client(), world.client());
    for ref_id in 0..100 {
        world.add(&client, ref_id, "M:OUTTMP.DESCRIPTION@I");
    }
    world.replies(&client);
    world.stuck.push(client.key);
    let start = frame(&request::StartList { list_id: client.list_id, model: None }.into());
    // Input that arrives in one piece isn't processed all at once.
    world.send(client.key, &start.repeat(1000)).expect("the connection stays");
    assert!(!world.dpm.wants_input(client.key));
    world.read(client.key);
    let replies = world.replies(&client);
    let started = replies.iter().filter(|reply| matches!(reply, Reply::StartList(_))).count();
    assert_eq!(started, 1000, "all of it is done as it is read");
    world.stuck.clear();
    world.add(&other, 1, "G:COUNTR@I");
    world.start(&other);
    assert_eq!(numbers(&world.replies(&other), 1), [1.0]);
}

#[test]
fn unknown_messages_unknown_fields_and_false_lengths_are_only_reported() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@p,1000");
    world.start(&client);
    world.replies(&client);
    let stop = frame(&request::StopList { list_id: client.list_id }.into());
    let changed = |at: usize, byte: u8| {
        let mut frame = stop.clone();
        frame[at] = byte;
        frame
    };
    // Magic, protocol, message id, number of fields, field id, kind of value; then a message that
    // continues after its end.
    let mut senseless = vec![
        changed(4, b'T'),
        changed(7, 3),
        changed(11, 9),
        changed(16, 0x77),
        changed(18, 0x7f),
        changed(21, 0x77),
        changed(22, 0x42),
    ];
    senseless.push([&(stop.len() as u32 - 4 + 2).to_be_bytes()[..], &stop[4..], &[0, 0]].concat());
    for frame in senseless {
        assert_eq!(world.send(client.key, &frame), Ok(()));
        assert_eq!(statuses(&world.replies(&client), 0), [Status::IVM], "{frame:02x?}");
    }
    world.pass(1000);
    assert_eq!(numbers(&world.replies(&client), 1).len(), 1);
}

#[test]
fn a_number_that_comes_again_is_the_later_request() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    for drf in ["M:OUTTMP@p,100", "Z:NOSUCH@p,100", "not a request", "G:COUNTR@p,1000"] {
        world.add(&client, 7, drf);
        world.start(&client);
    }
    world.replies(&client);
    world.pass(3000);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 7).len(), replies.len()), (3, 3));
    assert_eq!((world.statistics().entries, world.simulator.streams()), (1, 1));
}

#[test]
fn an_answer_that_comes_twice_counts_once() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@I");
    world.cut = true;
    world.start(&client);
    let header = last_asked(&world);
    world.cut = false;
    let answer = header.answer(Status::SUCCESS, false).datagram(&[0, 0, 0x10, 0x27]);
    deliver(&mut world, [answer.clone(), answer.clone()].concat());
    deliver(&mut world, answer);
    assert_eq!(numbers(&world.replies(&client), 1), [63.25]);
    assert_eq!(world.statistics().pool.strays, 2);
}

#[test]
fn a_late_answer_reaches_nobody_even_if_its_id_is_used_again() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@I");
    world.cut = true;
    world.start(&client);
    let header = last_asked(&world);
    world.pass(6000);
    assert_eq!(statuses(&world.replies(&client), 1), [Status::UTIME]);
    world.add(&client, 2, "M:OUTTMP.RAW@I");
    world.start(&client);
    assert_ne!(last_asked(&world).message, header.message);
    deliver(&mut world, header.answer(Status::SUCCESS, false).datagram(&[0, 0, 0x10, 0x27]));
    let replies = world.replies(&client);
    assert!(replies.iter().all(|reply| !matches!(reply, Reply::Raw(_) | Reply::Scalar(_))), "{replies:?}");
}

#[test]
fn an_answer_in_pieces_is_too_short_and_several_in_a_datagram_are_read() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,1000");
    world.add(&client, 2, "M:OUTTMP.STATUS.RAW@p,1000");
    world.cut = true;
    world.start(&client);
    world.replies(&client);
    let header = last_asked(&world);
    world.cut = false;
    // Two packets in one datagram, complete; then a reply that is cut within the second device, and
    // its rest.
    let whole = header.answer(Status::SUCCESS, true).datagram(&[0, 0, 0x10, 0x27, 0, 0, 11, 0]);
    deliver(&mut world, [whole.clone(), whole].concat());
    assert_eq!(numbers(&world.replies(&client), 1), [63.25, 63.25]);
    deliver(&mut world, header.answer(Status::SUCCESS, true).datagram(&[0, 0, 0x10, 0x27]));
    let replies = world.replies(&client);
    // It could be either of the two, so each is asked alone, and both answer.
    assert_eq!((statuses(&replies, 1), statuses(&replies, 2)), (vec![], vec![]));
    assert_eq!((numbers(&replies, 1).len(), world.statistics().groups), (1, 2));
    deliver(&mut world, header.answer(Status::SUCCESS, true).datagram(&[0, 0, 11, 0]));
    let replies = world.replies(&client);
    assert!(numbers(&replies, 1).is_empty(), "{replies:?}");
    // A datagram that is cut within a packet is invalid.
    let cut = header.answer(Status::SUCCESS, true).datagram(&[0, 0, 0x10, 0x27, 0, 0, 11, 0]);
    deliver(&mut world, cut[..cut.len() - 4].to_vec());
    assert!(numbers(&world.replies(&client), 1).is_empty());
}

#[test]
fn an_answer_of_another_node_reaches_nobody() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    // Two nodes with one device each, so that their answers have the same size.
    world.cut = true;
    world.add(&client, 1, "M:OUTTMP@I");
    world.start(&client);
    let muon = last_asked(&world);
    world.add(&client, 2, "G:COUNTR@I");
    world.start(&client);
    let demo = last_asked(&world);
    world.cut = false;
    let body = [0, 0, 0x10, 0x27];
    for crossed in [
        AcnetHeader { server: demo.server, ..muon },
        AcnetHeader { message: demo.message, ..muon },
        AcnetHeader { task_id: muon.task_id + 1, ..muon },
        AcnetHeader { client: demo.server, ..muon },
    ] {
        deliver(&mut world, crossed.answer(Status::SUCCESS, false).datagram(&body));
    }
    let replies = world.replies(&client);
    assert!(numbers(&replies, 1).is_empty() && numbers(&replies, 2).is_empty(), "{replies:?}");
    deliver(&mut world, muon.answer(Status::SUCCESS, false).datagram(&body));
    assert_eq!(numbers(&world.replies(&client), 1), [63.25]);
}

fn last_asked(world: &ServiceWorld) -> AcnetHeader {
    let mut asked = world.datagrams.last().expect("a request").clone();
    packet::swap(&mut asked);
    packet::packets(&asked).next().expect("a packet").header
}

fn deliver(world: &mut ServiceWorld, mut datagram: Vec<u8>) {
    let now = world.moment();
    world.dpm.datagram(front_end_address(), &mut datagram, now);
    world.pass(0);
}
