//! Process variables: a server of Channel Access that is simulated here, correct and faulty.

use rookery_dpm::channel_access::data::{DataForm, Native, write_time};
use rookery_dpm::channel_access::message::{ChannelHeader, messages};
use rookery_dpm::channel_access::{NORMAL, command};
use rookery_dpm::link::{Came, Goes, LinkNetwork, LinkNumber};
use rookery_dpm::sdd::ScaledSetting;
use rookery_dpm::sdd::request::ApplySettings;
use rookery_dpm::status::Status;

use crate::settings;
use crate::world::{ServiceWorld, TcpClient, numbers, statuses};

const DEVICES: &str = concat!(
    "[[node]]\n\
     name = 'EPICS'\n\
     protocol = 'CA'\n\
     search = ['10.1.0.255:5064']\n\
     name_servers = ['10.1.0.7:5064']\n",
    include_str!("variables.toml")
);

/// The host that has all variables, and a stranger.
const HOST: &str = "10.1.0.5:5064";
const STRANGER: &str = "10.9.9.9:5064";

/// The server of a circuit that the service has opened.
struct CircuitServers<'w> {
    world: &'w mut ServiceWorld,
    link: LinkNumber,
}

impl CircuitServers<'_> {
    /// Answers all searches as the host, and opens the circuit.
    fn find(world: &mut ServiceWorld) -> CircuitServers<'_> {
        answer_searches(world, HOST, u32::MAX);
        let link = connect(world, HOST).expect("a circuit");
        CircuitServers { world, link }
    }

    /// Returns the messages that were sent on the circuit since the last call.
    fn take_sent(&mut self) -> Vec<(ChannelHeader, Vec<u8>)> {
        take_sent(self.world, self.link)
    }

    fn say(&mut self, header: ChannelHeader, payload: &[u8]) {
        let mut bytes = Vec::new();
        header.write(payload, &mut bytes);
        self.bytes(&bytes);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let now = self.world.moment();
        self.world.dpm.link(LinkNetwork::ChannelAccess, Came::Bytes(self.link, bytes), now);
        self.world.pass(0);
    }

    /// Creates all requested channels, each with its client's number as the server's.
    fn create(&mut self, native: Native, count: u32) -> Vec<u32> {
        let asked = self.take_sent().into_iter().filter(|(header, _)| header.command == command::CREATE_CHAN);
        let asked: Vec<u32> = asked.map(|(header, _)| header.first).collect();
        for cid in &asked {
            let command = command::CREATE_CHAN;
            self.say(ChannelHeader { command, data_type: native as u16, count, first: *cid, second: 1000 + cid }, &[]);
        }
        asked
    }

    /// Sends an update of a monitored channel.
    fn update(&mut self, cid: u32, severity: u16, number: f64) {
        let payload = double(severity, &[number]);
        let data_type = Native::Double.with(DataForm::Time);
        self.say(
            ChannelHeader { command: command::EVENT_ADD, data_type, count: 1, first: NORMAL, second: cid },
            &payload,
        );
    }
}

fn double(severity: u16, numbers: &[f64]) -> Vec<u8> {
    let mut payload = Vec::new();
    write_time(Native::Double, (0, severity), 1_700_000_000_000, &mut payload);
    payload.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    payload
}

/// Answers searches by datagram, from one host and naming another.
fn answer_searches(world: &mut ServiceWorld, from: &str, named: u32) -> usize {
    let searches: Vec<u32> = take_searches(world).into_iter().map(|(_, cid)| cid).collect();
    for cid in &searches {
        let mut answer = Vec::new();
        let command = command::SEARCH;
        ChannelHeader { command, data_type: 5064, count: 0, first: named, second: *cid }.write(&[0; 8], &mut answer);
        let now = world.moment();
        world.dpm.link(LinkNetwork::ChannelAccess, Came::Datagram(from.parse().expect("an address"), &answer), now);
    }
    world.pass(0);
    searches.len()
}

/// Returns the names and numbers that were searched for by datagram.
fn take_searches(world: &mut ServiceWorld) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    world.goes.retain(|goes| {
        let Goes::Datagram(to, bytes) = goes else { return true };
        assert_eq!(to.to_string(), "10.1.0.255:5064");
        for message in messages(bytes).filter(|message| message.header.command == command::SEARCH) {
            let name = message.payload.split(|byte| *byte == 0).next().unwrap_or_default();
            found.push((String::from_utf8(name.to_vec()).expect("a name"), message.header.second));
        }
        false
    });
    found
}

