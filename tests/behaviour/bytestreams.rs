//! SOCKS5 bytestreams (XEP-0065): the replies of the proxy's service. Its connections are tested
//! with the relay.

use rookery_hub::Value;
use rookery_testkit::{Config, Server};
use rookery_xml::ns;
use sha1::{Digest, Sha1};

/// Returns the token of a stream that Romeo sends to Juliet.
fn token(sid: &str) -> String {
    let hash = Sha1::digest(format!("{sid}romeo@example.org/gardenjuliet@example.org/balcony"));
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a server at whose proxy these connections wait, of which `both` have two.
fn proxy(both: &[&str], one: &[&str], options: &[(&'static str, Value)]) -> Server {
    let tokens = both.iter().chain(both).chain(one).map(|sid| token(sid));
    let options = options.iter().map(|(key, value)| ("bytestreams", *key, value.clone())).collect();
    Server::with(Config { relay: Some(tokens.collect()), options, ..Config::default() })
}

const ASK: &str =
    "<iq type='get' id='a' to='proxy.example.org'><query xmlns='http://jabber.org/protocol/bytestreams'/></iq>";

fn activate(sid: &str, target: &str) -> String {
    format!(
        "<iq type='set' id='a' to='proxy.example.org'><query xmlns='http://jabber.org/protocol/bytestreams' sid='{sid}'>\
         <activate>{target}</activate></query></iq>"
    )
}

fn refusal(kind: &str, condition: &str) -> String {
    format!(
        "<iq type='error' id='a' from='proxy.example.org'><error type='{kind}'>\
         <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    )
}

#[test]
fn the_proxy_is_found() {
    let server = proxy(&[], &[], &[]);
    let mut romeo = server.login("romeo/garden");
    romeo.send("<iq type='get' id='i' to='example.org'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>");
    let items = romeo.expect_element().child("query", ns::DISCO_ITEMS).expect("items").clone();
    assert!(items.children().any(|item| item.attr("jid") == Some("proxy.example.org")), "{items:?}");
    romeo.send(
        "<iq type='get' id='i' to='proxy.example.org'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>",
    );
    romeo.expect(
        "<iq type='result' id='i' from='proxy.example.org'><query xmlns='http://jabber.org/protocol/disco#info'>\
         <identity category='proxy' type='bytestreams' name='File transfer'/>\
         <feature var='http://jabber.org/protocol/bytestreams'/>\
         <feature var='http://jabber.org/protocol/disco#info'/><feature var='http://jabber.org/protocol/disco#items'/></query></iq>",
    );
    romeo.send(ASK);
    romeo.expect(
        "<iq type='result' id='a' from='proxy.example.org'><query xmlns='http://jabber.org/protocol/bytestreams'>\
         <streamhost host='example.org' jid='proxy.example.org' port='7777'/></query></iq>",
    );
}

#[test]
fn it_is_told_where_the_operator_says() {
    let address = [("address", Value::Text("relay.@".into())), ("port", Value::Number(443))];
    let server = proxy(&[], &[], &address);
    let mut romeo = server.login("romeo/garden");
    romeo.send(ASK);
    romeo.expect(
        "<iq type='result' id='a' from='proxy.example.org'><query xmlns='http://jabber.org/protocol/bytestreams'>\
         <streamhost host='relay.example.org' jid='proxy.example.org' port='443'/></query></iq>",
    );
}

#[test]
fn the_requester_activates_a_stream() {
    let server = proxy(&["both"], &["one"], &[]);
    let mut romeo = server.login("romeo/garden");
    let mut juliet = server.login("juliet/balcony");
    // §6.3.5: nobody else's address makes the token, not even the target's.
    juliet.send(&activate("both", "juliet@example.org/balcony"));
    juliet.expect(&refusal("cancel", "item-not-found"));
    juliet.send(&activate("both", "romeo@example.org/garden"));
    juliet.expect(&refusal("cancel", "item-not-found"));
    romeo.send(&activate("one", "juliet@example.org/balcony"));
    romeo.expect(&refusal("cancel", "not-allowed"));
    romeo.send(&activate("none", "juliet@example.org/balcony"));
    romeo.expect(&refusal("cancel", "item-not-found"));
    // The addresses are prepared before they are hashed (§5.3.2).
    romeo.send(&activate("both", " Juliet@EXAMPLE.org/balcony\n"));
    romeo.expect("<iq type='result' id='a' from='proxy.example.org'/>");
}

#[test]
fn streams_of_a_domain_are_counted() {
    let server = proxy(&["a", "b"], &[], &[("streams", Value::Number(1))]);
    let mut romeo = server.login("romeo/garden");
    romeo.send(&activate("a", "juliet@example.org/balcony"));
    romeo.expect("<iq type='result' id='a' from='proxy.example.org'/>");
    romeo.send(&activate("b", "juliet@example.org/balcony"));
    romeo.expect(&refusal("wait", "resource-constraint"));
}

#[test]
fn who_may_not_is_forbidden() {
    let server = proxy(&["both"], &[], &[("access", Value::List(vec!["juliet@example.org".into()]))]);
    let (mut romeo, mut juliet) = (server.login("romeo/garden"), server.login("juliet/balcony"));
    romeo.send(ASK);
    romeo.expect(&refusal("auth", "forbidden"));
    romeo.send(&activate("both", "juliet@example.org/balcony"));
    romeo.expect(&refusal("auth", "forbidden"));
    juliet.send(ASK);
    juliet.expect(
        "<iq type='result' id='a' from='proxy.example.org'><query xmlns='http://jabber.org/protocol/bytestreams'>\
         <streamhost host='*' jid='*' port='*'/></query></iq>",
    );
}

#[test]
fn without_a_port_it_is_no_proxy() {
    let server = Server::new();
    let mut romeo = server.login("romeo/garden");
    romeo.send(ASK);
    romeo.expect(&refusal("cancel", "not-allowed"));
    romeo.send(&activate("both", "juliet@example.org/balcony"));
    romeo.expect(&refusal("cancel", "not-allowed"));
}

#[test]
fn what_is_no_request_is_refused() {
    let server = proxy(&["both"], &[], &[]);
    let mut romeo = server.login("romeo/garden");
    let query = |attributes: &str, content: &str| {
        format!(
            "<iq type='set' id='a' to='proxy.example.org'>\
             <query xmlns='http://jabber.org/protocol/bytestreams' {attributes}>{content}</query></iq>"
        )
    };
    let target = "<activate>juliet@example.org/balcony</activate>";
    let longest = "x".repeat(2000);
    for bad in [
        query("", target),
        query("sid=''", target),
        query("sid='both'", ""),
        query("sid='both'", "<activate/>"),
        query("sid='both'", "<activate>@</activate>"),
        query("sid='both'", &format!("<activate>{longest}@example.org</activate>")),
        query("sid='both'", "<activate xmlns='urn:example'>juliet@example.org/balcony</activate>"),
        "<iq type='get' id='a' to='proxy.example.org'><activate xmlns='http://jabber.org/protocol/bytestreams'/></iq>"
            .to_owned(),
    ] {
        romeo.send(&bad);
        romeo.expect(&refusal("modify", "bad-request"));
    }
    romeo.send("<iq type='get' id='a' to='proxy.example.org'><query xmlns='jabber:iq:version'/></iq>");
    romeo.expect(&refusal("cancel", "service-unavailable"));
    romeo.send("<message to='proxy.example.org' id='m'><body>hello</body></message>");
    romeo.expect(
        "<message type='error' id='m' from='proxy.example.org'><error type='cancel'>\
         <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
    );
}
