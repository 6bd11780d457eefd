//! XEP-0484: tokens in the place of passwords.

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_hub::Value;
use rookery_sasl::token::Presented;
use rookery_sasl::{Credentials, Mechanism, TokenKey, TokenMechanism};
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

use super::sasl2::{AGENT, authenticate, connect, tls};

/// Logs in with the password and gets a token.
fn first_token(server: &Server, agent: &str, mechanism: TokenMechanism) -> String {
    server.account("romeo");
    let mut client = connect(server);
    let along = format!("{agent}<request-token xmlns='urn:xmpp:fast:0' mechanism='{}'/>", mechanism.name());
    let success = authenticate(&mut client, "romeo", Mechanism::ScramSha256, &along).expect("success");
    token_in(&success).unwrap_or_else(|| panic!("no token: {success:?}"))
}

fn token_in(success: &Element) -> Option<String> {
    success.child("token", ns::FAST).and_then(|token| token.attr("token")).map(str::to_owned)
}

/// Logs in with a token; returns `<success/>` or the failure's condition.
fn present(
    server: &Server,
    client: &mut Client,
    user: &str,
    token: &str,
    mechanism: TokenMechanism,
    along: &str,
) -> Result<Element, String> {
    let key = TokenKey::of(token);
    let bindings = client.wire.bindings();
    let binding = mechanism.binding(&bindings).unwrap_or_default();
    let initial = Presented { username: user.into(), proof: key.initiator(binding) }.write();
    client.send(&format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{}'><initial-response>{}</initial-response>{along}</authenticate>",
        mechanism.name(),
        STANDARD.encode(initial)
    ));
    // Attempts after failures have to wait.
    server.advance(11_000);
    let answer = client.expect_element();
    if answer.name() != "success" {
        return Err(answer.children().next().map(|child| child.name().to_owned()).unwrap_or_default());
    }
    let data = answer.child_text("additional-data", ns::SASL2).expect("the server's proof");
    assert_eq!(STANDARD.decode(data).expect("Base64"), key.responder(binding), "the server has the token too");
    Ok(answer)
}

/// Logs in over a new connection, from the client that most tests are about.
fn login(server: &Server, token: &str, mechanism: TokenMechanism) -> Result<Element, String> {
    let along = format!("{AGENT}<fast xmlns='urn:xmpp:fast:0'/>");
    present(server, &mut connect(server), "romeo", token, mechanism, &along)
}

/// §3.1: what is offered, and only under TLS.
#[test]
fn the_feature_names_the_mechanisms() {
    let server = tls();
    let mut client = server.connect();
    let offered = |client: &Client| -> Vec<String> {
        let features = client.features.clone().expect("features");
        let inline = features.child("authentication", ns::SASL2).and_then(|feature| feature.child("inline", ns::SASL2));
        let fast = inline.and_then(|inline| inline.child("fast", ns::FAST)).cloned();
        fast.map(|fast| fast.children().map(Element::text).collect()).unwrap_or_default()
    };
    client.open("example.org");
    assert!(offered(&client).is_empty());
    client.start_tls("example.org");
    assert_eq!(offered(&client), ["HT-SHA-256-EXPR", "HT-SHA-256-ENDP"]);
}

/// §3.4: one message, and the session is there.
#[test]
fn a_token_is_as_good_as_the_password() {
    for mechanism in [TokenMechanism::Exporter, TokenMechanism::EndPoint] {
        let server = tls();
        let token = first_token(&server, AGENT, mechanism);
        for _ in 0..2 {
            let mut client = connect(&server);
            let along = format!("{AGENT}<fast xmlns='urn:xmpp:fast:0'/><bind xmlns='urn:xmpp:bind:0'/>");
            let success = present(&server, &mut client, "romeo", &token, mechanism, &along).expect("success");
            assert!(success.child("bound", ns::BIND2).is_some());
            assert_eq!(token_in(&success), None);
        }
    }
}

/// §3.4: a token is bound to its mechanism, its client and its account.
#[test]
fn tokens_are_good_for_nothing_else() {
    let server = tls();
    let token = first_token(&server, AGENT, TokenMechanism::Exporter);
    server.account("juliet");
    let refused = Err("not-authorized".to_owned());
    assert_eq!(login(&server, &token, TokenMechanism::EndPoint), refused);
    let unbound = login(&server, &token, TokenMechanism::Unbound);
    assert_eq!(unbound, Err("invalid-mechanism".to_owned()), "nobody may show a token unbound where it can be bound");
    assert_eq!(login(&server, "another", TokenMechanism::Exporter), refused);
    let other = format!("{}<fast xmlns='urn:xmpp:fast:0'/>", AGENT.replace("d4565", "e4565"));
    for (user, along) in [("romeo", other.as_str()), ("juliet", AGENT), ("nobody", AGENT), ("no@body", AGENT)] {
        let answer = present(&server, &mut connect(&server), user, &token, TokenMechanism::Exporter, along);
        assert_eq!(answer, refused, "{user}");
    }
    let answer = present(&server, &mut connect(&server), "romeo", &token, TokenMechanism::Exporter, "");
    assert_eq!(answer, Err("malformed-request".to_owned()), "without the identifier of a client");
    login(&server, &token, TokenMechanism::Exporter).expect("success");
}

