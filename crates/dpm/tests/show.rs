//! The replies that are made of a front-end's bytes.

use rookery_dpm::blocks::{AlarmBlock, Attribute, ControlCommand, StatusBits, order};
use rookery_dpm::database::Database;
use rookery_dpm::drf::Request;
use rookery_dpm::scaling::{CommonTransform, Scaling};
use rookery_dpm::sdd::reply::{self, Reply};
use rookery_dpm::show::{self, Sample};
use rookery_dpm::status::Status;

const DEMO: &str = include_str!("../src/database/demo.toml");

#[test]
fn readings_are_scalars_arrays_texts_or_bytes() {
    assert_eq!(data(&show("M:OUTTMP", &12_960i16.to_le_bytes())), 72.5);
    assert_eq!(data(&show("M:OUTTMP.PRIMARY", &12_960i16.to_le_bytes())), 4.05);
    let Reply::Raw(raw) = show("M:OUTTMP.RAW", &[0xd2, 0x04]) else { panic!("bytes") };
    assert_eq!(raw.data.0, [0xd2, 0x04]);
    let Reply::ScalarArray(array) = show("B:ARRAY[0:1]", &[0, 0x40, 0, 0xc0]) else { panic!("an array") };
    assert_eq!(array.data, [5.0, -5.0]);
    let Reply::Text(text) = show("G:TEXT", b"HELLO\0\0\0\0\0\0\0\0\0\0\0") else { panic!("a text") };
    assert_eq!(text.data, "HELLO");
}

#[test]
fn times_and_warnings_are_kept() {
    let Reply::Scalar(scalar) = show("M:OUTTMP", &[0, 0]) else { panic!("a number") };
    assert_eq!((scalar.timestamp, scalar.cycle, scalar.status), (1_700_000_000_123, 7, Status::new(17, 2).0));
}

#[test]
fn status_has_the_attributes_of_the_device() {
    let Reply::BasicStatus(status) = show("M|OUTTMP", &[0b01011, 0]) else { panic!("a status") };
    assert_eq!(
        (status.on, status.ready, status.remote, status.ramp),
        (Some(true), Some(true), Some(false), Some(false))
    );
    assert_eq!(data(&show("M|OUTTMP.ON", &[0, 0])), 0.0);
    assert_eq!(data(&show("M|OUTTMP.BIT_VALUE", &[0x34, 0x12])), f64::from(0x1234));
    let Reply::TextArray(values) = show("M|OUTTMP.BIT_VALUES", &[4, 0]) else { panic!("texts") };
    assert_eq!(values.data, ["No", "No", "Remote"]);
    let Reply::TextArray(extended) = show("M|OUTTMP.EXTENDED_TEXT", &[1, 0]) else { panic!("texts") };
    assert_eq!(extended.data, ["On", "Yes", "Ready", "No", "Remote", "Local"]);
    // On, ready, remote, positive; the last attribute has no characters.
    for (word, expected) in [(0b01011, "..L+ "), (0b10100, "*TR- "), (0, "*TL- ")] {
        let Reply::Text(text) = show("M|OUTTMP.TEXT", &[word, 0]) else { panic!("a text") };
        assert_eq!(text.data, expected);
    }
}

#[test]
fn every_attribute_is_a_mask_a_match_and_possibly_an_inversion() {
    let of = |mask, matching, invert, word| Attribute { mask, matching, invert, ..Attribute::default() }.of(word);
    assert_eq!([of(6, 2, false, 2), of(6, 2, false, 6), of(6, 2, false, 0x1002)], [true, false, true]);
    assert_eq!([of(6, 2, true, 2), of(6, 2, true, 6)], [false, true]);
    let attribute = Attribute { mask: 1, matching: 1, ..Attribute::default() };
    let none = StatusBits::default();
    assert_eq!(StatusBits { ramp: Some(Attribute { yes: Some('r'), ..attribute }), ..none }.text(1), "    r");
    assert_eq!(none.text(u32::MAX), "     ");
}

