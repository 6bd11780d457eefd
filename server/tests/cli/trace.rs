//! `rookery trace` shows why a message did not arrive, as it happens, and records who has traced.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout};

use serde_json::Value;

use super::cluster::{ClusterNodes, USERS};
use super::cluster_client::ClusterClient;
use super::control::{log_in, plain, read_until};
use super::rig::CliRig;

/// A command that traces; ended when it goes out of scope.
struct Tracer {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Tracer {
    /// Returns it once the server traces.
    fn new(rig: &CliRig, arguments: &[&str]) -> Tracer {
        let mut child = rig.command(&[&["trace"], arguments].concat()).spawn().expect("a process");
        let mut tracer = Tracer { lines: BufReader::new(child.stdout.take().expect("its output")), child };
        tracer.until("tracing");
        tracer
    }

    /// Reads until a line contains this, and returns that line.
    #[track_caller]
    fn until(&mut self, words: &str) -> String {
        let (mut line, mut all) = (String::new(), String::new());
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).expect("text") > 0, "it ended before {words:?}:\n{all}");
            if line.contains(words) {
                return line;
            }
            all += &line;
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_message_is_followed_to_its_error_and_its_words_are_not_shown() {
    let rig = plain();
    let (server, said) = rig.serve();
    for name in ["romeo", "juliet"] {
        rig.run_with(&["user", "add", &format!("{name}@localhost"), "--password-stdin", "--allow-short"], "pencil\n")
            .fine();
    }
    let mut juliet = log_in(&said, "juliet", "pencil", "balcony");
    let block = "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='romeo@localhost'/></block></iq>";
    juliet.get_mut().write_all(block.as_bytes()).expect("written");
    read_until(&mut juliet, "id='b'");
    let mut romeo = log_in(&said, "romeo", "pencil", "orchard");
    let mut people = Tracer::new(&rig, &["juliet@localhost"]);
    let mut programs = Tracer::new(&rig, &["romeo@localhost", "--stanzas", "1", "--json"]);
    let message = "<message to='juliet@localhost' type='chat' id='m1'><body>a secret</body></message>";
    romeo.get_mut().write_all(message.as_bytes()).expect("written");
    assert!(read_until(&mut romeo, "</message>").contains("service-unavailable"));

    let head = people.until("message chat id=\"m1\" from romeo@localhost/orchard to juliet@localhost");
    assert!(head.contains("body [") && !head.contains("secret"), "{head}");
    people.until("received");
    people.until("juliet@localhost blocks romeo@localhost/orchard (XEP-0191)");
    people.until("its sender gets <service-unavailable/>");
    let line: Value = serde_json::from_str(&programs.until("\"received\"")).expect("JSON");
    assert_eq!((&line["from"], &line["kind"]), (&"romeo@localhost/orchard".into(), &"message".into()));
    assert!(!line["content"].as_str().expect("an outline").contains("secret"), "{line}");
    // A stanza beyond the limit ends it.
    romeo.get_mut().write_all(b"<message to='juliet@localhost' id='m2'><body>2</body></message>").expect("written");
    programs.until("\"ended\":\"stanzas\"");
    assert!(programs.child.wait().expect("an end").success());

    let log = server.log();
    assert!(
        log.contains("traced juliet@localhost for 60 seconds, 100 stanzas at most, without what people write"),
        "{log}"
    );
    assert!(log.contains("command line"), "{log}");
}

#[test]
fn contents_are_shown_by_wish_and_that_is_noted() {
    let rig = plain();
    let (server, said) = rig.serve();
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let mut romeo = log_in(&said, "romeo", "pencil", "orchard");
    let mut tracer = Tracer::new(&rig, &["romeo@localhost", "--contents"]);
    romeo.get_mut().write_all(b"<message to='juliet@localhost'><body>but soft</body></message>").expect("written");
    tracer.until("but soft");
    assert!(server.log().contains("with what people write"));
}

/// Checks that a trace at the first of two nodes shows what happens to a message on the second one.
/// `homes` has a line for each of the users, whose clients are in the same order.
pub fn a_trace_follows_messages_to_other_nodes(nodes: &ClusterNodes, homes: &str, clients: &mut [ClusterClient]) {
    let at = |node: &str| homes.lines().position(|line| line.ends_with(node)).expect("each node is a home");
    let (from, to) = (at(" n1"), format!("{}@localhost", USERS[at(" n2")]));
    let mut tracer = Tracer::new(&nodes.rigs[0], &[&to, "--stanzas", "1"]);
    clients[from].say(&to, "followed");
    tracer.until(&format!("message chat from {}@localhost/", USERS[from]));
    tracer.until("of node n2, the home of the account");
    let given = tracer.until("given");
    assert!(given.contains("  n2 shard "), "{given}");
    clients[from].say(&to, "beyond the limit");
    tracer.until("the trace has reached its number of stanzas");
}

#[test]
fn few_trace_at_a_time_and_within_bounds() {
    let rig = plain();
    let (_server, _) = rig.serve();
    rig.run(&["trace", "localhost"]).expect_failure(1, "localhost is served here");
    rig.run(&["trace", "@"]).expect_failure(1, "isn't an address");
    rig.run(&["trace", "a@localhost", "--seconds", "0"]).expect_failure(2, "0 is not in 1..=3600");
    rig.run(&["trace", "a@localhost", "--stanzas", "100000"]).expect_failure(2, "100000 is not in 1..=10000");
    let tracers: Vec<_> = (0..4).map(|_| Tracer::new(&rig, &["a@localhost"])).collect();
    rig.run(&["trace", "a@localhost"]).expect_failure(1, "4 traces are already running");
    // Other commands still work.
    rig.run(&["status"]).fine();
    drop(tracers);
    // It also ends at its time limit.
    let mut last = loop {
        let ran = rig.command(&["trace", "a@localhost", "--seconds", "1"]).output().expect("a process");
        if ran.status.success() {
            break String::from_utf8_lossy(&ran.stdout).into_owned();
        }
    };
    last.retain(|char| char != '\n');
    let end = "the trace has reached its time limit (--seconds), and no stanza was from or to this address";
    assert!(last.ends_with(end), "{last}");
}

#[test]
fn without_a_server_there_is_nothing_to_trace() {
    CliRig::new().run(&["trace", "a@localhost"]).expect_failure(1, "no server is running in ./rookery-data");
}
