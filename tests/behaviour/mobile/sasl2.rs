//! Login and session in one exchange: XEP-0388 with XEP-0386, XEP-0198 §9 and XEP-0352.

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_jid::Jid;
use rookery_sasl::Mechanism;
use rookery_testkit::server::PASSWORD;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

/// The installation that most tests are about.
pub const AGENT: &str =
    "<user-agent id='d4565fa7-4d72-4749-b3d3-740edbf87770'><software>AwesomeXMPP</software></user-agent>";

/// Returns a connection under TLS, with the features before login.
pub fn connect(server: &Server) -> Client {
    let mut client = server.connect();
    client.open("example.org");
    client.start_tls("example.org");
    client
}

/// Authenticates with a password and asks for something along with that; returns `<success/>`.
pub fn authenticate(client: &mut Client, user: &str, mechanism: Mechanism, along: &str) -> Result<Element, String> {
    let (mut exchange, initial) = client.exchange(user, PASSWORD, mechanism);
    client.send(&format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{}'><initial-response>{}</initial-response>{along}</authenticate>",
        mechanism.name(),
        STANDARD.encode(initial)
    ));
    loop {
        let answer = client.expect_element();
        match answer.name() {
            "challenge" => {
                let challenge = STANDARD.decode(answer.text()).expect("Base64");
                let response = exchange.challenge(&challenge, None).expect("a challenge that can be answered");
                let response = STANDARD.encode(response);
                client.send(&format!("<response xmlns='urn:xmpp:sasl:2'>{response}</response>"));
            }
            "success" => {
                let data = answer.child_text("additional-data", ns::SASL2).unwrap_or_default();
                exchange.finish(&STANDARD.decode(data).expect("Base64")).expect("a server that knows the password");
                let jid = answer.child_text("authorization-identifier", ns::SASL2).expect("an address");
                let jid = Jid::parse(&jid).expect("an address");
                client.name = user.to_owned();
                client.jid = jid.resource().is_some().then_some(jid);
                return Ok(answer);
            }
            _ => return Err(answer.children().next().map(|child| child.name().to_owned()).unwrap_or_default()),
        }
    }
}

pub fn tls() -> Server {
    Server::with(Config { tls: true, ..Config::default() })
}

/// XEP-0388 §2.1: what is offered.
#[test]
fn the_feature_says_what_may_be_had() {
    let server = tls();
    let client = connect(&server);
    let features = client.features.clone().expect("features");
    let feature = features.child("authentication", ns::SASL2).expect("the feature");
    let mechanisms: Vec<_> =
        feature.children().filter(|child| child.name() == "mechanism").map(Element::text).collect();
    assert_eq!(mechanisms, client.mechanisms());
    assert!(mechanisms.iter().any(|name| name == "SCRAM-SHA-256-PLUS"));
    let inline = feature.child("inline", ns::SASL2).expect("inline");
    assert!(inline.child("sm", ns::SM).is_some());
    let bind = inline.child("bind", ns::BIND2).and_then(|bind| bind.child("inline", ns::BIND2)).expect("bind");
    let vars: Vec<_> = bind.children().filter_map(|feature| feature.attr("var")).collect();
    assert_eq!(vars, ["urn:xmpp:carbons:2", "urn:xmpp:sm:3", "urn:xmpp:csi:0"]);
    assert!(features.child("sasl-channel-binding", ns::CHANNEL_BINDING).is_some());
}

/// Every mechanism, channel binding and downgrade protection included, from whatever shard to
/// whatever home.
#[test]
fn every_mechanism_works() {
    let server = tls();
    for (at, mechanism) in Mechanism::ALL.into_iter().enumerate() {
        let user = server.name_at(&format!("user{at}x"), at % 2);
        server.account(&user);
        let mut client = connect(&server);
        let success = authenticate(&mut client, &user, mechanism, "<bind xmlns='urn:xmpp:bind:0'/>").expect("success");
        assert!(success.child("bound", ns::BIND2).is_some(), "{mechanism:?}");
        client.expect_element();
        client.expect_alive();
    }
}

#[test]
fn a_wrong_password_gets_nothing() {
    let server = tls();
    server.account("romeo");
    let mut client = connect(&server);
    let along = format!("{AGENT}<bind xmlns='urn:xmpp:bind:0'/>");
    assert_eq!(authenticate(&mut client, "juliet", Mechanism::ScramSha256, &along), Err("not-authorized".into()));
    assert_eq!(server.sessions(), 0);
    authenticate(&mut client, "romeo", Mechanism::ScramSha256, &along).expect("success");
    assert_eq!(server.sessions(), 1);
}

/// XEP-0386 §3.2.1: the same installation has the same resource, and its older session ends,
/// whatever the policy for others is.
#[test]
fn an_installation_keeps_its_resource() {
    let mut config = Config { tls: true, ..Config::default() };
    config.settings.conflict = rookery_hub::Conflict::RefuseNewer;
    let server = Server::with(config);
    server.account("romeo");
    let along = format!("{AGENT}<bind xmlns='urn:xmpp:bind:0'><tag>Awesome</tag></bind>");
    let mut first = connect(&server);
    authenticate(&mut first, "romeo", Mechanism::ScramSha256, &along).expect("success");
    first.expect_element();
    let jid = first.jid.clone().expect("a full JID");
    assert!(jid.resource().expect("a resource").starts_with("Awesome/"), "{jid}");
    assert!(!jid.as_str().contains("d4565fa7"));
    let mut second = connect(&server);
    authenticate(&mut second, "romeo", Mechanism::ScramSha256, &along).expect("success");
    assert_eq!(second.jid, Some(jid.clone()));
    first.expect_stream_error("conflict");
    let other = AGENT.replace("d4565", "e4565");
    let mut third = connect(&server);
    authenticate(&mut third, "romeo", Mechanism::ScramSha256, &along.replace(AGENT, &other)).expect("success");
    assert_ne!(third.jid, Some(jid));
    assert_eq!(server.sessions(), 2);
}

