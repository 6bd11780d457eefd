//! Commands beside a running server: they use its control socket, take effect at once, and are in
//! its action log.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use super::rig::{CliRig, FREE_PORTS};

/// Returns a rig whose clients may log in without TLS.
pub fn plain() -> CliRig {
    let rig = CliRig::fresh();
    let login = "scram_iterations = 4096\nplaintext_loopback = true\nplain_without_tls = true\n";
    rig.write("rookery.toml", &FREE_PORTS.replace("scram_iterations = 4096\n", login));
    rig
}

/// Logs in over TCP, and returns the connection once the resource is bound.
pub fn log_in(said: &str, name: &str, password: &str, resource: &str) -> BufReader<TcpStream> {
    let listening = said.split_whitespace().zip(said.split_whitespace().skip(1));
    let (address, _) = listening.into_iter().find(|(_, kind)| kind.starts_with("(STARTTLS")).expect("a port");
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a patience");
    let mut stream = BufReader::new(stream);
    let open = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
    let key = base64(format!("\0{name}\0{password}").as_bytes());
    let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{key}</auth>");
    let bind = format!(
        "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>{resource}</resource></bind></iq>"
    );
    for (say, until) in
        [(open, "</stream:features>"), (&auth, "<success"), (open, "</stream:features>"), (&bind, "</iq>")]
    {
        stream.get_mut().write_all(say.as_bytes()).expect("written");
        read_until(&mut stream, until);
    }
    stream
}

/// Reads until a text has come, or to the end.
pub fn read_until(stream: &mut BufReader<TcpStream>, until: &str) -> String {
    let mut read = String::new();
    while !read.contains(until) {
        let mut part = Vec::new();
        if stream.read_until(b'>', &mut part).expect("something to read") == 0 {
            return read;
        }
        read.push_str(&String::from_utf8_lossy(&part));
    }
    read
}

pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letters = bytes.chunks(3).flat_map(|chunk| {
        let number = chunk.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        (0..4).map(move |at| match at <= chunk.len() {
            true => char::from(LETTERS[(number >> (18 - 6 * at) & 63) as usize]),
            false => '=',
        })
    });
    letters.collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn add(rig: &CliRig, jid: &str) {
    rig.run_with(&["user", "add", jid, "--password-stdin", "--allow-short"], "correct horse\n").fine();
}

