//! Black- and whitelists: §4.11, §4.12.

use rookery_testkit::wire::{Item, Wire};
use rookery_testkit::{Config, Internet};

use super::{AdministrationScene, condition, error_note};

fn scene() -> AdministrationScene {
    AdministrationScene::with(Config { federates: true, ..Config::default() })
}

fn message(from: &str, to: &str) -> String {
    format!("<message from='{from}' to='{to}' id='m'><body>hi</body></message>")
}

#[test]
fn nothing_crosses_to_or_from_the_blacklisted() {
    for at in [0, 1] {
        let mut scene = scene();
        let jid = scene.jid(at);
        let mut user = scene.server.online(&format!("{}/r", scene.names[at]));
        scene.succeed("edit-blacklist", &[("blacklistjids", &["marlowe.lit", "kit@other.example"])]);
        for from in ["x@marlowe.lit/r", "marlowe.lit", "kit@other.example/r"] {
            scene.server.incoming(&message(from, &jid));
            user.expect_nothing();
            assert_eq!(scene.server.take_left(), [], "the refused hear nothing");
        }
        for to in ["x@marlowe.lit", "kit@other.example/r"] {
            user.send(&format!("<message to='{to}' id='m'><body>hi</body></message>"));
            assert_eq!(condition(&user.expect_element()), "not-allowed", "{to}");
            assert_eq!(scene.server.take_left(), []);
        }
        scene.server.incoming(&message("ben@other.example/r", &jid));
        user.expect_message("ben@other.example/r", "hi");
        user.send("<message to='ben@other.example'><body>hi</body></message>");
        assert_eq!(scene.server.take_left().len(), 1);
        scene.succeed("edit-blacklist", &[]);
        scene.server.incoming(&message("x@marlowe.lit/r", &jid));
        user.expect_message("x@marlowe.lit/r", "hi");
    }
}

#[test]
fn a_whitelist_excludes_all_others() {
    let mut scene = scene();
    let jid = scene.jid(1);
    let mut user = scene.server.online(&format!("{}/r", scene.names[1]));
    scene.succeed("edit-whitelist", &[("whitelistjids", &["friend.example", "ben@other.example"])]);
    for (from, passes) in [("x@friend.example/r", true), ("ben@other.example/r", true), ("x@other.example/r", false)] {
        scene.server.incoming(&message(from, &jid));
        match passes {
            true => drop(user.expect_message(from, "hi")),
            false => user.expect_nothing(),
        }
    }
    // A list survives a restart, and accounts of this server are not on it.
    scene.server.restart();
    let mut user = scene.server.online(&format!("{}/r", scene.names[1]));
    user.all();
    scene.server.incoming(&message("x@other.example/r", &jid));
    user.expect_nothing();
    scene.server.incoming(&message("x@friend.example/r", &jid));
    user.expect_message("x@friend.example/r", "hi");
}

#[test]
fn lists_have_addresses_of_others() {
    let mut scene = scene();
    let own = scene.jid(0);
    for entry in ["@", own.as_str(), "example.org", "multicast.example.org"] {
        let answer = scene.run("edit-blacklist", &[("blacklistjids", &[entry])]);
        assert_ne!(error_note(&answer), "", "{entry}");
    }
}

/// A server that has proven its domain to one of ours is on the list of another: the stream is good
/// for both, and what the second domain wants counts all the same.
#[test]
fn a_stream_that_one_domain_has_let_in_brings_nothing_to_another_that_has_not() {
    let internet = Internet::default();
    let domains = ["example.org", "second.example"].map(str::to_owned).to_vec();
    let meeting = internet.meeting_without_tls(&domains);
    let calls = internet.play("marlowe.lit");
    let mut scene = AdministrationScene::with(Config { domains, internet: Some(meeting), ..Config::default() });
    let mut barred = scene.server.online("juliet@example.org/r");
    let mut open = scene.server.online("nurse@second.example/r");
    scene.succeed("edit-blacklist", &[("blacklistjids", &["marlowe.lit"])]);
    let header = |id: &str| {
        format!(
            "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
             xmlns:db='jabber:server:dialback' from='marlowe.lit' to='second.example'{id} version='1.0'>"
        )
    };
    let mut peer = scene.server.connect_server([198, 51, 100, 7].into());
    peer.send(&header(""));
    peer.send("<db:result from='marlowe.lit' to='second.example'>key</db:result>");
    // Its own server, found through DNS, confirms the key.
    peer.pump();
    let mut asked = Wire::new(calls.take().expect("a call"));
    asked.send((header(" id='1'") + "<stream:features/>").as_bytes());
    scene.server.settle();
    asked.receive();
    let question = std::iter::from_fn(|| asked.take()).find_map(|item| match item {
        Item::Element(verify) if verify.name() == "verify" => Some(verify),
        _ => None,
    });
    let id = question.as_ref().and_then(|question| question.attr("id")).expect("a question about the key");
    let answer = format!("<db:verify from='marlowe.lit' to='second.example' id='{id}' type='valid'/>");
    asked.send(answer.as_bytes());
    scene.server.settle();
    for (to, body) in [("nurse@second.example", "1"), ("juliet@example.org", "2"), ("nurse@second.example", "3")] {
        peer.send(&format!("<message from='kit@marlowe.lit/r' to='{to}' id='m'><body>{body}</body></message>"));
    }
    assert_eq!(open.bodies(), ["1", "3"], "the domain that has let it in");
    barred.expect_nothing();
    assert!(peer.is_open(), "the stream is good for the other one");
}
