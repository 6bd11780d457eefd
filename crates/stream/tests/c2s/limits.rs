//! The most that a peer that hasn't logged in can cost: RFC 6120 §13.12, XEP-0478.

use rookery_stream::c2s::C2sEvent;

use crate::dialogue::{DialoguePlayer, OPEN, machine, policy, secure};

/// Feeds a fresh stream and returns the stream error and the event that it ends with.
fn ending(input: &str) -> (String, Option<C2sEvent>) {
    let mut player = DialoguePlayer::new(machine(policy(), secure()));
    player.receive(input.as_bytes());
    let sent = player.take_sent();
    let error = sent.split_once("<stream:error>").map(|(_, error)| error.to_owned()).unwrap_or_default();
    (error, player.event())
}

#[test]
fn an_element_above_the_limit_is_refused_before_it_ends() {
    let padding = "x".repeat(10_000);
    for input in [format!("{OPEN}<auth xmlns='{padding}"), format!("{OPEN}<message><body>{padding}")] {
        let (error, event) = ending(&input);
        assert!(error.starts_with("<policy-violation "), "{error}");
        assert_eq!(event, Some(C2sEvent::End));
    }
}

#[test]
fn an_element_within_the_limit_is_not() {
    let padding = "x".repeat(9_900);
    let (error, _) = ending(&format!("{OPEN}<message><body>{padding}</body></message>"));
    assert!(error.starts_with("<not-authorized "), "{error}");
}

#[test]
fn a_header_above_the_limit_is_refused_before_it_ends() {
    let padding = "x".repeat(10_000);
    let mut player = DialoguePlayer::new(machine(policy(), secure()));
    player.receive(b"<stream:stream to='");
    for piece in padding.as_bytes().chunks(100) {
        player.receive(piece);
    }
    assert!(player.take_sent().contains("<stream:error><policy-violation "));
    assert_eq!(player.event(), Some(C2sEvent::End));
}

#[test]
fn a_long_header_in_drops_is_understood() {
    let padding = "x".repeat(9_000);
    let mut player = DialoguePlayer::new(machine(policy(), secure()));
    let header = OPEN.replace("version='1.0'>", &format!("version='1.0' padding='{padding}>'>"));
    for byte in header.as_bytes() {
        player.receive(&[*byte]);
    }
    assert!(player.take_sent().ends_with("</stream:features>"));
}

#[test]
fn depth_is_limited() {
    let (error, event) = ending(&format!("{OPEN}{}", "<a>".repeat(40)));
    assert!(error.starts_with("<policy-violation "), "{error}");
    assert_eq!(event, Some(C2sEvent::End));
}

#[test]
fn whitespace_is_thrown_away() {
    let mut player = DialoguePlayer::new(machine(policy(), secure()));
    player.receive(OPEN.as_bytes());
    player.receive(" \n".repeat(10_000).as_bytes());
    assert_eq!(player.rest(), b"");
    assert_eq!(player.event(), None);
}

#[test]
fn input_after_the_end_is_thrown_away() {
    let mut player = DialoguePlayer::new(machine(policy(), secure()));
    player.receive(b"<a/>");
    player.take_sent();
    assert_eq!(player.event(), Some(C2sEvent::End));
    player.receive(OPEN.as_bytes());
    assert_eq!(player.event(), None);
    assert_eq!((player.take_sent().as_str(), player.rest()), ("", &b""[..]));
}

/// The machine is boxed per connection and may be made on one thread and used on another.
#[test]
fn a_machine_is_small_and_may_move() {
    fn moves<T: Send>(_: &T) {}
    let machine = machine(policy(), secure());
    moves(&machine);
    assert!(size_of_val(&machine) <= 2_048, "{} bytes", size_of_val(&machine));
}
