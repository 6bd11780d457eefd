//! Tests the load client against the server's own negotiation, byte for byte, without sockets.

use std::sync::Arc;

use rookery_bench::chat;
use rookery_bench::engine::LoadTarget;
use rookery_bench::network::{BenchNetwork, DOMAIN, PASSWORD, Parts};
use rookery_client::SessionTerms;
use rookery_sasl::Mechanism;
use rookery_sasl::client::SaltedPasswords;
use rookery_stream::tls::client::{ClientSettings, Newest};

fn target(mechanism: Option<Mechanism>, tls: bool, password: &str) -> LoadTarget {
    let tls = tls.then(|| ClientSettings::trusting_anyone(Newest::Tls13, &[], false).unwrap());
    LoadTarget {
        transport: rookery_bench::engine::Transport::Tcp,
        terms: Arc::new(SessionTerms {
            domain: DOMAIN.to_owned(),
            tls,
            mechanism,
            password: password.to_owned(),
            resource: Some("r".to_owned()),
            register: false,
            cache: SaltedPasswords::new(),
        }),
    }
}

#[test]
fn clients_log_in_by_every_mechanism_and_a_message_arrives() {
    let plain = [Some(Mechanism::ScramSha1), Some(Mechanism::ScramSha256), Some(Mechanism::Plain), None];
    let bound = [Some(Mechanism::ScramSha1Plus), Some(Mechanism::ScramSha256Plus)];
    let cases = plain.map(|m| (m, false)).into_iter().chain(plain.into_iter().chain(bound).map(|m| (m, true)));
    for (mechanism, tls) in cases {
        let parts = Parts::new(3, 2).unwrap();
        let mut network = BenchNetwork::new(&parts, target(mechanism, tls, PASSWORD)).unwrap();
        let mut clients = network.log_in_and_keep(3, chat::PRESENCE).unwrap();
        assert_eq!(network.sessions(), 3, "{mechanism:?}, TLS: {tls}");
        // Each sees all three: its own presence, and those of its two contacts. One of them is
        // asked for the features of its capabilities.
        assert_eq!(network.deliveries(), 9 + 1, "{mechanism:?}, TLS: {tls}");
        let message = chat::message("user0000000@example.org/r", "user0000002@example.org/r");
        let mut wire = Vec::new();
        clients[0].1.write(message.as_bytes(), &mut wire).unwrap();
        network.receive(2);
        network.send(0, &wire);
        network.tick([0].into_iter());
        let arrived = network.receive(2);
        assert!(if tls { arrived > message.len() } else { arrived == message.len() }, "{arrived}");
    }
}

#[test]
fn a_wrong_password_ends_the_load() {
    let parts = Parts::new(1, 0).unwrap();
    let mut network = BenchNetwork::new(&parts, target(Some(Mechanism::ScramSha1), false, "wrong")).unwrap();
    let error = network.log_in(1, "").unwrap_err().to_string();
    assert!(error.contains("not-authorized"), "{error}");
    assert_eq!(network.sessions(), 0);
}

#[test]
fn sessions_stay_when_nobody_looks_at_them() {
    let parts = Parts::new(20, 4).unwrap();
    let mut network = BenchNetwork::new(&parts, target(Some(Mechanism::ScramSha1), false, PASSWORD)).unwrap();
    network.log_in(10, chat::PRESENCE).unwrap();
    network.log_in(10, chat::PRESENCE).unwrap();
    network.pass_time();
    assert_eq!(network.sessions(), 20);
    // In a ring of twenty each gets its own presence and, sooner or later, that of all four
    // contacts. In either round one client is asked for the features of its capabilities, since the
    // question stays unanswered.
    assert_eq!(network.deliveries(), 20 + 20 * 4 + 2);
}
