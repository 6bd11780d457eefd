//! Real SCRAM logins, by the client side of `rookery-sasl`.

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_sasl::client::{Announced, ClientError, Exchange, Login};
use rookery_sasl::{ChannelBindings, Failure, Mechanism};
use rookery_stream::c2s::{C2sEvent, Facts};

use crate::dialogue::{DialoguePlayer, OPEN, bindings, machine, policy, secure};

const NS: &str = "urn:ietf:params:xml:ns:xmpp-sasl";

/// The end of a login.
#[derive(Debug, PartialEq)]
enum ScramOutcome {
    In,
    Failed(Failure),
    ClientGaveUp(ClientError),
}

/// A client on a stream, and the answers that its server's store gives.
struct ScramAttempt<'a> {
    mechanism: Mechanism,
    username: &'a str,
    password: &'a str,
    server: ChannelBindings,
    client: ChannelBindings,
    /// Send `<auth/>` without the initial response, which then answers an empty challenge.
    late: bool,
}

impl Default for ScramAttempt<'_> {
    fn default() -> Self {
        ScramAttempt {
            mechanism: Mechanism::ScramSha256Plus,
            username: "juliet",
            password: "pencil",
            server: bindings(),
            client: bindings(),
            late: false,
        }
    }
}

impl ScramAttempt<'_> {
    fn run(&self) -> ScramOutcome {
        let mut player = DialoguePlayer::new(machine(policy(), Facts { bindings: self.server.clone(), ..secure() }));
        player.receive(OPEN.as_bytes());
        let features = player.take_sent();
        let mechanisms = all_between(&features, "<mechanism>", "</mechanism>");
        let types = all_between(&features, "<channel-binding type='", "'");
        let announced =
            Announced { mechanisms: &mechanisms, binding_types: (!types.is_empty()).then_some(types.as_slice()) };
        let login = Login { username: self.username, password: self.password, authzid: None };
        let (mut client, first) = match Exchange::start(self.mechanism, &login, &self.client, &announced) {
            Ok(started) => started,
            Err(error) => return ScramOutcome::ClientGaveUp(error),
        };
        let (name, first) = (self.mechanism.name(), STANDARD.encode(first));
        if self.late {
            player.receive(format!("<auth xmlns='{NS}' mechanism='{name}'/>").as_bytes());
            assert_eq!(player.take_sent(), format!("<challenge xmlns='{NS}'/>"));
            player.receive(format!("<response xmlns='{NS}'>{first}</response>").as_bytes());
        } else {
            player.receive(format!("<auth xmlns='{NS}' mechanism='{name}'>{first}</auth>").as_bytes());
        }
        match player.event() {
            Some(C2sEvent::Credentials { account }) if account.as_str() == "juliet@example.org" => {
                player.answer("account");
            }
            Some(C2sEvent::Credentials { .. }) => player.answer("no account"),
            Some(C2sEvent::Failed { failure, .. }) => return ScramOutcome::Failed(failure),
            other => panic!("{other:?}"),
        }
        let challenge = decode(&player.take_sent(), "challenge");
        let response = match client.challenge(&challenge, None) {
            Ok(response) => STANDARD.encode(response),
            Err(error) => return ScramOutcome::ClientGaveUp(error),
        };
        player.receive(format!("<response xmlns='{NS}'>{response}</response>").as_bytes());
        match player.event() {
            Some(C2sEvent::Authenticated { account }) => {
                assert_eq!(account.as_str(), "juliet@example.org");
                client.finish(&decode(&player.take_sent(), "success")).unwrap();
                player.receive(OPEN.as_bytes());
                assert!(player.take_sent().contains("<bind "));
                ScramOutcome::In
            }
            Some(C2sEvent::Failed { failure, .. }) => ScramOutcome::Failed(failure),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_mechanism_logs_in() {
    for mechanism in Mechanism::ALL.into_iter().filter(|mechanism| *mechanism != Mechanism::Plain) {
        let client = if mechanism.binds() { bindings() } else { ChannelBindings::default() };
        for late in [false, true] {
            let attempt = ScramAttempt { mechanism, client: client.clone(), late, ..ScramAttempt::default() };
            assert_eq!(attempt.run(), ScramOutcome::In, "{mechanism:?}, {late}");
        }
    }
}

#[test]
fn names_are_prepared() {
    assert_eq!(ScramAttempt { username: "JULIET", ..ScramAttempt::default() }.run(), ScramOutcome::In);
}

#[test]
fn wrong_password_and_unknown_account_look_alike() {
    let wrong = ScramAttempt { password: "pen", ..ScramAttempt::default() }.run();
    let unknown = ScramAttempt { username: "nobody", ..ScramAttempt::default() }.run();
    assert_eq!(wrong, ScramOutcome::Failed(Failure::NotAuthorized));
    assert_eq!(unknown, wrong);
}

#[test]
fn another_channel_is_refused() {
    let elsewhere = ChannelBindings { exporter: Some([9; 32]), server_end_point: None };
    let attempt = ScramAttempt { client: elsewhere, ..ScramAttempt::default() };
    assert_eq!(attempt.run(), ScramOutcome::Failed(Failure::NotAuthorized));
}

#[test]
fn the_server_end_point_suffices() {
    let end_point = ChannelBindings { exporter: None, ..bindings() };
    let attempt = ScramAttempt { server: end_point.clone(), client: end_point, ..ScramAttempt::default() };
    assert_eq!(attempt.run(), ScramOutcome::In);
}

#[test]
fn a_name_that_no_account_can_have_is_challenged_all_the_same() {
    let mut player = DialoguePlayer::new(machine(policy(), secure()));
    player.receive(OPEN.as_bytes());
    player.take_sent();
    let first = STANDARD.encode("n,,n=jul iet,r=abc");
    player.receive(format!("<auth xmlns='{NS}' mechanism='SCRAM-SHA-1'>{first}</auth>").as_bytes());
    assert!(player.take_sent().starts_with("<challenge "));
    assert_eq!(player.event(), None);
}

#[test]
fn a_failing_store_is_a_temporary_failure() {
    let mut player = DialoguePlayer::new(machine(policy(), secure()));
    player.receive(OPEN.as_bytes());
    player.take_sent();
    let first = STANDARD.encode("n,,n=juliet,r=abc");
    player.receive(format!("<auth xmlns='{NS}' mechanism='SCRAM-SHA-1'>{first}</auth>").as_bytes());
    player.answer("store failed");
    assert_eq!(player.take_sent(), format!("<failure xmlns='{NS}'><temporary-auth-failure/></failure>"));
}

/// Returns the data of a SASL element.
fn decode(sent: &str, name: &str) -> Vec<u8> {
    let text = all_between(sent, &format!("<{name} xmlns='{NS}'>"), &format!("</{name}>"));
    STANDARD.decode(text.first().unwrap_or_else(|| panic!("no {name} in {sent}"))).unwrap()
}

fn all_between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    text.split(start).skip(1).filter_map(|rest| rest.split_once(end)).map(|(inner, _)| inner).collect()
}
