//! Recorded sessions, played again: the clients' messages are sent to the service, and its replies
//! are compared with the recorded ones.
//!
//! The comparison covers the kind of each message, its reference, and whether its status is good.
//! Values, times, ids and the order of replies to one burst differ between servers.

use std::collections::{HashMap, HashSet};

use rookery_dpm::acnet::packet;
use rookery_dpm::authority::{ProofAcceptor, ProofConversation, ProvenPeer, Roles, SettingAuthority};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::sdd::{SddMessage, reply::Reply};
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::status::Status;

use crate::world::{ServiceWorld, frames};

#[test]
fn sessions_over_tcp_are_answered_as_recorded() {
    for (name, recording, gate) in [
        ("read", include_str!("../vectors/recordings/dpm-tcp-read.tsv"), OpenGate::OPEN),
        ("subscribe", include_str!("../vectors/recordings/dpm-tcp-subscribe.tsv"), OpenGate::OPEN),
        ("get-many", include_str!("../vectors/recordings/dpm-tcp-get-many.tsv"), OpenGate::OPEN),
        ("write-many", include_str!("../vectors/recordings/dpm-tcp-write-many.tsv"), OpenGate::OPEN),
        (
            "denied-auth",
            include_str!("../vectors/recordings/dpm-tcp-denied-auth.tsv"),
            OpenGate { is_there: false, ..OpenGate::OPEN },
        ),
        (
            "denied-mic",
            include_str!("../vectors/recordings/dpm-tcp-denied-mic.tsv"),
            OpenGate { verifies: false, ..OpenGate::OPEN },
        ),
        (
            "denied-apply",
            include_str!("../vectors/recordings/dpm-tcp-denied-apply.tsv"),
            OpenGate { allows: false, ..OpenGate::OPEN },
        ),
    ] {
        let mut played = Tcp::new(gate);
        play(name, recording, &mut played);
    }
}

#[test]
fn a_silent_session_is_kept_alive() {
    // The recorded server sent a value at once, although the client had asked it not to.
    let recording = include_str!("../vectors/recordings/dpm-tcp-heartbeat.tsv");
    let told: Vec<&str> = recording.lines().filter(|line| !line.ends_with("\tScalar")).collect();
    play("heartbeat", &told.join("\n"), &mut Tcp::new(OpenGate::OPEN));
}

#[test]
fn a_session_with_two_connections_reads_sets_and_reads_back() {
    // The recorded server then stopped answering: see the facts of the protocol.
    let recording = include_str!("../vectors/recordings/dpm-tcp-write-kerberos.tsv");
    let told: Vec<&str> = recording.lines().take(36).collect();
    play("write-kerberos", &told.join("\n"), &mut Tcp::new(OpenGate::OPEN));
}

#[test]
fn sessions_of_acnets_clients_are_answered_as_recorded() {
    for (name, recording) in [
        ("acsys-write", include_str!("../vectors/recordings/acnetd-raw-acsys-write.tsv")),
        ("acsys-read", include_str!("../vectors/recordings/acnetd-raw-real-acsys-read.tsv")),
        ("acsys-subscribe", include_str!("../vectors/recordings/acnetd-raw-real-acsys-subscribe.tsv")),
        ("pacsys-read", include_str!("../vectors/recordings/acnetd-raw-real-pacsys-read.tsv")),
    ] {
        play(name, recording, &mut RawReplay::new());
    }
}

/// A session that is played again.
trait ReplaySession {
    /// Sends the client's bytes.
    fn send(&mut self, bytes: &[u8]);

    /// Returns the service's replies since the last burst, each message in a word.
    fn take_replies(&mut self) -> Vec<String>;

    /// Returns a recorded message of the server in the same words.
    fn word_of(&mut self, bytes: &[u8]) -> String;

    fn world(&mut self) -> &mut ServiceWorld;
}

