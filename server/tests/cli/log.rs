//! `rookery log` shows the log of the running server without systemd's journal, and raises its
//! levels.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout};

use serde_json::Value;

use super::control::{log_in, plain};
use super::rig::CliRig;

/// A command that follows the log; ended when it goes out of scope.
struct Follower {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Follower {
    fn new(rig: &CliRig, arguments: &[&str]) -> Follower {
        let mut child = rig.command(&[&["log", "--follow"], arguments].concat()).spawn().expect("a process");
        Follower { lines: BufReader::new(child.stdout.take().expect("its output")), child }
    }

    /// Reads until a line contains this, and returns that line.
    #[track_caller]
    fn until(&mut self, words: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).expect("text") > 0, "it ended before {words:?}");
            if line.contains(words) {
                return line;
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_newest_lines_are_shown_and_those_that_come() {
    let rig = plain();
    let (server, said) = rig.serve();
    for name in ["romeo", "juliet"] {
        rig.run_with(&["user", "add", &format!("{name}@localhost"), "--password-stdin", "--allow-short"], "pencil\n")
            .fine();
    }
    drop(log_in(&said, "romeo", "pencil", "balcony"));
    let mut all = Follower::new(&rig, &[]);
    let line = all.until("a session has begun");
    assert!(line.contains("  info") || line.contains("   INFO rookery_shard::visits: "), "{line}");
    assert!(line.contains("account=\"romeo@localhost\"") && line.contains("resource=\"balcony\""), "{line}");
    // Only lines about one account, and only new ones.
    let mut juliet = Follower::new(&rig, &["--account", "juliet@localhost/x", "--json"]);
    drop(log_in(&said, "juliet", "pencil", "garden"));
    let line: Value = serde_json::from_str(&juliet.until("begun")).expect("JSON");
    assert_eq!((&line["level"], &line["message"]), (&"info".into(), &"a session has begun".into()));
    assert_eq!(
        (&line["fields"]["account"], &line["fields"]["resource"]),
        (&"juliet@localhost".into(), &"garden".into())
    );
    all.until("resource=\"garden\"");

    let warnings = rig.run(&["log", "--level", "warn"]).fine();
    assert!(!warnings.contains("a session has begun"), "{warnings}");
    rig.run(&["log", "--level", "loud"]).expect_failure(1, "a level is one of: error, warn, info, debug, trace");
    assert_eq!(server.stop(), 0);
    // It ends with the server.
    assert!(all.child.wait().expect("an end").code().is_some());
    rig.run(&["log"]).expect_failure(1, "no server is running in ");
}

#[test]
fn few_follow_at_a_time() {
    let rig = plain();
    let (_server, _) = rig.serve();
    // Something to read.
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let mut followers: Vec<_> = (0..4).map(|_| Follower::new(&rig, &[])).collect();
    followers.iter_mut().for_each(|follower| drop(follower.until(" ")));
    rig.run(&["log", "--follow"]).expect_failure(1, "4 commands already follow the log");
    // Other commands still work.
    rig.run(&["status"]).fine();
    rig.run(&["log"]).fine();
    drop(followers.pop());
    // The server notices a closed connection when it writes to it.
    let mut line = String::new();
    while line.is_empty() {
        Follower::new(&rig, &[]).lines.read_line(&mut line).expect("text");
    }
}

#[test]
fn a_level_is_raised_for_a_while_and_that_is_noted() {
    let rig = plain();
    let (server, said) = rig.serve();
    let count = |words: &str| rig.run(&["log"]).fine().matches(words).count();
    let port =
        said.split_whitespace().zip(said.split_whitespace().skip(1)).find(|(_, kind)| kind.starts_with("(direct"));
    let (port, _) = port.expect("a port");
    let speak_no_tls = || {
        let mut stream = TcpStream::connect(port).expect("connected");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
        // Until the server closes it, which it has reported by then.
        let _ = stream.read_to_end(&mut Vec::new());
    };
    speak_no_tls();
    assert_eq!(count("TLS failed"), 0);
    let raised = rig.run(&["log", "level", "rookery_shard::reading", "debug", "--for", "1h"]).fine();
    assert_eq!(raised, "rookery_shard::reading is logged at debug for 3600 seconds\n");
    speak_no_tls();
    assert_eq!(count("DEBUG rookery_shard::reading: TLS failed"), 1);
    // The change is reported in a line, and in the action log.
    let act = "set the level of the log of rookery_shard::reading to debug for 3600 seconds";
    assert_eq!(count(act), 1);
    rig.run(&["reload"]).fine();
    speak_no_tls();
    assert_eq!(count("TLS failed"), 2, "a reload takes nothing away");
    // The level holds for a second, then the configured one again.
    rig.run(&["log", "level", "rookery_shard::reading", "debug", "--for", "1s"]).fine();
    let mut told = count("TLS failed");
    loop {
        speak_no_tls();
        let now = count("TLS failed");
        if now == told {
            break;
        }
        told = now;
    }
    rig.run(&["log", "level", "hyper", "trace"]).expect_failure(1, "\"hyper\" isn't a module");
    rig.run(&["log", "level", "rookery_web", "loud"]).expect_failure(1, "\"loud\" isn't a level");
    rig.run(&["log", "level", "rookery_web", "debug", "--for", "2d"])
        .expect_failure(2, "a time such as 90s, 10m or 2h");
    assert!(server.log().contains(act));
}
