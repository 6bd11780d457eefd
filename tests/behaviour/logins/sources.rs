//! Domains whose logins an outside source verifies: the replies to clients for each verdict of the
//! source, and that a slow source holds nobody else back.

use std::sync::{Arc, Mutex, PoisonError};

use rookery_base::{Completer, one_shot};
use rookery_hub::{Group, Judgement, Judging, LoginBy, Proof, Source, Takes};
use rookery_sasl::Mechanism;
use rookery_testkit::client::xml;
use rookery_testkit::login::sasl;
use rookery_testkit::server::{EPOCH_MS, PASSWORD};
use rookery_testkit::{Client, Config, Server};

/// A source that answers when the test does so in its place.
#[derive(Default)]
struct SlowSource {
    makes_accounts: bool,
    groups: Mutex<Option<Arc<Vec<Group>>>>,
    asked: Mutex<Vec<(String, Completer<Judgement>)>>,
}

impl std::fmt::Debug for SlowSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slow")
    }
}

impl Source for SlowSource {
    fn takes(&self) -> Takes {
        Takes { passwords: true, tokens: true }
    }

    fn makes_accounts(&self) -> bool {
        self.makes_accounts
    }

    fn groups(&self) -> Option<Arc<Vec<Group>>> {
        self.groups.lock().unwrap().clone()
    }

    fn judge(&self, proof: Proof) -> Judging {
        let (answer, awaited) = one_shot();
        let shown = match proof {
            Proof::Password { account, password } => format!("{account} {password}"),
            Proof::Token(token) => token,
        };
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push((shown, answer));
        Box::pin(async { awaited.await.unwrap_or(Judgement::Away) })
    }
}

impl SlowSource {
    /// Answers the oldest question, which has to be this one; without an answer it is gone.
    fn answer(&self, shown: &str, judgement: Option<Judgement>) {
        let mut asked = self.asked.lock().unwrap();
        assert!(!asked.is_empty(), "nothing was asked");
        let (found, answer) = asked.remove(0);
        assert_eq!(found, shown);
        if let Some(judgement) = judgement {
            answer.complete(judgement);
        }
    }

