//! Accounts and their sessions: §4.1 to §4.7.

use rookery_sasl::Mechanism;
use rookery_testkit::{Client, Config, Security, Server};

use super::{AdministrationScene, condition, error_note, expect_completed, run};

fn log_in(server: &Server, name: &str, mechanism: Mechanism, password: &str) -> Result<(), String> {
    // A client that has failed before has to wait.
    server.advance(3_600_000);
    let mut client = server.connect();
    client.open("example.org");
    client.authenticate(name, password, mechanism)
}

/// Checks that the stream has ended; anything before its end is ignored.
fn is_ended(client: &mut Client) {
    while client.take().is_some() {}
    assert!(!client.is_open(), "the session goes on");
}

/// Returns the form of a new account.
fn new_account<'a>(jid: &'a [&'a str]) -> [(&'static str, &'a [&'a str]); 3] {
    [("accountjid", jid), ("password", &["secret12"]), ("password-verify", &["secret12"])]
}

#[test]
fn accounts_are_added() {
    let mut scene = AdministrationScene::new();
    scene.succeed("add-user", &new_account(&["juliet@example.org"]));
    let account = scene.server.address("juliet");
    assert_eq!(scene.server.finish(scene.server.stores().accounts.exists(account.as_ref())), Ok(true));
    let exists = error_note(&scene.run("add-user", &new_account(&["juliet@example.org"])));
    assert!(exists.contains("juliet@example.org"), "{exists}");
    for jid in ["juliet@other.example", "example.org", "@", "juliet@example.org/balcony"] {
        assert_ne!(error_note(&scene.run("add-user", &new_account(&[jid]))), "", "{jid}");
    }
    // XEP-0050 §3.6: what must be filled in is missing.
    assert_eq!(condition(&scene.run("add-user", &new_account(&[""]))), "bad-request bad-payload");
    let different = [("accountjid", &["a@example.org"][..]), ("password", &["x"][..]), ("password-verify", &["y"][..])];
    assert_eq!(error_note(&scene.run("add-user", &different)), "the two passwords differ");
    let unthinkable =
        [("accountjid", &["a@example.org"][..]), ("password", &["&#x9;"][..]), ("password-verify", &["&#x9;"][..])];
    assert_ne!(error_note(&scene.run("add-user", &unthinkable)), "");
}

#[test]
fn short_passwords_are_refused_with_the_key_that_says_so() {
    let mut scene = AdministrationScene::new();
    let short = [("accountjid", &["a@example.org"][..]), ("password", &["1234567"]), ("password-verify", &["1234567"])];
    let told = error_note(&scene.run("add-user", &short));
    assert!(told.contains("at least 8 characters") && told.contains("min_password"), "{told}");
    let jid = scene.jid(1);
    let told = error_note(&scene.run("change-user-password", &[("accountjid", &[&jid]), ("password", &["1234567"])]));
    assert!(told.contains("at least 8 characters"), "{told}");
}

#[test]
fn accounts_are_deleted_with_their_sessions() {
    let mut scene = AdministrationScene::new();
    let mut users = [0, 1].map(|at| scene.server.online(&format!("{}/r", scene.names[at])));
    let (a, b) = (scene.jid(0), scene.jid(1));
    scene.succeed("delete-user", &[("accountjids", &[&a, &b])]);
    users.iter_mut().for_each(|user| user.expect_stream_error("not-authorized"));
    for name in &scene.names {
        let account = scene.server.address(name);
        assert_eq!(scene.server.finish(scene.server.stores().accounts.exists(account.as_ref())), Ok(false));
    }
    let answer = scene.run("delete-user", &[("accountjids", &[&a])]);
    assert!(expect_completed(&answer).children().any(|note| note.attr("type") == Some("error")));
    assert_eq!(condition(&scene.run("delete-user", &[("accountjids", &["bard@example.org"])])), "not-allowed");
}

#[test]
fn a_disabled_account_is_told_so_and_nobody_else() {
    for at in [0, 1] {
        let mut scene = AdministrationScene::new();
        let mut user = scene.server.online(&format!("{}/r", scene.names[at]));
        let jid = scene.jid(at);
        scene.succeed("disable-user", &[("accountjids", &[&jid])]);
        user.expect_stream_error("policy-violation");
        for mechanism in [Mechanism::Plain, Mechanism::ScramSha256] {
            let try_with = |password| log_in(&scene.server, &scene.names[at], mechanism, password);
            assert_eq!(try_with(rookery_testkit::server::PASSWORD), Err("account-disabled".into()));
            assert_eq!(try_with("wrong"), Err("not-authorized".into()));
        }
        scene.succeed("reenable-user", &[("accountjids", &[&jid])]);
        let account = scene.server.address(&scene.names[at]);
        let mut again = scene.server.connect();
        again.log_in(&account, Security::Plain);
        again.bind("r");
    }
}

