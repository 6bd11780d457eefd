//! Alarm blocks, as a whole and in parts.

use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::ApplySettings;
use rookery_dpm::sdd::{Bytes, RawSetting};
use rookery_dpm::status::Status;

use super::*;
use crate::world::numbers;

#[test]
fn parts_of_an_alarm_block_are_changed_in_the_block_that_the_front_end_has() {
    // First with SETDAT, then with SETS32.
    for database in [DEVICES.to_owned(), DEVICES.replacen("RETDAT", "GETS32", 1)] {
        let (mut world, _) = world_of(&database);
        let client = operator(&mut world, "everything");
        for (ref_id, drf) in [
            (1, "M:OUTTMP.ANALOG.MIN@N"),
            (2, "M:OUTTMP.ANALOG.MAX@N"),
            (3, "M:OUTTMP.ANALOG.ALARM_ENABLE@N"),
            (4, "M:OUTTMP.ANALOG.TRIES_NEEDED@N"),
            (5, "M:OUTTMP.DIGITAL.NOM@N"),
            (6, "M:OUTTMP.DIGITAL.MASK@N"),
            (7, "M:OUTTMP.ANALOG.ABORT_INHIBIT@N"),
            (8, "M:OUTTMP.ANALOG.ALARM_STATUS@N"),
            (9, "M:OUTTMP.ANALOG.TRIES_NEEDED@N"),
        ] {
            world.add(&client, ref_id, drf);
        }
        world.start(&client);
        world.replies(&client);
        let settings = [(1, 40.0), (2, 90.0), (3, 0.0), (4, 7.0), (5, 1.0), (6, 255.0), (7, 1.0), (8, 1.0), (4, 3.0)];
        let answered = apply(&mut world, &client, &settings);
        let failed: Vec<(i64, Status)> =
            answered.iter().copied().filter(|answer| answer.1 != Status::SUCCESS).collect();
        assert_eq!(failed, [(4, Status::SETTING_SUPERCEDED), (8, Status::NOSET)]);
        // A value that the block cannot hold changes nothing, and doesn't affect others.
        let answered = apply(&mut world, &client, &[(1, 41.0), (9, 300.0), (2, 1e9)]);
        assert_eq!(answered, [(1, Status::SUCCESS), (9, Status::SCALEFAIL), (2, Status::SCALEFAIL)]);
        world.add(&client, 11, "M:OUTTMP.ANALOG@I");
        world.add(&client, 12, "M:OUTTMP.DIGITAL@I");
        world.start(&client);
        let replies = world.replies(&client);
        let analog = replies.iter().find_map(|reply| match reply {
            Reply::AnalogAlarm(alarm) => Some(alarm.clone()),
            _ => None,
        });
        let analog = analog.expect("an alarm block");
        assert!(near(&[analog.minimum, analog.maximum], &[41.0, 90.0]), "{analog:?}");
        assert!(!analog.alarm_enable && analog.abort_inhibit && analog.tries_needed == 3, "{analog:?}");
        assert!(
            replies
                .iter()
                .any(|reply| matches!(reply, Reply::DigitalAlarm(alarm) if (alarm.nominal, alarm.mask) == (1, 255)))
        );
    }
}

#[test]
fn changes_of_one_block_by_two_clients_are_both_made() {
    let (mut world, _) = world();
    let clients = [operator(&mut world, "everything"), operator(&mut world, "everything")];
    for (client, drf) in clients.iter().zip(["M:OUTTMP.ANALOG.MIN@N", "M:OUTTMP.ANALOG.MAX@N"]) {
        world.add(client, 1, drf);
        world.start(client);
        world.replies(client);
    }
    world.cut = true;
    send(&mut world, &clients[0], &[(1, 40.0)]);
    send(&mut world, &clients[1], &[(1, 90.0)]);
    let asked = headers(&world.datagrams);
    assert_eq!(asked.len(), 1, "the second waits for the first");
    world.cut = false;
    // The front-end's block: minimum and maximum in two bytes, 12000 and 14000.
    let block = [&[0, 0, 0x21, 0x02][..], &12000i32.to_le_bytes(), &14000i32.to_le_bytes(), &[0; 10]].concat();
    deliver(&mut world, asked[0].answer(Status::SUCCESS, false).datagram(&block));
    for client in &clients {
        assert_eq!(outcomes(&world.replies(client)), [(1, Status::SUCCESS)]);
    }
    world.add(&clients[0], 2, "M:OUTTMP.ANALOG@I");
    world.start(&clients[0]);
    let replies = world.replies(&clients[0]);
    assert!(
        replies.iter().any(
            |reply| matches!(reply, Reply::AnalogAlarm(alarm) if near(&[alarm.minimum, alarm.maximum], &[40.0, 90.0]))
        ),
        "{replies:?}"
    );
}

#[test]
fn fields_that_cannot_be_set_alone_are_set_with_the_whole_block() {
    let (mut world, _) = world();
    let client = operator(&mut world, "everything");
    // Clients send these fields with the block, but the abort and the clock event are the device's
    // own, and the flags say how to read the block.
    for (ref_id, field) in (1..).zip(["ABORT", "FLAGS", "FTD", "TRIES_NOW", "ALARM_STATUS", "TEXT"]) {
        world.add(&client, ref_id, &format!("M:OUTTMP.ANALOG.{field}@N"));
        world.start(&client);
        world.replies(&client);
        assert_eq!(apply(&mut world, &client, &[(ref_id, 1.0)]), [(ref_id, Status::NOSET)], "{field}");
    }
    world.add(&client, 11, "M:OUTTMP.ANALOG{0:20}.RAW@N");
    world.add(&client, 12, "M:OUTTMP.ANALOG{0:10}.RAW@N");
    world.start(&client);
    world.replies(&client);
    // Enabled, with abort, two bytes, minimum and maximum; two tries of three; a clock event.
    let block =
        [&[0x25, 0x02][..], &100i32.to_le_bytes(), &200i32.to_le_bytes(), &[2, 3, 0x02, 0x80], &[0; 6]].concat();
    let set = |ref_id, data: &[u8]| ApplySettings {
        raw_array: Some(vec![RawSetting { ref_id, data: Bytes(data.to_vec()) }]),
        ..Default::default()
    };
    assert_eq!(apply_all(&mut world, &client, set(11, &block)), [(11, Status::SUCCESS)]);
    assert_eq!(apply_all(&mut world, &client, set(11, &block[1..])), [(11, Status::BAD_LENGTH)]);
    assert_eq!(apply_all(&mut world, &client, set(12, &block[..10])), [(12, Status::BAD_FRAMING)]);
    for (ref_id, field) in (21..).zip(["ABORT", "FLAGS", "FTD", "ALARM_ENABLE", "TRIES_NEEDED", "RAW_MAX"]) {
        world.add(&client, ref_id, &format!("M:OUTTMP.ANALOG.{field}@I"));
    }
    world.add(&client, 30, "M:OUTTMP.ANALOG.RAW@I");
    world.start(&client);
    let replies = world.replies(&client);
    let read: Vec<f64> = (21..27).flat_map(|ref_id| numbers(&replies, ref_id)).collect();
    assert_eq!(read, [1.0, f64::from(0x0225), f64::from(0x8002), 1.0, 3.0, 200.0]);
    assert!(replies.iter().any(|reply| matches!(reply, Reply::Raw(raw) if raw.data.0 == block)), "{replies:?}");
}
