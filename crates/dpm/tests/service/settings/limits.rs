//! Values that can't be represented, and values that the device file does not allow, are refused
//! before anything is sent.

use rookery_dpm::acnet::sets32;
use rookery_dpm::database::Database;
use rookery_dpm::sdd::request::ApplySettings;
use rookery_dpm::sdd::{Bytes, RawSetting, ScaledSetting, TextSetting};
use rookery_dpm::status::Status;

use super::*;

#[test]
fn floats_that_would_be_infinite_never_reach_the_front_end() {
    let (mut world, _) = world_of(LIMITED);
    let client = operator(&mut world, "everything");
    for (ref_id, drf) in [
        (16, "F:IEEE.SETTING@N"),
        (17, "F:IEEE.SETTING.PRIMARY@N"),
        (18, "F:IEEE.SETTING.RAW@N"),
        (22, "F:VAX.SETTING@N"),
        (23, "F:TABLE.SETTING[]@N"),
        (2, "F:WORD.SETTING@N"),
    ] {
        world.add(&client, ref_id, drf);
    }
    world.start(&client);
    world.replies(&client);
    world.datagrams.clear();
    for number in [1e39, -1e39, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let settings = [(16, number), (17, number), (22, number), (2, number)];
        let refused: Vec<_> = settings.iter().map(|(ref_id, _)| (*ref_id, Status::SCALEFAIL)).collect();
        assert_eq!(apply(&mut world, &client, &settings), refused, "{number}");
        let table = ScaledSetting { ref_id: 23, data: vec![1.0, number, 3.0] };
        let settings = ApplySettings { scaled_array: Some(vec![table]), ..ApplySettings::default() };
        assert_eq!(apply_all(&mut world, &client, settings), [(23, Status::SCALEFAIL)]);
    }
    // A word of two bytes with a sign: 40 000 would be read as -25 536.
    assert_eq!(apply(&mut world, &client, &[(2, 40_000.0)]), [(2, Status::SCALEFAIL)]);
    for float in [f32::INFINITY, f32::NAN, f32::NEG_INFINITY] {
        assert_eq!(raw(&mut world, &client, 18, &float.to_le_bytes()), [(18, Status::SCALEFAIL)]);
    }
    assert_eq!(world.datagrams.len(), 0, "nothing was sent");
    let settings = [(16, 1e38), (22, 8e37), (2, -32_768.0)];
    assert!(apply(&mut world, &client, &settings).iter().all(|answer| answer.1 == Status::SUCCESS));
    assert_eq!(raw(&mut world, &client, 18, &1.5f32.to_le_bytes()), [(18, Status::SUCCESS)]);
}

#[test]
fn limits_of_the_device_file_hold_for_numbers_primary_units_bytes_and_texts() {
    let (mut world, _) = world_of(LIMITED);
    let client = operator(&mut world, "everything");
    for (ref_id, drf) in [
        (1, "L:HEATER.SETTING@N"),
        (2, "L:HEATER.SETTING.PRIMARY@N"),
        (3, "L:HEATER.SETTING.RAW@N"),
        (4, "L:STEPS.SETTING@N"),
        (5, "L:STEPS.SETTING.RAW@N"),
        (6, "L:MODE.SETTING@N"),
        (7, "L:MODE.SETTING.RAW@N"),
        (8, "L:TABLE.SETTING[]@N"),
        (9, "L:TABLE.SETTING{1:2}.RAW@N"),
        (10, "L:MODE.CONTROL@N"),
        (11, "L:MODE.CONTROL.RAW@N"),
    ] {
        world.add(&client, ref_id, drf);
    }
    world.start(&client);
    world.replies(&client);
    world.datagrams.clear();
    // A raw value is a hundredth: -5 to 7.3 are -500 to 730.
    for (ref_id, number) in [(1, -5.01), (1, 7.31), (1, 1e9), (2, -501.0), (2, 731.0), (4, 2.0), (4, 1.250001)] {
        assert_eq!(apply(&mut world, &client, &[(ref_id, number)]), [(ref_id, Status::RANGE)], "{number}");
    }
    for (ref_id, word) in [(3, -501i16), (3, 731), (3, i16::MAX), (5, 124), (5, 0), (7, 9), (11, 5)] {
        assert_eq!(raw(&mut world, &client, ref_id, &word.to_le_bytes()), [(ref_id, Status::RANGE)], "{word}");
    }
    for (ref_id, word) in [(6, "service"), (10, "RESET")] {
        assert_eq!(text(&mut world, &client, ref_id, word), [(ref_id, Status::RANGE)], "{word}");
    }
    let table = |data: &[f64]| ApplySettings {
        scaled_array: Some(vec![ScaledSetting { ref_id: 8, data: data.to_vec() }]),
        ..ApplySettings::default()
    };
    assert_eq!(apply_all(&mut world, &client, table(&[0.0, 10.0, 10.5])), [(8, Status::RANGE)]);
    // Parts of two elements, whose resulting numbers are unknown.
    assert_eq!(raw(&mut world, &client, 9, &[0, 0]), [(9, Status::BAD_FRAMING)]);
    assert_eq!(world.datagrams.len(), 0, "nothing was sent");
    for (ref_id, number) in [(1, -5.0), (1, 7.3), (2, -500.0), (2, 730.0), (4, 1.25), (4, 3.5)] {
        assert_eq!(apply(&mut world, &client, &[(ref_id, number)]), [(ref_id, Status::SUCCESS)], "{number}");
    }
    for (ref_id, word) in [(3, -500i16), (3, 730), (5, 125), (7, 1), (11, 2)] {
        assert_eq!(raw(&mut world, &client, ref_id, &word.to_le_bytes()), [(ref_id, Status::SUCCESS)], "{word}");
    }
    for (ref_id, word) in [(6, "auto"), (10, "ON")] {
        assert_eq!(text(&mut world, &client, ref_id, word), [(ref_id, Status::SUCCESS)], "{word}");
    }
    assert_eq!(apply_all(&mut world, &client, table(&[0.0, 10.0, -10.0])), [(8, Status::SUCCESS)]);
}

