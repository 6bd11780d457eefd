//! Announcements by messages to addresses of the domain. Those by commands are tested with the
//! other commands of administrators.

use rookery_hub::Value;
use rookery_testkit::{Client, Config, Server, play};

/// Returns a server with an administrator, and an available user on each shard.
fn scene() -> (Server, Client, [Client; 2]) {
    let admins = ("administration", "admins", Value::List(vec!["bard@example.org".into()]));
    let server = Server::with(Config { options: vec![admins], ..Config::default() });
    let users = [0, 1].map(|shard| server.online(&format!("{}/r", server.name_at("user", shard))));
    let admin = server.login("bard/globe");
    (server, admin, users)
}

fn message(to: &str, body: &str) -> String {
    format!(
        "<message to='example.org/announce/{to}' id='a' type='chat'><body>{body}</body><x xmlns='urn:x'/></message>"
    )
}

#[test]
fn those_who_are_here_hear_it() {
    let (server, mut admin, users) = scene();
    server.account("away");
    admin.send(&message("online", "hi"));
    for mut user in users {
        user.expect("<message type='headline' id='*' from='example.org'><body>hi</body></message>");
    }
    admin.expect_nothing();
    server.online("away/r").expect_nothing();
}

#[test]
fn all_hear_it_when_they_come() {
    let (server, mut admin, users) = scene();
    server.account("away");
    admin.send(&message("all", "hi"));
    for mut user in users {
        user.expect("<message type='normal' id='*' from='example.org'><body>hi</body></message>");
    }
    assert_eq!(server.online("away/r").bodies(), ["hi"]);
}

#[test]
fn large_domains_are_told_in_steps() {
    let (server, mut admin, users) = scene();
    for number in 0..700 {
        server.account(&format!("away{number:03}"));
    }
    admin.send(&message("all", "hi"));
    admin.expect_nothing();
    server.advance(1000);
    assert_eq!(server.online("away699/r").bodies(), ["hi"]);
    assert_eq!(server.online("away000/r").bodies(), ["hi"]);
    drop(users);
}

#[test]
fn the_message_of_the_day_greets_each_account_once() {
    let (server, mut admin, mut users) = scene();
    admin.send(&message("motd", "one"));
    users.iter_mut().for_each(|user| drop(user.expect_message("example.org", "one")));
    admin.send(&message("motd/update", "two"));
    users.iter_mut().for_each(Client::expect_nothing);
    let mut later = server.online("later/r");
    later.expect_message("example.org", "two");
    server.online("later/s").all().iter().for_each(|stanza| assert_eq!(stanza.name(), "presence"));
    admin.send("<message to='example.org/announce/motd/delete'/>");
    admin.expect_nothing();
    server.online("last/r").expect_nothing();
}

/// Each node remembers the message of the day for the logins of its own accounts.
#[test]
fn the_message_of_the_day_is_the_same_on_all_nodes() {
    let admins = ("administration", "admins", Value::List(vec!["bard@example.org".into()]));
    let server = Server::with(Config { options: vec![admins], shards: 4, nodes: 2, ..Config::default() });
    let mut admin = server.login("bard/globe");
    let told_of_one = |name: &str, what: &str| {
        for shard in 0..4 {
            let mut user = server.online(&format!("{}/r", server.name_at(name, shard)));
            match what {
                "" => user.expect_nothing(),
                _ => drop(user.expect_message("example.org", what)),
            }
        }
    };
    told_of_one("before", "");
    admin.send(&message("motd", "one"));
    told_of_one("first", "one");
    admin.send(&message("motd/update", "two"));
    told_of_one("second", "two");
    admin.send("<message to='example.org/announce/motd/delete'/>");
    told_of_one("third", "");
}

#[test]
fn only_administrators_announce() {
    let (server, _admin, mut users) = scene();
    let mut user = server.login("romeo/orchard");
    for to in ["online", "all", "motd", "motd/update", "motd/delete"] {
        user.send(&message(to, "buy"));
        user.expect(&format!(
            "<message type='error' id='a' from='example.org/announce/{to}'>\
             <error type='auth'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        ));
    }
    users.iter_mut().for_each(Client::expect_nothing);
}

#[test]
fn what_is_no_announcement_is_none() {
    let (_server, mut admin, mut users) = scene();
    // A chat state, an empty text, an error.
    for stanza in [
        "<message to='example.org/announce/online'><active xmlns='http://jabber.org/protocol/chatstates'/></message>",
        "<message to='example.org/announce/online'><body> </body></message>",
        "<message to='example.org/announce/online' type='error'><body>x</body></message>",
        "<presence to='example.org/announce/online'/>",
    ] {
        admin.send(stanza);
        admin.expect_nothing();
    }
    users.iter_mut().for_each(Client::expect_nothing);
    play(
        &mut [&mut admin],
        "C: <message to='example.org/announce/other' id='o'><body>x</body></message>
         S: <message type='error' id='o' from='example.org/announce/other'><error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
    );
}
