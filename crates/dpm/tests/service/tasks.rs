//! The tasks SCALE and SYNC beside that of DPM, as acsys-python speaks with them.

use rookery_dpm::acnet::{AcnetHeader, PacketKind, SCALE, SYNC, packet};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::sdd::scale::{ScalePlace, ScaleReply, ScaleRequest, ScaleSearch, ScaleValues, ScaledValues};
use rookery_dpm::sdd::sync::{
    ClockOccurrence, EventReport, EventSource, RegisterEvents, StateOccurrence, SyncReply, SyncRequest, SyncSearch,
};
use rookery_dpm::sdd::{Bytes, SddMessage};
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::raw::RawConnection;
use crate::world::{ServiceWorld, frames, front_end_address};

const HERE: u16 = 0x0ad6;
const EVERYBODY: u16 = 0x00ff;

#[test]
fn messages_are_those_of_acsys_python() {
    let scale = b"SDD\x02\x51\x03\x14\xbc\x96\x7d\xc2\x12\xdf\xda\x51\x00";
    assert_eq!(encode(&ScaleRequest::from(ScaleSearch {})), scale);
    let sync = b"SDD\x02\x51\x03\x14\xc7\xf5\x7b\x8d\x12\x97\x3c\x51\x02\x12\x1b\x19\x82\x20\x4b";
    assert_eq!(encode(&SyncRequest::from(SyncSearch { clock: EventSource::TCLK })), sync);
    let here = b"SDD\x02\x51\x03\x14\xc7\xf5\x7b\x8d\x12\xb7\x31\x51\x00";
    assert_eq!(SyncReply::decode(here), Ok(rookery_dpm::sdd::sync::SyncPlace {}.into()));
    // A message of one protocol is none of another.
    assert!(ScaleRequest::decode(sync).is_err() && SyncRequest::decode(scale).is_err());
}

#[test]
fn values_are_converted_both_ways() {
    let mut raw = RawConnection::connect_to(ServiceWorld::new(&with_clock()));
    let found = ask(&mut raw, SCALE, EVERYBODY, 0, &ScaleRequest::from(ScaleSearch {}));
    let place = ScalePlace { service_location: "DPM06".into() };
    assert_eq!(ScaleReply::decode(&found[0].1), Ok(place.into()));
    let convert = |raw: &mut RawConnection, drf: &str, bytes: Option<&[u8]>, numbers: Option<&[f64]>| {
        let values = ScaleValues {
            drf_request: drf.into(),
            raw: bytes.map(|bytes| Bytes(bytes.to_vec())),
            scaled: numbers.map(<[f64]>::to_vec),
        };
        let said = ask(raw, SCALE, HERE, 0, &ScaleRequest::from(values));
        match ScaleReply::decode(&said[0].1) {
            Ok(ScaleReply::ScaledValues(ScaledValues { status, raw, scaled })) => {
                (Status(status), raw.map(|bytes| bytes.0), scaled)
            }
            other => panic!("{other:?}"),
        }
    };
    let bytes = [0xf4, 0x01, 0, 0, 0x0c, 0xfe, 0xff, 0xff];
    let scaled = convert(&mut raw, "Z:CUBE_X", Some(&bytes), None);
    assert_eq!(scaled, (Status::SUCCESS, None, Some(vec![5.0, -5.0])));
    let primary = convert(&mut raw, "Z:CUBE_X.READING.PRIMARY", Some(&bytes), None);
    assert_eq!(primary, (Status::SUCCESS, None, Some(vec![500.0, -500.0])));
    let unscaled = convert(&mut raw, "Z:CUBE_X.SETTING.RAW", None, Some(&[5.0, -5.0]));
    assert_eq!(unscaled, (Status::SUCCESS, Some(bytes.to_vec()), None));
    for (drf, bytes, numbers, status) in [
        ("Z:NOSUCH", Some(&bytes[..]), None, Status::NOPROP),
        ("Z:CUBE_X.STATUS", Some(&bytes[..4]), None, Status::NOPROP),
        ("M:OUTTMP.STATUS", Some(&bytes[..4]), None, Status::NOSCALE),
        ("Z:CUBE_X", Some(&bytes[..3]), None, Status::INVLEN),
        ("Z:CUBE_X", Some(&[]), None, Status::INVLEN),
        ("Z:CUBE_X", None, Some(&[1e39][..]), Status::SCALEFAIL),
        ("Z:CUBE_X", None, None, Status::BAD_REQUEST),
        ("Z:CUBE_X", Some(&bytes), Some(&[1.0]), Status::BAD_REQUEST),
        ("nonsense", Some(&bytes), None, Status::BAD_REQUEST),
    ] {
        assert_eq!(convert(&mut raw, drf, bytes, numbers), (status, None, None), "{drf}");
    }
    let nonsense = ask_bytes(&mut raw, SCALE, HERE, 0, b"nonsense");
    assert_eq!(nonsense[0].0.status, Status::IVM);
}

