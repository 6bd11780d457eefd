//! Files of users in a bucket, from a client's socket to the storage; and what browsers get where
//! there is nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rookery_needs::FakeBucket;

use super::control::{log_in, read_until};
use super::logins::with;
use super::rig::CliRig;

fn rig(bucket: &FakeBucket, more: &str) -> CliRig {
    let rig = CliRig::new();
    let (url, key) = (bucket.url(), FakeBucket::ACCESS_KEY);
    let table = format!("[uploads]\nbucket = \"{url}\"\naccess_key = \"{key}\"\n{more}");
    rig.write("rookery.toml", &with(&table));
    rig.credential("uploads-secret", "a secret\n");
    rig
}

/// Sends a request to the port for browsers, and returns the whole response.
pub fn http(said: &str, head: &str, body: &[u8]) -> String {
    let words: Vec<&str> = said.split_whitespace().collect();
    let address = words.windows(2).find(|pair| pair[1].starts_with("(HTTP)")).expect("a port")[0];
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a patience");
    let head = format!("{head}\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("written");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Asks for an upload slot, and returns the path to put and get its file.
pub fn slot(said: &str) -> String {
    let mut client = log_in(said, "alice", "secret-secret", "a");
    let ask = "<iq type='get' id='s' to='upload.localhost'><request xmlns='urn:xmpp:http:upload:0' filename='a.txt' size='9' content-type='text/plain'/></iq>";
    client.get_mut().write_all(ask.as_bytes()).expect("written");
    let answer = read_until(&mut client, "</iq>");
    let (_, rest) = answer.split_once("/upload/").unwrap_or_else(|| panic!("no slot: {answer}"));
    format!("/upload/{}", rest.split(['\'', '"']).next().expect("its end"))
}

#[test]
fn files_are_kept_in_a_bucket_and_go_with_their_owner() {
    let bucket = FakeBucket::start();
    let rig = rig(&bucket, "");
    rig.run_with(&["user", "add", "alice@localhost", "--password-stdin", "--allow-short"], "secret-secret\n").fine();
    let checked = rig.run(&["check"]);
    assert!(checked.out.contains("a file was written to"), "{checked:?}");
    let (server, said) = rig.serve();
    let path = slot(&said);
    let put = http(&said, &format!("PUT {path} HTTP/1.1\r\nContent-Type: text/plain"), b"beginning");
    assert!(put.starts_with("HTTP/1.1 201"), "{put}");
    assert_eq!(bucket.files().into_values().collect::<Vec<_>>(), [b"beginning"]);
    assert!(!rig.path("rookery-data/uploads").exists(), "nothing is kept here");
    let got = http(&said, &format!("GET {path} HTTP/1.1"), b"");
    assert!(got.starts_with("HTTP/1.1 200") && got.ends_with("beginning"), "{got}");
    let part = http(&said, &format!("GET {path} HTTP/1.1\r\nRange: bytes=5-"), b"");
    assert!(part.starts_with("HTTP/1.1 206") && part.ends_with("\r\n\r\nning"), "{part}");
    let backup = rig.run(&["backup", "all.tar.gz"]).fine();
    assert!(backup.contains("uploads are in http://127.0.0.1"), "{backup}");
    assert_eq!(server.stop(), 0);
    rig.run_with(&["user", "remove", "alice@localhost"], "yes\n").fine();
    assert!(bucket.files().is_empty(), "they go with their owner");
}

#[test]
fn a_bucket_that_fails_is_told_and_its_slot_waits() {
    let bucket = FakeBucket::start();
    let rig = rig(&bucket, "");
    rig.run_with(&["user", "add", "alice@localhost", "--password-stdin", "--allow-short"], "secret-secret\n").fine();
    let (server, said) = rig.serve();
    let path = slot(&said);
    let put = || http(&said, &format!("PUT {path} HTTP/1.1\r\nContent-Type: text/plain"), b"beginning");
    bucket.refuse(true);
    assert!(put().starts_with("HTTP/1.1 500"));
    assert!(rig.run(&["check"]).out.contains("507 StorageFull"));
    assert!(rig.run(&["doctor"]).out.contains("The bucket of uploads has failed"));
    bucket.refuse(false);
    // The upload slot is free again once the part of the file that was stored has been removed.
    let again = (0..100).map(|_| put()).find(|answer| !answer.starts_with("HTTP/1.1 409"));
    assert!(again.is_some_and(|answer| answer.starts_with("HTTP/1.1 201")));
    assert_eq!(bucket.files().len(), 1);
    assert_eq!(server.stop(), 0);
}

#[test]
fn clients_may_be_sent_on_to_the_bucket() {
    let bucket = FakeBucket::start();
    let rig = rig(&bucket, "redirect = true\n");
    rig.run_with(&["user", "add", "alice@localhost", "--password-stdin", "--allow-short"], "secret-secret\n").fine();
    let (server, said) = rig.serve();
    let path = slot(&said);
    assert!(http(&said, &format!("PUT {path} HTTP/1.1"), b"beginning").starts_with("HTTP/1.1 201"));
    let got = http(&said, &format!("GET {path} HTTP/1.1"), b"").to_lowercase();
    assert!(got.starts_with("http/1.1 307") && got.contains(&format!("location: {}/", bucket.url())), "{got}");
    assert!(got.contains("response-content-type=text%2fplain"), "{got}");
    assert!(http(&said, &format!("HEAD {path} HTTP/1.1"), b"").starts_with("HTTP/1.1 200"));
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_bucket_without_its_secret_keeps_the_server_from_starting() {
    let bucket = FakeBucket::start();
    let rig = rig(&bucket, "secret_file = \"missing\"\n");
    let checked = rig.run(&["check"]);
    assert!(checked.out.contains("missing: can't be read"), "{checked:?}");
    assert_eq!(rig.run(&[]).code, 78);
}

#[test]
fn files_of_the_operator_stand_beside_the_rest() {
    let rig = CliRig::new();
    std::fs::create_dir_all(rig.path("www/.well-known")).expect("a folder");
    rig.write("www/.well-known/security.txt", "Contact: mailto:a@a.example\n");
    rig.write("www/about.html", "<p>about</p>");
    rig.write("rookery.toml", &with("[web]\nfiles = \"www\"\n"));
    let (server, said) = rig.serve();
    let get = |path: &str| http(&said, &format!("GET {path} HTTP/1.1"), b"");
    assert!(get("/.well-known/security.txt").ends_with("Contact: mailto:a@a.example\n"));
    let page = get("/about.html").to_lowercase();
    assert!(page.contains("content-type: text/html") && page.ends_with("<p>about</p>"), "{page}");
    let (_, tag) = page.split_once("etag: ").expect("a tag");
    let tag = tag.split("\r\n").next().expect("its end");
    assert!(http(&said, &format!("GET /about.html HTTP/1.1\r\nIf-None-Match: {tag}"), b"").starts_with("HTTP/1.1 304"));
    assert!(get("/health/live").starts_with("HTTP/1.1 200") && get("/.well-known/host-meta").contains("XRD"));
    for path in ["/none", "/../rookery.toml", "/%2e%2e/rookery.toml"] {
        assert!(get(path).starts_with("HTTP/1.1 404"), "{path}");
    }
    assert!(http(&said, "PUT /about.html HTTP/1.1", b"x").starts_with("HTTP/1.1 405"));
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_browser_that_finds_nothing_is_led_on_and_a_program_is_told() {
    let rig = CliRig::new();
    rig.write("rookery.toml", &with(""));
    let (server, said) = rig.serve();
    let accept = "text/html,application/xhtml+xml,*/*;q=0.8\r\nAccept-Language: de";
    let get = |path: &str| http(&said, &format!("GET {path} HTTP/1.1\r\nAccept: {accept}"), b"");
    for (path, status, title) in [
        ("/none", "404", "<title>Hier ist nichts – localhost</title>"),
        ("/upload/none/a.txt", "404", "<h1>Hier ist nichts</h1>"),
        ("/chat", "503", "<h1>Der Chat ist noch nicht eingerichtet</h1>"),
    ] {
        let page = get(path);
        assert!(page.starts_with(&format!("HTTP/1.1 {status}")) && page.contains(title), "{path}: {page}");
        assert!(page.contains("<a href=\"/\">") && page.contains("default-src 'none'"), "{path}: {page}");
        let told = http(&said, &format!("GET {path} HTTP/1.1\r\nAccept: */*"), b"");
        assert!(told.starts_with(&format!("HTTP/1.1 {status}")) && !told.contains("<html"), "{path}: {told}");
    }
    assert!(get("/api/v1/none").contains("application/problem+json"));
    assert!(get("/").contains("<title>localhost</title>"));
    assert_eq!(server.stop(), 0);
}
