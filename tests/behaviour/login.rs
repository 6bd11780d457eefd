//! RFC 6120 §4 to §7: from the first byte to a bound resource, and the ways in which a session
//! ends.

use rookery_hub::Conflict;
use rookery_sasl::Mechanism;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::client::xml;
use rookery_testkit::login::{bind_request, sasl, stream_header};
use rookery_testkit::server::PASSWORD;
use rookery_testkit::{Client, Config, Security, Server, element, matches, play};
use rookery_xml::ns;

fn two_shards(change: impl FnOnce(&mut Config)) -> Server {
    let mut config = Config::default();
    change(&mut config);
    Server::with(config)
}

/// Returns a connection with an open stream, before login.
fn stranger(server: &Server) -> Client {
    let mut client = server.connect();
    client.open("example.org");
    client
}

fn plain(username: &str, password: &str) -> String {
    sasl("auth", Some(Mechanism::Plain), format!("\0{username}\0{password}").as_bytes())
}

#[test]
fn every_mechanism_logs_in_with_and_without_tls() {
    let server = two_shards(|config| config.tls = true);
    let account = server.account("juliet");
    for security in [Security::Plain, Security::StartTls, Security::DirectTls] {
        let mut client = match security {
            Security::DirectTls => server.connect_direct_tls(),
            _ => server.connect(),
        };
        client.log_in(&account, security);
        assert_eq!(client.bind("balcony").as_str(), "juliet@example.org/balcony");
        client.expect_alive();
        client.close();
    }
    for mechanism in Mechanism::ALL {
        let mut client = server.connect();
        client.open("example.org");
        client.start_tls("example.org");
        assert!(client.mechanisms().iter().any(|name| name == mechanism.name()), "{}", mechanism.name());
        assert_eq!(client.authenticate("juliet", PASSWORD, mechanism), Ok(()), "{}", mechanism.name());
        client.open("example.org");
        client.bind("balcony");
        client.close();
    }
    assert_eq!(server.sessions(), 0);
}

/// RFC 6120 §5.3.1 and §6.3.4: without TLS nothing is offered but TLS, where the operator wants it
/// so.
#[test]
fn without_tls_no_mechanism_is_offered() {
    let server = two_shards(|config| (config.tls, config.plaintext) = (true, false));
    server.account("juliet");
    let mut client = stranger(&server);
    assert!(client.mechanisms().is_empty());
    client.send(&plain("juliet", PASSWORD));
    client.expect("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><encryption-required/></failure>");
    client.start_tls("example.org");
    assert_eq!(client.authenticate("juliet", PASSWORD, Mechanism::Plain), Ok(()));
}

/// XEP-0368 §2: with direct TLS there is nothing left to negotiate, also where TLS is required.
#[test]
fn direct_tls_counts_as_tls() {
    let server = two_shards(|config| (config.tls, config.plaintext) = (true, false));
    let account = server.account("juliet");
    let mut client = server.connect_direct_tls();
    client.handshake("example.org", &[b"xmpp-client"]);
    assert!(client.open("example.org").child("starttls", ns::STARTTLS).is_none());
    assert!(client.mechanisms().iter().any(|name| name.ends_with("-PLUS")), "{:?}", client.mechanisms());
    assert_eq!(client.authenticate(account.local().unwrap(), PASSWORD, Mechanism::ScramSha256Plus), Ok(()));
}

/// RFC 6120 §7.6 and §7.7: the client or the server chooses.
#[test]
fn the_server_makes_a_resource_if_the_client_asks_for_none() {
    let server = Server::new();
    let account = server.account("juliet");
    let mut resources = Vec::new();
    for asked in [None, Some(""), None] {
        let mut client = server.connect();
        client.log_in(&account, Security::Plain);
        let result = client.ask_to_bind(asked);
        let jid = client.take_bound(&result);
        assert_eq!(jid.bare_str(), "juliet@example.org");
        resources.push(jid.resource().expect("a full JID").to_owned());
    }
    resources.dedup();
    assert_eq!(resources.len(), 3, "each got its own: {resources:?}");
    assert!(resources.iter().all(|resource| resource.len() >= 16), "nobody can guess them: {resources:?}");
}

