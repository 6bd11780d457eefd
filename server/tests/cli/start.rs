//! The first start creates files and names them; later ones only report news.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::rig::{CliRig, FREE_PORTS};

fn mode(rig: &CliRig, name: &str) -> u32 {
    fs::metadata(rig.path(name)).unwrap_or_else(|error| panic!("{name}: {error}")).permissions().mode() & 0o777
}

/// Returns the password of the first account, from the file that the output names, since there is
/// no terminal here.
fn password(rig: &CliRig, said: &str) -> String {
    let line = said.lines().find(|line| line.trim_start().starts_with("Password")).expect("a password");
    let file = line.split_whitespace().nth(1).expect("a file");
    assert_eq!(mode(rig, file), 0o600);
    fs::read_to_string(rig.path(file)).expect("the file").trim_end().to_owned()
}

#[test]
fn the_first_start_makes_everything_and_says_so() {
    let rig = CliRig::fresh();
    let (server, said) = rig.serve();
    assert!(said.starts_with("Rookery 0."), "{said}");
    for words in [
        "first start",
        "admin@localhost",
        "127.0.0.1:",
        "STARTTLS",
        "direct TLS",
        "self-signed for localhost",
        "/admin",
    ] {
        assert!(said.contains(words), "{words:?} is not in:\n{said}");
    }
    for words in [
        "connect a client as admin@localhost with the password in that file to localhost",
        "rookery user add alice@localhost",
        "rookery user invite localhost",
        "rookery check",
    ] {
        assert!(said.contains(words), "{words:?} is not in:\n{said}");
    }
    assert!(!said.contains("Ctrl-C"), "there is no terminal:\n{said}");
    let password = password(&rig, &said);
    assert!(!said.contains(&password), "a journal keeps what is said:\n{said}");
    assert_eq!(password.len(), 20);
    assert!(password.chars().all(|c| c.is_ascii_alphanumeric()), "{password}");
    assert_eq!(mode(&rig, "rookery-data"), 0o700);
    for file in ["rookery.db", "certs/self-signed.pem", "certs/self-signed.key", "state.toml"] {
        assert_eq!(mode(&rig, &format!("rookery-data/{file}")), 0o600, "{file}");
    }
    assert_eq!(server.stop(), 0);
    let kept = fs::read_to_string(rig.path("rookery-data/state.toml")).expect("the state");
    assert!(!kept.contains(&password), "the password is kept nowhere else");
    assert_eq!(rig.run(&["user", "list"]).fine(), "admin@localhost\n");
}

#[test]
fn later_starts_say_only_what_is_new() {
    let rig = CliRig::fresh();
    rig.serve().0.stop();
    let (server, said) = rig.serve();
    assert_eq!(said.lines().count(), 1, "{said}");
    server.stop();
    rig.write("rookery.toml", &FREE_PORTS.replace("c2s_tls = [\"127.0.0.1:0\"]", "c2s_tls = [\"127.0.0.2:0\"]"));
    let (server, said) = rig.serve();
    assert!(said.contains("new direct TLS listener: 127.0.0.2:0\n"), "{said}");
    assert!(said.contains("direct TLS listener gone: 127.0.0.1:0\n"), "{said}");
    server.stop();
    assert_eq!(rig.serve().1.lines().count(), 1, "told once");
}

#[test]
fn other_domains_get_another_certificate() {
    let rig = CliRig::fresh();
    rig.serve().0.stop();
    let certificate = || fs::read(rig.path("rookery-data/certs/self-signed.pem")).expect("a certificate");
    let first = certificate();
    rig.serve().0.stop();
    assert_eq!(certificate(), first, "the same domains keep theirs");
    rig.write("rookery.toml", &format!("domains = [\"localhost\", \"example.org\"]\n{FREE_PORTS}"));
    let (server, said) = rig.serve();
    assert!(said.contains("new domain: example.org\n"), "{said}");
    assert!(said.contains("created a self-signed certificate for localhost, example.org\n"), "{said}");
    assert!(!said.contains("Password"), "no second admin account:\n{said}");
    server.stop();
    assert_ne!(certificate(), first);
    assert_eq!(mode(&rig, "rookery-data/certs/self-signed.key"), 0o600);
}