#[test]
fn sessions_are_shown_and_ended() {
    let rig = plain();
    let (server, said) = rig.serve();
    add(&rig, "romeo@localhost");
    assert_eq!(rig.run(&["session", "list"]).fine(), "");
    let mut orchard = log_in(&said, "romeo", "correct horse", "orchard");
    let mut balcony = log_in(&said, "romeo", "correct horse", "balcony");
    let listed = rig.run(&["session", "list"]).fine();
    let lines: Vec<_> = listed.lines().collect();
    assert!(lines[0].starts_with("SESSION"), "{listed}");
    assert!(lines[1].starts_with("romeo@localhost/balcony  127.0.0.1") && lines.len() == 3, "{listed}");
    let one = rig.run(&["session", "list", "romeo@localhost", "--json"]).fine();
    assert!(one.contains(r#""idle_seconds":"#) && !one.contains(r#""idle_seconds":null"#), "{one}");
    assert_eq!(one.lines().map(|line| json(line)["resource"].clone()).collect::<Vec<_>>(), ["orchard", "balcony"]);

    rig.run(&["session", "end", "romeo@localhost/balcony"]).fine();
    assert!(read_until(&mut balcony, "</stream:stream>").contains("policy-violation"));
    rig.run(&["session", "end", "romeo@localhost/balcony"]).expect_failure(1, "there is no such session");
    assert_eq!(rig.run(&["session", "end", "romeo@localhost"]).fine(), "sessions ended: 1\n");
    assert!(read_until(&mut orchard, "</stream:stream>").contains("policy-violation"));
    let log = server.log();
    assert!(log.contains("ended a session: romeo@localhost/balcony") && log.contains("command line"), "{log}");
    assert!(log.contains("ended 1 session: romeo@localhost"), "{log}");
}

#[test]
fn the_log_tells_of_each_session_from_where_it_came_and_why_it_went() {
    let rig = plain();
    let (server, said) = rig.serve();
    add(&rig, "romeo@localhost");
    let mut left = log_in(&said, "romeo", "correct horse", "left");
    left.get_mut().write_all(b"</stream:stream>").expect("written");
    read_until(&mut left, "</stream:stream>");
    let mut wrong = log_in(&said, "romeo", "correct horse", "wrong");
    wrong.get_mut().write_all(b"<message></presence>").expect("written");
    read_until(&mut wrong, "</stream:stream>");
    let mut ended = log_in(&said, "romeo", "correct horse", "ended");
    rig.run(&["session", "end", "romeo@localhost/ended"]).fine();
    read_until(&mut ended, "</stream:stream>");
    drop(log_in(&said, "romeo", "correct horse", "lost"));
    while rig.run(&["session", "list"]).fine().contains("/lost") {
        std::thread::yield_now();
    }
    let log = server.log();
    let of = |resource: &str, words: &str| {
        let wanted = format!(" {words} account=\"romeo@localhost\" resource=\"{resource}\" peer=127.0.0.1:");
        let mut found = log.lines().filter(|line| line.contains(&wanted));
        let line = found.next().unwrap_or_else(|| panic!("{words}, {resource}: {log}"));
        assert!(found.next().is_none(), "{words}, {resource}: {log}");
        line.to_owned()
    };
    for (resource, reason) in [
        ("left", "the client has closed its stream"),
        ("wrong", "not-well-formed"),
        ("ended", "policy-violation"),
        ("lost", "the connection was lost"),
    ] {
        let begun = of(resource, "a session has begun");
        assert!(begun.ends_with("transport=\"tcp\" tls=\"no\" mechanism=\"PLAIN\""), "{begun}");
        let gone = of(resource, "a session has ended");
        assert!(gone.contains(" transport=\"tcp\" tls=\"no\" "), "{gone}");
        assert!(gone.contains(" seconds="), "{gone}");
        assert!(gone.split(" reason=\"").nth(1).is_some_and(|told| told.starts_with(reason)), "{gone}");
    }
}

#[test]
fn accounts_are_shown_disabled_and_changed_at_once() {
    let rig = plain();
    let (server, said) = rig.serve();
    add(&rig, "romeo@localhost");
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "x\n")
        .expect_failure(1, "already exists");
    let mut session = log_in(&said, "romeo", "correct horse", "orchard");
    let shown = rig.run(&["user", "show", "romeo@localhost"]).fine();
    assert!(shown.contains("disabled      no\n") && shown.contains("\norchard "), "{shown}");
    assert!(shown.contains("online        yes\n") && shown.contains("bytes stored  0\n"), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with("created       20")), "{shown}");
    let listed = rig.run(&["user", "list", "--json"]).fine();
    let online: Vec<_> = listed.lines().map(|line| json(line)["online"].clone()).collect();
    assert_eq!(online, [false, true], "{listed}");
    rig.run(&["user", "show", "juliet@localhost"]).expect_failure(1, "there is no account juliet@localhost");

    rig.run(&["user", "disable", "romeo@localhost"]).fine();
    assert!(read_until(&mut session, "</stream:stream>").contains("the account is disabled"));
    let shown = json(&rig.run(&["user", "show", "romeo@localhost", "--json"]).fine());
    assert_eq!((shown["disabled"].clone(), shown["sessions"].clone()), (true.into(), Value::Array(Vec::new())));
    rig.run(&["user", "enable", "romeo@localhost"]).fine();

    let mut session = log_in(&said, "romeo", "correct horse", "orchard");
    rig.run_with(&["user", "passwd", "romeo@localhost", "--password-stdin", "--allow-short"], "another horse\n").fine();
    assert!(read_until(&mut session, "</stream:stream>").contains("the password has changed"));
    drop(log_in(&said, "romeo", "another horse", "orchard"));
    rig.run(&["admin", "add", "romeo@localhost"]).fine();
    rig.run(&["user", "remove", "romeo@localhost"]).fine();
    assert_eq!(rig.run(&["user", "list"]).fine(), "admin@localhost\n");
    let log = server.log();
    for act in
        ["created an account", "disabled an account", "set a password", "made an administrator", "deleted an account"]
    {
        assert!(log.contains(&format!("{act}: romeo@localhost")), "{act}: {log}");
    }
}

