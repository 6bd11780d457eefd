//! `rookery slow`: what has taken the running server too long.

use serde_json::Value;

use super::rig::{FREE_PORTS, Rig};

fn json(rig: &Rig, command: &str) -> Value {
    let ran = rig.command(&[command, "--json"]).output().expect("a process");
    let text = String::from_utf8_lossy(&ran.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn what_is_slow_follows_from_the_configuration() {
    let rig = Rig::fresh();
    rig.write("rookery.toml", &format!("{FREE_PORTS}[instruments]\nslow_ms = 600000\n"));
    let (server, _) = rig.serve();
    assert_eq!(rig.run(&["slow"]).fine(), "nothing has taken 600000 ms or longer since the start\n");
    let found = json(&rig, "slow");
    assert_eq!((&found["limit_ms"], &found["events"]), (&600_000.into(), &Value::Array(Vec::new())));
    // Writing to the disk takes a millisecond at some time, however fast it is.
    rig.write("rookery.toml", &format!("{FREE_PORTS}[instruments]\nslow_ms = 1\n"));
    rig.run(&["reload"]).fine();
    let found = loop {
        rig.run_with(&["user", "passwd", "admin@localhost", "--password-stdin"], "correct horse\n").fine();
        let found = json(&rig, "slow");
        if found["events"].as_array().is_some_and(|events| !events.is_empty()) {
            break found;
        }
    };
    let event = &found["events"][0];
    assert!(event["milliseconds"].as_u64().is_some_and(|ms| ms >= 1), "{found}");
    assert!(event["kind"].is_string() && event["time"].is_string() && event["what"].is_string(), "{found}");
    assert!(rig.run(&["slow"]).fine().contains("since the start: "));
    rig.write("rookery.toml", &format!("{FREE_PORTS}[instruments]\nslow_ms = 0\n"));
    rig.run(&["reload"]).fine();
    assert!(rig.run(&["slow"]).fine().contains("slow_ms in [instruments] is 0"));
    assert_eq!(server.stop(), 0);
    rig.run(&["slow"]).failed(1, "no server runs in ");
}
