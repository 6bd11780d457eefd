//! Clients on other nodes of ACNET.

use rookery_dpm::acnet::{AcnetHeader, PacketKind, packet};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::sdd::SddMessage;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::{AddToList, OpenList, Request, ServiceDiscovery, StartList, StopList};
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{ServiceWorld, front_end_address, numbers, statuses};

/// The id of the request whose replies are the messages of a list.
const STREAM: u16 = 0x6001;
const OTHER: u16 = 0x6002;
const EVERYBODY: u16 = 0x00ff;
const HERE: u16 = 0x0ad6;
/// A node that the database doesn't have.
const UNLISTED: u16 = 0x0a06;

#[test]
fn a_dpm_is_found_by_those_who_ask_everyone() {
    let mut world = ServiceWorld::new(DEMO);
    let found = ask(&mut world, EVERYBODY, PacketKind::Request, OTHER, &Request::from(ServiceDiscovery {}));
    let [(header, Reply::ServiceDiscovery(told))] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((header.kind, header.server, header.message), (PacketKind::Reply, HERE, OTHER));
    assert_eq!((told.load, told.service_location.as_str()), (0, "DPM06"));
}

#[test]
fn a_busier_dpm_answers_searches_later() {
    let mut world = ServiceWorld::new(DEMO);
    for _ in 0..7 {
        world.client();
    }
    assert_eq!(ask(&mut world, EVERYBODY, PacketKind::Request, OTHER, &ServiceDiscovery {}.into()), []);
    world.pass(6);
    assert_eq!(messages(&mut world), []);
    world.pass(1);
    assert!(matches!(messages(&mut world).as_slice(), [(_, Reply::ServiceDiscovery(told))] if told.load == 7));
    // A DPM that is asked directly need not be faster than others.
    let found = ask(&mut world, HERE, PacketKind::Request, OTHER, &ServiceDiscovery {}.into());
    assert!(matches!(found.as_slice(), [(_, Reply::ServiceDiscovery(told))] if told.load == 7));
}

#[test]
fn a_dpm_without_room_does_not_answer_searches() {
    let mut world = ServiceWorld::with(DEMO, ServiceOptions { all_lists: 1, ..ServiceOptions::default() });
    world.client();
    assert_eq!(ask(&mut world, EVERYBODY, PacketKind::Request, OTHER, &ServiceDiscovery {}.into()), []);
    world.pass(1000);
    assert_eq!(messages(&mut world), []);
}

#[test]
fn a_task_of_another_node_reads_devices() {
    let mut world = ServiceWorld::new(DEMO);
    let list_id = open(&mut world, STREAM);
    let said = add(&mut world, list_id, 1, "G:COUNTR@p,1000");
    assert!(matches!(said.as_slice(), [(header, Reply::AddToList(added))]
        if (header.kind, header.message, added.status) == (PacketKind::Reply, OTHER, 0)));
    let said = ask(&mut world, HERE, PacketKind::Request, OTHER, &StartList { list_id, model: None }.into());
    assert!(matches!(said.as_slice(), [(single, Reply::StartList(_)), (stream, Reply::DeviceInfo(_)), ..]
        if single.message == OTHER && (stream.kind, stream.message) == (PacketKind::ReplyWithMore, STREAM)));
    world.pass(5000);
    let said = messages(&mut world);
    let replies: Vec<Reply> = said.iter().map(|(_, reply)| reply.clone()).collect();
    assert!(numbers(&replies, 1).len() >= 5, "{replies:?}");
    assert!(said.iter().all(|(header, _)| (header.task_id, header.client) == (7, 0x0c23)));
    assert_eq!((world.statistics().clients, world.statistics().remotes), (1, 1));

    // Only the task that opened a list may use it.
    let stranger = world.client();
    world.ask(&stranger, StopList { list_id });
    assert_eq!(statuses(&world.replies(&stranger), 0), [Status::NO_SUCH_LIST]);

    cancel(&mut world, STREAM);
    world.pass(5000);
    assert_eq!(messages(&mut world), []);
    assert_eq!((world.statistics().remotes, world.statistics().lists, world.statistics().entries), (0, 1, 0));
}

#[test]
fn many_readings_share_a_datagram() {
    let mut world = ServiceWorld::new(DEMO);
    let list_id = open(&mut world, STREAM);
    for ref_id in 1..=50 {
        add(&mut world, list_id, ref_id, "M:OUTTMP.DESCRIPTION@I");
    }
    world.datagrams.clear();
    let said = ask(&mut world, HERE, PacketKind::Request, OTHER, &StartList { list_id, model: None }.into());
    assert_eq!(said.len(), 101);
    assert!(world.datagrams.len() < 10, "{} datagrams", world.datagrams.len());
    assert!(world.datagrams.iter().all(|datagram| datagram.len() <= 1472));
}

