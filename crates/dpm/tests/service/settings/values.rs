//! The results of settings: bytes for front-ends, and a status for each.

use rookery_dpm::acnet::sets32;
use rookery_dpm::rad50::Rad50;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::ApplySettings;
use rookery_dpm::sdd::{Bytes, RawSetting, ScaledSetting, TextSetting};
use rookery_dpm::status::Status;

use super::*;
use crate::world::{numbers, statuses};

#[test]
fn every_setting_is_answered_once_in_the_order_raw_scaled_text() {
    let (mut world, _) = world();
    let client = operator(&mut world, "everything");
    for (ref_id, drf) in [
        (1, "Z:CUBE_X.SETTING@N"),
        (2, "B:ARRAY.SETTING[0:1]@N"),
        (3, "Z:CUBE_X.SETTING.RAW@N"),
        (4, "Z:CUBE_X.CONTROL@N"),
        (5, "G:TEXT.SETTING@N"),
        (6, "Z:NOSUCH.SETTING@N"),
        (7, "not a request"),
        (8, "Z:CUBE_X.READING@N"),
        (9, "B:ARRAY.SETTING[2:3].PRIMARY@N"),
    ] {
        world.add(&client, ref_id, drf);
    }
    world.start(&client);
    let started = world.replies(&client);
    assert_eq!(statuses(&started, 6), [Status::NOPROP]);
    let scaled = |ref_id, data: &[f64]| ScaledSetting { ref_id, data: data.to_vec() };
    let text = |ref_id, data: &str| TextSetting { ref_id, data: vec![data.into()] };
    let answered = apply_all(
        &mut world,
        &client,
        ApplySettings {
            raw_array: Some(vec![RawSetting { ref_id: 3, data: Bytes(vec![1, 2]) }]),
            scaled_array: Some(vec![
                scaled(1, &[1.25]),
                scaled(2, &[1.0, 2.0]),
                scaled(2, &[1.0]),
                scaled(6, &[1.0]),
                scaled(7, &[1.0]),
                scaled(8, &[1.0]),
                scaled(9, &[1.0, 1e9]),
                scaled(77, &[1.0]),
                scaled(4, &[1.0]),
                scaled(5, &[1.0]),
            ]),
            text_array: Some(vec![text(4, "turn OFF"), text(5, "BYE"), text(1, "ON"), text(4, "FLY")]),
            ..ApplySettings::default()
        },
    );
    // The bytes of 3 are superseded by 1, as both set the same device; so is the first command by
    // the second.
    let expected = [
        (3, Status::SETTING_SUPERCEDED),
        (1, Status::SUCCESS),
        (2, Status::SUCCESS),
        (2, Status::BAD_LENGTH),
        (6, Status::NOPROP),
        (7, Status::BAD_REQUEST),
        (8, Status::NOSET),
        (9, Status::SCALEFAIL),
        (77, Status::BAD_REQUEST),
        (4, Status::SETTING_SUPERCEDED),
        (5, Status::NOSCALE),
        (4, Status::SUCCESS),
        (5, Status::SUCCESS),
        (1, Status::NOSCALE),
        (4, Status::SCALEFAIL),
    ];
    assert_eq!(answered, expected);
    for (ref_id, drf) in
        [(21, "Z:CUBE_X"), (22, "B:ARRAY.SETTING[0:2]"), (23, "G:TEXT.SETTING"), (24, "Z:CUBE_X.SETTING.RAW")]
    {
        world.add(&client, ref_id, &format!("{drf}@I"));
    }
    world.start(&client);
    let replies = world.replies(&client);
    assert_eq!(numbers(&replies, 21), [1.25]);
    assert!(
        replies.iter().any(|reply| matches!(reply, Reply::ScalarArray(array) if near(&array.data, &[1.0, 2.0, 0.0])))
    );
    assert!(replies.iter().any(|reply| matches!(reply, Reply::Text(text) if text.data == "BYE")));
}

