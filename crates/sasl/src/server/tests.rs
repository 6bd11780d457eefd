//! Tests the server against the RFCs' examples, against our client, and against misbehaving peers.

use proptest::prelude::*;

use super::*;
use crate::client::{self, Announced, Login};
use crate::{Hash, Keys, to_offer};

const ITERATIONS: u32 = 3;

fn decoy() -> Decoy {
    Decoy::new([9; 32], ITERATIONS)
}

fn bindings() -> ChannelBindings {
    ChannelBindings { exporter: Some([5; 32]), server_end_point: Some(vec![6; 32]) }
}

/// Runs a whole exchange of our client against the server. The client believes `seen` where the
/// server has `announced`.
struct ServerRun {
    announced: Vec<Mechanism>,
    seen: Option<Vec<&'static str>>,
    server_bindings: ChannelBindings,
    client_bindings: ChannelBindings,
    account: Option<Credentials>,
    password: &'static str,
    authzid: Option<&'static str>,
}

impl Default for ServerRun {
    fn default() -> ServerRun {
        ServerRun {
            announced: to_offer(&bindings(), true),
            seen: None,
            server_bindings: bindings(),
            client_bindings: bindings(),
            account: Some(Credentials::derive("pencil", ITERATIONS).unwrap()),
            password: "pencil",
            authzid: None,
        }
    }
}

impl ServerRun {
    fn with(&self, mechanism: Mechanism) -> Result<ServerStep, client::ClientError> {
        let types: Vec<_> = self.server_bindings.types().map(BindingType::name).collect();
        let names: Vec<_> = self.announced.iter().map(|mechanism| mechanism.name()).collect();
        let seen = self.seen.as_deref().unwrap_or(&names);
        let announced = Announced { mechanisms: seen, binding_types: Some(&types) };
        let login = Login { username: "juliet", password: self.password, authzid: self.authzid };
        let (mut client, first) = client::Exchange::start(mechanism, &login, &self.client_bindings, &announced)?;
        let offer = Offer {
            domain: "example.org",
            mechanisms: &self.announced,
            bindings: &self.server_bindings,
            binding_types_announced: true,
        };
        let (mut server, mut step) = ServerExchange::start(mechanism, Some(&first), &offer);
        loop {
            step = match step {
                ServerStep::NeedCredentials { .. } => server.credentials(self.account.as_ref(), &decoy()),
                ServerStep::Verify { username, password, .. } => {
                    server.verified(decoy().verify(self.account.as_ref(), &username, &password))
                }
                ServerStep::Challenge(challenge) => server.respond(&client.challenge(&challenge, None)?),
                ServerStep::Success { ref additional, .. } => {
                    client.finish(additional)?;
                    return Ok(step);
                }
                ServerStep::Failure(_) | ServerStep::Anonymous | ServerStep::Bearer { .. } => return Ok(step),
            };
        }
    }

    fn fails(&self, mechanism: Mechanism, failure: Failure) {
        assert_eq!(self.with(mechanism), Ok(ServerStep::Failure(failure)), "{}", mechanism.name());
    }
}

#[test]
fn every_mechanism_logs_in() {
    for mechanism in Mechanism::ALL {
        let step = ServerRun::default().with(mechanism).unwrap();
        assert!(matches!(&step, ServerStep::Success { username, .. } if username == "juliet"), "{}", mechanism.name());
        let own = ServerRun { authzid: Some("Juliet@EXAMPLE.org"), ..ServerRun::default() };
        assert!(matches!(own.with(mechanism), Ok(ServerStep::Success { .. })), "{}", mechanism.name());
    }
}

#[test]
fn wrong_password_and_unknown_account_look_alike() {
    for mechanism in Mechanism::ALL {
        ServerRun { password: "pen", ..ServerRun::default() }.fails(mechanism, Failure::NotAuthorized);
        ServerRun { account: None, ..ServerRun::default() }.fails(mechanism, Failure::NotAuthorized);
    }
}

