//! Bounds for one client or one address in shared resources: the excess is refused to the client
//! that causes it, others are served, and everything is freed again.

use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::{ClearList, RemoveFromList};
use rookery_dpm::service::{BroughtBy, ServiceOptions};
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{BrokenDevice, ServiceWorld, TcpClient, numbers, statuses};

#[test]
fn one_client_cannot_take_all_ids() {
    let mut world = ServiceWorld::new(DEMO);
    let (greedy, other) = (world.client_from(1), world.client_from(2));
    // For a front-end with GETS32, each period is a separate event.
    ask_for_events(&mut world, &greedy, 0..9000);
    let refused = refusals(&mut world, &greedy, 0..9000);
    assert_eq!(refused.len(), 9000 - ServiceOptions::default().events_of_client);
    assert!(refused.iter().all(|status| *status == Status::BUSY), "and it is told so");
    for (ref_id, drf) in [(1, "G:COUNTR@P,777"), (2, "M:OUTTMP@P,500"), (3, "Z:CUBE_X@I"), (4, "G:WATER@E,0F")] {
        world.add(&other, ref_id, drf);
    }
    world.start(&other);
    world.pass(5000);
    let replies = world.replies(&other);
    assert!((1..=4).all(|ref_id| !numbers(&replies, ref_id).is_empty()), "nobody else notices");
    // Further readers of running events, and single readings, take no more of them.
    world.replies(&greedy);
    world.add(&greedy, 9001, "G:WATER@P,20000");
    world.add(&greedy, 9002, "G:WATER@I");
    world.start(&greedy);
    let replies = world.replies(&greedy);
    assert_eq!((numbers(&replies, 9001).len(), numbers(&replies, 9002).len()), (1, 1));
    // Requests that end make room for others.
    for ref_id in 0..10 {
        world.ask(&greedy, RemoveFromList { list_id: greedy.list_id, ref_id });
    }
    ask_for_events(&mut world, &greedy, 10_000..10_020);
    let readings = world.replies(&greedy).iter().filter(|reply| matches!(reply, Reply::Scalar(_))).count();
    assert_eq!(readings, 9, "one of the ten events is read for 9001");
    world.dpm.disconnect(greedy.key);
    world.dpm.disconnect(other.key);
    world.pass(0);
    let statistics = world.statistics();
    assert_eq!((statistics.entries, statistics.groups, world.simulator.streams()), (0, 0, 0));
    assert_eq!(statistics.shares, 0, "nothing is counted for those who left");
}

#[test]
fn whatever_clients_do_is_given_back_when_they_leave() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut clients: Vec<TcpClient> = Vec::new();
    for _ in 0..5000 {
        let place = next(clients.len().max(1) as u64) as usize;
        let Some(client) = clients.get(place).copied().filter(|_| next(40) > 0) else {
            clients.push(world.client_from(next(3) as u8));
            continue;
        };
        let (list_id, ref_id) = (client.list_id, next(30) as i64);
        world.bytes(client.key);
        match next(12) {
            0 => {
                world.dpm.disconnect(client.key);
                world.bytes(client.key);
                clients.swap_remove(place);
            }
            1 => world.stop(&client),
            2 => world.ask(&client, ClearList { list_id }),
            3 => world.ask(&client, RemoveFromList { list_id, ref_id }),
            4 => world.start(&client),
            5 => world.pass(next(3000)),
            6 => {
                world.cut = next(4) == 0;
                world.silent = [118_040, 118_010, 118_050, 27_235].into_iter().filter(|_| next(3) == 0).collect();
                world.broken.clear();
                if next(3) == 0 {
                    world.broken.insert(118_001, BrokenDevice::Refused(Status::BUSY));
                }
            }
            _ => {
                let device = ["M:OUTTMP", "G:WATER", "G:SILENT", "B:ARRAY[3]", "G:COUNTR", "Z:CUBE_X", "Z:NOSUCH"]
                    [next(7) as usize];
                let event = ["@I", "@P,1000", "@P,1009", "@Q,500", "@E,0F", "@P,100H", "@N", "<-LOGGERDURATION:9000"];
                world.add(&client, ref_id, &format!("{device}{}", event[next(8) as usize]));
            }
        }
    }
    for client in clients {
        world.dpm.disconnect(client.key);
    }
    world.cut = false;
    world.silent.clear();
    world.pass(20_000);
    let statistics = world.statistics();
    // The recorder continues to read.
    assert_eq!((statistics.clients, statistics.lists, statistics.shares), (0, 0, 0));
    assert_eq!((statistics.entries, statistics.groups, statistics.plots), (2, 2, 0), "{statistics:?}");
}

