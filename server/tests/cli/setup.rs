//! `rookery setup` creates a server where there is none, and compares DNS with the records that it
//! needs.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::thread;

use super::rig::{CliRig, RigEnded};

/// A name server with a few records; it answers over UDP.
#[derive(Clone)]
pub(super) struct SetupDns {
    pub(super) address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

/// The content of records by name, without the final dot, and type.
#[derive(Default)]
struct Zone {
    records: BTreeMap<(String, u16), Vec<Vec<u8>>>,
    /// Records that exist once a name has been queried.
    later: BTreeMap<(String, u16), Vec<u8>>,
}

pub(super) const A: u16 = 1;
pub(super) const SRV: u16 = 33;
pub(super) const CAA: u16 = 257;

impl SetupDns {
    pub(super) fn start() -> SetupDns {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let dns = SetupDns { address: socket.local_addr().expect("its address"), zone: Arc::default() };
        let zone = dns.zone.clone();
        thread::spawn(move || {
            let mut buffer = [0; 1500];
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let answer = zone.lock().expect("the zone").answer(&buffer[..len]);
                // The client may be gone.
                let _ = socket.send_to(&answer, from);
            }
        });
        dns
    }

    pub(super) fn say(&self, name: &str, type_: u16, data: Vec<u8>) {
        self.zone.lock().expect("the zone").records.entry((name.to_owned(), type_)).or_default().push(data);
    }

    fn say_later(&self, name: &str, type_: u16, data: Vec<u8>) {
        self.zone.lock().expect("the zone").later.insert((name.to_owned(), type_), data);
    }
}

impl Zone {
    /// Answers one query (RFC 1035 §4), with the question as it was written: the mixed case of its
    /// letters is a secret of the client.
    fn answer(&mut self, asked: &[u8]) -> Vec<u8> {
        let (mut at, mut labels) = (12, Vec::new());
        while asked[at] != 0 {
            let end = at + 1 + usize::from(asked[at]);
            labels.push(String::from_utf8_lossy(&asked[at + 1..end]).to_lowercase());
            at = end;
        }
        let question = &asked[12..at + 5];
        let key = (labels.join("."), u16::from_be_bytes([asked[at + 1], asked[at + 2]]));
        let found = self.records.get(&key).cloned().unwrap_or_default();
        let mut answer = asked[..2].to_vec();
        answer.extend([0x81, 0x80, 0, 1, 0, u8::try_from(found.len()).expect("a few"), 0, 0, 0, 0]);
        answer.extend(question);
        for data in found {
            // The name of the question, the type, the class IN, a minute.
            answer.extend([0xc0, 12]);
            answer.extend(key.1.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 60]);
            answer.extend(u16::try_from(data.len()).expect("short").to_be_bytes());
            answer.extend(data);
        }
        if let Some(data) = self.later.remove(&key) {
            self.records.entry(key).or_default().push(data);
        }
        answer
    }
}

fn a(last: u8) -> Vec<u8> {
    Ipv4Addr::new(203, 0, 113, last).octets().to_vec()
}

pub(super) fn srv(port: u16, host: &str) -> Vec<u8> {
    let labels = host.split('.').flat_map(|label| {
        let len = u8::try_from(label.len()).expect("a label");
        std::iter::once(len).chain(label.bytes()).collect::<Vec<_>>()
    });
    let numbers = [0, 0, 0, 5].into_iter().chain(port.to_be_bytes());
    numbers.chain(labels).chain([0]).collect()
}

fn setup(rig: &CliRig, dns: &SetupDns, more: &[&str]) -> RigEnded {
    let server = dns.address.to_string();
    let arguments = ["setup", "chat.example.org", "--data-dir", "data", "--address", "203.0.113.5", "--dns", &server];
    rig.run(&[&arguments, more].concat())
}

/// Returns the line of a record, without its state in DNS.
#[track_caller]
fn line<'a>(said: &'a str, record: &str) -> &'a str {
    let is_it = |line: &&str| line.split_whitespace().collect::<Vec<_>>().join(" ").ends_with(record);
    said.lines().find(is_it).unwrap_or_else(|| panic!("{record:?} is not in:\n{said}")).trim_start()
}