/// RFC 6120 §7.7.2.2, first policy: "terminate the current resource and accept the newly-requested
/// resource".
#[test]
fn a_newer_session_ends_the_older_one_with_the_same_resource() {
    let server = Server::new();
    let mut friend = server.online("juliet/friend");
    let mut older = server.online("juliet/balcony");
    friend.all();
    let mut newer = server.login("juliet/balcony");
    older.expect("<presence from='juliet@example.org/friend'/>");
    older.expect_stream_error("conflict");
    friend.expect("<presence from='juliet@example.org/balcony' type='unavailable'/>");
    friend.send("<message to='juliet@example.org/balcony'><body>to the newer one</body></message>");
    newer.expect_message("juliet@example.org/friend", "to the newer one");
    older.wire.peer.shutdown();
    newer.expect_alive();
    assert_eq!(server.sessions(), 2);
}

/// RFC 6120 §7.7.2.2, second policy: "disallow the binding request of the newly-connecting client".
#[test]
fn a_newer_session_is_refused_where_the_operator_wants_that() {
    let server = two_shards(|config| config.settings.conflict = Conflict::RefuseNewer);
    let mut older = server.login("juliet/balcony");
    let mut newer = server.connect();
    newer.log_in(&server.account("juliet"), Security::Plain);
    let error = newer.ask_to_bind(Some("balcony"));
    let conflict = "<iq type='error' id='bind'><error type='cancel'>
        <conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>";
    matches(&element(&conflict.replace("\n        ", "")), &error).unwrap();
    newer.bind("orchard");
    newer.expect_alive();
    older.expect_alive();
}

/// RFC 6120 §7.6.2.1: too many connected resources.
#[test]
fn the_eleventh_resource_is_refused() {
    let server = Server::new();
    let mut clients: Vec<_> = (0..10).map(|number| server.login(&format!("juliet/{number}"))).collect();
    let mut eleventh = server.connect();
    eleventh.log_in(&server.account("juliet"), Security::Plain);
    play(
        &mut [&mut eleventh],
        "C: <iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>10</resource></bind></iq>
         S: <iq type='error' id='b'><error type='wait'>
              <resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    );
    clients[3].close();
    eleventh.bind("10");
    eleventh.expect_alive();
}

/// RFC 6120 §7.7.2.1: an invalid resource.
#[test]
fn a_malformed_resource_is_refused_and_another_may_be_asked_for() {
    let server = Server::new();
    let mut client = server.connect();
    client.log_in(&server.account("juliet"), Security::Plain);
    for resource in ["x".repeat(1024), "a\u{202e}b".into()] {
        let error = client.ask_to_bind(Some(&resource));
        assert!(xml(&error).contains("bad-request"), "{}", xml(&error));
    }
    client.bind("balcony");
}

