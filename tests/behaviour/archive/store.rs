//! A store that is slow or broken: chat goes on, and it is known which messages the archive lacks.

use rookery_hub::Value;
use rookery_store::StoreError;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::Config;
use rookery_xml::ns;

use super::{ArchiveScene, expect_refusal, page, query};

fn hold_store() -> (ArchiveScene, std::sync::Arc<HeldStores>) {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    (ArchiveScene::with(Config { stores: held.stores(), ..Config::default() }), held)
}

#[test]
fn a_store_that_does_not_answer_delays_nobody() {
    let (mut scene, held) = hold_store();
    scene.romeo_says("before");
    held.set_flowing(false);
    for number in 0..50 {
        let message = scene.romeo_says(&number.to_string());
        assert!(message.child("stanza-id", ns::STANZA_ID).is_some());
        scene.server.advance(300);
    }
    held.set_flowing(true);
    while held.release_all() > 0 {
        scene.server.settle();
    }
    assert_eq!(page(&mut scene.juliet, &[], "").messages.len(), 51);
}

#[test]
fn a_store_that_is_away_is_told_by_its_error_and_chat_goes_on() {
    let (mut scene, held) = hold_store();
    held.set_fault(Some(StoreError::Busy));
    scene.romeo_says("late");
    scene.server.advance(1000);
    expect_refusal(&mut scene.juliet, &query(&[], ""), "resource-constraint");
    held.set_fault(None);
    scene.romeo_says("kept");
    scene.server.advance(60_000);
    assert_eq!(page(&mut scene.juliet, &[], "").bodies(), ["late", "kept"]);
    assert_eq!(scene.server.counters().archive_lost, 0);
}

#[test]
fn what_a_store_refuses_for_good_is_missing_and_counted() {
    let (mut scene, held) = hold_store();
    let engine = rookery_store::error::EngineWords { database: "of a test".into(), message: "on demand".into() };
    held.set_fault(Some(StoreError::Full(engine)));
    scene.romeo_says("lost");
    scene.server.advance(1000);
    held.set_fault(None);
    scene.romeo_says("kept");
    assert_eq!(page(&mut scene.juliet, &[], "").bodies(), ["kept"]);
    assert_eq!(scene.server.counters().archive_lost, 2, "one message, two archives");
}

#[test]
fn what_waits_is_bounded() {
    let (mut scene, held) = hold_store();
    let mut nurse = scene.server.login("nurse/hall");
    held.set_flowing(false);
    let body = "x".repeat(200_000);
    let mut without_id = 0;
    for _ in 0..200 {
        let message = scene.romeo_says(&body);
        without_id += usize::from(message.child("stanza-id", ns::STANZA_ID).is_none());
    }
    assert!(without_id > 0, "40 MB do not all wait");
    // Messages of others are recorded all the same.
    let juliet = scene.juliet.bare().to_owned();
    nurse.send(&format!("<message type='chat' to='{juliet}'><body>mine</body></message>"));
    assert!(scene.juliet.expect_message(nurse.full(), "mine").child("stanza-id", ns::STANZA_ID).is_some());
    assert!(scene.server.counters().archive_lost >= without_id as u64);
    held.set_flowing(true);
    while held.release_all() > 0 {
        scene.server.settle();
    }
    scene.romeo_says("later");
    assert_eq!(
        page(&mut scene.juliet, &[], "<set xmlns='http://jabber.org/protocol/rsm'><before/><max>1</max></set>")
            .bodies(),
        ["later"]
    );
}

#[test]
fn a_server_that_stops_has_written_everything() {
    let mut scene = ArchiveScene::new();
    scene.romeo_says("last words");
    let (juliet, stores) = (scene.server.address(scene.juliet.bare()), scene.server.stores());
    assert_eq!(scene.server.finish(stores.archive.ends(juliet.as_ref())), Ok(None), "it still gathers");
    scene.server.stop();
    scene.server.advance(5000);
    assert!(scene.server.is_finished());
    assert!(matches!(scene.server.finish(stores.archive.ends(juliet.as_ref())), Ok(Some(_))));
}

/// There is a bound on what one sender may add to all archives in a day: it doesn't affect other
/// senders.
#[test]
fn a_sender_adds_so_much_in_a_day() {
    let options = vec![("archive", "day_bytes", Value::Number(20_000))];
    let mut scene = ArchiveScene::with(Config { options, ..Config::default() });
    let body = "x".repeat(7_000);
    let is_archived = |scene: &mut ArchiveScene| scene.romeo_says(&body).child("stanza-id", ns::STANZA_ID).is_some();
    assert_eq!([0; 4].map(|_| is_archived(&mut scene)), [true, true, false, false]);
    assert!(scene.romeo_says("a short one").child("stanza-id", ns::STANZA_ID).is_none(), "nothing until tomorrow");
    let (juliet, romeo) = (scene.juliet.bare().to_owned(), scene.romeo.bare().to_owned());
    scene.juliet.send(&format!("<message type='chat' to='{romeo}'><body>hi</body></message>"));
    assert!(scene.romeo.expect_message(scene.juliet.full(), "hi").child("stanza-id", ns::STANZA_ID).is_some());
    assert_eq!(page(&mut scene.juliet, &[], "").messages.len(), 3, "{juliet}");
    scene.server.advance(24 * 60 * 60 * 1000);
    assert!(is_archived(&mut scene));
}

/// A decision at a reload holds from the next message on.
#[test]
fn a_reload_changes_what_a_sender_may_add() {
    let options = |bytes| vec![("archive", "day_bytes", Value::Number(bytes))];
    let mut scene = ArchiveScene::with(Config { options: options(20_000), ..Config::default() });
    let is_archived = |scene: &mut ArchiveScene| scene.romeo_says("short").child("stanza-id", ns::STANZA_ID).is_some();
    assert!(is_archived(&mut scene));
    scene.server.reload(|config| config.options = options(1));
    assert!(!is_archived(&mut scene));
}
