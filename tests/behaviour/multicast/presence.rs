//! Directed presence of users of this server, through the service (§6; RFC 6121 §4.6).

use rookery_testkit::{Config, befriend};

use super::{MulticastScene, error, expect_refusal, saw};

fn end(scene: &MulticastScene) -> String {
    format!("<presence type='unavailable' from='{}'/>", scene.sender.full())
}

/// A recipient of presence through the service hears of the end of the session, once.
#[test]
fn unavailable_presence_follows() {
    let mut scene = MulticastScene::new();
    scene.shows("", "to:NEAR bcc:FAR/r");
    scene.see("to!NEAR", "to!NEAR bcc:FAR/r");
    // An account that is away or doesn't exist is not told, nor is the sender (RFC 6121
    // §8.5.2.2.2).
    scene.shows("", "to:NEAR to:nobody@example.org bcc:a@elsewhere.net");
    scene.see("to!NEAR to!nobody@example.org", "");
    assert_eq!(scene.server.take_left().iter().filter(|left| left.to == "a@elsewhere.net").count(), 1);
    scene.sender.vanish();
    let end = end(&scene);
    scene.near.expect(&end);
    scene.far.expect(&end);
    scene.near.expect_nothing();
    scene.far.expect_nothing();
    let left = scene.server.take_left();
    let [told] = &left[..] else { panic!("{left:?}") };
    assert!(told.to == "a@elsewhere.net" && told.text.contains("type='unavailable'"), "{told:?}");
}

/// An `unavailable` that the sender has sent by itself isn't repeated when its session ends.
#[test]
fn who_was_told_by_the_sender_is_not_told_again() {
    let mut scene = MulticastScene::new();
    scene.shows("", "to:NEAR bcc:FAR");
    scene.shows("unavailable", "bcc:NEAR");
    scene.see("to!NEAR, bcc:NEAR", "to!NEAR bcc:FAR");
    scene.sender.close();
    scene.near.expect_nothing();
    let end = end(&scene);
    scene.far.expect(&end);
}

/// Nothing that was refused is remembered.
#[test]
fn what_was_refused_is_not_remembered() {
    let mut scene = MulticastScene::with_options(vec![("local_presences", rookery_hub::Value::Number(1))]);
    scene.shows("", "to:NEAR to:FAR");
    scene.is_refused("modify", "not-acceptable");
    scene.shows("", "odd:NEAR");
    scene.is_refused("modify", "bad-request");
    scene.sender.vanish();
    scene.nothing_is_delivered();
}

/// As many as directed presence may go to; each counts once. Either all of a stanza fit, or none is
/// sent.
#[test]
fn directed_presence_is_bounded() {
    let mut config = Config { federates: true, ..Config::default() };
    config.settings.max_directed = 2;
    let mut scene = MulticastScene::with(config);
    scene.shows("", "to:NEAR to:FAR cc:a@example.org");
    scene.is_refused("wait", "resource-constraint");
    scene.shows("", "to:NEAR cc:NEAR bcc:NEAR to:FAR");
    scene.see("to!NEAR to!FAR", "to!NEAR to!FAR");
    scene.shows("", "to:NEAR to:a@example.org");
    expect_refusal(&mut scene.sender, "wait", "resource-constraint");
    scene.nothing_is_delivered();
    scene.sender.vanish();
    assert_eq!((scene.near.all().len(), scene.far.all().len()), (1, 1));
}

/// A contact who sees the user anyway hears of the end once.
#[test]
fn contacts_hear_of_the_end_once() {
    let mut scene = MulticastScene::new();
    scene.sender.send("<presence/>");
    scene.sender.expect_presence_of_itself();
    befriend(&mut scene.sender, &mut scene.far);
    scene.shows("", "to:FAR bcc:NEAR");
    scene.near.all();
    scene.far.all();
    scene.sender.vanish();
    let end = end(&scene);
    for client in [&mut scene.near, &mut scene.far] {
        client.expect(&end);
        client.expect_nothing();
    }
}

/// The same contact hears of it too if there never was a broadcast (RFC 6121 §4.6.3), and once if
/// there was one later.
#[test]
fn contacts_of_a_session_that_is_not_available_hear_of_the_end() {
    for broadcast in [false, true] {
        let mut scene = MulticastScene::new();
        scene.sender.send("<presence/>");
        scene.sender.expect_presence_of_itself();
        befriend(&mut scene.sender, &mut scene.far);
        scene.sender.send("<presence type='unavailable'/>");
        scene.sender.all();
        scene.far.all();
        scene.shows("", "to:FAR");
        if broadcast {
            scene.sender.send("<presence/>");
        }
        scene.sender.pump();
        assert_eq!(scene.far.all().len(), 1 + usize::from(broadcast));
        scene.sender.vanish();
        let end = end(&scene);
        scene.far.expect(&end);
        scene.far.expect_nothing();
    }
}

/// RFC 6121 §3: a subscription is between two, and neither passes a header nor is remembered.
#[test]
fn subscriptions_are_refused() {
    for type_ in ["subscribe", "subscribed", "unsubscribe", "unsubscribed"] {
        let mut scene = MulticastScene::new();
        scene.server.incoming(
            &scene
                .with_names(&super::presence("multicast.example.org", type_, "to:NEAR bcc:FAR"))
                .replace("<presence ", "<presence from='a@elsewhere.net' "),
        );
        let refused = super::refused_away(&scene.server.take_left());
        let wanted = ("a@elsewhere.net".into(), "multicast.example.org".into(), "not-allowed".into());
        assert_eq!(refused, [wanted], "{type_}");
        scene.nothing_is_delivered();
    }
    let mut scene = MulticastScene::new();
    scene.sender.send("<presence/>");
    scene.sender.expect_presence_of_itself();
    scene.shows("subscribe", "to:NEAR bcc:FAR");
    let refusal = error("p", "multicast.example.org", "cancel", "not-allowed");
    scene.sender.expect(&format!("<presence {refusal}</presence>"));
    scene.nothing_is_delivered();
}

/// A probe is a server's question to one.
#[test]
fn probes_are_not_passed_on() {
    let mut scene = MulticastScene::new();
    scene.shows("probe", "to:NEAR bcc:FAR");
    scene.sender.expect_alive();
    scene.nothing_is_delivered();
}

/// The domain takes presence with a header as the service does, and remembers it.
#[test]
fn presence_may_go_through_the_domain() {
    let mut scene = MulticastScene::new();
    let presence = scene.with_names(&super::presence("example.org", "", "to:NEAR"));
    scene.sender.send(&presence);
    scene.see("to!NEAR", "");
    scene.sender.vanish();
    assert_eq!(saw(&mut scene.near), "no header");
}
