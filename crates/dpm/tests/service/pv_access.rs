//! Process variables by pvAccess: a server that is simulated here, correct and faulty.

mod hostile;
mod setting;

use rookery_dpm::link::{Came, Goes, LinkNetwork, LinkNumber};
use rookery_dpm::pv_access::bytes::{ByteOrder, PvaInput, PvaOutput};
use rookery_dpm::pv_access::{command, step};
use rookery_dpm::status::Status;

use crate::channels::reader;
use crate::world::{ServiceWorld, numbers, statuses};

const DEVICES: &str = concat!(
    "[[node]]\n\
     name = 'EPICS'\n\
     protocol = 'PVA'\n\
     search = ['10.1.0.255:5076']\n\
     name_servers = ['10.1.0.7:5075']\n",
    include_str!("variables.toml")
);

/// The host that has all variables, and a stranger.
const HOST: &str = "10.1.0.5:5075";
const STRANGER: &str = "10.9.9.9:5075";

/// The fields of every variable after its value.
const REST: &[u8] = b"\x05alarm\x80\x07alarm_t\x03\x08severity\x22\x06status\x22\x07message\x60\
    \x09timeStamp\x80\x06time_t\x03\x10secondsPastEpoch\x23\x0bnanoseconds\x22\x07userTag\x22";

/// Returns the type of a variable with this type of value.
fn of(value: &[u8]) -> Vec<u8> {
    [&b"\x80\x15epics:nt/NTScalar:1.0\x03\x05value"[..], value, REST].concat()
}

const DOUBLE: &[u8] = b"\x43";
const DOUBLES: &[u8] = b"\x4b";
const CHOICE: &[u8] = b"\x80\x06enum_t\x02\x05index\x22\x07choices\x68";

/// A message of the service: its command, and its payload.
type SentMessage = (u8, Vec<u8>);

/// The server of a circuit that the service has opened.
struct VariableServer<'w> {
    world: &'w mut ServiceWorld,
    link: LinkNumber,
    order: ByteOrder,
}