/// Opens the connection to a server, if the service wants one.
fn connect(world: &mut ServiceWorld, server: &str) -> Option<LinkNumber> {
    let server = server.parse().expect("an address");
    let link = world.goes.iter().find_map(|goes| match goes {
        Goes::Connect(link, to) if *to == server => Some(*link),
        _ => None,
    })?;
    world.goes.retain(|goes| !matches!(goes, Goes::Connect(other, _) if *other == link));
    let now = world.moment();
    world.dpm.link(LinkNetwork::ChannelAccess, Came::Up(link), now);
    world.pass(0);
    Some(link)
}

fn take_sent(world: &mut ServiceWorld, link: LinkNumber) -> Vec<(ChannelHeader, Vec<u8>)> {
    let mut bytes = Vec::new();
    world.goes.retain(|goes| match goes {
        Goes::Bytes(to, more) if *to == link => {
            bytes.extend_from_slice(more);
            false
        }
        _ => true,
    });
    messages(&bytes).map(|message| (message.header, message.payload.to_vec())).collect()
}

fn commands(sent: &[(ChannelHeader, Vec<u8>)]) -> Vec<u16> {
    sent.iter().map(|(header, _)| header.command).collect()
}

/// Returns a client that reads a device.
pub fn reader(world: &mut ServiceWorld, drf: &str) -> TcpClient {
    let client = world.client();
    world.add(&client, 1, drf);
    world.start(&client);
    world.pass(0);
    client
}

#[test]
fn a_variable_is_searched_for_and_monitored_once_for_all() {
    let mut world = ServiceWorld::new(DEVICES);
    let readers: Vec<TcpClient> = (0..20).map(|_| reader(&mut world, "E:BEAM@Q,100")).collect();
    let periodic = reader(&mut world, "E:BEAM@P,500");
    assert_eq!(take_searches(&mut world).len(), 1, "one search");
    world.pass(200);
    let mut servers = CircuitServers::find(&mut world);
    let [cid] = servers.create(Native::Double, 1)[..] else { panic!("one channel") };
    assert_eq!(commands(&servers.take_sent()), [command::EVENT_ADD]);
    servers.update(cid, 0, 1.5);
    for client in readers.iter().chain([&periodic]) {
        assert_eq!(numbers(&world.replies(client), 1), [1.5]);
    }
    // The value doesn't change: readers of every change get nothing, the other one gets it each
    // period.
    world.pass(2000);
    assert!(readers.iter().all(|client| numbers(&world.replies(client), 1).is_empty()));
    assert_eq!(numbers(&world.replies(&periodic), 1), [1.5; 4]);
    // A later reader gets the known value.
    let late = reader(&mut world, "E:BEAM@Q,100");
    assert_eq!(numbers(&world.replies(&late), 1), [1.5]);
    assert_eq!(world.statistics().variables, 1);
}

#[test]
fn changes_arrive_no_more_often_than_requested_and_the_last_is_not_lost() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let mut servers = CircuitServers::find(&mut world);
    let cid = servers.create(Native::Double, 1)[0];
    for number in 0..10 {
        servers.update(cid, 0, f64::from(number));
    }
    assert_eq!(numbers(&servers.world.replies(&client), 1), [0.0]);
    servers.world.pass(100);
    assert_eq!(numbers(&servers.world.replies(&client), 1), [9.0]);
}

#[test]
fn a_single_reading_asks_the_server() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:WAVE[1:2]@I");
    let mut servers = CircuitServers::find(&mut world);
    servers.create(Native::Double, 100);
    let asked = servers.take_sent();
    assert_eq!(commands(&asked), [command::READ_NOTIFY]);
    assert_eq!(asked[0].0.count, 4, "no more than the property has");
    let header = ChannelHeader { first: NORMAL, ..asked[0].0 };
    servers.say(header, &double(0, &[1.0, 2.0, 3.0, 4.0]));
    let replies = world.replies(&client);
    assert!(format!("{replies:?}").contains("data: [2.0, 3.0]"), "{replies:?}");
}

#[test]
fn an_invalid_value_is_reported_as_a_status() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let mut servers = CircuitServers::find(&mut world);
    let cid = servers.create(Native::Double, 1)[0];
    servers.update(cid, 3, 0.0);
    assert_eq!(statuses(&world.replies(&client), 1), [Status::INVDATA]);
}