#[test]
fn the_connections_of_an_address_share_one_bound() {
    let mut world = ServiceWorld::new(DEMO);
    let clients: Vec<TcpClient> = (0..4).map(|_| world.client_from(1)).collect();
    for (client, from) in clients.iter().zip([0, 1000, 2000, 3000]) {
        ask_for_events(&mut world, client, from..from + 900);
    }
    let refused = [0, 1000, 2000, 3000].into_iter().zip(&clients);
    let refused: Vec<usize> = refused.map(|(from, client)| refused_of(&mut world, client, from..from + 900)).collect();
    assert_eq!(refused, [0, 0, 700, 900]);
    // Events that the address already reads don't count again.
    let more = world.client_from(1);
    ask_for_events(&mut world, &more, 0..900);
    assert_eq!(refused_of(&mut world, &more, 0..900), 0);
    for client in &clients[..2] {
        world.ask(client, ClearList { list_id: client.list_id });
    }
    // The first 900 are still read by the other connection.
    ask_for_events(&mut world, &clients[3], 3000..3900);
    assert_eq!(refused_of(&mut world, &clients[3], 3000..3900), 0);
}

#[test]
fn addresses_share_what_is_left_and_each_newcomer_gets_some() {
    let mut world = ServiceWorld::new(DEMO);
    let mut got = Vec::new();
    for host in 1..=8 {
        let mut taken = 0;
        for part in 0..2 {
            let client = world.client_from(host);
            let from = i64::from(host) * 10_000 + part * 1000;
            ask_for_events(&mut world, &client, from..from + 1000);
            taken += 1000 - refused_of(&mut world, &client, from..from + 1000);
        }
        got.push(taken);
    }
    assert!(got.is_sorted_by(|one, other| one >= other) && got[7] >= 10, "{got:?}");
    assert_eq!(got[..2], [2000, 1560], "the second has as much as is left then");
    assert!(got.iter().sum::<usize>() < 5120, "{got:?}");
    let last = world.client_from(9);
    world.add(&last, 1, "G:COUNTR@P,499");
    world.start(&last);
    assert_eq!(numbers(&world.replies(&last), 1).len(), 1);
}

#[test]
fn readers_without_an_id_are_told_and_served_once_there_is_one() {
    let options = ServiceOptions { events_of_client: 20_000, events_of_address: 20_000, ..ServiceOptions::default() };
    let mut world = ServiceWorld::with(DEMO, options);
    world.cut = true;
    let clients: Vec<TcpClient> = (0..4).map(|host| world.client_from(host)).collect();
    for (number, client) in (0i64..).zip(&clients) {
        ask_for_events(&mut world, client, number * 3000..number * 3000 + 3000);
    }
    let refused: usize = (0i64..)
        .zip(&clients)
        .map(|(number, client)| refused_of(&mut world, client, number * 3000..number * 3000 + 3000))
        .sum();
    assert!(refused > 12_000 - 5120, "{refused}");
    assert!(world.statistics().groups <= 5120);
    // A single reading gets its status in time.
    let other = world.client_from(100);
    world.add(&other, 1, "M:OUTTMP@I");
    world.start(&other);
    world.pass(4100);
    assert_eq!(statuses(&world.replies(&other), 1).len(), 1);
    world.cut = false;
    for client in &clients {
        world.dpm.disconnect(client.key);
    }
    world.add(&other, 2, "M:OUTTMP@P,1000");
    world.start(&other);
    assert_eq!(numbers(&world.replies(&other), 2).len(), 1);
}

#[test]
fn requests_and_lists_are_counted_by_connection_and_address() {
    let options = ServiceOptions {
        requests: 50,
        requests_of_client: 60,
        requests_of_address: 100,
        lists_of_address: 3,
        ..ServiceOptions::default()
    };
    let mut world = ServiceWorld::with(DEMO, options);
    let clients = [world.client_from(1), world.client_from(1), world.client_from(1)];
    for client in &clients {
        for ref_id in 0..50 {
            world.add(client, ref_id, "M:OUTTMP@N");
        }
    }
    let refused: Vec<usize> = clients.iter().map(|client| world.replies(client).len()).collect();
    assert_eq!(refused, [0, 0, 50]);
    let now = world.moment();
    let fourth = world.dpm.connect_from("10.0.0.1:9".parse().expect("an address"), now).expect("a place");
    assert!(world.send(fourth, b"GET /dpm HTTP/1.1\r\n\r\n").is_err(), "its list is one too many");
    world.dpm.disconnect(fourth);
    world.ask(&clients[0], ClearList { list_id: clients[0].list_id });
    world.dpm.disconnect(clients[1].key);
    for ref_id in 0..50 {
        world.add(&clients[2], ref_id, "M:OUTTMP@N");
        world.add(&clients[0], ref_id, "M:OUTTMP@N");
    }
    assert!(world.replies(&clients[2]).is_empty() && world.replies(&clients[0]).is_empty());
    // Another address has its own share.
    let other = world.client_from(2);
    world.add(&other, 1, "M:OUTTMP@N");
    assert!(world.replies(&other).is_empty());
}

