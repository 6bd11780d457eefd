//! Clients that set devices: permissions, requests to front-ends, and replies.

mod blocks;
mod front_ends;
mod grpc;
mod limits;
mod proofs;
mod report;
mod values;

use std::sync::{Arc, Mutex};

use rookery_dpm::acnet::{AcnetHeader, packet};
use rookery_dpm::authority::{Attempt, Audit, ProofAcceptor, ProofConversation, ProvenPeer, Roles, SettingAuthority};
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::{self, ApplySettings};
use rookery_dpm::sdd::{Bytes, ScaledSetting, TextSetting};
use rookery_dpm::status::Status;
use rookery_dpm::time::Moment;

use crate::world::{ServiceWorld, TcpClient, front_end_address, statuses};

/// Returns a service with the operator's role, and its log.
pub fn world() -> (ServiceWorld, SettingsLog) {
    world_of(DEVICES)
}

/// Returns a service for another device file, with the operator's role, and its log.
pub fn world_of(database: &str) -> (ServiceWorld, SettingsLog) {
    let mut world = ServiceWorld::new(database);
    let log = SettingsLog::default();
    world.dpm.set_authority(SettingAuthority {
        acceptor: Some(Box::new(AnyName)),
        roles: Roles::read(ROLES).expect("good roles"),
        audit: Some(Box::new(log.clone())),
    });
    (world, log)
}

/// Returns a client that proved to be the operator, in a role.
pub fn operator(world: &mut ServiceWorld, role: &str) -> TcpClient {
    let client = world.client();
    authenticate(world, &client, b"operator@FNAL.GOV");
    enable(world, &client, b"1234");
    world.add(&client, 0, &format!("#ROLE:{role}"));
    assert_eq!(statuses(&world.replies(&client), 0), [Status::SUCCESS]);
    client
}

fn authenticate(world: &mut ServiceWorld, client: &TcpClient, token: &[u8]) {
    world.ask(client, request::Authenticate { list_id: client.list_id, token: Bytes(token.to_vec()) });
}

fn enable(world: &mut ServiceWorld, client: &TcpClient, mic: &[u8]) {
    let message = Bytes(b"1234".to_vec());
    world.ask(client, request::EnableSettings { list_id: client.list_id, mic: Bytes(mic.to_vec()), message });
}

fn scaled_settings(settings: &[(i64, f64)]) -> ApplySettings {
    let all = settings.iter().map(|(ref_id, number)| ScaledSetting { ref_id: *ref_id, data: vec![*number] });
    ApplySettings { scaled_array: Some(all.collect()), ..ApplySettings::default() }
}

fn send(world: &mut ServiceWorld, client: &TcpClient, settings: &[(i64, f64)]) {
    world.ask(client, ApplySettings { list_id: client.list_id, ..scaled_settings(settings) });
}

/// Sends the setting of a text to the device of a client's first request.
pub fn set_text(world: &mut ServiceWorld, client: &TcpClient, text: &str) {
    let text_array = Some(vec![TextSetting { ref_id: 1, data: vec![text.into()] }]);
    world.ask(client, ApplySettings { list_id: client.list_id, text_array, ..ApplySettings::default() });
    world.pass(0);
}

fn apply(world: &mut ServiceWorld, client: &TcpClient, settings: &[(i64, f64)]) -> Vec<(i64, Status)> {
    apply_all(world, client, scaled_settings(settings))
}

fn apply_all(world: &mut ServiceWorld, client: &TcpClient, settings: ApplySettings) -> Vec<(i64, Status)> {
    world.ask(client, ApplySettings { list_id: client.list_id, user_name: "root@FNAL.GOV".into(), ..settings });
    let replies = world.replies(client);
    assert!(matches!(&replies[..], [Reply::ApplySettings(_)]), "one answer: {replies:?}");
    outcomes(&replies)
}

/// Returns the outcomes of settings.
pub fn outcomes(replies: &[Reply]) -> Vec<(i64, Status)> {
    let applied = replies.iter().filter_map(|reply| match reply {
        Reply::ApplySettings(applied) => Some(&applied.status),
        _ => None,
    });
    applied.flatten().map(|setting| (setting.ref_id, Status(setting.status))).collect()
}

fn headers(datagrams: &[Vec<u8>]) -> Vec<AcnetHeader> {
    let read = |datagram: &Vec<u8>| {
        let mut datagram = datagram.clone();
        packet::swap(&mut datagram);
        packet::packets(&datagram).next().expect("a packet").header
    };
    datagrams.iter().map(read).collect()
}

fn deliver(world: &mut ServiceWorld, mut datagram: Vec<u8>) {
    let now = world.moment();
    world.dpm.datagram(front_end_address(), &mut datagram, now);
    world.pass(0);
}

/// Returns whether the numbers are closer than one raw step.
fn near(numbers: &[f64], expected: &[f64]) -> bool {
    numbers.len() == expected.len() && numbers.iter().zip(expected).all(|(one, other)| (one - other).abs() < 0.02)
}

/// Accepts any client's name for an hour: the token is the name, and the signature is the message.
#[derive(Debug)]
pub struct AnyName;

#[derive(Debug, Default)]
struct Believer(Option<ProvenPeer>);

impl ProofAcceptor for AnyName {
    fn service_name(&self) -> &str {
        "daeset@localhost"
    }

    fn converse(&self) -> Box<dyn ProofConversation> {
        Box::new(Believer::default())
    }
}

impl ProofConversation for Believer {
    fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let principal = String::from_utf8(token.to_vec()).map_err(|error| error.to_string())?;
        if !principal.contains('@') {
            return Err("no ticket".into());
        }
        self.0 = Some(ProvenPeer { principal, good_for: Some(HOUR) });
        Ok(None)
    }

    fn peer(&self) -> Option<ProvenPeer> {
        self.0.clone()
    }

    fn verify(&mut self, message: &[u8], mic: &[u8]) -> Result<(), String> {
        if message == mic { Ok(()) } else { Err("wrong signature".into()) }
    }
}

#[derive(Debug, Default, Clone)]
pub struct SettingsLog(Arc<Mutex<Vec<String>>>);

impl Audit for SettingsLog {
    fn record(&mut self, attempt: &Attempt, _now: Moment) {
        self.0.lock().expect("a lock").push(attempt.to_string());
    }
}

fn lines(log: &SettingsLog) -> Vec<String> {
    log.0.lock().expect("a lock").clone()
}

const HOUR: u64 = 3_600_000;
/// Devices that can be set, on nodes of both protocols.
const DEVICES: &str = include_str!("settings.toml");
const ROLES: &str = "
[[role]]
name = 'testing'
principals = ['operator@FNAL.GOV']
devices = ['Z:*']

[[role]]
name = 'magnets'
principals = ['magnets@FNAL.GOV']
devices = ['*']

[[role]]
name = 'everything'
principals = ['*@FNAL.GOV']
devices = ['*']

[[user]]
principal = 'operator@FNAL.GOV'
classes = 6
number = 4711
";
