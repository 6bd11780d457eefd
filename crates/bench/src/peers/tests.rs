//! Each server comes up with its accounts, takes logins, relays, and is gone afterwards. Servers that aren't installed are skipped, and so is
//! our own where `ROOKERY_BIN` doesn't name its executable: a test is none.

use std::env;

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    peers: Peers,
}

fn relays(peer: Peer) {
    if let Some(missing) = peer.missing() {
        eprintln!("skipped: {missing}");
        return;
    }
    let population = Population { accounts: 4, friends: 3 };
    let server = started::start(peer, population).unwrap();
    let (pid, address) = (server.pid(), server.address);
    let result = program::small().run(peer, &server).unwrap();
    assert!(result.is_done(), "{}", result.ended);
    assert!(result.delivered > 0 && result.sessions == 4);
    assert_eq!(result.lost + result.duplicated + result.reordered + result.errors, 0);
    assert!(
        result.memory.is_some_and(|memory| memory.peak > 1 << 20),
        "this is the server's process, not its starter's"
    );
    drop(server);
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn ejabberd_comes_up_relays_and_goes() {
    relays(Peer::Ejabberd);
}

#[test]
fn prosody_comes_up_relays_and_goes() {
    relays(Peer::Prosody);
}

#[test]
fn rookery_comes_up_relays_and_goes() {
    if env::var_os("ROOKERY_BIN").is_some() {
        relays(Peer::Rookery);
    }
}

#[test]
fn only_what_was_asked_for_is_planned() {
    let plan = |words: &[&str]| {
        let args = Line::try_parse_from([&["peers"], words].concat()).unwrap().peers;
        planned(&args).into_iter().map(|(load, peer)| (load.name, peer)).collect::<Vec<_>>()
    };
    assert_eq!(
        plan(&["--only", "rookery,raw", "--scenarios", "idle,chat-8"]),
        [("chat-8", Peer::Rookery), ("chat-8", Peer::Raw), ("idle", Peer::Rookery)]
    );
    assert!(Line::try_parse_from(["peers", "--scenarios", "chess"]).is_err());
    assert!(Line::try_parse_from(["peers", "--only", "chess"]).is_err());
}

#[test]
fn a_server_that_does_not_come_up_costs_its_own_runs_only() {
    let load = program::small();
    let result = load.nothing("it ended while it started");
    assert!(!result.is_done());
    assert!(told(&result).starts_with("FAILED: it ended"));
}
