//! Runs the whole server from one seed: shards, clients, network, store and clock in one thread,
//! with faults, and with rules that are checked from outside.
//!
//! A [`RunPlan`] has the participants and the events, which the seed determines. [`run`](run::run)
//! carries it out: each event is one step, such as a tick of a shard, twenty bytes that a client
//! reads, or a message that a client sends, so that the order of everything is drawn. At the end
//! the faults are over, all clients return, and the view of each client is compared with the
//! actions of the others. The same seed gives the same log, byte for byte.
//!
//! # Invariants
//!
//! * The rules are those of the standards and don't depend on the server's code. No rule is broken
//!   by a choice that a standard leaves, nor by anything that a fault makes uncertain.
//! * An event has a meaning in any state, or no effect, so that a schedule can be shortened.
//! * Nothing here reads a clock or the system's randomness, except for `main`, which draws new
//!   seeds and measures.
//!
//! # Layout
//!
//! * [`abroad`]: messages to and from other servers and guests. [`peer`]: the server or component
//!   at the other end. `guests`: clients without a name.
//! * `draw`: randomness. `event`: the kinds of events. [`plan`]: the run of a seed.
//! * `nodes`: the server, or the nodes of a cluster. `unsteady`: the store. `source`: an outside
//!   service that checks logins. `set_up`: configuration and accounts. [`device`]: clients.
//!   [`mod@run`]: one run. `rest`: the end of a run, and the comparisons there; `archives`: the
//!   comparisons of the archives of accounts and rooms. `dying`: deaths of nodes. `book`: the
//!   record of a run, and the rules that hold at every step.
//! * [`mutants`]: guards that can be removed, [`mutating`]: a check that each removal is noticed.
//! * `journal`: the log. [`shrink`]: makes a failing schedule short. [`statistics`]: counts.
//!   [`seeds`]: many runs, [`progress`]: many runs that are made in parts.

pub mod abroad;
mod archives;
pub mod book;
pub mod device;
mod draw;
mod dying;
pub mod event;
mod guests;
mod journal;
pub mod mutants;
pub mod mutating;
mod nodes;
pub mod peer;
pub mod plan;
pub mod progress;
mod rest;
pub mod run;
pub mod seeds;
mod set_up;
pub mod shrink;
mod source;
pub mod statistics;
mod unsteady;

pub use plan::RunPlan;
