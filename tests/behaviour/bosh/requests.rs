//! The order of requests, those that come again, and how many there may be (XEP-0124 §11, §12,
//! §14).

use rookery_stream::bosh::Terms;
use rookery_testkit::bosh::Bosh;
use rookery_testkit::{Config, Server};
use rookery_xml::ns;

const HELLO: &str = "<message to='romeo@example.org/orchard'><body>hello</body></message>";

#[test]
fn requests_count_in_the_order_of_their_numbers() {
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    romeo.send(&format!("<message to='{}'><body>x</body></message>", juliet.jid));
    romeo.pump();
    waits.expect();
    let rid = juliet.rid;
    let second = juliet.ask_as(rid + 1, "", "<message to='romeo@example.org/orchard'><body>two</body></message>");
    romeo.expect_nothing();
    second.expect_nothing();
    let first = juliet.ask_as(rid, "", "<message to='romeo@example.org/orchard'><body>one</body></message>");
    romeo.expect_message("juliet@example.org/balcony", "one");
    romeo.expect_message("juliet@example.org/balcony", "two");
    first.expect_empty();
    second.expect_nothing();
    juliet.rid += 2;
}

#[test]
fn an_answer_that_was_lost_comes_again() {
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    romeo.send(&format!("<message to='{}'><body>x</body></message>", juliet.jid));
    romeo.pump();
    let answer = waits.answer().expect("an answer");
    let again = juliet.ask_as(juliet.rid - 1, "", "");
    assert_eq!(again.answer(), Some(answer.clone()));
    let said = juliet.ask("", HELLO);
    romeo.expect_message("juliet@example.org/balcony", "hello");
    said.expect_nothing();
    // The response before the last is kept, too: as many are kept as requests may be under way.
    let again = juliet.ask_as(juliet.rid - 2, "", "");
    assert_eq!(again.answer(), Some(answer));
}

