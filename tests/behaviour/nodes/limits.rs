//! Limits for an address or an account count for all nodes together.

use rookery_hub::Value;
use rookery_sasl::Mechanism;
use rookery_testkit::server::PASSWORD;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::ns;

use super::nodes;

/// Tries a password at a shard, always from the same address. Returns the condition of the failure,
/// or an empty text.
fn try_at(server: &Server, shard: usize, password: &str) -> String {
    let mut client = server.connect_at(shard);
    client.open("example.org");
    let (_, initial) = client.exchange("juliet", password, Mechanism::Plain);
    let initial = base64(&initial);
    client.send(&format!("<auth xmlns='{}' mechanism='PLAIN'>{initial}</auth>", ns::SASL));
    server.advance(2_000);
    let answer = client.expect_element();
    client.close();
    match answer.name() {
        "success" => String::new(),
        _ => answer.children().next().map(|child| child.name().to_owned()).unwrap_or_default(),
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Creates an account at a shard, always from the same address. Returns the condition of the error,
/// or an empty text.
fn register_at(server: &Server, shard: usize, username: &str) -> String {
    let mut guest: Client = server.connect_at(shard);
    guest.open("example.org");
    let answer = guest.ask(&format!(
        "<iq type='set' id='r'><query xmlns='jabber:iq:register'><username>{username}</username>\
         <password>{PASSWORD}</password></query></iq>"
    ));
    let error = answer.child("error", ns::CLIENT);
    error.and_then(|error| error.children().next()).map(|child| child.name().to_owned()).unwrap_or_default()
}

/// A shard of each of the two nodes.
const NODES: [usize; 2] = [0, 2];

#[test]
fn who_guesses_a_password_has_as_many_guesses_at_two_nodes_as_at_one() {
    let server = nodes();
    server.account("juliet");
    let answers: Vec<String> = (0..30).map(|at| try_at(&server, NODES[at % 2], "wrong")).collect();
    let looked_at = answers.iter().take_while(|answer| *answer == "not-authorized").count();
    assert!((20..=21).contains(&looked_at), "{looked_at}: {answers:?}");
    assert!(answers[looked_at..].iter().all(|answer| answer == "temporary-auth-failure"), "{answers:?}");
    for shard in NODES {
        assert_eq!(try_at(&server, shard, PASSWORD), "temporary-auth-failure", "the right one isn't looked at either");
    }
}

#[test]
fn where_somebody_has_logged_in_is_known_at_all_nodes() {
    let server = nodes();
    server.account("juliet");
    assert_eq!(try_at(&server, 0, PASSWORD), "");
    // An address from which nobody has logged in has only this many attempts for the account.
    let answers: Vec<String> = (0..40).map(|at| try_at(&server, NODES[at % 2], "wrong")).collect();
    assert!(answers.iter().all(|answer| answer == "not-authorized"), "{answers:?}");
    assert_eq!(try_at(&server, 2, PASSWORD), "");
}

#[test]
fn a_node_that_does_not_understand_it_is_told_nothing_of_limits() {
    let server = Server::with(Config { shards: 4, nodes: 2, letters: vec![2, 1], ..Config::default() });
    server.account("juliet");
    let looked_at = |shard: usize| (0..30).filter(|_| try_at(&server, shard, "wrong") == "not-authorized").count();
    assert_eq!(looked_at(0), 20);
    assert_eq!(looked_at(2), 20, "it has heard nothing");
    assert_eq!(try_at(&server, 3, PASSWORD), "temporary-auth-failure");
}

#[test]
fn an_address_creates_one_account_at_all_nodes_together() {
    let options =
        vec![("register", "allow_plaintext", Value::Switch(true)), ("register", "allow_creation", Value::Switch(true))];
    let server = Server::with(Config { shards: 4, nodes: 2, options, ..Config::default() });
    assert_eq!(register_at(&server, 0, "romeo"), "");
    assert_eq!(register_at(&server, 2, "juliet"), "resource-constraint");
    server.advance(600_000);
    // A request for a name that is taken doesn't count.
    assert_eq!(register_at(&server, 2, "romeo"), "conflict");
    assert_eq!(register_at(&server, 0, "juliet"), "");
    assert_eq!(register_at(&server, 2, "nurse"), "resource-constraint");
}
