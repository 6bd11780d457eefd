//! Backups of a running server, and servers restored from them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rusqlite::Connection;

use super::rig::{CliRig, FREE_PORTS};

/// A token as the server makes them.
const TOKEN: &str = "aBcdefghijklmnopqrstuv";

/// Returns a server with two accounts, an uploaded file and a certificate outside of its folder.
fn fill() -> CliRig {
    let rig = CliRig::new();
    fs::create_dir(rig.path("elsewhere")).expect("a folder");
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("names");
    rig.write("elsewhere/own.pem", &params.self_signed(&key).expect("a certificate").pem());
    rig.write("elsewhere/own.key", &key.serialize_pem());
    let tls = "[tls]\ncertificate = \"elsewhere/own.pem\"\nkey = \"elsewhere/own.key\"\n";
    rig.write("rookery.toml", &format!("{FREE_PORTS}{tls}"));
    for name in ["juliet", "romeo"] {
        rig.run_with(&["user", "add", &format!("{name}@localhost"), "--password-stdin", "--allow-short"], "pencil\n")
            .fine();
    }
    let database = Connection::open(rig.path("rookery-data/rookery.db")).expect("the database");
    let slot =
        "INSERT INTO slots (token, owner, name, size, expires_ms, keep_ms, stage) VALUES (?, 1, 'a.txt', 5, ?, 1, ?)";
    database.execute(slot, (TOKEN, i64::MAX, 3)).expect("a slot");
    database.execute(slot, ("aXnotfilled", i64::MAX, 1)).expect("a slot");
    fs::create_dir_all(rig.path("rookery-data/uploads/aB")).expect("a folder");
    rig.write(&format!("rookery-data/uploads/aB/{TOKEN}"), "hello");
    rig.write("rookery-data/uploads/aB/aBnobodys", "an upload that is under way");
    rig
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_running_server_is_backed_up_and_restored_elsewhere() {
    let rig = fill();
    let (server, _) = rig.serve();
    // Another client writes, and isn't kept waiting.
    let writing = Connection::open(rig.path("rookery-data/rookery.db")).expect("the database");
    writing.execute_batch("BEGIN IMMEDIATE; INSERT INTO meta VALUES ('half', x'00')").expect("a write");
    let said = rig.run(&["backup", "b.tar.gz"]).fine();
    assert!(said.contains(" 1 upload,") && said.contains("written and verified"), "{said}");
    writing.execute_batch("COMMIT").expect("written");
    server.stop();
    let mode = fs::metadata(rig.path("b.tar.gz")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!rig.path("b.tar.gz.new").exists() && !rig.path("b.tar.gz.parts").exists());

    // Common tools can read it.
    fs::create_dir(rig.path("unpacked")).expect("a folder");
    let shell = |command: &str| {
        let run = Command::new("sh").args(["-c", command]).current_dir(rig.path("unpacked")).output().expect("a shell");
        assert!(run.status.success(), "{command}: {run:?}");
    };
    shell("tar xzf ../b.tar.gz && sha256sum --strict -c SHA256SUMS");
    assert!(text(&rig.path("unpacked/SHA256SUMS")).contains("own.key"));
    assert!(!rig.path("unpacked/uploads/aB/aBnobodys").exists());

    let other = CliRig::empty();
    fs::copy(rig.path("b.tar.gz"), other.path("b.tar.gz")).expect("copied");
    let said = other.run(&["restore", "b.tar.gz"]).fine();
    let key = fs::canonicalize(rig.path("elsewhere/own.key")).expect("a file");
    assert!(said.contains(&format!("{} is ./rookery-data/restored/", key.display())), "{said}");
    let own = fs::read_dir(other.path("rookery-data/restored")).expect("a folder").count();
    assert_eq!(own, 3, "configuration, certificate and key were outside");
    assert_eq!(other.run(&["user", "list"]).fine(), "juliet@localhost\nromeo@localhost\n");
    assert_eq!(text(&other.path(&format!("rookery-data/uploads/aB/{TOKEN}"))), "hello");
    let database = Connection::open(other.path("rookery-data/rookery.db")).expect("the database");
    let half: i64 =
        database.query_row("SELECT COUNT(*) FROM meta WHERE name = 'half'", [], |row| row.get(0)).expect("a number");
    assert_eq!(half, 0, "what was not written yet is not in it");
    for name in ["rookery.db", "state.toml"] {
        let mode = fs::metadata(other.path("rookery-data").join(name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    other.write("rookery.toml", FREE_PORTS);
    other.serve().0.stop();
}

/// Returns the bytes that a command writes to standard output, with what it gets on its input.
fn pipe(rig: &CliRig, arguments: &[&str], input: &Path) -> (Vec<u8>, String) {
    let mut command = rig.command(arguments);
    let output = command.stdin(fs::File::open(input).expect("a file")).output().expect("a process");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{err}");
    (output.stdout, err)
}

#[test]
fn a_backup_goes_through_a_pipe() {
    let rig = fill();
    let (server, _) = rig.serve();
    let (bytes, said) = pipe(&rig, &["backup", "-"], Path::new("/dev/null"));
    assert!(said.contains(" 1 upload,") && said.contains("written to standard output"), "{said}");
    assert!(!rig.path("-").exists() && !rig.path("rookery-data/rookery.backup.parts").exists());
    assert!(server.log().contains("made a backup: to standard output"));
    let other = CliRig::empty();
    fs::write(other.path("b.tar.gz"), &bytes).expect("written");
    fs::write(other.path("cut"), &bytes[..bytes.len() / 2]).expect("written");
    let mut cut = other.command(&["restore", "-"]);
    let cut = cut.stdin(fs::File::open(other.path("cut")).expect("a file")).output().expect("a process");
    assert!(!cut.status.success() && !other.path("rookery-data/rookery.db").exists(), "{cut:?}");
    let (said, _) = pipe(&other, &["restore", "-"], &other.path("b.tar.gz"));
    assert!(String::from_utf8_lossy(&said).contains("restored the backup of "));
    assert_eq!(text(&other.path(&format!("rookery-data/uploads/aB/{TOKEN}"))), "hello");
    assert_eq!(other.run(&["user", "list"]).fine(), "juliet@localhost\nromeo@localhost\n");
}

/// Asks a server for a backup and reads the head of the response.
fn ask(said: &str, token: &str) -> (String, BufReader<TcpStream>) {
    let words: Vec<&str> = said.split_whitespace().collect();
    let address = words.windows(2).find(|pair| pair[1].starts_with("(HTTP)")).expect("a port")[0];
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a patience");
    let head = format!("Authorization: Bearer {token}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(format!("POST /api/v1/backup HTTP/1.1\r\n{head}").as_bytes()).expect("written");
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).expect("a line"), 0, "{head}");
    }
    (head, reader)
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head}"))
}

fn token(rig: &CliRig, name: &str, more: &[&str]) -> String {
    let mut arguments = vec!["token", "add", name];
    arguments.extend(more);
    rig.run(&arguments).fine().trim().to_owned()
}

#[test]
fn a_program_downloads_a_backup() {
    let rig = fill();
    let other = token(&rig, "other", &["--scope", "server:write,users:export,observe:read"]);
    let of_domain = token(&rig, "domain", &["--scope", "server:backup", "--domain", "localhost"]);
    let token = token(&rig, "nightly", &["--scope", "server:backup"]);
    let (server, said) = rig.serve();
    for unfit in ["", &other, &of_domain] {
        let (head, _) = ask(&said, unfit);
        assert_eq!(status(&head), if unfit.is_empty() { 401 } else { 403 }, "{head}");
    }
    let (head, mut body) = ask(&said, &token);
    let mut archive = Vec::new();
    body.read_to_end(&mut archive).expect("the archive");
    let head = head.to_lowercase();
    assert!(head.starts_with("http/1.1 200") && head.contains("content-type: application/gzip\r\n"), "{head}");
    assert!(head.contains(&format!("content-length: {}\r\n", archive.len())), "{head}");
    assert!(head.contains("content-disposition: attachment; filename=\"rookery-2"), "{head}");
    assert!(rig.run(&["log"]).fine().contains("a backup was made for a request to the API"));
    let left: Vec<_> = fs::read_dir(rig.path("rookery-data")).expect("a folder").flatten().collect();
    assert!(!left.iter().any(|entry| entry.file_name().to_string_lossy().starts_with("rookery.backup")), "{left:?}");
    let restored = CliRig::empty();
    fs::write(restored.path("b.tar.gz"), &archive).expect("written");
    restored.run(&["restore", "b.tar.gz"]).fine();
    assert_eq!(restored.run(&["user", "list"]).fine(), "juliet@localhost\nromeo@localhost\n");
    assert_eq!(text(&restored.path(&format!("rookery-data/uploads/aB/{TOKEN}"))), "hello");
    // A backup that can't be made is told as one, without its reason.
    rig.write("rookery.toml", "nonsense = 1");
    let (head, mut body) = ask(&said, &token);
    let mut told = String::new();
    body.read_to_string(&mut told).expect("a problem");
    assert!(status(&head) == 503 && told.contains("the server's log says why") && !told.contains("nonsense"), "{told}");
    assert!(server.log().contains("nonsense"));
}

#[test]
fn a_second_download_waits_for_its_turn() {
    let rig = fill();
    let token = token(&rig, "nightly", &["--scope", "server:backup"]);
    // More than the sockets buffer, and nothing that could be compressed.
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..4 << 20)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 32) as u32).to_le_bytes()
        })
        .collect();
    let upload = rig.path(&format!("rookery-data/uploads/aB/{TOKEN}"));
    fs::write(&upload, &noise).expect("an upload");
    let (server, said) = rig.serve();
    let (head, mut first) = ask(&said, &token);
    assert_eq!(status(&head), 200, "{head}");
    assert_eq!(status(&ask(&said, &token).0), 409);
    let mut rest = Vec::new();
    first.read_to_end(&mut rest).expect("the archive");
    assert!(head.contains(&rest.len().to_string()), "{head}");
    let (head, abandoned) = ask(&said, &token);
    assert_eq!(status(&head), 200, "{head}");
    drop(abandoned);
    let next = (0..400).map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        status(&ask(&said, &token).0)
    });
    assert_eq!(next.into_iter().find(|status| *status != 409), Some(200));
    // No disk has room for this file, which occupies none itself.
    fs::File::options().write(true).open(&upload).and_then(|file| file.set_len(8 << 40)).expect("a long file");
    let refused = (0..400).map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        status(&ask(&said, &token).0)
    });
    assert_eq!(refused.into_iter().find(|status| *status != 409), Some(507));
    server.stop();
}

