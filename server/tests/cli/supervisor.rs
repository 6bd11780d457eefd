//! A server that systemd has started reports when it is ready, reads its configuration again, is
//! alive, and stops.

use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use super::rig::CliRig;

/// The socket that a supervisor listens on.
struct Supervisor(UnixDatagram);

impl Supervisor {
    fn of(rig: &CliRig) -> Supervisor {
        let socket = UnixDatagram::bind(rig.path("notify")).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a patience");
        Supervisor(socket)
    }

    fn next(&self) -> String {
        let mut buffer = [0; 1024];
        let len = self.0.recv(&mut buffer).expect("something is told");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    /// Returns the next reported state other than being alive.
    fn next_state(&self) -> String {
        loop {
            let told = self.next();
            if told != "WATCHDOG=1" {
                return told;
            }
        }
    }
}

#[test]
fn a_supervisor_is_told_what_the_server_does() {
    let rig = CliRig::fresh();
    let supervisor = Supervisor::of(&rig);
    let socket = rig.path("notify").display().to_string();
    let (server, said) = rig.serve_in(&[("NOTIFY_SOCKET", &socket)]);
    assert_eq!(supervisor.next(), "READY=1");
    let ports = said.lines().last().expect("the addresses").split_whitespace().filter(|word| word.starts_with("127."));
    let ports: Vec<&str> = ports.collect();
    assert_eq!(ports.len(), 5, "{said}");
    for address in ports {
        TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    }
    server.signal("HUP");
    let reloading = supervisor.next();
    let at = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").map(str::parse::<u64>);
    assert!(matches!(at, Some(Ok(1..))), "{reloading}");
    assert_eq!(supervisor.next(), "READY=1");
    rig.write("rookery.toml", "this is no configuration");
    server.signal("HUP");
    assert!(supervisor.next().starts_with("RELOADING=1"));
    assert_eq!(supervisor.next(), "READY=1", "the old configuration goes on");
    assert_eq!(server.stop(), 0);
    assert_eq!(supervisor.next(), "STOPPING=1");
}

#[test]
fn a_watchdog_is_fed_while_the_shards_work() {
    let rig = CliRig::fresh();
    let supervisor = Supervisor::of(&rig);
    let socket = rig.path("notify").display().to_string();
    let (server, _) = rig.serve_in(&[("NOTIFY_SOCKET", &socket), ("WATCHDOG_USEC", "300000")]);
    let mut fed = 0;
    let mut is_ready = false;
    while fed < 3 || !is_ready {
        match supervisor.next().as_str() {
            "WATCHDOG=1" => fed += 1,
            told => is_ready = told == "READY=1",
        }
    }
    assert_eq!(server.stop(), 0);
    assert_eq!(supervisor.next_state(), "STOPPING=1");
}

/// A child that inherits the environment of another server doesn't report for it.
#[test]
fn a_watchdog_of_another_process_is_not_fed() {
    let rig = CliRig::fresh();
    let supervisor = Supervisor::of(&rig);
    let socket = rig.path("notify").display().to_string();
    let (server, _) = rig.serve_in(&[("NOTIFY_SOCKET", &socket), ("WATCHDOG_USEC", "300000"), ("WATCHDOG_PID", "1")]);
    assert_eq!(server.stop(), 0);
    assert_eq!((supervisor.next(), supervisor.next()), ("READY=1".to_owned(), "STOPPING=1".to_owned()));
}

/// Systemd itself verifies the unit, if it is installed.
#[test]
fn the_unit_has_no_mistakes() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/rookery.service");
    let text = std::fs::read_to_string(unit).expect("the unit");
    let rig = CliRig::empty();
    // The unit's binary isn't installed here.
    rig.write("rookery.service", &text.replace("/usr/bin/rookery", env!("CARGO_BIN_EXE_rookery")));
    rookery_needs::programs(&[("systemd-analyze", "systemd")]);
    let looked = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(rig.path("rookery.service")).output();
    let looked = looked.expect("systemd-analyze runs");
    let words = String::from_utf8_lossy(&looked.stderr);
    // Other units of the machine don't concern this test.
    assert!(looked.status.success() && !words.contains("rookery.service"), "{words}");
}