#[test]
fn sessions_are_ended_all_or_one() {
    for at in [0, 1] {
        let mut scene = AdministrationScene::new();
        let mut one = scene.server.online(&format!("{}/one", scene.names[at]));
        let mut two = scene.server.online(&format!("{}/two", scene.names[at]));
        let jid = scene.jid(at);
        let full = format!("{jid}/one");
        scene.succeed("end-user-session", &[("accountjids", &[&full])]);
        is_ended(&mut one);
        two.all();
        two.expect_alive();
        scene.succeed("end-user-session", &[("accountjids", &[&jid])]);
        is_ended(&mut two);
        scene.server.online(&format!("{}/one", scene.names[at])).expect_alive();
    }
}

#[test]
fn passwords_are_changed() {
    let mut scene = AdministrationScene::new();
    let jid = scene.jid(1);
    scene.succeed("change-user-password", &[("accountjid", &[&jid]), ("password", &["a new one"])]);
    assert_eq!(log_in(&scene.server, &scene.names[1], Mechanism::Plain, "a new one"), Ok(()));
    let unknown = [("accountjid", &["nobody@example.org"][..]), ("password", &["a new one"][..])];
    assert_ne!(error_note(&scene.run("change-user-password", &unknown)), "");
}

#[test]
fn the_next_owner_of_an_administrators_name_has_no_rights() {
    let register = ["allow_creation", "allow_plaintext"];
    let options = register.map(|key| ("register", key, rookery_hub::Value::Switch(true))).to_vec();
    let scene = AdministrationScene::with(Config { options, ..Config::default() });
    // The administrator removes its account; the next owner of the name doesn't get the rights.
    let mut admin = scene.admin;
    admin.send("<iq type='set' id='r' to='example.org'><query xmlns='jabber:iq:register'><remove/></query></iq>");
    admin.expect("<iq type='result' id='r' from='example.org'/>");
    let mut guest = scene.server.connect();
    guest.open("example.org");
    guest.send(
        "<iq type='set' id='r'><query xmlns='jabber:iq:register'>\
         <username>bard</username><password>whatever1</password></query></iq>",
    );
    assert_eq!(condition(&guest.expect_element()), "conflict");
}

#[test]
fn users_may_not_run_commands_about_accounts() {
    let scene = AdministrationScene::new();
    let mut user = scene.server.login(&format!("{}/r", scene.names[0]));
    for command in ["add-user", "delete-user", "get-registered-users-num", "shutdown", "edit-admin"] {
        assert_eq!(condition(&run(&mut user, command, &[])), "forbidden", "{command}");
    }
}

/// Emptying an archive removes its messages and those that wait to be stored. The other user's
/// archive keeps the conversation, and later messages are archived again.
#[test]
fn archives_are_emptied() {
    let mut scene = AdministrationScene::new();
    let [mut one, mut other] = [0, 1].map(|at| scene.server.online(&format!("{}/r", scene.names[at])));
    let texts = |client: &mut Client| {
        client.send("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>");
        let found: Vec<_> = client.all().iter().map(rookery_testkit::client::xml).collect();
        ["old", "waiting", "new"].map(|text| found.iter().any(|found| found.contains(text)))
    };
    let to = other.bare().to_owned();
    let mut say = |text: &str| {
        one.send(&format!("<message type='chat' to='{to}'><body>{text}</body></message>"));
        one.pump();
    };
    say("old");
    scene.server.advance(5_000);
    say("waiting");
    let node = "urn:rookery:administration#empty-archive";
    let command = |attributes: &str, form: &str| {
        let namespace = rookery_xml::ns::COMMANDS;
        format!(
            "<iq type='set' id='1' to='example.org'><command xmlns='{namespace}' node='{node}'{attributes}>{form}</command></iq>"
        )
    };
    other.all();
    assert_eq!(condition(&other.ask(&command("", ""))), "forbidden");
    let empty = |scene: &mut AdministrationScene, account: &str| {
        let form = format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='accountjids'><value>{account}</value></field></x>"
        );
        let first = scene.admin.ask(&command("", ""));
        let session = first.child("command", rookery_xml::ns::COMMANDS).unwrap().attr("sessionid").unwrap().to_owned();
        let answer = scene.admin.ask(&command(&format!(" sessionid='{session}' action='complete'"), &form));
        expect_completed(&answer).children().filter_map(|note| note.attr("type")).any(|type_| type_ == "error")
    };
    assert!(!empty(&mut scene, &to));
    assert_eq!(texts(&mut other), [false, false, false]);
    say("new");
    other.all();
    assert_eq!(texts(&mut other), [false, false, true]);
    assert_eq!(texts(&mut one), [true, true, true]);
    assert!(empty(&mut scene, "nobody@example.org"), "there is no such account");
}
