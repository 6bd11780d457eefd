//! Clients of pvAccess on a circuit of the gateway, correct and faulty ones; the replies of the
//! list are made here, and clients speak with the messages of our own client.

use std::sync::Arc;

use rookery_dpm::database::Database;
use rookery_dpm::gateway::pva::PvaGatewayCircuit;
use rookery_dpm::gateway::updates::SharedUpdates;
use rookery_dpm::gateway::{CloseCircuit, GatewayWire, ListChange};
use rookery_dpm::pv_access::bytes::{ByteOrder, PvaInput, PvaOutput};
use rookery_dpm::pv_access::frame::{self, PvaFrame, PvaFrames};
use rookery_dpm::pv_access::message::{self, refusal};
use rookery_dpm::pv_access::types::{PvaFields, PvaType, TypeRegistry};
use rookery_dpm::pv_access::value::{self, PvaBits, PvaElement, PvaField};
use rookery_dpm::pv_access::{LARGEST_OF_CLIENT, command, step};
use rookery_dpm::sdd::reply;
use rookery_dpm::status::Status;

const PORT: u16 = 5076;

fn database() -> Database {
    Database::read(include_str!("../src/database/demo.toml")).expect("a good file")
}

/// A client of a circuit, which reads what the gateway sends.
struct PvaStage {
    circuit: PvaGatewayCircuit,
    order: ByteOrder,
    frames: PvaFrames,
}

impl PvaStage {
    fn new(shared: &Arc<SharedUpdates>, order: ByteOrder) -> Self {
        let mut stage = Self { circuit: PvaGatewayCircuit::begin(shared), order, frames: PvaFrames::default() };
        let greeting = stage.messages();
        assert_eq!(greeting.iter().map(|(command, _)| *command).collect::<Vec<_>>(), [command::CONNECTION_VALIDATION]);
        let mut input = PvaInput::new(&greeting[0].1, ByteOrder::Little);
        assert_eq!(message::accepts_users(&mut input), Ok(true));
        let answers = stage.say(|order, out| message::greeting(Some("somebody"), order, out)).expect("a greeting");
        assert_eq!(answers, [(command::CONNECTION_VALIDATED, vec![0xff])]);
        stage
    }

    fn say(&mut self, write: impl FnOnce(ByteOrder, &mut Vec<u8>)) -> Result<Vec<(u8, Vec<u8>)>, CloseCircuit> {
        let mut bytes = Vec::new();
        write(self.order, &mut bytes);
        self.circuit.received(&bytes, &database(), PORT)?;
        Ok(self.messages())
    }

    /// Takes the messages that the gateway has sent.
    fn messages(&mut self) -> Vec<(u8, Vec<u8>)> {
        let bytes = std::mem::take(self.circuit.output());
        self.circuit.flush();
        let (mut rest, mut messages) = (&*bytes, Vec::new());
        while let Some((frame, length)) = self.frames.next(rest).expect("messages of a server") {
            if let PvaFrame::Message { command, payload, .. } = frame {
                messages.push((command, payload.into_owned()));
            }
            rest = &rest[length..];
        }
        messages
    }

    fn create(&mut self, name: &str) -> Result<u32, String> {
        let answers = self.say(|order, out| message::create(7, name, order, out)).expect("a good message");
        let mut input = PvaInput::new(&answers[0].1, ByteOrder::Little);
        assert_eq!((answers[0].0, input.long()), (command::CREATE_CHANNEL, Ok(7)));
        let sid = input.long().expect("a number");
        refusal(&mut input).expect("a status").map_or(Ok(sid), Err)
    }

    /// Begins a request. Returns the type of its values.
    fn init(&mut self, command: u8, of: (u32, u32), fields: &[&str]) -> Result<Arc<PvaFields>, String> {
        let answers = self.say(|order, out| message::init(command, of, fields, order, out)).expect("a good message");
        let mut input = PvaInput::new(&answers[0].1, ByteOrder::Little);
        assert_eq!((answers[0].0, input.long(), input.byte()), (command, Ok(of.1), Ok(step::INIT)));
        match refusal(&mut input).expect("a status") {
            Some(words) => Err(words),
            None => Ok(read_type(&mut input)),
        }
    }

    fn step(&mut self, command: u8, of: (u32, u32), step: u8, body: &[u8]) -> Vec<(u8, Vec<u8>)> {
        self.say(|order, out| message::step(command, of, step, order, body, out)).expect("a good message")
    }

