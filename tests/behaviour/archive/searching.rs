//! XEP-0431: words in archives, and the bounds of searches.

use rookery_hub::Value;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::Config;
use rookery_xml::ns;

use super::{ArchiveScene, ArchivedPage, expect_refusal, page, query, set};

const TEXT: &str = "{urn:xmpp:fulltext:0}fulltext";

fn with_budget(messages: u64) -> ArchiveScene {
    ArchiveScene::with(Config { options: vec![("archive", "search", Value::Number(messages))], ..Config::default() })
}

fn search(scene: &mut ArchiveScene, word: &str, rest: &str) -> ArchivedPage {
    page(&mut scene.juliet, &[(TEXT, word)], &set(rest))
}

#[test]
fn words_are_few_and_short_and_count_once() {
    let mut scene = ArchiveScene::new();
    scene.romeo_says("O Romeo, Romeo");
    let same = "romeo ".repeat(5000);
    assert_eq!(search(&mut scene, &same, "").bodies(), ["O Romeo, Romeo"]);
    let different: String = (0..17).map(|number| format!("w{number} ")).collect();
    for words in [different, "x".repeat(257)] {
        expect_refusal(&mut scene.juliet, &query(&[(TEXT, &words)], ""), "policy-violation");
    }
}

#[test]
fn a_search_that_ends_early_goes_on_from_there() {
    let mut scene = with_budget(4);
    for body in ["a", "rose", "b", "c", "d", "e", "f", "g", "h", "rose again"] {
        scene.romeo_says(body);
    }
    let all = page(&mut scene.juliet, &[], "");
    let first = search(&mut scene, "rose", "");
    assert_eq!((first.bodies(), first.is_complete()), (vec!["rose"], false));
    assert_eq!(first.rsm("last").as_deref(), Some(all.id(3)), "as far as it was looked");
    let second = search(&mut scene, "rose", &format!("<after>{}</after>", first.rsm("last").unwrap()));
    assert_eq!((second.bodies().len(), second.is_complete()), (0, false));
    assert_eq!(second.rsm("last").as_deref(), Some(all.id(7)), "an empty page goes on as well");
    let third = search(&mut scene, "rose", &format!("<after>{}</after>", second.rsm("last").unwrap()));
    assert_eq!((third.bodies(), third.is_complete()), (vec!["rose again"], true));
}

#[test]
fn a_search_from_the_end_that_ends_early_goes_on_from_there() {
    let mut scene = with_budget(3);
    for body in ["rose", "a", "b", "c", "rose again", "d"] {
        scene.romeo_says(body);
    }
    let all = page(&mut scene.juliet, &[], "");
    let first = search(&mut scene, "rose", "<before/>");
    assert_eq!((first.bodies(), first.is_complete()), (vec!["rose again"], false));
    assert_eq!(first.rsm("first").as_deref(), Some(all.id(3)));
    let second = search(&mut scene, "rose", &format!("<before>{}</before>", first.rsm("first").unwrap()));
    assert_eq!((second.bodies(), second.is_complete()), (vec!["rose"], true));
}

#[test]
fn an_account_has_few_searches_at_a_time_and_a_shard_one_portion() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let mut scene = ArchiveScene::with(Config { stores: held.stores(), ..Config::default() });
    scene.romeo_says("rose");
    let own = scene.juliet.bare().to_owned();
    let mut sessions: Vec<_> = (0..3).map(|number| scene.server.online(&format!("{own}/{number}"))).collect();
    let other = format!("{}/hall", scene.server.name_at("nurse", scene.server.home_of(&own)));
    let mut other = scene.server.online(&other);
    scene.server.advance(2000);
    for client in sessions.iter_mut().chain([&mut other, &mut scene.juliet]) {
        client.all();
    }
    held.set_flowing(false);
    for client in sessions.iter_mut().take(2).chain([&mut other]) {
        client.send(&query(&[(TEXT, "rose")], ""));
    }
    scene.server.settle();
    assert_eq!(held.waiting(), 1, "one portion is loaded");
    expect_refusal(&mut sessions[2], &query(&[(TEXT, "rose")], ""), "resource-constraint");
    // It counts searches, and nothing else waits for them.
    scene.juliet.expect_alive();
    for _ in 0..3 {
        assert_eq!(held.waiting(), 1);
        held.release_all();
        scene.server.settle();
    }
    for (client, results) in sessions.iter_mut().take(2).map(|client| (client, 1)).chain([(&mut other, 0)]) {
        let answers = client.all();
        assert_eq!(answers.len(), results + 1, "{answers:?}");
        assert!(answers.last().is_some_and(|iq| iq.child("fin", ns::MAM).is_some()));
    }
    held.set_flowing(true);
    assert_eq!(page(&mut sessions[2], &[(TEXT, "rose")], "").bodies(), ["rose"], "and again");
}

/// Searches don't depend on an engine's own rules for words, letters and collations.
#[test]
fn words_of_all_scripts_are_found_by_their_parts() {
    let mut scene = ArchiveScene::new();
    let bodies = ["Ärger im Straßenverkehr", "東京都に住む", "naïve café 🦊 at 10:30", "that is it, and no more"];
    for body in bodies {
        scene.romeo_says(body);
    }
    for (words, expected) in [
        ("ärger", &bodies[..1]),
        ("STRASSE", &[]),
        ("straße", &bodies[..1]),
        ("verkehr im", &bodies[..1]),
        ("京都", &bodies[1..2]),
        ("🦊", &bodies[2..3]),
        ("CAFÉ 10:3", &bodies[2..3]),
        ("cafe", &[]),
        // Words that engines leave out of their indexes: short and frequent ones.
        ("it is", &bodies[3..]),
        ("%", &[]),
        ("_", &[]),
    ] {
        assert_eq!(search(&mut scene, words, "").bodies(), expected, "{words}");
    }
}

/// Pages, contacts and parts of words: an index must leave none of it out.
#[test]
fn what_is_found_is_there() {
    let mut scene = ArchiveScene::new();
    for body in ["a rose is", "a rose", "rosemary", "prose", "r o s e"] {
        scene.romeo_says(body);
    }
    assert_eq!(search(&mut scene, "rose", "").bodies(), ["a rose is", "a rose", "rosemary", "prose"]);
    assert_eq!(search(&mut scene, "rose is", "").bodies(), ["a rose is"]);
    assert_eq!(search(&mut scene, "rose", "<max>1</max><before/>").bodies(), ["prose"]);
    let all = page(&mut scene.juliet, &[], "");
    let after = format!("<max>1</max><after>{}</after>", all.id(1));
    assert_eq!(search(&mut scene, "rose", &after).bodies(), ["rosemary"]);
    let (romeo, nobody) = (scene.romeo.bare().to_owned(), "nobody@elsewhere.example");
    for (with, count) in [(romeo.as_str(), 4), (nobody, 0)] {
        let found = page(&mut scene.juliet, &[(TEXT, "rose"), ("with", with)], "");
        assert_eq!(found.bodies().len(), count, "{with}");
    }
}
