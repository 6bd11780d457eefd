//! The configuration, the accounts and the peer of the server that all runs share.

use rookery_hub::{Settings, Value};
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_shard::LoginTerms;
use rookery_store::{Stores, wait};
use rookery_testkit::config::ITERATIONS;
use rookery_testkit::server::PASSWORD;
use rookery_testkit::{Config, Internet};

use crate::device::bare;
use crate::peer::{BRIDGE, ELSEWHERE, SimulatedPeer};
use crate::plan::PeerPlan;

/// Adds a peer, which is not connected yet, to the server's configuration.
pub(crate) fn meet(peer: PeerPlan, config: &mut Config) -> SimulatedPeer {
    let internet = Internet::default();
    let calls = internet.play(ELSEWHERE);
    match peer.is_component {
        true => config.components = vec![BRIDGE.to_owned()],
        // The randomness of TLS doesn't depend on the seed.
        false => config.internet = Some(internet.meeting_without_tls(&config.domains)),
    }
    SimulatedPeer::new(peer, calls)
}

/// Returns the settings that all runs share.
pub(crate) fn configuration() -> Config {
    let options = vec![
        ("register", "allow_creation", Value::Switch(true)),
        ("register", "allow_plaintext", Value::Switch(true)),
        ("register", "per_address_seconds", Value::Number(0)),
        ("administration", "admins", Value::List(vec![bare(0)])),
    ];
    let settings = Settings { scram_iterations: ITERATIONS, ..Settings::default() };
    // A device that logs in before its account exists again is not an attacker who guesses
    // passwords.
    let logins = LoginTerms { exempt: vec!["192.0.2.0/24".parse().expect("a network")], ..LoginTerms::default() };
    Config { options, settings, logins, ..Config::default() }
}

/// Creates the accounts.
pub(crate) fn register(stores: &Stores, accounts: usize) {
    let credentials = Credentials::derive_with(PASSWORD, ITERATIONS, [*b"0123456789abcdef"; 3]).expect("credentials");
    for account in 0..accounts {
        let account = Jid::parse(&bare(account)).expect("an address");
        wait(stores.accounts.create(account.as_ref(), credentials.clone())).expect("an account");
    }
}