impl VariableServer<'_> {
    /// Answers all searches as the host, and greets on the circuit.
    fn find(world: &mut ServiceWorld, order: ByteOrder) -> VariableServer<'_> {
        answer_searches(world, HOST, [0; 16]);
        let link = connect(world, HOST).expect("a circuit");
        let mut server = VariableServer { world, link, order };
        server.greet();
        server
    }

    fn greet(&mut self) {
        assert!(self.take_sent().is_empty(), "the server speaks first");
        self.bytes(&[0xca, 2, self.flags() | 1, 2, 0, 0, 0, 0]);
        self.say(command::CONNECTION_VALIDATION, |payload| {
            payload.long(0x1_0000);
            payload.word(0x7fff);
            payload.size(2);
            payload.text(b"anonymous");
            payload.text(b"ca");
        });
        let greetings = self.take_sent();
        assert_eq!(commands(&greetings), [command::CONNECTION_VALIDATION]);
        assert!(greetings[0].1.windows(2).any(|two| two == b"ca"));
        self.say(command::CONNECTION_VALIDATED, |payload| payload.byte(0xff));
    }

    fn flags(&self) -> u8 {
        if self.order == ByteOrder::Big { 0xc0 } else { 0x40 }
    }

    fn message(&self, flags: u8, command: u8, payload: &[u8]) -> Vec<u8> {
        let mut message = PvaOutput::new(self.order);
        message.bytes.extend([0xca, 2, self.flags() | flags, command]);
        message.long(payload.len() as u32);
        message.bytes.extend_from_slice(payload);
        message.bytes
    }

    fn say(&mut self, command: u8, fill: impl FnOnce(&mut PvaOutput)) {
        let mut payload = PvaOutput::new(self.order);
        fill(&mut payload);
        let message = self.message(0, command, &payload.bytes);
        self.bytes(&message);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let now = self.world.moment();
        self.world.dpm.link(LinkNetwork::PvAccess, Came::Bytes(self.link, bytes), now);
        self.world.pass(0);
    }

    /// Returns the messages that were sent on the circuit since the last call.
    fn take_sent(&mut self) -> Vec<SentMessage> {
        take_sent(self.world, self.link, self.order)
    }

    /// Reads numbers of 32 bits at the beginning of a message.
    fn numbers<const N: usize>(&self, message: &SentMessage) -> [u32; N] {
        let mut input = PvaInput::new(&message.1, self.order);
        std::array::from_fn(|_| input.long().expect("a number"))
    }

    /// Creates all requested channels, and returns their numbers. The server's are higher by 1000.
    fn create(&mut self) -> Vec<u32> {
        let asked = self.take_sent().into_iter().filter(|(command, _)| *command == command::CREATE_CHANNEL);
        let asked: Vec<u32> = asked
            .map(|(_, payload)| {
                let mut input = PvaInput::new(&payload, self.order);
                assert_eq!(input.word(), Ok(1));
                input.long().expect("a number")
            })
            .collect();
        for cid in &asked {
            self.say(command::CREATE_CHANNEL, |payload| {
                payload.long(*cid);
                payload.long(1000 + cid);
                payload.byte(0xff);
            });
        }
        asked
    }

    /// Describes the type of a request that was begun, and returns the request's number and the
    /// next message about it.
    fn describe(&mut self, command: u8, of: &[u8]) -> (u32, Vec<SentMessage>) {
        let begun = self.take_sent();
        let message = begun.iter().find(|message| message.0 == command).expect("a request");
        assert_eq!(message.1[8], step::INIT);
        let [_, number] = self.numbers(message);
        self.say(command, |payload| {
            payload.long(number);
            payload.byte(step::INIT);
            payload.byte(0xff);
            payload.bytes.extend_from_slice(of);
        });
        (number, self.take_sent())
    }

    /// Creates the one requested channel and begins its monitor. Returns the number of both.
    fn monitor(&mut self, of: &[u8]) -> u32 {
        let [cid] = self.create()[..] else { panic!("one channel") };
        let (number, next) = self.describe(command::MONITOR, of);
        assert_eq!((number, commands(&next), next[0].1[8]), (cid, vec![command::MONITOR], step::START));
        cid
    }

    /// Sends an update of a monitor: its changed parts and their values.
    fn update(&mut self, cid: u32, bits: &[u8], fill: impl FnOnce(&mut PvaOutput)) {
        self.say(command::MONITOR, |payload| {
            payload.long(cid);
            payload.byte(0);
            payload.bytes.extend_from_slice(bits);
            fill(payload);
            payload.byte(0);
        });
    }

    /// Sends an update of all parts.
    fn whole(&mut self, cid: u32, severity: i32, number: f64) {
        self.update(cid, &[1, 1], |payload| {
            payload.double(number);
            rest(severity, payload);
        });
    }

    /// Answers a step of a request.
    fn answer(&mut self, command: u8, number: u32, step: u8, fill: impl FnOnce(&mut PvaOutput)) {
        self.say(command, |payload| {
            payload.long(number);
            payload.byte(step);
            fill(payload);
        });
    }
}

/// Appends alarm and time.
fn rest(severity: i32, payload: &mut PvaOutput) {
    payload.int(severity);
    payload.int(0);
    payload.text(b"");
    payload.signed_huge(1_700_000_000);
    payload.int(250_000_000);
    payload.int(0);
}

/// Answers all searches by datagram, from one host and naming another, and reports the socket for
/// searches first. Returns the names.
fn answer_searches(world: &mut ServiceWorld, from: &str, host: [u8; 16]) -> Vec<String> {
    let found = take_searches(world);
    let mut payload = PvaOutput::new(ByteOrder::Big);
    payload.bytes.extend([7; 16]);
    payload.bytes.extend(host);
    payload.word(5075);
    payload.text(b"tcp");
    payload.byte(1);
    payload.word(found.len() as u16);
    found.iter().for_each(|(_, cid)| payload.long(*cid));
    let head = [0xca, 2, 0xc0, command::SEARCH_RESPONSE, 0, 0, 0, payload.bytes.len() as u8];
    let datagram = [&head[..], &payload.bytes].concat();
    let now = world.moment();
    world.dpm.link(LinkNetwork::PvAccess, Came::Datagram(from.parse().expect("an address"), &datagram), now);
    world.pass(0);
    found.into_iter().map(|(name, _)| name).collect()
}

