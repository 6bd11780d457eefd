//! Watchers of the service at work.

use std::net::SocketAddr;

use rookery_dpm::service::CloseClient;
use rookery_dpm::stages::ReadingStage;

use crate::DEMO;
use crate::world::ServiceWorld;

const ASKS: &[u8] = b"GET /top HTTP/1.1\r\n\r\n";

#[test]
fn stages_are_measured_while_somebody_watches() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,100");
    world.start(&client);
    world.pass(1000);
    assert_eq!(world.dpm.stages().of(ReadingStage::Scale).calls, 0, "nobody watches");

    let watcher = world.dpm.connect();
    world.send(watcher, ASKS).expect("it may watch");
    assert!(world.bytes(watcher).starts_with(b"HTTP/1.1 200 OK\r\n"));
    world.pass(2000);
    let text = String::from_utf8(world.bytes(watcher)).expect("text");
    let pages: Vec<&str> = text.split_terminator('\u{c}').collect();
    assert_eq!(pages.len(), 2, "{text}");
    assert!(pages[1].contains("consolidation 1.0") && pages[1].contains("copies per reading 1.00"), "{text}");
    for stage in ReadingStage::ALL {
        assert!(pages[1].lines().any(|line| line.starts_with(stage.name())), "{stage:?} is not in {text}");
    }
    for stage in
        [ReadingStage::LookUp, ReadingStage::Split, ReadingStage::Scale, ReadingStage::Encode, ReadingStage::Queue]
    {
        let calls = world.dpm.stages().of(stage).calls;
        assert!((18..=22).contains(&calls), "ten readings a second for two seconds: {stage:?} {calls}");
    }

    world.dpm.disconnect(watcher);
    let before = world.dpm.stages().of(ReadingStage::Scale);
    world.pass(1000);
    assert_eq!(world.dpm.stages().of(ReadingStage::Scale), before, "nobody watches any more");

    let next = world.dpm.connect();
    world.send(next, ASKS).expect("it may watch");
    world.pass(500);
    assert!(world.dpm.stages().of(ReadingStage::Scale).calls < before.calls, "what the last one saw is forgotten");
}

#[test]
fn many_readers_share_one_copy() {
    let mut world = ServiceWorld::new(DEMO);
    for _ in 0..50 {
        let client = world.client();
        world.add(&client, 1, "M:OUTTMP@p,100");
        world.start(&client);
    }
    world.pass(1000);
    let told = world.statistics().to_string();
    assert!(
        told.contains("asked by clients 50, found running 49, asked of front-ends 1 in 1 request: consolidation 50.0"),
        "{told}"
    );
    assert!(told.contains("copies per reading 1.00"), "{told}");
}

#[test]
fn only_this_machine_may_watch_and_watchers_may_send_nothing() {
    let mut world = ServiceWorld::new(DEMO);
    let from = SocketAddr::from(([192, 0, 2, 1], 40_000));
    let stranger = world.dpm.connect_from(from, world.moment()).expect("a place");
    assert_eq!(world.send(stranger, ASKS), Err(CloseClient));
    world.read(stranger);
    assert!(world.bytes(stranger).starts_with(b"HTTP/1.1 404 Not Found\r\n"));
    let watcher = world.dpm.connect();
    world.send(watcher, ASKS).expect("it may watch");
    assert_eq!(world.send(watcher, b"more"), Err(CloseClient));
    // A client that doesn't read gets one page and no more.
    let slow = world.dpm.connect();
    world.send(slow, ASKS).expect("it may watch");
    world.stuck.push(slow);
    world.pass(10_000);
    world.read(slow);
    let pages = world.bytes(slow).iter().filter(|byte| **byte == 0x0c).count();
    assert_eq!(pages, 1);
}

#[test]
fn counters_have_the_format_of_prometheus() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,100");
    world.start(&client);
    world.pass(1000);
    let watcher = world.dpm.connect();
    assert_eq!(
        world.send(watcher, b"GET /metrics HTTP/1.1\r\nHost: dpm\r\n\r\n"),
        Err(CloseClient),
        "it is closed afterwards"
    );
    let text = String::from_utf8(world.bytes(watcher)).expect("text");
    let (head, page) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains(&format!("Content-Length: {}", page.len())), "{head}");
    let delivered = world.statistics().pool.delivered;
    assert!(delivered >= 10);
    for line in [
        format!("rookery_dpm_delivered_total {delivered}"),
        "rookery_dpm_devices 1".to_owned(),
        "# TYPE rookery_dpm_asked_total counter".to_owned(),
        "rookery_dpm_packets_total{direction=\"out\",kind=\"request\"} 1".to_owned(),
    ] {
        assert!(page.lines().any(|other| other == line), "{line} is not in {page}");
    }
    // It is only available on this machine.
    let now = world.moment();
    let elsewhere = world.dpm.connect_from("192.0.2.1:5000".parse().expect("an address"), now).expect("a place");
    assert_eq!(world.send(elsewhere, b"GET /metrics HTTP/1.1\r\n\r\n"), Err(CloseClient));
    assert!(world.bytes(elsewhere).starts_with(b"HTTP/1.1 404"));
}
