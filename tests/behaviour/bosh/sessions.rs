//! Users over BOSH, who can do the same as over other transports; and the ends of sessions.

use rookery_testkit::bosh::Bosh;
use rookery_testkit::{Config, Security, Server};
use rookery_xml::ns;

#[test]
fn a_session_is_told_its_terms() {
    // XEP-0124 §7.2, XEP-0206 §4.
    let server = Server::new();
    let mut client = Bosh::new(&server);
    let body = client.open("hold='1' wait='90' ver='1.6' xml:lang='de'");
    let told =
        ["wait", "requests", "hold", "inactivity", "polling", "maxpause", "ver", "from"].map(|name| body.attr(name));
    assert_eq!(told, ["60", "2", "1", "60", "5", "120", "1.6", "example.org"].map(Some));
    assert_eq!(client.sid.len(), 32);
    let features = body.child("features", ns::STREAMS).expect("features");
    assert!(features.child("mechanisms", ns::SASL).is_some());
    assert!(features.child("starttls", ns::STARTTLS).is_none(), "TLS is a matter of HTTP");
}

#[test]
fn two_people_chat() {
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    romeo.send(&format!("<message to='{}' type='chat'><body>Neither, fair maid</body></message>", juliet.jid));
    waits.expect_one("<message from='romeo@example.org/orchard' type='chat'><body>Neither, fair maid</body></message>");
    let waits = juliet.ask("", "");
    let said =
        juliet.ask("", "<message to='romeo@example.org/orchard' xmlns='jabber:client'><body>By whose</body></message>");
    romeo.expect_message("juliet@example.org/balcony", "By whose");
    // The older request is answered so that the newer can wait (§8).
    waits.expect_empty();
    said.expect_nothing();
}