#[test]
fn what_comes_again_is_not_done_again() {
    let server = Server::new();
    let (mut juliet, _) = Bosh::login(&server, "juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    let first = juliet.ask("", HELLO);
    romeo.expect_message("juliet@example.org/balcony", "hello");
    let second = juliet.ask_as(juliet.rid - 1, "", HELLO);
    // §14.3: the older copy gets a word that the client can recover from, the newer waits.
    assert_eq!(first.expect().attr("type"), Some("error"));
    second.expect_nothing();
    romeo.expect_nothing();
}

#[test]
fn a_request_whose_connection_broke_can_come_again() {
    let server = Server::new();
    let (juliet, waits) = Bosh::login(&server, "juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    waits.vanish();
    romeo.send(&format!("<message to='{}'><body>x</body></message>", juliet.jid));
    romeo.pump();
    let again = juliet.ask_as(juliet.rid - 1, "", "");
    again.expect_one("<message from='romeo@example.org/orchard'><body>x</body></message>");
}

#[test]
fn repetitions_are_counted() {
    let server = Server::new();
    let (juliet, _) = Bosh::login(&server, "juliet/balcony");
    let mut last = juliet.ask_as(juliet.rid - 1, "", "");
    for _ in 0..10 {
        last = juliet.ask_as(juliet.rid - 1, "", "");
    }
    last.expect_end("policy-violation");
    assert_eq!(server.sessions(), 0);
}

#[test]
fn a_number_out_of_the_window_ends_the_session() {
    // Too large and too small are the same (§14.3).
    for rid in [3, -4] {
        let server = Server::new();
        let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
        let forged = juliet.ask_as(juliet.rid.wrapping_add_signed(rid) - 1, "", HELLO);
        forged.expect_end("item-not-found");
        waits.expect_end("other-request");
        assert_eq!((server.sessions(), server.connections()), (0, 0));
        juliet.ask("", "").expect_end("item-not-found");
    }
}

#[test]
fn more_requests_than_agreed_are_too_many() {
    // §11: three under way where two may be.
    let server = Server::new();
    let (juliet, waits) = Bosh::login(&server, "juliet/balcony");
    let rid = juliet.rid;
    let (sid, ns) = (&juliet.sid, ns::HTTP_BIND);
    let last = server.post(&format!("<body rid='{}' sid='{sid}' xmlns='{ns}'>{HELLO}</body>", rid + 1));
    let between = server.post(&format!("<body rid='{rid}' sid='{sid}' xmlns='{ns}'>{HELLO}</body>"));
    last.expect_end("policy-violation");
    between.expect_end("other-request");
    waits.expect_end("other-request");
    assert_eq!(server.sessions(), 0);
}

#[test]
fn empty_requests_may_not_come_too_often() {
    // §11: as many as may be under way, the last one empty and soon after the one before.
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    server.advance(4_999);
    juliet.ask("", "").expect_end("policy-violation");
    waits.expect_end("other-request");
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    server.advance(5_000);
    juliet.ask("", "").expect_nothing();
    waits.expect_empty();
}

#[test]
fn thousands_of_empty_polls_end_at_the_second() {
    let server = Server::new();
    server.account("juliet");
    let mut client = Bosh::new(&server);
    let body = client.open("hold='0' wait='0' ver='1.6'");
    assert_eq!((body.attr("requests"), body.attr("hold"), body.attr("inactivity")), (Some("1"), Some("0"), Some("70")));
    client.ask("", "").expect_empty();
    client.ask("", "").expect_end("policy-violation");
    for _ in 0..5000 {
        client.ask("", "").expect_end("item-not-found");
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_polling_session_is_answered_at_once() {
    // §12.
    let server = Server::new();
    server.account("juliet");
    let mut client = Bosh::new(&server);
    client.open("hold='0' ver='1.6'");
    client.authenticate("juliet");
    client.bind("balcony");
    client.ask("", "").expect_empty();
    for _ in 0..3 {
        server.advance(5_000);
        client.ask("", "").expect_empty();
    }
    let mut romeo = server.login("romeo/orchard");
    romeo.send(&format!("<message to='{}'><body>x</body></message>", client.jid));
    romeo.pump();
    server.advance(5_000);
    client.ask("", "").expect_one("<message from='romeo@example.org/orchard'><body>x</body></message>");
    // After one with something in it the next may follow at once.
    client.ask("", "").expect_empty();
    assert_eq!(server.sessions(), 2);
}

#[test]
fn both_sides_may_acknowledge() {
    // §9.
    let server = Server::new();
    server.account("juliet");
    let mut client = Bosh::new(&server);
    let body = client.open("hold='1' wait='60' ver='1.6' ack='1'");
    assert_eq!(body.attr("ack").map(str::to_owned), Some((client.rid - 1).to_string()));
    client.authenticate("juliet");
    client.bind("balcony");
    let waits = client.ask("", "");
    waits.expect_nothing();
    client.ask("", HELLO);
    assert_eq!(waits.expect().attr("ack").map(str::to_owned), Some((client.rid - 1).to_string()));
    // Acknowledged responses need not be kept.
    client.ask_as(client.rid - 3, "", "").expect_end("item-not-found");
}

#[test]
fn more_than_one_request_may_wait() {
    let server = Server::with(Config { bosh: Terms { hold: 3, ..Terms::default() }, ..Config::default() });
    server.account("juliet");
    let mut client = Bosh::new(&server);
    let body = client.open("hold='2' wait='60' ver='1.6'");
    assert_eq!((body.attr("hold"), body.attr("requests")), (Some("2"), Some("3")));
    client.authenticate("juliet");
    client.bind("balcony");
    let waits = [client.ask("", ""), client.ask("", "")];
    waits.iter().for_each(|waits| waits.expect_nothing());
    let mut romeo = server.login("romeo/orchard");
    romeo.send(&format!("<message to='{}'><body>x</body></message>", client.jid));
    romeo.pump();
    waits[0].expect_one("<message from='romeo@example.org/orchard'><body>x</body></message>");
    waits[1].expect_nothing();
}
