//! Input that no client should send: each gets the right error, costs bounded memory,
//! and harms nobody else.

use std::sync::Arc;

use rookery_sasl::Mechanism;
use rookery_store::StoreError;
use rookery_store::error::EngineWords;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::login::{bind_request, sasl, stream_header};
use rookery_testkit::server::PASSWORD;
use rookery_testkit::{Client, Config, Security, Server, play};

/// Returns a server of one shard, so that a client which misbehaves shares it with [`Bystander`].
fn server() -> Server {
    Server::with(Config { shards: 1, tls: true, ..Config::default() })
}

/// Two sessions that must not notice anything.
struct Bystanders(Client, Client);

impl Bystanders {
    fn new(server: &Server) -> Self {
        Self(server.login("nurse/house"), server.online("peter/house"))
    }

    fn are_unharmed(&mut self) {
        self.0.send("<message to='peter@example.org'><body>Are you there?</body></message>");
        self.1.expect_message("nurse@example.org/house", "Are you there?");
        self.0.expect_alive();
        self.1.expect_alive();
    }
}

fn stranger(server: &Server) -> Client {
    let mut client = server.connect();
    client.open("example.org");
    client
}

/// Sends bytes by a bound session, and checks that the stream ends with this error.
fn expect_refusal(server: &Server, bytes: &[u8], condition: &str) {
    let mut client = server.login("juliet/balcony");
    client.send_bytes(bytes);
    client.expect_stream_error(condition);
    client.wire.peer.shutdown();
}

/// RFC 6120 §13.12: limits, before login the tighter ones.
#[test]
fn too_much_before_login_ends_the_stream() {
    let server = server();
    let mut bystanders = Bystanders::new(&server);
    let endless = [b"<message xmlns='jabber:client'><body>".to_vec(), vec![b'x'; 30_000_000]].concat();
    let mut client = stranger(&server);
    client.send_bytes(&endless);
    client.expect_stream_error("policy-violation");
    let mut client = server.connect();
    client.send_bytes(&[b"<stream:stream to='".to_vec(), vec![b'x'; 30_000_000]].concat());
    client.expect_header();
    client.expect_stream_error("policy-violation");
    let mut client = server.connect();
    client.send_bytes(&vec![b' '; 3_000_000]);
    assert!(client.is_open(), "whitespace is no header, and takes no memory");
    let mut client = stranger(&server);
    client.send_bytes("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>".as_bytes());
    client.send_bytes(&vec![b'A'; 11_000]);
    client.expect_stream_error("policy-violation");
    bystanders.are_unharmed();
}

#[test]
fn too_much_after_login_ends_the_stream() {
    let server = server();
    let mut bystanders = Bystanders::new(&server);
    let text = "x".repeat(3_000_000);
    expect_refusal(&server, format!("<message><body>{text}</body></message>").as_bytes(), "policy-violation");
    expect_refusal(&server, format!("<message id='{text}'/>").as_bytes(), "policy-violation");
    expect_refusal(&server, format!("<{text}/>").as_bytes(), "policy-violation");
    expect_refusal(&server, "<a>".repeat(1_000_000).as_bytes(), "policy-violation");
    let attributes: String = (0..50_000).map(|number| format!(" a{number}=''")).collect();
    expect_refusal(&server, format!("<message{attributes}/>").as_bytes(), "policy-violation");
    let prefixes: String = (0..33).map(|number| format!(" xmlns:a{number}='urn:{number}'")).collect();
    expect_refusal(&server, format!("<message{prefixes}/>").as_bytes(), "policy-violation");
    bystanders.are_unharmed();
}