#[test]
fn clock_and_state_events_are_reported_as_they_occur() {
    let mut raw = RawConnection::connect_to(ServiceWorld::new(&with_clock()));
    let found = ask(&mut raw, SYNC, EVERYBODY, 0, &SyncRequest::from(SyncSearch { clock: EventSource::TCLK }));
    assert!(matches!(SyncReply::decode(&found[0].1), Ok(SyncReply::SyncPlace(_))));
    let events = ["e,02", "@E,0F,H", "s,Z:CUBE_X,5000,0,>"].map(str::to_owned).to_vec();
    let begun = ask(&mut raw, SYNC, HERE, 1, &SyncRequest::from(RegisterEvents { events }));
    assert_eq!(begun, [], "nothing has occurred yet");
    raw.world.pass(10_400);
    let reports = reports(&mut raw);
    let stream = reports[0].0.message;
    assert!(reports.iter().all(|(header, _)| (header.kind, header.message) == (PacketKind::ReplyWithMore, stream)));
    assert!((0..).zip(&reports).all(|(seq, (_, report))| report.seq == seq));
    let all: Vec<_> = reports.into_iter().flat_map(|(_, report)| report.events).collect();
    let clock = |event: i16| {
        let of = all.iter().filter_map(move |told| Some((told.stamp, told.clock.clone()?)));
        of.filter(move |(_, clock)| clock.event == event).collect::<Vec<_>>()
    };
    let at = |millis: i64| 1_700_000_000_000 + millis;
    let occurred = |event, number| ClockOccurrence { event, number };
    assert_eq!(clock(2), [(at(5001), occurred(2, 1)), (at(10_002), occurred(2, 2))]);
    assert!(clock(0x0f).len() > 100, "{}", clock(0x0f).len());
    let states: Vec<_> = all.iter().filter_map(|told| told.state.clone()).collect();
    assert!(!states.is_empty() && states.iter().all(|StateOccurrence { device_index, .. }| *device_index == 118_001));
    // Readers of the same device on the same event share the request.
    let reader = raw.world.client();
    let entries = raw.world.statistics().entries;
    raw.world.add(&reader, 1, "G:COUNTR@e,02");
    raw.world.start(&reader);
    assert_eq!(raw.world.statistics().entries, entries);
    raw.command(8, &stream.to_be_bytes());
    raw.world.stop(&reader);
    raw.world.pass(0);
    assert_eq!((raw.world.statistics().entries, raw.world.simulator.streams()), (0, 0));
}

#[test]
fn events_that_cannot_be_awaited_are_refused() {
    let mut raw = RawConnection::connect_to(ServiceWorld::new(&with_clock()));
    let refused = |raw: &mut RawConnection, events: &[&str], flags: u16| {
        let events = events.iter().map(|event| (*event).to_owned()).collect();
        let said = ask(raw, SYNC, HERE, flags, &SyncRequest::from(RegisterEvents { events }));
        (said[0].0.kind, said[0].0.status)
    };
    for (events, status) in [
        (&["p,1000"][..], Status::BAD_EVENT),
        (&["e,02", "i"], Status::BAD_EVENT),
        (&["e,02<-LOGGER"], Status::BAD_EVENT),
        (&["s,Z:NOSUCH,1,0,>"], Status::NOPROP),
        (&[], Status::BAD_REQUEST),
        (&["e,02"; 1001], Status::BAD_REQUEST),
    ] {
        assert_eq!(refused(&mut raw, events, 1), (PacketKind::Reply, status), "{events:?}");
    }
    assert_eq!(refused(&mut raw, &["e,02"], 0).1, Status::BAD_REQUEST, "one reply isn't enough");
    let nonsense = ask_bytes(&mut raw, SYNC, HERE, 1, b"nonsense");
    assert_eq!(nonsense[0].0.status, Status::IVM);
    let other = ask(&mut raw, SYNC, HERE, 0, &SyncRequest::from(SyncSearch { clock: EventSource(0x6071) }));
    assert_eq!(other[0].0.status, Status::NO_SUCH);
    assert_eq!(raw.world.statistics().lists, 0);
    // Without a device for it, nothing is known of clock events.
    let mut raw = RawConnection::connect_to(ServiceWorld::new(DEMO));
    assert_eq!(refused(&mut raw, &["e,02"], 1).1, Status::BAD_EVENT);
    let search = SyncRequest::from(SyncSearch { clock: EventSource::TCLK });
    assert_eq!(ask(&mut raw, SYNC, HERE, 0, &search)[0].0.status, Status::NO_SUCH);
}