#[test]
fn nothing_is_kept_for_tasks_without_lists() {
    let mut world = ServiceWorld::new(DEMO);
    for task_id in 0..600 {
        let header = AcnetHeader { task_id, ..request(HERE, PacketKind::Request, OTHER) };
        say(&mut world, &header, &StopList { list_id: 4096 }.into());
        let said = messages(&mut world);
        assert!(matches!(said.as_slice(), [(_, Reply::Status(status))] if status.status == Status::NO_SUCH_LIST.0));
    }
    // An invalid message gets a status and no body.
    say_bytes(&mut world, &request(HERE, PacketKind::Request, OTHER), &[1, 2]);
    assert_eq!(statuses_of_packets(&world), [Status::IVM]);
    assert_eq!(world.statistics().remotes, 0);
    assert_eq!(world.statistics().shares, 0);
}

#[test]
fn the_tasks_of_a_node_are_bounded() {
    let mut world = ServiceWorld::new(DEMO);
    for task_id in 0..300 {
        let header = AcnetHeader { task_id, ..request(HERE, PacketKind::MultipleRequest, STREAM + task_id) };
        say(&mut world, &header, &OpenList { location: None }.into());
    }
    assert_eq!(world.statistics().remotes, 256);
    assert_eq!(statuses_of_packets(&world).iter().filter(|status| **status == Status::BUSY).count(), 44);
}

#[test]
fn a_node_that_is_silent_loses_its_lists() {
    let mut world = ServiceWorld::new(DEMO);
    let list_id = open(&mut world, STREAM);
    add(&mut world, list_id, 1, "M:OUTTMP@p,1000");
    ask(&mut world, HERE, PacketKind::Request, OTHER, &StartList { list_id, model: None }.into());
    // The front-end of the same node shows that it is alive, until it dies.
    world.pass(120_000);
    assert_eq!(world.statistics().remotes, 1);
    world.cut = true;
    world.pass(120_000);
    assert_eq!((world.statistics().remotes, world.statistics().lists, world.statistics().entries), (0, 0, 0));
}

#[test]
fn strangers_cannot_become_clients() {
    let mut world = ServiceWorld::new(DEMO);
    let now = world.moment();
    let mut body = Vec::new();
    Request::from(OpenList { location: None }).encode(&mut body);
    let header = request(HERE, PacketKind::MultipleRequest, STREAM);
    world.dpm.datagram("10.9.8.7:6801".parse().expect("an address"), &mut header.datagram(&body), now);
    world.dpm.datagram(front_end_address(), &mut AcnetHeader { client: 0x0a06, ..header }.datagram(&body), now);
    world.pass(0);
    assert_eq!(world.datagrams.len(), 0);
    assert_eq!(world.statistics().remotes, 0);
}

#[test]
fn beside_an_acnetd_any_of_its_nodes_may_be_a_client() {
    let options = ServiceOptions { acnetd: Some(front_end_address()), requests_of_address: 10, ..Default::default() };
    let mut world = ServiceWorld::with(DEMO, options);
    let search = AcnetHeader { client: UNLISTED, ..request(EVERYBODY, PacketKind::Request, OTHER) };
    say(&mut world, &search, &ServiceDiscovery {}.into());
    let found = messages(&mut world);
    assert!(matches!(found.as_slice(), [(header, Reply::ServiceDiscovery(_))] if header.client == UNLISTED));

    // Each node has shares of its own, though all have the same address.
    for client in [UNLISTED, UNLISTED + 1] {
        let to_us = |kind, message| AcnetHeader { client, ..request(HERE, kind, message) };
        say(&mut world, &to_us(PacketKind::MultipleRequest, STREAM), &OpenList { location: None }.into());
        let said = messages(&mut world);
        let [(_, Reply::OpenList(opened))] = &said[..] else { panic!("no list: {said:?}") };
        let list_id = opened.list_id;
        for ref_id in 1..=10 {
            let add = AddToList { list_id, ref_id, drf_request: format!("G:COUNTR@p,{ref_id}000") };
            say(&mut world, &to_us(PacketKind::Request, OTHER), &add.into());
        }
        say(&mut world, &to_us(PacketKind::Request, OTHER), &StartList { list_id, model: None }.into());
        let said: Vec<Reply> = messages(&mut world).into_iter().map(|(_, reply)| reply).collect();
        let refused = |reply: &&Reply| matches!(reply, Reply::Status(_));
        assert_eq!(said.iter().find(refused), None);
    }
    world.pass(5000);
    let said = messages(&mut world);
    let readings = |node| said.iter().filter(|(header, _)| header.client == node).count();
    assert!(readings(UNLISTED) > 5 && readings(UNLISTED) == readings(UNLISTED + 1), "{said:?}");

    let mut places: Vec<_> = world.dpm.overview(world.moment()).clients.into_iter().map(|line| line.from).collect();
    places.sort();
    assert_eq!(places, ["node:0a06", "node:0a07"]);

    // Nobody answers for these nodes, so they count as gone.
    world.pass(120_000);
    assert_eq!((world.statistics().remotes, world.statistics().lists), (0, 0));
}