#[test]
fn a_variable_that_no_server_has_is_reported_and_searched_for_ever_less_often() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@P,1000");
    let mut searches = 0;
    for _ in 0..60 {
        world.pass(1000);
        searches += take_searches(&mut world).len();
    }
    assert!((10..=16).contains(&searches), "{searches}");
    let told = statuses(&world.replies(&client), 1);
    assert!(told.iter().all(|status| *status == Status::UTIME) && (6..=9).contains(&told.len()), "{told:?}");
}

#[test]
fn a_lost_circuit_is_reported_and_its_variables_are_found_again() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let mut servers = CircuitServers::find(&mut world);
    let cid = servers.create(Native::Double, 1)[0];
    servers.update(cid, 0, 1.0);
    let (link, now) = (servers.link, servers.world.moment());
    world.dpm.link(LinkNetwork::ChannelAccess, Came::Down(link), now);
    world.pass(0);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1), statuses(&replies, 1)), (vec![1.0], vec![Status::NODE_DOWN]));
    world.pass(500);
    let mut servers = CircuitServers::find(&mut world);
    let again = servers.create(Native::Double, 1)[0];
    servers.update(again, 0, 2.0);
    assert_eq!(numbers(&world.replies(&client), 1), [2.0]);
}

#[test]
fn a_silent_server_gets_an_echo_request_and_is_given_up() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let mut servers = CircuitServers::find(&mut world);
    let cid = servers.create(Native::Double, 1)[0];
    servers.update(cid, 0, 1.0);
    servers.take_sent();
    servers.world.pass(16_000);
    assert_eq!(commands(&servers.take_sent()), [command::ECHO]);
    let (link, world) = (servers.link, servers.world);
    world.pass(6000);
    assert!(world.goes.contains(&Goes::Refuse(link, "its server does not answer")));
    assert_eq!(statuses(&world.replies(&client), 1)[0], Status::NODE_DOWN);
}

#[test]
fn strangers_cannot_redirect_us_to_other_hosts() {
    let mut world = ServiceWorld::new(DEVICES);
    let _client = reader(&mut world, "E:BEAM@Q,100");
    let elsewhere = u32::from_be_bytes([192, 0, 2, 1]);
    assert_eq!(answer_searches(&mut world, STRANGER, elsewhere), 1);
    assert!(!world.goes.iter().any(|goes| matches!(goes, Goes::Connect(_, to) if to.port() != 5064 || to.ip() == std::net::Ipv4Addr::from_bits(elsewhere))));
    // A stranger may name itself: servers are not listed one by one.
    world.pass(200);
    answer_searches(&mut world, STRANGER, u32::MAX);
    assert!(connect(&mut world, STRANGER).is_some());
}

#[test]
fn name_servers_may_name_other_hosts() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let names = connect(&mut world, "10.1.0.7:5064").expect("a name server");
    world.pass(200);
    let asked: Vec<u32> = take_sent(&mut world, names)
        .iter()
        .filter(|(header, _)| header.command == command::SEARCH)
        .map(|(header, _)| header.second)
        .collect();
    let mut answer = Vec::new();
    let host = u32::from_be_bytes([10, 1, 0, 5]);
    ChannelHeader { command: command::SEARCH, data_type: 5064, count: 0, first: host, second: asked[0] }
        .write(&[], &mut answer);
    let now = world.moment();
    world.dpm.link(LinkNetwork::ChannelAccess, Came::Bytes(names, &answer), now);
    world.pass(0);
    let link = connect(&mut world, HOST).expect("the host that it named");
    let mut servers = CircuitServers { world: &mut world, link };
    let cid = servers.create(Native::Double, 1)[0];
    servers.update(cid, 0, 4.0);
    assert_eq!(numbers(&world.replies(&client), 1), [4.0]);
}

