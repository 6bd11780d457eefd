//! Devices whose readings are in `/metrics`.

use std::sync::Arc;

use rookery_dpm::database::Database;
use rookery_dpm::service::{BroughtBy, CloseClient};

use crate::DEMO;
use crate::world::ServiceWorld;

const METRICS: &str = "
[[metric]]
request = 'M:OUTTMP@P,1000'
[[metric]]
request = 'B:ARRAY[0:2]@P,2000'
";

/// Returns what a client of this process gets for `/metrics`, without the head.
fn page(world: &mut ServiceWorld) -> String {
    let client = world.dpm.connect();
    assert_eq!(world.send(client, b"GET /metrics HTTP/1.1\r\n\r\n"), Err(CloseClient));
    world.read(client);
    let text = String::from_utf8(world.bytes(client)).expect("text");
    text.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

/// Returns the lines of `/metrics` that are about readings.
fn samples(world: &mut ServiceWorld) -> Vec<String> {
    page(world)
        .lines()
        .filter(|line| line.starts_with("rookery_dpm_reading{") || line.starts_with("rookery_dpm_reading_good"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn metrics_show_the_newest_readings_with_device_element_and_units() {
    let mut world = ServiceWorld::new(&format!("{DEMO}{METRICS}"));
    world.pass(3000);
    let lines = samples(&mut world);
    let starts = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!(starts("rookery_dpm_reading_good{device=\"M:OUTTMP.READING\"} 1"), 1, "{lines:?}");
    assert_eq!(
        starts("rookery_dpm_reading{device=\"M:OUTTMP.READING\",element=\"0\",units=\"DegF\"} "),
        1,
        "{lines:?}"
    );
    assert_eq!(starts("rookery_dpm_reading{device=\"B:ARRAY.READING[0:2]\",element=\"2\""), 1, "{lines:?}");
    // The gauges share readings with clients.
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,1000");
    world.start(&client);
    assert_eq!(world.statistics().pool.shared, 1);
}

#[test]
fn a_silent_device_has_no_value() {
    let mut world = ServiceWorld::new(&format!("{DEMO}{METRICS}"));
    world.pass(3000);
    world.cut = true;
    world.pass(60_000);
    assert_eq!(
        samples(&mut world),
        [
            "rookery_dpm_reading_good{device=\"M:OUTTMP.READING\"} 0",
            "rookery_dpm_reading_good{device=\"B:ARRAY.READING[0:2]\"} 0"
        ]
    );
}

#[test]
fn a_reload_changes_the_devices_in_the_metrics() {
    let mut world = ServiceWorld::new(&format!("{DEMO}{METRICS}"));
    world.pass(3000);
    let other = format!("{DEMO}[[metric]]\nrequest = 'G:COUNTR@P,1000'\n");
    world.dpm.reload(Arc::new(Database::read(&other).expect("a good file"))).expect("the same nodes");
    world.pass(3000);
    let lines = samples(&mut world);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("G:COUNTR")), "{lines:?}");
    assert_eq!(world.statistics().entries, 1);
}

#[test]
fn metrics_that_are_not_repeated_numbers_are_refused() {
    for (request, words) in [
        ("M:OUTTMP@I", "a recurring event"),
        ("M:OUTTMP.ANALOG@P,1000", "can be shown in /metrics"),
        ("X:NOBODY@P,1000", "cannot be read"),
    ] {
        let mistake = Database::read(&format!("{DEMO}[[metric]]\nrequest = '{request}'\n")).expect_err(request);
        assert_eq!(mistake.field, "metric.request");
        assert!(mistake.what.contains(words), "{request}: {mistake}");
    }
}

#[test]
fn the_page_for_the_tests_of_the_web_front_is_up_to_date() {
    let mut world = ServiceWorld::new(&format!("{DEMO}{METRICS}"));
    world.pass(3000);
    // Of the samples, only names and labels count there.
    let plain = |line: &str| match line.rsplit_once(' ') {
        Some((name, _)) if !line.starts_with('#') => format!("{name} 0\n"),
        _ => format!("{line}\n"),
    };
    let text: String = page(&mut world).lines().map(plain).collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/metrics.txt");
    if std::env::var_os("UPDATE_DOC").is_some() {
        std::fs::write(file, &text).expect("the page is written");
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert_eq!(found, text, "run UPDATE_DOC=1 cargo test --workspace up_to_date");
}

#[test]
fn silent_front_ends_and_clients_are_counted_by_protocol() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,1000");
    world.start(&client);
    world.dpm.connect_for([10, 0, 0, 7].into(), BroughtBy::ChannelAccess);
    world.pass(3000);
    let has = |world: &mut ServiceWorld, line: &str| page(world).lines().any(|told| told == line);
    assert!(has(&mut world, "rookery_dpm_protocol_clients{protocol=\"DPM\"} 1"));
    assert!(has(&mut world, "rookery_dpm_protocol_clients{protocol=\"EPICS\"} 1"));
    assert!(has(&mut world, "rookery_dpm_protocol_clients{protocol=\"gRPC\"} 0"));
    let silent =
        |count: u8| format!("rookery_dpm_front_end_silent{{front_end=\"MUONFE\",protocol=\"RETDAT\"}} {count}");
    assert!(has(&mut world, &silent(0)));
    world.cut = true;
    world.pass(60_000);
    assert!(has(&mut world, &silent(1)));
    assert!(has(&mut world, "rookery_dpm_front_end_things{front_end=\"MUONFE\",protocol=\"RETDAT\"} 1"));
}

/// Returns the status that a host gets for a path.
fn got(world: &mut ServiceWorld, host: [u8; 4], path: &str) -> String {
    let now = world.moment();
    let client = world.dpm.connect_from((host, 5000).into(), now).expect("a place");
    let request = format!("GET {path} HTTP/1.1\r\n\r\n");
    assert_eq!(world.send(client, request.as_bytes()), Err(CloseClient));
    world.read(client);
    String::from_utf8(world.bytes(client)).expect("text").split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn hosts_of_named_networks_may_scrape_and_see_nothing_else() {
    let mut world = ServiceWorld::new(DEMO);
    assert_eq!(got(&mut world, [192, 0, 2, 1], "/metrics"), "404");
    world.dpm.let_scrape(vec!["192.0.2.0/24".parse().expect("a network")]);
    assert_eq!(
        [got(&mut world, [192, 0, 2, 1], "/metrics"), got(&mut world, [192, 0, 3, 1], "/metrics")],
        ["200", "404"]
    );
    assert_eq!([got(&mut world, [192, 0, 2, 1], "/overview"), got(&mut world, [192, 0, 2, 1], "/top")], ["404", "404"]);
}