/// Plays a session: after each of the client's bursts, the recorded replies have to arrive. Some
/// may arrive a burst earlier than recorded, but none may arrive that was not recorded.
fn play(name: &str, recording: &str, session: &mut dyn ReplaySession) {
    let rows: Vec<(bool, Vec<u8>)> = recording
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut columns = line.split('\t');
            (columns.next() == Some("client"), unhex(columns.next().expect("bytes")))
        })
        .collect();
    let (mut answered, mut known) = (Vec::new(), HashSet::new());
    for (at, (is_client, bytes)) in rows.iter().enumerate() {
        if *is_client {
            session.send(bytes);
            continue;
        }
        let expected = session.word_of(bytes);
        if expected.ends_with("refused") && known.contains(&expected) {
            // The recorded server repeated it; once is enough.
            continue;
        }
        for _ in 0..400 {
            answered.extend(session.take_replies());
            if answered.contains(&expected) {
                break;
            }
            session.world().pass(50);
        }
        let found = answered.iter().position(|answer| *answer == expected);
        answered.remove(found.unwrap_or_else(|| panic!("{name}, row {at}: no {expected}, but {answered:?}")));
        known.insert(expected);
    }
    answered.extend(session.take_replies());
    // The number of repetitions before the client had enough is a matter of chance.
    answered.retain(|answer| !known.contains(answer));
    assert!(answered.is_empty(), "{name}: {answered:?} was not answered then");
}

/// DPM over TCP. A greeting opens a connection; everything else goes to the connection of its list.
struct Tcp {
    world: ServiceWorld,
    clients: Vec<usize>,
}

impl Tcp {
    fn new(gate: OpenGate) -> Self {
        let mut world = ServiceWorld::new(DEVICES);
        let roles = if gate.allows { Roles::read(ROLES).expect("good roles") } else { Roles::default() };
        let acceptor: Option<Box<dyn ProofAcceptor>> = if gate.is_there { Some(Box::new(gate)) } else { None };
        world.dpm.set_authority(SettingAuthority { acceptor, roles, audit: None });
        Self { world, clients: Vec::new() }
    }
}

impl ReplaySession for Tcp {
    fn send(&mut self, bytes: &[u8]) {
        if bytes.starts_with(b"GET ") {
            self.clients.push(self.world.dpm.connect());
        }
        let list = bytes
            .windows(LIST.len())
            .position(|window| window == LIST)
            .map(|at| usize::from(bytes[at + LIST.len() + 1]));
        let client = list.map_or(*self.clients.last().expect("a client"), |list| self.clients[list]);
        self.world.send(client, bytes).expect("the connection stays");
    }

    fn take_replies(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        for client in self.clients.clone() {
            let bytes = self.world.bytes(client);
            words.extend(frames(&bytes).into_iter().map(|frame| word(&Reply::decode(frame).expect("a reply"))));
        }
        words
    }

    fn word_of(&mut self, bytes: &[u8]) -> String {
        word(&Reply::decode(&bytes[4..]).expect("a reply"))
    }

    fn world(&mut self) -> &mut ServiceWorld {
        &mut self.world
    }
}

/// acnetd's client protocol. Ids of requests and lists are translated from those in the recording.
struct RawReplay {
    world: ServiceWorld,
    client: usize,
    given: Vec<u16>,
    recorded: Vec<u16>,
    lists: HashMap<[u8; 2], [u8; 2]>,
}

impl RawReplay {
    fn new() -> Self {
        let options = ServiceOptions { name: Rad50::literal(b"DPM01"), address: 0x0ad1, ..ServiceOptions::default() };
        let mut world = ServiceWorld::with(DEVICES, options);
        let roles = Roles::read(ROLES).expect("good roles");
        world.dpm.set_authority(SettingAuthority { acceptor: Some(Box::new(OpenGate::OPEN)), roles, audit: None });
        let client = world.dpm.connect();
        Self { world, client, given: Vec::new(), recorded: Vec::new(), lists: HashMap::new() }
    }

    /// Returns a frame in a word, and notes the ids in it.
    fn word(frame: &[u8], ids: &mut Vec<u16>) -> String {
        match frame[1] {
            2 => {
                let code = frame[3];
                if code == 2 {
                    ids.push(u16::from_be_bytes([frame[6], frame[7]]));
                }
                // The answer to a confirmation differs between versions of acnetd.
                let is_good = frame[4..6] == [0, 0] || code == 0;
                format!("acknowledged {code} {} {is_good}", frame.len())
            }
            _ => {
                let even = [&frame[2..], &[0][..frame.len() % 2]].concat();
                let mut fixed = even.clone();
                fixed[16..18].copy_from_slice(&(even.len() as u16).to_le_bytes());
                let packet = packet::packets(&fixed).next().expect("a packet");
                let request = ids.iter().position(|id| *id == packet.header.message);
                let reply = Reply::decode(packet.body).expect("a reply");
                format!("{:?} to {request:?}: {}", packet.header.kind, word(&reply))
            }
        }
    }
}