    fn monitor(&mut self, name: &str, number: u32, fields: &[&str]) -> Arc<PvaFields> {
        let sid = self.create(name).expect("a channel");
        let of = self.init(command::MONITOR, (sid, number), fields).expect("a monitor");
        assert!(self.step(command::MONITOR, (sid, number), step::START, &[]).is_empty());
        of
    }
}

fn read_type(input: &mut PvaInput<'_>) -> Arc<PvaFields> {
    let Ok(Some(PvaType::Structure(of))) = PvaType::read(input, &mut TypeRegistry::default()) else {
        panic!("a structure")
    };
    of
}

/// Returns the scalars of a value by their paths, of those paths that are in it, and true if older
/// values were left out.
fn scalars(of: &PvaFields, payload: &[u8], head: usize, paths: &[&str]) -> (Vec<String>, bool) {
    let mut input = PvaInput::new(&payload[head..], ByteOrder::Little);
    let bits = PvaBits::read(&mut input).expect("a set");
    let mut found = Vec::new();
    value::read(of, Some(&bits), &mut input, &mut TypeRegistry::default(), |bit, field| {
        let path = paths.iter().find(|path| of.at(&path.split('.').collect::<Vec<_>>()).is_some_and(|at| at.0 == bit));
        if let (Some(path), PvaField::One(element)) = (path, field) {
            found.push(match element {
                PvaElement::Text(text) => format!("{path}={}", String::from_utf8_lossy(text)),
                PvaElement::Double(number) => format!("{path}={number}"),
                PvaElement::Signed(number) => format!("{path}={number}"),
                other => format!("{path}={other:?}"),
            });
        }
    })
    .expect("a value");
    let is_overrun = input.unread_bytes() > 0 && input.byte() != Ok(0);
    (found, is_overrun)
}

fn scalar(ref_id: i64, data: f64) -> reply::Reply {
    reply::Scalar { ref_id, timestamp: 1_700_000_000_250, data, ..Default::default() }.into()
}

const PATHS: &[&str] = &[
    "value",
    "alarm.severity",
    "alarm.message",
    "timeStamp.secondsPastEpoch",
    "timeStamp.nanoseconds",
    "display.units",
];

#[test]
fn searches_find_the_devices_that_exist() {
    let shared = SharedUpdates::default();
    let names = [(1, "M:OUTTMP"), (2, "X:NOBODY"), (3, "B:ARRAY[0:3]"), (4, "M:OUTTMP.STATUS.ON")];
    let mut datagram = Vec::new();
    message::search(&names, 4711, false, ByteOrder::Big, &mut datagram);
    let answers = PvaGatewayCircuit::search(&shared, &datagram, &database(), PORT).expect("answers");
    assert_eq!(answers.port, Some(4711));
    let mut input = frame::search_responses(&answers.bytes).next().expect("an answer");
    let answer = message::SearchAnswer::read(&mut input).expect("an answer");
    assert_eq!((answer.host, answer.port, answer.found), (None, PORT, vec![1, 3]));
    assert_eq!(PvaGatewayCircuit::search(&shared, b"nothing", &database(), PORT), None);
    // A name server is asked on a circuit.
    let mut stage = PvaStage::new(&Arc::default(), ByteOrder::Little);
    let answers = stage.say(|order, out| message::search(&names, 0, true, order, out)).expect("a search");
    assert_eq!(answers.iter().map(|(command, _)| *command).collect::<Vec<_>>(), [command::SEARCH_RESPONSE]);
}

#[test]
fn a_device_is_read_once_in_either_byte_order() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut stage = PvaStage::new(&Arc::default(), order);
        let sid = stage.create("M:OUTTMP").expect("a channel");
        let of = stage.init(command::GET, (sid, 5), &[]).expect("a request");
        assert!(stage.step(command::GET, (sid, 5), step::DESTROY, &[]).is_empty());
        assert!(matches!(&stage.circuit.take_changes()[..], [ListChange::Add(1, request)] if request.ends_with("@I")));
        stage.circuit.reply(&scalar(1, 72.5));
        let (command, payload) = stage.messages().remove(0);
        assert_eq!((command, &payload[..6]), (command::GET, &[5, 0, 0, 0, step::DESTROY, 0xff][..]));
        let expected = [
            "value=72.5",
            "alarm.severity=0",
            "alarm.message=",
            "timeStamp.secondsPastEpoch=1700000000",
            "timeStamp.nanoseconds=250000000",
            "display.units=DegF",
        ];
        assert_eq!(scalars(&of, &payload, 6, PATHS).0, expected);
        // The reading is over, and so is the request.
        assert_eq!(stage.circuit.take_changes(), [ListChange::Remove(1)]);
        stage.circuit.reply(&scalar(1, 73.0));
        assert!(stage.messages().is_empty());
        assert_eq!(stage.step(command::GET, (sid, 5), 0, &[])[0].0, command::GET, "it is refused");
        assert!(stage.circuit.take_changes().is_empty());
    }
}

