//! `rookery check --outside`: the findings of strangers who only know the names of the domains.

use std::net::TcpListener;

use super::rig::{CliRig, FREE_PORTS, RigEnded};
use super::setup::{A, CAA, SRV, SetupDns, srv};

const HERE: &[u8] = &[127, 0, 0, 1];

/// Creates a server for a domain in DNS.
fn rig(dns: &SetupDns) -> CliRig {
    let rig = CliRig::new();
    let listen = FREE_PORTS.replace("[login]", "s2s = [\"127.0.0.1:0\"]\ns2s_tls = [\"127.0.0.1:0\"]\n[login]");
    let address = dns.address;
    rig.write(
        "rookery.toml",
        &format!(
            "domains = [\"chat.example\"]\n{listen}[federation]\nenabled = true\nallow_private_addresses = true\n\
             dns = [\"{address}\"]\n[web]\npublic_host = \"www.chat.example:1\"\n"
        ),
    );
    rig
}

/// Returns the port for a purpose from a server's output.
fn port(said: &str, purpose: &str) -> u16 {
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = line.split(&format!(" ({purpose})")).next().expect("the purpose");
    before.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{purpose} in {said}"))
}

fn lines(ended: &RigEnded) -> Vec<&str> {
    ended.out.lines().filter(|line| line.contains(" from outside ")).collect()
}

#[test]
fn strangers_find_the_server_by_its_names() {
    let dns = SetupDns::start();
    let rig = rig(&dns);
    let (_server, said) = rig.serve();
    dns.say("chat.example", A, HERE.to_vec());
    dns.say("_xmpp-client._tcp.chat.example", SRV, srv(port(&said, "STARTTLS"), "chat.example"));
    dns.say("_xmpps-client._tcp.chat.example", SRV, srv(port(&said, "direct TLS"), "chat.example"));
    dns.say("_xmpp-server._tcp.chat.example", SRV, srv(port(&said, "other servers, STARTTLS"), "chat.example"));
    let ended = rig.run(&["check", "--outside"]);
    let found = lines(&ended);
    assert_eq!(ended.code, 3, "{}", ended.all());
    for (kind, found) in ["clients of", "clients (TLS) of", "other servers of"].iter().zip(&found) {
        assert!(found.contains(kind) && found.contains("this server answers"), "{kind}: {found}");
        // There is no router in between, and only we trust the certificate.
        assert!(found.contains("a firewall in front of it can't be seen"), "{found}");
        assert!(found.contains("strangers don't trust its certificate"), "{found}");
    }
    assert!(
        found[3].contains("DNS has no address of www.chat.example, to which browsers of chat.example connect"),
        "{}",
        found[3]
    );
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn what_strangers_find_instead_is_told() {
    let dns = SetupDns::start();
    let rig = rig(&dns);
    dns.say("chat.example", A, HERE.to_vec());
    let (other, stranger) = (CliRig::new(), CliRig::new());
    other.write("rookery.toml", &format!("domains = [\"chat.example\"]\n{FREE_PORTS}"));
    let ((_other, other_said), (_stranger, stranger_said)) = (other.serve(), stranger.serve());
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let odd = TcpListener::bind("127.0.0.1:0").expect("a port");
    let odd_port = odd.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = odd.accept() {
            // The client may be gone.
            let _ = std::io::Read::read(&mut client, &mut [0; 4096]);
            let _ = std::io::Write::write_all(&mut client, b"SSH-2.0-x\r\n");
        }
    });
    let cases = [
        (port(&other_said, "STARTTLS"), "with a certificate that isn't this server's"),
        (port(&stranger_said, "STARTTLS"), "isn't the expected one: it doesn't know chat.example"),
        (closed, "nothing listens there: check that the server is running, and on this port"),
        (silent.local_addr().expect("its address").port(), "it says nothing"),
        (odd_port, "the service there isn't the expected one: it closes the connection"),
    ];
    let client = "_xmpp-client._tcp.chat.example";
    cases.iter().for_each(|(port, _)| dns.say(client, SRV, srv(*port, "chat.example")));
    let ended = rig.run(&["check", "--outside"]);
    for (port, words) in cases {
        let place = format!("clients of chat.example: chat.example:{port} (127.0.0.1)");
        let found = lines(&ended)
            .into_iter()
            .find(|line| line.contains(&place))
            .unwrap_or_else(|| panic!("{place}: {}", ended.all()));
        assert!(found.contains(words), "{found}");
    }
}

#[test]
fn another_name_server_is_asked_and_private_addresses_lead_nobody_here() {
    let (own, public) = (SetupDns::start(), SetupDns::start());
    let rig = rig(&own);
    let config = std::fs::read_to_string(rig.path("rookery.toml")).expect("the configuration");
    rig.write("rookery.toml", &config.replace("allow_private_addresses = true\n", ""));
    public.say("chat.example", A, vec![192, 168, 1, 5]);
    let address = public.address.to_string();
    let ended = rig.run(&["check", "--outside", "--name-server", &address]);
    let place = "clients of chat.example: chat.example:5222 (192.168.1.5): nobody outside this network can reach such an address";
    assert!(lines(&ended)[0].ends_with(place), "{}", ended.all());
    let ended = rig.run(&["check", "--outside"]);
    assert!(
        lines(&ended)[0].ends_with("DNS has no address of chat.example, to which clients of chat.example connect"),
        "{}",
        ended.all()
    );
    let ended = rig.run(&["check", "--outside", "--via", "other.example", "--name-server", &address]);
    assert!(ended.out.contains("other.example can't be asked: no server is running"), "{}", ended.all());
    rig.run(&["check", "--via", "other.example"]).expect_failure(2, "--outside");
    rig.run(&["check", "--live", "--outside"]).expect_failure(2, "cannot be used with");
}

#[test]
fn a_server_that_is_not_there_does_not_answer() {
    let dns = SetupDns::start();
    let rig = rig(&dns);
    let (_server, _) = rig.serve();
    dns.say("chat.example", A, HERE.to_vec());
    let ended = rig.run(&["check", "--outside", "--via", "nowhere.example"]);
    let last = lines(&ended).pop().expect("an outcome").to_owned();
    assert!(last.contains("nowhere.example hasn't answered: ") && last.starts_with("warning"), "{}", ended.all());
}

/// An authority asks the nearest name that has CAA records.
#[test]
fn an_authority_that_dns_does_not_allow_is_told() {
    let dns = SetupDns::start();
    let rig = CliRig::new();
    let config = format!(
        "domains = [\"chat.example.org\"]\n{FREE_PORTS}[federation]\ndns = [\"{}\"]\n[tls.acme]\nenabled = true\n",
        dns.address
    );
    rig.write("rookery.toml", &config);
    let says = |words: &str| {
        let said = rig.run(&["check", "--dns"]).out;
        assert!(said.contains(words), "{words:?} is not in:\n{said}");
    };
    says("ok       authority      no CAA record restricts who issues certificates for chat.example.org");
    let issue = |issuer: &str| [&[0, 5][..], b"issue", issuer.as_bytes()].concat();
    dns.say("example.org", CAA, issue("other.example"));
    says(
        "warning  authority      letsencrypt.org won't issue for chat.example.org: the CAA records allow other.example; add the \
         record `example.org. IN CAA 0 issue \"letsencrypt.org\"`",
    );
    dns.say("example.org", CAA, issue("letsencrypt.org"));
    says("the CAA records of example.org let letsencrypt.org issue for chat.example.org");
}
