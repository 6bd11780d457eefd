//! `rookery check` finds the faults that a start would find.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::rig::{CliRig, FREE_PORTS};

/// The exit codes for a server that starts. There may be warnings: other programs may listen on the
/// machine that runs the tests, and its disk may be full.
const STARTS: [i32; 2] = [0, 3];
/// The exit code for one that starts with warnings.
const WARNS: [i32; 1] = [3];
/// The exit code for one that can't start now, but may later.
const BLOCKED: [i32; 1] = [75];
/// The exit code for one that doesn't start.
const REFUSES: [i32; 1] = [78];

/// Checks that the command reports this, with one of these exit codes.
#[track_caller]
fn finds(rig: &CliRig, codes: impl AsRef<[i32]>, words: &str) {
    let ended = rig.run(&["check"]);
    assert!(codes.as_ref().contains(&ended.code), "{}: {}", ended.code, ended.all());
    assert!(ended.out.contains(words), "{words:?} is not in:\n{}", ended.out);
}

/// Gives the rig a certificate for these names that expires in this year.
fn certificate(rig: &CliRig, names: &[&str], year: i32) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(year, 1, 1);
    let key = KeyPair::generate().expect("a key");
    rig.write("own.pem", &params.self_signed(&key).expect("a certificate").pem());
    rig.write("own.key", &key.serialize_pem());
    fs::set_permissions(rig.path("own.key"), fs::Permissions::from_mode(0o600)).expect("permissions");
    rig.write("rookery.toml", &format!("{FREE_PORTS}[tls]\ncertificate = \"own.pem\"\nkey = \"own.key\"\n"));
}

#[test]
fn a_fresh_folder_is_fine_and_stays_fresh() {
    let rig = CliRig::fresh();
    let checked = rig.run(&["check"]).all();
    assert!(checked.contains("the next start creates a self-signed one for localhost"), "{checked}");
    assert!(!rig.path("rookery-data").exists());
    rig.serve().0.stop();
    let checked = rig.run(&["check"]).all();
    assert!(checked.contains("self-signed.pem for localhost"), "{checked}");
    assert!(checked.contains("the integrity check found no damage"), "{checked}");
}

#[test]
fn a_taken_port_is_named() {
    let rig = CliRig::new();
    // No other test takes ports of this address.
    let taken = TcpListener::bind("127.83.1.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    rig.write(
        "rookery.toml",
        &format!("[listen]\nc2s = [\"{address}\"]\nc2s_tls = []\nweb = []\nweb_tls = []\nbytestreams = []\n"),
    );
    finds(&rig, BLOCKED, &format!("cannot listen on {address}"));
    finds(&rig, BLOCKED, &format!("`ss -ltnp sport = :{}` names it", address.port()));
    drop(taken);
    finds(&rig, STARTS, &format!("{address} is free"));
}

#[test]
fn proxies_that_nobody_named_are_told() {
    let rig = CliRig::new();
    rig.write("rookery.toml", FREE_PORTS);
    // As a warning if another program listens on the ports for browsers.
    finds(&rig, STARTS, "/admin, /api, /metrics");
    rig.write("rookery.toml", &format!("{FREE_PORTS}[web]\nproxy_protocol = true\n"));
    finds(&rig, WARNS, "web.proxy_protocol has no effect");
    rig.write("rookery.toml", &format!("{FREE_PORTS}[web]\ntrusted_proxies = [\"127.0.0.1\"]\n"));
    finds(&rig, STARTS, "has to set X-Forwarded-For");
}

#[test]
fn the_authority_and_the_chat_page_are_told() {
    let rig = CliRig::new();
    finds(&rig, STARTS, "chat page      /chat isn't installed: `rookery web install` downloads converse.js");
    finds(&rig, STARTS, "authority      off");
    rig.write(
        "rookery.toml",
        &format!(
            "domains = [\"a.example\", \"localhost\"]\n{FREE_PORTS}[web]\nchat = false\n[tls.acme]\nenabled = true\n\
             services = [\"upload\", \"rooms\"]\n"
        ),
    );
    finds(&rig, STARTS, "chat page      off: see `chat` in [web]");
    finds(&rig, STARTS, "for a.example, upload.a.example, conference.a.example: the running server obtains it");
    finds(&rig, STARTS, "localhost is a name that only this machine or network knows");
    finds(&rig, STARTS, "the authority connects to port 80 of each name, which has to lead to 127.0.0.1:0");
}