#[test]
fn a_device_is_monitored_until_that_is_ended() {
    let mut stage = PvaStage::new(&Arc::default(), ByteOrder::Little);
    let of = stage.monitor("M:OUTTMP@p,200", 9, &["value", "alarm"]);
    assert!(
        matches!(&stage.circuit.take_changes()[..], [ListChange::Add(1, request)] if request.contains("@p,200") || request.contains("@P,200"))
    );
    stage.circuit.reply(&scalar(1, 72.5));
    let (_, payload) = stage.messages().remove(0);
    assert_eq!(
        scalars(&of, &payload, 5, PATHS),
        (vec!["value=72.5".into(), "alarm.severity=0".into(), "alarm.message=".into()], false)
    );
    // A failed reading is an alarm without a value.
    let failed = reply::Status { ref_id: 1, timestamp: 1_700_000_000_000, cycle: 0, status: Status::UTIME.0 };
    stage.circuit.reply(&failed.into());
    let (_, payload) = stage.messages().remove(0);
    let words = format!("alarm.message={}", Status::UTIME);
    assert_eq!(scalars(&of, &payload, 5, PATHS).0, ["alarm.severity=3".to_owned(), words]);
    // It can be stopped and started again, and ends.
    assert!(stage.step(command::MONITOR, (1, 9), step::SWITCH, &[]).is_empty());
    assert_eq!(stage.circuit.take_changes(), [ListChange::Remove(1)]);
    stage.step(command::MONITOR, (1, 9), step::START, &[]);
    assert!(matches!(&stage.circuit.take_changes()[..], [ListChange::Add(2, _)]));
    stage.say(|order, out| message::pair(command::DESTROY_REQUEST, 1, 9, order, out)).expect("a good message");
    assert_eq!(stage.circuit.take_changes(), [ListChange::Remove(2)]);
    stage.circuit.reply(&scalar(2, 1.0));
    assert!(stage.messages().is_empty());
}

#[test]
fn readings_that_a_client_gives_up_are_no_longer_taken() {
    let mut stage = PvaStage::new(&Arc::default(), ByteOrder::Little);
    stage.monitor("M:OUTTMP", 1, &[]);
    stage.circuit.take_changes();
    let closed = stage.say(|order, out| message::pair(command::DESTROY_CHANNEL, 1, 7, order, out));
    assert_eq!(closed, Ok(vec![(command::DESTROY_CHANNEL, vec![1, 0, 0, 0, 7, 0, 0, 0])]));
    assert_eq!(stage.circuit.take_changes(), [ListChange::Remove(1)]);
}

#[test]
fn an_update_is_built_once_for_all_clients() {
    let shared = Arc::new(SharedUpdates::default());
    let mut stages: Vec<_> = (0..20).map(|_| PvaStage::new(&shared, ByteOrder::Little)).collect();
    for stage in &mut stages {
        stage.monitor("M:OUTTMP", 3, &[]);
    }
    for (round, number) in [70.0, 71.0, 72.0].into_iter().enumerate() {
        stages.iter_mut().for_each(|stage| stage.circuit.reply(&scalar(1, number)));
        assert_eq!(shared.builds(), round as u64 + 1);
    }
    let sent: Vec<_> = stages.iter_mut().map(PvaStage::messages).collect();
    assert!(sent.iter().all(|messages| messages.len() == 3 && *messages == sent[0]));
}

