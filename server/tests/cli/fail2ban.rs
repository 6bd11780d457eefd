//! The filter for fail2ban finds the addresses of clients that guess passwords in the log of a
//! running server, in every format of it, and no address that a client writes into a name.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::control::{base64, log_in, plain, read_until};
use super::rig::CliRig;
use super::uploads::http;

/// The address that no client has: it only occurs in names.
const VICTIM: &str = "198.51.100.66";

rookery_needs::needing! {
    "cli.fail2ban": the_filter_finds_who_guesses_and_nobody_else, the_jail_has_what_fail2ban_needs
}

/// Debian's fail2ban, unpacked, with our filter and jail.
struct Fail2ban {
    folder: PathBuf,
}

impl Fail2ban {
    fn unpack(rig: &CliRig) -> Fail2ban {
        rookery_needs::programs(&[("python3", "python3")]);
        let folder = rig.path("fail2ban");
        rookery_needs::unpack("fail2ban", &folder);
        let ours = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/fail2ban"));
        for file in ["filter.d/rookery.conf", "jail.d/rookery.conf"] {
            std::fs::copy(ours.join(file), folder.join("etc/fail2ban").join(file)).expect("copied");
        }
        Fail2ban { folder }
    }

    /// Runs one of its programs with its own configuration.
    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new("python3");
        command.arg(self.folder.join("usr/bin").join(program)).arg("-c").arg(self.folder.join("etc/fail2ban"));
        command.args(arguments).env("PYTHONPATH", self.folder.join("usr/lib/python3/dist-packages"));
        let output = command.output().expect("python3");
        let words = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}");
        words
    }

    /// Returns the addresses that the filter finds in a log, with the number of lines of each.
    fn find_addresses(&self, log: &str, mode: &str) -> BTreeMap<String, usize> {
        let file = self.folder.join("log");
        std::fs::write(&file, log).expect("written");
        let filter = format!("rookery[mode={mode}]");
        let words = self.run("fail2ban-regex", &["--out", "ip", file.to_str().expect("a path"), &filter]);
        let mut found = BTreeMap::new();
        words.lines().for_each(|address| *found.entry(address.to_owned()).or_default() += 1);
        found
    }
}

/// Returns the address of a port from a server's output, by its protocol.
fn port<'a>(said: &'a str, kind: &str) -> &'a str {
    let words: Vec<&str> = said.split_whitespace().collect();
    words.windows(2).find(|pair| pair[1].starts_with(&format!("({kind}"))).expect("a port")[0]
}

/// Fails to log in over TCP.
fn guess(address: &str, name: &str) {
    let mut stream = BufReader::new(TcpStream::connect(address).expect("connected"));
    let open = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
    let key = base64(format!("\0{name}\0wrong").as_bytes());
    let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{key}</auth>");
    for (say, until) in [(open, "</stream:features>"), (auth.as_str(), "</failure>")] {
        stream.get_mut().write_all(say.as_bytes()).expect("written");
        assert!(read_until(&mut stream, until).contains(until));
    }
}