/// Short stanzas that would become very long if each element named its namespace, as it does in
/// memory or when it is written again.
#[test]
fn long_namespaces_are_refused() {
    let server = server();
    let mut bystanders = Bystanders::new(&server);
    let (longest, longer) = ("u".repeat(1024), "u".repeat(1025));
    let private = |attributes: &str, content: &str, count: usize| {
        let content = content.repeat(count);
        format!("<iq type='set' id='p'><query xmlns='jabber:iq:private'><x {attributes}>{content}</x></query></iq>")
    };
    for (attributes, content, count) in [
        (format!("xmlns='{longer}'"), "<a/>", 1),
        (format!("xmlns='u' xmlns:p='{longer}'"), "<p:a/>", 1),
        (format!("xmlns='u' xmlns:p='{longest}'"), "<p:a/>", 20_000),
        (format!("xmlns='u' xmlns:p='{longest}'"), "<a p:b=''/>", 20_000),
        (format!("xmlns='{longest}' xmlns:p='u'"), "<p:a><b/></p:a>", 10_000),
    ] {
        expect_refusal(&server, private(&attributes, content, count).as_bytes(), "policy-violation");
    }
    // As many as there is room for in the longest there may be, through the store and back.
    let mut client = server.login("juliet/balcony");
    client.send(&private(&format!("xmlns='{longest}'"), "<a/>", 12_000));
    client.expect("<iq type='result' id='p' from='juliet@example.org'/>");
    let get = format!("<iq type='get' id='g'><query xmlns='jabber:iq:private'><x xmlns='{longest}'/></query></iq>");
    let result = client.ask(&get);
    let stored = result.children().next().and_then(|query| query.children().next()).expect("what was stored");
    assert_eq!(stored.children().filter(|child| child.is("a", &longest)).count(), 12_000);
    client.expect_alive();
    bystanders.are_unharmed();
}

/// The language of a stream is added to each of its stanzas, so it may not be long.
#[test]
fn a_language_that_is_none_is_added_to_nothing() {
    let server = server();
    let mut romeo = server.login("romeo/orchard");
    let mut client = server.connect();
    server.account("nurse");
    client.open("example.org");
    client.authenticate("nurse", PASSWORD, Mechanism::ScramSha1).expect("the right password");
    let language = format!(" xml:lang='{}' xmlns=", "de-".repeat(1000));
    client.send(&stream_header("example.org").replacen(" xmlns=", &language, 1));
    client.expect_header();
    client.expect_element();
    client.bind("house");
    client.send("<message to='romeo@example.org/orchard'><body>hi</body></message>");
    assert_eq!(romeo.expect_message("nurse@example.org/house", "hi").attr("xml:lang"), None);
}

/// A stanza that could not be read back must not be stored: it would come back at each login.
#[test]
fn deep_nesting_does_not_reach_the_store() {
    let server = server();
    let romeo = server.account("romeo");
    let deep = format!("{}{}", "<a xmlns='urn:a'>".repeat(20_000), "</a>".repeat(20_000));
    let mut juliet = server.login("juliet/balcony");
    juliet.send(&format!("<message to='romeo@example.org' type='chat'><body>deep</body>{deep}</message>"));
    juliet.expect_stream_error("policy-violation");
    assert_eq!(server.finish(server.stores().offline.count(romeo.as_ref())), Ok(0));
    // As deep as is allowed: through the store and back.
    let (open, close) = ("<a xmlns='urn:a'>".repeat(31), "</a>".repeat(31));
    let mut juliet = server.login("juliet/balcony");
    juliet.send(&format!("<message to='romeo@example.org' type='chat'>{open}{close}</message>"));
    juliet.expect_alive();
    let mut romeo = server.online("romeo/orchard");
    assert!(romeo.expect_element().child("a", "urn:a").is_some());
    romeo.expect_alive();
}