#[test]
fn hosts_of_one_network_of_ipv6_are_one_address() {
    let mut world = ServiceWorld::with(DEMO, ServiceOptions { clients_of_address: 2, ..ServiceOptions::default() });
    let now = world.moment();
    let mut connect = |address: &str| world.dpm.connect_from(address.parse().expect("an address"), now).is_some();
    assert!(connect("[2001:db8:1:2::1]:1") && connect("[2001:db8:1:2:ffff::2]:1"));
    assert!(!connect("[2001:db8:1:2:3:4:5:6]:1"));
    assert!(connect("[2001:db8:1:3::1]:1"));
    // The same host counts as one address in IPv4 and IPv6.
    assert!(connect("10.0.0.1:1") && connect("[::ffff:10.0.0.1]:1") && !connect("10.0.0.1:2"));
}

#[test]
fn plots_are_counted() {
    let mut world = ServiceWorld::new(DEMO);
    let (greedy, other) = (world.client_from(1), world.client_from(2));
    // Each period is a separate plot.
    for ref_id in 1..=200 {
        world.add(&greedy, ref_id, &format!("G:WATER@P,{}U", 1000 + 10 * ref_id));
    }
    world.start(&greedy);
    let replies = world.replies(&greedy);
    let refused = (1..=200).filter(|ref_id| statuses(&replies, *ref_id) == [Status::BUSY]).count();
    assert_eq!((refused, world.statistics().plots), (200 - ServiceOptions::default().plots_of_client, 64));
    world.add(&other, 1, "G:WATER@P,100H");
    world.start(&other);
    assert_eq!(world.statistics().plots, 65);
    world.stop(&greedy);
    assert_eq!(world.statistics().plots, 1);
}

/// Starts to read on as many different periods.
fn ask_for_events(world: &mut ServiceWorld, client: &TcpClient, numbers: std::ops::Range<i64>) {
    for number in numbers {
        world.add(client, number, &format!("G:WATER@P,{}", 20_000 + number));
    }
    world.start(client);
}

fn refused_of(world: &mut ServiceWorld, client: &TcpClient, numbers: std::ops::Range<i64>) -> usize {
    refusals(world, client, numbers).len()
}

fn refusals(world: &mut ServiceWorld, client: &TcpClient, numbers: std::ops::Range<i64>) -> Vec<Status> {
    let replies = world.replies(client);
    let of_client: Vec<Status> = replies
        .iter()
        .filter_map(|reply| match reply {
            Reply::Status(status) if numbers.contains(&status.ref_id) => Some(Status(status.status)),
            _ => None,
        })
        .collect();
    of_client
}

#[test]
fn waiting_output_is_bounded_for_an_address_and_for_all() {
    let options = ServiceOptions {
        queue: 1 << 20,
        queue_of_address: 4 << 20,
        queue_of_all: 6 << 20,
        ..ServiceOptions::default()
    };
    let mut world = ServiceWorld::with(DEMO, options);
    let mut crowd: Vec<TcpClient> = Vec::new();
    for number in 0..40 {
        let client = world.client_from(1 + number / 20);
        for ref_id in 0..100 {
            world.add(&client, ref_id, "B:ARRAY[].RAW@P,100");
        }
        world.start(&client);
        world.stuck.push(client.key);
        crowd.push(client);
    }
    let reader = world.client_from(3);
    world.add(&reader, 1, "B:ARRAY[].RAW@P,100");
    world.start(&reader);
    world.pass(60_000);
    let waiting: Vec<usize> = crowd
        .iter()
        .map(|client| {
            let mut bytes = Vec::new();
            world.dpm.render(client.key, &mut bytes, usize::MAX);
            bytes.len()
        })
        .collect();
    // Framing adds a little to what was counted; each client has its first 64 KiB in any case.
    let (first, all) = (waiting[..20].iter().sum::<usize>(), waiting.iter().sum::<usize>());
    assert!((4 << 20..8 << 20).contains(&first), "{first}");
    assert!((8 << 20..12 << 20).contains(&all), "{all}");
    assert!(waiting.iter().all(|bytes| (60_000..2 << 20).contains(bytes)), "{waiting:?}");
    let replies = world.replies(&reader);
    assert!(replies.iter().filter(|reply| matches!(reply, Reply::Raw(_))).count() > 590, "who reads has all");
    for client in crowd.into_iter().chain([reader]) {
        world.dpm.disconnect(client.key);
    }
    assert_eq!(world.statistics().shares, 0);
}

#[test]
fn calls_by_grpc_count_for_the_address_that_makes_them() {
    let mut world = ServiceWorld::new(DEMO);
    let now = world.moment();
    let requests: Vec<String> = (0..1500).map(|number| format!("G:WATER@P,{}", 20_000 + number)).collect();
    let mut entries = Vec::new();
    let calls = [1u8, 1, 1, 2].map(|host| world.dpm.connect_for([10, 0, 0, host].into(), BroughtBy::Grpc));
    for (number, call) in calls.iter().enumerate() {
        let requests: Vec<String> = requests.iter().map(|request| format!("{request}{number}")).collect();
        world.dpm.read(*call, &requests, now).expect("a place");
        world.pass(0);
        entries.push(world.statistics().entries);
    }
    assert_eq!(entries, [1000, 2000, 2000, 3000]);
    calls.iter().for_each(|call| world.dpm.disconnect(*call));
    assert_eq!((world.statistics().entries, world.statistics().shares), (0, 0));
}
