//! Which reply the bytes of a front-end make.

use rookery_dpm::database::Database;
use rookery_dpm::drf::Request;
use rookery_dpm::sdd::reply::{self, Reply};
use rookery_dpm::show::{self, Sample};
use rookery_dpm::status::Status;

const DEMO: &str = include_str!("../src/database/demo.toml");

#[test]
fn readings_are_scalars_arrays_texts_or_bytes() {
    assert_eq!(data(&shown("M:OUTTMP", &12_960i16.to_le_bytes())), 72.5);
    assert_eq!(data(&shown("M:OUTTMP.PRIMARY", &12_960i16.to_le_bytes())), 4.05);
    let Reply::Raw(raw) = shown("M:OUTTMP.RAW", &[0xd2, 0x04]) else { panic!("bytes") };
    assert_eq!(raw.data.0, [0xd2, 0x04]);
    let Reply::ScalarArray(array) = shown("B:ARRAY[0:1]", &[0, 0x40, 0, 0xc0]) else { panic!("an array") };
    assert_eq!(array.data, [5.0, -5.0]);
    let Reply::Text(text) = shown("G:TEXT", b"HELLO\0\0\0\0\0\0\0\0\0\0\0") else { panic!("a text") };
    assert_eq!(text.data, "HELLO");
}

#[test]
fn times_and_warnings_are_kept() {
    let Reply::Scalar(scalar) = shown("M:OUTTMP", &[0, 0]) else { panic!("a number") };
    assert_eq!((scalar.timestamp, scalar.cycle, scalar.status), (1_700_000_000_123, 7, Status::new(17, 2).0));
}

#[test]
fn status_has_the_attributes_of_the_device() {
    let Reply::BasicStatus(status) = shown("M|OUTTMP", &[0b01011, 0]) else { panic!("a status") };
    assert_eq!(
        (status.on, status.ready, status.remote, status.ramp),
        (Some(true), Some(true), Some(false), Some(false))
    );
    assert_eq!(data(&shown("M|OUTTMP.ON", &[0, 0])), 0.0);
    assert_eq!(data(&shown("M|OUTTMP.BIT_VALUE", &[0x34, 0x12])), f64::from(0x1234));
    let Reply::TextArray(values) = shown("M|OUTTMP.BIT_VALUES", &[4, 0]) else { panic!("texts") };
    assert_eq!(values.data, ["No", "No", "Remote"]);
}

#[test]
fn alarm_blocks_are_scaled_as_readings() {
    // Minimum and maximum in two bytes, enabled: 40 and 90 degrees.
    let mut block = vec![0x21, 0x02];
    block.extend(i32::to_le_bytes(2560));
    block.extend(i32::to_le_bytes(18560));
    block.extend([0, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
    let Reply::AnalogAlarm(alarm) = shown("M@OUTTMP", &block) else { panic!("an alarm") };
    assert_eq!((alarm.minimum, alarm.maximum, alarm.tries_needed), (40.0, 90.0, 3));
    assert!(alarm.alarm_enable && !alarm.alarm_status);
    assert_eq!(data(&shown("M@OUTTMP.NOM", &block)), 65.0);
    assert_eq!(data(&shown("M@OUTTMP.TOL", &block)), 25.0);
    assert_eq!(data(&shown("M@OUTTMP.RAW_MAX", &block)), 18560.0);
    let text = |flags: u8| {
        let mut changed = block.clone();
        changed[0] = flags;
        match shown("M@OUTTMP.TEXT", &changed) {
            Reply::Text(text) => text.data,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([text(0x20), text(0x21), text(0x23)], ["BYPASSED", "", "TEMPERATURE OUT OF RANGE"]);
    let Reply::DigitalAlarm(alarm) = shown("M$OUTTMP", &block) else { panic!("an alarm") };
    assert_eq!((alarm.nominal, alarm.mask), (2560, 18560));
}

#[test]
fn what_cannot_be_shown_is_a_status() {
    let status = |reply: Reply| match reply {
        Reply::Status(status) => Status(status.status),
        other => panic!("{other:?}"),
    };
    assert_eq!(status(shown("B:ARRAY[0:1]", &[0, 0, 0])), Status::BAD_FRAMING);
    assert_eq!(status(shown("M@OUTTMP", &[0; 19])), Status::INVLEN);
    assert_eq!(status(shown("G:TEXT.SCALED", &[])), Status::BAD_FRAMING);
    let mut failed = sample(&[]);
    failed.status = Status::UTIME;
    assert_eq!(status(reply_for("M:OUTTMP", &failed)), Status::UTIME);
}

fn shown(request: &str, bytes: &[u8]) -> Reply {
    reply_for(request, &sample(bytes))
}

fn reply_for(request: &str, sample: &Sample) -> Reply {
    let database = Database::read(DEMO).expect("a good file");
    let target = database.find(&Request::parse(request).expect("a request")).expect("a target");
    show::reply(&target.device, target.form, sample)
}

fn sample(bytes: &[u8]) -> Sample {
    Sample { status: Status::new(17, 2), bytes: bytes.into(), timestamp: 1_700_000_000_123, cycle: 7 }
}

fn data(reply: &Reply) -> f64 {
    match reply {
        Reply::Scalar(reply::Scalar { data, .. }) => *data,
        other => panic!("{other:?}"),
    }
}
