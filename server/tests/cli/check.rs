//! `rookery check` finds what is wrong before a start does.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::rig::{FREE_PORTS, Rig};

/// Checks that the command finds this, as a fault or not.
#[track_caller]
fn finds(rig: &Rig, code: i32, words: &str) {
    let ended = rig.run(&["check"]);
    assert_eq!(ended.code, code, "{}", ended.all());
    assert!(ended.out.contains(words), "{words:?} is not in:\n{}", ended.out);
}

/// Gives the rig a certificate for these names that ends in this year.
fn certificate(rig: &Rig, names: &[&str], year: i32) {
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
    let rig = Rig::fresh();
    let checked = rig.run(&["check"]).fine();
    assert!(checked.contains("the next start makes a self-signed one for localhost"), "{checked}");
    assert!(!rig.path("rookery-data").exists());
    rig.serve().0.stop();
    let checked = rig.run(&["check"]).fine();
    assert!(checked.contains("self-signed.pem for localhost"), "{checked}");
    assert!(checked.contains("the integrity check found no damage"), "{checked}");
}

#[test]
fn a_taken_port_is_named() {
    let rig = Rig::new();
    // An address that no other test takes ports of.
    let taken = TcpListener::bind("127.83.1.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    rig.write(
        "rookery.toml",
        &format!("[listen]\nc2s = [\"{address}\"]\nc2s_tls = []\nweb = []\nweb_tls = []\nbytestreams = []\n"),
    );
    finds(&rig, 1, &format!("cannot listen on {address}"));
    finds(&rig, 1, &format!("`ss -ltnp sport = :{}` names it", address.port()));
    drop(taken);
    finds(&rig, 0, &format!("{address} is free"));
}

#[test]
fn proxies_that_nobody_named_are_told() {
    let rig = Rig::new();
    rig.write("rookery.toml", FREE_PORTS);
    // As a warning if something listens where browsers come to, on the machine that runs the tests.
    finds(&rig, 0, "/admin, /api, /metrics");
    rig.write("rookery.toml", &format!("{FREE_PORTS}[web]\nproxy_protocol = true\n"));
    finds(&rig, 0, "web.proxy_protocol has no effect");
    rig.write("rookery.toml", &format!("{FREE_PORTS}[web]\ntrusted_proxies = [\"127.0.0.1\"]\n"));
    finds(&rig, 0, "has to set X-Forwarded-For");
}

#[test]
fn the_authority_and_the_chat_page_are_told() {
    let rig = Rig::new();
    finds(&rig, 0, "chat page      /chat is not installed: `rookery web install` gets converse.js");
    finds(&rig, 0, "authority      off");
    rig.write(
        "rookery.toml",
        &format!(
            "domains = [\"a.example\", \"localhost\"]\n{FREE_PORTS}[web]\nchat = false\n[tls.acme]\nenabled = true\n\
             services = [\"upload\", \"rooms\"]\n"
        ),
    );
    finds(&rig, 0, "chat page      off: see `chat` in [web]");
    finds(&rig, 0, "for a.example, upload.a.example, conference.a.example: the running server gets it");
    finds(&rig, 0, "localhost is a name of this machine or network alone");
    finds(&rig, 0, "the authority comes to port 80 of each name; it has to be led to 127.0.0.1:0");
}

#[test]
fn certificates_are_read() {
    let rig = Rig::new();
    certificate(&rig, &["localhost"], 2100);
    finds(&rig, 0, "own.pem for localhost, until 2100-01-01");
    finds(&rig, 0, "own.pem is self-signed");
    certificate(&rig, &["localhost"], 2021);
    finds(&rig, 1, "own.pem has expired on 2021-01-01");
    certificate(&rig, &["example.org"], 2100);
    finds(&rig, 1, "own.pem is for example.org, not for localhost");
    certificate(&rig, &["localhost"], 2100);
    fs::set_permissions(rig.path("own.key"), fs::Permissions::from_mode(0o644)).expect("permissions");
    finds(&rig, 0, "everybody on this machine can read the private key own.key");
    rig.write("own.key", &KeyPair::generate().expect("a key").serialize_pem());
    finds(&rig, 1, "the private key does not belong to the certificate");
    rig.write("own.pem", "no certificate");
    finds(&rig, 1, "own.pem with own.key: bad certificate");
    fs::remove_file(rig.path("own.pem")).expect("removed");
    finds(&rig, 1, "cannot read own.pem");
}

#[test]
fn a_wrong_configuration_does_not_hide_the_storage() {
    let rig = Rig::new();
    rig.write("rookery.toml", "shard = 1");
    finds(&rig, 1, "rookery.toml:1: shard: there is no such key; did you mean `shards`?");
    finds(&rig, 1, "storage");
}

#[test]
fn a_database_that_is_none_is_found() {
    let rig = Rig::new();
    fs::set_permissions(rig.path("rookery-data"), fs::Permissions::from_mode(0o755)).expect("permissions");
    finds(&rig, 0, "everybody on this machine can look into ./rookery-data");
    rig.write("rookery-data/rookery.db", &"this is not a database ".repeat(100));
    finds(&rig, 1, "the database is damaged");
}

#[test]
fn keys_without_effect_are_told() {
    let rig = Rig::new();
    rig.write("rookery.toml", &format!("{FREE_PORTS}plain_without_tls = true\n"));
    finds(&rig, 0, "login.plain_without_tls has no effect");
}