#[test]
fn nothing_that_a_hostile_server_says_harms_others() {
    let header = |command, data_type, count, first, second| ChannelHeader { command, data_type, count, first, second };
    let time = Native::Double.with(DataForm::Time);
    let cases: Vec<(&str, ChannelHeader, Vec<u8>)> = vec![
        ("a payload of 4 GiB", header(command::EVENT_ADD, time, 70_000, 1, 1), vec![0; 70_000]),
        ("more elements than there are bytes", header(command::EVENT_ADD, time, 65_000, 1, 1), vec![0; 16]),
        ("no such type", header(command::EVENT_ADD, 999, 1, 1, 1), vec![0; 64]),
        ("a text for a number", header(command::EVENT_ADD, Native::Text.with(DataForm::Time), 1, 1, 1), vec![0; 64]),
        ("another's channel", header(command::EVENT_ADD, time, 1, 1, 77), double(0, &[1.0])),
        ("an answer that nobody asked for", header(command::READ_NOTIFY, time, 1, 1, 9999), double(0, &[1.0])),
        ("a setting that nobody made", header(command::WRITE_NOTIFY, 6, 1, 1, 9999), Vec::new()),
        ("a channel that is there already", header(command::CREATE_CHAN, 6, 1, 1, 55), Vec::new()),
        ("a channel that nobody wants", header(command::CREATE_CHAN, 6, 1, 99, 55), Vec::new()),
        ("an error about nothing", header(command::ERROR, 0, 0, 1, 160), vec![1, 2, 3]),
        (
            "an error about another's answer",
            header(command::ERROR, 0, 0, 1, 160),
            vec![0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9],
        ),
        ("an answer to a search on a circuit of variables", header(command::SEARCH, 1, 0, 0x0a09_0909, 2), Vec::new()),
        ("the end of another's channel", header(command::SERVER_DISCONN, 0, 0, 77, 0), Vec::new()),
        ("a refusal of another's channel", header(command::CREATE_CH_FAIL, 0, 0, 77, 0), Vec::new()),
        ("no such command", header(4711, 1, 1, 1, 1), vec![0; 8]),
    ];
    for (what, header, payload) in cases {
        let mut world = ServiceWorld::new(DEVICES);
        let client = reader(&mut world, "E:BEAM@Q,100");
        let mut servers = CircuitServers::find(&mut world);
        servers.create(Native::Double, 1);
        servers.say(header, &payload);
        let before = servers.link;
        world.pass(1000);
        // Regardless of how that circuit ended, a good server's value arrives.
        answer_searches(&mut world, HOST, u32::MAX);
        let link = connect(&mut world, HOST).unwrap_or(before);
        let mut servers = CircuitServers { world: &mut world, link };
        let made = servers.create(Native::Double, 1);
        let cid = made.first().copied().unwrap_or(1);
        servers.update(cid, 0, 42.0);
        servers.world.pass(200);
        let got = numbers(&world.replies(&client), 1);
        assert_eq!(got.last(), Some(&42.0), "{what}: {got:?}");
    }
}

#[test]
fn a_server_that_sends_without_end_is_closed_and_keeps_nothing() {
    let mut world = ServiceWorld::new(DEVICES);
    let _client = reader(&mut world, "E:BEAM@Q,100");
    let mut servers = CircuitServers::find(&mut world);
    servers.create(Native::Double, 1);
    // The head of a message of 4 GiB, and the beginning of its payload.
    let mut head = Vec::new();
    for word in [command::EVENT_ADD, 0xffff, 20, 0, 0, 1, 0, 1, 0xffff, 0xfff8, 0, 1] {
        head.extend_from_slice(&word.to_be_bytes());
    }
    let link = servers.link;
    servers.bytes(&head);
    assert!(servers.world.goes.contains(&Goes::Refuse(link, "its message is longer than what was requested")));
}

#[test]
fn a_server_that_never_ends_a_message_is_given_up() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let mut servers = CircuitServers::find(&mut world);
    let cid = servers.create(Native::Double, 1)[0];
    servers.update(cid, 0, 1.0);
    let link = servers.link;
    servers.bytes(&[0, 23, 1, 0]);
    for _ in 0..21 {
        servers.world.pass(1000);
        servers.bytes(&[0]);
    }
    assert!(world.goes.contains(&Goes::Refuse(link, "its server does not answer")));
    assert!(statuses(&world.replies(&client), 1).contains(&Status::NODE_DOWN));
}

#[test]
fn strangers_that_answer_every_search_get_a_bounded_number_of_circuits() {
    let mut world = ServiceWorld::new(DEVICES);
    let _client = reader(&mut world, "E:BEAM@Q,100");
    for round in 0..2000u32 {
        let [a, b, c, d] = (0x0a02_0000 + round).to_be_bytes();
        answer_searches(&mut world, &format!("{a}.{b}.{c}.{d}:5064"), u32::MAX);
        // The server accepts the connection and creates no channel.
        world.pass(10_000);
        assert!(world.statistics().circuits <= 2, "the channel and the name server");
    }
}