#[test]
fn a_client_that_counts_updates_gets_the_newest_and_no_more_than_it_wants() {
    let mut stage = PvaStage::new(&Arc::default(), ByteOrder::Little);
    let sid = stage.create("G:COUNTR").expect("a channel");
    // A request without options, for all fields, and two updates.
    let begun = stage.step(command::MONITOR, (sid, 4), step::INIT | step::ACKNOWLEDGE, &[0xff, 2, 0, 0, 0]);
    let of = read_type(&mut PvaInput::new(&begun[0].1[6..], ByteOrder::Little));
    stage.step(command::MONITOR, (sid, 4), step::START, &[]);
    (1..=50).for_each(|number| stage.circuit.reply(&scalar(1, f64::from(number))));
    let values = |messages: Vec<(u8, Vec<u8>)>| {
        messages.iter().map(|(_, payload)| scalars(&of, payload, 5, &["value"])).collect::<Vec<_>>()
    };
    let first = values(stage.messages());
    assert_eq!(first, [(vec!["value=1".into()], false), (vec!["value=2".into()], false)]);
    let next = values(stage.step(command::MONITOR, (sid, 4), step::ACKNOWLEDGE, &[1, 0, 0, 0]));
    assert_eq!(next, [(vec!["value=50".into()], true)], "the newest, and it says that some were left out");
}

#[test]
fn a_client_that_reads_nothing_makes_nothing_grow() {
    let mut stage = PvaStage::new(&Arc::default(), ByteOrder::Little);
    stage.monitor("B:ARRAY[0:3]", 4, &[]);
    let reading = |data| reply::ScalarArray { ref_id: 1, timestamp: 0, data, ..Default::default() };
    for round in 0..2000 {
        stage.circuit.reply(&reading(vec![f64::from(round); 4]).into());
    }
    let waiting = stage.circuit.output().len();
    assert!(waiting < 80 << 10, "{waiting}");
    let before = stage.messages().len();
    let after = stage.messages();
    assert!(before < 2000 && after.len() == 1, "the newest update waited");
    assert!(stage.circuit.has_room());
    stage.circuit.output().resize(64 << 10, 0);
    stage.circuit.reply(&reading(vec![0.5; 200_000]).into());
    assert!(!stage.circuit.has_room(), "larger readings wait in the service");
    stage.circuit.output().clear();
    stage.circuit.flush();
    assert!(stage.circuit.has_room());
}

#[test]
fn nothing_can_be_set_and_unknown_variables_are_refused() {
    let mut stage = PvaStage::new(&Arc::default(), ByteOrder::Big);
    let sid = stage.create("M:OUTTMP").expect("a channel");
    for command in [command::PUT, command::PUT_GET, command::ARRAY, command::PROCESS, command::RPC] {
        let words = stage.init(command, (sid, 8), &["value"]).expect_err("a refusal");
        assert!(words.contains("read-only"), "{words}");
    }
    assert!(stage.circuit.take_changes().is_empty());
    for name in ["X:NOBODY", "nothing at all", "", "M:OUTTMP<-LOGGER:1:2", "Z:CUBE_X.CONTROL"] {
        assert!(stage.create(name).is_err(), "{name}");
    }
    assert!(stage.init(command::GET, (sid, 9), &["colour"]).is_err(), "no such field");
    assert!(stage.init(command::GET, (4711, 9), &[]).is_err(), "no such channel");
}

#[test]
fn the_type_of_a_field_is_told() {
    let mut stage = PvaStage::new(&Arc::default(), ByteOrder::Little);
    let sid = stage.create("M:OUTTMP").expect("a channel");
    for (path, is_known) in [("", true), ("alarm.severity", true), ("display", true), ("alarm.colour", false)] {
        let answers = stage.say(|order, out| {
            let mut payload = PvaOutput::new(order);
            payload.long(sid);
            payload.long(3);
            payload.text(path.as_bytes());
            frame::write(command::GET_FIELD, &payload, out);
        });
        let answers = answers.expect("a good message");
        let mut input = PvaInput::new(&answers[0].1, ByteOrder::Little);
        assert_eq!(input.long(), Ok(3));
        assert_eq!(refusal(&mut input).expect("a status").is_none(), is_known, "{path}");
        assert!(!is_known || PvaType::read(&mut input, &mut TypeRegistry::default()).is_ok_and(|of| of.is_some()));
    }
    let echo = stage.say(message::echo);
    assert_eq!(echo, Ok(vec![(command::ECHO, Vec::new())]));
}

