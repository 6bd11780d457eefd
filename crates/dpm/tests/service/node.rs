//! Our node as others on the network see it.

use rookery_dpm::acnet::{AcnetHeader, PacketKind, packet};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{ServiceWorld, front_end_address};

#[test]
fn pings_and_questions_are_answered_as_recorded() {
    let mut world = ServiceWorld::new(DEMO);
    for (body, expected) in [
        (&[0, 0][..], "0000"),
        (&[3, 0], "150903010009"),
        (&[2, 0], "c6066022"),
        (&[2, 1], "8d1b0019"),
        (&[4, 0], "0400c60660228d1b00193977c84bb67ac01200010203"),
        // Not recorded, but taken from the daemon's source: tasks by their names and by numbers of
        // 16 bits, and our own address.
        (&[1, 0, 0x8d, 0x1b, 0x00, 0x19], "0100"),
        (&[1, 0, 0xc6, 0x06, 0x60, 0x22], "0000"),
        (&[18, 0, 1, 0], "8d1b0019"),
        (&[20, 0], "d60a"),
    ] {
        let (header, answer) = ask(&mut world, "ACNET", 0x0ad6, body).expect("an answer");
        assert_eq!((header.kind, header.status), (PacketKind::Reply, Status::SUCCESS));
        assert_eq!(answer.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
    }
    for (body, status) in [
        (&[2, 9][..], Status::NO_TASK),
        (&[1, 0, 0xaf, 0x78, 0xc0, 0x8f], Status::NO_TASK),
        (&[18, 0, 4, 0], Status::NO_TASK),
        (&[1, 0, 0x8d, 0x1b], Status::LEVEL2),
        (&[18, 0], Status::LEVEL2),
        (&[77, 0], Status::LEVEL2),
        (&[], Status::LEVEL2),
    ] {
        assert_eq!(ask(&mut world, "ACNET", 0x0ad6, body).expect("an answer").0.status, status);
    }
}

#[test]
fn counters_are_reported() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@p,1000");
    world.start(&client);
    // More milliseconds than 16 bits hold, since the time has 48.
    world.pass(70_000);
    let words = |world: &mut ServiceWorld, body: &[u8]| -> Vec<u16> {
        let (header, answer) = ask(world, "ACNET", 0x0ad6, body).expect("an answer");
        assert_eq!(header.status, Status::SUCCESS);
        answer.as_chunks::<2>().0.iter().map(|word| u16::from_le_bytes(*word)).collect()
    };
    // One request was sent, 71 replies arrived; this is the first request to us, and isn't answered
    // yet.
    assert_eq!(words(&mut world, &[6, 0]), [4464, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 71]);
    // All packets in 32 bits, including two more requests and one more reply.
    assert_eq!(words(&mut world, &[9, 0]), [75, 0, 4464, 1, 0]);
    // Tasks: none that wait, four that exist, four with names; and one outstanding request.
    assert_eq!(words(&mut world, &[5, 0]), [0, 0, 4, 4, 1]);
}

#[test]
fn requests_to_unknown_tasks_are_refused_unless_all_nodes_were_asked() {
    let mut world = ServiceWorld::new(DEMO);
    assert_eq!(ask(&mut world, "NOTASK", 0x0ad6, &[0, 0]).expect("an answer").0.status, Status::NO_TASK);
    assert!(ask(&mut world, "NOTASK", 0x00ff, &[0, 0]).is_none());
    let (header, _) = ask(&mut world, "ACNET", 0x00ff, &[0, 0]).expect("an answer");
    assert_eq!((header.server, header.client, header.message), (0x0ad6, 0x0c23, 0x2345));
}

#[test]
fn strangers_get_no_answer() {
    let mut world = ServiceWorld::new(DEMO);
    let request = request("ACNET", 0x0ad6);
    let now = world.moment();
    // From an address without a node, and from an unknown node.
    world.dpm.datagram("10.9.8.7:6801".parse().expect("an address"), &mut request.datagram(&[0, 0]), now);
    world.dpm.datagram(front_end_address(), &mut AcnetHeader { client: 0x0a06, ..request }.datagram(&[0, 0]), now);
    world.pass(0);
    assert_eq!(world.datagrams.len(), 0);
    assert_eq!(world.statistics().traffic.requests_in, 0);
}

#[test]
fn traffic_is_counted() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@p,1000");
    world.start(&client);
    world.pass(3000);
    ask(&mut world, "ACNET", 0x0ad6, &[0, 0]).expect("an answer");
    world.stop(&client);
    let traffic = world.statistics().traffic;
    assert_eq!((traffic.requests_out, traffic.replies_in), (1, 4));
    assert_eq!((traffic.requests_in, traffic.replies_out, traffic.messages_out), (1, 1, 0));
}

/// Returns the reply to a request from the first front-end.
fn ask(world: &mut ServiceWorld, task: &str, server: u16, body: &[u8]) -> Option<(AcnetHeader, Vec<u8>)> {
    world.datagrams.clear();
    let now = world.moment();
    world.dpm.datagram(front_end_address(), &mut request(task, server).datagram(body), now);
    world.pass(0);
    let mut datagram = world.datagrams.last()?.clone();
    packet::swap(&mut datagram);
    packet::packets(&datagram).next().map(|packet| (packet.header, packet.body.to_vec()))
}

fn request(task: &str, server: u16) -> AcnetHeader {
    AcnetHeader {
        kind: PacketKind::Request,
        status: Status::SUCCESS,
        server,
        client: 0x0c23,
        task: Rad50::parse(task).expect("a name"),
        task_id: 7,
        message: 0x2345,
    }
}
