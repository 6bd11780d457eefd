//! Clients are told which node is the home of their account.

use super::*;

/// Returns two nodes, each with a host name to which clients can be sent.
fn steering(logins: bool) -> Server {
    let steering = Some(Steering { host: "n1.example.org:5223".into(), logins });
    let settings = Settings { told: ToldAddresses { steering, pages: None }, ..Settings::default() };
    Server::with(Config { shards: 4, nodes: 2, tls: true, settings, ..Config::default() })
}

#[test]
fn a_client_hears_where_its_session_can_be_resumed() {
    let server = steering(false);
    for by_way_of in [0, 3] {
        let account = server.account(&server.name_at("juliet", 0));
        let mut juliet = server.connect_at(by_way_of);
        juliet.log_in(&account, Security::StartTls);
        juliet.bind("phone");
        juliet.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        juliet.expect("<enabled xmlns='urn:xmpp:sm:3' resume='true' id='*' max='*' location='n1.example.org:5223'/>");
        juliet.close();
    }
}

#[test]
fn a_session_that_can_not_be_resumed_has_no_place() {
    let server = steering(false);
    let mut juliet = at_home(&server, "juliet", 0, 0);
    juliet.send("<enable xmlns='urn:xmpp:sm:3'/>");
    let enabled = juliet.expect_element();
    assert_eq!((enabled.name(), enabled.attr("location")), ("enabled", None));
}

#[test]
fn a_client_is_sent_home_once_a_minute() {
    let server = steering(true);
    let account = server.account(&server.name_at("juliet", 0));
    let mut sent = log_in_at(&server, &account, 2, Security::StartTls);
    sent.expect_header();
    assert_eq!(sent.expect_element().name(), "features");
    let error = sent.expect_element();
    let host = error.child_text("see-other-host", ns::STREAM_ERRORS);
    assert_eq!(host.as_deref(), Some("n1.example.org:5223"));
    // The client doesn't follow, and is served by the other node, however often it comes.
    for shard in [2, 3] {
        let mut stays = server.connect_at(shard);
        stays.log_in(&account, Security::StartTls);
        stays.bind("phone");
        stays.send("<presence/>");
        stays.expect_presence_of_itself();
        stays.close();
    }
    server.advance(60_000);
    let mut again = log_in_at(&server, &account, 2, Security::StartTls);
    again.expect_header();
    assert_eq!(again.expect_element().name(), "features");
    assert!(again.expect_element().child("see-other-host", ns::STREAM_ERRORS).is_some());
    assert_eq!(server.sessions(), 0);
}

#[test]
fn a_client_at_home_or_without_tls_is_not_sent_anywhere() {
    let server = steering(true);
    let account = server.account(&server.name_at("juliet", 0));
    for (shard, security) in [(0, Security::StartTls), (2, Security::Plain)] {
        let mut juliet = server.connect_at(shard);
        juliet.log_in(&account, security);
        juliet.bind("phone");
        juliet.close();
    }
}
