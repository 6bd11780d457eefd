//! Settings are reported to the control system's own log.

use rookery_dpm::acnet::{PacketKind, packet, setsdb};
use rookery_dpm::sdd::request::ApplySettings;
use rookery_dpm::sdd::{Bytes, RawSetting, ScaledSetting};
use rookery_dpm::status::Status;

use super::*;

#[test]
fn accepted_settings_are_reported_once_for_each_batch() {
    let (mut world, _) = world_of(&with_keeper());
    let client = operator(&mut world, "everything");
    for (ref_id, drf) in [
        (1, "Z:CUBE_X.SETTING@N"),
        (2, "B:ARRAY.SETTING[2:4]@N"),
        (3, "Z:NOSUCH.SETTING@N"),
        (4, "M:OUTTMP.ANALOG.TRIES_NEEDED@N"),
        (5, "M:OUTTMP.SETTING@N"),
    ] {
        world.add(&client, ref_id, drf);
    }
    world.start(&client);
    world.replies(&client);
    world.datagrams.clear();
    let scaled = |ref_id, data: &[f64]| ScaledSetting { ref_id, data: data.to_vec() };
    let settings =
        vec![scaled(1, &[45.5]), scaled(2, &[1.0, 2.0, 3.0]), scaled(3, &[1.0]), scaled(4, &[7.0]), scaled(5, &[1e9])];
    let answered =
        apply_all(&mut world, &client, ApplySettings { scaled_array: Some(settings), ..ApplySettings::default() });
    let refused: Vec<i64> =
        answered.iter().filter(|answer| answer.1 != Status::SUCCESS).map(|answer| answer.0).collect();
    assert_eq!(refused, [3, 5]);
    let [(header, body)] = &reports(&world)[..] else { panic!("one message for the batch") };
    assert_eq!((header.kind, header.server, header.client), (PacketKind::Message, 0x09cd, 0x0ad6));
    let read = ReportParts::of(body);
    assert_eq!((read.kind, read.unix_millis, read.user), (1000, world.moment().unix_millis, 4711));
    assert_eq!(read.names, ["DPM06", "DPM06", "operator"]);
    // Each entry has the number and property, the length and offset, and the first four bytes. Of
    // the array, setting began with the third element; of the alarm block, all bytes were set.
    let cube = device("Z:CUBE_X") | 13 << 24;
    let array = device("B:ARRAY") | 13 << 24;
    let block = device("M:OUTTMP") | 1 << 24;
    let mut told: Vec<(u32, u16, u32)> =
        read.devices.iter().map(|(dipi, length, offset, _)| (*dipi, *length, *offset)).collect();
    told.sort_unstable();
    let mut expected = [(cube, 2, 0), (array, 6, 4), (block, 20, 0)];
    expected.sort_unstable();
    assert_eq!(told, expected);
    let (.., bytes) = read.devices.iter().find(|told| told.0 == cube).expect("the first device");
    assert_eq!(*bytes, 4550i16.to_le_bytes());
    assert!(read.devices.iter().filter(|told| told.0 != cube).all(|(.., bytes)| bytes.len() == 4));
}

#[test]
fn failed_settings_are_not_reported() {
    let (mut world, _) = world_of(&with_keeper());
    let client = operator(&mut world, "nothing");
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.start(&client);
    world.replies(&client);
    assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::PRIV)]);
    let client = operator(&mut world, "everything");
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.start(&client);
    world.replies(&client);
    world.cut = true;
    send(&mut world, &client, &[(1, 1.0)]);
    world.pass(6000);
    assert_eq!(outcomes(&world.replies(&client)), [(1, Status::UTIME)]);
    assert!(reports(&world).is_empty());
}

#[test]
fn a_large_batch_is_reported_in_several_messages() {
    let (mut world, _) = world_of(&with_keeper());
    let client = operator(&mut world, "everything");
    for ref_id in 0..700 {
        world.add(&client, ref_id, &format!("B:BIG.SETTING{{{}:2}}.RAW@N", 2 * ref_id));
    }
    world.start(&client);
    world.replies(&client);
    let raw_array = (0..700).map(|ref_id| RawSetting { ref_id, data: Bytes(vec![ref_id as u8, 0]) }).collect();
    apply_all(&mut world, &client, ApplySettings { raw_array: Some(raw_array), ..Default::default() });
    let told = reports(&world);
    assert_eq!(told.len(), 2);
    let devices: Vec<u32> =
        told.iter().flat_map(|(_, body)| ReportParts::of(body).devices).map(|told| told.2).collect();
    assert_eq!(devices, (0..700).map(|place| 2 * place).collect::<Vec<u32>>(), "each once, in its order");
    assert!(world.datagrams.iter().all(|datagram| datagram.len() <= 8450));
}

/// Returns the reports to the task that keeps the log.
fn reports(world: &ServiceWorld) -> Vec<(AcnetHeader, Vec<u8>)> {
    let read = |datagram: &Vec<u8>| {
        let mut datagram = datagram.clone();
        packet::swap(&mut datagram);
        packet::packets(&datagram).map(|packet| (packet.header, packet.body.to_vec())).next().expect("a packet")
    };
    world.datagrams.iter().map(read).filter(|(header, _)| header.task == setsdb::TASK).collect()
}

/// The parts of a message.
#[derive(Debug)]
struct ReportParts {
    kind: u16,
    unix_millis: i64,
    user: u32,
    names: Vec<String>,
    /// Number and property, length, offset, first bytes.
    devices: Vec<(u32, u16, u32, Vec<u8>)>,
}

impl ReportParts {
    fn of(body: &[u8]) -> Self {
        let mut rest = body;
        let mut take = |count: usize| {
            let (taken, left) = rest.split_at(count);
            rest = left;
            taken.to_vec()
        };
        fn number(bytes: Vec<u8>) -> u64 {
            bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        }
        let kind = number(take(2)) as u16;
        take(4);
        let (unix_millis, user, count) = (number(take(8)) as i64, number(take(4)) as u32, number(take(4)));
        take(4);
        let names = (0..3).map(|_| {
            let length = number(take(1)) as usize;
            String::from_utf8(take(length)).expect("a name")
        });
        let names = names.collect();
        let devices = (0..count).map(|_| {
            let (dipi, length, offset) = (number(take(4)) as u32, number(take(2)) as u16, number(take(4)) as u32);
            (dipi, length, offset, take(usize::from(length).min(4)))
        });
        let devices = devices.collect();
        // A byte may follow that makes the packet even.
        assert!(rest.len() <= 1, "{rest:?}");
        Self { kind, unix_millis, user, names, devices }
    }
}

fn device(name: &str) -> u32 {
    rookery_dpm::database::Database::read(DEVICES).expect("a good file").by_name(name).expect("a device").index
}

/// Returns the device file with a node that keeps the log.
fn with_keeper() -> String {
    format!("{DEVICES}\n[[node]]\nname = 'SETSDB'\naddress = '09cd'\nsocket = '127.0.0.1:6801'\nprotocol = 'RETDAT'\n")
}
