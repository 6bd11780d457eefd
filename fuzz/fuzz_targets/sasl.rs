//! A login by any messages: it ends without a panic, and nobody logs in without knowing the
//! password (RFC 5802, RFC 4616, RFC 7628).

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_sasl::server::{Decoy, Offer, ServerExchange, ServerStep};
use rookery_sasl::token::Presented;
use rookery_sasl::{ChannelBindings, Credentials, Mechanism};

fuzz_target!(|input: (u8, Option<&[u8]>, Vec<&[u8]>)| {
    let (choice, initial, messages) = input;
    thread_local! {
        static CREDENTIALS: Credentials =
            Credentials::derive_with(PASSWORD, 1, [*b"0123456789abcdef"; 3]).expect("credentials");
        static DECOY: Decoy = Decoy::new([7; 32], 1);
    }
    if let Some(presented) = initial.and_then(Presented::parse) {
        let again = Presented::parse(&presented.write()).expect("what was written");
        assert_eq!((again.username, again.proof), (presented.username, presented.proof));
    }
    let mechanisms: Vec<Mechanism> =
        Mechanism::ALL.into_iter().chain([Mechanism::OAuthBearer, Mechanism::Anonymous]).collect();
    let mechanism = mechanisms[usize::from(choice) % mechanisms.len()];
    let bindings = ChannelBindings::default();
    let offer = Offer { domain: "x", mechanisms: &mechanisms, bindings: &bindings, binding_types_announced: true };
    let (mut exchange, mut step) = ServerExchange::start(mechanism, initial, &offer);
    let mut messages = messages.into_iter();
    // Each message leads to a few steps at most.
    for _ in 0..4 * (messages.len() + 1) {
        step = match step {
            ServerStep::NeedCredentials { username, .. } => {
                let is_known = username.len() % 2 == 0;
                CREDENTIALS.with(|known| DECOY.with(|decoy| exchange.credentials(is_known.then_some(known), decoy)))
            }
            ServerStep::Verify { password, .. } => {
                assert_ne!(password, PASSWORD, "the fuzzer doesn't know it");
                exchange.verified(false)
            }
            ServerStep::Bearer { .. } => exchange.refused("{}"),
            ServerStep::Challenge(_) => match messages.next() {
                Some(message) => exchange.respond(message),
                None => return,
            },
            ServerStep::Success { .. } => panic!("somebody got in"),
            ServerStep::Anonymous | ServerStep::Failure(_) => return,
        };
    }
    panic!("an exchange doesn't end");
});

/// The password is too long for the fuzzer to find.
const PASSWORD: &str = "e8b1a3f0c5d2476f9b0a11d7c24e6f83";