impl ReplaySession for RawReplay {
    fn send(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        // Confirmations and cancellations name a request.
        if bytes.len() == 18 && matches!(bytes[7], 8 | 9) {
            let id = u16::from_be_bytes([bytes[16], bytes[17]]);
            let at = self.recorded.iter().position(|recorded| *recorded == id).expect("a known request");
            bytes[16..18].copy_from_slice(&self.given[at].to_be_bytes());
        }
        if let Some(at) = bytes.windows(LIST.len()).position(|window| window == LIST) {
            let place = at + LIST.len()..at + LIST.len() + 2;
            let recorded = [bytes[place.start], bytes[place.start + 1]];
            bytes[place].copy_from_slice(self.lists.get(&recorded).unwrap_or(&recorded));
        }
        self.world.send(self.client, &bytes).expect("the connection stays");
    }

    fn take_replies(&mut self) -> Vec<String> {
        let bytes = self.world.bytes(self.client);
        frames(&bytes).into_iter().map(|frame| Self::word(frame, &mut self.given)).collect()
    }

    fn word_of(&mut self, bytes: &[u8]) -> String {
        if let Some(at) = bytes.windows(LIST.len()).position(|window| window == LIST) {
            // Both sides have one list each, and this is ours.
            self.lists.insert([bytes[at + LIST.len()], bytes[at + LIST.len() + 1]], [0x10, 0x00]);
        }
        Self::word(&bytes[4..], &mut self.recorded)
    }

    fn world(&mut self) -> &mut ServiceWorld {
        &mut self.world
    }
}

/// Returns a message in a word.
fn word(reply: &Reply) -> String {
    let state = |status: i16| if Status(status).is_fatal() { "refused" } else { "good" };
    match reply {
        Reply::DeviceInfo(info) => format!("DeviceInfo {} {} {}", info.ref_id, info.di, info.name),
        Reply::Status(status) => format!("Status {} {}", status.ref_id, state(status.status)),
        Reply::StartList(start) => format!("StartList {}", state(start.status)),
        Reply::AddToList(added) => format!("AddToList {} {}", added.ref_id, state(added.status)),
        Reply::RemoveFromList(removed) => format!("RemoveFromList {} {}", removed.ref_id, state(removed.status)),
        Reply::Authenticate(step) => format!("Authenticate {} {}", step.service_name.is_some(), step.token.is_some()),
        Reply::ApplySettings(applied) => {
            let all: Vec<String> =
                applied.status.iter().map(|setting| format!("{} {}", setting.ref_id, state(setting.status))).collect();
            format!("ApplySettings {}", all.join(", "))
        }
        other => {
            // The name of the message and its reference.
            let shown = format!("{other:?}");
            let name = shown.split('(').next().unwrap_or_default();
            let reference = shown.split("ref_id: ").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
            format!("{name} {reference}")
        }
    }
}

/// Accepts every token as the operator's.
#[derive(Debug, Clone, Copy)]
struct OpenGate {
    is_there: bool,
    verifies: bool,
    allows: bool,
}

impl OpenGate {
    const OPEN: Self = Self { is_there: true, verifies: true, allows: true };
}

impl ProofAcceptor for OpenGate {
    fn service_name(&self) -> &str {
        "daeset@localhost"
    }

    fn converse(&self) -> Box<dyn ProofConversation> {
        Box::new(ReplayPassage { verifies: self.verifies, is_through: false })
    }
}

#[derive(Debug)]
struct ReplayPassage {
    verifies: bool,
    is_through: bool,
}

impl ProofConversation for ReplayPassage {
    fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, String> {
        // A Kerberos 5 token, in the framing of RFC 4121 §4.1.
        self.is_through = token.starts_with(&[0x60])
            && token[4..].starts_with(b"\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00");
        if self.is_through { Ok(None) } else { Err("no token of Kerberos".into()) }
    }

    fn peer(&self) -> Option<ProvenPeer> {
        self.is_through.then(|| ProvenPeer { principal: "operator@FNAL.GOV".into(), good_for: None })
    }

    fn verify(&mut self, message: &[u8], mic: &[u8]) -> Result<(), String> {
        let is_good = self.verifies && message == b"1234" && mic.len() == 28;
        if is_good { Ok(()) } else { Err("wrong signature".into()) }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect()
}

/// The field that holds a list's number, and the head of the number.
const LIST: &[u8] = &[0x12, 0xe8, 0x20, 0x12];
const DEVICES: &str = include_str!("settings.toml");
const ROLES: &str = "[[role]]\nname = 'testing'\nprincipals = ['operator@FNAL.GOV']\ndevices = ['*']";
