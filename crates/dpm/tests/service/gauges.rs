//! Devices whose readings are in `/metrics`.

use std::sync::Arc;

use rookery_dpm::database::Database;
use rookery_dpm::service::CloseClient;

use crate::DEMO;
use crate::world::ServiceWorld;

const METRICS: &str = "
[[metric]]
request = 'M:OUTTMP@P,1000'
[[metric]]
request = 'B:ARRAY[0:2]@P,2000'
";

/// Returns the lines of `/metrics` that are about readings.
fn told(world: &mut ServiceWorld) -> Vec<String> {
    let client = world.dpm.connect();
    assert_eq!(world.send(client, b"GET /metrics HTTP/1.1\r\n\r\n"), Err(CloseClient));
    world.read(client);
    let text = String::from_utf8(world.bytes(client)).expect("text");
    text.lines()
        .filter(|line| line.starts_with("rookery_dpm_reading{") || line.starts_with("rookery_dpm_reading_good"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_newest_readings_are_told_with_device_element_and_units() {
    let mut world = ServiceWorld::new(&format!("{DEMO}{METRICS}"));
    world.pass(3000);
    let lines = told(&mut world);
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
fn what_is_silent_has_no_value() {
    let mut world = ServiceWorld::new(&format!("{DEMO}{METRICS}"));
    world.pass(3000);
    world.cut = true;
    world.pass(60_000);
    assert_eq!(
        told(&mut world),
        [
            "rookery_dpm_reading_good{device=\"M:OUTTMP.READING\"} 0",
            "rookery_dpm_reading_good{device=\"B:ARRAY.READING[0:2]\"} 0"
        ]
    );
}

#[test]
fn a_reload_changes_what_is_told_of() {
    let mut world = ServiceWorld::new(&format!("{DEMO}{METRICS}"));
    world.pass(3000);
    let other = format!("{DEMO}[[metric]]\nrequest = 'G:COUNTR@P,1000'\n");
    world.dpm.reload(Arc::new(Database::read(&other).expect("a good file"))).expect("the same nodes");
    world.pass(3000);
    let lines = told(&mut world);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("G:COUNTR")), "{lines:?}");
    assert_eq!(world.statistics().entries, 1);
}

#[test]
fn what_is_no_number_or_comes_once_is_refused() {
    for (request, words) in [
        ("M:OUTTMP@I", "an event that comes again"),
        ("M:OUTTMP.ANALOG@P,1000", "can be told by /metrics"),
        ("X:NOBODY@P,1000", "cannot be read"),
    ] {
        let mistake = Database::read(&format!("{DEMO}[[metric]]\nrequest = '{request}'\n")).expect_err(request);
        assert_eq!(mistake.field, "metric.request");
        assert!(mistake.what.contains(words), "{request}: {mistake}");
    }
}