#[test]
fn accounts_are_disabled_without_a_server_too() {
    let rig = CliRig::new();
    rig.run(&["user", "disable", "romeo@localhost"]).expect_failure(1, "there is no account romeo@localhost");
    add(&rig, "romeo@localhost");
    rig.run(&["user", "disable", "romeo@localhost"]).fine();
    let (_server, _) = rig.serve();
    assert_eq!(json(&rig.run(&["user", "show", "romeo@localhost", "--json"]).fine())["disabled"], true);
}

#[test]
fn rooms_are_shown_and_destroyed() {
    let rig = plain();
    let (server, said) = rig.serve();
    add(&rig, "romeo@localhost");
    let mut session = log_in(&said, "romeo", "correct horse", "orchard");
    let garden = "garden@conference.localhost";
    let enter = format!("<presence to='{garden}/Romeo'><x xmlns='http://jabber.org/protocol/muc'/></presence>");
    session.get_mut().write_all(enter.as_bytes()).expect("written");
    read_until(&mut session, "code='110'");
    assert!(rig.run(&["room", "list"]).fine().lines().any(|line| line.starts_with(garden)));
    let shown = rig.run(&["room", "show", garden]).fine();
    assert!(shown.contains("Romeo") && shown.contains("romeo@localhost/orchard"), "{shown}");
    rig.run(&["room", "show", "field@conference.localhost"]).expect_failure(1, "there is no room");
    rig.run(&["room", "destroy", garden, "--reason", "It rains & pours"]).fine();
    assert!(read_until(&mut session, "</reason>").contains("It rains &amp; pours"));
    assert_eq!(rig.run(&["room", "list", "localhost", "--json"]).fine(), "");
    assert!(server.log().contains("destroyed a room: garden@conference.localhost"));
}

#[test]
fn the_server_tells_its_state_and_reads_its_configuration_again() {
    let rig = CliRig::fresh();
    rig.run(&["status"]).expect_failure(1, "there is no data folder");
    let (server, _) = rig.serve();
    assert_eq!(
        std::fs::metadata(rig.path("rookery-data/control")).expect("a socket").permissions().mode() & 0o777,
        0o600
    );
    let status = json(&rig.run(&["status", "--json"]).fine());
    assert_eq!((status["process"].clone(), status["accounts"].clone()), (server.pid().into(), 1.into()));
    assert!(rig.run(&["status"]).fine().contains("certificate  for localhost, until "));
    assert!(status["disk"]["free_bytes"].as_u64() <= status["disk"]["total_bytes"].as_u64(), "{status}");
    rig.write("rookery.toml", &format!("shards = 1\ndomains = [\"localhost\", \"b.example\"]\n{FREE_PORTS}"));
    let restart = "shards has changed: restart the server for it to take effect\n";
    assert!(rig.run(&["reload"]).fine().ends_with(restart));
    let status = json(&rig.run(&["status", "--json"]).fine());
    assert_eq!(status["domains"], serde_json::json!(["localhost", "b.example"]));
    assert!(rig.run(&["status"]).fine().contains("restart      shards has changed"));
    rig.write("rookery.toml", "shard = 1");
    rig.run(&["reload"]).expect_failure(1, "rookery.toml:1: shard: there is no such key; did you mean `shards`?");
    let log = server.log();
    assert!(log.contains("reloaded the configuration"), "{log}");
    rig.write("rookery.toml", FREE_PORTS);
    rig.run(&["status"]).expect_failure(1, "no server is running in ./rookery-data");
}