    fn questions(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn server(makes_accounts: bool) -> (Server, Arc<SlowSource>) {
    let source = Arc::new(SlowSource { makes_accounts, ..SlowSource::default() });
    let server = Server::with(Config {
        domains: vec!["example.org".into(), ELSEWHERE.into()],
        login_by: vec![(ELSEWHERE.into(), LoginBy::Source(source.clone()))],
        ..Config::default()
    });
    (server, source)
}

/// Begins a login by a password, whose verdict is still to come.
fn begin(server: &Server, password: &str) -> Client {
    let mut client = server.connect();
    client.open(ELSEWHERE);
    client.send(&sasl("auth", Some(Mechanism::Plain), format!("\0Juliet\0{password}").as_bytes()));
    client.expect_nothing();
    client
}

fn begin_with_token(server: &Server, wanted: &str) -> Client {
    let mut client = server.connect();
    client.open(ELSEWHERE);
    let message = format!("n,{wanted},\x01auth=Bearer t.o.k\x01\x01");
    client.send(&sasl("auth", Some(Mechanism::OAuthBearer), message.as_bytes()));
    client.expect_nothing();
    client
}

fn fails(client: &mut Client, condition: &str) {
    client.expect(&format!("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><{condition}/></failure>"));
}

fn succeeds(mut client: Client) -> Client {
    client.expect("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    client.open(ELSEWHERE);
    client.bind("balcony");
    client
}

fn good() -> Judgement {
    Judgement::Good { username: None, until_s: None }
}

fn good_for(username: &str) -> Judgement {
    Judgement::Good { username: Some(username.into()), until_s: None }
}

fn bad() -> Judgement {
    Judgement::Bad { why: r#"{"status":"invalid_token"}"#.into() }
}

#[test]
fn clients_show_what_the_source_takes() {
    let (server, _) = server(false);
    let mut client = server.connect();
    client.open(ELSEWHERE);
    assert_eq!(client.mechanisms(), ["OAUTHBEARER", "PLAIN"]);
    let secure = Config { plain_without_tls: false, ..Config::default() };
    let source: Arc<dyn Source> = Arc::new(SlowSource::default());
    let secure = Server::with(Config { login_by: vec![("example.org".into(), LoginBy::Source(source))], ..secure });
    let mut client = secure.connect();
    client.open("example.org");
    assert!(client.mechanisms().is_empty(), "what can be read on the way is for TLS");
    for mechanism in [Mechanism::Plain, Mechanism::OAuthBearer] {
        assert_eq!(client.authenticate("juliet", "t", mechanism), Err("encryption-required".into()));
    }
}

#[test]
fn the_word_of_the_source_counts() {
    let (server, source) = server(false);
    server.account("juliet@elsewhere.example");
    let mut wrong = begin(&server, "wrong");
    source.answer("juliet@elsewhere.example wrong", Some(bad()));
    fails(&mut wrong, "not-authorized");
    let mut own = begin(&server, PASSWORD);
    source.answer(&format!("juliet@elsewhere.example {PASSWORD}"), Some(bad()));
    fails(&mut own, "not-authorized");
    let mut away = begin(&server, "right");
    source.answer("juliet@elsewhere.example right", Some(Judgement::Away));
    fails(&mut away, "temporary-auth-failure");
    let mut gone = begin(&server, "right");
    source.answer("juliet@elsewhere.example right", None);
    fails(&mut gone, "temporary-auth-failure");
    let right = begin(&server, "right");
    source.answer("juliet@elsewhere.example right", Some(good()));
    assert_eq!(succeeds(right).full(), "juliet@elsewhere.example/balcony");
}

#[test]
fn a_user_without_an_account_gets_one_if_the_operator_wants_that() {
    let (closed, source) = server(false);
    let mut client = begin(&closed, "right");
    source.answer("juliet@elsewhere.example right", Some(good()));
    fails(&mut client, "not-authorized");
    let (open, source) = server(true);
    let (one, other) = (begin(&open, "right"), begin(&open, "right"));
    for _ in 0..2 {
        source.answer("juliet@elsewhere.example right", Some(good()));
    }
    let (mut one, _other) = (succeeds(one), succeeds(other));
    one.expect_stream_error("conflict");
    let credentials =
        open.finish(open.stores().accounts.credentials(open.address("juliet@elsewhere.example").as_ref()));
    let credentials = credentials.unwrap().expect("an account");
    assert!(!credentials.verify("right") && credentials.sha1.is_none(), "no password opens it here");
}

#[test]
fn a_disabled_account_stays_disabled() {
    let (server, source) = server(true);
    let account = server.account("juliet@elsewhere.example");
    server.finish(server.stores().accounts.set_disabled(account.as_ref(), true)).unwrap();
    let mut client = begin(&server, "right");
    source.answer("juliet@elsewhere.example right", Some(good()));
    fails(&mut client, "account-disabled");
    let mut client = begin_with_token(&server, "");
    source.answer("t.o.k", Some(good_for("juliet")));
    fails(&mut client, "account-disabled");
}

/// RFC 7628 §3.2.2 and §3.2.3.
#[test]
fn a_token_is_good_for_whom_the_source_says() {
    let (server, source) = server(true);
    let client = begin_with_token(&server, "");
    source.answer("t.o.k", Some(good_for("Juliet")));
    assert_eq!(succeeds(client).full(), "juliet@elsewhere.example/balcony");
    let client = begin_with_token(&server, "a=juliet@elsewhere.example");
    source.answer("t.o.k", Some(good_for("juliet")));
    succeeds(client);
    let refusals = [
        ("", Some(bad())),
        ("", Some(good_for("ju@liet"))),
        ("", Some(good_for(""))),
        ("a=romeo@elsewhere.example", Some(good_for("juliet"))),
    ];
    for (wanted, judgement) in refusals {
        let mut client = begin_with_token(&server, wanted);
        source.answer("t.o.k", judgement);
        let challenge =
            "<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>eyJzdGF0dXMiOiJpbnZhbGlkX3Rva2VuIn0=</challenge>";
        client.expect(challenge);
        client.send("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AQ==</response>");
        fails(&mut client, "not-authorized");
    }
}

/// A token is good until a time, and so is the session that was begun with it (RFC 6120
/// §4.9.3.16). One that goes on with a newer token goes on for as long as that.
#[test]
fn a_session_ends_with_what_it_was_begun_with() {
    let (server, source) = server(true);
    let until = |seconds: u64| {
        let until_s = Some((EPOCH_MS + server.now()) / 1000 + seconds);
        Some(Judgement::Good { username: Some("juliet".into()), until_s })
    };
    let enter = |judgement| {
        let client = begin_with_token(&server, "");
        source.answer("t.o.k", judgement);
        let mut client = client;
        client.expect("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
        client.open(ELSEWHERE);
        client
    };
    let bound = |judgement, resource: &str| {
        let mut client = enter(judgement);
        client.bind(resource);
        client
    };
    let mut long = bound(until(10_000), "long");
    let mut short = bound(until(100), "short");
    let mut endless = bound(Some(good_for("juliet")), "endless");
    server.advance(99_000);
    short.expect_alive();
    server.advance(LOOKS_MS);
    short.expect_stream_error("reset");
    let mut kept = bound(until(100), "kept");
    let enabled = kept.ask("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let id = enabled.attr("id").expect("a name").to_owned();
    kept.vanish();
    let mut kept = enter(until(1_000));
    kept.ask(&format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{id}'/>"));
    server.advance(900_000);
    kept.wire.send(b"<r xmlns='urn:xmpp:sm:3'/>");
    kept.expect("<a xmlns='urn:xmpp:sm:3' h='0'/>");
    server.advance(100_000 + LOOKS_MS);
    kept.expect_stream_error("reset");
    long.expect_alive();
    server.advance(9_000_000);
    long.expect_stream_error("reset");
    endless.expect_alive();
}

/// The number of invented tokens that are verified for one address is bounded; others log in
/// meanwhile.
#[test]
fn tokens_that_are_made_up_count_at_their_address() {
    let (server, source) = server(true);
    let show = |address: [u8; 4]| {
        let mut client = server.connect_from(address.into());
        client.open(ELSEWHERE);
        client.send(&sasl("auth", Some(Mechanism::OAuthBearer), b"n,,\x01auth=Bearer t.o.k\x01\x01"));
        client.expect_nothing();
        client
    };
    let mut looked_at = 0;
    let refused = loop {
        let mut client = show([192, 0, 2, 1]);
        if source.questions() == 0 {
            break client;
        }
        source.answer("t.o.k", Some(bad()));
        client.expect_element();
        client.send("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AQ==</response>");
        fails(&mut client, "not-authorized");
        client.vanish();
        looked_at += 1;
        assert!(looked_at <= AT_AN_ADDRESS, "{looked_at}");
    };
    assert_eq!(looked_at, AT_AN_ADDRESS);
    drop(refused);
    let other = show([192, 0, 2, 2]);
    source.answer("t.o.k", Some(good_for("juliet")));
    succeeds(other);
}

/// XEP-0388, with a session in the same exchange.
#[test]
fn one_exchange_is_enough() {
    let (server, source) = server(true);
    let mut client = server.connect();
    client.open(ELSEWHERE);
    // n,, 0x01 auth=Bearer t.o.k 0x01 0x01
    client.send(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='OAUTHBEARER'><initial-response>biwsAWF1dGg9QmVhcmVyIHQuby5rAQE=\
         </initial-response><bind xmlns='urn:xmpp:bind:0'/></authenticate>",
    );
    client.expect_nothing();
    source.answer("t.o.k", Some(good_for("juliet")));
    let success = client.expect_element();
    let identity = success.child_text("authorization-identifier", "urn:xmpp:sasl:2").expect("success");
    assert!(identity.starts_with("juliet@elsewhere.example/"), "{identity}");
}

#[test]
fn nobody_waits_for_a_source_that_is_slow() {
    let (server, source) = server(true);
    let here = begin(&server, "right");
    source.answer("juliet@elsewhere.example right", Some(good()));
    let mut here = succeeds(here);
    let waiting: Vec<Client> = (0..SLOW).map(|_| begin(&server, "slow")).collect();
    assert_eq!(source.questions(), SLOW);
    let mut romeo = server.online("romeo/orchard");
    romeo.send("<message to='juliet@elsewhere.example/balcony'><body>here</body></message>");
    here.expect_message(romeo.full(), "here");
    here.expect_alive();
    drop(waiting);
    server.settle();
    for _ in 0..SLOW {
        source.answer("juliet@elsewhere.example slow", Some(good()));
    }
    here.expect_alive();
    assert_eq!((server.sessions(), server.tasks()), (2, 0), "answers for those who have gone harm nobody");
}

#[test]
fn members_of_a_group_of_the_source_are_contacts_until_it_says_otherwise() {
    let (server, source) = server(true);
    let group = |members: &[&str]| {
        let members = members.iter().map(|name| server.address(&format!("{name}@{ELSEWHERE}"))).collect();
        Some(Arc::new(vec![Group { name: "Lovers".into(), members }]))
    };
    let enter = |name: &str| {
        let mut client = server.connect();
        client.open(ELSEWHERE);
        client.send(&sasl("auth", Some(Mechanism::Plain), format!("\0{name}\0right").as_bytes()));
        client.expect_nothing();
        source.answer(&format!("{name}@{ELSEWHERE} right"), Some(good()));
        let mut client = succeeds(client);
        client.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
        client.send("<presence/>");
        client.expect_presence_of_itself();
        client
    };
    let (mut juliet, mut romeo) = (enter("juliet"), enter("romeo"));
    // The shards have not looked yet, as after a start.
    *source.groups.lock().unwrap() = group(&["juliet", "romeo"]);
    // A round of the shards, and the next step of telling.
    server.advance(ROUND_MS);
    let heard = juliet.all();
    let has = |heard: &[rookery_xml::Element], what: &str| heard.iter().any(|stanza| xml(stanza).contains(what));
    assert!(has(&heard, "<group>Lovers</group>") && has(&heard, "romeo@elsewhere.example/balcony"), "{heard:?}");
    romeo.all();
    romeo.send("<presence><show>away</show></presence>");
    juliet.expect("<presence from='romeo@elsewhere.example/balcony'><show>away</show></presence>");
    *source.groups.lock().unwrap() = group(&["juliet"]);
    server.advance(ROUND_MS);
    let heard = juliet.all();
    assert!(has(&heard, "subscription='remove'") && has(&heard, "type='unavailable'"), "{heard:?}");
}

/// The time within which all shards look for other groups.
const ROUND_MS: u64 = 2_500;
/// Logins that wait at once: fewer than guesses that a place has at an account.
const SLOW: usize = 20;
/// The time between two looks at sessions that end with their tokens.
const LOOKS_MS: u64 = 11_000;
/// Tokens of one address that are looked at, one after the other.
const AT_AN_ADDRESS: usize = 1000;
const ELSEWHERE: &str = "elsewhere.example";
