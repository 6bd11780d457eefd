//! Clients by gRPC, as the service sees them: requests go in, messages of a stream come out.

use prost::Message;
use rookery_dpm::grpc::generated::common::{device, status};
use rookery_dpm::grpc::generated::services::daq::{ReadingReply, Readings, reading_reply};
use rookery_dpm::service::{ClientKey, ServiceOptions};
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::ServiceWorld;

#[test]
fn single_readings_are_all_answered_and_end_the_stream() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    let key = read(
        &mut world,
        &["M:OUTTMP@I", "B:ARRAY[0:3]@I", "Z:NOSUCH@I", "M|OUTTMP@I", "#ROLE:x", "M:OUTTMP@", "Z:CUBE_X.SETTING@N"],
    );
    assert!(world.dpm.is_served(key));
    let messages = messages(&world.bytes(key));
    let of = |index: u64| messages.iter().filter(|message| message.0 == index).collect::<Vec<_>>();
    assert!(matches!(of(0)[..], [(_, DaqOutcome::Scalar(degrees))] if (69.0..76.0).contains(degrees)));
    assert!(matches!(&of(1)[..], [(_, DaqOutcome::Array(values))] if values.len() == 4));
    assert!(matches!(of(2)[..], [(_, DaqOutcome::Status(status))] if *status == Status::NOPROP));
    assert!(matches!(of(3)[..], [(_, DaqOutcome::Other)]));
    assert!(matches!(of(4)[..], [(_, DaqOutcome::Status(status))] if *status == Status::BAD_REQUEST));
    assert!(matches!(of(5)[..], [(_, DaqOutcome::Status(status))] if *status == Status::BAD_EVENT));
    assert_eq!(of(6).len(), 0);
}

#[test]
fn the_message_of_a_reading_is_the_recorded_one() {
    let database = DEMO.replace("shape = \"sine\"\nlow = 12000", "shape = \"constant\"\nlow = 12960");
    let mut world = ServiceWorld::new(&database);
    let key = read(&mut world, &["M:OUTTMP@I"]);
    // The recorded message, except for its time: 1 700 000 000 seconds, without a fraction.
    let hex: String = world.bytes(key).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "0000000019121712150a060880e2cfaa0612090900000000002052401a00");
}

#[test]
fn subscriptions_share_the_reading_with_clients_of_other_protocols() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@p,500");
    world.start(&client);
    let keys: Vec<_> = (0..3).map(|_| read(&mut world, &["G:COUNTR@p,500"])).collect();
    world.pass(2000);
    assert_eq!(world.simulator.requests(), 1);
    for key in &keys {
        assert!(!world.dpm.is_served(*key));
        let values = scalars(&messages(&world.bytes(*key)));
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0, 5.0]);
        world.dpm.disconnect(*key);
    }
    world.pass(500);
    assert_eq!((world.statistics().clients, world.statistics().entries), (1, 1));
}

#[test]
fn a_temporary_failure_does_not_end_the_stream() {
    let mut world = ServiceWorld::new(DEMO);
    let key = read(&mut world, &["M:OUTTMP@p,1000"]);
    world.cut = true;
    world.pass(10_000);
    let told = messages(&world.bytes(key));
    // "Status" would mean that no readings follow.
    assert!(told.iter().any(|message| message.1 == DaqOutcome::Failed(Status::UTIME)), "{told:?}");
    assert!(!told.iter().any(|message| matches!(message.1, DaqOutcome::Status(_))));
    world.cut = false;
    world.pass(10_000);
    assert!(!scalars(&messages(&world.bytes(key))).is_empty());
    let key = read(&mut world, &["G:SILENT@I"]);
    world.pass(6000);
    assert_eq!(messages(&world.bytes(key)), [(0, DaqOutcome::Status(Status::UTIME))]);
    assert!(world.dpm.is_served(key));
}

