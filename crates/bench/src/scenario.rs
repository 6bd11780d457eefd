//! The loads, one file each, and the table of them.
//!
//! A [`Scenario`] is the flags of a load together with its procedure; the flags' defaults are the
//! preset. [`ScenarioCommand`] is the table from which the command line, `rookery bench list` and
//! [`ScenarioCommand::run`] are made.

mod chat;
mod clients;
mod compose;
mod drain;
mod max_messages;
mod max_users;
mod meter;
mod muc;
mod multicast;
mod pace;
mod presence_storm;
mod reconnect_storm;
mod rosters;
mod run;
mod server;

use clap::{Args, Subcommand};
use serde::Serialize;

pub use clients::{Arrivals, Wave};
pub use run::ScenarioRun;
pub use server::{ServerArguments, ServerPlace, Tls, address};

use crate::BenchOutcome;
use crate::result::RunResult;

/// A load: its flags, and its procedure.
pub trait Scenario: Args + Serialize {
    /// Its name on the command line.
    const NAME: &'static str;

    /// Runs the load and fills in the result. If this fails, the result so far is kept.
    ///
    /// # Errors
    /// The cause, for the operator.
    fn run(&self, run: &mut ScenarioRun<'_>) -> BenchOutcome<()>;

    /// Returns the number of clients that it logs in, by its flags.
    fn clients(&self) -> usize;
}

/// A load against a server.
#[derive(Debug, Clone, Args)]
pub struct Against<S: Args> {
    /// Flags of the scenario.
    #[command(flatten, next_help_heading = "Sizes")]
    pub scenario: S,
    /// The server to measure, and the files to write.
    #[command(flatten, next_help_heading = "Server and output")]
    pub server: ServerArguments,
}

/// The table of loads.
#[derive(Debug, Clone, Subcommand)]
pub enum ScenarioCommand {
    /// Pairs in a closed loop: each message is answered at once, a fixed number of them in flight
    Chat(Against<chat::Chat>),
    /// Users who write to each other at a fixed rate, in an open loop
    MaxMessages(Against<max_messages::MaxMessages>),
    /// Users who arrive at a steady rate, send presence, and then do nothing
    MaxUsers(Against<max_users::MaxUsers>),
    /// Everyone drops and comes back at once
    ReconnectStorm(Against<reconnect_storm::ReconnectStorm>),
    /// One message to more and more recipients: by XEP-0033, hidden or shown, and as single
    /// messages
    Multicast(Against<multicast::Multicast>),
    /// Users who know each other and change their presence again and again
    PresenceStorm(Against<presence_storm::PresenceStorm>),
    /// Messages in one big room
    MucBig(Against<muc::Big>),
    /// Messages in one huge room
    MucHuge(Against<muc::Huge>),
    /// Messages in a room of the maximum size
    MucCrowd(Against<muc::Crowd>),
    /// Messages in many rooms
    MucMany(Against<muc::Many>),
}

/// Returns the description of a scenario, as `rookery bench list` has it.
pub fn about(scenario: &str) -> Option<String> {
    let table = ScenarioCommand::augment_subcommands(clap::Command::new("run"));
    table.find_subcommand(scenario)?.get_about().map(ToString::to_string)
}

/// Evaluates an expression for any of the loads.
macro_rules! each {
    ($command:expr, $load:ident => $do:expr) => {
        match $command {
            ScenarioCommand::Chat($load) => $do,
            ScenarioCommand::MaxMessages($load) => $do,
            ScenarioCommand::MaxUsers($load) => $do,
            ScenarioCommand::ReconnectStorm($load) => $do,
            ScenarioCommand::Multicast($load) => $do,
            ScenarioCommand::PresenceStorm($load) => $do,
            ScenarioCommand::MucBig($load) => $do,
            ScenarioCommand::MucHuge($load) => $do,
            ScenarioCommand::MucCrowd($load) => $do,
            ScenarioCommand::MucMany($load) => $do,
        }
    };
}

impl ScenarioCommand {
    /// Runs the load.
    pub fn run(&self) -> RunResult {
        each!(self, load => run::run(load))
    }

    /// Returns the server to load, and the files to write.
    pub fn server(&self) -> &ServerArguments {
        each!(self, load => &load.server)
    }

    /// Returns the number of accounts that it needs.
    pub fn clients(&self) -> usize {
        each!(self, load => load.scenario.clients())
    }
}
