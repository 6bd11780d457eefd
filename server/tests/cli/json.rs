//! Commands also have output for programs: an object, or for a list one per line. A test of the
//! table of commands checks that none lacks the flag.

use serde_json::{Value, json};

use super::control::{log_in, plain};
use super::rig::CliRig;

/// Runs a command with `--json`, and returns the objects that it prints.
#[track_caller]
fn objects(rig: &CliRig, arguments: &[&str]) -> Vec<Value> {
    let out = rig.run(&[arguments, &["--json"]].concat()).fine();
    let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(objects.iter().all(Value::is_object), "{out}");
    objects
}

#[test]
fn accounts_administrators_and_tokens_are_objects() {
    let rig = CliRig::new();
    assert_eq!(objects(&rig, &["user", "list"]), Vec::<Value>::new());
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let listed = objects(&rig, &["user", "list"]);
    let known = json!({ "jid": "juliet@localhost", "disabled": false, "online": false, "last_seen": null, "bytes": 0 });
    assert_eq!(listed.len(), 1);
    for (member, value) in known.as_object().expect("an object") {
        assert_eq!(&listed[0][member], value, "{member}: {listed:?}");
    }
    assert!(listed[0]["created"].as_str().is_some_and(|time| time.ends_with('Z')), "{listed:?}");
    rig.run(&["admin", "add", "juliet@localhost"]).fine();
    let admin = json!({ "jid": "juliet@localhost", "domain": "localhost", "by_configuration": false });
    assert_eq!(objects(&rig, &["admin", "list"]), [admin]);
    let made = objects(&rig, &["token", "add", "tool", "--scope", "users:read"]);
    assert!(made[0]["secret"].as_str().is_some_and(|secret| secret.len() > 20), "{made:?}");
    let tokens = objects(&rig, &["token", "list"]);
    assert_eq!((tokens.len(), &tokens[0]["name"], &tokens[0]["domain"]), (1, &json!("tool"), &Value::Null));
    assert_eq!(tokens[0]["scopes"], json!(["users:read"]));
    assert!(tokens[0].get("secret").is_none(), "{tokens:?}");
}

#[test]
fn links_are_objects() {
    let rig = CliRig::new();
    let link = objects(&rig, &["user", "invite", "localhost"]);
    assert!(link[0]["link"].as_str().is_some_and(|link| link.starts_with("xmpp:localhost?register")), "{link:?}");
    assert!(link[0]["expires"].as_str().is_some_and(|time| time.ends_with('Z')), "{link:?}");
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    assert!(objects(&rig, &["user", "reset-link", "juliet@localhost"])[0]["link"].is_string());
}

#[test]
fn bounds_and_databases_are_objects() {
    let rig = CliRig::new();
    let bounds = objects(&rig, &["config", "limits"]);
    let outbox = bounds.iter().find(|bound| bound["key"] == "limits.outbox_hard").expect("a bound");
    assert!(outbox["at_most"].is_string() && outbox["excess"].is_string(), "{outbox}");
    let plan = objects(&rig, &["store", "migrate", "--dry-run"]);
    assert_eq!((plan.len(), &plan[0]["done"]), (1, &json!(false)));
    assert!(plan[0]["steps"].as_array().is_some_and(|steps| !steps.is_empty()), "there is no database yet");
    assert!(!rig.path("rookery-data/rookery.db").exists(), "nothing was done");
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    rig.run(&["store", "copy", "--to", "sqlite:copy/rookery.db"]).fine();
    let tables = objects(&rig, &["store", "verify", "--to", "sqlite:copy/rookery.db"]);
    let accounts = tables.iter().find(|table| table["table"] == "accounts").expect("a table");
    assert_eq!((&accounts["from"], &accounts["from"]["rows"]), (&accounts["to"], &json!(1)));
}

#[test]
fn the_running_server_is_objects() {
    let rig = plain();
    let (_server, _) = rig.serve();
    assert_eq!(objects(&rig, &["s2s", "list"]), Vec::<Value>::new());
    assert_eq!(objects(&rig, &["s2s", "close", "a.example"]), [json!({ "ended": 0, "partial": false })]);
    assert_eq!(objects(&rig, &["status"]).len(), 1);
    assert!(objects(&rig, &["log"]).iter().all(|line| line["message"].is_string()));
}

#[test]
fn what_commands_do_is_objects() {
    let rig = plain();
    let (_server, said) = rig.serve();
    rig.write("accounts.csv", "juliet@localhost,correct horse\nparis@localhost,short\n");
    let imported = rig.run(&["user", "import", "accounts.csv", "--json"]);
    let counts: Value = serde_json::from_str(&imported.out).expect("an object");
    assert_eq!((imported.code, counts), (1, json!({ "added": 1, "left_out": 1, "with_rights": [] })));
    let added =
        rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--json"], "correct horse\n").fine();
    let added: Value = serde_json::from_str(&added).expect("an object");
    assert_eq!(added, json!({ "jid": "romeo@localhost", "has_rights": false }));
    let _session = log_in(&said, "romeo", "correct horse", "orchard");
    assert_eq!(objects(&rig, &["session", "end", "romeo@localhost/orchard"]), [json!({ "ended": 1 })]);
    assert_eq!(objects(&rig, &["session", "end", "romeo@localhost"]), [json!({ "ended": 0 })]);
    let removed = objects(&rig, &["user", "remove", "romeo@localhost"]);
    assert_eq!(removed, [json!({ "jid": "romeo@localhost", "removed": true })]);
    assert_eq!(objects(&rig, &["reload"]), [json!({ "reloaded": true, "restart": [] })]);
    let backup = objects(&rig, &["backup", "b.tar.gz"]);
    let bytes = std::fs::metadata(rig.path("b.tar.gz")).expect("a file").len();
    assert_eq!(
        (&backup[0]["file"], &backup[0]["bytes"], &backup[0]["uploads"]),
        (&json!("b.tar.gz"), &json!(bytes), &json!(0))
    );
}

#[test]
fn a_setup_is_an_object() {
    let rig = CliRig::empty();
    let plan = objects(&rig, &["setup", "example.org", "--data-dir", "data", "--dry-run"]);
    assert_eq!((&plan[0]["written"], &plan[0]["administrator"]), (&json!(false), &json!("admin@example.org")));
    assert!(!rig.path("data").exists());
    let made = objects(&rig, &["setup", "example.org", "--data-dir", "data"]);
    assert!(made[0]["invitation"].as_str().is_some_and(|link| link.contains("invite")), "{made:?}");
    assert!(made[0]["records"].as_array().is_some_and(|records| !records.is_empty()), "{made:?}");
    assert!(rig.path("data/rookery.toml").exists());
    rig.run(&["setup", "example.org", "--data-dir", "more", "--json", "--wait"]).expect_failure(2, "--wait");
}
