//! `acnetd` in `[dpm]`: the server uses the network as tasks of an acnetd, which this test plays.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::rig::{CliRig, FREE_PORTS};

#[test]
fn a_server_beside_an_acnetd_asks_front_ends_as_its_task() {
    let (socket, stop) = (UdpSocket::bind("127.0.0.1:0").expect("a port"), Arc::new(AtomicBool::new(false)));
    let acnetd = socket.local_addr().expect("an address");
    let rig = CliRig::new();
    rig.write("devices.toml", &rig.run(&["dpm", "database", "example"]).fine());
    rig.write("rookery.toml", &format!("{FREE_PORTS}{}acnetd = \"{acnetd}\"\n", beside("devices.toml")));
    let daemon = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || play_acnetd(&socket, &stop))
    };
    let (server, said) = rig.serve();
    let words = said.split([' ', '\n']).collect::<Vec<_>>();
    let place = words.iter().position(|word| word.starts_with("(DPM)")).expect("it says where it serves them");
    // Nobody answers behind this acnetd.
    let read = rig.run(&["dpm", "get", "M:OUTTMP", "--from", words[place - 1]]);
    assert!(read.out.contains("[1 -49]"), "{}", read.all());
    assert_eq!(server.stop(), 0);
    stop.store(true, Ordering::Relaxed);
    let commands = daemon.join().expect("no panic");
    assert_eq!(commands.iter().filter(|code| **code == CONNECT).count(), TASKS, "{commands:?}");
    assert!(commands.contains(&REQUEST), "no front-end was asked: {commands:?}");
}

#[test]
fn a_missing_acnetd_is_named_with_its_key() {
    let nobody = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let rig = CliRig::new();
    rig.write("devices.toml", &rig.run(&["dpm", "database", "example"]).fine());
    rig.write("rookery.toml", &format!("{FREE_PORTS}{}acnetd = \"{nobody}\"\n", beside("devices.toml")));
    rig.run(&[]).expect_failure(1, &format!("`acnetd` in [dpm], {nobody}: "));
}

fn beside(database: &str) -> String {
    format!("[dpm]\nenabled = true\ndatabase = \"{database}\"\nlisten = \"127.0.0.1:0\"\nanswer_within_ms = 500\n")
}

/// Acknowledges commands as an acnetd does, and returns their codes.
fn play_acnetd(socket: &UdpSocket, stop: &AtomicBool) -> Vec<u16> {
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time limit");
    let (mut buffer, mut commands) = ([0; 65_536], Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let Ok((_, from)) = socket.recv_from(&mut buffer) else { continue };
        let code = u16::from_be_bytes([buffer[0], buffer[1]]);
        commands.push(code);
        let acknowledge = |code: u16, rest: &[u8]| [&code.to_be_bytes()[..], &[0, 0], rest].concat();
        let answer = match code {
            CONNECT => acknowledge(1, &[&[7], &buffer[2..6]].concat()),
            NAME_OF_NODE => acknowledge(5, &buffer[2..6]),
            LOCAL_NODE => acknowledge(4, &NODE.to_be_bytes()),
            REQUEST => acknowledge(2, &[0xa0, 1]),
            _ => acknowledge(0, &[]),
        };
        let _ = socket.send_to(&answer, from);
    }
    commands
}

/// Codes of acnetd's commands.
const CONNECT: u16 = 1;
const NAME_OF_NODE: u16 = 12;
const LOCAL_NODE: u16 = 13;
const REQUEST: u16 = 18;
/// The tasks of a DPM: DPMD, SCALE and SYNC.
const TASKS: usize = 3;
const NODE: u16 = 0x0a06;