#[test]
fn tasks_of_other_nodes_convert_values_and_follow_events() {
    let mut world = ServiceWorld::new(&with_clock());
    let said =
        from_node(&mut world, SCALE, EVERYBODY, PacketKind::Request, &encode(&ScaleRequest::from(ScaleSearch {})));
    assert!(matches!(ScaleReply::decode(&said[0].1), Ok(ScaleReply::ScalePlace(_))));
    // A request to all nodes that isn't a search is left to those that it is for.
    let values = ScaleValues { drf_request: "Z:CUBE_X".into(), scaled: Some(vec![5.0]), raw: None };
    let values = encode(&ScaleRequest::from(values));
    assert_eq!(from_node(&mut world, SCALE, EVERYBODY, PacketKind::Request, &values), []);
    let said = from_node(&mut world, SCALE, HERE, PacketKind::Request, &values);
    let converted = ScaledValues { status: 0, raw: Some(Bytes(vec![0xf4, 1, 0, 0])), scaled: None };
    assert_eq!(ScaleReply::decode(&said[0].1), Ok(converted.into()));
    let search = encode(&SyncRequest::from(SyncSearch { clock: EventSource::TCLK }));
    let said = from_node(&mut world, SYNC, EVERYBODY, PacketKind::Request, &search);
    assert!(matches!(SyncReply::decode(&said[0].1), Ok(SyncReply::SyncPlace(_))));
    let events = encode(&SyncRequest::from(RegisterEvents { events: vec!["e,02".into()] }));
    assert_eq!(from_node(&mut world, SYNC, EVERYBODY, PacketKind::MultipleRequest, &events), []);
    assert_eq!(from_node(&mut world, SYNC, HERE, PacketKind::MultipleRequest, &events), []);
    world.datagrams.clear();
    world.pass(5100);
    let said = packets(&world, SYNC);
    let [(header, body)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!((header.kind, header.message), (PacketKind::ReplyWithMore, MESSAGE));
    assert!(matches!(SyncReply::decode(body), Ok(SyncReply::EventReport(_))));
    from_node(&mut world, SYNC, HERE, PacketKind::Cancel, &[]);
    world.pass(0);
    assert_eq!((world.statistics().remotes, world.statistics().lists, world.statistics().entries), (0, 0, 0));
}

#[test]
fn the_device_of_clock_events_has_a_reading() {
    for clock in ["Z:NOSUCH", "M:OUTTMP.STATUS", "G:COUNTR@p,100", "nonsense", "M:OUTTMP<-LOGGER"] {
        let file = format!("{DEMO}\n[names]\nclock = \"{clock}\"\n");
        let mistake = rookery_dpm::database::Database::read(&file).expect_err(clock).to_string();
        assert!(mistake.contains("names") && mistake.contains("clock"), "{mistake}");
    }
}

fn with_clock() -> String {
    format!("{DEMO}\n[names]\nclock = \"G:COUNTR\"\n")
}

fn encode(message: &impl SddMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

fn ask(
    raw: &mut RawConnection,
    task: Rad50,
    node: u16,
    flags: u16,
    message: &impl SddMessage,
) -> Vec<(AcnetHeader, Vec<u8>)> {
    ask_bytes(raw, task, node, flags, &encode(message))
}

/// Sends a request to a task, and returns the packets that arrive at once.
fn ask_bytes(
    raw: &mut RawConnection,
    task: Rad50,
    node: u16,
    flags: u16,
    message: &[u8],
) -> Vec<(AcnetHeader, Vec<u8>)> {
    let (task, node, flags) = (task.0.to_be_bytes(), node.to_be_bytes(), flags.to_be_bytes());
    let answers = raw.command(18, &[&task[..], &node, &flags, &1000u32.to_be_bytes(), message].concat());
    assert_eq!(answers[0][..6], [0, 2, 0, 2, 0, 0]);
    answers[1..].iter().map(|frame| data(frame)).collect()
}

fn data(frame: &[u8]) -> (AcnetHeader, Vec<u8>) {
    assert_eq!(frame[..2], [0, 3]);
    let packet = packet::packets(&frame[2..]).next().expect("a packet");
    (packet.header, packet.body.to_vec())
}

fn reports(raw: &mut RawConnection) -> Vec<(AcnetHeader, EventReport)> {
    let bytes = raw.world.bytes(raw.key);
    let report = |frame: &[u8]| {
        let (header, body) = data(frame);
        match SyncReply::decode(&body) {
            Ok(SyncReply::EventReport(report)) => (header, report),
            other => panic!("{other:?}"),
        }
    };
    frames(&bytes).into_iter().map(report).collect()
}

/// Sends a packet from a task of the first front-end, and returns the packets that leave.
fn from_node(
    world: &mut ServiceWorld,
    task: Rad50,
    server: u16,
    kind: PacketKind,
    body: &[u8],
) -> Vec<(AcnetHeader, Vec<u8>)> {
    world.datagrams.clear();
    let header =
        AcnetHeader { kind, status: Status::SUCCESS, server, client: 0x0c23, task, task_id: 7, message: MESSAGE };
    let now = world.moment();
    world.dpm.datagram(front_end_address(), &mut header.datagram(body), now);
    world.pass(0);
    packets(world, task)
}

fn packets(world: &ServiceWorld, task: Rad50) -> Vec<(AcnetHeader, Vec<u8>)> {
    let mut all = Vec::new();
    for datagram in &world.datagrams {
        let mut datagram = datagram.clone();
        packet::swap(&mut datagram);
        let of_task = packet::packets(&datagram).filter(|packet| packet.header.task == task);
        all.extend(of_task.map(|packet| (packet.header, packet.body.to_vec())));
    }
    all
}

/// The id of a request from another node.
const MESSAGE: u16 = 0x6001;
