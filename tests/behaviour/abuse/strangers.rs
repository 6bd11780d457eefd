//! Limits between users who aren't contacts of each other.

use rookery_hub::Value;
use rookery_sasl::Mechanism;
use rookery_testkit::{Client, Config, Server, befriend};

fn server(options: &[(&'static str, Value)]) -> Server {
    let options = options.iter().map(|(key, value)| ("strangers", *key, value.clone())).collect();
    Server::with(Config { federates: true, options, ..Config::default() })
}

fn say(client: &mut Client, to: &str, times: usize) {
    for _ in 0..times {
        client.send(&format!("<message to='{to}' type='chat' id='m'><body>x</body></message>"));
    }
}

fn errors(client: &mut Client, condition: &str) -> usize {
    let is_it = |error: &rookery_xml::Element| {
        error
            .child("error", "jabber:client")
            .is_some_and(|error| error.children().any(|child| child.name() == condition))
    };
    client.all().iter().filter(|element| is_it(element)).count()
}

/// Lets a stranger of another server say something to an account, so many times.
fn comes(server: &Server, to: &str, times: usize) {
    for _ in 0..times {
        server.incoming(&format!("<message from='spam@x.example/r' to='{to}' type='chat'><body>x</body></message>"));
    }
}

/// Local accounts: contacts are free, strangers and requests count, a minute later there is a new
/// allowance.
#[test]
fn an_account_sends_so_much_to_strangers() {
    let server = server(&[("sent_per_minute", Value::Number(3))]);
    let mut romeo = server.online("romeo/orchard");
    let mut juliet = server.online("juliet/balcony");
    let mut paris = server.online("paris/crypt");
    befriend(&mut romeo, &mut juliet);
    server.advance(60_000);
    say(&mut romeo, "juliet@example.org", 10);
    say(&mut romeo, "romeo@example.org", 10);
    assert_eq!(juliet.bodies().len(), 10);
    assert_eq!(romeo.bodies().len(), 10);
    say(&mut romeo, "paris@example.org", 2);
    romeo.send("<presence type='subscribe' to='nurse@example.org'/>");
    say(&mut romeo, "paris@example.org", 2);
    romeo.send("<presence type='subscribe' to='paris@example.org' id='p'/>");
    assert_eq!(errors(&mut romeo, "policy-violation"), 3);
    assert_eq!(paris.bodies().len(), 2);
    server.advance(60_000);
    say(&mut romeo, "paris@example.org", 1);
    assert_eq!(paris.bodies().len(), 1);
}

/// From other servers, with and without session, and the same for an address without account.
#[test]
fn an_account_gets_so_much_from_strangers() {
    for is_here in [true, false] {
        let server = server(&[("received_per_minute", Value::Number(2))]);
        server.account("juliet");
        let _juliet = is_here.then(|| server.online("juliet/balcony"));
        comes(&server, "juliet@example.org", 4);
        let left = server.take_left();
        assert_eq!(left.len(), 2);
        assert!(left.iter().all(|left| left.text.contains("resource-constraint")), "{left:?}");
        server.advance(60_000);
        comes(&server, "juliet@example.org", 1);
        assert_eq!(server.take_left(), []);
    }
}

/// Contacts of an account are never strangers, whether it is here or away, and keep their order.
#[test]
fn contacts_of_other_servers_pass() {
    for refuses in [false, true] {
        let server = server(&[("received_per_minute", Value::Number(1)), ("refuse_remote", Value::Switch(refuses))]);
        let mut juliet = server.online("juliet/balcony");
        juliet.send("<presence type='subscribe' to='friend@x.example'/>");
        server.take_left();
        server.incoming("<presence from='friend@x.example' to='juliet@example.org' type='subscribed'/>");
        juliet.all();
        for is_here in [true, false] {
            if !is_here {
                juliet.close();
                server.take_left();
            }
            for body in 0..5 {
                server.incoming(&format!(
                    "<message from='friend@x.example/r' to='juliet@example.org' type='chat'><body>{body}</body></message>"
                ));
            }
            let mut client = if is_here { None } else { Some(server.online("juliet/balcony")) };
            assert_eq!(client.as_mut().unwrap_or(&mut juliet).bodies(), ["0", "1", "2", "3", "4"]);
        }
        assert!(server.take_left().iter().all(|left| !left.text.contains("<error")), "nothing was refused");
    }
}

/// Messages of strangers are refused as if there were no such account; subscription requests
/// arrive.
#[test]
fn an_operator_may_refuse_strangers() {
    let server = server(&[("refuse_remote", Value::Switch(true))]);
    server.account("away");
    let mut juliet = server.online("juliet/balcony");
    let mut answers = Vec::new();
    for to in ["juliet@example.org", "away@example.org", "nobody@example.org"] {
        comes(&server, to, 1);
        let left = server.take_left();
        assert_eq!(left.len(), 1, "{to}");
        answers.push(left[0].text.replace(to, "TO"));
    }
    assert!(answers[0].contains("service-unavailable"));
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    server.incoming("<presence from='spam@x.example' to='juliet@example.org' type='subscribe'/>");
    juliet.expect("<presence from='spam@x.example' type='subscribe'/>");
}

/// A stolen account can't write to the whole world: it has an allowance at once, and then one per
/// hour.
#[test]
fn an_account_sends_so_much_to_strangers_of_other_servers() {
    let server = server(&[("abroad_per_hour", Value::Number(60))]);
    let mut romeo = server.online("romeo/orchard");
    let mut juliet = server.online("juliet/balcony");
    for number in 0..40 {
        say(&mut romeo, &format!("u{number}@x{number}.example"), 1);
        romeo.send(&format!("<presence type='subscribe' to='u{number}@y{number}.example' id='p'/>"));
    }
    let told = romeo.all();
    let refused = told.iter().filter(|error| {
        let error = error.child("error", "jabber:client");
        error.is_some_and(|error| error.child_text("text", "urn:ietf:params:xml:ns:xmpp-stanzas").is_some())
    });
    assert_eq!(refused.count(), 20, "each is told why");
    assert_eq!(server.take_left().len(), 60);
    // The account still reaches users of this server, and contacts elsewhere.
    say(&mut romeo, "juliet@example.org", 5);
    assert_eq!(juliet.bodies().len(), 5);
    say(&mut juliet, "u@x.example", 1);
    assert_eq!(server.take_left().len(), 1, "others notice nothing");
    // So does a conversation that has begun.
    say(&mut romeo, "u1@x1.example", 100);
    assert_eq!(server.take_left().len(), 100);
    server.advance(60_000);
    for number in 0..3 {
        say(&mut romeo, &format!("u@z{number}.example"), 1);
    }
    assert_eq!((server.take_left().len(), errors(&mut romeo, "policy-violation")), (1, 2));
}

/// Anyone can make addresses on their own server, so its domain is what is counted.
#[test]
fn a_domain_sends_so_much_to_strangers() {
    let limits = [("domain_messages_per_minute", Value::Number(5)), ("domain_requests_per_minute", Value::Number(2))];
    let server = server(&limits);
    let _juliet = server.online("juliet/balcony");
    for number in 0..10 {
        let from = format!("u{number}@x.example/r");
        server
            .incoming(&format!("<message from='{from}' to='juliet@example.org' type='chat'><body>x</body></message>"));
        let from = format!("u{number}@x.example");
        server.incoming(&format!("<presence from='{from}' to='juliet@example.org' type='subscribe' id='p'/>"));
    }
    let left = server.take_left();
    let refused = left.iter().filter(|left| left.text.contains("policy-violation") && left.text.contains("<text"));
    assert_eq!(refused.count(), 13, "{left:?}");
    server.incoming("<message from='u@y.example/r' to='juliet@example.org' type='chat'><body>x</body></message>");
    assert_eq!(server.take_left(), [], "another domain has its own");
    server.advance(60_000);
    server.incoming("<message from='u1@x.example/r' to='juliet@example.org' type='chat'><body>x</body></message>");
    assert_eq!(server.take_left(), []);
}

/// Registers somebody without an invitation, and logs in.
fn newcomer(server: &Server) -> Client {
    let mut guest = server.connect();
    guest.open("example.org");
    let answer = guest.ask(
        "<iq type='set' id='r'><query xmlns='jabber:iq:register'><username>tybalt</username><password>a long secret</password></query></iq>",
    );
    assert_eq!(answer.attr("type"), Some("result"), "{answer:?}");
    guest.authenticate("tybalt", "a long secret", Mechanism::ScramSha256).expect("a login");
    guest.open("example.org");
    guest.bind("street");
    guest.send("<presence/>");
    guest.expect_presence_of_itself();
    guest
}

fn open_server(more: &[(&'static str, Value)]) -> Server {
    let mut options: Vec<_> = more.iter().map(|(key, value)| ("strangers", *key, value.clone())).collect();
    options.extend(["allow_creation", "allow_plaintext"].map(|key| ("register", key, Value::Switch(true))));
    Server::with(Config { options, login_seconds: 10_000_000, ..Config::default() })
}

/// A newly registered account may write to a limited number of strangers in its first days, but to
/// each as often as it likes; other accounts aren't held back, and the operators are told once.
#[test]
fn new_accounts_write_to_so_many_strangers() {
    let server = open_server(&[("newcomer_per_hour", Value::Number(2)), ("newcomer_days", Value::Number(1))]);
    let mut romeo = server.online("romeo/orchard");
    for name in ["a", "b", "c", "d"] {
        server.account(name);
    }
    let mut tybalt = newcomer(&server);
    for to in ["a", "b", "c", "a", "d"] {
        say(&mut tybalt, &format!("{to}@example.org"), 1);
        say(&mut romeo, &format!("{to}@example.org"), 1);
    }
    assert_eq!(errors(&mut tybalt, "policy-violation"), 2, "c and d");
    assert_eq!(errors(&mut romeo, "policy-violation"), 0);
    assert_eq!(reports(&server), ["tybalt@example.org"]);
    server.advance(24 * 3_600_000);
    for to in ["b", "c", "d"] {
        say(&mut tybalt, &format!("{to}@example.org"), 1);
    }
    assert_eq!(errors(&mut tybalt, "policy-violation"), 0, "it is new no longer");
}

/// Nobody sends the same text to more strangers than may have it, whatever numbers are in it; what
/// everybody says, contacts and an hour later are free.
#[test]
fn the_same_text_goes_to_so_many_strangers() {
    let server = server(&[("same_text_per_hour", Value::Number(2))]);
    let mut romeo = server.online("romeo/orchard");
    let mut juliet = server.online("juliet/balcony");
    befriend(&mut romeo, &mut juliet);
    for name in ["a", "b", "c", "d"] {
        server.account(name);
    }
    let mut send = |to: &str, body: &str| {
        romeo.send(&format!("<message to='{to}@example.org' type='chat' id='m'><body>{body}</body></message>"));
        errors(&mut romeo, "policy-violation")
    };
    let spam = "Buy my wonderful watches";
    assert_eq!([send("a", spam), send("b", &format!("{spam} 17!")), send("a", spam)], [0; 3]);
    assert_eq!([send("c", spam), send("d", &format!("{spam}, 4711"))], [1; 2]);
    assert_eq!([send("c", "Something else for you"), send("juliet", spam)], [0; 2]);
    assert_eq!(["a", "b", "c", "d"].map(|to| send(to, "hello")), [0; 4]);
    server.advance(3_600_000);
    assert_eq!(send("c", spam), 0);
    assert_eq!(reports(&server), ["romeo@example.org"]);
}

/// Returns those about whom there are reports of abuse.
fn reports(server: &Server) -> Vec<String> {
    let listed = server.finish(rookery_operations::reports::list(&server.stores(), "example.org"));
    listed.expect("the reports").into_iter().map(|report| report.about.to_string()).collect()
}
