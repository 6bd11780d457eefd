//! Clients that set devices: who may, what the front-ends are told, and what is answered.

use std::sync::{Arc, Mutex};

use rookery_dpm::acnet::{Header, Kind, packet};
use rookery_dpm::authority::{Acceptor, Attempt, Audit, Authority, Conversation, Peer, Roles};
use rookery_dpm::rad50::Rad50;
use rookery_dpm::sdd::reply::{self, Reply};
use rookery_dpm::sdd::request::{self, ApplySettings};
use rookery_dpm::sdd::{Bytes, RawSetting, ScaledSetting, TextSetting};
use rookery_dpm::status::Status;
use rookery_dpm::time::Moment;

use crate::world::{Client, World, front_end_address, infos, numbers, statuses};

#[test]
fn without_a_keytab_everything_is_refused() {
    let mut world = World::new(DEVICES);
    let client = world.client();
    authenticate(&mut world, &client, b"");
    assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
    enable(&mut world, &client, b"1234");
    assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.start(&client);
    world.replies(&client);
    assert_eq!(apply(&mut world, &client, &[(1, 5.0)]), [(1, Status::PRIV)]);
    assert!(world.datagrams.is_empty(), "no front-end hears of it");
}

#[test]
fn a_client_proves_who_it_is_and_sets_and_reads_back() {
    let (mut world, log) = world();
    let client = world.client();
    authenticate(&mut world, &client, b"");
    let asked = world.replies(&client);
    assert!(
        matches!(&asked[..], [Reply::Authenticate(reply)] if reply.service_name.as_deref() == Some("daeset@localhost") && reply.token.is_none()),
        "{asked:?}"
    );
    authenticate(&mut world, &client, b"operator@FNAL.GOV");
    assert_eq!(world.replies(&client), [reply::Authenticate::default().into()]);
    enable(&mut world, &client, b"1234");
    assert_eq!(statuses(&world.replies(&client), 0), [Status::SUCCESS]);
    world.ask(&client, request::StopList { list_id: client.list_id });
    world.ask(&client, request::ClearList { list_id: client.list_id });
    world.add(&client, 0, "#ROLE:testing");
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.start(&client);
    let started = world.replies(&client);
    assert_eq!((infos(&started), started.len()), (vec![(1, "Z:CUBE_X")], 2));
    assert_eq!(apply(&mut world, &client, &[(1, 45.5)]), [(1, Status::SUCCESS)]);
    world.add(&client, 2, "Z:CUBE_X@I");
    world.add(&client, 3, "Z:CUBE_X.SETTING.RAW@I");
    world.start(&client);
    let replies = world.replies(&client);
    assert_eq!(numbers(&replies, 2), [45.5]);
    assert!(replies.iter().any(|reply| matches!(reply, Reply::Raw(raw) if raw.data.0 == 4550i16.to_le_bytes())));
    let said = "operator@FNAL.GOV role=testing from=- Z:CUBE_X.SETTING@N = 45.5: [0 0]";
    assert_eq!(lines(&log), [said]);
}

#[test]
fn who_proves_nothing_or_signs_wrong_sets_nothing() {
    let (mut world, log) = world();
    for (token, mic) in [(&b"nobody"[..], &b"1234"[..]), (b"operator@FNAL.GOV", b"4321"), (b"operator@FNAL.GOV", b"")] {
        let client = world.client();
        world.add(&client, 0, "#ROLE:testing");
        world.add(&client, 1, "Z:CUBE_X.SETTING@N");
        world.start(&client);
        authenticate(&mut world, &client, token);
        world.replies(&client);
        assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::PRIV)], "a proof alone is not enough");
        enable(&mut world, &client, mic);
        assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
        assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::PRIV)]);
        // What was proved is gone with the wrong signature.
        enable(&mut world, &client, b"1234");
        assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
    }
    assert!(world.datagrams.is_empty());
    let log = lines(&log);
    assert!(log.iter().any(|line| line.contains("Authenticate: no ticket")), "{log:?}");
    assert!(log.iter().any(|line| line.contains("EnableSettings: wrong signature")), "{log:?}");
    assert!(log.iter().all(|line| line.ends_with("[17 -17] DPM_PRIV")), "{log:?}");
}

#[test]
fn proofs_are_not_tried_for_ever() {
    let (mut world, log) = world();
    let client = world.client();
    for _ in 0..40 {
        authenticate(&mut world, &client, b"nobody");
        assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
    }
    assert_eq!(lines(&log).len(), 16);
    authenticate(&mut world, &client, b"operator@FNAL.GOV");
    assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
}

