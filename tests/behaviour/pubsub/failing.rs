//! Requests that need several writes, one of which fails: the reply must not say that all
//! succeeded.

use std::sync::Arc;

use rookery_store::StoreError;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::Config;

use super::*;

const BOOKMARKS: &str = "<storage xmlns='storage:bookmarks'/>";

/// Returns a server whose store replies at once, and can be made to fail.
fn scene() -> (PubsubScene, Arc<HeldStores>) {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { stores: held.stores(), ..Config::default() });
    (PubsubScene::on(server), held)
}

/// Repeats a set and makes another operation of the store fail each time. Checks that the reply is
/// an error, or everything is stored.
fn whatever_fails(set: &str, asked: &str, expected: &str) {
    for at in 0.. {
        let (mut scene, held) = scene();
        held.fail_one(at, StoreError::Busy);
        let answer = private(&mut scene.hamlet, "set", set);
        let is_done = answer.attr("type") == Some("result");
        if !held.has_failed() {
            assert!(is_done && at > 0, "nothing has failed");
            return;
        }
        let kept: String =
            private(&mut scene.hamlet, "get", asked).children().flat_map(Element::children).map(xml).collect();
        assert!(!is_done || kept == expected, "operation {at} failed, the answer was {}, kept is {kept}", xml(&answer));
    }
}

fn private(client: &mut Client, type_: &str, content: &str) -> Element {
    client.ask(&format!("<iq type='{type_}' id='p'><query xmlns='jabber:iq:private'>{content}</query></iq>"))
}

#[test]
fn private_elements_are_kept_all_or_none() {
    let two = "<a xmlns='urn:a'>1</a><b xmlns='urn:b'>2</b>";
    for (asked, expected) in
        [("<a xmlns='urn:a'/>", "<a xmlns='urn:a'>1</a>"), ("<b xmlns='urn:b'/>", "<b xmlns='urn:b'>2</b>")]
    {
        whatever_fails(two, asked, expected);
    }
}

#[test]
fn bookmarks_are_all_written_if_the_answer_says_so() {
    let conference = |id: &str| format!("<conference jid='{id}@chat.example.org' name='{id}'/>");
    let storage = |ids: &[&str]| {
        format!(
            "<storage xmlns='storage:bookmarks'>{}</storage>",
            ids.iter().map(|id| conference(id)).collect::<String>()
        )
    };
    let three = storage(&["a", "b", "c"]);
    whatever_fails(&three, BOOKMARKS, &three);
}

/// If reading a vCard fails, it isn't replaced by an empty one.
#[test]
fn a_card_outlives_a_store_that_fails() {
    for at in 0.. {
        let (mut scene, held) = scene();
        let card = "<vCard xmlns='vcard-temp'><FN>Hamlet</FN></vCard>";
        is_result(scene.hamlet.ask(&format!("<iq type='set' id='v'>{card}</iq>")));
        scene.hamlet.all();
        let open = options(&[("access_model", "open")]);
        let metadata = "<metadata xmlns='urn:xmpp:avatar:metadata'/>";
        held.fail_one(at, StoreError::Busy);
        let publish =
            format!("<publish node='urn:xmpp:avatar:metadata'><item id='0'>{metadata}</item></publish>{open}");
        ask(&mut scene.hamlet, "", "set", PUBSUB, &publish);
        scene.hamlet.all();
        if !held.has_failed() {
            assert!(at > 0, "nothing has failed");
            return;
        }
        let kept = scene.hamlet.ask("<iq type='get' id='v'><vCard xmlns='vcard-temp'/></iq>");
        assert!(xml(&kept).contains("<FN>Hamlet</FN>"), "operation {at} failed: {}", xml(&kept));
    }
}
