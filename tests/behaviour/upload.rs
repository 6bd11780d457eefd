//! HTTP File Upload (XEP-0363): the replies of the service. The web front-end handles the bytes.

use rookery_base::date;
use rookery_hub::Value;
use rookery_testkit::{Config, Server};
use rookery_xml::ns;

fn request(attributes: &str) -> String {
    format!("<iq type='get' id='u' to='upload.example.org'><request xmlns='urn:xmpp:http:upload:0' {attributes}/></iq>")
}

fn small(options: &[(&'static str, Value)]) -> Server {
    let options = options.iter().map(|(key, value)| ("upload", *key, value.clone())).collect();
    Server::with(Config { options, ..Config::default() })
}

#[test]
fn the_service_is_found_and_tells_the_largest_file() {
    let server = small(&[("max_bytes", Value::Number(20_000))]);
    let mut romeo = server.login("romeo/garden");
    romeo.send("<iq type='get' id='i' to='example.org'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>");
    let items = romeo.expect_element();
    let items = items.child("query", ns::DISCO_ITEMS).expect("items").clone();
    assert!(items.children().any(|item| item.attr("jid") == Some("upload.example.org")), "{items:?}");
    romeo.send(
        "<iq type='get' id='i' to='upload.example.org'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>",
    );
    romeo.expect(
        "<iq type='result' id='i' from='upload.example.org'><query xmlns='http://jabber.org/protocol/disco#info'>\
         <identity category='store' type='file' name='Files'/>\
         <feature var='http://jabber.org/protocol/disco#info'/><feature var='http://jabber.org/protocol/disco#items'/>\
         <feature var='urn:xmpp:http:upload:0'/>\
         <x xmlns='jabber:x:data' type='result'><field var='FORM_TYPE' type='hidden'><value>urn:xmpp:http:upload:0</value></field>\
         <field var='max-file-size' type='text-single'><value>20000</value></field></x></query></iq>",
    );
}

#[test]
fn files_are_where_browsers_reach_the_server() {
    let at = |pages: Option<&str>, options: &[(&'static str, Value)]| {
        let server = small(options);
        server.reload(|config| config.settings.told.pages = pages.map(str::to_owned));
        let mut romeo = server.login("romeo/garden");
        romeo.send(&request("filename='a' size='1'"));
        let reply = romeo.expect_element();
        let slot = reply.child("slot", ns::HTTP_UPLOAD).expect("a slot").clone();
        let url = slot.child("put", ns::HTTP_UPLOAD).and_then(|put| put.attr("url")).expect("an address").to_owned();
        url.rsplitn(3, '/').last().expect("what is before the token").to_owned()
    };
    let named = [("url", Value::Text("http://files.@:8080/shared".to_owned()))];
    assert_eq!(at(Some("https://@:21443"), &[]), "https://example.org:21443/upload");
    assert_eq!(at(Some("https://chat.example.net"), &[]), "https://chat.example.net/upload");
    assert_eq!(at(None, &[]), "https://example.org/upload", "behind a proxy");
    assert_eq!(at(Some("https://@"), &named), "http://files.example.org:8080/shared");
}

#[test]
fn a_slot_has_an_address_that_nobody_guesses() {
    let server = Server::new();
    let mut romeo = server.login("romeo/garden");
    let mut address = |attributes: &str| {
        romeo.send(&request(attributes));
        let reply = romeo.expect("<iq type='result' id='u' from='upload.example.org'><slot xmlns='urn:xmpp:http:upload:0'><put url='*'/><get url='*'/></slot></iq>");
        let slot = reply.child("slot", ns::HTTP_UPLOAD).expect("a slot").clone();
        let url = |name| {
            slot.child(name, ns::HTTP_UPLOAD).and_then(|child| child.attr("url")).expect("an address").to_owned()
        };
        assert_eq!(url("put"), url("get"));
        url("get")
    };
    let one = address("filename='tr\u{e8}s cool.jpg' size='23456' content-type='image/jpeg'");
    let other = address("filename='tr\u{e8}s cool.jpg' size='23456' content-type='image/jpeg'");
    assert_ne!(one, other);
    let path = one.strip_prefix("https://example.org/upload/").expect("the address of the web front");
    let (token, name) = path.split_once('/').expect("a token and a name");
    assert_eq!((token.len(), name), (68, "tr%C3%A8s%20cool.jpg"));
    let slot = server
        .finish(server.stores().slots.slot(token, rookery_testkit::server::EPOCH_MS))
        .expect("the store")
        .expect("a slot");
    assert_eq!(
        (slot.owner.as_str(), slot.size, slot.content_type.as_deref()),
        ("romeo@example.org", 23_456, Some("image/jpeg"))
    );
}

#[test]
fn what_is_too_large_or_too_much_is_refused() {
    let server = small(&[("max_bytes", Value::Number(100)), ("quota_bytes", Value::Number(150))]);
    let mut romeo = server.login("romeo/garden");
    romeo.send(&request("filename='a.jpg' size='101'"));
    romeo.expect(
        "<iq type='error' id='u' from='upload.example.org'><error type='modify'>\
         <not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
         <text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas' xml:lang='en'>The file is too large; the limit is 100 bytes.</text>\
         <file-too-large xmlns='urn:xmpp:http:upload:0'><max-file-size>100</max-file-size></file-too-large></error></iq>",
    );
    romeo.send(&request("filename='a.jpg' size='100'"));
    assert_eq!(romeo.expect_element().attr("type"), Some("result"));
    romeo.send(&request("filename='a.jpg' size='51'"));
    let refused = romeo.expect_element();
    let error = refused.child("error", ns::CLIENT).expect("an error");
    assert!(error.attr("type") == Some("wait") && error.child("resource-constraint", ns::STANZA_ERRORS).is_some());
    // Five minutes from now: that is how long an upload slot waits for its upload.
    let retry = error.child("retry", ns::HTTP_UPLOAD).and_then(|retry| retry.attr("stamp")).expect("when to try again");
    let expected = date::timestamp(rookery_testkit::server::EPOCH_MS + 300_000);
    assert_eq!(retry[..16], expected[..16], "{retry}");
    romeo.send(&request("filename='a.jpg' size='50'"));
    assert_eq!(romeo.expect_element().attr("type"), Some("result"));
}

#[test]
fn files_have_a_number_besides_their_bytes() {
    let server = small(&[("quota_files", Value::Number(3))]);
    let (mut romeo, mut juliet) = (server.login("romeo/garden"), server.login("juliet/balcony"));
    let asks = |client: &mut rookery_testkit::Client| {
        client.send(&request("filename='a.jpg' size='1'"));
        client.expect_element().attr("type").map(str::to_owned)
    };
    let answers: Vec<_> = (0..4).map(|_| asks(&mut romeo).unwrap_or_default()).collect();
    assert_eq!(answers, ["result", "result", "result", "error"]);
    assert_eq!(asks(&mut juliet).as_deref(), Some("result"), "others don't pay for it");
}

#[test]
fn only_so_many_uploads_wait() {
    let server = Server::new();
    let mut romeo = server.login("romeo/garden");
    let refused = (0..300).filter(|_| {
        romeo.send(&request("filename='a.jpg' size='1'"));
        romeo.expect_element().attr("type") == Some("error")
    });
    assert_eq!(refused.count(), 100);
}

#[test]
fn bad_requests_are_refused() {
    let server = Server::new();
    let mut romeo = server.login("romeo/garden");
    for bad in [
        "size='1'",
        "filename='a'",
        "filename='' size='1'",
        "filename='a' size='0'",
        "filename='a' size='-1'",
        "filename='a' size='99999999999999999999999'",
        "filename='../../etc/passwd' size='1'",
        "filename='a&#10;b' size='1'",
        "filename='a' size='1' content-type='text/html&#13;&#10;X: y'",
        "filename='a' size='1' content-type='html'",
    ] {
        romeo.send(&request(bad));
        let refused = romeo.expect_element();
        let error = refused.child("error", ns::CLIENT).unwrap_or_else(|| panic!("{bad} is taken: {refused:?}"));
        assert!(error.child("bad-request", ns::STANZA_ERRORS).is_some(), "{bad}");
    }
    romeo.expect_alive();
}

#[test]
fn only_users_of_the_domain_may_upload() {
    let server =
        Server::with(Config { domains: vec!["example.org".into(), "example.net".into()], ..Config::default() });
    let mut other = server.login("romeo@example.net/garden");
    other.send(&request("filename='a.jpg' size='1'"));
    let refused = other.expect_element();
    let error = refused.child("error", ns::CLIENT).expect("an error");
    assert!(error.attr("type") == Some("auth") && error.child("forbidden", ns::STANZA_ERRORS).is_some());
}
