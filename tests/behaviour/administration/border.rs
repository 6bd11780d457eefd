//! Black- and whitelists: §4.11, §4.12.

use rookery_testkit::Config;

use super::{Scene, condition, noted};

fn scene() -> Scene {
    Scene::with(Config { federates: true, ..Config::default() })
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
            assert_eq!(scene.server.left(), [], "the refused hear nothing");
        }
        for to in ["x@marlowe.lit", "kit@other.example/r"] {
            user.send(&format!("<message to='{to}' id='m'><body>hi</body></message>"));
            assert_eq!(condition(&user.expect_element()), "not-allowed", "{to}");
            assert_eq!(scene.server.left(), []);
        }
        scene.server.incoming(&message("ben@other.example/r", &jid));
        user.expect_message("ben@other.example/r", "hi");
        user.send("<message to='ben@other.example'><body>hi</body></message>");
        assert_eq!(scene.server.left().len(), 1);
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
        assert_ne!(noted(&answer), "", "{entry}");
    }
}