/// A tag that can't stand in a resource is left out.
#[test]
fn a_tag_that_is_none_is_left_out() {
    let server = tls();
    server.account("romeo");
    for tag in ["", "a\u{7}b", &"x".repeat(300)] {
        let tag = rookery_xml::escape_attr(tag).replace('\u{7}', "\u{fdd0}");
        let mut client = connect(&server);
        let along = format!("<bind xmlns='urn:xmpp:bind:0'><tag>{tag}</tag></bind>");
        authenticate(&mut client, "romeo", Mechanism::ScramSha256, &along).expect("success");
        let jid = client.jid.clone().expect("a full JID");
        assert!(!jid.resource().expect("a resource").contains('/'), "{jid}");
    }
}

/// Stream management and client state from the first moment on; then resumption along with the
/// login.
#[test]
fn sessions_begin_and_go_on_inline() {
    let server = tls();
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    let mut romeo = connect(&server);
    let along = format!(
        "{AGENT}<bind xmlns='urn:xmpp:bind:0'><enable xmlns='urn:xmpp:sm:3' resume='true'/><inactive xmlns='urn:xmpp:csi:0'/></bind>"
    );
    let success = authenticate(&mut romeo, "romeo", Mechanism::ScramSha256Plus, &along).expect("success");
    let enabled = success.child("bound", ns::BIND2).and_then(|bound| bound.child("enabled", ns::SM)).expect("enabled");
    let id = enabled.attr("id").expect("an id").to_owned();
    romeo.expect_element();
    let jid = romeo.jid.clone().expect("a full JID");
    juliet.send(&format!("<message to='{jid}'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>"));
    juliet.pump();
    romeo.expect_nothing();
    juliet.send(&format!("<message to='{jid}'><body>1</body></message>"));
    juliet.pump();
    romeo.expect_element();
    romeo.expect_element();
    romeo.vanish();
    juliet.send(&format!("<message to='{jid}'><body>2</body></message>"));
    juliet.pump();
    let mut again = connect(&server);
    let along = format!("{AGENT}<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='1'/><bind xmlns='urn:xmpp:bind:0'/>");
    let success = authenticate(&mut again, "romeo", Mechanism::ScramSha256, &along).expect("success");
    assert!(success.child("resumed", ns::SM).is_some() && success.child("bound", ns::BIND2).is_none(), "{success:?}");
    assert_eq!(again.jid, Some(jid));
    assert_eq!(again.bodies(), ["1", "2"]);
    again.expect_alive();
    assert_eq!(server.sessions(), 2);
}

/// XEP-0386 §3.2: copies of what other devices get, from the first moment on.
#[test]
fn carbons_come_inline() {
    let server = tls();
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    let mut romeo = connect(&server);
    let along = "<bind xmlns='urn:xmpp:bind:0'><enable xmlns='urn:xmpp:carbons:2'/></bind>";
    authenticate(&mut romeo, "romeo", Mechanism::ScramSha256, along).expect("success");
    romeo.expect_element();
    let mut desktop = server.login("romeo/desktop");
    juliet.send(&format!("<message to='{}' type='chat'><body>hi</body></message>", desktop.full()));
    assert_eq!(desktop.bodies(), ["hi"]);
    let copy = romeo.expect_element();
    assert!(copy.child("received", ns::CARBONS).is_some(), "{copy:?}");
}

/// A session that is gone: the failure and a new session come together.
#[test]
fn without_the_session_there_is_a_new_one() {
    let server = tls();
    server.account("romeo");
    let mut romeo = connect(&server);
    let along = "<resume xmlns='urn:xmpp:sm:3' previd='x' h='1'/><bind xmlns='urn:xmpp:bind:0'><enable xmlns='urn:xmpp:sm:3'/></bind>";
    let success = authenticate(&mut romeo, "romeo", Mechanism::ScramSha256, along).expect("success");
    let failed = success.child("failed", ns::SM).expect("failed");
    assert!(failed.child("item-not-found", ns::STANZA_ERRORS).is_some());
    assert!(success.child("bound", ns::BIND2).and_then(|bound| bound.child("enabled", ns::SM)).is_some());
    romeo.expect_element();
    romeo.expect_alive();
}

/// Without an inline request the client binds as RFC 6120 says, on the same stream.
#[test]
fn binding_may_follow() {
    let server = tls();
    server.account("romeo");
    let mut romeo = connect(&server);
    authenticate(&mut romeo, "romeo", Mechanism::ScramSha256, "").expect("success");
    let features = romeo.expect_element();
    assert!(features.child("bind", ns::BIND).is_some());
    romeo.bind("orchard");
    romeo.expect_alive();
}

#[test]
fn the_operator_can_do_without() {
    let server = Server::with(Config { tls: true, modules_off: vec!["sasl2"], ..Config::default() });
    let mut client = connect(&server);
    assert!(client.features.clone().expect("features").child("authentication", ns::SASL2).is_none());
    client.send("<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'/>");
    client.expect_stream_error("unsupported-stanza-type");
}