/// RFC 6120 §4.9.3.13 and §4.9.3.18, §11.1: input that isn't XML, and XML that XMPP forbids.
#[test]
fn bytes_that_are_not_xmpp_end_the_stream() {
    let server = server();
    let mut bystanders = Bystanders::new(&server);
    for (bytes, condition) in [
        (&b"<!DOCTYPE lolz [<!ENTITY a 'lol'><!ENTITY b '&a;&a;&a;'>]><message>&b;</message>"[..], "restricted-xml"),
        (b"<message><body>&lol;</body></message>", "restricted-xml"),
        (b"<message><!-- comment --></message>", "restricted-xml"),
        (b"<!-- comment -->", "restricted-xml"),
        (b"<message><?php evil ?></message>", "restricted-xml"),
        (b"<?pi evil ?>", "restricted-xml"),
        (b"<message><!ELEMENT x></message>", "restricted-xml"),
        (b"<message><x:body xmlns:y='urn:y'/></message>", "bad-namespace-prefix"),
        (b"<message x:id='1'/>", "bad-namespace-prefix"),
        (b"<message id='1' id='2'/>", "not-well-formed"),
        (b"<message xmlns:a='urn:x' xmlns:b='urn:x' a:id='1' b:id='2'/>", "not-well-formed"),
        (b"<message><body>\xc0\xaf</body></message>", "not-well-formed"),
        (b"<message><body>\xe0\x80\xaf</body></message>", "not-well-formed"),
        (b"<message><body>\xed\xa0\x80</body></message>", "not-well-formed"),
        (b"<message><body>\xf4\x90\x80\x80</body></message>", "not-well-formed"),
        (b"<message><body>\xff</body></message>", "not-well-formed"),
        (b"<message><body>\x00</body></message>", "not-well-formed"),
        (b"<message><body>\x08</body></message>", "not-well-formed"),
        (b"<message><body>&#0;</body></message>", "not-well-formed"),
        (b"<message><body>&#x1b;</body></message>", "not-well-formed"),
        (b"<message><body>\xef\xbf\xbe</body></message>", "not-well-formed"),
        (b"<message><body></message></body>", "not-well-formed"),
        (b"<message id='<'/>", "not-well-formed"),
        (b"<message id=1/>", "not-well-formed"),
        (b"text between stanzas", "not-well-formed"),
        (b"</message>", "not-well-formed"),
        (b"<body>]]></body>", "not-well-formed"),
        (b"<foo xmlns='urn:bar'/>", "unsupported-stanza-type"),
        (b"<Message/>", "unsupported-stanza-type"),
        (
            b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGEAYg==</auth>",
            "unsupported-stanza-type",
        ),
    ] {
        let mut client = server.login("juliet/balcony");
        client.send_bytes(bytes);
        // Nothing after the error is processed.
        client.send_bytes(b"<message to='peter@example.org'><body>behind</body></message>");
        let text = String::from_utf8_lossy(bytes).into_owned();
        client.pump();
        let plain = String::from_utf8_lossy(&client.wire.plain);
        assert!(plain.contains(&format!("<{condition} ")), "{condition} was expected for {text}: {plain}");
        client.expect_stream_error(condition);
        client.wire.peer.shutdown();
    }
    bystanders.are_unharmed();
}

/// RFC 6120 §4.9.3.1 and §4.3.3: a stream is opened once after its negotiation.
#[test]
fn a_second_stream_header_ends_the_stream() {
    let server = server();
    let header = stream_header("example.org");
    let (_, without_declaration) = header.split_once("?>").expect("a declaration");
    expect_refusal(&server, header.as_bytes(), "bad-format");
    expect_refusal(&server, without_declaration.as_bytes(), "bad-format");
    let mut client = server.login("juliet/balcony");
    client.wire.peer.set_most(1);
    client.send(without_declaration);
    client.expect_stream_error("bad-format");
}

/// Input that comes byte by byte is worked off as it comes, whatever it is cut into.
#[test]
fn input_may_come_byte_by_byte() {
    let server = server();
    let mut romeo = server.login("romeo/orchard");
    let body = "é<>&'\"".repeat(5_000).replace('&', "&amp;").replace('<', "&lt;");
    let mut client = server.connect();
    client.wire.peer.set_most(1);
    client.log_in(&server.account("juliet"), Security::StartTls);
    client.bind("balcony");
    client.wire.peer.set_most(7);
    client.send(&format!("<message to='romeo@example.org/orchard'><body>{body}</body></message>"));
    romeo.expect_message("juliet@example.org/balcony", &"é<>&'\"".repeat(5_000));
    let mut client = server.login("juliet/balcony");
    client.wire.peer.set_most(1);
    for byte in format!("<message to='romeo@example.org/orchard'><body>{body}</body></message>").bytes() {
        client.send_bytes(&[byte]);
        server.settle();
    }
    romeo.expect_message("juliet@example.org/balcony", &"é<>&'\"".repeat(5_000));
}

