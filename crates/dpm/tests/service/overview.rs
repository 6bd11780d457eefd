//! The overview of devices that are read, their readers and delays.

use rookery_dpm::service::{BroughtBy, CloseClient, Overview};
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{ServiceWorld, TcpClient};

fn reads(world: &mut ServiceWorld, client: &TcpClient, requests: &[&str]) {
    for (ref_id, request) in (1..).zip(requests) {
        world.add(client, ref_id, request);
    }
    world.start(client);
}

fn overview_of(world: &ServiceWorld) -> Overview {
    world.dpm.overview(world.moment())
}

#[test]
fn devices_are_listed_with_their_readers_and_as_requests_that_read_the_same() {
    let mut world = ServiceWorld::new(DEMO);
    let (one, other) = (world.client(), world.client());
    reads(&mut world, &one, &["M:OUTTMP@p,1000", "B:ARRAY[1:2]@p,500", "M:OUTTMP.ANALOG@p,2000", "G:COUNTR@I"]);
    reads(&mut world, &other, &["M:OUTTMP@p,1000"]);
    world.pass(3000);
    let seen = overview_of(&world);
    let told: Vec<(&str, usize)> = seen.devices.iter().map(|line| (line.request.as_str(), line.readers)).collect();
    assert_eq!(told[0], ("M:OUTTMP@p,1000", 2), "{told:?}");
    assert!(told.contains(&("B:ARRAY[1:2]@p,500", 1)), "{told:?}");
    assert!(told.contains(&("M:OUTTMP.ANALOG@p,2000", 1)), "{told:?}");
    assert_eq!(told.len(), 3, "what is read once is over: {told:?}");
    let line = &seen.devices[0];
    assert!((3..=4).contains(&line.readings) && line.age.is_some_and(|age| age < 1000) && line.late == 0, "{line:?}");
    // The overview names them by requests that read the same.
    let third = world.client();
    reads(&mut world, &third, &told.iter().map(|(request, _)| *request).collect::<Vec<_>>());
    assert_eq!(world.statistics().entries, 3);
}

#[test]
fn events_are_shown_with_their_clock_and_comparison() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    let events =
        ["@e,F,H,100", "@e,F,S,0", "@e,F,E,0", "@s,G:COUNTR,3,100,>=", "@s,G:COUNTR,3,0,!=", "@s,G:COUNTR,3,0,*"];
    let requests = events.map(|event| format!("G:COUNTR{event}"));
    reads(&mut world, &client, &requests.each_ref().map(String::as_str));
    world.pass(100);
    let told: Vec<String> = overview_of(&world).devices.into_iter().map(|line| line.request).collect();
    for request in &requests {
        assert!(told.contains(request), "{request}: {told:?}");
    }
    assert_eq!(told.len(), requests.len());
}

#[test]
fn clients_of_other_threads_are_listed_with_the_protocol_that_they_speak_there() {
    let mut world = ServiceWorld::new(DEMO);
    for by in [BroughtBy::ChannelAccess, BroughtBy::Http, BroughtBy::Grpc] {
        let key = world.dpm.connect_for([10, 0, 0, 7].into(), by);
        let client = world.greet(key);
        reads(&mut world, &client, &["M:OUTTMP@p,1000"]);
    }
    let mut told: Vec<_> = overview_of(&world).clients.iter().map(|line| line.speaks).collect();
    told.sort_unstable();
    assert_eq!(told, ["EPICS", "HTTP", "gRPC"]);
}

#[test]
fn silent_and_late_devices_are_listed_first() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    reads(&mut world, &client, &["M:OUTTMP@p,1000", "B:ARRAY@p,500"]);
    world.pass(3000);
    assert!(overview_of(&world).front_ends.iter().all(|line| (line.silent, line.late) == (0, 0)));
    world.cut = true;
    world.pass(2500);
    let overview = overview_of(&world);
    assert!(overview.devices.iter().all(|line| line.late > 0 || line.age.is_none()), "{:?}", overview.devices);
    world.pass(60_000);
    let overview = overview_of(&world);
    assert!(overview.devices.iter().all(|line| line.age.is_none() && line.status == Status::UTIME));
    assert!(overview.front_ends.iter().all(|line| line.silent == line.things && line.heard.is_none()));
    let text = overview.to_string();
    assert!(text.contains("(RETDAT)") && text.contains("silent"), "{text}");
}

#[test]
fn clients_are_listed_by_the_number_of_their_requests() {
    let mut world = ServiceWorld::new(DEMO);
    let (few, many) = (world.client_from(1), world.client_from(2));
    reads(&mut world, &few, &["M:OUTTMP@p,1000"]);
    reads(&mut world, &many, &["M:OUTTMP@p,1000", "G:COUNTR@p,1000", "B:ARRAY@p,1000"]);
    world.pass(100);
    let told: Vec<_> = overview_of(&world).clients;
    let told: Vec<_> = told.iter().map(|line| (line.from.as_str(), line.speaks, line.lists, line.requests)).collect();
    assert_eq!(told, [("10.0.0.2:4000", "DPM", 1, 3), ("10.0.0.1:4000", "DPM", 1, 1)]);
}

#[test]
fn an_overview_is_made_once_a_second_and_for_this_machine_only() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    reads(&mut world, &client, &["M:OUTTMP@p,1000"]);
    world.pass(2000);
    let mut get = || {
        let here = world.dpm.connect();
        assert_eq!(world.send(here, b"GET /overview HTTP/1.1\r\n\r\n"), Err(CloseClient));
        world.read(here);
        let text = String::from_utf8(world.bytes(here)).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        world.pass(400);
        body.to_owned()
    };
    let first = get();
    let read: serde_json::Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(read["devices"][0]["request"], "M:OUTTMP@p,1000");
    assert_eq!(read["front_ends"][0]["protocol"], "RETDAT");
    assert_eq!(get(), first);
    get();
    assert_ne!(get(), first);
    let now = world.moment();
    let elsewhere = world.dpm.connect_from("192.0.2.1:5000".parse().expect("an address"), now).expect("a place");
    assert_eq!(world.send(elsewhere, b"GET /overview HTTP/1.1\r\n\r\n"), Err(CloseClient));
    assert!(world.bytes(elsewhere).starts_with(b"HTTP/1.1 404"));
}