#[test]
fn stanzas_may_leave_their_namespace_to_the_wrapper() {
    // XEP-0206 §2; and prefixes may be declared there.
    let server = Server::new();
    let (mut juliet, _) = Bosh::login(&server, "juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    juliet.ask("", "<message to='romeo@example.org/orchard'><body>one</body></message> <message to='romeo@example.org/orchard'><body>two</body></message>");
    server.settle();
    juliet.ask("xmlns:x='urn:x'", "<message to='romeo@example.org/orchard'><body>three</body><x:x/></message>");
    romeo.expect_message("juliet@example.org/balcony", "one");
    romeo.expect_message("juliet@example.org/balcony", "two");
    let three = romeo.expect_message("juliet@example.org/balcony", "three");
    assert!(three.child("x", "urn:x").is_some());
}

#[test]
fn a_reply_goes_out_with_the_request_that_waits() {
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    let asked = juliet.ask("", "<iq type='get' id='p' to='example.org'><ping xmlns='urn:xmpp:ping'/></iq>");
    waits.expect_one("<iq type='result' id='p' from='example.org'/>");
    asked.expect_nothing();
}

#[test]
fn a_login_by_sasl_2_needs_no_restart() {
    let server = Server::new();
    server.account("juliet");
    let mut client = Bosh::new(&server);
    client.open("hold='1' wait='60' ver='1.6'");
    let body = client
        .ask(
            "",
            "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>AGp1bGlldAByMG0zMG15cjBtMzA=\
             </initial-response><bind xmlns='urn:xmpp:bind:0'/></authenticate>",
        )
        .expect();
    let success = body.child("success", "urn:xmpp:sasl:2").unwrap_or_else(|| panic!("no success: {body:?}"));
    let identifier = success.child_text("authorization-identifier", "urn:xmpp:sasl:2").unwrap();
    assert!(identifier.starts_with("juliet@example.org/"), "{identifier}");
    assert_eq!(server.sessions(), 1);
}

#[test]
fn stream_management_is_left_to_bosh() {
    let server = Server::new();
    server.account("juliet");
    let mut client = Bosh::new(&server);
    client.open("hold='1' wait='60' ver='1.6'");
    client.authenticate("juliet");
    let resumed = client.ask("", "<resume xmlns='urn:xmpp:sm:3' previd='x' h='0'/>").expect();
    assert!(resumed.child("failed", ns::SM).is_some(), "{resumed:?}");
    client.bind("balcony");
    client.ask("", "").expect_nothing();
    client.ask("", "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let again = client.ask_as(client.rid - 2, "", "");
    again.expect_one(
        "<failed xmlns='urn:xmpp:sm:3'><feature-not-implemented xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
    );
}

#[test]
fn the_client_ends_its_session() {
    // §13: the oldest request gets the word, others an empty response; what the last request holds
    // is forwarded first.
    let server = Server::new();
    let mut romeo = server.login("romeo/orchard");
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    let last = juliet.ask("type='terminate'", "<message to='romeo@example.org/orchard'><body>Adieu</body></message>");
    romeo.expect_message("juliet@example.org/balcony", "Adieu");
    waits.expect_end("");
    last.expect_empty();
    assert_eq!((server.sessions(), server.connections()), (1, 1));
    juliet.ask("", "").expect_end("item-not-found");
}

#[test]
fn a_login_can_be_given_up() {
    let server = Server::new();
    let mut client = Bosh::new(&server);
    client.open("hold='1' wait='60' ver='1.6'");
    client.ask("type='terminate'", "").expect_end("");
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_request_waits_no_longer_than_agreed() {
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    server.advance(59_999);
    waits.expect_nothing();
    server.advance(1);
    waits.expect_empty();
    server.advance(30_000);
    let waits = juliet.ask("", "");
    server.advance(59_000);
    waits.expect_nothing();
}

#[test]
fn who_is_away_for_too_long_is_gone() {
    // §10: the session ends, and what it was not sent goes where it belongs.
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    juliet.ask("", "<presence/>");
    waits.expect();
    let waits = juliet.ask("", "<presence><priority>1</priority></presence>");
    server.advance(60_000);
    waits.expect();
    let mut romeo = server.login("romeo/orchard");
    romeo.send("<message to='juliet@example.org' type='chat'><body>unheard</body></message>");
    romeo.expect_nothing();
    assert_eq!(server.sessions(), 2);
    server.advance(60_000);
    assert_eq!((server.sessions(), server.connections()), (1, 1));
    juliet.ask("", "").expect_end("item-not-found");
    assert_eq!(server.online("juliet/window").bodies(), ["unheard"]);
}

#[test]
fn what_went_out_and_was_not_received_is_not_lost() {
    // The response left, and no request showed that it had arrived.
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    juliet.ask("", "<presence/>");
    waits.expect();
    let waits = juliet.ask("", "");
    let mut romeo = server.login("romeo/orchard");
    romeo.send("<message to='juliet@example.org' type='chat'><body>one</body></message>");
    romeo.pump();
    let body = waits.answer();
    assert!(body.is_some());
    server.advance(130_000);
    assert_eq!(server.sessions(), 1);
    assert_eq!(server.online("juliet/window").bodies(), ["one"]);
}

#[test]
fn what_was_received_does_not_come_again() {
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    juliet.ask("", "<presence/>");
    waits.expect();
    server.advance(10_000);
    let mut romeo = server.login("romeo/orchard");
    romeo.send("<message to='juliet@example.org' type='chat'><body>one</body></message>");
    romeo.pump();
    // An empty request comes from a client that has the response to the one before.
    let waits = juliet.ask("", "");
    waits.expect_nothing();
    waits.vanish();
    server.advance(200_000);
    assert_eq!(server.sessions(), 1);
    assert!(server.online("juliet/window").bodies().is_empty());
}

#[test]
fn a_client_may_say_that_it_will_be_away() {
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    let pause = juliet.ask("pause='120'", "");
    waits.expect_empty();
    pause.expect_empty();
    server.advance(119_000);
    assert_eq!(server.sessions(), 1);
    let waits = juliet.ask("", "");
    waits.expect_nothing();
    server.advance(60_000);
    waits.expect_empty();
    server.advance(60_000);
    assert_eq!(server.sessions(), 0, "from the next request on all is as before");
}

#[test]
fn a_pause_that_is_too_long_is_none() {
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    let pause = juliet.ask("pause='121'", "");
    waits.expect_empty();
    pause.expect_nothing();
}

#[test]
fn an_error_of_the_stream_ends_the_session() {
    // XEP-0206 §6.
    let server = Server::new();
    let (_juliet, waits) = Bosh::login(&server, "juliet/balcony");
    let mut other = server.connect();
    other.log_in(&server.account("juliet"), Security::Plain);
    other.bind("balcony");
    let body = waits.expect_end("remote-stream-error");
    let error = body.child("error", ns::STREAMS).expect("the error");
    assert!(error.child("conflict", ns::STREAM_ERRORS).is_some(), "{error:?}");
    assert_eq!(server.sessions(), 1);
}

#[test]
fn an_error_waits_for_the_next_request() {
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    server.advance(60_000);
    waits.expect_empty();
    let mut other = server.connect();
    other.log_in(&server.account("juliet"), Security::Plain);
    other.bind("balcony");
    juliet.ask("", "").expect_end("remote-stream-error");
    juliet.ask("", "").expect_end("item-not-found");
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_server_that_stops_says_so() {
    let server = Server::new();
    let (_juliet, waits) = Bosh::login(&server, "juliet/balcony");
    server.stop();
    waits.expect_end("system-shutdown");
    Bosh::new(&server).create("to='example.org'").expect_end("system-shutdown");
    server.advance(1000);
    assert!(server.is_finished());
}

#[test]
fn a_login_takes_no_longer_than_any_other() {
    let server = Server::with(Config { login_seconds: 30, ..Config::default() });
    let mut client = Bosh::new(&server);
    client.open("hold='1' wait='60' ver='1.6'");
    let waits = client.ask("", "");
    server.advance(30_000);
    let body = waits.expect_end("remote-stream-error");
    assert!(
        body.child("error", ns::STREAMS)
            .is_some_and(|error| error.child("connection-timeout", ns::STREAM_ERRORS).is_some())
    );
}

#[test]
fn many_stanzas_go_out_in_several_answers() {
    let server = Server::new();
    let (mut juliet, mut waits) = Bosh::login(&server, "juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    let long = "x".repeat(9_000);
    for number in 0..30 {
        romeo.send(&format!("<message to='{}'><body>{number} {long}</body></message>", juliet.jid));
    }
    romeo.pump();
    let mut heard = 0;
    while heard < 30 {
        let answer = waits.answer().expect("an answer");
        assert!(answer.body.len() <= 80_000, "{}", answer.body.len());
        for message in waits.expect().children() {
            let body = message.child_text("body", ns::CLIENT).unwrap();
            assert!(body.starts_with(&format!("{heard} ")), "{heard}");
            heard += 1;
        }
        waits = juliet.ask("", "");
    }
    waits.expect_nothing();
}

#[test]
fn a_session_moves_to_the_home_of_its_account() {
    let server = Server::new();
    for home in 0..server.shards() {
        let name = server.name_at("juliet", home);
        for resource in ["one", "two"] {
            let (mut client, waits) = Bosh::login(&server, &format!("{name}/{resource}"));
            client.ask("", "<iq type='get' id='p' to='example.org'><ping xmlns='urn:xmpp:ping'/></iq>");
            waits.expect_one("<iq type='result' id='p' from='example.org'/>");
        }
    }
}