/// Hot-path trap 2 of the ordering (RFC 6120 §10.1): what was read before a connection moves to its
/// home goes with it.
#[test]
fn a_connection_moves_to_its_home_with_what_was_pipelined_behind_the_login() {
    let server = two_shards(|config| config.shards = 3);
    let mut romeo = server.login("romeo/orchard");
    for shard in 0..3 {
        let name = server.name_at("juliet", shard);
        server.account(&name);
        for arrives_at in 0..3 {
            let mut client = server.connect_at(arrives_at);
            client.open("example.org");
            let pings = "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>".repeat(2);
            // Everything in one write: login, stream, binding, stanzas.
            let all = [
                plain(&name, PASSWORD),
                stream_header("example.org"),
                bind_request(Some("balcony")),
                "<message to='romeo@example.org/orchard'><body>first</body></message>".into(),
                "<message to='romeo@example.org/orchard'><body>second</body></message>".into(),
                pings,
            ];
            client.send(&all.concat());
            client.expect("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
            client.expect_header();
            assert!(client.expect_element().is("features", ns::STREAMS));
            let bound = client.expect_element();
            client.take_bound(&bound);
            let from = format!("{name}@example.org/balcony");
            romeo.expect_message(&from, "first");
            romeo.expect_message(&from, "second");
            for _ in 0..2 {
                client.expect(&format!("<iq type='result' id='1' from='{name}@example.org'/>"));
            }
            client.expect_alive();
            client.close();
        }
    }
}

/// RFC 6120 §13.11 and RFC 5802 §9: a reply must not tell whether an account exists.
#[test]
fn an_unknown_account_and_a_wrong_password_are_answered_with_the_same_bytes() {
    for mechanism in [Mechanism::Plain, Mechanism::ScramSha1, Mechanism::ScramSha256, Mechanism::ScramSha512] {
        let server = Server::new();
        server.account("juliet");
        let mut answers = Vec::new();
        for username in ["juliet", "nobody"] {
            let mut client = stranger(&server);
            assert_eq!(client.authenticate(username, "wrong", mechanism), Err("not-authorized".into()));
            let text = String::from_utf8(client.wire.plain.clone()).expect("UTF-8");
            let (header, answer) = text.split_once("</stream:features>").expect("features");
            assert!(header.contains("id='"));
            answers.push(without_nonce_and_salt(answer));
        }
        assert_eq!(answers[0], answers[1], "{}", mechanism.name());
    }
}

/// The same salt is told for an unknown account each time, as a real one's would be.
#[test]
fn the_salt_of_an_unknown_account_is_always_the_same() {
    let server = Server::new();
    let salt = |username: &str| {
        let mut client = stranger(&server);
        let (_, initial) = client.exchange(username, "x", Mechanism::ScramSha1);
        client.send(&sasl("auth", Some(Mechanism::ScramSha1), &initial));
        let challenge = decode(&client.expect_element().text());
        challenge.split(',').find(|part| part.starts_with("s=")).expect("a salt").to_owned()
    };
    assert_eq!(salt("nobody"), salt("nobody"));
    assert_ne!(salt("nobody"), salt("somebody"));
}

fn decode(base64: &str) -> String {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(base64).expect("Base64");
    String::from_utf8(bytes).expect("UTF-8")
}

/// Returns the replies with the two parts of a SCRAM challenge blanked that differ with every login
/// or account.
fn without_nonce_and_salt(answer: &str) -> String {
    let Some((before, rest)) = answer.split_once("<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>") else {
        return answer.to_owned();
    };
    let (challenge, after) = rest.split_once('<').expect("an end tag");
    let challenge = decode(challenge);
    let blank = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        if key == "r" || key == "s" { format!("{key}={}", value.len()) } else { part.to_owned() }
    };
    let challenge: Vec<String> = challenge.split(',').map(blank).collect();
    format!("{before}{}{after}", challenge.join(","))
}

/// RFC 6120 §6.4.5: 2 to 5 retries, then the stream is closed.
#[test]
fn the_fifth_failure_closes_the_stream() {
    let server = Server::new();
    server.account("juliet");
    let mut other = server.login("romeo/orchard");
    let mut client = stranger(&server);
    for _ in 0..5 {
        client.send(&plain("juliet", "wrong"));
        server.advance(10_000);
        client.expect("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>");
    }
    client.expect_stream_error("policy-violation");
    other.expect_alive();
}

/// A device with a wrong password doesn't hold back others behind its address, whether they have
/// logged in from there or not.
#[test]
fn a_wrong_password_slows_down_nobody_else_behind_the_address() {
    let server = Server::new();
    server.account("juliet");
    for _ in 0..10 {
        let mut broken = stranger(&server);
        for _ in 0..5 {
            broken.send(&plain("juliet", "wrong"));
            server.settle();
        }
    }
    for number in 0..20 {
        let mut neighbour = server.connect();
        neighbour.log_in(&server.account(&format!("neighbour{number}")), Security::Plain);
    }
    // Its owner comes in from elsewhere at once.
    let mut elsewhere = server.connect_from("198.51.100.7".parse().unwrap());
    elsewhere.log_in(&server.account("juliet"), Security::Plain);
}

