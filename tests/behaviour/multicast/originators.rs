//! Presence of users of other servers through the service (§6): it remembers who saw them.

use super::{MulticastScene, refused_away, saw};

fn shows(scene: &MulticastScene, from: &str, type_: &str, header: &str) {
    let presence = scene.with_names(&super::presence("multicast.example.org", type_, header));
    scene.server.incoming(&presence.replacen("<presence ", &format!("<presence from='{from}' "), 1));
}

/// Unavailable presence goes to all who saw the originator, once.
#[test]
fn unavailable_presence_is_repeated_to_all() {
    let mut scene = MulticastScene::new();
    shows(&scene, "a@elsewhere.net/x", "", "to:NEAR");
    shows(&scene, "a@elsewhere.net/x", "", "bcc:FAR/r");
    scene.see("to!NEAR", "bcc:FAR/r");
    shows(&scene, "a@elsewhere.net/y", "unavailable", "");
    shows(&scene, "b@elsewhere.net/x", "unavailable", "");
    scene.nothing_is_delivered();
    shows(&scene, "a@elsewhere.net/x", "unavailable", "");
    for client in [&mut scene.near, &mut scene.far] {
        client.expect("<presence from='a@elsewhere.net/x' type='unavailable' id='p'/>");
    }
    shows(&scene, "a@elsewhere.net/x", "unavailable", "");
    scene.nothing_is_delivered();
}

/// With a header it is for those who are named; the others still wait for theirs.
#[test]
fn those_who_were_told_are_forgotten() {
    let mut scene = MulticastScene::new();
    shows(&scene, "a@elsewhere.net/x", "", "to:NEAR bcc:FAR");
    scene.near.all();
    scene.far.all();
    shows(&scene, "a@elsewhere.net/x", "unavailable", "to:NEAR");
    scene.see("to!NEAR", "");
    shows(&scene, "a@elsewhere.net/x", "unavailable", "");
    scene.see("", "no header");
}

/// A copy that was refused was not seen by anybody, and so is not repeated.
#[test]
fn what_was_refused_is_not_remembered() {
    let mut scene = MulticastScene::new();
    shows(&scene, "a@elsewhere.net/x", "", "to:NEAR to:b@third.net");
    assert_eq!(refused_away(&scene.server.take_left())[0].2, "forbidden");
    shows(&scene, "a@elsewhere.net/x", "unavailable", "");
    scene.nothing_is_delivered();
}

/// The recipients that can see one originator are bounded: none is sent what can't be remembered.
#[test]
fn recipients_of_one_originator_are_bounded() {
    let mut scene = MulticastScene::with_options(vec![("remote_presences", rookery_hub::Value::Number(0))]);
    let header: String = (0..1000).map(|at| format!("to:u{at}@example.org ")).collect();
    shows(&scene, "a@elsewhere.net/x", "", &header);
    assert_eq!(scene.server.take_left(), []);
    shows(&scene, "a@elsewhere.net/x", "", "to:NEAR");
    let refusal = ("a@elsewhere.net/x".into(), "multicast.example.org".into(), "resource-constraint".into());
    assert_eq!(refused_away(&scene.server.take_left()), [refusal]);
    scene.nothing_is_delivered();
    // Another one has room.
    shows(&scene, "a@elsewhere.net/y", "", "to:NEAR");
    assert_eq!(saw(&mut scene.near), scene.with_names("to!NEAR"));
}