#[test]
fn nobody_acts_for_others() {
    for mechanism in Mechanism::ALL {
        for authzid in ["romeo@example.org", "juliet@example.net", "juliet", "example.org", "a,b=c"] {
            ServerRun { authzid: Some(authzid), ..ServerRun::default() }.fails(mechanism, Failure::InvalidAuthzid);
        }
    }
}

#[test]
fn another_channel_is_refused() {
    let strange = ChannelBindings { exporter: Some([4; 32]), server_end_point: Some(vec![6; 32]) };
    ServerRun { client_bindings: strange, ..ServerRun::default() }
        .fails(Mechanism::ScramSha256Plus, Failure::NotAuthorized);
    // The end point alone agrees: TLS 1.2, or a proxy in front.
    let end_point = ChannelBindings { exporter: None, server_end_point: Some(vec![6; 32]) };
    let run = ServerRun { client_bindings: end_point, ..ServerRun::default() };
    assert!(matches!(run.with(Mechanism::ScramSha256Plus), Ok(ServerStep::Success { .. })));
}

#[test]
fn removed_plus_mechanisms_are_noticed() {
    // The client saw no -PLUS and says "y".
    let run = ServerRun { seen: Some(vec!["SCRAM-SHA-1"]), ..ServerRun::default() };
    run.fails(Mechanism::ScramSha1, Failure::NotAuthorized);
    // A client without channel binding notices by the hash of XEP-0474.
    let run = ServerRun { client_bindings: ChannelBindings::default(), ..run };
    assert_eq!(run.with(Mechanism::ScramSha1), Err(client::ClientError::Downgrade));
}

#[test]
fn only_offered_mechanisms() {
    let run = ServerRun { announced: to_offer(&ChannelBindings::default(), false), ..ServerRun::default() };
    run.fails(Mechanism::Plain, Failure::InvalidMechanism);
}

fn start(mechanism: Mechanism, initial: Option<&[u8]>) -> (ServerExchange, ServerStep) {
    let bindings = bindings();
    let offer = Offer {
        domain: "example.org",
        mechanisms: &Mechanism::ALL,
        bindings: &bindings,
        binding_types_announced: true,
    };
    ServerExchange::start(mechanism, initial, &offer)
}

#[test]
fn initial_response_may_come_later() {
    let (mut exchange, step) = start(Mechanism::Plain, None);
    assert_eq!(step, ServerStep::Challenge(Vec::new()));
    let verify = ServerStep::Verify { username: "a".into(), password: "b".into(), authzid: None };
    assert_eq!(exchange.respond(b"\0a\0b"), verify);
    assert_eq!(exchange.respond(b"\0a\0b"), ServerStep::Failure(Failure::MalformedRequest));
    assert_eq!(exchange.verified(true), ServerStep::Failure(Failure::TemporaryAuthFailure));
}

#[test]
fn malformed_messages() {
    let refused = |mechanism, message: &[u8]| start(mechanism, Some(message)).1;
    let malformed = ServerStep::Failure(Failure::MalformedRequest);
    for message in [&b""[..], b"\0", b"a\0b", b"\0a\0", b"\0\0b", b"\0a\0b\0c", b"\0\xff\0b"] {
        assert_eq!(refused(Mechanism::Plain, message), malformed);
    }
    assert_eq!(refused(Mechanism::Plain, &vec![b'a'; MAX_MESSAGE + 1]), malformed);
    for message in [&b""[..], b"n,,", b"n,a=x=,n=u,r=x", b"p=tls-exporter,,n=u,r=x"] {
        assert_eq!(refused(Mechanism::ScramSha1, message), malformed);
    }
    assert_eq!(refused(Mechanism::ScramSha1Plus, b"n,,n=u,r=x"), malformed);
    let unknown = refused(Mechanism::ScramSha1Plus, b"p=tls-unique,,n=u,r=x");
    assert_eq!(unknown, ServerStep::Failure(Failure::NotAuthorized));
    assert_eq!(refused(Mechanism::ScramSha1, b"n,,n=\x07,r=x"), ServerStep::Failure(Failure::NotAuthorized));
}

