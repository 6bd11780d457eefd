//! The files of `doc/compose`, read as Compose and image builders read them: they fit together and
//! this server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rookery_needs::Postgres;
use serde_json::Value;

use super::postgres::TRUSTING;
use super::rig::{CliRig, FREE_PORTS};
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

/// The image creates the database of the server's configuration, and is healthy once clients can
/// connect to it.
#[test]
fn the_database_is_the_one_that_the_server_is_told_of() {
    let Some(compose) = Compose::read() else { return };
    let address = compose.text("/services/rookery/environment/ROOKERY__STORE__URL");
    let (user, place) = address.strip_prefix("postgres://").and_then(|rest| rest.split_once('@')).expect("a user");
    assert_eq!(place.split_once('/').expect("a name").0, "database", "the name of the service is that of its host");
    let environment = "/services/database/environment";
    assert_eq!(compose.text(&format!("{environment}/POSTGRES_USER")), user);
    assert_eq!(Some(compose.text(&format!("{environment}/POSTGRES_DB"))), place.split('/').nth(1));
    let password = compose.text(&format!("{environment}/POSTGRES_PASSWORD_FILE"));
    assert_eq!(password, format!("/run/secrets/{SECRET}"), "where Compose puts it");
    assert!(compose.text(&format!("{environment}/POSTGRES_INITDB_ARGS")).contains("--encoding=UTF8"));
    let image = compose.text("/services/database/image");
    let version = image.strip_prefix("docker.io/library/postgres:").and_then(|version| version.parse::<u32>().ok());
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
    assert!(file.contains(&format!("\nARG BUILDER=docker.io/library/rust:{compiler}-")), "it is {compiler}:\n{file}");
    let volume = file.lines().find_map(|line| line.strip_prefix("VOLUME ")).expect("the data");
    assert!(file.contains(&format!("ROOKERY_DATA_DIR={volume}\n")), "{file}");
    assert_eq!(compose.texts("/services/rookery/volumes"), [format!("data:{volume}")]);
    let (_, shown) = run(&compose.environment("/services/rookery"), &["config", "show"]);
    for ports in compose.texts("/services/rookery/ports") {
        let inside = ports.split_once(':').expect("two ports").1;
        let is_listened_on = |line: &str| line.starts_with("listen.") && line.contains(&format!("[\"[::]:{inside}\"]"));
        assert!(shown.lines().any(is_listened_on), "{ports}: {shown}");
    }
}

/// The image starts the database server twice: the first time to create the database, on a socket
/// only, which mustn't count.
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