/// Returns the names and numbers that were searched for by datagram.
fn take_searches(world: &mut ServiceWorld) -> Vec<(String, u32)> {
    if world.to_pv_access.contains(&Goes::Bind) {
        let now = world.moment();
        world.dpm.link(LinkNetwork::PvAccess, Came::Bound(40_000), now);
        world.to_pv_access.retain(|goes| *goes != Goes::Bind);
        world.pass(0);
    }
    let mut found = Vec::new();
    world.to_pv_access.retain(|goes| {
        let Goes::Datagram(to, bytes) = goes else { return true };
        assert_eq!(to.to_string(), "10.1.0.255:5076");
        found.extend(names(&bytes[8..], ByteOrder::Big, 40_000));
        false
    });
    found
}

/// Returns the names and numbers in the payload of a search.
fn names(payload: &[u8], order: ByteOrder, port: u16) -> Vec<(String, u32)> {
    let mut input = PvaInput::new(payload, order);
    input.take(4 + 4 + 16).expect("a head");
    assert_eq!(input.word(), Ok(port), "the port for answers");
    assert_eq!((input.size(), input.text()), (Ok(1), Ok(&b"tcp"[..])));
    let many = input.word().expect("a number");
    let name = |_| {
        let cid = input.long().expect("a number");
        (String::from_utf8(input.text().expect("a name").to_vec()).expect("ASCII"), cid)
    };
    (0..many).map(name).collect()
}

/// Opens the connection to a server, if the service wants one.
fn connect(world: &mut ServiceWorld, server: &str) -> Option<LinkNumber> {
    let server = server.parse().expect("an address");
    let link = world.to_pv_access.iter().find_map(|goes| match goes {
        Goes::Connect(link, to) if *to == server => Some(*link),
        _ => None,
    })?;
    world.to_pv_access.retain(|goes| !matches!(goes, Goes::Connect(other, _) if *other == link));
    let now = world.moment();
    world.dpm.link(LinkNetwork::PvAccess, Came::Up(link), now);
    world.pass(0);
    Some(link)
}

fn take_sent(world: &mut ServiceWorld, link: LinkNumber, order: ByteOrder) -> Vec<SentMessage> {
    let mut bytes = Vec::new();
    world.to_pv_access.retain(|goes| match goes {
        Goes::Bytes(to, more) if *to == link => {
            bytes.extend_from_slice(more);
            false
        }
        _ => true,
    });
    let (mut rest, mut found) = (&bytes[..], Vec::new());
    while let [0xca, 2, flags, command, size @ ..] = rest {
        let wanted = if order == ByteOrder::Big { 0x80 } else { 0 };
        assert_eq!(flags & 0xf0, wanted, "the order that the server wants, in one piece, of a client");
        let size = PvaInput::new(size, order).long().expect("a size") as usize;
        let size = if flags & 1 != 0 { 0 } else { size };
        found.push((*command, rest[8..8 + size].to_vec()));
        rest = &rest[8 + size..];
    }
    found
}

fn commands(sent: &[SentMessage]) -> Vec<u8> {
    sent.iter().map(|(command, _)| *command).collect()
}

/// Returns why the service has ended a circuit, if it has.
fn refusal(world: &ServiceWorld, link: LinkNumber) -> Option<&'static str> {
    world.to_pv_access.iter().find_map(|goes| match goes {
        Goes::Refuse(of, why) if *of == link => Some(*why),
        _ => None,
    })
}

#[test]
fn a_variable_is_searched_for_and_monitored_once_for_all_in_either_byte_order() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut world = ServiceWorld::new(DEVICES);
        let readers: Vec<_> = (0..20).map(|_| reader(&mut world, "E:BEAM@Q,100")).collect();
        let periodic = reader(&mut world, "E:BEAM@P,500");
        assert_eq!(take_searches(&mut world), [("BEAM".to_owned(), 1)]);
        world.pass(200);
        let mut server = VariableServer::find(&mut world, order);
        let cid = server.monitor(&of(DOUBLE));
        server.whole(cid, 0, 1.5);
        for client in readers.iter().chain([&periodic]) {
            assert_eq!(numbers(&world.replies(client), 1), [1.5]);
        }
        world.pass(2000);
        assert!(readers.iter().all(|client| numbers(&world.replies(client), 1).is_empty()));
        assert_eq!(numbers(&world.replies(&periodic), 1), [1.5; 4]);
        let late = reader(&mut world, "E:BEAM@Q,100");
        assert_eq!(numbers(&world.replies(&late), 1), [1.5]);
        assert_eq!((world.statistics().variables, world.statistics().connected), (1, 1));
    }
}

