//! The behaviour of Rookery towards its clients: one module for each topic, which is a standard or
//! a promise of ours.
//!
//! Most run the whole server over `rookery_testkit`: scripted clients, a virtual network with as
//! many shards as a test wants, and a clock that a test moves. [`modules`] runs single modules on a
//! stage of their own, without connections. [`recipe`] has the modules of
//! `doc/book/developing/writing-a-module.md`.
//!
//! This is one binary on purpose: every further one links the whole server.

mod absurd;
mod abuse;
mod administration;
mod announce;
mod archive;
mod at_login;
mod away;
mod bad_input;
mod bosh;
mod bytestreams;
mod carbons;
mod commands;
mod components;
mod crossing;
mod data;
mod directory;
mod dying;
mod engines;
mod federation;
mod following;
mod forged;
mod last_activity;
mod login;
mod logins;
mod messages;
mod mobile;
mod modules;
mod moving;
mod multicast;
mod neighbours;
mod nodes;
mod offline;
mod once_more;
mod ordering;
mod presence;
mod privacy;
mod privileges;
mod pubsub;
mod recipe;
mod registration;
mod removal;
mod restart;
mod rooms;
mod roster;
mod senders;
mod services;
mod shared_roster;
mod slow_readers;
mod statements;
mod strangers;
mod subscriptions;
mod tracing;
mod upload;
mod waits;
mod websocket;

/// Property tests try the same cases in every run.
#[test]
fn property_tests_have_a_seed() {
    let seed = proptest::test_runner::Config::default().rng_seed;
    let is_fixed = matches!(seed, proptest::test_runner::RngSeed::Fixed(_));
    assert!(is_fixed, "cargo has to run in a folder of this repository, whose .cargo/config.toml has the seed");
}