#[test]
fn alarm_blocks_are_scaled_as_readings() {
    // Minimum and maximum in two bytes, enabled: 40 and 90 degrees.
    let mut block = vec![0x21, 0x02];
    block.extend(i32::to_le_bytes(2560));
    block.extend(i32::to_le_bytes(18560));
    block.extend([0, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
    let Reply::AnalogAlarm(alarm) = show("M@OUTTMP", &block) else { panic!("an alarm") };
    assert_eq!((alarm.minimum, alarm.maximum, alarm.tries_needed), (40.0, 90.0, 3));
    assert!(alarm.alarm_enable && !alarm.alarm_status);
    assert_eq!(data(&show("M@OUTTMP.NOM", &block)), 65.0);
    assert_eq!(data(&show("M@OUTTMP.TOL", &block)), 25.0);
    assert_eq!(data(&show("M@OUTTMP.RAW_MAX", &block)), 18560.0);
    let text = |flags: u8| {
        let mut changed = block.clone();
        changed[0] = flags;
        match show("M@OUTTMP.TEXT", &changed) {
            Reply::Text(text) => text.data,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([text(0x20), text(0x21), text(0x23)], ["BYPASSED", "", "TEMPERATURE OUT OF RANGE"]);
    let Reply::DigitalAlarm(alarm) = show("M$OUTTMP", &block) else { panic!("an alarm") };
    assert_eq!((alarm.nominal, alarm.mask), (2560, 18560));
}

#[test]
fn every_field_of_an_alarm_block_is_shown() {
    // Enabled, in alarm, abort, abort inhibited; two bytes; nominal and tolerance; one try of
    // three; a clock event.
    let mut block = vec![0x2f, 0x00];
    block.extend([0x00, 0x19, 0xff, 0xff]);
    block.extend([0x00, 0x05, 0xff, 0xff]);
    block.extend([1, 3, 0x0f, 0x80, 0, 0, 0, 0, 0, 0]);
    // 6400 ± 1280 raw are 2 ± 0.4 volts, 52 ± 4 degrees.
    for (field, expected) in [
        ("MIN", 48.0),
        ("MAXIMUM", 56.0),
        ("NOM", 52.0),
        ("TOLERANCE", 4.0),
        ("RAW_MIN", 5120.0),
        ("RAWMAX", 7680.0),
        ("RAW_NOM", 6400.0),
        ("RAW_TOL", 1280.0),
        ("ALARM_ENABLE", 1.0),
        ("STATUS", 1.0),
        ("ABORT", 1.0),
        ("ABORT_INHIBIT", 1.0),
        ("TRIES_NOW", 1.0),
        ("TRIES_NEEDED", 3.0),
        ("FTD", f64::from(0x800f)),
        ("FLAGS", f64::from(0x2f)),
    ] {
        let shown = data(&show(&format!("M:OUTTMP.ANALOG.{field}"), &block));
        assert!((shown - expected).abs() < 1e-9, "{field}: {shown}");
    }
    for (field, expected) in [("NOM", 6400.0), ("MASK", 1280.0), ("ENABLE", 1.0), ("ALARM_STATUS", 1.0), ("ABORT", 1.0)]
    {
        assert_eq!(data(&show(&format!("M:OUTTMP.DIGITAL.{field}"), &block)), expected, "{field}");
    }
    // Values of one byte and of four, limits in percent, and a write that keeps the front-end's
    // reserved bytes.
    for (flags, low, high, limits) in [
        (0x0001u16, [0xf6, 9, 9, 9], [4, 9, 9, 9], (-14.0, -6.0)),
        (0x0041, [0, 0, 1, 0], [0, 0, 0, 0], (65536.0, 65536.0)),
        (0x0121, [200, 0, 0, 0], [10, 0, 0, 0], (180.0, 220.0)),
        (0x0221, [0xf6, 0xff, 0, 0], [30, 0, 0, 0], (-10.0, 30.0)),
    ] {
        let mut bytes = [7; 20];
        bytes[..2].copy_from_slice(&flags.to_le_bytes());
        bytes[2..6].copy_from_slice(&low);
        bytes[6..10].copy_from_slice(&high);
        let block = AlarmBlock::read(&bytes).expect("20 bytes");
        assert_eq!((block.limits().minimum, block.limits().maximum), limits, "{flags:x}");
        let mut again = bytes;
        block.write(&mut again);
        assert_eq!(again, bytes);
    }
}

#[test]
fn every_command_has_its_number() {
    let names = ["RESET", "ON", "OFF", "POSITIVE", "NEGATIVE", "RAMP", "DC", "LOCAL", "REMOTE", "TRIP"];
    let commands: Vec<ControlCommand> = names
        .iter()
        .map(|name| {
            let order = order(name).expect("a command");
            ControlCommand { order, value: 100 + u32::from(order), short: (*name).into(), long: format!("do {name}") }
        })
        .collect();
    for (number, name) in (0u32..).zip(names) {
        let value = Ok(100 + number);
        assert_eq!(ControlCommand::by_number(&commands, f64::from(number)).map(|command| command.value), value);
        assert_eq!(ControlCommand::by_text(&commands, &name.to_lowercase()).map(|command| command.value), value);
        assert_eq!(ControlCommand::by_text(&commands, &format!("DO {name}")).map(|command| command.value), value);
    }
    assert_eq!(ControlCommand::by_number(&commands, 10.0), Err(Status::SCALEFAIL));
    assert_eq!(ControlCommand::by_number(&commands, 0.5), Err(Status::SCALEFAIL));
    assert_eq!(order("EXPLODE"), None);
}

#[test]
fn texts_are_digits_characters_or_names_both_ways() {
    let kind = |common: u16, constant: f64| {
        let common = CommonTransform { index: common, constants: vec![constant], ..CommonTransform::default() };
        Scaling { primary: 68, input: 4, common }.text()
    };
    let names = vec![(1, "ONE".to_owned()), (-1, "LESS".to_owned()), (300, "FAR".to_owned())];
    for common in [60, 84] {
        for (constant, bytes, text) in [
            (2.0, &[0x34, 0x12][..], "1234"),
            (3.0, &[0xef, 0xcd, 0xab, 0x00], "00ABCDEF"),
            (8.0, b"AB\0\0", "AB"),
            (12.0, &[1, 0], "ONE"),
            (288.0, &[0xff, 0xff], "LESS"),
            (289.0, &[0x2c, 1, 0, 0], "FAR"),
        ] {
            let kind = kind(common, constant).expect("a text");
            assert_eq!(kind.read(bytes, &names).as_deref(), Ok(text), "{constant}");
            assert_eq!(kind.write(text, bytes.len(), &names).as_deref(), Ok(bytes), "{constant}");
        }
        // Only the number of the time of day is known.
        assert_eq!(kind(common, 472.0), None);
    }
    let kind = |constant| kind(60, constant).expect("a text");
    assert_eq!(kind(2.0).write("12345", 2, &names), Err(Status::SCALEFAIL));
    assert_eq!(kind(3.0).write("no number", 4, &names), Err(Status::SCALEFAIL));
    assert_eq!(kind(8.0).write("too long", 4, &names), Err(Status::SCALEFAIL));
    assert_eq!(kind(8.0).write("€", 4, &names), Err(Status::SCALEFAIL));
    assert_eq!(kind(12.0).read(&[7, 0], &names), Err(Status::SCALEFAIL));
    assert_eq!(kind(12.0).write("TWO", 2, &names), Err(Status::SCALEFAIL));
    assert_eq!(kind(12.0).write("LESS", 1, &names).as_deref(), Ok(&[0xff][..]));
    assert_eq!(kind(12.0).write("FAR", 1, &names), Err(Status::SCALEFAIL), "300 is not 44");
}

#[test]
fn values_that_cannot_be_shown_are_statuses() {
    let status = |reply: Reply| match reply {
        Reply::Status(status) => Status(status.status),
        other => panic!("{other:?}"),
    };
    assert_eq!(status(show("B:ARRAY[0:1]", &[0, 0, 0])), Status::BAD_FRAMING);
    assert_eq!(status(show("M@OUTTMP", &[0; 19])), Status::INVLEN);
    assert_eq!(status(show("G:TEXT.SCALED", &[])), Status::BAD_FRAMING);
    let mut failed = sample(&[]);
    failed.status = Status::UTIME;
    assert_eq!(status(reply_for("M:OUTTMP", &failed)), Status::UTIME);
}

fn show(request: &str, bytes: &[u8]) -> Reply {
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