#[test]
fn certificates_are_read() {
    let rig = CliRig::new();
    certificate(&rig, &["localhost"], 2100);
    finds(&rig, STARTS, "own.pem for localhost, until 2100-01-01");
    finds(&rig, WARNS, "own.pem is self-signed");
    certificate(&rig, &["localhost"], 2021);
    finds(&rig, WARNS, "own.pem has expired on 2021-01-01");
    certificate(&rig, &["example.org"], 2100);
    finds(&rig, WARNS, "own.pem is for example.org, not for localhost");
    certificate(&rig, &["localhost"], 2100);
    fs::set_permissions(rig.path("own.key"), fs::Permissions::from_mode(0o644)).expect("permissions");
    finds(&rig, WARNS, "everybody on this machine can read the private key own.key");
    rig.write("own.key", &KeyPair::generate().expect("a key").serialize_pem());
    finds(&rig, REFUSES, "the private key does not belong to the certificate");
    rig.write("own.pem", "no certificate");
    finds(&rig, REFUSES, "own.pem with own.key: bad certificate");
    fs::remove_file(rig.path("own.pem")).expect("removed");
    finds(&rig, REFUSES, "cannot read own.pem");
}

#[test]
fn a_wrong_configuration_does_not_hide_the_storage() {
    let rig = CliRig::new();
    rig.write("rookery.toml", "shard = 1");
    finds(&rig, REFUSES, "rookery.toml:1: shard: there is no such key; did you mean `shards`?");
    finds(&rig, REFUSES, "storage");
    // The database may be another one.
    rig.write("rookery.toml", "[store]\nurl = \"oracle://chat\"");
    finds(&rig, REFUSES, "the database wasn't checked");
    assert!(!rig.run(&["check"]).out.contains("the server will create it"));
}

#[test]
fn a_database_that_is_none_is_found() {
    let rig = CliRig::new();
    fs::set_permissions(rig.path("rookery-data"), fs::Permissions::from_mode(0o755)).expect("permissions");
    finds(&rig, WARNS, "everybody on this machine can look into ./rookery-data");
    rig.write("rookery-data/rookery.db", &"this is not a database ".repeat(100));
    finds(&rig, REFUSES, "the database is damaged");
}

#[test]
fn keys_without_effect_are_told() {
    let rig = CliRig::new();
    rig.write("rookery.toml", &format!("{FREE_PORTS}plain_without_tls = true\n"));
    finds(&rig, WARNS, "login.plain_without_tls has no effect");
}

#[test]
fn a_start_agrees_with_the_check() {
    let rig = CliRig::new();
    // A certificate of another name, a service that has no address of its own, and a module without
    // the one that it needs.
    certificate(&rig, &["example.org"], 2100);
    let config = fs::read_to_string(rig.path("rookery.toml")).expect("the configuration");
    let modules = "[modules.rooms]\nhost = \"localhost\"\n[modules.disco]\nenabled = false\n";
    rig.write("rookery.toml", &format!("{config}{modules}"));
    let warnings = [
        "own.pem is for example.org, not for localhost",
        "rooms can't serve localhost: its address localhost is that of a domain",
        "caps does nothing in localhost: it needs disco, which is off",
    ];
    warnings.iter().for_each(|words| finds(&rig, WARNS, words));
    let (server, said) = rig.serve();
    assert!(said.contains("own.pem for example.org, until"), "{said}");
    rig.run(&["reload"]).fine();
    let log = server.log();
    for words in warnings {
        assert_eq!(log.matches(words).count(), 2, "once at the start, once at the reload: {words}: {log}");
    }
}

#[test]
fn a_start_is_refused_with_the_code_of_the_check() {
    // No other test takes ports of this address.
    let taken = TcpListener::bind("127.83.1.4:0").expect("a port");
    let taken = taken.local_addr().expect("its address");
    let listen = |address: &str| {
        format!("[listen]\nc2s = [\"{address}\"]\nc2s_tls = []\nweb = []\nweb_tls = []\nbytestreams = []\n")
    };
    let dpm =
        |keys: &str| format!("{FREE_PORTS}[dpm]\nenabled = true\ndemo = true\nlisten = [\"127.0.0.1:0\"]\n{keys}\n");
    // Faults that may pass by themselves, and others.
    let cases = [
        (75, listen(&taken.to_string()), format!("cannot listen on {taken}")),
        (75, listen("198.51.100.7:5222"), "this machine has no such address".to_owned()),
        (75, dpm(&format!("grpc = \"{taken}\"")), format!("cannot listen on {taken}")),
        (78, listen("localhost"), "listen.c2s".to_owned()),
    ];
    for (code, config, words) in cases {
        let rig = CliRig::new();
        rig.write("rookery.toml", &config);
        finds(&rig, [code], &words);
        rig.run(&["serve"]).expect_failure(code, &words);
    }
    let rig = CliRig::new();
    rig.write("rookery-data/rookery.db", &"this is not a database ".repeat(100));
    finds(&rig, REFUSES, "the database is damaged");
    rig.run(&["serve"]).expect_failure(78, "the database");
    // Permanent faults decide the exit code, whatever else is wrong.
    rig.write("rookery.toml", &listen(&taken.to_string()));
    finds(&rig, REFUSES, "the server will not start; faults: 2");
}

