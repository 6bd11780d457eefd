//! Tests of the programs and of their failures. The test that each server starts,
//! relays and stops is one of the binary (`server/tests/peers.rs`), which is one of them.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct PeerLine {
    #[command(flatten)]
    peers: Peers,
}

#[test]
fn only_what_was_asked_for_is_planned() {
    let plan = |words: &[&str]| {
        let args = PeerLine::try_parse_from([&["peers"], words].concat()).unwrap().peers;
        plan(&args).into_iter().map(|(load, peer)| (load.name, peer)).collect::<Vec<_>>()
    };
    assert_eq!(
        plan(&["--only", "rookery,raw", "--scenarios", "idle,chat-8"]),
        [("chat-8", PeerServer::Rookery), ("chat-8", PeerServer::Raw), ("idle", PeerServer::Rookery)]
    );
    assert_eq!(
        plan(&["--only", "raw,rookery-io-uring", "--scenarios", "chat-8"]),
        [("chat-8", PeerServer::Raw), ("chat-8", PeerServer::RookeryIoUring)]
    );
    let unless_named = plan(&["--scenarios", "chat-8"]);
    assert!(unless_named.iter().all(|(_, peer)| *peer != PeerServer::RookeryIoUring), "{unless_named:?}");
    assert!(PeerLine::try_parse_from(["peers", "--scenarios", "chess"]).is_err());
    assert!(PeerLine::try_parse_from(["peers", "--only", "chess"]).is_err());
}

#[test]
fn a_server_that_does_not_come_up_costs_its_own_runs_only() {
    let load = &program::loads(true, None)[0];
    let result = load.nothing("it ended while it started");
    assert!(!result.is_done());
    assert!(summary_of(&result).starts_with("FAILED: it ended"));
}
