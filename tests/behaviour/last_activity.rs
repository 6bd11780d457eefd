//! XEP-0012: Last Activity, through the whole server. Section numbers are those of the standard.

use rookery_testkit::{Client, Server, befriend};

const FORBIDDEN: &str = "<error type='auth'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";

fn ask(client: &mut Client, to: &str) {
    client.send(&format!("<iq type='get' id='last1' to='{to}'><query xmlns='jabber:iq:last'/></iq>"));
}

fn expect_seconds(client: &mut Client, from: &str, seconds: u64, status: &str) {
    client.expect(&format!(
        "<iq type='result' id='last1' from='{from}'><query xmlns='jabber:iq:last' seconds='{seconds}'>{status}</query></iq>"
    ));
}

fn expect_forbidden(client: &mut Client, from: &str) {
    client.expect(&format!("<iq type='error' id='last1' from='{from}'>{FORBIDDEN}</iq>"));
}

/// Returns two friends whose homes are these shards, both available.
fn friends(server: &Server, shard: usize) -> (Client, Client) {
    let (one, other) = (server.name_at("romeo", 0), server.name_at("juliet", shard));
    let mut romeo = server.online(&format!("{one}/orchard"));
    let mut juliet = server.online(&format!("{other}/balcony"));
    befriend(&mut romeo, &mut juliet);
    (romeo, juliet)
}

/// §5.
#[test]
fn a_server_tells_how_long_it_runs() {
    let server = Server::new();
    let mut romeo = server.login("romeo/orchard");
    server.advance(123_456_789);
    ask(&mut romeo, "example.org");
    expect_seconds(&mut romeo, "example.org", 123_456, "");
}

/// §3: the time since the last logout, with what was said then; 0 while somebody is there.
#[test]
fn a_contact_learns_when_an_account_was_here_last() {
    for shard in [0, 1] {
        let server = Server::new();
        let (mut romeo, mut juliet) = friends(&server, shard);
        let bare = juliet.bare().to_owned();
        ask(&mut romeo, &bare);
        expect_seconds(&mut romeo, &bare, 0, "");
        juliet.send("<presence type='unavailable'><status>Heading Home</status></presence>");
        juliet.close();
        romeo.all();
        server.advance(903_500);
        ask(&mut romeo, &bare);
        expect_seconds(&mut romeo, &bare, 903, "Heading Home");
    }
}

/// §3, §7: nobody else does, nor whether the account exists.
#[test]
fn a_stranger_learns_nothing() {
    let server = Server::new();
    let (_romeo, juliet) = friends(&server, 1);
    server.account("away");
    let mut paris = server.login("paris/crypt");
    for to in [juliet.bare(), juliet.full(), "away@example.org", "nobody@example.org", "nobody@example.org/x"] {
        ask(&mut paris, to);
        expect_forbidden(&mut paris, to);
    }
    let nowhere = format!("{}/nowhere", juliet.bare());
    ask(&mut paris, &nowhere);
    expect_forbidden(&mut paris, &nowhere);
}

/// §4: a resource answers by itself those who may ask.
#[test]
fn a_resource_answers_by_itself() {
    for shard in [0, 1] {
        let server = Server::new();
        let (mut romeo, mut juliet) = friends(&server, shard);
        let full = juliet.full().to_owned();
        ask(&mut romeo, &full);
        juliet.expect("<iq type='get' id='last1' from='*'><query xmlns='jabber:iq:last'/></iq>");
        juliet.send(&format!(
            "<iq type='result' id='last1' to='{}'><query xmlns='jabber:iq:last' seconds='123'/></iq>",
            romeo.full()
        ));
        expect_seconds(&mut romeo, &full, 123, "");
        let gone = format!("{}/nowhere", juliet.bare());
        ask(&mut romeo, &gone);
        let unavailable =
            "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
        romeo.expect(&format!("<iq type='error' id='last1' from='{gone}'>{unavailable}</iq>"));
        juliet.close();
        romeo.all();
        ask(&mut romeo, &full);
        romeo.expect(&format!("<iq type='error' id='last1' from='{full}'>{unavailable}</iq>"));
    }
}

/// An account asks about itself; and nothing but a get is a question.
#[test]
fn an_account_may_ask_about_itself() {
    let server = Server::new();
    let mut romeo = server.login("romeo/orchard");
    ask(&mut romeo, "romeo@example.org");
    expect_seconds(&mut romeo, "romeo@example.org", 0, "");
    romeo.send("<iq type='set' id='s' to='example.org'><query xmlns='jabber:iq:last'/></iq>");
    romeo.expect(
        "<iq type='error' id='s' from='example.org'><error type='modify'>\
         <bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    );
}