/// Guesses are bounded for an address and an account together: then they are refused as RFC 6120
/// §6.5.11 has it, unseen, the right password among them.
#[test]
fn guesses_from_one_place_are_bounded_and_refused_afterwards() {
    let server = Server::new();
    server.account("juliet");
    let mut answers = Vec::new();
    for _ in 0..6 {
        let mut client = stranger(&server);
        for _ in 0..4 {
            client.send(&plain("juliet", "wrong"));
            server.advance(2_000);
            let failure = client.expect_element();
            answers.push(failure.children().next().map(|child| child.name().to_owned()).unwrap_or_default());
        }
    }
    let looked_at = answers.iter().take_while(|answer| *answer == "not-authorized").count();
    assert_eq!(looked_at, 20);
    assert!(answers[looked_at..].iter().all(|answer| answer == "temporary-auth-failure"), "{answers:?}");
    // A refusal takes two seconds, so that a client that repeats it at once doesn't do so all the
    // time.
    let mut client = stranger(&server);
    client.send(&plain("juliet", PASSWORD));
    server.advance(1_999);
    client.expect_nothing();
    server.advance(1);
    client.expect("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><temporary-auth-failure/></failure>");
    // Ten minutes later there is another attempt.
    server.advance(600_000);
    server.connect().log_in(&server.account("juliet"), Security::Plain);
}

/// Guesses of others at an account keep its owner out nowhere, be it a place of an earlier login or
/// a new one.
#[test]
fn who_has_logged_in_from_there_is_let_in() {
    let server = Server::new();
    let juliet = server.account("juliet");
    server.connect().log_in(&juliet, Security::Plain);
    for number in 0..40 {
        let mut guesser = server.connect_from(format!("198.51.{number}.7").parse().unwrap());
        guesser.open("example.org");
        for _ in 0..4 {
            guesser.send(&plain("juliet", "wrong"));
            server.advance(1);
        }
    }
    let mut guesser = server.connect_from("203.0.113.7".parse().unwrap());
    guesser.open("example.org");
    guesser.send(&plain("juliet", "wrong"));
    server.advance(2_000);
    guesser.expect("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><temporary-auth-failure/></failure>");
    server.connect().log_in(&juliet, Security::Plain);
}

/// RFC 6120 §4.9.3.4: a client has a minute to log in.
#[test]
fn a_silent_connection_is_closed_after_a_minute() {
    let server = Server::new();
    let mut silent = server.connect();
    let mut halfway = stranger(&server);
    let mut logged_in = server.connect();
    logged_in.log_in(&server.account("juliet"), Security::Plain);
    let mut bound = server.login("romeo/orchard");
    server.advance(59_999);
    assert!(silent.is_open() && halfway.is_open() && logged_in.is_open());
    server.advance(1);
    silent.expect_header();
    silent.expect_stream_error("connection-timeout");
    halfway.expect_stream_error("connection-timeout");
    logged_in.expect_stream_error("connection-timeout");
    bound.expect_alive();
    server.advance(5_000);
    assert!(silent.wire.peer.is_closed(), "after some seconds the server doesn't wait for the client to close");
    assert_eq!(server.connections(), 1);
}

/// RFC 6120 §4.9.3.20.
#[test]
fn a_stop_ends_all_streams_with_system_shutdown() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    let mut halfway = stranger(&server);
    romeo.send("<message to='juliet@example.org'><body>the last word</body></message>");
    server.settle();
    server.stop();
    juliet.expect_message("romeo@example.org/orchard", "the last word");
    for client in [&mut juliet, &mut romeo, &mut halfway] {
        client.expect_stream_error("system-shutdown");
    }
    assert!(!server.is_finished(), "the clients have a few seconds to close");
    juliet.wire.peer.shutdown();
    server.advance(5_000);
    assert!(server.is_finished());
    let mut late = server.connect();
    late.expect_closed();
}