#[test]
fn operator_files_are_used_and_left_alone() {
    let rig = CliRig::fresh();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    rig.write("own.pem", &made.cert.pem());
    rig.write("own.key", &made.signing_key.serialize_pem());
    rig.write("rookery.toml", &format!("{FREE_PORTS}[tls]\ncertificate = \"own.pem\"\nkey = \"own.key\"\n"));
    let (server, said) = rig.serve();
    assert!(said.contains("own.pem for localhost"), "{said}");
    server.stop();
    assert_eq!(fs::read_to_string(rig.path("own.pem")).expect("the file"), made.cert.pem());
    assert!(!rig.path("rookery-data/certs").exists());
}

#[test]
fn a_folder_has_one_server() {
    let rig = CliRig::fresh();
    let (server, _) = rig.serve();
    rig.run(&[])
        .expect_failure(1, &format!("a server (process {}) is already running in ./rookery-data", server.pid()));
    let checked = rig.run(&["check"]).all();
    assert!(checked.contains(&format!("the server is running (process {})", server.pid())), "{checked}");
}

#[test]
fn without_configuration_the_data_folder_is_asked_for_one() {
    let rig = CliRig::fresh();
    fs::create_dir(rig.path("elsewhere")).expect("a folder");
    fs::rename(rig.path("rookery.toml"), rig.path("elsewhere/rookery.toml")).expect("moved");
    rig.write("elsewhere/rookery.toml", "domains = [\"elsewhere.example\"]");
    let checked = rig.run(&["check", "--data-dir", "elsewhere"]).all();
    assert!(checked.contains("elsewhere/rookery.toml; domains: elsewhere.example"), "{checked}");
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let rig = CliRig::fresh();
    // No other test takes ports of this address.
    let taken = std::net::TcpListener::bind("127.83.1.2:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    rig.write(
        "rookery.toml",
        &format!("[listen]\nc2s = [\"{address}\"]\nc2s_tls = []\nweb = []\nweb_tls = []\nbytestreams = []\n"),
    );
    rig.run(&["serve"]).expect_failure(75, &format!("cannot listen on {address}"));
    assert!(!rig.path("rookery-data/rookery.db").exists(), "no account whose password nobody has seen");
    drop(taken);
    assert!(rig.serve().1.contains("Password"));
}

#[test]
fn a_file_in_place_of_the_folder_is_named() {
    let rig = CliRig::fresh();
    rig.write("rookery-data", "");
    rig.run(&[]).expect_failure(78, "the data folder ./rookery-data can't be created");
    let checked = rig.run(&["check"]);
    assert_eq!(checked.code, 78);
    assert!(checked.out.contains("./rookery-data is a file, not a folder"), "{}", checked.out);
}

/// An idle server doesn't even advance its clock: that must not shorten the time in which the next
/// client has to log in.
#[test]
fn who_comes_after_a_long_silence_has_all_the_time_to_log_in() {
    let rig = CliRig::fresh();
    rig.write("rookery.toml", &format!("{FREE_PORTS}\n[limits]\nlogin_seconds = 5\n"));
    let (server, said) = rig.serve();
    let port = said.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).expect("a port");
    std::thread::sleep(Duration::from_secs(6));
    // One for each shard.
    for _ in 0..4 {
        let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).expect("a connection");
        client.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let header = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams'>";
        client.write_all(header.as_bytes()).expect("a header");
        let (mut heard, mut buffer) = (String::new(), [0; 4096]);
        while !heard.contains("</stream:features>") {
            let len = client.read(&mut buffer).expect("an answer");
            heard.push_str(&String::from_utf8_lossy(&buffer[..len]));
            assert!(len > 0 && !heard.contains("stream:error"), "{heard}");
        }
    }
    assert_eq!(server.stop(), 0);
}

/// Memory from a wave of connections is returned to the system although the shards are idle: the
/// allocator has threads of its own for that.
#[test]
fn memory_goes_back_while_nothing_happens() {
    let rig = CliRig::fresh();
    let (server, _) = rig.serve();
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("threads");
    let names: Vec<String> =
        threads.flatten().map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap_or_default()).collect();
    assert!(names.iter().any(|name| name.starts_with("jemalloc_bg_thd")), "{names:?}");
    assert_eq!(server.stop(), 0);
}