#[test]
fn fields_that_an_update_leaves_out_keep_their_values() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let mut server = VariableServer::find(&mut world, ByteOrder::Little);
    let cid = server.monitor(&of(DOUBLE));
    server.whole(cid, 3, 1.0);
    server.world.pass(200);
    // Only the value changes: the alarm still says that it means nothing.
    server.update(cid, &[1, 2], |payload| payload.double(2.0));
    server.world.pass(200);
    // Only the alarm changes, then only the value again.
    server.update(cid, &[1, 8], |payload| payload.int(0));
    server.world.pass(200);
    server.update(cid, &[1, 2], |payload| payload.double(3.0));
    server.world.pass(200);
    let replies = world.replies(&client);
    assert_eq!(statuses(&replies, 1)[..1], [Status::INVDATA]);
    assert_eq!(numbers(&replies, 1), [2.0, 3.0]);
}

#[test]
fn a_single_reading_asks_the_server() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:WAVE[1:2]@I");
    let mut server = VariableServer::find(&mut world, ByteOrder::Big);
    server.create();
    let (number, next) = server.describe(command::GET, &of(DOUBLES));
    assert_eq!((commands(&next), next[0].1[8]), (vec![command::GET], step::DESTROY));
    server.answer(command::GET, number, step::DESTROY, |payload| {
        payload.byte(0xff);
        payload.bytes.extend([1, 1]);
        payload.size(5);
        [1.0, 2.0, 3.0, 4.0, 5.0].into_iter().for_each(|number| payload.double(number));
        rest(0, payload);
    });
    let replies = world.replies(&client);
    assert!(format!("{replies:?}").contains("data: [2.0, 3.0]"), "{replies:?}");
}

#[test]
fn a_choice_is_read_by_its_name() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:MODE@Q,100");
    let mut server = VariableServer::find(&mut world, ByteOrder::Little);
    let cid = server.monitor(&of(CHOICE));
    server.update(cid, &[1, 1], |payload| {
        payload.int(0);
        payload.size(2);
        payload.text(b"Decay");
        payload.text(b"TopUp");
        rest(0, payload);
    });
    server.world.pass(200);
    // The names don't come again.
    server.update(cid, &[1, 4], |payload| payload.int(1));
    server.world.pass(200);
    let replies = format!("{:?}", world.replies(&client));
    assert!(replies.contains("Decay") && replies.contains("TopUp"), "{replies}");
}

#[test]
fn a_lost_circuit_is_reported_and_its_variables_are_found_again() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let mut server = VariableServer::find(&mut world, ByteOrder::Little);
    let cid = server.monitor(&of(DOUBLE));
    server.whole(cid, 0, 1.0);
    let (link, now) = (server.link, server.world.moment());
    world.dpm.link(LinkNetwork::PvAccess, Came::Down(link), now);
    world.pass(0);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1), statuses(&replies, 1)), (vec![1.0], vec![Status::NODE_DOWN]));
    world.pass(500);
    let mut server = VariableServer::find(&mut world, ByteOrder::Big);
    let cid = server.monitor(&of(DOUBLE));
    server.whole(cid, 0, 2.0);
    assert_eq!(numbers(&world.replies(&client), 1), [2.0]);
}

