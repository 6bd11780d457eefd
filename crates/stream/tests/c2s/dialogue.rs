//! Plays the transcript of a dialogue between a client and the machine, cut into pieces in many
//! ways.
//!
//! A transcript is a list of lines:
//!
//! - `C: …` is sent by the client; `{open}` stands for a plain stream header to `example.org`.
//! - `S: …` must have been sent by the server since the last such line, to the byte. Several in a
//!   row are one. `{opened N}` stands for the server's header with stream id N, `{error NAME}` for
//!   that stream error without text and the end of the stream.
//! - `E: …` is the next event, as `Debug` shows it except for the quotes.
//! - `A: …` is the owner's answer; see [`DialoguePlayer::answer`].
//!
//! At the end, every event and all output must have been mentioned.

use std::sync::Arc;

use rookery_jid::Jid;
use rookery_sasl::server::Decoy;
use rookery_sasl::{ChannelBindings, Credentials, Mechanism, TokenKey, TokenMechanism};
use rookery_stream::c2s::{C2s, C2sEvent, Facts, FastSlot, Host, Issued, LoginKind, Policy, StoredToken};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::Limits;

pub const OPEN: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
                        xmlns:stream='http://etherx.jabber.org/streams' to='example.org' version='1.0'>";

/// Features before login under TLS without channel bindings.
pub const LOGIN_FEATURES: &str = "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
     <mechanism>SCRAM-SHA-512</mechanism><mechanism>SCRAM-SHA-256</mechanism><mechanism>SCRAM-SHA-1</mechanism>\
     <mechanism>PLAIN</mechanism></mechanisms>\
     <register xmlns='http://jabber.org/features/iq-register'/>\
     <limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>10000</max-bytes><idle-seconds>60</idle-seconds></limits>\
     </stream:features>";

/// Features before TLS where it is required.
pub const TLS_FEATURES: &str = "<stream:features>\
     <starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>\
     <limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>10000</max-bytes><idle-seconds>60</idle-seconds></limits>\
     </stream:features>";

/// Features after login.
pub const BIND_FEATURES: &str = "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>\
     <session xmlns='urn:ietf:params:xml:ns:xmpp-session'><optional/></session>\
     <ver xmlns='urn:xmpp:features:rosterver'/><sub xmlns='urn:xmpp:features:pre-approval'/>\
     <c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='n' ver='v'/>\
     <limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>262144</max-bytes><idle-seconds>1800</idle-seconds></limits>\
     </stream:features>";

/// Returns a policy with two hosts, all mechanisms, registration at the first.
pub fn policy() -> Policy {
    Policy {
        hosts: vec![
            Host {
                name: "example.org".to_owned(),
                registration: true,
                login: LoginKind::default(),
                sasl2: None,
                before_login_features: b"<register xmlns='http://jabber.org/features/iq-register'/>".to_vec(),
                after_login_features: b"<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='n' ver='v'/>"
                    .to_vec(),
            },
            Host { name: "example.net".to_owned(), ..Host::default() },
        ],
        limits_before: Limits::BEFORE_LOGIN,
        limits_after: Limits::AFTER_LOGIN,
        idle_before: Some(60),
        idle_after: Some(1800),
        mechanisms: Mechanism::ALL.to_vec(),
        plain_without_tls: false,
        decoy: Decoy::new([7; 32], ITERATIONS),
        max_auth_failures: 5,
    }
}

/// Returns a connection under TLS, without channel bindings.
pub fn secure() -> Facts {
    Facts { secure: true, ..Facts::default() }
}

/// Returns a connection that has to start TLS first.
pub fn in_the_clear() -> Facts {
    Facts { tls_available: true, ..Facts::default() }
}

/// Returns the channel bindings of a connection under TLS.
pub fn bindings() -> ChannelBindings {
    ChannelBindings { exporter: Some([5; 32]), server_end_point: Some(vec![6; 32]) }
}

