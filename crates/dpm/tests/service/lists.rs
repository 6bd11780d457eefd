//! The life of a list: adding, starting, stopping, changing it while it runs, and the replies to
//! each request.

use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::{RawSetting, ScaledSetting, TextSetting, request};
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{ServiceWorld, infos, numbers, statuses};

#[test]
fn every_request_gets_its_device_or_a_status_and_one_bad_one_harms_no_other() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    for (ref_id, drf) in [
        (1, "M:OUTTMP.READING@I"),
        (2, "B:ARRAY.READING[0:3]@I"),
        (3, "M:OUTTMP@Z"),
        (4, "no request"),
        (5, "Z:NOSUCH.READING@I"),
        (6, "M:OUTTMP.DESCRIPTION@I"),
        (7, "Z:CUBE_X.SETTING@N"),
        (8, "B:ARRAY[99]@I"),
        (0, "G:COUNTR@I"),
    ] {
        world.add(&client, ref_id, drf);
    }
    world.add(&client, 9, "#ROLE:testing");
    world.start(&client);
    world.pass(10);
    let replies = world.replies(&client);
    assert_eq!(infos(&replies), [(0, "G:COUNTR"), (1, "M:OUTTMP"), (2, "B:ARRAY"), (6, "M:OUTTMP"), (7, "Z:CUBE_X")]);
    for (ref_id, status) in
        [(3, Status::BAD_EVENT), (4, Status::BAD_REQUEST), (5, Status::NOPROP), (8, Status::OUT_OF_BOUNDS)]
    {
        assert_eq!(statuses(&replies, ref_id), [status], "{ref_id}");
    }
    assert_eq!(numbers(&replies, 1).len(), 1);
    assert_eq!(numbers(&replies, 0), [1.0]);
    assert!(
        replies
            .iter()
            .any(|reply| matches!(reply, Reply::ScalarArray(array) if array.ref_id == 2 && array.data.len() == 4))
    );
    assert!(replies.iter().any(|reply| matches!(reply, Reply::Text(text) if text.data == "Outdoor temperature")));
    assert!(replies.iter().any(|reply| matches!(reply, Reply::StartList(start) if start.status == 0)));
}

#[test]
fn a_single_request_is_answered_once() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@I");
    world.start(&client);
    assert_eq!(numbers(&world.replies(&client), 1), [1.0]);
    world.start(&client);
    world.pass(1000);
    assert!(numbers(&world.replies(&client), 1).is_empty());
    assert_eq!((world.statistics().entries, world.simulator.streams()), (0, 0));
    world.add(&client, 1, "G:COUNTR@I");
    world.start(&client);
    assert_eq!(numbers(&world.replies(&client), 1), [2.0]);
}

#[test]
fn periodic_requests_are_answered_until_they_are_stopped() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 7, "G:COUNTR@p,500");
    world.start(&client);
    world.pass(2400);
    assert_eq!(numbers(&world.replies(&client), 7).len(), 5);
    world.stop(&client);
    world.pass(5000);
    assert!(numbers(&world.replies(&client), 7).is_empty());
    assert_eq!((world.statistics().entries, world.statistics().groups, world.simulator.streams()), (0, 0, 0));
    world.start(&client);
    world.pass(600);
    assert_eq!(numbers(&world.replies(&client), 7).len(), 2);
}

#[test]
fn no_earlier_reading_arrives_after_a_stop() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@p,100");
    world.start(&client);
    world.replies(&client);
    world.stuck.push(client.key);
    world.pass(1000);
    world.stop(&client);
    world.ask(&client, request::ClearList { list_id: client.list_id });
    world.add(&client, 1, "Z:CUBE_X.DESCRIPTION@I");
    world.start(&client);
    world.stuck.clear();
    world.read(client.key);
    let replies = world.replies(&client);
    assert!(numbers(&replies, 1).is_empty());
    assert_eq!(infos(&replies), [(1, "Z:CUBE_X")]);
}