#[test]
fn channels_and_monitors_that_their_server_ends_are_opened_again() {
    for ends_channel in [true, false] {
        let mut world = ServiceWorld::new(DEVICES);
        let (client, other) = (reader(&mut world, "E:BEAM@Q,100"), reader(&mut world, "E:WAVE@Q,100"));
        let mut server = VariableServer::find(&mut world, ByteOrder::Little);
        let cids = server.create();
        let [cid, _] = cids[..] else { panic!("two channels") };
        server.describe(command::MONITOR, &of(DOUBLE));
        server.whole(cid, 0, 1.0);
        match ends_channel {
            true => server.say(command::DESTROY_CHANNEL, |payload| {
                payload.long(1000 + cid);
                payload.long(cid);
            }),
            false => server.answer(command::MONITOR, cid, step::DESTROY, |payload| payload.byte(0xff)),
        }
        let link = server.link;
        let closed = server.take_sent().iter().filter(|message| message.0 == command::DESTROY_CHANNEL).count();
        assert_eq!(closed, usize::from(!ends_channel), "what the server has closed isn't closed again");
        world.pass(500);
        answer_searches(&mut world, HOST, [0; 16]);
        let mut server = VariableServer { world: &mut world, link, order: ByteOrder::Little };
        assert_eq!(server.create(), [cid], "on the same circuit");
        server.describe(command::MONITOR, &of(DOUBLE));
        server.whole(cid, 0, 2.0);
        let replies = world.replies(&client);
        assert_eq!((numbers(&replies, 1), statuses(&replies, 1)), (vec![1.0, 2.0], vec![Status::NODE_DOWN]));
        assert!(!statuses(&world.replies(&other), 2).contains(&Status::NODE_DOWN));
    }
}

#[test]
fn a_server_that_waits_for_a_sign_of_life_gets_one_and_a_silent_one_is_given_up() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let mut server = VariableServer::find(&mut world, ByteOrder::Little);
    let cid = server.monitor(&of(DOUBLE));
    // The server speaks, but we have nothing to say.
    for _ in 0..16 {
        server.world.pass(1000);
        server.whole(cid, 0, 1.0);
    }
    assert_eq!(commands(&server.take_sent()), [command::ECHO]);
    server.say(command::ECHO, |_| {});
    server.world.pass(16_000);
    assert_eq!(commands(&server.take_sent()), [command::ECHO]);
    let link = server.link;
    world.pass(6000);
    assert_eq!(refusal(&world, link), Some("its server does not answer"));
    assert!(statuses(&world.replies(&client), 1).contains(&Status::NODE_DOWN));
}

#[test]
fn a_server_that_never_greets_is_given_up() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@P,1000");
    answer_searches(&mut world, HOST, [0; 16]);
    let link = connect(&mut world, HOST).expect("a circuit");
    world.pass(12_000);
    assert!(take_sent(&mut world, link, ByteOrder::Little).is_empty());
    assert!(world.to_pv_access.contains(&Goes::Close(link)));
    assert!(statuses(&world.replies(&client), 1).contains(&Status::UTIME));
}

#[test]
fn strangers_cannot_redirect_us_to_other_hosts() {
    let mut world = ServiceWorld::new(DEVICES);
    let _client = reader(&mut world, "E:BEAM@Q,100");
    let elsewhere = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
    assert_eq!(answer_searches(&mut world, STRANGER, elsewhere), ["BEAM"]);
    assert!(connect(&mut world, "192.0.2.1:5075").is_none());
    // A stranger may name itself: servers are not listed one by one.
    world.pass(200);
    answer_searches(&mut world, STRANGER, [0; 16]);
    assert!(connect(&mut world, STRANGER).is_some());
}

#[test]
fn name_servers_may_name_other_hosts() {
    let mut world = ServiceWorld::new(DEVICES);
    let client = reader(&mut world, "E:BEAM@Q,100");
    let order = ByteOrder::Little;
    take_searches(&mut world);
    let link = connect(&mut world, "10.1.0.7:5075").expect("a name server");
    let mut names_at = VariableServer { world: &mut world, link, order };
    names_at.greet();
    names_at.world.pass(400);
    let asked = names_at.take_sent();
    let search = asked.iter().find(|message| message.0 == command::SEARCH).expect("a search");
    let [(_, cid)] = names(&search.1, order, 0)[..] else { panic!("one name") };
    names_at.say(command::SEARCH_RESPONSE, |payload| {
        payload.bytes.extend([7; 16]);
        payload.bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, 5]);
        payload.word(5075);
        payload.text(b"tcp");
        payload.byte(1);
        payload.word(1);
        payload.long(cid);
    });
    let link = connect(&mut world, HOST).expect("the host that it named");
    let mut server = VariableServer { world: &mut world, link, order };
    server.greet();
    let cid = server.monitor(&of(DOUBLE));
    server.whole(cid, 0, 4.0);
    assert_eq!(numbers(&world.replies(&client), 1), [4.0]);
}