/// Returns the only account.
pub fn juliet() -> Credentials {
    Credentials::derive("pencil", ITERATIONS).unwrap()
}

/// Few, for speed.
pub const ITERATIONS: u32 = 3;

/// Returns a machine whose streams have the ids 1, 2, 3…
pub fn machine(policy: Policy, facts: Facts) -> C2s {
    let mut last = 0;
    let ids = move || {
        last += 1;
        last
    };
    C2s::new(Arc::new(policy), facts, Box::new(ids))
}

/// Plays a transcript in one piece per line, byte by byte, and with every line cut in two at every
/// place.
pub fn play(policy: impl Fn() -> Policy, facts: Facts, transcript: &str) {
    play_in(policy(), facts.clone(), transcript, |line| vec![line]);
    play_in(policy(), facts.clone(), transcript, |line| line.chunks(1).collect());
    let longest = transcript.lines().map(|line| expand(line).len()).max().unwrap_or(0);
    for at in 1..longest {
        play_in(policy(), facts.clone(), transcript, |line| {
            let (head, tail) = line.split_at(at.min(line.len()));
            vec![head, tail]
        });
    }
}

/// Plays a transcript once, each client line cut into pieces by `cut`.
pub fn play_in(policy: Policy, facts: Facts, transcript: &str, cut: impl Fn(&[u8]) -> Vec<&[u8]>) {
    let mut player = DialoguePlayer::new(machine(policy, facts));
    let mut expected = String::new();
    for line in transcript.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (who, text) = line.split_once(": ").unwrap_or_else(|| panic!("no speaker: {line}"));
        let text = expand(text);
        if who != "S" && !expected.is_empty() {
            assert_eq!(player.take_sent(), expected, "before {line}");
            expected.clear();
        }
        match who {
            "C" => {
                for piece in cut(text.as_bytes()) {
                    player.receive(piece);
                }
            }
            "S" => expected.push_str(&text),
            "E" => assert_eq!(player.event().map(show), Some(without_quotes(&text)), "{line}"),
            "A" => player.answer(&text),
            _ => panic!("unknown speaker: {line}"),
        }
    }
    assert_eq!(player.take_sent(), expected, "at the end");
    assert_eq!(player.event(), None, "at the end");
}

/// A machine with the input that it hasn't consumed, and its output.
pub struct DialoguePlayer {
    pub machine: C2s,
    input: Vec<u8>,
    output: Vec<u8>,
    events: std::collections::VecDeque<C2sEvent>,
}

impl DialoguePlayer {
    pub fn new(machine: C2s) -> Self {
        Self { machine, input: Vec::new(), output: Vec::new(), events: std::collections::VecDeque::new() }
    }