#[test]
fn a_reload_drops_nobody() {
    let server = two_shards(|config| config.tls = true);
    let mut juliet = server.online("juliet/balcony");
    let mut halfway = stranger(&server);
    server.reload(|config| {
        config.settings.max_resources = 1;
        config.domains.push("example.net".into());
    });
    juliet.expect_alive();
    halfway.authenticate("juliet", PASSWORD, Mechanism::Plain).unwrap();
    halfway.open("example.org");
    assert!(xml(&halfway.ask_to_bind(None)).contains("resource-constraint"), "the new limit holds");
    let mut new = server.login("benvolio@example.net/new");
    new.expect_alive();
}

/// RFC 6120 §4.9.3.5: "the value of the 'to' attribute provided in the initial stream header
/// corresponds to an FQDN that is no longer serviced by the receiving entity".
#[test]
fn sessions_of_a_domain_that_is_gone_end_with_host_gone() {
    let server = two_shards(|config| config.domains.push("example.net".into()));
    let mut stays = server.online("juliet/balcony");
    let mut goes = server.online("romeo@example.net/orchard");
    server.reload(|config| drop(config.domains.pop()));
    goes.expect_stream_error("host-gone");
    stays.expect_alive();
    let mut late = server.connect();
    late.send(&stream_header("example.net"));
    late.expect_header();
    late.expect_stream_error("host-unknown");
}

/// RFC 6120 §4.9.3.6 to §4.9.3.25: headers that are not what they should be, with the server's
/// header before the error (§4.9.1.2).
#[test]
fn wrong_stream_headers_are_refused() {
    let server = Server::new();
    let header = stream_header("example.org");
    for (header, condition) in [
        (header.replace("example.org", "example.com"), "host-unknown"),
        (header.replace("example.org", "@@"), "improper-addressing"),
        (header.replace("jabber:client", "jabber:server"), "invalid-namespace"),
        (header.replace("http://etherx.jabber.org/streams", "urn:x"), "invalid-namespace"),
        (header.replace("version='1.0' xmlns", "version='0.9' xmlns"), "unsupported-version"),
        (header.replace("<?xml version='1.0'?>", "<?xml version='1.0' encoding='UTF-16'?>"), "unsupported-encoding"),
        (header.replace("xmlns:stream=", "xmlns:other="), "bad-namespace-prefix"),
        ("GET / HTTP/1.1\r\n\r\n".into(), "not-well-formed"),
        ("<!DOCTYPE x>".into(), "restricted-xml"),
    ] {
        let mut client = server.connect();
        client.send(&header);
        client.expect_header();
        client.expect_stream_error(condition);
    }
}

/// A database that has recovered isn't overloaded by the clients that log in again: they wait for
/// their turn, but not for ever.
#[test]
fn logins_beyond_what_the_store_can_serve_wait_for_their_turn() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    held.set_logins_at_once(2);
    let server = two_shards(|config| (config.stores, config.shards) = (held.stores(), 1));
    server.account("juliet");
    // The questions of the start are answered.
    server.settle();
    held.set_flowing(false);
    let mut clients: Vec<Client> = (0..5).map(|_| stranger(&server)).collect();
    clients.iter_mut().for_each(|client| client.send(&plain("juliet", PASSWORD)));
    server.settle();
    assert_eq!(held.waiting(), 2, "the others have not asked the store");
    assert!(held.release_one());
    server.settle();
    assert_eq!(held.waiting(), 2, "one is done, the next has its turn");
    clients[0].expect("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    server.advance(11_000);
    held.release_all();
    server.settle();
    for client in &mut clients[1..3] {
        client.expect("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    }
    assert_eq!(held.waiting(), 0, "nobody asks for those who have waited for too long");
    for client in &mut clients[3..] {
        client.expect("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><temporary-auth-failure/>...</failure>");
    }
}