#[test]
fn challenge_has_the_same_shape_for_nobody() {
    let account = Credentials::derive("x", ITERATIONS).unwrap();
    let challenge = |found: Option<&Credentials>| {
        let (mut exchange, _) = start(Mechanism::ScramSha256, Some(b"n,,n=u,r=x"));
        let ServerStep::Challenge(challenge) = exchange.credentials(found, &decoy()) else { panic!("no challenge") };
        challenge
    };
    let (real, made_up) = (challenge(Some(&account)), challenge(None));
    assert_eq!(real.len(), made_up.len());
    let salt = |challenge: &[u8]| String::from_utf8(challenge.to_vec()).unwrap().split(',').nth(1).unwrap().to_owned();
    assert_ne!(salt(&real), salt(&made_up));
    assert_eq!(salt(&challenge(None)), salt(&made_up), "steady between attempts");
}

/// Begins an exchange of a mechanism without a password.
fn begin(mechanism: Mechanism, initial: Option<&[u8]>) -> (ServerExchange, ServerStep) {
    let bindings = ChannelBindings::default();
    let mechanisms = [mechanism];
    let offer =
        Offer { domain: "example.org", mechanisms: &mechanisms, bindings: &bindings, binding_types_announced: false };
    ServerExchange::start(mechanism, initial, &offer)
}

/// RFC 4505 §2 and XEP-0175 §3: the client says nothing, or something for traces.
#[test]
fn a_client_that_comes_anonymously_gets_a_name() {
    for initial in [None, Some(&b""[..]), Some(b"sirhc@example.net")] {
        let (mut exchange, step) = begin(Mechanism::Anonymous, initial);
        assert_eq!(step, ServerStep::Anonymous);
        let success = ServerStep::Success { username: "made-up".into(), additional: Vec::new() };
        assert_eq!(exchange.named("made-up".into()), success);
        assert_eq!(exchange.named("again".into()), ServerStep::Failure(Failure::TemporaryAuthFailure));
    }
    for bad in [&b"\xff"[..], b"a\0b", &[b'x'; MOST_TRACED + 1]] {
        assert_eq!(begin(Mechanism::Anonymous, Some(bad)).1, ServerStep::Failure(Failure::MalformedRequest));
    }
}

/// RFC 7628 §3.1, §4.1 and §4.3.
#[test]
fn a_token_is_handed_out_and_a_bad_one_is_explained() {
    let message = b"n,a=juliet@example.org,\x01host=example.org\x01port=5222\x01auth=Bearer a.b-c_d=\x01\x01";
    let (mut exchange, step) = begin(Mechanism::OAuthBearer, Some(message));
    assert_eq!(step, ServerStep::Bearer { token: "a.b-c_d=".into(), wanted: Some("juliet".into()) });
    assert_eq!(format!("{step:?}"), "Bearer(Some(\"juliet\"))", "no token in the log");
    assert_eq!(exchange.refused("{}"), ServerStep::Challenge(b"{}".to_vec()));
    assert_eq!(exchange.respond(b"\x01"), ServerStep::Failure(Failure::NotAuthorized));
    let (mut exchange, step) = begin(Mechanism::OAuthBearer, Some(b"n,,\x01auth=bearer t\x01\x01"));
    assert_eq!(step, ServerStep::Bearer { token: "t".into(), wanted: None });
    assert_eq!(
        exchange.named("juliet".into()),
        ServerStep::Success { username: "juliet".into(), additional: Vec::new() }
    );
    assert_eq!(begin(Mechanism::OAuthBearer, None).1, ServerStep::Challenge(Vec::new()));
    for malformed in [
        &b""[..],
        b"n,,",
        b"n,,\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"p=tls-exporter,,\x01auth=Bearer t\x01\x01",
        b"n,juliet,\x01auth=Bearer t\x01\x01",
        b"\xff,,\x01auth=Bearer t\x01\x01",
    ] {
        let step = begin(Mechanism::OAuthBearer, Some(malformed)).1;
        assert_eq!(step, ServerStep::Failure(Failure::MalformedRequest), "{}", String::from_utf8_lossy(malformed));
    }
    for elsewhere in [&b"n,a=juliet@example.net,\x01auth=Bearer t\x01\x01"[..], b"n,a=juliet,\x01auth=Bearer t\x01\x01"]
    {
        assert_eq!(begin(Mechanism::OAuthBearer, Some(elsewhere)).1, ServerStep::Failure(Failure::InvalidAuthzid));
    }
}

