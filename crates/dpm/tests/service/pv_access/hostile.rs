//! Servers of pvAccess that break the protocol.

use rookery_dpm::pv_access::bytes::ByteOrder;
use rookery_dpm::pv_access::{LARGEST, MOST_TYPES, command, step};
use rookery_dpm::status::Status;

use super::{DEVICES, DOUBLE, VariableServer, commands, of, refusal};
use crate::channels::reader;
use crate::world::{ServiceWorld, numbers, statuses};

#[test]
fn nothing_that_a_hostile_server_says_harms_others() {
    let described = |number: u32, of: &[u8]| {
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend([step::INIT, 0xff]);
        payload.extend_from_slice(of);
        payload
    };
    let update = |number: u32, body: &[u8]| [&number.to_le_bytes()[..], &[0], body].concat();
    let created = |cid: u32| [&cid.to_le_bytes()[..], &[9, 0, 0, 0, 0xff]].concat();
    let deep = [&[0x80, 0, 1, 1, b'x'][..]; 100].concat();
    let mut many_types = vec![0x80, 0, 0xfe];
    many_types.extend((2 * MOST_TYPES as u32).to_le_bytes());
    (0..2 * MOST_TYPES as u16).for_each(|number| {
        many_types.extend([1, b'x', 0xfd]);
        many_types.extend(number.to_le_bytes());
        many_types.push(0x43);
    });
    let huge = [0xfe, 0xf0, 0xff, 0xff, 0x7f];
    let cases: Vec<(&str, u8, Vec<u8>)> = vec![
        ("a payload that is cut short", command::MONITOR, vec![1, 0]),
        ("an update without a value", command::MONITOR, update(1, &[1, 1])),
        (
            "an update of more parts than there are",
            command::MONITOR,
            update(1, &[8, 255, 255, 255, 255, 255, 255, 255, 255]),
        ),
        ("a set of bits that is too long", command::MONITOR, update(1, &[253; 300])),
        ("a set of bits of 2 GiB", command::MONITOR, update(1, &huge)),
        ("a message of 2 GiB in an alarm", command::MONITOR, update(1, &[&[1, 32][..], &huge].concat())),
        ("another type for a running monitor", command::MONITOR, described(1, &of(b"\x60"))),
        ("a type of an unknown code", command::MONITOR, described(1, &[0x47])),
        ("no type", command::MONITOR, described(1, &[0xff])),
        ("types within types within types", command::MONITOR, described(1, &deep)),
        ("numbers for more types than there may be", command::MONITOR, described(1, &many_types)),
        ("a type that was never described", command::MONITOR, described(1, &[0xfe, 9, 9])),
        ("an update of another's monitor", command::MONITOR, update(77, &[1, 2, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("an answer to a monitor as one to a reading", command::GET, update(1, &[1, 2, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("a reading that nobody asked for", command::GET, described(9999, &of(DOUBLE))),
        ("a setting that nobody made", command::PUT, described(9999, &of(DOUBLE))),
        ("a channel that is there already", command::CREATE_CHANNEL, created(1)),
        ("a channel that nobody wants", command::CREATE_CHANNEL, created(99)),
        ("a status of an unknown kind", command::CREATE_CHANNEL, vec![1, 0, 0, 0, 9, 0, 0, 0, 77, 0, 0]),
        ("the end of another's channel", command::DESTROY_CHANNEL, vec![9, 0, 0, 0, 77, 0, 0, 0]),
        ("the end of a channel that was closed before", command::DESTROY_CHANNEL, vec![9, 0, 0, 0, 1, 0, 0, 0]),
        ("an answer to a search on a circuit of variables", command::SEARCH_RESPONSE, vec![0; 60]),
        ("a greeting again", command::CONNECTION_VALIDATION, vec![0, 0, 1, 0, 0, 0, 1, 2, b'c', b'a']),
        ("a greeting of 2 GiB", command::CONNECTION_VALIDATION, [&[0; 6][..], &huge].concat()),
        ("the end of the greeting again", command::CONNECTION_VALIDATED, vec![0xff]),
        ("no such command", 200, vec![0; 8]),
    ];
    let order = ByteOrder::Little;
    for (what, command, payload) in cases {
        let mut world = ServiceWorld::new(DEVICES);
        let client = reader(&mut world, "E:BEAM@Q,100");
        let mut server = VariableServer::find(&mut world, order);
        server.monitor(&of(DOUBLE));
        server.say(command, |output| output.bytes.extend_from_slice(&payload));
        let link = server.link;
        world.pass(1000);
        // Regardless of how that circuit ended, a good server's value arrives.
        let (link, cid) = match refusal(&world, link) {
            Some(_) => {
                let mut server = VariableServer::find(&mut world, order);
                let cid = server.monitor(&of(DOUBLE));
                (server.link, cid)
            }
            None => (link, 1),
        };
        let mut server = VariableServer { world: &mut world, link, order };
        server.whole(cid, 0, 42.0);
        server.world.pass(200);
        let got = numbers(&world.replies(&client), 1);
        assert_eq!(got.last(), Some(&42.0), "{what}: {got:?}");
        assert_eq!(world.statistics().variables, 1, "{what}");
    }
}

#[test]
fn a_server_that_sends_nonsense_or_without_end_is_closed() {
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("another protocol", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("a client's message", vec![0xca, 2, 0, command::ECHO, 0, 0, 0, 0]),
        ("4 GiB", vec![0xca, 2, 0x40, command::MONITOR, 0xff, 0xff, 0xff, 0xff]),
        ("the end of nothing", vec![0xca, 2, 0x60, command::MONITOR, 0, 0, 0, 0]),
        (
            "a beginning within a message",
            [0xca, 2, 0x50, command::MONITOR, 0, 0, 0, 0, 0xca, 2, 0x50, command::MONITOR].to_vec(),
        ),
    ];
    for (what, mut bytes) in cases {
        let mut world = ServiceWorld::new(DEVICES);
        let client = reader(&mut world, "E:BEAM@Q,100");
        let mut server = VariableServer::find(&mut world, ByteOrder::Little);
        let cid = server.monitor(&of(DOUBLE));
        server.whole(cid, 0, 1.0);
        bytes.extend([0; 4]);
        server.bytes(&bytes);
        let link = server.link;
        assert!(refusal(&world, link).is_some(), "{what}");
        let replies = world.replies(&client);
        assert_eq!((numbers(&replies, 1), statuses(&replies, 1)), (vec![1.0], vec![Status::NODE_DOWN]), "{what}");
    }
}

#[test]
fn a_server_that_never_ends_a_message_is_given_up() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let mut server = VariableServer::find(&mut world, ByteOrder::Little);
    let cid = server.monitor(&of(DOUBLE));
    server.whole(cid, 0, 1.0);
    let link = server.link;
    server.bytes(&[0xca, 2, 0x40, command::ECHO, 0, 1, 0, 0]);
    for _ in 0..21 {
        server.world.pass(1000);
        server.bytes(&[0]);
    }
    assert_eq!(refusal(&world, link), Some("its server does not answer"));
    assert!(statuses(&world.replies(&client), 1).contains(&Status::NODE_DOWN));
}

#[test]
fn a_value_that_is_too_long_is_a_status_and_the_next_is_read_whole() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let mut server = VariableServer::find(&mut world, ByteOrder::Little);
    let cid = server.monitor(&of(DOUBLE));
    server.whole(cid, 0, 1.0);
    server.world.pass(200);
    server.update(cid, &[1, 1], |payload| payload.bytes.resize(2 * LARGEST, 0));
    server.world.pass(200);
    // It may have had an alarm, so the monitor begins again.
    server.update(cid, &[1, 2], |payload| payload.double(2.0));
    let next = server.take_sent();
    assert_eq!(commands(&next), [command::DESTROY_REQUEST, command::MONITOR]);
    assert_eq!(server.numbers(&next[1]), [1000 + cid, cid]);
    server.answer(command::MONITOR, cid, step::INIT, |payload| {
        payload.byte(0xff);
        payload.bytes.extend(of(DOUBLE));
    });
    assert_eq!(commands(&server.take_sent()), [command::MONITOR]);
    server.whole(cid, 0, 3.0);
    server.world.pass(200);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1), statuses(&replies, 1)), (vec![1.0, 3.0], vec![Status::TRUNC_REPLY]));
}

mod any_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn of_a_server_harm_nothing(
            pieces in prop::collection::vec((any::<bool>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..80)), 1..6),
        ) {
            let mut world = ServiceWorld::new(DEVICES);
            let client = reader(&mut world, "E:BEAM@Q,100");
            let mut server = VariableServer::find(&mut world, ByteOrder::Little);
            server.monitor(&of(DOUBLE));
            for (is_message, command, piece) in &pieces {
                let whole = [&[1, 0, 0, 0][..], piece].concat();
                let message = server.message(0, command % 16, &whole);
                server.bytes(if *is_message { &message } else { piece });
            }
            world.pass(30_000);
            prop_assert!(world.statistics().variables == 1);
            world.stop(&client);
            world.pass(20_000);
            prop_assert_eq!(world.statistics().variables, 0);
        }
    }
}
