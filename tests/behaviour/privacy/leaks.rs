//! Facts that a blocked contact must not find out in any way.

use rookery_testkit::{Server, befriend};

use super::{PrivacyScene, block};

/// A client that comes online asks all contacts for their presence. A contact who blocks its user
/// looks offline, also after a new login of either.
#[test]
fn a_login_of_the_blocked_shows_nothing() {
    for shard in [0, 1] {
        let mut scene = PrivacyScene::at(shard);
        scene.block();
        let address = scene.romeo.full().split('@').next().map(str::to_owned).expect("a name");
        let mut again = scene.server.online(&format!("{address}/garden"));
        scene.romeo.all();
        again.expect("<presence from='ROMEO/orchard'/>".replace("ROMEO", again.bare()).as_str());
        again.expect_nothing();
        scene.juliet.expect_nothing();
    }
}

/// RFC 6121 §4.3.2: the last presence of an account that is away is shown to contacts, but not to
/// those whom it blocks.
#[test]
fn the_last_presence_is_concealed_too() {
    for shard in [0, 1] {
        for blocks in [false, true] {
            let mut scene = PrivacyScene::at(shard);
            if blocks {
                scene.block();
            }
            scene.juliet.send("<presence type='unavailable'><status>Good night</status></presence>");
            scene.juliet.close();
            scene.romeo.all();
            // The result is the same once nothing of hers is in memory any more.
            scene.server.advance(120_000);
            let name = scene.romeo.bare().split('@').next().map(str::to_owned).expect("a name");
            let mut again = scene.server.login(&format!("{name}/garden"));
            again.send("<presence/>");
            let all = again.all();
            let shown = all.iter().filter(|presence| presence.attr("from") == Some(scene.juliet.full())).count();
            assert_eq!(shown, usize::from(!blocks));
        }
    }
}

/// At a login of the user who blocks, neither her presence nor her probe reaches the contact, on
/// this server or another.
#[test]
fn a_login_of_the_one_who_blocks_shows_nothing() {
    let server = Server::with(rookery_testkit::Config { federates: true, ..Default::default() });
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    befriend(&mut juliet, &mut romeo);
    juliet.send("<presence type='subscribe' to='tybalt@elsewhere.example'/>");
    server.take_left();
    server.incoming("<presence from='tybalt@elsewhere.example' to='juliet@example.org' type='subscribed'/>");
    server.incoming("<presence from='tybalt@elsewhere.example' to='juliet@example.org' type='subscribe'/>");
    juliet.send("<presence type='subscribed' to='tybalt@elsewhere.example'/>");
    juliet.all();
    assert!(!server.take_left().is_empty(), "he sees her");
    block(&mut juliet, &["romeo@example.org", "elsewhere.example"]);
    romeo.all();
    assert!(server.take_left().iter().all(|left| left.text.contains("type='unavailable'")));
    juliet.close();
    let mut again = server.online("juliet/balcony");
    again.send("<presence><show>away</show></presence>");
    again.all();
    again.close();
    romeo.expect_nothing();
    assert_eq!(server.take_left(), []);
}

/// A subscription that ends while the contact is blocked reveals nothing about the resources.
#[test]
fn the_end_of_a_subscription_shows_nothing() {
    let mut scene = PrivacyScene::at(1);
    scene.block();
    scene.play(
        "juliet C: <presence><show>xa</show></presence>
         juliet S: <presence from='JULIET/balcony'><show>xa</show></presence>
         romeo  C: <presence type='unsubscribe' to='JULIET'/>
         romeo  S:
         romeo  C: <presence type='subscribe' to='JULIET'/>
         romeo  S:
         juliet S:",
    );
}

/// A single resource of a contact can be blocked, while the others aren't.
#[test]
fn one_resource_of_a_contact_can_be_blocked() {
    let mut scene = PrivacyScene::at(1);
    scene.play(
        "juliet C: <iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='ROMEO/orchard'/></block></iq>
         juliet S: <presence type='unavailable' from='ROMEO/orchard'/><iq type='result' id='b' from='JULIET'/>
         romeo  S: <presence type='unavailable' from='JULIET/balcony'/>
         romeo  C: <presence><status>1</status></presence>
         romeo  S: <presence from='ROMEO/orchard'><status>1</status></presence>
         juliet C: <message to='ROMEO' id='m'><body>Anybody else?</body></message>
         romeo  S: <message from='JULIET/balcony' id='m'><body>Anybody else?</body></message>",
    );
}
