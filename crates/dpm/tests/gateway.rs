//! Clients of EPICS on a circuit, correct and faulty ones; the replies of the list are made here.

use rookery_dpm::channel_access::data::{ChannelData, DataForm, Native};
use rookery_dpm::channel_access::message::{ChannelHeader, messages, text};
use rookery_dpm::channel_access::{NORMAL, command};
use rookery_dpm::database::Database;
use rookery_dpm::gateway::{CloseCircuit, GatewayCircuit, ListChange, search};
use rookery_dpm::sdd::reply;
use rookery_dpm::status::Status;

const PORT: u16 = 5064;

fn database() -> Database {
    Database::read(include_str!("../src/database/demo.toml")).expect("a good file")
}

fn say(
    circuit: &mut GatewayCircuit,
    header: ChannelHeader,
    payload: &[u8],
) -> Result<Vec<(ChannelHeader, Vec<u8>)>, CloseCircuit> {
    let mut bytes = Vec::new();
    header.write(payload, &mut bytes);
    circuit.received(&bytes, &database(), PORT)?;
    Ok(take_messages(circuit))
}

fn take_messages(circuit: &mut GatewayCircuit) -> Vec<(ChannelHeader, Vec<u8>)> {
    let bytes = std::mem::take(circuit.output());
    messages(&bytes).map(|message| (message.header, message.payload.to_vec())).collect()
}

/// Creates a channel. Returns its type, its count and the server's number.
fn create(circuit: &mut GatewayCircuit, name: &str) -> Option<(u16, u32, u32)> {
    let header = ChannelHeader { command: command::CREATE_CHAN, first: 7, second: 13, ..ChannelHeader::default() };
    let answers = say(circuit, header, &text(name)).expect("a good message");
    let made = answers.iter().find(|(header, _)| header.command == command::CREATE_CHAN)?;
    let rights = answers.iter().find(|(header, _)| header.command == command::ACCESS_RIGHTS).expect("rights");
    assert_eq!((rights.0.first, rights.0.second), (7, 1), "it can be read, and not set");
    Some((made.0.data_type, made.0.count, made.0.second))
}

#[test]
fn searches_find_the_devices_that_exist() {
    let mut datagram = Vec::new();
    for (cid, name) in [(1, "M:OUTTMP"), (2, "X:NOBODY"), (3, "B:ARRAY[0:3]"), (4, "M:OUTTMP.STATUS.ON")] {
        let header = ChannelHeader { command: command::SEARCH, data_type: 5, count: 13, first: cid, second: cid };
        header.write(&text(name), &mut datagram);
    }
    let answers = search(&datagram, &database(), PORT).expect("answers");
    let found: Vec<_> = messages(&answers)
        .filter(|message| message.header.command == command::SEARCH)
        .map(|message| (message.header.second, message.header.data_type, message.header.first))
        .collect();
    assert_eq!(found, [(1, PORT, u32::MAX), (3, PORT, u32::MAX)]);
    assert_eq!(search(b"nothing", &database(), PORT), None);
}

#[test]
fn a_device_is_monitored_until_that_is_cancelled() {
    let mut circuit = GatewayCircuit::new();
    assert_eq!(take_messages(&mut circuit)[0].0.command, command::VERSION);
    let (native, count, sid) = create(&mut circuit, "M:OUTTMP").expect("a channel");
    assert_eq!((native, count), (Native::Double as u16, 1));
    let data_type = Native::Double.with(DataForm::Time);
    let monitor = ChannelHeader { command: command::EVENT_ADD, data_type, count: 1, first: sid, second: 99 };
    assert!(say(&mut circuit, monitor, &[0; 16]).expect("a good message").is_empty());
    let changes = circuit.take_changes();
    assert_eq!(changes, [ListChange::Add(1, "M:OUTTMP.READING@q,100".into())].map(in_the_way_of(&changes)));
    let reading = reply::Scalar { ref_id: 1, timestamp: 1_700_000_000_000, data: 72.5, ..Default::default() };
    circuit.reply(&reading.into());
    let (header, payload) = take_messages(&mut circuit).remove(0);
    assert_eq!((header.command, header.first, header.second), (command::EVENT_ADD, NORMAL, 99));
    let data = ChannelData::decode(header.data_type, header.count, &payload).expect("a value");
    assert_eq!((data.numbers().collect::<Vec<_>>(), data.unix_millis), (vec![72.5], Some(1_700_000_000_000)));
    // A failed reading is an invalid value.
    let failed = reply::Status { ref_id: 1, timestamp: 1_700_000_000_000, cycle: 0, status: Status::UTIME.0 };
    circuit.reply(&failed.into());
    let (header, payload) = take_messages(&mut circuit).remove(0);
    assert_eq!(ChannelData::decode(header.data_type, header.count, &payload).expect("a value").severity, 3);
    let cancel = ChannelHeader { command: command::EVENT_CANCEL, ..monitor };
    let answers = say(&mut circuit, cancel, &[]).expect("a good message");
    assert_eq!((answers[0].0.command, answers[0].1.len()), (command::EVENT_ADD, 0));
    assert_eq!(circuit.take_changes(), [ListChange::Remove(1)]);
}

