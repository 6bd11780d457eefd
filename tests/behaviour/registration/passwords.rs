//! A new password ends the sessions of the old one, and is hashed like any other.

use rookery_hub::{Settings, Value};
use rookery_operations::removed::SessionsEnd;
use rookery_testkit::client::xml;
use rookery_testkit::server::EPOCH_MS;
use rookery_testkit::{Client, Config, Server};

use super::{closed_server, fill_in, guest, link, outcome, show};

/// Returns a client of Juliet's. Another client of hers has lost its connection and may resume its
/// session.
fn sessions(server: &Server) -> Client {
    let before = server.sessions();
    let mut phone = server.online("juliet/phone");
    phone.enable();
    phone.vanish();
    server.settle();
    let desk = server.online("juliet/desk");
    assert_eq!(server.sessions(), before + 2);
    desk
}

fn set_password(client: &mut Client, password: &str) -> String {
    outcome(&client.ask(&format!(
        "<iq type='set' id='p' to='example.org'><query xmlns='jabber:iq:register'>\
         <username>juliet</username><password>{password}</password></query></iq>"
    )))
}

#[test]
fn a_new_password_ends_all_other_sessions() {
    let server = closed_server();
    let mut desk = sessions(&server);
    let mut laptop = server.online("juliet/laptop");
    desk.all();
    laptop.all();
    // This client has logged in with the old password, and has no session yet.
    let mut halfway = server.connect();
    halfway.log_in(&server.address("juliet"), rookery_testkit::Security::Plain);
    assert_eq!(set_password(&mut laptop, "another one"), "");
    assert!(desk.all_to_the_end().last().is_some_and(|last| xml(last).contains("<reset ")));
    halfway.expect_stream_error("not-authorized");
    assert_eq!(server.sessions(), 1, "the one that did it");
    laptop.all();
    laptop.expect_alive();
}

#[test]
fn a_password_that_a_link_or_the_command_line_sets_ends_all_sessions() {
    let server = closed_server();
    let mut bard = server.login("bard/globe");
    let mut desk = sessions(&server);
    let (_, token) = link(&mut bard, "urn:rookery:register#reset-password", &[("accountjid", "juliet@example.org")]);
    let mut guest = guest(&server);
    show(&mut guest, &token);
    assert_eq!(outcome(&fill_in(&mut guest, "juliet", "long enough")), "");
    assert!(desk.all_to_the_end().last().is_some_and(|last| xml(last).contains("<reset ")));
    assert_eq!(server.sessions(), 1);
    bard.expect_alive();
    // The command line writes to the store, and tells the running server.
    let server = closed_server();
    let mut desk = sessions(&server);
    let (stores, account) = (server.stores(), server.address("juliet"));
    let end = server.finish(SessionsEnd::of(&stores, account.as_ref())).expect("read").expect("an account");
    server.finish(end.ask(&stores, EPOCH_MS + server.now())).expect("noted");
    assert_eq!(server.finish(end.is_taken(&stores)), Ok(false));
    server.advance(2_000);
    assert_eq!(server.finish(end.is_taken(&stores)), Ok(true));
    assert!(desk.all_to_the_end().last().is_some_and(|last| xml(last).contains("<reset ")));
    assert_eq!(server.sessions(), 0);
    server.online("juliet/desk").expect_alive();
}

/// All ways of setting a password hash it with the same effort: a difference would show whether an
/// account exists.
#[test]
fn every_way_hashes_as_often_as_the_operator_wants() {
    let options = vec![
        ("register", "allow_creation", Value::Switch(true)),
        ("register", "allow_plaintext", Value::Switch(true)),
        ("administration", "admins", Value::List(vec!["bard@example.org".into()])),
    ];
    let settings = Settings { scram_iterations: 5432, ..Settings::default() };
    let server = Server::with(Config { options, settings, login_seconds: 10_000_000, ..Config::default() });
    let iterations = |name: &str| {
        let account = server.address(name);
        let kept = server.finish(server.stores().accounts.credentials(account.as_ref())).expect("read");
        kept.expect("an account").sha256.iterations
    };
    assert_eq!(outcome(&fill_in(&mut guest(&server), "romeo", "long enough")), "");
    assert_eq!(iterations("romeo"), 5432);
    let mut juliet = server.login("juliet/desk");
    assert_ne!(iterations("juliet"), 5432);
    assert_eq!(set_password(&mut juliet, "another one"), "");
    assert_eq!(iterations("juliet"), 5432);
    let mut bard = server.login("bard/globe");
    super::rights::add_user(&mut bard, "paris");
    assert_eq!(iterations("paris"), 5432);
}