    /// Feeds bytes; events queue up.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            let read = self.machine.read(&self.input, &mut self.output);
            self.input.drain(..read.consumed);
            match read.event {
                Some(event) => self.events.push_back(event),
                None => break,
            }
        }
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<C2sEvent> {
        self.events.pop_front()
    }

    /// Returns the output since the last call.
    pub fn take_sent(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.output)).unwrap()
    }

    /// Returns the bytes that the machine left.
    pub fn rest(&self) -> &[u8] {
        &self.input
    }

    /// Answers the machine's question, then continues with the input: `account`, `no account`,
    /// `right`, `wrong`, `store failed`, `tls`, `bound JID`, `refused CONDITION`, `tokens`,
    /// `token`, `token TEXT`, `inline JID`, `resumed N`, `unknown`, `unknown N`, `reply XML`; or
    /// ends it: `timeout`.
    pub fn answer(&mut self, answer: &str) {
        let out = &mut self.output;
        match answer.split_once(' ').unwrap_or((answer, "")) {
            ("account", _) => self.machine.credentials(Some(&juliet()), out),
            ("no", _) => self.machine.credentials(None, out),
            ("right", _) => self.machine.verified(true, out),
            ("wrong", _) => self.machine.verified(false, out),
            ("store", _) => self.machine.store_failed(out),
            ("tls", _) => self.machine.tls_started(secure()),
            ("bound", jid) => self.machine.bound(Ok(Jid::parse(jid).unwrap()), out),
            ("refused", "conflict") => self.machine.bound(Err(Condition::Conflict.into()), out),
            ("refused", _) => {
                let error = StanzaError::new(Condition::ResourceConstraint).with_text("too many");
                self.machine.bound(Err(error), out);
            }
            ("tokens", _) => {
                let key = TokenKey::of("token");
                let (slot, mechanism) = (FastSlot::New, TokenMechanism::Unbound);
                let token = StoredToken { slot, mechanism, key, issued: 100, expires: 200 };
                self.machine.tokens(&[token], 150, out);
            }
            ("token", "") => self.machine.token(None),
            ("token", token) => {
                let issued = Issued { token: token.to_owned(), expiry: "2026-01-01T00:00:00Z".to_owned() };
                self.machine.token(Some(&issued));
            }
            ("inline", jid) => {
                let mut enabled = rookery_xml::Writer::with_ns("enabled", "urn:xmpp:sm:3");
                enabled.attr("id", "i");
                let results = match self.machine.inline_features() {
                    Some(features) if features.enable.is_some() => vec![enabled.finish()],
                    _ => Vec::new(),
                };
                let bound = match Jid::parse(jid) {
                    Ok(jid) => Ok((jid, results.as_slice())),
                    Err(_) => Err(Condition::ResourceConstraint.into()),
                };
                self.machine.bound_inline(bound, out);
            }
            ("resumed", handled) => {
                let jid = Jid::parse("juliet@example.org/balcony").unwrap();
                self.machine.resumed(jid, handled.parse().unwrap(), out);
            }
            ("unknown", "") => self.machine.not_resumed(&Condition::ItemNotFound, None, out),
            ("unknown", handled) => {
                self.machine.not_resumed(&Condition::ItemNotFound, handled.parse().ok(), out);
            }
            ("reply", xml) => self.machine.reply_before_login(xml.as_bytes(), out),
            ("timeout", _) => self.machine.timed_out(out),
            _ => panic!("unknown answer: {answer}"),
        }
        self.receive(b"");
    }
}

fn show(event: C2sEvent) -> String {
    without_quotes(&format!("{event:?}"))
}

/// Removes the quotes of strings, which transcripts leave out.
fn without_quotes(text: &str) -> String {
    text.replace('"', "")
}

fn expand(text: &str) -> String {
    let mut text = text
        .replace("{open}", OPEN)
        .replace("{login features}", LOGIN_FEATURES)
        .replace("{tls features}", TLS_FEATURES)
        .replace("{bind features}", BIND_FEATURES)
        .replace("{nl}", "\n");
    while let Some((before, name, after)) = placeholder(&text, "{opened ") {
        text = format!("{before}{}{after}", server_header(name.parse().unwrap(), "example.org"));
    }
    while let Some((before, name, after)) = placeholder(&text, "{error ") {
        let (name, note) = name.split_once(' ').unwrap_or((name, ""));
        let note = match note {
            "" => String::new(),
            note => format!("<text xmlns='urn:ietf:params:xml:ns:xmpp-streams' xml:lang='en'>{note}</text>"),
        };
        text = format!(
            "{before}<stream:error><{name} xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>{note}</stream:error>\
             </stream:stream>{after}"
        );
    }
    text
}

fn placeholder<'a>(text: &'a str, start: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let (before, rest) = text.split_once(start)?;
    let (inner, after) = rest.split_once('}')?;
    Some((before, inner, after))
}

/// Returns the server's header of a stream.
pub fn server_header(id: u32, host: &str) -> String {
    format!(
        "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' \
         id='{id:032x}' from='{host}' xml:lang='en' version='1.0'>"
    )
}