/// §3.5: after a day there is a new one; the older is good until the newer is used.
#[test]
fn tokens_are_replaced() {
    let server = tls();
    let mechanism = TokenMechanism::Exporter;
    let first = first_token(&server, AGENT, mechanism);
    server.advance(25 * HOUR);
    let second = token_in(&login(&server, &first, mechanism).expect("success")).expect("a new token");
    // It was lost on the way: the older one still works, and brings another.
    let third = token_in(&login(&server, &first, mechanism).expect("success")).expect("a new token");
    assert_eq!(login(&server, &second, mechanism), Err("not-authorized".into()), "it was never used");
    assert_eq!(token_in(&login(&server, &third, mechanism).expect("success")), None);
    assert_eq!(login(&server, &first, mechanism), Err("not-authorized".into()), "a newer one was used");
    login(&server, &third, mechanism).expect("success");
}

#[test]
fn tokens_expire() {
    let server =
        Server::with(Config { tls: true, options: vec![("fast", "days", Value::Number(2))], ..Config::default() });
    let token = first_token(&server, AGENT, TokenMechanism::Exporter);
    server.advance(47 * HOUR);
    let newer = token_in(&login(&server, &token, TokenMechanism::Exporter).expect("success")).expect("a new token");
    server.advance(2 * HOUR);
    assert_eq!(login(&server, &token, TokenMechanism::Exporter), Err("credentials-expired".into()));
    login(&server, &newer, TokenMechanism::Exporter).expect("success");
}

/// §3.6.
#[test]
fn a_client_can_make_its_token_invalid() {
    let server = tls();
    let mechanism = TokenMechanism::Exporter;
    let token = first_token(&server, AGENT, mechanism);
    server.advance(25 * HOUR);
    let along = format!("{AGENT}<fast xmlns='urn:xmpp:fast:0' invalidate='true'/>");
    let success = present(&server, &mut connect(&server), "romeo", &token, mechanism, &along).expect("success");
    assert_eq!(token_in(&success), None, "though it was due");
    assert_eq!(login(&server, &token, mechanism), Err("not-authorized".into()));
}

/// A new password makes all tokens invalid.
#[test]
fn a_new_password_ends_all_tokens() {
    let server = tls();
    let token = first_token(&server, AGENT, TokenMechanism::Exporter);
    let account = server.address("romeo");
    let credentials = Credentials::derive("another", 4).expect("credentials");
    server.finish(server.stores().accounts.set_credentials(account.as_ref(), credentials)).expect("kept");
    assert_eq!(login(&server, &token, TokenMechanism::Exporter), Err("not-authorized".into()));
}

/// A disabled account can't be logged in to by its tokens either, until it is enabled again.
#[test]
fn a_disabled_account_has_no_tokens() {
    let server = tls();
    let token = first_token(&server, AGENT, TokenMechanism::Exporter);
    let account = server.address("romeo");
    for (disabled, expected) in [(true, Err("not-authorized".to_owned())), (false, Ok(()))] {
        assert_eq!(server.finish(server.stores().accounts.set_disabled(account.as_ref(), disabled)), Ok(true));
        assert_eq!(login(&server, &token, TokenMechanism::Exporter).map(drop), expected);
    }
}

/// The clients of one account are bounded; they outlive a restart; their tokens are not in the
/// store.
#[test]
fn tokens_are_kept_and_bounded() {
    let options = vec![("fast", "clients", Value::Number(2))];
    let server = Server::with(Config { tls: true, options, ..Config::default() });
    let agents = [AGENT.to_owned(), AGENT.replace("d4565", "e4565"), AGENT.replace("d4565", "f4565")];
    let tokens: Vec<_> = agents
        .iter()
        .map(|agent| {
            server.advance(1000);
            first_token(&server, agent, TokenMechanism::Exporter)
        })
        .collect();
    server.restart();
    let documents =
        server.finish(server.stores().documents.starting(server.address("romeo").as_ref(), "")).expect("all");
    let text: String = documents.iter().map(|document| String::from_utf8_lossy(&document.bytes).into_owned()).collect();
    assert!(tokens.iter().all(|token| !text.contains(token.as_str())) && !text.is_empty());
    for (at, (agent, token)) in agents.iter().zip(&tokens).enumerate() {
        let along = format!("{agent}<fast xmlns='urn:xmpp:fast:0'/>");
        let answer = present(&server, &mut connect(&server), "romeo", token, TokenMechanism::Exporter, &along);
        assert_eq!(answer.is_ok(), at > 0, "{at}");
    }
}

/// §5.1: without an identifier there is nobody to give a token to; nor is there one for a mechanism
/// that isn't offered.
#[test]
fn not_every_request_gets_a_token() {
    let server = tls();
    server.account("romeo");
    for along in [
        "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-EXPR'/>".to_owned(),
        format!("{AGENT}<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-UNIQ'/>"),
        format!("{AGENT}<request-token xmlns='urn:xmpp:fast:0'/>"),
    ] {
        let mut client = connect(&server);
        let success = authenticate(&mut client, "romeo", Mechanism::ScramSha256, &along).expect("success");
        assert_eq!(token_in(&success), None, "{along}");
    }
}

/// Initial responses that are empty, lack a part or aren't base64.
#[test]
fn malformed_messages_are_refused() {
    let server = tls();
    let mut client = connect(&server);
    for (initial, condition) in [
        ("", "malformed-request"),
        ("cm9tZW8=", "malformed-request"),
        ("AAAA", "malformed-request"),
        ("!", "incorrect-encoding"),
    ] {
        client.send(&format!(
            "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='HT-SHA-256-EXPR'><initial-response>{initial}</initial-response>{AGENT}</authenticate>"
        ));
        client.expect(&format!(
            "<failure xmlns='urn:xmpp:sasl:2'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>"
        ));
    }
}

const HOUR: u64 = 3_600_000;