#[test]
fn limits_of_an_analog_alarm_hold_for_parts_and_whole_blocks() {
    let (mut world, _) = world_of(LIMITED);
    let client = operator(&mut world, "everything");
    for (ref_id, drf) in [
        (1, "L:HEATER.ANALOG.MIN@N"),
        (2, "L:HEATER.ANALOG.MAX@N"),
        (3, "L:HEATER.ANALOG{0:20}.RAW@N"),
        (4, "L:HEATER.ANALOG.RAW_MAX@N"),
    ] {
        world.add(&client, ref_id, drf);
    }
    world.start(&client);
    world.replies(&client);
    let block = |minimum: i32, maximum: i32| {
        [&[0x21, 0x02][..], &minimum.to_le_bytes(), &maximum.to_le_bytes(), &[0, 1], &[0; 8]].concat()
    };
    assert_eq!(raw(&mut world, &client, 3, &block(-1000, 1000)), [(3, Status::SUCCESS)]);
    world.datagrams.clear();
    assert_eq!(raw(&mut world, &client, 3, &block(-1001, 1000)), [(3, Status::RANGE)]);
    assert_eq!(raw(&mut world, &client, 3, &block(0, 20_000)), [(3, Status::RANGE)]);
    assert_eq!(world.datagrams.len(), 0, "nothing was sent");
    let sets =
        |world: &ServiceWorld| headers(&world.datagrams).iter().filter(|header| header.task == sets32::TASK).count();
    for (ref_id, number) in [(1, -10.5), (2, 11.0), (4, 1001.0)] {
        assert_eq!(apply(&mut world, &client, &[(ref_id, number)]), [(ref_id, Status::RANGE)], "{number}");
    }
    assert_eq!(sets(&world), 0, "a block is read, and not set");
    assert_eq!(apply(&mut world, &client, &[(1, -9.0), (2, 10.0)]), [(1, Status::SUCCESS), (2, Status::SUCCESS)]);
    assert_eq!(sets(&world), 1);
}

#[test]
fn limits_that_make_no_sense_are_mistakes_with_a_line() {
    let file = |property: &str, keys: &str| {
        format!(
            "[[node]]\nname = 'FE'\naddress = '0c23'\nsocket = '127.0.0.1:6801'\nprotocol = 'RETDAT'\n\n\
             [[device]]\nindex = 1\nname = 'M:A'\n[device.{property}]\nnode = 'FE'\nssdn = '0000000000000001'\n{keys}\n"
        )
    };
    for (property, keys, line, field) in [
        ("setting", "primary = 0\nmin = 2.0\nmax = 1.0", 15, "device.setting.max"),
        ("setting", "primary = 0\nmin = nan", 14, "device.setting.min"),
        ("setting", "primary = 0\nmax = inf", 14, "device.setting.max"),
        ("setting", "primary = 0\nmax = 1.0\nallowed = [0.5, 2.0]", 15, "device.setting.allowed"),
        ("setting", "primary = 0\nallowed = []", 14, "device.setting.allowed"),
        ("reading", "primary = 0\nmin = 1.0", 14, "device.reading.min"),
        ("digital", "min = 1.0", 13, "device.digital.min"),
        ("analog", "min = 1.0\nmax = 0.0", 14, "device.analog.max"),
    ] {
        let mistake = Database::read(&file(property, keys)).expect_err(keys);
        assert_eq!((mistake.line, mistake.field.as_str()), (line, field), "{mistake}");
    }
    assert!(Database::read(&file("setting", "primary = 0\nmin = 1\nmax = 2\nallowed = [1, 2]")).is_ok());
}

fn raw(world: &mut ServiceWorld, client: &TcpClient, ref_id: i64, bytes: &[u8]) -> Vec<(i64, Status)> {
    let setting = RawSetting { ref_id, data: Bytes(bytes.to_vec()) };
    apply_all(world, client, ApplySettings { raw_array: Some(vec![setting]), ..ApplySettings::default() })
}

fn text(world: &mut ServiceWorld, client: &TcpClient, ref_id: i64, text: &str) -> Vec<(i64, Status)> {
    let setting = TextSetting { ref_id, data: vec![text.into()] };
    apply_all(world, client, ApplySettings { text_array: Some(vec![setting]), ..ApplySettings::default() })
}

const LIMITED: &str = include_str!("../limits.toml");