/// Returns a function that writes an event the way the given changes do: events can be written in
/// more than one way.
fn in_the_way_of(said: &[ListChange]) -> impl Fn(ListChange) -> ListChange + '_ {
    |expected| match (&expected, said.first()) {
        (ListChange::Add(_, one), Some(ListChange::Add(_, other)))
            if one.eq_ignore_ascii_case(other.split(",TRUE").next().unwrap_or_default()) =>
        {
            said[0].clone()
        }
        _ => expected,
    }
}

#[test]
fn a_device_is_read_as_every_type() {
    for (data_type, count) in [(6, 1), (0, 1), (34, 1), (28, 1), (19, 0), (20, 5)] {
        let mut circuit = GatewayCircuit::new();
        take_messages(&mut circuit);
        let (.., sid) = create(&mut circuit, "M:OUTTMP").expect("a channel");
        let read = ChannelHeader { command: command::READ_NOTIFY, data_type, count, first: sid, second: 5 };
        say(&mut circuit, read, &[]).expect("a good message");
        assert!(matches!(&circuit.take_changes()[..], [ListChange::Add(1, request)] if request.ends_with("@I")));
        circuit.reply(&reply::Scalar { ref_id: 1, data: 72.0, ..Default::default() }.into());
        let (header, payload) = take_messages(&mut circuit).remove(0);
        assert_eq!((header.command, header.first, header.second), (command::READ_NOTIFY, NORMAL, 5), "{data_type}");
        let data = ChannelData::decode(data_type, header.count, &payload).expect("a value");
        let text = data.texts().next().map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(data.numbers().next() == Some(72.0) || text.as_deref() == Some("72"), "{data_type}");
        assert!(data.limits.is_none_or(|limits| limits.units == "DegF"));
        // A single read is answered once.
        circuit.reply(&reply::Scalar { ref_id: 1, data: 73.0, ..Default::default() }.into());
        assert!(take_messages(&mut circuit).is_empty());
    }
}

#[test]
fn nothing_can_be_set_and_unknown_variables_are_refused() {
    let mut circuit = GatewayCircuit::new();
    take_messages(&mut circuit);
    let (.., sid) = create(&mut circuit, "M:OUTTMP").expect("a channel");
    let write = ChannelHeader { command: command::WRITE_NOTIFY, data_type: 6, count: 1, first: sid, second: 8 };
    let answers = say(&mut circuit, write, &1.0f64.to_be_bytes()).expect("a good message");
    assert_eq!((answers[0].0.command, answers[0].0.second), (command::WRITE_NOTIFY, 8));
    assert_ne!(answers[0].0.first, NORMAL);
    assert!(circuit.take_changes().is_empty());
    for name in ["X:NOBODY", "nothing at all", "", "M:OUTTMP<-LOGGER:1:2", "Z:CUBE_X.CONTROL"] {
        assert_eq!(create(&mut circuit, name), None, "{name}");
    }
}

#[test]
fn readings_that_a_client_gives_up_are_no_longer_taken() {
    let mut circuit = GatewayCircuit::new();
    let (.., sid) = create(&mut circuit, "M:OUTTMP").expect("a channel");
    for number in 1..=3 {
        let header = ChannelHeader { command: command::EVENT_ADD, data_type: 20, count: 1, first: sid, second: number };
        say(&mut circuit, header, &[0; 16]).expect("a good message");
    }
    circuit.take_changes();
    let clear = ChannelHeader { command: command::CLEAR_CHANNEL, first: sid, second: 7, ..ChannelHeader::default() };
    assert_eq!(say(&mut circuit, clear, &[]).expect("a good message")[0].0.command, command::CLEAR_CHANNEL);
    assert_eq!(circuit.take_changes(), [1, 2, 3].map(ListChange::Remove));
    circuit.reply(&reply::Scalar { ref_id: 1, data: 72.0, ..Default::default() }.into());
    assert!(take_messages(&mut circuit).is_empty());
}

#[test]
fn circuits_with_unknown_channels_or_oversized_requests_are_closed() {
    for header in [
        ChannelHeader { command: command::EVENT_ADD, data_type: 20, count: 1, first: 4711, second: 1 },
        ChannelHeader { command: command::READ_NOTIFY, data_type: 20, count: 1, first: 4711, second: 1 },
    ] {
        assert_eq!(say(&mut GatewayCircuit::new(), header, &[]), Err(CloseCircuit));
    }
    let mut circuit = GatewayCircuit::new();
    let (.., sid) = create(&mut circuit, "M:OUTTMP").expect("a channel");
    let huge = ChannelHeader { command: command::READ_NOTIFY, data_type: 20, count: u32::MAX, first: sid, second: 1 };
    assert_eq!(say(&mut circuit, huge, &[]), Err(CloseCircuit));
    assert_eq!(
        say(&mut GatewayCircuit::new(), ChannelHeader::default(), &vec![0; 70_000]),
        Err(CloseCircuit),
        "a payload without end"
    );
}

mod any_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn of_a_client_harm_nothing(bytes: Vec<u8>, cut in 0usize..64) {
            let database = database();
            let mut circuit = GatewayCircuit::new();
            let (head, rest) = bytes.split_at(cut.min(bytes.len()));
            let _ = circuit.received(head, &database, PORT).and_then(|()| circuit.received(rest, &database, PORT));
            let _ = search(&bytes, &database, PORT);
        }
    }
}
