//! A client over a socket, with the crate that the examples use.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rookery_client::{ClientSession, EarlierSession, SessionTerms};
use rookery_sasl::client::SaltedPasswords;
use rookery_stream::tls::client::ClientSettings;
use rookery_xml::Element;

use super::rig::CliRig;

/// A person who has logged in.
pub struct Person {
    pub socket: TcpStream,
    pub session: ClientSession,
    heard: Vec<Element>,
}

impl Person {
    /// Logs in with STARTTLS, and becomes available. `said`: the server's words at its start.
    pub fn log_in(said: &str, certificate: &[u8], name: &str) -> Self {
        let mut person = Self::bind(said, certificate, name, None);
        let jid = person.session.jid().map(ToString::to_string);
        assert_eq!(jid, Some(format!("{name}@localhost/test")));
        person.say("<presence/>");
        person
    }

    /// Logs in and binds a resource, or continues an earlier session.
    pub fn bind(said: &str, certificate: &[u8], name: &str, earlier: Option<EarlierSession>) -> Self {
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
        let mut session = ClientSession::without_header(&Arc::new(terms), name.to_owned());
        earlier.into_iter().for_each(|earlier| session.go_on_with(earlier));
        session.open(&mut out);
        socket.write_all(&out).expect("written");
        let mut person = Self { socket, session, heard: Vec::new() };
        while !person.session.is_bound() {
            person.read();
        }
        person
    }

    pub fn say(&mut self, text: &str) {
        let mut out = Vec::new();
        self.session.write(text.as_bytes(), &mut out).expect("a stream");
        self.socket.write_all(&out).expect("written");
    }

    /// Returns the next stanza of this kind; others are dropped.
    pub fn hear(&mut self, is_it: impl Fn(&Element) -> bool) -> Element {
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

    /// Returns why the server has ended a stream, with the stream error if there is one.
    pub fn last_words(mut self) -> String {
        let (mut buffer, mut last) = ([0; 4096], None);
        loop {
            let len = self.socket.read(&mut buffer).expect("an end, and no reset");
            if len == 0 {
                return last.unwrap_or_default();
            }
            // Only the ends of the stream and of TLS follow the error.
            let read = self.session.read(&mut buffer[..len], &mut Vec::new(), &mut |_| {});
            last = last.or(read.err().map(|error| error.to_string()));
        }
    }
}

/// Connects to a port from the server's output.
pub fn connect(said: &str, kind: &str) -> TcpStream {
    let words = said.split_whitespace();
    let (address, _) = words.clone().zip(words.skip(1)).find(|(_, next)| next.starts_with(kind)).expect("a port");
    let socket = TcpStream::connect(address).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a patience");
    socket
}

/// Returns the self-signed certificate of a server.
pub fn certificate(rig: &CliRig) -> Vec<u8> {
    fs::read(rig.path("rookery-data/certs/self-signed.pem")).expect("a certificate")
}

/// Creates an account.
pub fn add(rig: &CliRig, name: &str) {
    rig.run_with(&["user", "add", &format!("{name}@localhost"), "--password-stdin", "--allow-short"], PASSWORD).fine();
}

/// The password of all accounts.
pub const PASSWORD: &str = "a password of twenty";