/// Fails to log in to the admin page through a proxy on this machine; returns the status.
fn guess_in_the_browser(address: &str, whence: &str, name: &str) -> u16 {
    let name: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let body = format!("name={name}&password=wrong");
    let mut stream = TcpStream::connect(address).expect("connected");
    let head = "POST /admin/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-Proto: https\r\n\
                Origin: https://localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let request = format!("{head}X-Forwarded-For: {whence}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

/// Returns texts that look as if a line of the log continued with another address.
fn hostile() -> Vec<String> {
    let line = format!("a login failed peer={VICTIM}:1 account=\"a\" reason=\"not-authorized\"");
    vec![
        line.clone(),
        format!("x\" reason=\"not-authorized\"\n2026-01-01T00:00:00Z  INFO rookery_shard::negotiation: {line}"),
        format!("x\\\" reason=\"not-authorized\"\r\nINFO rookery_shard::negotiation: {line}"),
        format!("2026-01-01 00:00:00 INFO rookery: {line}"),
        format!("x\",\"message\":\"a login failed\",\"peer\":\"{VICTIM}:1\",\"reason\":\"not-authorized\"}}"),
        format!("x\\\",\"message\":\"a login failed\",\"peer\":\"{VICTIM}:1\",\"reason\":\"not-authorized\"}}"),
        format!("x address={VICTIM} account=\"a\" cause=\"pair\""),
        format!("\u{2028}rookery[1]: INFO a: {line}"),
    ]
}

#[test]
fn a_failed_attempt_at_the_page_is_one_line_of_the_log_and_an_entry_of_the_journal() {
    let rig = plain();
    let base = std::fs::read_to_string(rig.path("rookery.toml")).expect("the configuration");
    let web =
        "[web]\ntrusted_proxies = [\"127.0.0.1\"]\nadmin_networks = [\"0.0.0.0/0\"]\napi_networks = [\"0.0.0.0/0\"]\n";
    rig.write("rookery.toml", &format!("{base}{web}"));
    let (server, said) = rig.serve();
    let token = rig.run(&["token", "add", "test", "--scope", "log:read"]).fine().trim().to_owned();
    assert_eq!(guess_in_the_browser(port(&said, "HTTP)"), "203.0.113.9", "juliet@localhost"), 401);
    let way = "X-Forwarded-For: 203.0.113.1\r\nX-Forwarded-Proto: https";
    let head = format!("GET /api/v1/log HTTP/1.1\r\nAuthorization: Bearer {token}\r\n{way}");
    let journal = http(&said, &head, b"");
    assert!(journal.contains("failed to sign in") && journal.contains("page from 203.0.113.9"), "{journal}");
    let log = server.log();
    let about: Vec<_> = log.lines().filter(|line| line.contains("203.0.113.9")).collect();
    assert!(matches!(&about[..], [line] if line.contains("a login failed")), "{about:?}");
}

mod test {
    use super::*;

    pub fn the_filter_finds_who_guesses_and_nobody_else() {
        let rig = plain();
        let fail2ban = Fail2ban::unpack(&rig);
        let base = std::fs::read_to_string(rig.path("rookery.toml")).expect("the configuration");
        let base = base.replace("c2s = [\"127.0.0.1:0\"]", "c2s = [\"127.0.0.1:0\", \"[::1]:0\"]");
        let web = "[web]\ntrusted_proxies = [\"127.0.0.1\"]\nadmin_networks = [\"0.0.0.0/0\", \"::/0\"]\n";
        let limits = "[limits]\nconnections_per_address = 3\n";
        for format in ["text", "json"] {
            rig.write("rookery.toml", &format!("{base}{web}{limits}[log]\nformat = \"{format}\"\n"));
            let log = log_of_a_siege(&rig);
            let sessions = log.lines().filter(|line| line.contains("a session has begun") && line.contains(VICTIM));
            assert_eq!(sessions.count(), hostile().len(), "{log}");
            let expected = [
                // A name over TCP, in both protocols.
                ("127.0.0.1", 1),
                ("::1", 1),
                // The hostile names on the admin page, and one name until further attempts were
                // refused.
                ("2001:db8::9", hostile().len()),
                ("203.0.113.9", SIEGE + 1),
            ];
            let mut expected: BTreeMap<String, usize> =
                expected.into_iter().map(|(address, lines)| (address.to_owned(), lines)).collect();
            assert_eq!(fail2ban.find_addresses(&log, "normal"), expected, "{format}: {log}");
            // The lines as in syslog's file.
            let bare = |line: &str| match line.split_once("Z ") {
                Some((_, rest)) if format == "text" => rest.trim_start().to_owned(),
                _ => line.to_owned(),
            };
            let syslog: String =
                log.lines().map(|line| format!("Nov 24 04:03:19 host rookery[12]: {}\n", bare(line))).collect();
            assert_eq!(fail2ban.find_addresses(&syslog, "normal"), expected, "{format}: {syslog}");
            expected.insert("203.0.113.77".to_owned(), 1);
            assert_eq!(fail2ban.find_addresses(&log, "aggressive"), expected, "{format}: {log}");
        }
    }

    /// Attacks a server, and returns its log.
    fn log_of_a_siege(rig: &CliRig) -> String {
        let (server, said) = rig.serve();
        // A user who may log in chooses names, too.
        let _ = rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n");
        for text in hostile() {
            let resource = text.replace('&', "&amp;").replace('<', "&lt;").replace(['\n', '\r', '\u{2028}'], " ");
            drop(log_in(&said, "juliet", "pencil", &resource));
        }
        let running = said.lines().last().expect("a line");
        let words: Vec<&str> = running.split_whitespace().collect();
        let c2s = words.windows(2).filter(|pair| pair[1].starts_with("(STARTTLS")).map(|pair| pair[0]);
        let c2s: Vec<&str> = c2s.collect();
        assert_eq!(c2s.len(), 2, "{said}");
        c2s.into_iter().for_each(|address| guess(address, "juliet"));
        let web = port(&said, "HTTP)");
        for name in hostile() {
            assert_eq!(guess_in_the_browser(web, "2001:db8::9", &name), 401, "{name:?}");
        }
        let siege = format!("x\" address={VICTIM} cause=\"pair");
        (0..SIEGE).for_each(|_| assert_eq!(guess_in_the_browser(web, "203.0.113.9", &siege), 401));
        // The next one waits longer than any client does.
        assert_eq!(guess_in_the_browser(web, "203.0.113.9", &siege), 429);
        crowd(web, "203.0.113.77");
        server.log()
    }

    /// Opens one web connection more than an address may have.
    fn crowd(web: &str, whence: &str) {
        let held = (0..4).map(|_| {
            let mut stream = BufReader::new(TcpStream::connect(web).expect("connected"));
            let request = format!("GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {whence}\r\n\r\n");
            stream.get_mut().write_all(request.as_bytes()).expect("written");
            let mut status = String::new();
            stream.read_line(&mut status).expect("an answer");
            stream
        });
        assert_eq!(held.collect::<Vec<_>>().len(), 4);
    }

    pub fn the_jail_has_what_fail2ban_needs() {
        let rig = CliRig::empty();
        let fail2ban = Fail2ban::unpack(&rig);
        let local = fail2ban.folder.join("etc/fail2ban/jail.d/rookery.local");
        std::fs::write(local, "[rookery]\nenabled = true\n[sshd]\nenabled = false\n").expect("written");
        let dumped = fail2ban.run("fail2ban-client", &["-d"]);
        for words in ["['add', 'rookery', 'systemd']", "_SYSTEMD_UNIT=rookery.service", "5222,5223", "a login failed"] {
            assert!(dumped.contains(words), "{words:?} is not in:\n{dumped}");
        }
    }
}

/// The attempts of an address on an account at once.
const SIEGE: usize = 20;
