//! Clients that send false data, flood the service, or do not read.

use proptest::prelude::*;
use rookery_dpm::sdd::request;
use rookery_dpm::service::{CloseClient, ServiceOptions};
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{ServiceWorld, frame, front_end_address, numbers, statuses};

#[test]
fn greetings_that_mean_nothing_are_refused() {
    let mut world = ServiceWorld::new(DEMO);
    for bad in [&b"\x16\x03\x01"[..], b"POST /dpm HTTP/1.1\r\n\r\n", &[b'G'; 5000], b"RAW \r\n\r\n"] {
        let key = world.dpm.connect();
        assert_eq!(world.send(key, bad), Err(CloseClient));
    }
    for (refused, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("GET /dpm HTTP/1.1\r\nContent-Type: application/json\r\n\r\n", "415"),
        ("GET /dpm HTTP/1.1\r\nno header\r\n\r\n", "400"),
    ] {
        let key = world.dpm.connect();
        assert_eq!(world.send(key, refused.as_bytes()), Err(CloseClient));
        let answer = String::from_utf8(world.bytes(key)).expect("text");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
}

#[test]
fn a_greeting_may_come_in_pieces_and_without_a_content_type() {
    let mut world = ServiceWorld::new(DEMO);
    let key = world.dpm.connect();
    for byte in b"GET /dpm HTTP/1.1\r\n\r\n" {
        assert!(world.bytes(key).is_empty());
        assert_eq!(world.send(key, &[*byte]), Ok(()));
    }
    assert_eq!(world.bytes(key).len(), 4 + 22);
}

#[test]
fn frames_that_are_too_long_end_the_connection_and_senseless_ones_do_not() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    assert_eq!(world.send(client.key, &[0, 0, 0, 3, 1, 2, 3]), Ok(()));
    assert_eq!(statuses(&world.replies(&client), 0), [Status::IVM]);
    world.ask(&client, request::StopList { list_id: client.list_id + 1 });
    assert_eq!(statuses(&world.replies(&client), 0), [Status::NO_SUCH_LIST]);
    assert_eq!(world.send(client.key, &[0x7f, 0xff, 0xff, 0xff]), Err(CloseClient));
}

#[test]
fn lists_have_a_limit() {
    let mut world = ServiceWorld::with(DEMO, ServiceOptions { requests: 3, ..ServiceOptions::default() });
    let client = world.client();
    for ref_id in 1..=4 {
        world.add(&client, ref_id, "M:OUTTMP@I");
    }
    world.add(&client, 3, "G:COUNTR@I");
    assert_eq!(statuses(&world.replies(&client), 4), [Status::OUTOMEM]);
    world.start(&client);
    assert_eq!(numbers(&world.replies(&client), 3), [1.0]);
}

#[test]
fn a_client_that_does_not_read_loses_readings_and_is_told() {
    let mut world = ServiceWorld::with(DEMO, ServiceOptions { queue: 2000, ..ServiceOptions::default() });
    let (slow, other) = (world.client(), world.client());
    for client in [&slow, &other] {
        world.add(client, 1, "G:COUNTR@p,100");
        world.start(client);
        world.replies(client);
    }
    world.stuck.push(slow.key);
    world.pass(60_000);
    assert_eq!(numbers(&world.replies(&other), 1).len(), 600, "the other is unharmed");
    assert!(world.statistics().dropped > 500);
    assert!(!world.dpm.wants_input(slow.key));
    world.stuck.clear();
    world.read(slow.key);
    let replies = world.replies(&slow);
    assert_eq!(statuses(&replies, 1), [Status::REPLY_OVERFLOW]);
    assert!(numbers(&replies, 1).len() < 50);
    assert!(world.dpm.wants_input(slow.key));
    world.pass(1000);
    assert_eq!(numbers(&world.replies(&slow), 1).len(), 10, "it goes on");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_of_clients_and_front_ends_break_nothing(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20),
        commands in prop::collection::vec((0u16..25, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
    ) {
        let mut world = ServiceWorld::new(DEMO);
        let good = world.client();
        world.add(&good, 1, "G:COUNTR@p,1000");
        world.start(&good);
        let (odd, raw) = (world.client(), world.dpm.connect());
        let _ = world.send(raw, b"RAW\r\n\r\n");
        let mut open = true;
        for piece in &pieces {
            let framed = [&(piece.len() as u32).to_be_bytes()[..], piece].concat();
            let _ = world.send(odd.key, &framed);
            let now = world.moment();
            world.dpm.datagram(front_end_address(), &mut piece.clone(), now);
        }
        for (code, rest) in &commands {
            let body = [&[0, 1], &code.to_be_bytes()[..], &[0; 8], rest].concat();
            let framed = [&(body.len() as u32).to_be_bytes()[..], &body].concat();
            open = open && world.send(raw, &framed).is_ok();
        }
        world.replies(&good);
        world.pass(2000);
        prop_assert_eq!(numbers(&world.replies(&good), 1).len(), 2);
    }

    #[test]
    fn requests_may_come_cut_anywhere(cuts in prop::collection::vec(1usize..40, 0..20)) {
        let mut world = ServiceWorld::new(DEMO);
        let client = world.client();
        let add = request::AddToList { list_id: client.list_id, ref_id: 1, drf_request: "G:COUNTR@I".into() };
        let mut stream = frame(&add.into());
        stream.extend(frame(&request::StartList { list_id: client.list_id, model: None }.into()));
        let mut rest = stream.as_slice();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            world.send(client.key, piece).expect("the connection stays");
            rest = after;
        }
        world.send(client.key, rest).expect("the connection stays");
        prop_assert_eq!(numbers(&world.replies(&client), 1), [1.0]);
    }
}