#[test]
fn circuits_that_break_the_protocol_are_closed() {
    let message = |command: u8, body: &[u8]| {
        let (mut payload, mut out) = (PvaOutput::new(ByteOrder::Little), Vec::new());
        payload.bytes.extend_from_slice(body);
        frame::write(command, &payload, &mut out);
        out
    };
    let request = |of: &[u8]| [&[1, 0, 0, 0, 9, 0, 0, 0, step::INIT][..], of].concat();
    let deep = [0x80, 0, 1, 1, b'x'].repeat(64);
    let huge = [&[0x80, 0, 0xfe, 0xff, 0xff, 0xff, 0x7e][..], &[1, b'x', 0x43].repeat(9)].concat();
    let segment = [0xca, 2, 0x10, command::ECHO, 0, 0x20, 0, 0];
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("messages of servers", [0xca, 2, 0x40, command::ECHO, 0, 0, 0, 0].to_vec()),
        ("a message without end", message(command::ECHO, &vec![0; LARGEST_OF_CLIENT + 1])),
        ("segments without end", [&segment[..], &[0; 0x2000]].concat().repeat(4)),
        ("a segment that nothing began", [0xca, 2, 0x30, command::ECHO, 0, 0, 0, 0].to_vec()),
        ("more channels than bytes", message(command::CREATE_CHANNEL, &[0xff, 0xff, 1])),
        (
            "a name longer than the message",
            message(command::CREATE_CHANNEL, &[1, 0, 1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x7e]),
        ),
        ("more searches than bytes", message(command::SEARCH, &[&[0; 26][..], &[0, 0xff, 0xff]].concat())),
        ("an unknown type", message(command::GET, &request(&[0x44]))),
        ("a type that was not described", message(command::GET, &request(&[0xfe, 9, 9]))),
        ("a number instead of a structure", message(command::MONITOR, &request(&[0x43]))),
        ("structures within structures", message(command::MONITOR, &request(&deep))),
        ("more fields than bytes", message(command::GET, &request(&huge))),
        (
            "more elements than bytes",
            message(command::GET, &request(&[0x80, 0, 1, 1, b'x', 0x4b, 0xfe, 0xff, 0xff, 0xff, 0x7e])),
        ),
        ("a short message", message(command::MONITOR, &[1, 0])),
    ];
    for (what, bytes) in cases {
        let mut stage = PvaStage::new(&Arc::default(), ByteOrder::Little);
        stage.create("M:OUTTMP").expect("a channel");
        assert_eq!(stage.circuit.received(&bytes, &database(), PORT), Err(CloseCircuit), "{what}");
    }
    let mut stage = PvaStage::new(&Arc::default(), ByteOrder::Little);
    stage.monitor("M:OUTTMP", 4, &[]);
    assert_eq!(
        stage.say(|order, out| message::init(command::MONITOR, (1, 4), &[], order, out)),
        Err(CloseCircuit),
        "a number that is in use"
    );
}

#[test]
fn a_segmented_message_is_joined() {
    let mut stage = PvaStage::new(&Arc::default(), ByteOrder::Little);
    let segment =
        |flag: u8, body: &[u8]| [&[0xca, 2, flag, command::ECHO, body.len() as u8, 0, 0, 0][..], body].concat();
    let bytes = [segment(0x10, b"one "), segment(0x30, b"two "), segment(0x20, b"three")].concat();
    for byte in bytes {
        stage.circuit.received(&[byte], &database(), PORT).expect("a part");
    }
    assert_eq!(stage.messages(), [(command::ECHO, b"one two three".to_vec())]);
}

mod any_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn of_a_client_harm_nothing(bytes: Vec<u8>, command in 0u8..24, big: bool, cut in 0usize..64) {
            let (database, shared) = (database(), Arc::default());
            let _ = PvaGatewayCircuit::search(&shared, &bytes, &database, PORT);
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let mut stage = PvaStage::new(&shared, order);
            stage.monitor("M:OUTTMP", 1, &[]);
            let (mut payload, mut framed) = (PvaOutput::new(order), Vec::new());
            payload.bytes.extend_from_slice(&[&[1, 0, 0, 0, 1, 0, 0, 0][..], &bytes].concat());
            frame::write(command, &payload, &mut framed);
            for bytes in [&framed, &bytes] {
                let (head, rest) = bytes.split_at(cut.min(bytes.len()));
                let read = stage.circuit.received(head, &database, PORT);
                if read.and_then(|()| stage.circuit.received(rest, &database, PORT)).is_err() {
                    break;
                }
                stage.circuit.reply(&scalar(1, 1.0));
            }
        }
    }
}