/// With the configuration, the environment and the secret that Compose passes on.
#[test]
fn a_server_serves_and_is_checked_with_what_it_is_given() {
    if rookery_needs::skips("cli.postgres") {
        return;
    }
    let Some(compose) = Compose::read() else { return };
    let mut environment = compose.environment("/services/rookery");
    // systemd's variable for the folder of secrets.
    assert_eq!(environment.remove("CREDENTIALS_DIRECTORY").as_deref(), Some("/run/secrets"));
    let cluster = Postgres::start();
    let database = cluster.database();
    cluster.psql(&database, "CREATE ROLE server LOGIN SUPERUSER PASSWORD 'secret'").expect("a role");
    let rights = "local all server scram-sha-256\nlocal all all trust\n";
    fs::write(cluster.folder().join("data/pg_hba.conf"), rights).expect("a file");
    cluster.psql(&database, "SELECT pg_reload_conf()").expect("a setting");
    environment.insert("ROOKERY__STORE__URL".into(), database.replace("rookery@", "server@"));
    let rig = CliRig::new();
    rig.write("rookery.toml", &format!("{FREE_PORTS}[store]\n{TRUSTING}"));
    let run = |arguments: &[&str], input: &str| rig.run_in(&environment, arguments, input);
    run(&["serve"], "").expect_failure(78, "password");
    rig.credential(SECRET, "secret\n");
    let given: Vec<_> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (server, said) = rig.serve_in(&given);
    assert!(said.contains("is running"), "{said}");
    run(&["user", "add", "alice@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let checked = run(&["check", "--json"], "");
    let report: Value = serde_json::from_str(&checked.out).expect("a report");
    let findings = report["findings"].as_array().expect("findings");
    let grades: Vec<_> = findings.iter().map(|found| found["grade"].as_str().expect("a grade")).collect();
    assert!(!grades.contains(&"fault") && checked.out.contains("PostgreSQL "), "{}", checked.out);
    drop(server);
    assert!(run(&["user", "list"], "").fine().contains("alice@localhost\n"));
}

/// The script creates every file for the containers of the cluster, once.
#[test]
fn the_secrets_of_the_cluster_are_made_once() {
    let Some(compose) = Compose::of("cluster/compose.yaml") else { return };
    rookery_needs::programs(&[("openssl", "openssl")]);
    let rig = CliRig::empty();
    let script = rig.path("start");
    fs::copy(folder().join("cluster/start"), &script).expect("a copy");
    let start = || {
        let started = Command::new(&script).env("COMPOSE", "echo").output().expect("a shell");
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        assert_eq!(started.stdout, b"up --detach\n");
        fs::read_to_string(rig.path(".env")).expect("a file")
    };
    let made = start();
    for name in compose.names("/secrets") {
        let file = compose.text(&format!("/secrets/{}/file", name.replace('/', "~1"))).to_owned();
        assert!(rig.path(&file).is_file(), "{file}");
    }
    assert!(!rig.path("secrets/authority.key").exists(), "nobody needs it any more");
    let (name, password) = made.trim_end().split_once('=').expect("a variable");
    assert!(name == "VALKEY_PASSWORD" && password.len() == 48, "{made}");
    assert_eq!(start(), made);
    let certificate = |name: &str| rig.path(&format!("secrets/server.{name}")).to_str().expect("a path").to_owned();
    let tls = [("ROOKERY__TLS__CERTIFICATE", certificate("pem")), ("ROOKERY__TLS__KEY", certificate("key"))];
    let environment = tls.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let (_, checked) = run(&environment, &["check"]);
    assert!(checked.contains("server.pem for localhost, until "), "{checked}");
}

/// The nodes differ only in their names, and the server accepts their configurations.
#[test]
fn the_nodes_of_the_cluster_are_one_server() {
    let Some(compose) = Compose::of("cluster/compose.yaml") else { return };
    let balancer = fs::read_to_string(folder().join("cluster/haproxy.cfg")).expect("a file");
    let mut all = Vec::new();
    for node in ["n1", "n2", "n3"] {
        let mut environment = compose.environment(&format!("/services/{node}"));
        let redis = environment["ROOKERY__CLUSTER__REDIS"].replace("${VALKEY_PASSWORD}", "secret");
        environment.insert("ROOKERY__CLUSTER__REDIS".into(), redis);
        let (code, shown) = run(&environment, &["config", "show", "--given"]);
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains("cluster.redis = \"rediss://:***@valkey\""), "{shown}");
        assert_eq!(environment.remove("ROOKERY__CLUSTER__NODE").as_deref(), Some(node));
        all.push(environment);
        for port in [5222, 5223, 5443] {
            assert!(balancer.contains(&format!("    server {node} {node}:{port}\n")), "{node}:{port}");
        }
    }
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
}

/// Runs a command in an empty folder, with an environment; returns its exit code and output.
fn run(environment: &BTreeMap<String, String>, arguments: &[&str]) -> (Option<i32>, String) {
    let ended = CliRig::empty().run_in(environment, arguments, "");
    (Some(ended.code), ended.all())
}

/// The relay and the server share a secret, and the server offers the relay's ports to clients.
#[test]
fn calls_go_by_a_relay_that_the_server_knows() {
    let Some(compose) = Compose::of("calls.yaml") else { return };
    assert_eq!(compose.names("/services"), ["coturn", "rookery"].map(str::to_owned).into());
    let given = |text: &str| text.replace("${TURN_SECRET}", "k3pt").replace("${TURN_HOST}", "a.example");
    let mut environment = compose.environment("/services/rookery");
    environment.values_mut().for_each(|value| *value = given(value));
    let (_, shown) = run(&environment, &["config", "show"]);
    assert!(shown.contains("turn:a.example:3478?transport=tcp") && !shown.contains("k3pt"), "{shown}");
    assert!(environment.values().any(|value| value == "k3pt"));
    let command: Vec<String> = compose.texts("/services/coturn/command").into_iter().map(given).collect();
    for wanted in ["--use-auth-secret", "--static-auth-secret=k3pt", "--listening-port=3478"] {
        assert!(command.iter().any(|word| word == wanted), "{wanted}: {command:?}");
    }
}

/// A parsed Compose file.
struct Compose(Value);

impl Compose {
    /// Reads the file for one server; `None` if these tests are to be skipped here.
    fn read() -> Option<Compose> {
        Compose::of("compose.yaml")
    }

    /// Reads a file of `doc/compose`, likewise.
    fn of(file: &str) -> Option<Compose> {
        if rookery_needs::skips("cli.compose") {
            return None;
        }
        let file = fs::read(folder().join(file)).expect("a file");
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

    /// Returns the variables of a service.
    fn environment(&self, service: &str) -> BTreeMap<String, String> {
        let place = format!("{service}/environment");
        self.names(&place)
            .into_iter()
            .map(|name| (name.clone(), self.text(&format!("{place}/{name}")).to_owned()))
            .collect()
    }

    fn names(&self, place: &str) -> BTreeSet<String> {
        self.at(place).as_object().unwrap_or_else(|| panic!("{place} has no names")).keys().cloned().collect()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../doc/compose")
}

/// Compose refuses a duplicate key, of which PyYAML would take the last.
const READER: &str = r#"
import json, sys, yaml

class Reader(yaml.SafeLoader):
    def construct_mapping(self, node, deep=False):
        names = [name.value for name, _ in node.value]
        assert len(names) == len(set(names)), names
        return super().construct_mapping(node, deep)

json.dump(yaml.load(sys.stdin.buffer, Reader), sys.stdout)
"#;

/// The name of the secret: that of the file that the server reads.
const SECRET: &str = "store-password";
