//! The examples in Rust, over sockets: they work as readers copy them.

use std::thread;
use std::time::{Duration, Instant};

use rookery_client::words;
use rookery_jid::Jid;
use rookery_xml::{Element, ns};

use super::person::{PASSWORD, Person, add, certificate, connect};
use super::rig::{CliRig, FREE_PORTS};

#[allow(dead_code, reason = "its `main` reads the environment")]
#[path = "../../../examples/bot.rs"]
mod bot;
#[allow(dead_code, reason = "its `main` reads the environment")]
#[path = "../../../examples/component.rs"]
mod component;

#[test]
fn the_bot_answers_and_speaks_in_a_room() {
    let rig = CliRig::fresh();
    let (_server, said) = rig.serve();
    let certificate = certificate(&rig);
    add(&rig, "alice");
    add(&rig, "clock");
    let rooms = vec![ROOM.to_owned()];
    let account = Jid::parse("clock@localhost").expect("an address");
    let (bot, first) = bot::Bot::start(&account, PASSWORD.to_owned(), &certificate, rooms).expect("a bot");
    let socket = connect(&said, "(STARTTLS");
    // It ends with the server.
    thread::spawn(move || bot::run(socket, bot, first).map_err(|error| error.to_string()));

    let mut alice = Person::log_in(&said, &certificate, "alice");
    alice.say(&words::message("clock@localhost", "chat", "what time is it?"));
    let answer = alice.hear(|stanza| stanza.name() == "message" && is_from(stanza, "clock@localhost"));
    assert!(answer.child_text("body", ns::CLIENT).expect("a body").ends_with(" UTC"), "{answer:?}");

    // The bot may still be about to open its room.
    let start = Instant::now();
    loop {
        alice.say(&format!("<presence to='{ROOM}/alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        let own =
            alice.hear(|stanza| stanza.name() == "presence" && stanza.attr("from") == Some(&format!("{ROOM}/alice")));
        if own.attr("type") != Some("error") {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{own:?}");
        thread::sleep(PAUSE);
    }
    alice.say(&words::message(ROOM, "groupchat", "clock, what time is it?"));
    let answer = alice.hear(|stanza| {
        let body = stanza.child_text("body", ns::CLIENT);
        stanza.attr("from") == Some(&format!("{ROOM}/clock")) && body.is_some_and(|body| body.starts_with("alice: "))
    });
    assert_eq!(answer.attr("type"), Some("groupchat"));
}

#[test]
fn the_component_rolls_dice() {
    let rig = CliRig::empty();
    let listen = FREE_PORTS.replace("[listen]\n", "[listen]\ncomponents = [\"127.0.0.1:0\"]\n");
    rig.write("rookery.toml", &(listen + "[component.\"dice.localhost\"]\nsecret = \"of the dice\"\n"));
    let (_server, said) = rig.serve();
    add(&rig, "alice");
    let socket = connect(&said, "(components");
    // It ends with the server.
    thread::spawn(move || component::run(socket, "dice.localhost", "of the dice").map_err(|error| error.to_string()));

    let mut alice = Person::log_in(&said, &certificate(&rig), "alice");
    // Stanzas for the component bounce until it is connected.
    let start = Instant::now();
    loop {
        alice.say(&words::message("6@dice.localhost", "chat", "roll"));
        let answer = alice.hear(|stanza| is_from(stanza, "6@dice.localhost"));
        if answer.attr("type") != Some("error") {
            let eyes = answer.child_text("body", ns::CLIENT).and_then(|body| body.parse::<u64>().ok());
            assert!(eyes.is_some_and(|eyes| (1..=6).contains(&eyes)), "{answer:?}");
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{answer:?}");
        thread::sleep(PAUSE);
    }
    alice.say(&words::message("none@dice.localhost", "chat", "roll"));
    let answer = alice.hear(|stanza| is_from(stanza, "none@dice.localhost"));
    let error = answer.child("error", ns::CLIENT).expect("an error");
    assert!(error.child("item-not-found", ns::STANZA_ERRORS).is_some(), "{answer:?}");
}

fn is_from(stanza: &Element, account: &str) -> bool {
    stanza.attr("from").is_some_and(|from| from.split('/').next() == Some(account))
}

const ROOM: &str = "garden@conference.localhost";
/// The longest wait for an example to be ready, and the pause between two tries.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);
