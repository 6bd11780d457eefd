//! Recording, and requests for recorded readings.

use rookery_dpm::sdd::reply::{Reply, TimedScalarArray};
use rookery_dpm::sdd::request::ClearList;
use rookery_dpm::service::ServiceOptions;
use rookery_dpm::status::Status;

use crate::DEMO;
use crate::world::{ServiceWorld, infos, numbers, statuses};

/// The time at which a world begins, in milliseconds since 1970.
const START: i64 = 1_700_000_000_000;

#[test]
fn recorded_readings_arrive_in_pieces_and_an_empty_one_ends_them() {
    let mut world = ServiceWorld::new(&format!("{DEMO}\n[[record]]\nrequest = 'G:COUNTR@P,100'\n")).with_archive();
    world.pass(60_000);
    let client = world.client();
    world.add(&client, 1, &format!("G:COUNTR<-LOGGER:{START}:{}", START + 60_000));
    world.start(&client);
    let replies = world.replies(&client);
    assert_eq!(infos(&replies), [(1, "G:COUNTR")]);
    let pieces = pieces(&replies, 1);
    assert_eq!(pieces.iter().map(|piece| piece.data.len()).collect::<Vec<_>>(), [487, 114, 0]);
    assert!(pieces.iter().all(|piece| piece.data.len() == piece.micros.len() && piece.status == 0));
    let micros: Vec<i64> = pieces.iter().flat_map(|piece| piece.micros.clone()).collect();
    assert_eq!((micros[0], micros[1], micros[600]), (START * 1000, START * 1000 + 100_000, (START + 60_000) * 1000));
    let values: Vec<f64> = pieces.iter().flat_map(|piece| piece.data.clone()).collect();
    assert!(values.iter().zip(1..).all(|(value, count)| *value == f64::from(count)), "{values:?}");
    // Each request is answered once.
    world.start(&client);
    world.pass(10_000);
    assert_eq!(self::pieces(&world.replies(&client), 1), []);
}

#[test]
fn a_reading_that_is_shown_and_recorded_is_read_once() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    world.pass(100);
    let asked = world.simulator.requests();
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP@P,1000");
    world.start(&client);
    world.pass(3000);
    assert_eq!(numbers(&world.replies(&client), 1).len(), 4);
    assert_eq!(world.simulator.requests(), asked);
}

#[test]
fn arrays_come_one_by_one_with_microseconds() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    world.pass(11_000);
    let client = world.client();
    world.add(&client, 1, "B:ARRAY[0:3]<-LOGGERDURATION:7000");
    world.start(&client);
    let replies = world.replies(&client);
    let arrays: Vec<_> = replies
        .iter()
        .filter_map(|reply| match reply {
            Reply::ScalarArray(array) => Some((array.timestamp, array.data.len())),
            _ => None,
        })
        .collect();
    assert_eq!(arrays, [((START + 5000) * 1000, 4), ((START + 10_000) * 1000, 4), (0, 0)]);
}

#[test]
fn the_reading_nearest_to_a_time_is_an_ordinary_one() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    world.pass(30_500);
    let client = world.client();
    let second = START / 1000;
    world.add(&client, 1, &format!("M:OUTTMP<-LOGGERSINGLE:DPM06:{}:5", second + 12));
    world.add(&client, 2, &format!("M:OUTTMP<-LOGGERSINGLE:DPM06:{}:5", second + 34));
    world.add(&client, 3, &format!("M:OUTTMP<-LOGGERSINGLE:DPM06:{}:5", second + 900));
    world.start(&client);
    let replies = world.replies(&client);
    let times: Vec<i64> = replies
        .iter()
        .filter_map(|reply| match reply {
            Reply::Scalar(scalar) => Some(scalar.timestamp),
            _ => None,
        })
        .collect();
    assert_eq!(times, [START + 12_000, START + 30_000]);
    assert_eq!(statuses(&replies, 3), [Status::LJ_NO_DATA]);
}

#[test]
fn only_requests_for_unrecorded_readings_get_a_status() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    world.pass(5000);
    let client = world.client();
    for (ref_id, drf, expected) in [
        (1, "Z:CUBE_X<-LOGGER:1:2", vec![Status::NO_NODE]),
        (2, "Z:NOSUCH<-LOGGER:1:2", vec![Status::NOPROP]),
        (3, "M:OUTTMP<-LOGGER:1:2:BACKUP", vec![Status::NO_NODE]),
        (4, "M:OUTTMP<-LOGGER:yesterday:2", vec![Status::BAD_DATASOURCE_FORMAT]),
        (5, "M:OUTTMP<-SRFILE:300", vec![Status::INVALID_DATASOURCE]),
        (6, "M:OUTTMP@P,2000<-LOGGER:1:2", vec![Status::NO_NODE]),
        (7, "M:OUTTMP.RAW<-LOGGER:1:2", vec![Status::NO_NODE]),
        // Recorded, but not in that period: only the end is sent.
        (8, "M:OUTTMP<-LOGGER:1:2", vec![]),
        (9, "M:OUTTMP@P,1S,FALSE<-LOGGER:1:2:dpm06", vec![]),
    ] {
        world.add(&client, ref_id, drf);
        world.start(&client);
        let replies = world.replies(&client);
        assert_eq!(statuses(&replies, ref_id), expected, "{drf}");
        let ends = pieces(&replies, ref_id);
        assert_eq!(ends.len(), usize::from(expected.is_empty()), "{drf}");
    }
    // Without an archive the source isn't supported.
    let mut world = ServiceWorld::new(DEMO);
    let client = world.client();
    world.add(&client, 1, "M:OUTTMP<-LOGGER:1:2");
    world.start(&client);
    assert_eq!(statuses(&world.replies(&client), 1), [Status::INVALID_DATASOURCE]);
}