#[test]
fn a_server_without_ports_for_browsers_is_reached_all_the_same() {
    let rig = CliRig::fresh();
    let ports = FREE_PORTS.replace("web = [\"127.0.0.1:0\"]\nweb_tls = [\"127.0.0.1:0\"]", "web = []\nweb_tls = []");
    rig.write("rookery.toml", &ports);
    let (_server, _) = rig.serve();
    assert!(rig.run(&["s2s", "list"]).fine().contains("there is no stream"));
    assert_eq!(rig.run(&["s2s", "close", "example.net"]).fine(), "streams closed: 0\n");
}

/// Does what commands do to the database or the disk themselves.
fn commands_on_the_database(rig: &CliRig) {
    rig.run_with(&["user", "import", "-"], "paris@localhost,correct horse\ntybalt@localhost,correct horse\n").fine();
    rig.run(&["user", "export", "paris@localhost", "-"]).fine();
    rig.run(&["user", "export", "localhost", "-"]).fine();
    rig.run(&["user", "invite", "localhost"]).fine();
    rig.run(&["user", "reset-link", "paris@localhost"]).fine();
    rig.run(&["backup", "one.backup"]).fine();
}

const NOTED: [&str; 6] = [
    "imported 2 accounts from -",
    "exported an account: paris@localhost",
    " of localhost",
    "made an invitation: localhost",
    "created a link to set a password: paris@localhost",
    "made a backup: one.backup",
];

#[test]
fn commands_on_the_database_are_noted_by_the_running_server() {
    let rig = CliRig::fresh();
    let (server, _) = rig.serve();
    commands_on_the_database(&rig);
    let log = server.log();
    for act in NOTED {
        assert!(log.lines().any(|line| line.contains("an administrator: ") && line.contains(act)), "{act}: {log}");
    }
}

/// The next server finds them in its action log.
#[test]
fn commands_without_a_server_are_noted_in_the_database() {
    let rig = CliRig::new();
    add(&rig, "romeo@localhost");
    commands_on_the_database(&rig);
    rig.run(&["user", "disable", "romeo@localhost"]).fine();
    rig.run(&["user", "remove", "romeo@localhost"]).fine();
    let stores =
        rookery_store::sqlite::open(&rig.path("rookery-data/rookery.db"), &Default::default()).expect("the database");
    let kept = rookery_store::wait(rookery_store::Meta::entries(&stores, "journal")).expect("an answer");
    let kept: Vec<_> = kept.into_iter().map(|(_, line)| String::from_utf8(line).expect("text")).collect();
    let makers = rookery_store::wait(rookery_store::Meta::entries(&stores, "link makers")).expect("an answer");
    assert_eq!(makers.len(), 2, "{makers:?}");
    let own = ["created an account: romeo@", "disabled an account: romeo@", "deleted an account: romeo@"];
    for act in NOTED.into_iter().chain(own) {
        let found: Vec<_> = kept.iter().filter(|line| line.contains(act)).collect();
        assert!(found.len() == 1 && found[0].contains("\tcommand line\t"), "{act}: {kept:?}");
    }
}

/// The owner of the files may read what is wrong with them; programs with tokens are told to look
/// into the log, which isn't filled by those that try again.
#[test]
fn the_owner_is_told_why_nothing_is_stored() {
    let rig = CliRig::fresh();
    let (server, _) = rig.serve();
    let database = rusqlite::Connection::open(rig.path("rookery-data/rookery.db")).expect("the database");
    let full = "CREATE TRIGGER full BEFORE INSERT ON accounts BEGIN SELECT RAISE(ABORT, 'it is full'); END";
    database.execute_batch(full).expect("a trigger");
    for name in ["romeo", "juliet", "paris"] {
        let jid = format!("{name}@localhost");
        let ended = rig.run_with(&["user", "add", &jid, "--password-stdin"], "correct horse\n");
        ended.expect_failure(1, "the server can't do this at the moment: ");
        assert!(rig.run_with(&["user", "add", &jid, "--password-stdin"], "correct horse\n").err.contains("it is full"));
    }
    let log = server.log();
    assert_eq!(log.lines().filter(|line| line.contains("a request to the API failed")).count(), 1, "{log}");
}
