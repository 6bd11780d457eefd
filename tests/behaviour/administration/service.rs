//! The domain's messages, its administrators, and its end: §4.23 to §4.32.

use rookery_operations::process::Wish;
use rookery_operations::removed::PendingRemoval;
use rookery_sasl::Credentials;
use rookery_testkit::befriend;
use rookery_testkit::server::PASSWORD;

use super::{AdministrationScene, condition, error_note, run, values};

#[test]
fn announcements_reach_those_who_are_here() {
    let mut scene = AdministrationScene::new();
    let mut users = [0, 1].map(|at| scene.server.online(&format!("{}/r", scene.names[at])));
    let mut silent = scene.server.login("silent/r");
    scene.succeed("announce", &[("subject", &["Soon"]), ("announcement", &["Log off", "now!"])]);
    for user in &mut users {
        user.expect("<message type='headline' id='*' from='example.org'><subject>Soon</subject><body>Log off\nnow!</body></message>");
    }
    silent.expect_nothing();
    assert_eq!(condition(&scene.run("announce", &[("announcement", &[""])])), "bad-request bad-payload");
}

#[test]
fn the_message_of_the_day_is_set_changed_and_deleted() {
    let mut scene = AdministrationScene::new();
    let names = scene.names.clone();
    let mut here = scene.server.online(&format!("{}/r", names[0]));
    scene.succeed("set-motd", &[("motd", &["one"])]);
    here.expect_message("example.org", "one");
    here.close();
    // A user who has received the message doesn't get it again, not even when it changes; a user
    // who hasn't gets the current one.
    scene.succeed("edit-motd", &[("motd", &["two"])]);
    scene.server.online(&format!("{}/r", names[0])).expect_nothing();
    let mut later = scene.server.online(&format!("{}/r", names[1]));
    later.expect_message("example.org", "two");
    later.close();
    scene.server.online(&format!("{}/r", names[1])).expect_nothing();
    scene.succeed("delete-motd", &[]);
    scene.server.online("third/r").expect_nothing();
}

#[test]
fn a_message_of_the_day_survives_a_restart() {
    let mut scene = AdministrationScene::new();
    scene.succeed("set-motd", &[("motd", &["stay"])]);
    scene.server.restart();
    scene.server.online("romeo/r").expect_message("example.org", "stay");
    scene.server.online("romeo/s").all();
    scene.server.restart();
    scene.server.online("romeo/r").expect_nothing();
}

#[test]
fn new_users_are_welcomed() {
    let mut scene = AdministrationScene::new();
    scene.succeed("set-welcome", &[("welcome", &["Hello!"])]);
    let fields =
        |jid| [("accountjid", jid), ("password", &["r0m30myr0m30"][..]), ("password-verify", &["r0m30myr0m30"][..])];
    scene.succeed("add-user", &fields(&["new@example.org"]));
    let mut new = scene.server.online("new/r");
    assert_eq!(new.bodies(), ["Hello!"]);
    scene.succeed("delete-welcome", &[]);
    scene.succeed("add-user", &fields(&["newer@example.org"]));
    assert_eq!(scene.server.online("newer/r").bodies(), [""; 0]);
}

#[test]
fn administrators_name_others() {
    let mut scene = AdministrationScene::new();
    let mut user = scene.server.login(&format!("{}/r", scene.names[1]));
    assert_eq!(condition(&run(&mut user, "get-online-users-num", &[])), "forbidden");
    let jid = scene.jid(1);
    scene.succeed("edit-admin", &[("adminjids", &[&jid])]);
    run(&mut user, "get-online-users-num", &[]);
    assert_ne!(error_note(&scene.run("edit-admin", &[("adminjids", &["example.org"])])), "");
    // The other one isn't named by the configuration, so it must not lock itself out.
    assert_ne!(error_note(&run(&mut user, "edit-admin", &[("adminjids", &["x@example.org"])])), "");
    scene.succeed("edit-admin", &[("adminjids", &[])]);
    assert_eq!(condition(&run(&mut user, "get-online-users-num", &[])), "forbidden");
    // A removed account doesn't leave its rights to the next owner of its name.
    scene.succeed("edit-admin", &[("adminjids", &[&jid])]);
    scene.succeed("delete-user", &[("accountjids", &[&jid])]);
    let mut successor = scene.server.login(&format!("{}/r", scene.names[1]));
    assert_eq!(condition(&run(&mut successor, "get-online-users-num", &[])), "forbidden");
}

