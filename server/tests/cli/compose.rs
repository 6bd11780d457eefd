//! The files of `doc/compose`, read as Compose and the builder of images read them: they fit
//! together and to this server.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rookery_needs::Postgres;
use serde_json::Value;

use super::postgres::TRUSTING;
use super::rig::CliRig;
use crate::python::python;

#[test]
fn the_services_are_a_database_and_a_server_that_waits_for_it() {
    let Some(compose) = Compose::read() else { return };
    assert_eq!(compose.names("/services"), ["database", "rookery"].map(str::to_owned).into());
    assert_eq!(compose.text("/services/rookery/depends_on/database/condition"), "service_healthy");
    for service in ["database", "rookery"] {
        assert_eq!(compose.text(&format!("/services/{service}/restart")), "unless-stopped");
        let secrets = compose.texts(&format!("/services/{service}/secrets"));
        assert_eq!(secrets, [SECRET], "of {service}");
        for volume in compose.texts(&format!("/services/{service}/volumes")) {
            let from = volume.split(':').next().unwrap_or_default();
            let is_there = match from.strip_prefix("./") {
                Some(file) => folder().join(file).is_file(),
                None => compose.names("/volumes").contains(from),
            };
            assert!(is_there, "{volume} of {service}");
        }
    }
    assert_eq!(compose.names("/secrets"), [SECRET.to_owned()].into());
    assert!(compose.text(&format!("/secrets/{SECRET}/file")).starts_with("./"));
}

/// The image makes the database that the server's configuration names, and is healthy when that can
/// be connected to.
#[test]
fn the_database_is_the_one_that_the_server_is_told_of() {
    let Some(compose) = Compose::read() else { return };
    let address = configuration()["store"]["url"].as_str().expect("an address").to_owned();
    let (user, place) = address.strip_prefix("postgres://").and_then(|rest| rest.split_once('@')).expect("a user");
    assert_eq!(place.split_once('/').expect("a name").0, "database", "the name of the service is that of its host");
    let environment = "/services/database/environment";
    assert_eq!(compose.text(&format!("{environment}/POSTGRES_USER")), user);
    assert_eq!(Some(compose.text(&format!("{environment}/POSTGRES_DB"))), place.split('/').nth(1));
    let password = compose.text(&format!("{environment}/POSTGRES_PASSWORD_FILE"));
    assert_eq!(password, format!("/run/secrets/{SECRET}"), "where Compose puts it");
    assert!(compose.text(&format!("{environment}/POSTGRES_INITDB_ARGS")).contains("--encoding=UTF8"));
    let image = compose.text("/services/database/image");
    let version = image.strip_prefix("postgres:").and_then(|version| version.parse::<u32>().ok());
    assert!(version.is_some_and(|version| version >= 13), "{image} has a version, which this server takes");
    let test = compose.texts("/services/database/healthcheck/test");
    assert_eq!(test, ["CMD", "pg_isready", "-h", "127.0.0.1", "-U", user]);
    assert!(compose.at("/services/database/healthcheck/retries").as_u64() > Some(1));
}