#[test]
fn a_setting_is_sent_once_within_what_the_server_allows() {
    let (mut world, _log) = settings::world_of(DEVICES);
    let client = settings::operator(&mut world, "everything");
    world.add(&client, 1, "E:BEAM.SETTING@N");
    set(&mut world, &client, 7.0);
    let mut servers = CircuitServers::find(&mut world);
    servers.create(Native::Double, 1);
    let asked = servers.take_sent();
    assert_eq!(commands(&asked), [command::READ_NOTIFY], "its limits come first");
    let mut limits = vec![0; 16];
    for number in [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 10.0, -10.0, 1.0f64] {
        limits.extend_from_slice(&number.to_be_bytes());
    }
    servers.say(ChannelHeader { first: NORMAL, ..asked[0].0 }, &limits);
    let written = servers.take_sent();
    assert_eq!(commands(&written), [command::WRITE_NOTIFY]);
    assert_eq!(written[0].1, 7.0f64.to_be_bytes());
    servers.say(ChannelHeader { first: NORMAL, ..written[0].0 }, &[]);
    let link = servers.link;
    assert_eq!(outcomes(&mut world, &client), [Status::SUCCESS]);
    set(&mut world, &client, 11.0);
    assert_eq!(outcomes(&mut world, &client), [Status::RANGE]);
    assert!(take_sent(&mut world, link).is_empty(), "what it would have set to 10 was not sent");
    // The circuit is lost before the answer, so the device may have been set.
    set(&mut world, &client, 8.0);
    assert_eq!(commands(&take_sent(&mut world, link)), [command::WRITE_NOTIFY]);
    let now = world.moment();
    world.dpm.link(LinkNetwork::ChannelAccess, Came::Down(link), now);
    world.pass(0);
    assert_eq!(outcomes(&mut world, &client), [Status::UTIME]);
    // No server has the variable any more, so it was not set.
    set(&mut world, &client, 9.0);
    world.pass(6000);
    assert_eq!(outcomes(&mut world, &client), [Status::NODE_DOWN]);
}

#[test]
fn a_setting_without_write_access_is_refused() {
    let (mut world, _log) = settings::world_of(DEVICES);
    let client = settings::operator(&mut world, "everything");
    world.add(&client, 1, "E:BEAM.SETTING@N");
    set(&mut world, &client, 7.0);
    let mut servers = CircuitServers::find(&mut world);
    let cid = {
        let asked = servers.take_sent().into_iter().find(|(header, _)| header.command == command::CREATE_CHAN);
        asked.expect("a channel").0.first
    };
    let mut bytes = Vec::new();
    ChannelHeader { command: command::ACCESS_RIGHTS, first: cid, second: 1, ..ChannelHeader::default() }
        .write(&[], &mut bytes);
    let native = Native::Double as u16;
    ChannelHeader { command: command::CREATE_CHAN, data_type: native, count: 1, first: cid, second: 5 }
        .write(&[], &mut bytes);
    servers.bytes(&bytes);
    assert_eq!(outcomes(&mut world, &client), [Status::PRIV]);
}

pub fn set(world: &mut ServiceWorld, client: &TcpClient, number: f64) {
    let scaled_array = Some(vec![ScaledSetting { ref_id: 1, data: vec![number] }]);
    world.ask(client, ApplySettings { list_id: client.list_id, scaled_array, ..ApplySettings::default() });
    world.pass(0);
}

pub fn outcomes(world: &mut ServiceWorld, client: &TcpClient) -> Vec<Status> {
    let replies = world.replies(client);
    settings::outcomes(&replies).into_iter().map(|(_, status)| status).collect()
}

mod any_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn of_a_server_harm_nothing(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..6)) {
            let mut world = ServiceWorld::new(DEVICES);
            let client = reader(&mut world, "E:BEAM@Q,100");
            let mut servers = CircuitServers::find(&mut world);
            servers.create(Native::Double, 1);
            for piece in &pieces {
                servers.bytes(piece);
            }
            world.pass(30_000);
            prop_assert!(world.statistics().variables == 1);
            world.stop(&client);
            world.pass(20_000);
            prop_assert_eq!(world.statistics().variables, 0);
        }
    }
}