#[test]
fn whoever_proves_nothing_does_not_fill_the_log() {
    let (mut world, log) = world();
    let client = world.client();
    let settings: Vec<(i64, f64)> = (0..300).map(|ref_id| (ref_id, 1.0)).collect();
    for _ in 0..10 {
        assert_eq!(apply(&mut world, &client, &settings).len(), 300);
    }
    assert_eq!(lines(&log).len(), 1000);
    let client = operator(&mut world, "testing");
    for _ in 0..10 {
        apply(&mut world, &client, &settings);
    }
    assert_eq!(lines(&log).len(), 4000, "of those whom we know everything is written down");
}

#[test]
fn a_proof_lasts_as_long_as_the_ticket() {
    let (mut world, _) = world();
    let client = operator(&mut world, "testing");
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.start(&client);
    world.replies(&client);
    world.pass(HOUR - 1);
    world.replies(&client);
    assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::SUCCESS)]);
    world.pass(1);
    world.replies(&client);
    assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::PRIV)]);
}

#[test]
fn roles_and_classes_say_which_devices() {
    let (mut world, _) = world();
    // In the role, in no role, in one of others, in one that is not there; the last device is for a class of users.
    for (role, expected) in [
        ("testing", [Status::SUCCESS, Status::PRIV, Status::SUCCESS]),
        ("", [Status::PRIV, Status::PRIV, Status::SUCCESS]),
        ("magnets", [Status::PRIV, Status::PRIV, Status::SUCCESS]),
        ("nothing", [Status::PRIV, Status::PRIV, Status::SUCCESS]),
    ] {
        let client = operator(&mut world, role);
        for (ref_id, drf) in [(1, "Z:CUBE_X.SETTING@N"), (2, "B:ARRAY.SETTING@N"), (3, "M:OUTTMP.SETTING@N")] {
            world.add(&client, ref_id, drf);
        }
        world.start(&client);
        world.replies(&client);
        let answered = apply(&mut world, &client, &[(1, 1.0), (2, 1.0), (3, 40.0)]);
        assert_eq!(answered.iter().map(|answer| answer.1).collect::<Vec<_>>(), expected, "{role}");
    }
    let client = operator(&mut world, "testing");
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.start(&client);
    world.replies(&client);
    world.dpm.set_roles(Roles::default());
    assert_eq!(apply(&mut world, &client, &[(1, 1.0)]), [(1, Status::PRIV)], "roles count as they are now");
}

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
    // The bytes of 3 are superseded by 1, as both are the setting of one device; so is the first command by the second.
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
fn parts_of_an_alarm_block_are_changed_in_the_block_that_the_front_end_has() {
    // Once by SETDAT, once by SETS32.
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
        // A value that the block cannot hold changes nothing, and harms no other.
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
fn changes_of_one_block_by_two_clients_are_both_there() {
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
    // The block as the front-end has it: minimum and maximum of two bytes, 12000 and 14000.
    let block = [&[0, 0, 0x21, 0x02][..], &12000i32.to_le_bytes(), &14000i32.to_le_bytes(), &[0; 10]].concat();
    deliver(&mut world, asked[0].answer(Status::SUCCESS, false).datagram(&block));
    for client in &clients {
        assert_eq!(settled(&world.replies(client)), [(1, Status::SUCCESS)]);
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
fn a_silent_front_end_is_told_as_such_and_asked_once() {
    let (mut world, log) = world();
    let client = operator(&mut world, "everything");
    world.add(&client, 1, "Z:CUBE_X.SETTING@N");
    world.add(&client, 2, "M:OUTTMP.SETTING@N");
    world.start(&client);
    world.replies(&client);
    world.cut = true;
    send(&mut world, &client, &[(1, 1.0), (2, 40.0)]);
    let asked = headers(&world.datagrams);
    assert_eq!(asked.iter().map(|header| header.task.to_string()).collect::<Vec<_>>(), ["SETS32", "SETDAT"]);
    // One says in time that it will come, and comes; the other is silent.
    world.pass(4000);
    world.cut = false;
    deliver(&mut world, asked[1].answer(Status::PEND, true).datagram(&[]));
    world.cut = true;
    world.pass(4000);
    assert_eq!(settled(&world.replies(&client)), [], "one batch, one answer");
    deliver(&mut world, asked[1].answer(Status::SUCCESS, false).datagram(&[0, 0]));
    assert_eq!(settled(&world.replies(&client)), [(1, Status::UTIME), (2, Status::SUCCESS)]);
    let set = headers(&world.datagrams).into_iter().filter(|header| header.kind == Kind::Request).count();
    assert_eq!(set, 2, "nothing is sent twice");
    // What comes now is nobody's.
    deliver(&mut world, asked[0].answer(Status::SUCCESS, false).datagram(&[0; 36]));
    deliver(&mut world, asked[1].answer(Status::SUCCESS, false).datagram(&[0, 0]));
    assert_eq!(settled(&world.replies(&client)), []);
    assert_eq!(lines(&log).len(), 2);
}

#[test]
fn answers_that_are_none_are_not_believed() {
    let (mut world, _) = world();
    let client = operator(&mut world, "everything");
    world.add(&client, 1, "M:OUTTMP.SETTING@N");
    world.start(&client);
    world.replies(&client);
    for (status, body, expected) in [
        (Status::SUCCESS, &[][..], Status::TRUNC_REPLY),
        (Status::NO_TASK, &[], Status::NODE_DOWN),
        (Status::BUSY, &[], Status::BUSY),
        (Status::SUCCESS, &[0x10, 0xf3], Status::NOPROP),
    ] {
        world.cut = true;
        world.datagrams.clear();
        send(&mut world, &client, &[(1, 40.0)]);
        let header = headers(&world.datagrams)[0];
        world.cut = false;
        // Of another node, to another client, of another request.
        deliver(&mut world, Header { server: 0x0c24, ..header }.answer(Status::SUCCESS, false).datagram(&[0, 0]));
        deliver(&mut world, Header { client: 0x0a06, ..header }.answer(Status::SUCCESS, false).datagram(&[0, 0]));
        deliver(
            &mut world,
            Header { message: header.message ^ 0x4000, ..header }.answer(Status::SUCCESS, false).datagram(&[0, 0]),
        );
        assert_eq!(settled(&world.replies(&client)), []);
        deliver(&mut world, header.answer(status, false).datagram(body));
        assert_eq!(settled(&world.replies(&client)), [(1, expected)]);
    }
}

#[test]
fn many_settings_go_in_as_many_datagrams_as_they_need() {
    let (mut world, _) = world();
    let client = operator(&mut world, "everything");
    for ref_id in 0..16 {
        world.add(&client, ref_id, &format!("B:ARRAY.SETTING[{ref_id}]@N"));
    }
    for ref_id in 1000..1600 {
        // The same element as bytes at many offsets would supersede: each has a request of its own range.
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
fn settings_of_a_client_that_left_are_done_and_logged() {
    let (mut world, log) = world();
    let client = operator(&mut world, "everything");
    world.add(&client, 1, "M:OUTTMP.SETTING@N");
    world.start(&client);
    world.replies(&client);
    world.cut = true;
    send(&mut world, &client, &[(1, 40.0)]);
    world.dpm.disconnect(client.key);
    let header = *headers(&world.datagrams).last().expect("a request");
    world.cut = false;
    // Another client may have its number by now.
    let other = world.client();
    deliver(&mut world, header.answer(Status::SUCCESS, false).datagram(&[0, 0]));
    assert!(world.replies(&other).is_empty());
    assert!(lines(&log)[0].ends_with("M:OUTTMP.SETTING@N = 40.0: [0 0]"), "{:?}", lines(&log));
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
    assert_eq!(settled(&world.replies(&client)).len(), 64);
    world.cut = false;
    assert_eq!(apply(&mut world, &client, &[(1, 40.0)]), [(1, Status::SUCCESS)]);
}

#[test]
fn nothing_of_a_proof_reaches_another_list() {
    let (mut world, _) = world();
    let (client, other) = (operator(&mut world, "testing"), world.client());
    world.add(&other, 0, "#ROLE:testing");
    world.add(&other, 1, "Z:CUBE_X.SETTING@N");
    world.start(&other);
    world.replies(&other);
    assert_eq!(apply(&mut world, &other, &[(1, 1.0)]), [(1, Status::PRIV)]);
    // With the number of the other's list.
    world.ask(&other, ApplySettings { list_id: client.list_id, ..scaled(&[(1, 1.0)]) });
    assert_eq!(statuses(&world.replies(&other), 0), [Status::NO_SUCH_LIST]);
}

/// A service that lets the operator in, and its log.
pub fn world() -> (World, Log) {
    world_of(DEVICES)
}

fn world_of(database: &str) -> (World, Log) {
    let mut world = World::new(database);
    let log = Log::default();
    world.dpm.set_authority(Authority {
        acceptor: Some(Box::new(Door)),
        roles: Roles::read(ROLES).expect("good roles"),
        audit: Some(Box::new(log.clone())),
    });
    (world, log)
}

/// A client that proved to be the operator, in a role.
fn operator(world: &mut World, role: &str) -> Client {
    let client = world.client();
    authenticate(world, &client, b"operator@FNAL.GOV");
    enable(world, &client, b"1234");
    world.add(&client, 0, &format!("#ROLE:{role}"));
    assert_eq!(statuses(&world.replies(&client), 0), [Status::SUCCESS]);
    client
}

fn authenticate(world: &mut World, client: &Client, token: &[u8]) {
    world.ask(client, request::Authenticate { list_id: client.list_id, token: Bytes(token.to_vec()) });
}

fn enable(world: &mut World, client: &Client, mic: &[u8]) {
    let message = Bytes(b"1234".to_vec());
    world.ask(client, request::EnableSettings { list_id: client.list_id, mic: Bytes(mic.to_vec()), message });
}

fn scaled(settings: &[(i64, f64)]) -> ApplySettings {
    let all = settings.iter().map(|(ref_id, number)| ScaledSetting { ref_id: *ref_id, data: vec![*number] });
    ApplySettings { scaled_array: Some(all.collect()), ..ApplySettings::default() }
}

fn send(world: &mut World, client: &Client, settings: &[(i64, f64)]) {
    world.ask(client, ApplySettings { list_id: client.list_id, ..scaled(settings) });
}

fn apply(world: &mut World, client: &Client, settings: &[(i64, f64)]) -> Vec<(i64, Status)> {
    apply_all(world, client, scaled(settings))
}

fn apply_all(world: &mut World, client: &Client, settings: ApplySettings) -> Vec<(i64, Status)> {
    world.ask(client, ApplySettings { list_id: client.list_id, user_name: "root@FNAL.GOV".into(), ..settings });
    let replies = world.replies(client);
    assert!(matches!(&replies[..], [Reply::ApplySettings(_)]), "one answer: {replies:?}");
    settled(&replies)
}

/// What became of settings.
fn settled(replies: &[Reply]) -> Vec<(i64, Status)> {
    let applied = replies.iter().filter_map(|reply| match reply {
        Reply::ApplySettings(applied) => Some(&applied.status),
        _ => None,
    });
    applied.flatten().map(|setting| (setting.ref_id, Status(setting.status))).collect()
}

fn headers(datagrams: &[Vec<u8>]) -> Vec<Header> {
    let read = |datagram: &Vec<u8>| {
        let mut datagram = datagram.clone();
        packet::swap(&mut datagram);
        packet::packets(&datagram).next().expect("a packet").header
    };
    datagrams.iter().map(read).collect()
}

fn deliver(world: &mut World, mut datagram: Vec<u8>) {
    let now = world.moment();
    world.dpm.datagram(front_end_address(), &mut datagram, now);
    world.pass(0);
}

/// Nearer than a raw value.
fn near(numbers: &[f64], expected: &[f64]) -> bool {
    numbers.len() == expected.len() && numbers.iter().zip(expected).all(|(one, other)| (one - other).abs() < 0.02)
}

/// Believes whoever says who it is, for an hour: the token is the name, and the signature is the message.
#[derive(Debug)]
pub struct Door;

#[derive(Debug, Default)]
struct Believer(Option<Peer>);

impl Acceptor for Door {
    fn service_name(&self) -> &str {
        "daeset@localhost"
    }

    fn converse(&self) -> Box<dyn Conversation> {
        Box::new(Believer::default())
    }
}

impl Conversation for Believer {
    fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let principal = String::from_utf8(token.to_vec()).map_err(|error| error.to_string())?;
        if !principal.contains('@') {
            return Err("no ticket".into());
        }
        self.0 = Some(Peer { principal, good_for: Some(HOUR) });
        Ok(None)
    }

    fn peer(&self) -> Option<Peer> {
        self.0.clone()
    }

    fn verify(&mut self, message: &[u8], mic: &[u8]) -> Result<(), String> {
        if message == mic { Ok(()) } else { Err("wrong signature".into()) }
    }
}

#[derive(Debug, Default, Clone)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Audit for Log {
    fn record(&mut self, attempt: &Attempt, _now: Moment) {
        self.0.lock().expect("a lock").push(attempt.to_string());
    }
}

fn lines(log: &Log) -> Vec<String> {
    log.0.lock().expect("a lock").clone()
}

#[test]
fn the_task_that_sets_long_values_is_called_so() {
    assert_eq!(rookery_dpm::acnet::sets32::TASK, Rad50::parse("SETS32").expect("a name"));
}

const HOUR: u64 = 3_600_000;
/// Devices that can be set, on nodes of both protocols.
const DEVICES: &str = include_str!("settings.toml");
const ROLES: &str = "
[[role]]
name = 'testing'
principals = ['operator@FNAL.GOV']
devices = ['Z:*']

[[role]]
name = 'magnets'
principals = ['magnets@FNAL.GOV']
devices = ['*']

[[role]]
name = 'everything'
principals = ['*@FNAL.GOV']
devices = ['*']

[[user]]
principal = 'operator@FNAL.GOV'
classes = 6
";