/// RFC 6120 §4.9.3.12, §6.3.1 and §7.1: in this order and no other.
#[test]
fn stanzas_before_binding_end_the_stream() {
    let server = server();
    let mut bystanders = Bystanders::new(&server);
    let stanzas = [
        "<message to='peter@example.org'><body>x</body></message>",
        "<presence/>",
        "<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>",
    ];
    for stanza in stanzas {
        let mut client = stranger(&server);
        client.send(stanza);
        client.expect_stream_error("not-authorized");
        let mut client = server.connect();
        client.log_in(&server.account("juliet"), Security::Plain);
        client.send(stanza);
        client.expect_stream_error("not-authorized");
    }
    // Binding before login, login after login.
    let mut client = stranger(&server);
    client.send(&bind_request(None));
    client.expect_stream_error("not-authorized");
    let mut client = server.connect();
    client.log_in(&server.account("juliet"), Security::Plain);
    client.send(&sasl("auth", Some(Mechanism::Plain), format!("\0peter\0{PASSWORD}").as_bytes()));
    client.expect_stream_error("policy-violation");
    // A second resource on the same stream (§7.1).
    let mut client = server.login("juliet/balcony");
    play(
        &mut [&mut client],
        "C: <iq type='set' id='2'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>
         S: <iq type='error' id='2' from='juliet@example.org'><error type='cancel'>
              <not-allowed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    );
    bystanders.are_unharmed();
}