#[test]
fn steps_log_no_secret() {
    let (_, step) = start(Mechanism::Plain, Some(b"\0user\0hunter2"));
    assert_eq!(format!("{step:?}"), "Verify(\"user\")");
}

/// Plays the server's half of an RFC example, whose challenge has no `h=`.
fn example(hash: Hash, salt: &[u8], first: &[u8], nonce: &str, challenge: &str, last: &[u8], signature: &str) {
    let keys = |hash| Keys::of_prepared(hash, "pencil", salt.to_vec(), 4096);
    let account = Credentials { sha1: keys(Hash::Sha1), sha256: keys(Hash::Sha256), sha512: keys(Hash::Sha512) };
    let context = ServerContext {
        mechanism: if hash == Hash::Sha1 { Mechanism::ScramSha1 } else { Mechanism::ScramSha256 },
        domain: "example.org".into(),
        plus_offered: false,
        bindings: ChannelBindings::default(),
        downgrade: String::new(),
    };
    let (mut scram, _) = scram::Scram::read(&context, hash, first).unwrap();
    let step = scram.challenge_with(nonce, Some(&account), &decoy()).unwrap();
    assert_eq!(step, ServerStep::Challenge(challenge.into()));
    let step = scram.finish(last).unwrap();
    assert_eq!(step, ServerStep::Success { username: "user".into(), additional: signature.into() });
}

/// RFC 5802 §5.
#[test]
fn example_of_rfc_5802() {
    example(
        Hash::Sha1,
        b"\x41\x25\xc2\x47\xe4\x3a\xb1\xe9\x3c\x6d\xff\x76",
        b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        "3rfcNHYJY1ZVvWVs7j",
        "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    );
}

/// RFC 7677 §3.
#[test]
fn example_of_rfc_7677() {
    example(
        Hash::Sha256,
        b"\x5b\x6d\x99\x68\x9d\x12\x35\x8e\xec\xa0\x4b\x14\x12\x36\xfa\x81",
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    );
}

fn messages() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<Vec<u8>>(),
        "[npy](=tls-exporter)?,(a=[ -~]{0,8})?,n=[ -~é]{0,8},r=[ -~]{0,8}(,[ -~]{0,8})?".prop_map(String::into_bytes),
        "c=[A-Za-z0-9=]{0,8},r=[ -~]{0,8},p=[A-Za-z0-9+/=]{0,30}".prop_map(String::into_bytes),
        "[ -~é]{0,5}\0[ -~é]{0,5}\0[ -~é]{0,5}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn no_message_panics(which in 0..Mechanism::ALL.len(), first in messages(), second in messages(), known: bool) {
        let account = Credentials::derive("pencil", ITERATIONS).unwrap();
        let (mut exchange, step) = start(Mechanism::ALL[which], Some(&first));
        if matches!(step, ServerStep::NeedCredentials { .. }) {
            let step = exchange.credentials(known.then_some(&account), &decoy());
            prop_assert!(matches!(step, ServerStep::Challenge(_)));
        }
        prop_assert!(matches!(exchange.respond(&second), ServerStep::Failure(_)));
    }
}