#[test]
fn an_unlisted_node_that_answers_pings_keeps_its_lists() {
    let options = ServiceOptions { acnetd: Some(front_end_address()), ..Default::default() };
    let mut world = ServiceWorld::with(DEMO, options);
    let stream = AcnetHeader { client: UNLISTED, ..request(HERE, PacketKind::MultipleRequest, STREAM) };
    say(&mut world, &stream, &OpenList { location: None }.into());
    for _ in 0..12 {
        world.datagrams.clear();
        world.pass(10_000);
        let now = world.moment();
        for ping in pings(&world.datagrams) {
            let reply = AcnetHeader { kind: PacketKind::Reply, ..ping };
            world.dpm.datagram(front_end_address(), &mut reply.datagram(&[0, 0]), now);
        }
    }
    assert_eq!(world.statistics().remotes, 1);
    // A reply that nobody waits for is no harm.
    let stray = AcnetHeader { server: UNLISTED, client: HERE, ..request(HERE, PacketKind::Reply, 1) };
    for task_id in 0..8 {
        let now = world.moment();
        world.dpm.datagram(front_end_address(), &mut AcnetHeader { task_id, ..stray }.datagram(&[1, 2]), now);
    }
    world.pass(0);
}

/// Returns the pings of the unlisted node.
fn pings(datagrams: &[Vec<u8>]) -> Vec<AcnetHeader> {
    let headers = |datagram: &Vec<u8>| {
        let mut datagram = datagram.clone();
        packet::swap(&mut datagram);
        packet::packets(&datagram).map(|packet| packet.header).collect::<Vec<_>>()
    };
    let is_ping = |header: &AcnetHeader| header.kind == PacketKind::Request && header.server == UNLISTED;
    datagrams.iter().flat_map(headers).filter(is_ping).collect()
}

fn open(world: &mut ServiceWorld, stream: u16) -> i32 {
    let said = ask(world, HERE, PacketKind::MultipleRequest, stream, &OpenList { location: None }.into());
    match said.as_slice() {
        [(header, Reply::OpenList(opened))] => {
            assert_eq!((header.kind, header.message), (PacketKind::ReplyWithMore, stream));
            opened.list_id
        }
        other => panic!("no list: {other:?}"),
    }
}

fn add(world: &mut ServiceWorld, list_id: i32, ref_id: i64, drf: &str) -> Vec<(AcnetHeader, Reply)> {
    let add = AddToList { list_id, ref_id, drf_request: drf.into() };
    ask(world, HERE, PacketKind::Request, OTHER, &add.into())
}

fn cancel(world: &mut ServiceWorld, message: u16) {
    say_bytes(world, &request(HERE, PacketKind::Cancel, message), &[]);
}

/// Returns the replies to a request from a task of the first front-end.
fn ask(
    world: &mut ServiceWorld,
    server: u16,
    kind: PacketKind,
    message: u16,
    body: &Request,
) -> Vec<(AcnetHeader, Reply)> {
    world.datagrams.clear();
    say(world, &request(server, kind, message), body);
    // The datagrams are kept for tests that count them.
    read(&world.datagrams)
}

fn say(world: &mut ServiceWorld, header: &AcnetHeader, request: &Request) {
    let mut body = Vec::new();
    request.encode(&mut body);
    say_bytes(world, header, &body);
}

fn say_bytes(world: &mut ServiceWorld, header: &AcnetHeader, body: &[u8]) {
    let now = world.moment();
    world.dpm.datagram(front_end_address(), &mut header.datagram(body), now);
    world.pass(0);
}

/// Returns the messages to tasks since the last call.
fn messages(world: &mut ServiceWorld) -> Vec<(AcnetHeader, Reply)> {
    read(&std::mem::take(&mut world.datagrams))
}

fn read(datagrams: &[Vec<u8>]) -> Vec<(AcnetHeader, Reply)> {
    let packets = packets(datagrams);
    packets.into_iter().map(|(header, body)| (header, Reply::decode(&body).expect("a reply"))).collect()
}

fn statuses_of_packets(world: &ServiceWorld) -> Vec<Status> {
    packets(&world.datagrams).into_iter().map(|(header, _)| header.status).collect()
}

fn packets(datagrams: &[Vec<u8>]) -> Vec<(AcnetHeader, Vec<u8>)> {
    let mut all = Vec::new();
    for datagram in datagrams {
        let mut datagram = datagram.clone();
        packet::swap(&mut datagram);
        let packets = packet::packets(&datagram).filter(|packet| packet.header.task == task());
        all.extend(packets.map(|packet| (packet.header, packet.body.to_vec())));
    }
    all
}

fn request(server: u16, kind: PacketKind, message: u16) -> AcnetHeader {
    AcnetHeader { kind, status: Status::SUCCESS, server, client: 0x0c23, task: task(), task_id: 7, message }
}

fn task() -> Rad50 {
    Rad50::parse("DPMD").expect("a name")
}