/// RFC 6120 §5.3.3 and §5.4.2.2: bytes that came in the clear after `<starttls/>` must not count as
/// sent under TLS.
#[test]
fn plaintext_behind_starttls_is_never_read() {
    let server = server();
    let mut bystanders = Bystanders::new(&server);
    server.account("juliet");
    let starttls = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
    let injected = sasl("auth", Some(Mechanism::Plain), format!("\0juliet\0{PASSWORD}").as_bytes());
    let mut client = stranger(&server);
    client.send(&format!("{starttls}{injected}"));
    client.expect("<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    client.expect_end();
    // If anything else comes after `<proceed/>` instead of a ClientHello, the connection is closed
    // without a word in the clear.
    for garbage in [injected.into_bytes(), vec![0; 100_000], vec![0x16, 3, 1, 0xff, 0xff], (0..=255).collect()] {
        let mut client = stranger(&server);
        client.send(starttls);
        client.expect("<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        client.send_bytes(&garbage);
        server.settle();
        client.wire.peer.shutdown();
        server.settle();
        let said = client.wire.peer.read(usize::MAX);
        assert!(said.first().is_none_or(|&byte| byte == 0x15), "an alert or nothing: {said:?}");
        assert!(client.wire.peer.is_closed());
    }
    bystanders.are_unharmed();
}

/// RFC 6120 §4.9.3.9 and §8.1.2.1: nobody speaks for others.
#[test]
fn a_forged_sender_ends_the_stream() {
    let server = server();
    let mut bystanders = Bystanders::new(&server);
    server.account("juliet");
    for from in ["romeo@example.org", "juliet@example.org/other", "example.org", "juliet@example.com", "@", ""] {
        for stanza in [
            format!("<message from='{from}' to='peter@example.org'><body>x</body></message>"),
            format!("<presence from='{from}'/>"),
            format!("<iq from='{from}' type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>"),
        ] {
            expect_refusal(&server, stanza.as_bytes(), "invalid-from");
        }
    }
    bystanders.are_unharmed();
}

/// RFC 6120 §8.3.1: "a stanza of type 'error' MUST NOT be responded to with another".
#[test]
fn errors_are_never_answered() {
    let server = server();
    let mut juliet = server.online("juliet/balcony");
    for to in [
        "nobody@example.org",
        "nobody@example.org/r",
        "peter@example.com",
        "example.org",
        "example.org/r",
        "@",
        "juliet@example.org/no",
    ] {
        for stanza in ["message", "presence", "iq"] {
            juliet.send(&format!("<{stanza} type='error' id='1' to='{to}'><error type='cancel'/></{stanza}>"));
        }
        juliet.send(&format!("<iq type='result' id='1' to='{to}'/>"));
    }
    for stanza in ["message", "presence", "iq"] {
        juliet.send(&format!("<{stanza} type='error' id='1'><error type='cancel'/></{stanza}>"));
    }
    juliet.send("<iq type='error'/><iq type='result'/>");
    juliet.expect_alive();
}

/// Returns a server over a store that fails at will.
fn failing() -> (Server, Arc<HeldStores>) {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    (Server::with(Config { shards: 1, stores: held.stores(), ..Config::default() }), held)
}

fn engine() -> EngineWords {
    EngineWords { database: "test".into(), message: "as told".into() }
}

/// RFC 6120 §8.3.3.6 and §8.3.3.18: a store that is full, locked or read-only, as while one host
/// takes over from another, may recover, so the client may try again; a damaged store is the
/// server's fault.
#[test]
fn the_fault_of_the_store_decides_the_condition_of_errors() {
    for (fault, type_, condition) in [
        (StoreError::Full(engine()), "wait", "resource-constraint"),
        (StoreError::Locked(engine()), "wait", "resource-constraint"),
        (StoreError::ReadOnly(engine()), "wait", "resource-constraint"),
        (StoreError::Io(engine()), "wait", "resource-constraint"),
        (StoreError::Corrupt(engine()), "cancel", "internal-server-error"),
    ] {
        let (server, held) = failing();
        let mut bystanders = Bystanders::new(&server);
        server.account("romeo");
        let mut juliet = server.login("juliet/balcony");
        let mut login = stranger(&server);
        let mut binding = server.connect();
        binding.log_in(&server.account("juliet"), Security::Plain);
        held.set_fault(Some(fault));
        let error = format!("<error type='{type_}'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>");
        play(
            &mut [&mut juliet],
            &format!(
                "C: <iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>
                 S: <iq type='error' id='1' from='juliet@example.org'>{error}</iq>
                 C: <iq type='set' id='2'><query xmlns='jabber:iq:roster'><item jid='a@example.org'/></query></iq>
                 S: <iq type='error' id='2' from='juliet@example.org'>{error}</iq>
                 C: <message to='romeo@example.org' type='chat' id='3'><body>x</body></message>
                 S: <message type='error' id='3' from='romeo@example.org'>{error}</message>"
            ),
        );
        juliet.send("<presence/>");
        juliet.expect_presence_of_itself();
        juliet.send("<presence type='subscribe' to='romeo@example.org' id='4'/>");
        juliet.expect(&format!("<presence type='error' id='4' from='romeo@example.org'>{error}</presence>"));
        assert_eq!(
            login.authenticate("juliet", PASSWORD, Mechanism::ScramSha256),
            Err("temporary-auth-failure".into())
        );
        assert_eq!(login.authenticate("juliet", PASSWORD, Mechanism::Plain), Err("temporary-auth-failure".into()));
        let refused = binding.ask_to_bind(Some("chamber"));
        let text = rookery_testkit::client::xml(&refused);
        assert!(text.contains(condition), "{text}");
        bystanders.are_unharmed();
        // It recovers: everybody may try again.
        held.set_fault(None);
        binding.bind("chamber");
        assert_eq!(login.authenticate("juliet", PASSWORD, Mechanism::Plain), Ok(()));
        juliet.send("<message to='romeo@example.org' type='chat'><body>y</body></message>");
        juliet.expect_alive();
        assert_eq!(server.online("romeo/orchard").bodies(), ["y"]);
    }
}

/// Connections beyond what one address may have are closed at once.
#[test]
fn an_address_has_so_many_connections() {
    let server = Server::with(Config { connections_per_address: 3, shards: 1, ..Config::default() });
    let clients: Vec<Client> = (0..3).map(|_| stranger(&server)).collect();
    server.connect().expect_closed();
    server.connect_from("198.51.100.7".parse().unwrap()).open("example.org");
    clients[0].wire.peer.shutdown();
    server.settle();
    server.connect().open("example.org");
}