#[test]
fn a_dry_run_tells_all_and_makes_nothing() {
    let (rig, dns) = (CliRig::empty(), SetupDns::start());
    let said = setup(&rig, &dns, &["--dry-run", "--admin", "anna"]).fine();
    for words in [
        "data/rookery.toml (would be written)",
        "    domains = [\"chat.example.org\"]",
        "anna@chat.example.org",
        "Ports to open in a firewall (TCP): ",
        "5222 (STARTTLS)",
    ] {
        assert!(said.contains(words), "{words:?} is not in:\n{said}");
    }
    assert!(!said.contains("/invite/") && !said.contains("federation"), "{said}");
    assert!(!rig.path("data").exists());
    let federated = setup(&rig, &dns, &["--dry-run", "--federation"]).fine();
    assert!(federated.contains("    federation.enabled = true"), "{federated}");
    for record in [
        "_xmpp-server._tcp.chat.example.org. IN SRV 0 5 5269 chat.example.org.",
        "_xmpps-server._tcp.chat.example.org. IN SRV 0 5 5270 chat.example.org.",
        "conference.chat.example.org. IN CNAME chat.example.org.",
    ] {
        assert!(line(&federated, record).starts_with("missing"), "{federated}");
        assert!(!said.contains(record.split(' ').next().expect("a name")), "{said}");
    }
}

#[test]
fn records_are_compared_with_what_dns_has() {
    let (rig, dns) = (CliRig::empty(), SetupDns::start());
    let clients = "_xmpp-client._tcp.chat.example.org";
    let by_tls = "_xmpps-client._tcp.chat.example.org";
    let address = "chat.example.org. IN A 203.0.113.5";
    let service = format!("{clients}. IN SRV 0 5 5222 chat.example.org.");
    let said = setup(&rig, &dns, &["--dry-run"]).fine();
    assert!(line(&said, address).starts_with("missing"), "{said}");
    assert!(line(&said, &service).starts_with("missing"), "{said}");
    dns.say("chat.example.org", A, a(9));
    dns.say(clients, SRV, srv(5222, "chat.example.org"));
    dns.say(by_tls, SRV, srv(443, "other.example.org"));
    let said = setup(&rig, &dns, &["--dry-run"]).fine();
    assert!(line(&said, address).starts_with("other"), "{said}");
    assert!(said.contains("(DNS has 203.0.113.9)"), "{said}");
    assert!(line(&said, &service).starts_with("there"), "{said}");
    assert!(said.contains("(DNS has other.example.org:443)"), "{said}");
    dns.say("chat.example.org", A, a(5));
    let said = setup(&rig, &dns, &["--dry-run"]).fine();
    assert!(line(&said, address).starts_with("there"), "another machine may have the name, too:\n{said}");
}