#[test]
fn many_settings_go_in_as_many_datagrams_as_they_need() {
    let (mut world, _) = world();
    let client = operator(&mut world, "everything");
    for ref_id in 0..16 {
        world.add(&client, ref_id, &format!("B:ARRAY.SETTING[{ref_id}]@N"));
    }
    for ref_id in 1000..1600 {
        // Bytes of the same element at several offsets would supersede each other, so each has a
        // request with its own range.
        world.add(&client, ref_id, &format!("B:BIG.SETTING{{{}:2}}.RAW@N", 2 * (ref_id - 1000)));
    }
    world.start(&client);
    world.replies(&client);
    world.datagrams.clear();
    let raw_array = (1000..1600).map(|ref_id| RawSetting { ref_id, data: Bytes(vec![ref_id as u8, 0]) }).collect();
    let answered = apply_all(&mut world, &client, ApplySettings { raw_array: Some(raw_array), ..Default::default() });
    assert_eq!(answered.len(), 600);
    assert!(answered.iter().all(|answer| answer.1 == Status::SUCCESS), "{answered:?}");
    let sizes: Vec<usize> = world.datagrams.iter().map(Vec::len).collect();
    assert_eq!(sizes.len(), 2);
    assert!(sizes.iter().all(|size| *size <= 8450), "{sizes:?}");
}

#[test]
fn batches_that_wait_have_a_limit() {
    let (mut world, _) = world();
    let client = operator(&mut world, "everything");
    world.add(&client, 1, "M:OUTTMP.SETTING@N");
    world.start(&client);
    world.cut = true;
    for _ in 0..64 {
        send(&mut world, &client, &[(1, 40.0)]);
    }
    world.replies(&client);
    assert_eq!(apply(&mut world, &client, &[(1, 40.0)]), [(1, Status::BUSY)]);
    world.pass(6000);
    assert_eq!(outcomes(&world.replies(&client)).len(), 64);
    world.cut = false;
    assert_eq!(apply(&mut world, &client, &[(1, 40.0)]), [(1, Status::SUCCESS)]);
}

#[test]
fn the_task_that_sets_long_values_has_its_name() {
    assert_eq!(sets32::TASK, Rad50::parse("SETS32").expect("a name"));
}

#[test]
fn settings_under_way_are_counted_in_bytes() {
    let (mut world, _) = world();
    let client = operator(&mut world, "everything");
    world.add(&client, 1, "B:BIG.SETTING{0:4096}.RAW@N");
    world.start(&client);
    world.replies(&client);
    world.cut = true;
    // A megabyte is under way, and then further settings are refused.
    for number in 0..60 {
        let many = (0..10).map(|_| RawSetting { ref_id: 1, data: Bytes(vec![0; 4096]) }).collect();
        let settings = ApplySettings { raw_array: Some(many), list_id: client.list_id, ..ApplySettings::default() };
        world.ask(&client, settings);
        let busy = outcomes(&world.replies(&client));
        assert_eq!(busy.len(), if number < 24 { 0 } else { 10 }, "{number}");
        assert!(busy.iter().all(|answer| answer.1 == Status::BUSY));
    }
    let other = operator(&mut world, "everything");
    world.add(&other, 1, "M:OUTTMP.SETTING@N");
    world.start(&other);
    world.replies(&other);
    world.cut = false;
    assert_eq!(apply(&mut world, &other, &[(1, 40.0)]), [(1, Status::SUCCESS)]);
    world.pass(6000);
    assert_eq!(outcomes(&world.replies(&client)).len(), 240);
    let settings = RawSetting { ref_id: 1, data: Bytes(vec![0; 4096]) };
    let settings = ApplySettings { raw_array: Some(vec![settings]), ..ApplySettings::default() };
    assert_eq!(apply_all(&mut world, &client, settings), [(1, Status::SUCCESS)]);
}