#[test]
fn a_client_that_does_not_read_makes_nothing_pile_up() {
    let options = ServiceOptions { queue: 60_000, ..ServiceOptions::default() };
    let database = format!("{DEMO}\n[[record]]\nrequest = 'G:COUNTR@P,100'\n");
    let mut world = ServiceWorld::with(&database, options).with_archive();
    world.pass(1_000_000);
    let client = world.client();
    world.add(&client, 1, &format!("G:COUNTR<-LOGGER:0:{}", i64::MAX));
    world.stuck.push(client.key);
    world.start(&client);
    world.pass(10_000);
    assert!(world.questions < 10, "{} pieces were asked for", world.questions);
    world.stuck.clear();
    for _ in 0..50 {
        world.read(client.key);
        world.pass(0);
    }
    let replies = world.replies(&client);
    let points: usize = pieces(&replies, 1).iter().map(|piece| piece.data.len()).sum();
    assert_eq!((points, statuses(&replies, 1).len()), (10_101, 0));
}

#[test]
fn a_stopped_list_plays_no_more() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    world.pass(5000);
    let client = world.client();
    world.slow_archive = true;
    world.add(&client, 1, &format!("M:OUTTMP<-LOGGER:{START}:{}", START + 5000));
    world.add(&client, 2, &format!("M:OUTTMP<-LOGGER:{START}:{}", START + 3000));
    world.start(&client);
    world.stop(&client);
    world.slow_archive = false;
    world.pass(1000);
    assert_eq!(pieces(&world.replies(&client), 1), []);
    // A request that replaces another one gets the answer to its own question.
    world.slow_archive = true;
    world.add(&client, 1, &format!("M:OUTTMP<-LOGGER:{START}:{}", START + 5000));
    world.start(&client);
    world.add(&client, 1, &format!("M:OUTTMP<-LOGGER:{START}:{}", START + 1000));
    world.start(&client);
    world.slow_archive = false;
    world.pass(1000);
    let replies = world.replies(&client);
    assert_eq!(pieces(&replies, 1).iter().map(|piece| piece.data.len()).collect::<Vec<_>>(), [2, 0]);
    world.dpm.disconnect(client.key);
    world.pass(1000);
}

#[test]
fn a_new_database_changes_what_is_recorded() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    world.pass(2500);
    let read = |text: &str| std::sync::Arc::new(rookery_dpm::database::Database::read(text).expect("a good file"));
    let changed = DEMO.replace("M:OUTTMP@P,1000", "G:COUNTR@P,500");
    world.dpm.reload(read(&changed)).expect("it is taken");
    world.pass(0);
    world.pass(2500);
    let client = world.client();
    world.add(&client, 1, &format!("M:OUTTMP<-LOGGER:{START}:{}", START + 9000));
    world.add(&client, 2, &format!("G:COUNTR<-LOGGER:{START}:{}", START + 9000));
    world.start(&client);
    let replies = world.replies(&client);
    let counts = |ref_id| pieces(&replies, ref_id).iter().map(|piece| piece.data.len()).collect::<Vec<_>>();
    assert_eq!(counts(1), [3, 0], "what was recorded stays");
    assert_eq!(counts(2), [6, 0]);
}

fn pieces(replies: &[Reply], ref_id: i64) -> Vec<TimedScalarArray> {
    let piece = |reply: &Reply| match reply {
        Reply::TimedScalarArray(piece) if piece.ref_id == ref_id => Some(piece.clone()),
        _ => None,
    };
    replies.iter().filter_map(piece).collect()
}

#[test]
fn questions_that_were_given_up_do_not_pile_up() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    world.pass(10_000);
    let (greedy, other) = (world.client_from(1), world.client_from(2));
    world.slow_archive = true;
    let asked = world.questions;
    for _ in 0..1000 {
        world.add(&greedy, 1, "M:OUTTMP<-LOGGERDURATION:60000");
        world.start(&greedy);
        world.ask(&greedy, ClearList { list_id: greedy.list_id });
    }
    world.add(&greedy, 1, "M:OUTTMP<-LOGGERDURATION:60000");
    world.start(&greedy);
    world.add(&other, 1, "M:OUTTMP<-LOGGERDURATION:60000");
    world.start(&other);
    world.slow_archive = false;
    world.pass(1000);
    assert_eq!(world.questions - asked, 32 + 2, "those of an address wait for each other");
    for client in [&greedy, &other] {
        let replies = world.replies(client);
        let played = replies.iter().filter(|reply| matches!(reply, Reply::TimedScalarArray(_))).count();
        assert_eq!(played, 2, "its points and their end: {replies:?}");
    }
}

#[test]
fn many_questions_of_a_list_are_answered_in_their_order_and_taken_back_one_by_one() {
    let mut world = ServiceWorld::new(DEMO).with_archive();
    world.pass(10_000);
    let client = world.client();
    world.slow_archive = true;
    for ref_id in 0..2000 {
        world.add(&client, ref_id, "M:OUTTMP<-LOGGERDURATION:60000");
    }
    world.start(&client);
    for ref_id in (0..2000).filter(|ref_id| ref_id % 10 != 3) {
        world.ask(&client, rookery_dpm::sdd::request::RemoveFromList { list_id: client.list_id, ref_id });
    }
    world.replies(&client);
    world.slow_archive = false;
    world.pass(1000);
    let ends = world.replies(&client).into_iter().filter_map(|reply| match reply {
        Reply::TimedScalarArray(batch) if batch.data.is_empty() => Some(batch.ref_id),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), (0..200).map(|number| number * 10 + 3).collect::<Vec<i64>>());
}