#[test]
fn a_port_of_two_keys_is_the_configurations_fault() {
    let rig = CliRig::new();
    rig.write("rookery.toml", "[listen]\nc2s = [\"127.83.1.2:5999\"]\nc2s_tls = [\"127.83.1.2:5999\"]\nweb = []\n");
    let words = "rookery.toml:3: listen.c2s_tls: port 5999 is also used by `c2s` in [listen]";
    finds(&rig, REFUSES, words);
    rig.run(&[]).expect_failure(78, words);
}

#[test]
fn an_interrupted_restore_keeps_a_server_from_starting() {
    let rig = CliRig::new();
    rig.write("rookery-data/rookery.restoring", "");
    finds(&rig, REFUSES, "a restore into ./rookery-data was interrupted");
    rig.run(&[]).expect_failure(78, "a restore into ./rookery-data was interrupted");
}

#[test]
fn programs_read_the_grade_and_people_only_what_matters() {
    let rig = CliRig::new();
    rig.write("rookery.toml", &format!("{FREE_PORTS}plain_without_tls = true\n"));
    let ended = rig.run(&["check", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!((ended.code, &json["grade"]), (3, &"warning".into()));
    let of = |about: &str| json["findings"].as_array().expect("a list").iter().any(|found| found["about"] == about);
    assert!(of("storage") && of("ports") && of("configuration"), "{json}");
    let quiet = rig.run(&["check", "--quiet"]).out;
    assert!(quiet.starts_with("warning  configuration  login.plain_without_tls has no effect"), "{quiet}");
    assert!(!quiet.contains("ok  "), "{quiet}");
}

#[test]
fn the_running_server_tells_whether_it_is_ready() {
    let rig = CliRig::new();
    let live = ["check", "--live"];
    let none = rig.run(&live);
    assert!(none.code == 75 && none.out.contains("blocked  server         no server is running"), "{}", none.all());
    let (server, _) = rig.serve();
    let ready = rig.run(&live).fine();
    assert!(ready.starts_with("ok       server         ready") && ready.lines().count() == 1, "{ready}");
    assert_eq!(rig.run(&["check", "--live", "--quiet"]).fine(), "");
    assert!(rig.run(&["check", "--live", "--json"]).fine().contains("\"grade\":\"ok\""));
    rig.run(&["check", "--live", "--dns"]).expect_failure(2, "cannot be used with");
    server.signal("KILL");
    drop(server);
    assert_eq!(rig.run(&live).code, 75);
}

#[test]
fn an_address_for_files_that_leads_nowhere_is_told() {
    let rig = CliRig::new();
    let with = |listen: &str, url: &str| {
        rig.write(
            "rookery.toml",
            &format!("[listen]\nc2s = [\"127.0.0.1:0\"]\nc2s_tls = []\nbytestreams = []\n{listen}[modules.upload]\nurl = \"{url}\"\n"),
        );
    };
    let told = "`url` in [modules.upload] sends the clients of localhost to port 9";
    with("web = []\nweb_tls = []\n", "https://x.org:9/upload");
    finds(&rig, WARNS, told);
    finds(&rig, WARNS, "it has no ports for them");
    with("web = [\"127.0.0.1:23280\"]\nweb_tls = [\"127.0.0.1:23443\"]\n", "https://x.org:9/upload");
    finds(&rig, WARNS, "its ports for them are 23280 (`web`), 23443 (`web_tls`)");
    // A proxy may be at a port that isn't written.
    for url in ["https://x.org:23443/upload", "https://x.org/upload"] {
        with("web = [\"127.0.0.1:23280\"]\nweb_tls = [\"127.0.0.1:23443\"]\n", url);
        assert!(!rig.run(&["check"]).out.contains("[modules.upload]"), "{url}");
    }
}