#[test]
fn a_server_is_set_up_once() {
    let (rig, dns) = (CliRig::empty(), SetupDns::start());
    let said = setup(&rig, &dns, &["--admin", "anna"]).fine();
    let text = fs::read_to_string(rig.path("data/rookery.toml")).expect("a configuration");
    assert!(text.lines().count() <= 15, "{text}");
    let mode = fs::metadata(rig.path("data")).expect("a folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // Its ports may be taken on this machine, but it must not be wrong.
    let checked = rig.run(&["check", "--data-dir", "data"]).all();
    assert!(checked.contains("ok       configuration  data/rookery.toml; domains: chat.example.org"), "{checked}");
    assert!(!checked.contains("fault    configuration"), "{checked}");
    assert_eq!(rig.run(&["user", "list", "--data-dir", "data"]).fine(), "anna@chat.example.org\n");
    let admins = rig.run(&["admin", "list", "--data-dir", "data"]).fine();
    assert_eq!(admins, "anna@chat.example.org\tchat.example.org\tnamed\n");
    let of = |kind: &str| {
        said.lines().any(|line| line.trim().starts_with("https://chat.example.org") && line.contains(kind))
    };
    assert!(of("/reset/") && of("/invite/"), "{said}");
    assert!(said.contains("rookery user invite chat.example.org --data-dir data"), "{said}");
    assert!(said.contains("█"), "there is a code for phones:\n{said}");

    setup(&rig, &dns, &[]).expect_failure(1, "data/rookery.toml already exists and is left alone");
    assert_eq!(fs::read_to_string(rig.path("data/rookery.toml")).expect("the same"), text);
}

#[test]
fn a_configuration_of_comments_is_none() {
    let (rig, dns) = (CliRig::empty(), SetupDns::start());
    fs::create_dir(rig.path("data")).expect("a folder");
    rig.write("data/rookery.toml", "# rookery setup DOMAIN writes this\n\n");
    setup(&rig, &dns, &[]).fine();
    let text = fs::read_to_string(rig.path("data/rookery.toml")).expect("a configuration");
    assert!(text.contains("domains = [\"chat.example.org\"]"), "{text}");
}

#[test]
fn it_waits_for_dns_if_it_is_asked_to() {
    let (rig, dns) = (CliRig::empty(), SetupDns::start());
    let (clients, by_tls) = ("_xmpp-client._tcp.chat.example.org", "_xmpps-client._tcp.chat.example.org");
    dns.say(clients, SRV, srv(5222, "chat.example.org"));
    dns.say(by_tls, SRV, srv(5223, "chat.example.org"));
    dns.say_later("chat.example.org", A, a(5));
    let said = setup(&rig, &dns, &["--wait"]).fine();
    let (before, after) = said.split_once("Waiting for DNS").expect("it waits");
    let address = "chat.example.org. IN A 203.0.113.5";
    assert!(before.contains("203.0.113.5"), "{said}");
    assert!(line(after, address).starts_with("there"), "{said}");
    assert!(after.contains("/invite/"), "{said}");
}

#[test]
fn what_is_no_domain_or_name_is_refused() {
    let rig = CliRig::empty();
    rig.run(&["setup", "192.0.2.1", "--data-dir", "data"]).expect_failure(1, "isn't a domain like example.org");
    rig.run(&["setup", "a.example", "--admin", "x@b.example", "--data-dir", "data"])
        .expect_failure(1, "x@b.example is not an address in a.example");
    rig.run(&["setup", "a.example", "--dns", "nonsense"]).expect_failure(2, "an address such as 9.9.9.9");
    assert!(!rig.path("data").exists());
}

#[test]
fn a_check_compares_dns_if_it_is_asked_to() {
    let (rig, dns) = (CliRig::new(), SetupDns::start());
    let clients = "_xmpp-client._tcp.chat.example.org";
    dns.say(clients, SRV, srv(5222, "chat.example.org"));
    // A check only listens for a moment, so these ports may be those of the records.
    let listen = "[listen]\nc2s = [\"127.0.0.1:5222\"]\nc2s_tls = [\"127.0.0.1:5223\"]\nweb = []\nweb_tls = []\nbytestreams = []\n";
    let text = format!("domains = [\"chat.example.org\"]\nfederation.dns = [\"{}\"]\n{listen}", dns.address);
    rig.write("rookery.toml", &text);
    let checked = rig.run(&["check", "--dns"]).all();
    assert!(
        checked.contains(&format!("ok       DNS            {clients}. IN SRV 0 5 5222 chat.example.org.")),
        "{checked}"
    );
    let missing =
        "warning  DNS            missing: _xmpps-client._tcp.chat.example.org. IN SRV 0 5 5223 chat.example.org.";
    assert!(checked.contains(missing), "{checked}");
    assert!(!rig.run(&["check"]).all().contains(" DNS "), "DNS is not asked unless somebody wants it");
}

#[test]
fn a_relay_for_calls_shares_its_secret_with_the_server() {
    let (rig, dns) = (CliRig::empty(), SetupDns::start());
    let said = setup(&rig, &dns, &["--calls"]).fine();
    assert!(said.contains("data/turnserver.conf (written)") && said.contains("/etc/turnserver.conf"), "{said}");
    let read = |name: &str| fs::read_to_string(rig.path(name)).expect("a file");
    let relay = read("data/turnserver.conf");
    let secret = relay.lines().find_map(|line| line.strip_prefix("static-auth-secret=")).expect("a secret");
    assert!(read("data/rookery.toml").contains(&format!("secret = \"{secret}\"")));
    assert!(relay.contains("\nexternal-ip=203.0.113.5\n") && !said.contains(secret), "{said}");
    for name in ["data/turnserver.conf", "data/rookery.toml"] {
        let mode = fs::metadata(rig.path(name)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let shown = rig.run(&["config", "show", "--data-dir", "data"]).fine();
    assert!(shown.contains("turn:chat.example.org:3478?transport=udp") && !shown.contains(secret), "{shown}");
    let dry = setup(&CliRig::empty(), &dns, &["--dry-run", "--calls"]).fine();
    assert!(dry.contains("data/turnserver.conf (would be written)"), "{dry}");
}
