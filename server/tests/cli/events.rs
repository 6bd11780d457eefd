//! Events for other programs, from a client's socket to theirs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rookery_needs::Site;
use serde_json::Value;

use super::control::log_in;
use super::logins::with;
use super::rig::CliRig;

type HeardEvents = Arc<Mutex<Vec<Value>>>;

/// Starts a program that receives events, or refuses them.
fn program(refuses: &Arc<AtomicBool>) -> (Site, HeardEvents) {
    let (heard, refuses) = (HeardEvents::default(), refuses.clone());
    let kept = heard.clone();
    let site = Site::start(move |_, body| {
        if refuses.load(Ordering::Relaxed) {
            return (503, String::new());
        }
        let lines = body.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        kept.lock().expect("the events").extend(lines);
        (200, String::new())
    });
    (site, heard)
}

fn rig(tables: &str) -> CliRig {
    let rig = CliRig::new();
    rig.write("rookery.toml", &with(tables));
    rig.credential("events-secret", "a secret\n");
    rig.run_with(&["user", "add", "alice@localhost", "--password-stdin", "--allow-short"], "secret-secret\n").fine();
    rig
}

/// Waits until there are this many events of a kind, and returns all of them.
fn wait(heard: &HeardEvents, kind: &str, many: usize) -> Vec<Value> {
    for _ in 0..1000 {
        let found = heard.lock().expect("the events").clone();
        if found.iter().filter(|event| event["kind"] == kind).count() >= many {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no {many} of {kind}: {heard:?}");
}

fn say(said: &str, body: &str) {
    let mut client = log_in(said, "alice", "secret-secret", "phone");
    let stanza =
        format!("<message to='alice@localhost' type='chat' id='m1'><body>{body}</body></message></stream:stream>");
    client.get_mut().write_all(stanza.as_bytes()).expect("written");
    let _ = client.read_to_end(&mut Vec::new());
}

#[test]
fn events_are_posted_until_they_are_taken() {
    let refuses = Arc::new(AtomicBool::new(true));
    let (site, heard) = program(&refuses);
    let kinds = "kinds = [\"logins\", \"sessions\", \"messages\"]\ncontents = true\n";
    let rig = rig(&format!("[modules.events]\nenabled = true\n{kinds}[events]\nurl = \"{}\"\n", site.url("/hook")));
    assert!(rig.run(&["check"]).out.contains("they are posted to"));
    let (server, said) = rig.serve();
    say(&said, "hello");
    // Tried in vain, and kept over a restart.
    for _ in 0..1000 {
        if site.count("/hook") > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(site.count("/hook") > 0 && heard.lock().expect("the events").is_empty());
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(server.stop(), 0);
    refuses.store(false, Ordering::Relaxed);
    let (server, _) = rig.serve();
    let found = wait(&heard, "session.ended", 1);
    let of =
        |kind: &str| found.iter().find(|event| event["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {found:?}"));
    let message = &of("message")["data"];
    assert_eq!((&message["body"], &message["from"]), (&"hello".into(), &"alice@localhost/phone".into()));
    assert_eq!((&message["stanza_id"], &message["way"]), (&"m1".into(), &"sent".into()));
    assert_eq!(of("login")["data"]["account"], "alice@localhost/phone");
    assert_eq!(of("session.ended")["domain"], "localhost");
    let mut ids: Vec<_> = found.iter().map(|event| event["id"].as_str().expect("an id")).collect();
    ids.dedup();
    assert_eq!(ids.len(), found.len(), "each came once: {found:?}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn clients_of_the_api_follow_events() {
    let rig = rig("[modules.events]\nenabled = true\n");
    let token = rig.run(&["token", "add", "watcher", "--scope", "events:read"]).fine().trim().to_owned();
    let (server, said) = rig.serve();
    let mut following = follow(&said, &token, "");
    // It starts with the response.
    following.read_line(&mut String::new()).expect("a status");
    say(&said, "hello");
    let login = next(&mut following, "login");
    next(&mut following, "session.ended");
    let id = login["id"].as_str().expect("an id").to_owned();
    let mut again = follow(&said, &token, &format!("?after={id}"));
    assert_eq!(next(&mut again, "session.ended")["data"]["session"], "alice@localhost/phone");
    let none = rig.run(&["token", "add", "other", "--scope", "log:read"]).fine().trim().to_owned();
    let mut refused = String::new();
    follow(&said, &none, "").read_line(&mut refused).expect("a line");
    assert!(refused.contains("403"), "{refused}");
    assert_eq!(server.stop(), 0);
}

fn follow(said: &str, token: &str, query: &str) -> BufReader<TcpStream> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let address = words.windows(2).find(|pair| pair[1].starts_with("(HTTP)")).expect("a port")[0];
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a patience");
    let head =
        format!("GET /api/v1/events{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("written");
    BufReader::new(stream)
}

/// Returns the data of the next event of a kind.
fn next(stream: &mut BufReader<TcpStream>, kind: &str) -> Value {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "the stream has ended");
        let data = line.strip_prefix("data: ").and_then(|data| serde_json::from_str::<Value>(data).ok());
        if let Some(event) = data.filter(|event| event["kind"] == kind) {
            return event;
        }
    }
}
