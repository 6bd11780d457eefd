//! The loads, one file each, and the table of them.
//!
//! A [`Scenario`] is the flags of a load together with how it is run; the flags' defaults are the preset. [`Command`] is the table: the command
//! line, `rookery bench list` and [`Command::run`] are made from it.

mod chat;
mod clients;
mod compose;
mod drain;
mod meter;
mod run;
mod server;

use clap::{Args, Subcommand};
use serde::Serialize;

pub use run::Run;
pub use server::{Server, Tls};

use crate::Outcome;
use crate::result::RunResult;

/// A load: its flags, and what it does with them.
pub trait Scenario: Args + Serialize {
    /// Its name on the command line.
    const NAME: &'static str;

    /// Runs the load and fills in the result. What the result holds when this fails is kept.
    ///
    /// # Errors
    /// What went wrong, for the operator.
    fn run(&self, run: &mut Run<'_>) -> Outcome<()>;

    /// How many clients it logs in, as far as the flags say.
    fn clients(&self) -> usize;
}

/// A load against a server.
#[derive(Debug, Clone, Args)]
pub struct Against<S: Args> {
    /// Flags of the scenario.
    #[command(flatten, next_help_heading = "Sizes")]
    pub scenario: S,
    /// Where to, and what to write.
    #[command(flatten, next_help_heading = "Server and output")]
    pub server: Server,
}

/// The table of loads.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Pairs in a closed loop: what comes is answered at once, with so many messages of each pair on their way
    Chat(Against<chat::Chat>),
}

impl Command {
    /// Runs the load.
    pub fn run(&self) -> RunResult {
        match self {
            Command::Chat(load) => run::run(load),
        }
    }

    /// Where to, and what to write.
    pub fn server(&self) -> &Server {
        match self {
            Command::Chat(load) => &load.server,
        }
    }
}
