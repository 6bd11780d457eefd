//! `rookery slow` and `rookery doctor`: the health of the running server.

use serde_json::Value;

use super::rig::{CliRig, FREE_PORTS};

fn json(rig: &CliRig, command: &str) -> Value {
    let ran = rig.command(&[command, "--json"]).output().expect("a process");
    let text = String::from_utf8_lossy(&ran.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn what_is_slow_follows_from_the_configuration() {
    let rig = CliRig::fresh();
    rig.write("rookery.toml", &format!("{FREE_PORTS}[instruments]\nslow_ms = 600000\n"));
    let (server, _) = rig.serve();
    assert_eq!(rig.run(&["slow"]).fine(), "nothing has taken 600000 ms or longer since the start\n");
    let found = json(&rig, "slow");
    assert_eq!((&found["limit_ms"], &found["events"]), (&600_000.into(), &Value::Array(Vec::new())));
    // Some write to the disk takes a millisecond, however fast it is.
    rig.write("rookery.toml", &format!("{FREE_PORTS}[instruments]\nslow_ms = 1\n"));
    rig.run(&["reload"]).fine();
    let found = loop {
        rig.run_with(&["user", "passwd", "admin@localhost", "--password-stdin", "--allow-short"], "correct horse\n")
            .fine();
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
    rig.run(&["slow"]).expect_failure(1, "no server is running in ");
}

#[test]
fn a_doctor_says_what_is_fine_with_its_numbers() {
    let rig = CliRig::fresh();
    let (_server, _) = rig.serve();
    let found = json(&rig, "doctor");
    let findings = found["findings"].as_array().expect("findings");
    for about in ["store", "shards", "sessions", "memory", "descriptors", "logins", "abuse", "other servers"] {
        let of = findings.iter().find(|finding| finding["about"] == about);
        assert!(of.is_some_and(|finding| finding["what"].is_string()), "{about} is missing: {found}");
    }
    let ran = rig.command(&["doctor"]).output().expect("a process");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let is_fine = text.ends_with("everything is fine\n");
    assert_eq!(ran.status.code(), Some(if is_fine { 0 } else { 3 }), "{text}");
    assert!(is_fine || text.contains("to do:") && text.contains("it matters:"), "{text}");
}
