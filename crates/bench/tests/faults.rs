//! Runs the engine against faulty servers: their faults are found, and none of them hangs or
//! crashes a run.

mod fake;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Parser;
use fake::{Fake, FakeFault};
use rookery_bench::result::{DONE, RunResult};
use rookery_bench::scenario::ScenarioCommand;

#[derive(Parser)]
struct FaultLine {
    #[command(subcommand)]
    command: ScenarioCommand,
}

/// Runs a load; fails if it doesn't return soon.
fn run(address: impl ToString, line: &str) -> RunResult {
    let words = format!("run {line} --login-timeout 1 --host {}", address.to_string());
    let began = Instant::now();
    let result = FaultLine::parse_from(words.split_whitespace()).command.run();
    assert!(began.elapsed() < Duration::from_secs(25), "took {:?}: {}", began.elapsed(), result.ended);
    result
}

fn messages(fault: FakeFault) -> (RunResult, u64) {
    let fake = Fake::start(fault);
    let line = "max-messages --users 8 --partners 1 --rate 400 --seconds 1 --warm-up 0.1";
    let result = run(fake.address, line);
    (result, fake.faults_planted())
}

/// Returns the numbers of lost, duplicated and reordered stanzas.
fn faults(result: &RunResult) -> (u64, u64, u64) {
    (result.lost, result.duplicated, result.reordered)
}

#[test]
fn a_good_server_gets_a_good_result() {
    let (result, _) = messages(FakeFault::None);
    assert_eq!((result.ended.as_str(), faults(&result)), (DONE, (0, 0, 0)));
    assert_eq!((result.sent, result.delivered, result.expected), (440, 440, 440));
    assert_eq!((result.sessions, result.version.as_deref()), (8, Some("Fake")));
    assert!(result.latency.is_some() && result.throughput > Some(0.0) && !result.series.is_empty());
}

#[test]
fn what_a_server_loses_is_found() {
    let (result, planted) = messages(FakeFault::Lose(10));
    assert_eq!((planted, faults(&result)), (44, (44, 0, 0)));
    assert_eq!((result.expected, result.delivered), (440, 396));
}

#[test]
fn what_a_server_doubles_is_found() {
    let (result, planted) = messages(FakeFault::Double(10));
    assert_eq!((planted, faults(&result)), (44, (0, 44, 0)));
    assert_eq!(result.delivered, 440);
}

#[test]
fn what_a_server_sends_out_of_order_is_found() {
    let (result, planted) = messages(FakeFault::Reorder(10));
    assert!(planted > 0);
    assert_eq!(faults(&result), (0, 0, planted));
}

#[test]
fn what_a_server_invents_does_not_count_as_delivered() {
    let (result, planted) = messages(FakeFault::Invent(100));
    assert_eq!((planted, result.delivered, result.lost), (4, 440, 0));
    assert!(result.notes.iter().any(|note| note.contains("nobody has sent")), "{:?}", result.notes);
}

#[test]
fn refusals_of_messages_are_counted() {
    let (result, planted) = messages(FakeFault::Bounce(20));
    assert_eq!((result.errors, result.lost), (planted, planted));
}

#[test]
fn a_closed_loop_survives_loss() {
    let fake = Fake::start(FakeFault::Lose(100));
    let result = run(fake.address, "chat --pairs 4 --window 4 --seconds 0.5 --warm-up 0");
    assert!(fake.faults_planted() > 0);
    assert_eq!(faults(&result), (fake.faults_planted(), 0, 0));
}

#[test]
fn sessions_that_end_are_reported_with_what_was_reached() {
    for (fault, reason) in
        [(FakeFault::Close(100), "closed the connection"), (FakeFault::Babble(100), "not well-formed")]
    {
        let (result, _) = messages(fault);
        assert!(result.ended.contains("ended by the server") && result.ended.contains(reason), "{}", result.ended);
        assert!(result.delivered >= 90 && result.lost > 0, "{result:?}");
    }
}

#[test]
fn servers_that_let_nobody_in_end_the_run() {
    let cases = [
        (FakeFault::Silent, "no login within 1 s"),
        (FakeFault::Hangs, "the server closed the connection"),
        (FakeFault::Garbage, "not well-formed"),
        (FakeFault::NotAuthorized, "rookery bench register --host 127.0.0.1:"),
    ];
    for (fault, wanted) in cases {
        for scenario in [
            "chat --pairs 3",
            "max-users --users 6 --arrival-rate 100 --roster 0 --seconds 0",
            "presence-storm --users 6",
        ] {
            let result = run(Fake::start(fault).address, scenario);
            assert!(result.ended.contains(wanted), "{fault:?}: {}", result.ended);
            assert!(result.login.is_some_and(|login| login.failed == 6 && login.count == 0));
        }
    }
}

#[test]
fn one_in_hundreds_who_is_forgotten_comes_again() {
    let result = run(Fake::start(FakeFault::Forgets).address, "chat --pairs 400 --seconds 0.3 --warm-up 0");
    assert_eq!(result.ended, DONE);
    assert!(result.login.is_some_and(|login| (login.count, login.failed) == (800, 0)));
    let told =
        "1 of 800 logins failed and were tried again: no login within 1 s: the server owes the header of the stream";
    assert!(result.notes.iter().any(|note| note == told), "{:?}", result.notes);
}

#[test]
fn nobody_there_ends_the_run() {
    // The system never assigns port 1.
    let result = run(SocketAddr::from(([127, 0, 0, 1], 1)), "chat --pairs 100");
    assert!(result.ended.contains("refuses connections"), "{}", result.ended);
    let result = run("no-such-host.invalid", "chat");
    assert!(result.ended.contains("no-such-host.invalid"), "{}", result.ended);
}

#[test]
fn a_process_that_cannot_be_read_costs_only_its_figures() {
    let fake = Fake::start(FakeFault::None);
    let result = run(fake.address, "chat --pairs 1 --seconds 0.2 --warm-up 0 --server-pid 4294967294");
    assert_eq!((result.ended.as_str(), result.server_cpu.is_none(), result.memory.is_none()), (DONE, true, true));
    assert!(result.notes.iter().any(|note| note.contains("can't be read")), "{:?}", result.notes);
}

#[test]
fn everyone_comes_back() {
    let fake = Fake::start(FakeFault::None);
    let result = run(fake.address, "reconnect-storm --users 20 --waves 2 --away 0");
    assert_eq!((result.ended.as_str(), result.sessions, result.parts.len()), (DONE, 20, 2));
    assert!(result.parts.iter().all(|part| part.delivered == 20));
}

#[test]
fn a_login_may_last_until_one_sees_oneself() {
    let fake = Fake::start(FakeFault::None);
    let result = run(fake.address, "reconnect-storm --users 20 --waves 2 --away 0 --until-seen --at-once 3");
    assert_eq!((result.ended.as_str(), result.sessions, result.parts.len()), (DONE, 20, 2));
    // The latencies of a wave have one entry for each login.
    assert!(result.parts.iter().all(|part| {
        part.latency.as_ref().is_some_and(|latency| latency.histogram.iter().map(|(_, count)| count).sum::<u64>() == 20)
    }));
}

#[test]
fn a_server_without_rooms_or_multicast_or_subscriptions_ends_the_run() {
    let fake = Fake::start(FakeFault::None);
    let result = run(fake.address, "multicast --to 2 --ways bcc --patience 0.5");
    assert!(result.ended.contains("not every copy came"), "{}", result.ended);
    assert_eq!((result.parts.len(), result.lost), (1, 1));
}
