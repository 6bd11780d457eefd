//! XEP-0377: reports about users, which come with a block.

use rookery_hub::Value;
use rookery_testkit::{Config, Server};
use rookery_xml::ns;

fn server(per_hour: u64) -> Server {
    let operators = Value::List(vec!["admin@example.org".into()]);
    let options = vec![("privacy", "report_to", operators), ("privacy", "reports_per_hour", Value::Number(per_hour))];
    Server::with(Config { options, ..Config::default() })
}

fn report(jid: &str, attributes: &str) -> String {
    format!(
        "<iq type='set' id='r'><block xmlns='urn:xmpp:blocking'><item jid='{jid}'>\
         <report xmlns='urn:xmpp:reporting:1' {attributes}><text>Never came trouble to my house like this.</text>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='{jid}' id='28482'/></report></item></block></iq>"
    )
}

/// §6: the block is carried out, and the operators can read the report.
#[test]
fn the_operators_get_it() {
    let server = server(20);
    let mut admin = server.online("admin/desk");
    let mut juliet = server.login("juliet/balcony");
    juliet.send(&report("romeo@example.net", "reason='urn:xmpp:reporting:spam'"));
    juliet.expect("<iq type='result' id='r' from='juliet@example.org'/>");
    let message = admin.expect_element();
    assert_eq!(message.attr("from"), Some("example.org"));
    let body = message.child_text("body", ns::CLIENT).expect("a body");
    for part in ["juliet@example.org", "romeo@example.net", "urn:xmpp:reporting:spam", "Never came trouble"] {
        assert!(body.contains(part), "{body}");
    }
    let report = message.child("report", "urn:xmpp:reporting:1").expect("the report");
    assert!(report.child("stanza-id", "urn:xmpp:sid:0").is_some());
    juliet.send("<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
    juliet.expect(
        "<iq type='result' id='l' from='juliet@example.org'><blocklist xmlns='urn:xmpp:blocking'>\
         <item jid='romeo@example.net'/></blocklist></iq>",
    );
}

/// A report waits for the operators of the domain, none of whom need be online.
#[test]
fn it_is_kept_until_it_is_dealt_with() {
    let stores = rookery_store::memory::Memory::stores();
    let options = vec![("register", "allow_creation", Value::Switch(false))];
    let server = Server::with(Config { stores: stores.clone(), options, ..Config::default() });
    let mut juliet = server.login("juliet/balcony");
    juliet.send(&report("romeo@example.net", "reason='urn:xmpp:reporting:spam'"));
    juliet.all();
    let kept = || rookery_store::wait(rookery_operations::reports::list(&stores, "example.org")).expect("the list");
    let [report] = &kept()[..] else { panic!("one report") };
    assert_eq!(report.by.as_ref().map(|by| by.as_str()), Some("juliet@example.org"));
    assert_eq!((report.about.as_str(), report.reason_in_words()), ("romeo@example.net", "spam"));
    assert_eq!(report.text, "Never came trouble to my house like this.");
    juliet.send("<iq type='set' id='gone'><query xmlns='jabber:iq:register'><remove/></query></iq>");
    server.settle();
    assert_eq!(kept().len(), 1, "it is for the operators to dismiss it");
    assert_eq!(kept()[0].by, None, "the next juliet has reported nobody");
}

/// A request without a reason isn't a report, and reports beyond the account's limit aren't passed
/// on. The blocks are carried out all the same.
#[test]
fn reports_without_a_reason_or_beyond_the_limit_are_not_passed_on() {
    let server = server(2);
    let mut admin = server.online("admin/desk");
    let mut juliet = server.login("juliet/balcony");
    juliet.send(&report("a@example.net", ""));
    for jid in ["b@example.net", "c@example.net", "d@example.net"] {
        juliet.send(&report(jid, "reason='urn:xmpp:reporting:abuse'"));
    }
    assert_eq!(juliet.all().iter().filter(|answer| answer.attr("type") == Some("result")).count(), 4);
    assert_eq!(admin.bodies().len(), 2);
    server.advance(3_600_000);
    juliet.send(&report("e@example.net", "reason='urn:xmpp:reporting:abuse'"));
    juliet.all();
    assert_eq!(admin.bodies().len(), 1);
}

fn forwarding() -> Server {
    let options = vec![("privacy", "forward_reports", Value::Switch(true))];
    Server::with(Config { options, federates: true, ..Config::default() })
}

/// Replies to the question which addresses of a server are for reports of abuse.
fn answer(server: &Server, addresses: &str) {
    let asked = server.take_left().into_iter().find(|left| left.text.contains("disco#info")).expect("a question");
    let id = asked.text.split(" id='").nth(1).and_then(|rest| rest.split('\'').next()).expect("an id");
    server.incoming(&format!(
        "<iq type='result' id='{id}' from='example.net' to='example.org'><query xmlns='http://jabber.org/protocol/disco#info'>\
         <x xmlns='jabber:x:data' type='result'><field var='FORM_TYPE' type='hidden'>\
         <value>http://jabber.org/network/serverinfo</value></field>\
         <field var='abuse-addresses'>{addresses}</field></x></query></iq>"
    ));
}

/// §5: the report goes to the address that the reported user's server names, without the name of
/// the reporter.
#[test]
fn the_other_server_hears_of_it() {
    let server = forwarding();
    let mut juliet = server.login("juliet/balcony");
    let allowed = report("romeo@example.net", "reason='urn:xmpp:reporting:spam'")
        .replace("</text>", "</text><report-origin xmlns='urn:xmpp:reporting:1'/>");
    juliet.send(&allowed);
    juliet.all();
    // Only an XMPP address at that server is written to.
    answer(
        &server,
        "<value>mailto:abuse@example.net</value><value>xmpp:victim@elsewhere.example</value>\
         <value>xmpp:abuse@example.net</value>",
    );
    let told = server.take_left();
    assert_eq!(told.len(), 1, "{told:?}");
    let text = &told[0].text;
    assert_eq!(told[0].to, "abuse@example.net");
    for part in ["romeo@example.net", "urn:xmpp:jid:0", "urn:xmpp:reporting:spam", "Never came trouble"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("juliet") && text.contains("from='example.org'"), "{text}");
}

/// Nothing leaves the server unless both the user and the operator allow it.
#[test]
fn what_nobody_allows_stays_here() {
    let server = forwarding();
    let mut juliet = server.login("juliet/balcony");
    juliet.send(&report("romeo@example.net", "reason='urn:xmpp:reporting:spam'"));
    juliet.all();
    assert_eq!(server.take_left(), []);
    let server = Server::with(Config { federates: true, ..Config::default() });
    let mut juliet = server.login("juliet/balcony");
    let allowed = report("romeo@example.net", "reason='urn:xmpp:reporting:spam'")
        .replace("</text>", "</text><report-origin xmlns='urn:xmpp:reporting:1'/>");
    juliet.send(&allowed);
    juliet.all();
    assert_eq!(server.take_left(), []);
}
