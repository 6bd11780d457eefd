//! The examples in Rust, over sockets: what readers copy works.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rookery_client::{ClientSession, SessionTerms, words};
use rookery_jid::Jid;
use rookery_sasl::client::SaltedPasswords;
use rookery_stream::tls::client::ClientSettings;
use rookery_xml::{Element, ns};

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
    std::thread::spawn(move || bot::run(socket, bot, first).map_err(|error| error.to_string()));

    let mut alice = Person::log_in(&said, &certificate);
    alice.say(&words::message("clock@localhost", "chat", "what time is it?"));
    let answer = alice.hear(|stanza| stanza.name() == "message" && is_from(stanza, "clock@localhost"));
    assert!(answer.child_text("body", ns::CLIENT).expect("a body").ends_with(" UTC"), "{answer:?}");

    // The bot may still be about to open its room.
    for tries in 1.. {
        alice.say(&format!("<presence to='{ROOM}/alice'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        let own =
            alice.hear(|stanza| stanza.name() == "presence" && stanza.attr("from") == Some(&format!("{ROOM}/alice")));
        if own.attr("type") != Some("error") {
            break;
        }
        assert!(tries < 200, "{own:?}");
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
    std::thread::spawn(move || {
        component::run(socket, "dice.localhost", "of the dice").map_err(|error| error.to_string())
    });

    let mut alice = Person::log_in(&said, &certificate(&rig));
    // Until the component is there, what is for it comes back.
    for tries in 1.. {
        alice.say(&words::message("6@dice.localhost", "chat", "roll"));
        let answer = alice.hear(|stanza| is_from(stanza, "6@dice.localhost"));
        if answer.attr("type") != Some("error") {
            let eyes = answer.child_text("body", ns::CLIENT).and_then(|body| body.parse::<u64>().ok());
            assert!(eyes.is_some_and(|eyes| (1..=6).contains(&eyes)), "{answer:?}");
            break;
        }
        assert!(tries < 1000, "{answer:?}");
    }
    alice.say(&words::message("none@dice.localhost", "chat", "roll"));
    let answer = alice.hear(|stanza| is_from(stanza, "none@dice.localhost"));
    let error = answer.child("error", ns::CLIENT).expect("an error");
    assert!(error.child("item-not-found", ns::STANZA_ERRORS).is_some(), "{answer:?}");
}

/// A client over a socket, by the same crate as the examples.
struct Person {
    socket: TcpStream,
    session: ClientSession,
    heard: Vec<Element>,
}

impl Person {
    /// Logs in as Alice, and becomes available.
    fn log_in(said: &str, certificate: &[u8]) -> Self {
        let terms = SessionTerms {
            domain: "localhost".to_owned(),
            tls: Some(ClientSettings::trusting(certificate, &[]).expect("settings")),
            mechanism: None,
            password: PASSWORD.to_owned(),
            resource: Some("test".to_owned()),
            register: false,
            cache: SaltedPasswords::new(),
        };
        let (mut socket, mut out) = (connect(said, "(STARTTLS"), Vec::new());
        let session = ClientSession::start(&Arc::new(terms), "alice".to_owned(), false, &mut out).expect("a session");
        socket.write_all(&out).expect("written");
        let mut person = Self { socket, session, heard: Vec::new() };
        while !person.session.is_bound() {
            person.read();
        }
        assert_eq!(person.session.jid().map(Jid::as_str), Some("alice@localhost/test"));
        person.say("<presence/>");
        person
    }

    fn say(&mut self, text: &str) {
        let mut out = Vec::new();
        self.session.write(text.as_bytes(), &mut out).expect("a stream");
        self.socket.write_all(&out).expect("written");
    }

    /// Returns the next stanza of this kind; others are dropped.
    fn hear(&mut self, is_it: impl Fn(&Element) -> bool) -> Element {
        loop {
            while !self.heard.is_empty() {
                let stanza = self.heard.remove(0);
                if is_it(&stanza) {
                    return stanza;
                }
            }
            self.read();
        }
    }

    fn read(&mut self) {
        let (mut buffer, mut out) = ([0; 4096], Vec::new());
        let len = self.socket.read(&mut buffer).expect("something comes");
        assert!(len > 0, "the server closed the connection while it was to send {}", self.session.waits_for());
        let heard = &mut self.heard;
        let read = self.session.read(&mut buffer[..len], &mut out, &mut |stanza| heard.push(Element::read(&stanza)));
        read.expect("a stream");
        self.socket.write_all(&out).expect("written");
    }
}

fn is_from(stanza: &Element, account: &str) -> bool {
    stanza.attr("from").is_some_and(|from| from.split('/').next() == Some(account))
}

/// Connects to a port that the server has named.
fn connect(said: &str, kind: &str) -> TcpStream {
    let words = said.split_whitespace();
    let (address, _) = words.clone().zip(words.skip(1)).find(|(_, next)| next.starts_with(kind)).expect("a port");
    let socket = TcpStream::connect(address).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a patience");
    socket
}

fn certificate(rig: &CliRig) -> Vec<u8> {
    fs::read(rig.path("rookery-data/certs/self-signed.pem")).expect("a certificate")
}

fn add(rig: &CliRig, name: &str) {
    rig.run_with(&["user", "add", &format!("{name}@localhost"), "--password-stdin"], PASSWORD).fine();
}

const PASSWORD: &str = "a password of twenty";
const ROOM: &str = "garden@conference.localhost";