#[test]
fn history_and_plots_are_many_readings_of_one_message() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    world.pass(10_000);
    let key = read(&mut world, &["M:OUTTMP<-LOGGERDURATION:5000", "B:ARRAY[0:3]<-LOGGERDURATION:7000"]);
    assert!(world.dpm.is_served(key));
    let told = messages(&world.bytes(key));
    assert_eq!(
        told.iter().map(|(index, outcome)| (*index, outcome.clone())).collect::<Vec<_>>()[..2],
        [(0, DaqOutcome::Many(6)), (0, DaqOutcome::Many(0))]
    );
    assert!(matches!(&told[2..], [(1, DaqOutcome::Array(_)), (1, DaqOutcome::Array(_)), (1, DaqOutcome::Many(0))]));
    let key = read(&mut world, &["M:OUTTMP@p,100H"]);
    world.pass(1000);
    let told = messages(&world.bytes(key));
    assert_eq!(told.iter().filter(|message| matches!(message.1, DaqOutcome::Many(20 | 21))).count(), 5, "{told:?}");
}

#[test]
fn a_client_that_does_not_read_loses_readings_and_is_told() {
    let options = ServiceOptions { queue: 5000, ..ServiceOptions::default() };
    let mut world = ServiceWorld::with(DEMO, options);
    let key = world.dpm.connect();
    world.stuck.push(key);
    let now = world.moment();
    world.dpm.read(key, &["G:COUNTR@p,100".to_owned()], now).expect("it is taken");
    world.pass(0);
    world.pass(60_000);
    assert!(world.statistics().dropped > 400);
    world.stuck.clear();
    world.read(key);
    world.pass(1000);
    let told = messages(&world.bytes(key));
    assert!(told.iter().any(|message| message.1 == DaqOutcome::Failed(Status::REPLY_OVERFLOW)));
    assert!(scalars(&told).last().is_some_and(|count| *count > 600.0), "it reads on: {:?}", told.last());
}

#[derive(Debug, Clone, PartialEq)]
enum DaqOutcome {
    Scalar(f64),
    Array(Vec<f64>),
    Other,
    /// A reading without a value.
    Failed(Status),
    Many(usize),
    /// A status in place of readings.
    Status(Status),
}

fn read(world: &mut ServiceWorld, requests: &[&str]) -> ClientKey {
    let key = world.dpm.connect();
    let requests: Vec<String> = requests.iter().map(|request| (*request).to_owned()).collect();
    let now = world.moment();
    world.dpm.read(key, &requests, now).expect("it is taken");
    world.pass(0);
    key
}

fn scalars(messages: &[(u64, DaqOutcome)]) -> Vec<f64> {
    let scalar = |message: &(u64, DaqOutcome)| match message.1 {
        DaqOutcome::Scalar(value) => Some(value),
        _ => None,
    };
    messages.iter().filter_map(scalar).collect()
}

/// Returns the messages of a stream with the numbers of their requests.
fn messages(mut bytes: &[u8]) -> Vec<(u64, DaqOutcome)> {
    let mut messages = Vec::new();
    while let Some(([0, length @ ..], rest)) = bytes.split_first_chunk::<5>() {
        let (message, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        messages.push(message_of(message));
        bytes = rest;
    }
    assert!(bytes.is_empty());
    messages
}

fn message_of(message: &[u8]) -> (u64, DaqOutcome) {
    let reply = ReadingReply::decode(message).expect("a message");
    let outcome = match reply.value.expect("readings or a status") {
        reading_reply::Value::Readings(readings) => readings_of(readings),
        reading_reply::Value::Status(told) => DaqOutcome::Status(status(&told)),
    };
    (reply.index.into(), outcome)
}

fn readings_of(Readings { reading }: Readings) -> DaqOutcome {
    use device::value::Value;
    let [reading] = &reading[..] else { return DaqOutcome::Many(reading.len()) };
    assert!(reading.timestamp.is_some());
    let told = reading.status.as_ref().map(status).expect("a status");
    match reading.data.as_ref().map(|data| data.value.as_ref().expect("a value")) {
        None => DaqOutcome::Failed(told),
        Some(Value::Scalar(number)) => DaqOutcome::Scalar(*number),
        Some(Value::ScalarArr(array)) => DaqOutcome::Array(array.value.clone()),
        Some(_) => DaqOutcome::Other,
    }
}

fn status(told: &status::Status) -> Status {
    Status::new(told.facility_code as u8, told.status_code as i8)
}