#[test]
fn lists_change_while_they_run() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "G:COUNTR@p,1000");
    world.start(&client);
    world.pass(100);
    world.add(&client, 2, "Z:CUBE_X@p,1000");
    world.pass(1000);
    // The change has no effect until the next start.
    assert!(numbers(&world.replies(&client), 2).is_empty());
    let requests = world.simulator.requests();
    world.start(&client);
    world.pass(900);
    let replies = world.replies(&client);
    assert_eq!((numbers(&replies, 1).len(), numbers(&replies, 2).len()), (1, 1));
    assert_eq!(world.simulator.requests(), requests + 1, "what was running ran on");
    world.ask(&client, request::RemoveFromList { list_id: client.list_id, ref_id: 1 });
    world.pass(3000);
    assert!(numbers(&world.replies(&client), 1).is_empty());
    // Another request with the same number replaces it.
    world.add(&client, 2, "G:COUNTR@p,1000");
    world.start(&client);
    world.pass(10);
    assert_eq!(world.statistics().entries, 1);
}

#[test]
fn silence_is_broken_every_two_seconds() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,500000,false");
    world.pass(10_000);
    assert_eq!(world.replies(&client), [], "not before it is started");
    world.start(&client);
    world.replies(&client);
    world.pass(10_000);
    let replies = world.replies(&client);
    let beats = replies.iter().filter(|reply| matches!(reply, Reply::ListStatus(status) if status.status == 0)).count();
    assert_eq!(beats, 5);
}

#[test]
fn a_gone_client_leaves_nothing_behind() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,500");
    world.add(&client, 2, "Z:CUBE_X@E,0F");
    world.start(&client);
    world.pass(1000);
    world.dpm.disconnect(client.key);
    world.pass(1000);
    let statistics = world.statistics();
    assert_eq!((statistics.clients, statistics.lists, statistics.entries, statistics.groups), (0, 0, 0, 0));
    assert_eq!(world.simulator.streams(), 0);
}

#[test]
fn unsupported_data_models_are_refused() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP<-LOGGER:1:2");
    world.add(&client, 2, "M:OUTTMP@I<-LIVEDATA");
    world.start(&client);
    let replies = world.replies(&client);
    assert_eq!(statuses(&replies, 1), [Status::INVALID_DATASOURCE]);
    assert_eq!(numbers(&replies, 2).len(), 1);
}

#[test]
fn settings_are_refused_without_authentication_each_once() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.ask(&client, request::Authenticate { list_id: client.list_id, ..Default::default() });
    assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
    world.ask(&client, request::EnableSettings { list_id: client.list_id, ..Default::default() });
    assert_eq!(statuses(&world.replies(&client), 0), [Status::PRIV]);
    world.ask(
        &client,
        request::ApplySettings {
            user_name: "operator@FNAL.GOV".into(),
            list_id: client.list_id,
            raw_array: Some(vec![RawSetting { ref_id: 3, ..Default::default() }]),
            scaled_array: Some(vec![ScaledSetting { ref_id: 1, data: vec![1.25] }]),
            text_array: Some(vec![TextSetting { ref_id: 4, data: vec!["ON".into()] }]),
        },
    );
    let replies = world.replies(&client);
    let [Reply::ApplySettings(applied)] = replies.as_slice() else { panic!("{replies:?}") };
    let applied: Vec<_> = applied.status.iter().map(|setting| (setting.ref_id, Status(setting.status))).collect();
    assert_eq!(applied, [(3, Status::PRIV), (1, Status::PRIV), (4, Status::PRIV)]);
}

#[test]
fn a_database_can_be_replaced_while_lists_run() {
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@p,1000");
    world.start(&client);
    let changed = DEMO.replace("Outdoor temperature", "Temperature outside");
    let read = |text: &str| std::sync::Arc::new(rookery_dpm::database::Database::read(text).expect("a good file"));
    assert_eq!(world.dpm.reload(read(&changed)), Ok(()));
    world.pass(1000);
    assert_eq!(numbers(&world.replies(&client), 1).len(), 2);
    world.add(&client, 2, "M:OUTTMP.DESCRIPTION@I");
    world.start(&client);
    assert!(
        world
            .replies(&client)
            .iter()
            .any(|reply| matches!(reply, Reply::Text(text) if text.data == "Temperature outside"))
    );
    assert!(world.dpm.reload(read("")).is_err());
}