#[test]
fn the_end_is_announced_and_comes_later() {
    let mut scene = AdministrationScene::new();
    let mut user = scene.server.online(&format!("{}/r", scene.names[1]));
    scene.succeed("shutdown", &[("delay", &["30"]), ("announcement", &["Bye"])]);
    user.expect_message("example.org", "Bye");
    scene.server.advance(29_000);
    assert_eq!(scene.server.wishes(), []);
    scene.server.advance(2_000);
    assert_eq!(scene.server.wishes(), [Wish::Stop]);
    scene.succeed("restart", &[]);
    scene.server.advance(1_000);
    assert_eq!(scene.server.wishes(), [Wish::Restart]);
    for delay in ["-1", "soon", "99999999999999999999999"] {
        assert_ne!(error_note(&scene.run("shutdown", &[("delay", &[delay])])), "", "{delay}");
    }
    assert_eq!(values(&scene.succeed("get-online-users-num", &[]), "onlineusersnum"), ["2"]);
}

/// The command line asks the server that runs: it ends the sessions and tells the contacts.
#[test]
fn accounts_are_removed_that_the_command_line_wants_removed() {
    for at in [0, 1] {
        let scene = AdministrationScene::new();
        let mut user = scene.server.online(&format!("{}/r", scene.names[at]));
        let mut other = scene.server.online(&format!("{}/r", scene.names[1 - at]));
        befriend(&mut user, &mut other);
        let (stores, account) = (scene.server.stores(), scene.server.address(&scene.names[at]));
        let now = rookery_testkit::server::EPOCH_MS + scene.server.now();
        let removal = scene.server.finish(PendingRemoval::of(&stores, account.as_ref())).unwrap().expect("an account");
        scene.server.finish(removal.ask(&stores, now)).unwrap();
        assert_eq!(scene.server.finish(removal.is_done(&stores)), Ok(false));
        scene.server.advance(2_000);
        user.all_to_the_end();
        assert_eq!(scene.server.finish(removal.is_done(&stores)), Ok(true));
        assert_eq!(
            scene.server.finish(PendingRemoval::of(&stores, account.as_ref())).map(|removal| removal.is_none()),
            Ok(true)
        );
        let heard = other.all();
        assert!(heard.iter().any(|it| it.attr("type") == Some("unavailable")), "{heard:?}");
        let contact = scene.server.address(&scene.names[1 - at]);
        assert_eq!(
            scene.server.finish(stores.rosters.contacts(contact.as_ref())),
            Ok(vec![]),
            "no subscription is left"
        );
        // The removal happens once: a later account of the same name, which has other keys, is left
        // alone.
        let keys = Credentials::derive_with(PASSWORD, 4096, [*b"another salt 16."; 3]);
        scene.server.finish(stores.accounts.create(account.as_ref(), keys.unwrap())).unwrap();
        assert_eq!(scene.server.finish(removal.is_done(&stores)), Ok(true));
        // A note that comes late doesn't remove the later account either.
        scene.server.finish(removal.ask(&stores, now + 1_000)).unwrap();
        let mut successor = scene.server.online(&format!("{}/r", scene.names[at]));
        scene.server.advance(30_000);
        assert_eq!(scene.server.finish(stores.meta.entries("removed")), Ok(Vec::new()));
        successor.expect_alive();
        other.expect_alive();
    }
}