#[test]
fn the_image_is_built_of_this_tree_and_starts_this_server() {
    let Some(compose) = Compose::read() else { return };
    let context = folder().join(compose.text("/services/rookery/build/context"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("a folder");
    assert_eq!(context.canonicalize().expect("a folder"), root);
    let file = fs::read_to_string(context.join(compose.text("/services/rookery/build/dockerfile"))).expect("a file");
    let workspace: toml::Table = fs::read_to_string(root.join("Cargo.toml")).expect("a file").parse().expect("TOML");
    let compiler = workspace["workspace"]["package"]["rust-version"].as_str().expect("a version");
    assert!(file.starts_with(&format!("FROM rust:{compiler}-")), "the compiler is {compiler}:\n{file}");
    let entry = file.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).expect("what is started");
    let entry: Vec<String> = serde_json::from_str(entry).expect("its words");
    let [program, config, config_file, data, data_folder] = entry.as_slice() else { panic!("{entry:?}") };
    assert_eq!([program, config, data], ["rookery", "--config", "--data-dir"]);
    let volumes = compose.texts("/services/rookery/volumes");
    assert_eq!(volumes, [format!("./rookery.toml:{config_file}:ro"), format!("data:{data_folder}")]);
    assert!(file.contains(&format!("--home-dir {data_folder} ")), "the user of the image owns its data:\n{file}");
    let configured = configuration();
    for ports in compose.texts("/services/rookery/ports") {
        let inside = ports.split_once(':').expect("two ports").1;
        let is_listened_on = |addresses: &toml::Value| addresses == &toml::Value::from(vec![format!("[::]:{inside}")]);
        let listen = configured["listen"].as_table().expect("a table");
        assert!(listen.values().any(is_listened_on), "{ports}: {listen}");
    }
}

/// The image starts the server twice: while it makes the database, on a socket only, and that
/// mustn't count.
#[test]
fn the_database_is_healthy_once_it_listens_for_others() {
    if rookery_needs::skips("cli.postgres") {
        return;
    }
    let Some(compose) = Compose::read() else { return };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (making, made) =
        (Postgres::start(), Postgres::start_encrypted(&made.cert.pem(), &made.signing_key.serialize_pem()));
    let test = compose.texts("/services/database/healthcheck/test");
    let [_, program, arguments @ ..] = test.as_slice() else { panic!("{test:?}") };
    let is_healthy = |cluster: &Postgres| {
        let mut command = Command::new(program);
        command.args(arguments).env("PGPORT", cluster.port().to_string()).stdout(Stdio::null());
        command.status().expect("the program of the test").success()
    };
    assert!(!is_healthy(&making) && is_healthy(&made));
}

/// With the configuration, the environment and the secret that Compose gives it.
#[test]
fn a_server_serves_and_is_checked_with_what_it_is_given() {
    if rookery_needs::skips("cli.postgres") {
        return;
    }
    let Some(compose) = Compose::read() else { return };
    // systemd's word for where secrets are.
    assert_eq!(compose.names("/services/rookery/environment"), ["CREDENTIALS_DIRECTORY".to_owned()].into());
    assert_eq!(compose.text("/services/rookery/environment/CREDENTIALS_DIRECTORY"), "/run/secrets");
    let cluster = Postgres::start();
    let database = cluster.database();
    cluster.psql(&database, "CREATE ROLE server LOGIN SUPERUSER PASSWORD 'secret'").expect("a role");
    let rights = "local all server scram-sha-256\nlocal all all trust\n";
    fs::write(cluster.folder().join("data/pg_hba.conf"), rights).expect("a file");
    cluster.psql(&database, "SELECT pg_reload_conf()").expect("a setting");
    let mut here = configuration();
    here["store"]["url"] = database.replace("rookery@", "server@").into();
    let listen = here["listen"].as_table_mut().expect("a table");
    listen.insert("bytestreams".to_owned(), toml::Value::from(Vec::<String>::new()));
    listen.iter_mut().for_each(|(_, addresses)| *addresses = toml::Value::from(vec!["127.0.0.1:0"]));
    let rig = CliRig::new();
    let store = here["store"].as_table_mut().expect("a table");
    store.extend(TRUSTING.parse::<toml::Table>().expect("keys"));
    rig.write("rookery.toml", &here.to_string());
    rig.run(&["serve"]).failed(78, "password");
    rig.credential(SECRET, "secret\n");
    let (server, said) = rig.serve();
    assert!(said.contains("is running"), "{said}");
    rig.run_with(&["user", "add", "alice@localhost", "--password-stdin"], "pencil\n").fine();
    let checked = rig.run(&["check", "--json"]);
    let report: Value = serde_json::from_str(&checked.out).expect("a report");
    let findings = report["findings"].as_array().expect("findings");
    let grades: Vec<_> = findings.iter().map(|found| found["grade"].as_str().expect("a grade")).collect();
    assert!(!grades.contains(&"fault") && checked.out.contains("PostgreSQL "), "{}", checked.out);
    drop(server);
    assert!(rig.run(&["user", "list"]).fine().contains("alice@localhost\n"));
}

/// A Compose file as a program reads it.
struct Compose(Value);

impl Compose {
    /// Reads that of `doc/compose`; `None` if these tests are to be left out here.
    fn read() -> Option<Compose> {
        if rookery_needs::skips("cli.compose") {
            return None;
        }
        let file = fs::read(folder().join("compose.yaml")).expect("a file");
        let mut python = python("compose", "PyYAML==6.0.3\n");
        let reading = python.args(["-c", READER]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut reading = reading.expect("Python");
        reading.stdin.take().expect("its input").write_all(&file).expect("a reader");
        let read = reading.wait_with_output().expect("what was read");
        assert!(read.status.success(), "it is no YAML");
        Some(Compose(serde_json::from_slice(&read.stdout).expect("JSON")))
    }

    fn at(&self, place: &str) -> &Value {
        self.0.pointer(place).unwrap_or_else(|| panic!("{place} is missing in {}", self.0))
    }

    fn text(&self, place: &str) -> &str {
        self.at(place).as_str().unwrap_or_else(|| panic!("{place} is no text"))
    }

    fn texts(&self, place: &str) -> Vec<&str> {
        let list = self.at(place).as_array().unwrap_or_else(|| panic!("{place} is no list"));
        list.iter().map(|text| text.as_str().unwrap_or_else(|| panic!("{text} in {place} is no text"))).collect()
    }

    fn names(&self, place: &str) -> BTreeSet<String> {
        self.at(place).as_object().unwrap_or_else(|| panic!("{place} has no names")).keys().cloned().collect()
    }
}

fn configuration() -> toml::Table {
    fs::read_to_string(folder().join("rookery.toml")).expect("a file").parse().expect("TOML")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../doc/compose")
}

/// Compose refuses a key that is there twice, of which PyYAML would take the last.
const READER: &str = r#"
import json, sys, yaml

class Reader(yaml.SafeLoader):
    def construct_mapping(self, node, deep=False):
        names = [self.construct_object(name, deep=True) for name, _ in node.value]
        assert len(names) == len(set(names)), names
        return super().construct_mapping(node, deep)

json.dump(yaml.load(sys.stdin.buffer, Reader), sys.stdout)
"#;

/// The name of the secret: that of the file that the server looks for.
const SECRET: &str = "store-password";