#[test]
fn what_is_there_stays_unless_it_is_to_go() {
    let rig = fill();
    rig.run(&["backup", "b.tar.gz"]).fine();
    rig.run(&["user", "remove", "romeo@localhost"]).fine();
    rig.run(&["restore", "b.tar.gz"]).expect_failure(1, "--replace moves the existing data");
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\n");
    let (server, _) = rig.serve();
    rig.run(&["restore", "--replace", "b.tar.gz"]).expect_failure(1, "is already running in ./rookery-data");
    server.stop();
    let said = rig.run(&["restore", "--replace", "b.tar.gz"]).fine();
    assert!(said.contains("rookery-data/before-restore-"), "{said}");
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\nromeo@localhost\n");
    // Files that were moved aside aren't in later backups.
    let before = fs::metadata(rig.path("b.tar.gz")).expect("a file").len();
    rig.run(&["backup", "b.tar.gz"]).fine();
    assert!(fs::metadata(rig.path("b.tar.gz")).expect("a file").len() < before * 3 / 2);
}

#[test]
fn a_damaged_backup_changes_nothing() {
    let rig = fill();
    rig.run(&["backup", "b.tar.gz"]).fine();
    let mut bytes = fs::read(rig.path("b.tar.gz")).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(rig.path("bad"), &bytes).expect("written");
    fs::write(rig.path("cut"), &bytes[..middle]).expect("written");
    rig.write("none", "no backup");
    let other = CliRig::empty();
    for name in ["bad", "cut", "none"] {
        fs::copy(rig.path(name), other.path(name)).expect("copied");
        let ended = other.run(&["restore", name]);
        assert_eq!(ended.code, 1, "{}", ended.all());
        assert!(ended.err.contains(name), "{}", ended.all());
        let left: Vec<_> = fs::read_dir(other.path("rookery-data"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(left, ["rookery.lock"]);
    }
    other.run(&["restore", "missing"]).expect_failure(1, "missing: No such file");
}

#[test]
fn no_server_starts_on_half_a_restore() {
    let rig = fill();
    rig.run(&["backup", "b.tar.gz"]).fine();
    rig.write("rookery-data/rookery.restoring", "");
    rig.run(&[]).expect_failure(78, "run the same `rookery restore` again");
    rig.run(&["restore", "b.tar.gz"]).fine();
    rig.serve().0.stop();
}

#[test]
fn a_database_goes_elsewhere() {
    let rig = fill();
    rig.run(&["backup", "b.tar.gz"]).fine();
    let other = CliRig::empty();
    fs::copy(rig.path("b.tar.gz"), other.path("b.tar.gz")).expect("copied");
    other
        .run(&["restore", "b.tar.gz", "--to", "mongodb://x"])
        .expect_failure(1, "isn't a database that this server knows");
    other.run(&["restore", "b.tar.gz", "--to", "sqlite:else/where.db"]).fine();
    assert!(!other.path("rookery-data/rookery.db").exists());
    // The server's own has the note about the backup, which came after it.
    let whole = CliRig::empty();
    fs::copy(rig.path("b.tar.gz"), whole.path("b.tar.gz")).expect("copied");
    whole.run(&["restore", "b.tar.gz"]).fine();
    let original = whole.path("rookery-data/rookery.db").display().to_string();
    other.run(&["store", "verify", "--from", &original, "--to", "sqlite:else/where.db"]).fine();
    other
        .run(&["store", "verify", "--from", &original, "--to", "sqlite:none.db"])
        .expect_failure(1, "there is no database none.db");
    fs::remove_dir_all(other.path("rookery-data")).expect("removed");
    other
        .run(&["restore", "b.tar.gz", "--to", "sqlite:else/where.db"])
        .expect_failure(1, "--replace removes what is there");
    other.run(&["restore", "b.tar.gz", "--to", "sqlite:else/where.db", "--replace"]).fine();
    other.run(&["store", "verify", "--from", &original, "--to", "sqlite:else/where.db"]).fine();
}

#[test]
fn nothing_is_backed_up_of_nothing() {
    let rig = CliRig::new();
    rig.run(&["backup", "b.tar.gz"]).expect_failure(1, "there is nothing to back up");
    assert!(!rig.path("b.tar.gz").exists() && !rig.path("b.tar.gz.parts").exists());
    let rig = fill();
    rig.run(&["backup", "no/such/folder/b"]).expect_failure(1, "no/such/folder");
}
