//! A server whose shards wait for their connections by io_uring behaves like one by epoll, and a
//! machine without io_uring is reported.

use std::os::fd::AsFd;
use std::process::Command;

use rookery_client::{EarlierSession, SessionResumption, words};
use rookery_xml::{Element, ns};
use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::person::{Person, add, certificate};
use super::rig::{CliRig, FREE_PORTS, RigServer};

rookery_needs::needing!("shard.io_uring":
    clients_on_all_shards_get_their_messages_in_order,
    one_that_reads_slowly_gets_everything,
    a_session_continues_after_its_connection_broke,
    a_server_that_stops_tells_its_clients,
    the_interface_is_told,
);

/// A server that uses io_uring, with accounts.
struct RingServer {
    rig: CliRig,
    server: RigServer,
    said: String,
}

impl RingServer {
    fn start() -> Self {
        let rig = CliRig::empty();
        rig.write("rookery.toml", &format!("io = \"io_uring\"\nshards = 3\n{FREE_PORTS}"));
        let (server, said) = rig.serve();
        NAMES.iter().for_each(|name| add(&rig, name));
        Self { rig, server, said }
    }

    fn person(&self, name: &str) -> Person {
        Person::log_in(&self.said, &certificate(&self.rig), name)
    }
}

mod test {
    use super::*;

    pub(super) fn clients_on_all_shards_get_their_messages_in_order() {
        let running = RingServer::start();
        let mut people = NAMES.map(|name| running.person(name));
        for round in 0..3 {
            for person in &mut people {
                let to_one =
                    |name: &&str| (0..20).map(|at| message(name, &format!("{round} {at}"))).collect::<String>();
                person.say(&NAMES.iter().map(to_one).collect::<String>());
            }
            for person in &mut people {
                let mut heard = Vec::new();
                while heard.len() < 20 * NAMES.len() {
                    let message = person.hear(is_message);
                    heard.push((message.attr("from").expect("a sender").to_owned(), body(&message)));
                }
                for name in NAMES {
                    let from = format!("{name}@localhost/test");
                    let of_one: Vec<_> =
                        heard.iter().filter(|(sender, _)| *sender == from).map(|(_, body)| body).collect();
                    let expected: Vec<_> = (0..20).map(|at| format!("{round} {at}")).collect();
                    assert_eq!(of_one, expected.iter().collect::<Vec<_>>(), "from {name}");
                }
            }
        }
        assert_eq!(running.server.stop(), 0);
    }

    pub(super) fn one_that_reads_slowly_gets_everything() {
        let running = RingServer::start();
        let (mut sender, mut slow) = (running.person(NAMES[0]), running.person(NAMES[1]));
        set_socket_recv_buffer_size(slow.socket.as_fd(), 16 * 1024).expect("an option");
        // More than the sockets hold, and less than the server keeps for one that doesn't read.
        let long = "long ".repeat(4_000);
        for number in 0..40 {
            sender.say(&message(NAMES[1], &format!("{number} {long}")));
        }
        // Once this message comes back, all earlier ones have arrived at the server.
        sender.say(&message(NAMES[0], "done"));
        sender.hear(is_message);
        for number in 0..40 {
            assert_eq!(body(&slow.hear(is_message)), format!("{number} {long}"));
        }
    }

    pub(super) fn a_session_continues_after_its_connection_broke() {
        let running = RingServer::start();
        let (mut sender, mut away) = (running.person(NAMES[0]), running.person(NAMES[1]));
        away.say("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        let id = away.hear(|element| element.name() == "enabled").attr("id").expect("an id").to_owned();
        sender.say(&message(NAMES[1], "before"));
        assert_eq!(body(&away.hear(is_message)), "before");
        drop(away);
        sender.say(&(0..5).map(|at| message(NAMES[1], &format!("meanwhile {at}"))).collect::<String>());
        let earlier = EarlierSession { id, handled: 1 };
        let mut back = Person::bind(&running.said, &certificate(&running.rig), NAMES[1], Some(earlier));
        assert!(matches!(back.session.resumption(), Some(SessionResumption::GoesOn(_))));
        for at in 0..5 {
            assert_eq!(body(&back.hear(is_message)), format!("meanwhile {at}"));
        }
    }

    pub(super) fn a_server_that_stops_tells_its_clients() {
        let running = RingServer::start();
        let people = NAMES.map(|name| running.person(name));
        running.server.signal("TERM");
        for person in people {
            let last = person.last_words();
            assert!(last.contains("<system-shutdown"), "{last}");
        }
        let (code, log) = running.server.wait();
        assert_eq!(code, Some(0), "{log}");
    }

    pub(super) fn the_interface_is_told() {
        let running = RingServer::start();
        let checked = running.rig.run(&["check"]);
        assert!(checked.all().contains("by io_uring"), "{}", checked.all());
        let log = running.server.log();
        assert!(log.contains("interface=\"io_uring\""), "{log}");
    }
}

/// Runs the binary while the kernel refuses rings, as in containers.
#[test]
fn a_demand_that_the_machine_refuses_is_told_with_its_place() {
    rookery_needs::programs(&[("python3", "python3")]);
    let rig = CliRig::fresh();
    let check = |config: &str| {
        rig.write("rookery.toml", &format!("{config}{FREE_PORTS}"));
        let mut python = Command::new("python3");
        python.args(["-c", WITHOUT_RINGS, env!("CARGO_BIN_EXE_rookery"), "check", "--config"]);
        let output = python.arg(rig.path("rookery.toml")).current_dir(rig.path("")).output().expect("python3");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (code, said) = check("shards = 1\nio = \"io_uring\"\n");
    assert_eq!(code, Some(78), "{said}");
    let wanted = "rookery.toml:2: io: this system refuses io_uring, or has none: Operation not permitted";
    assert!(said.contains(wanted), "{said}");
    let (_, said) = check("io = \"auto\"\n");
    assert!(said.contains("by epoll"), "{said}");
}

fn message(to: &str, body: &str) -> String {
    words::message(&format!("{to}@localhost"), "chat", body)
}

fn is_message(stanza: &Element) -> bool {
    stanza.name() == "message"
}

fn body(message: &Element) -> String {
    message.child_text("body", ns::CLIENT).expect("a body")
}

/// Accounts with different homes.
const NAMES: [&str; 4] = ["anna", "bert", "cleo", "dora"];

/// Runs its arguments without `io_uring_setup` (425 on every architecture), which fails with EPERM.
const WITHOUT_RINGS: &str = "
import ctypes, os, struct, sys
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
program = b''.join(struct.pack('HBBI', *step) for step in steps)
class Program(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(steps), program))) == 0
os.execv(sys.argv[1], sys.argv[1:])
";
