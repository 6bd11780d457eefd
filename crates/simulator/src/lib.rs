//! Runs the whole server from one seed: shards, clients, network, store and clock in one thread,
//! with faults, and with rules that are checked from outside.
//!
//! A [`RunPlan`] has the participants and the events; the seed determines all of it.
//! [`run`](run::run) carries it out: each event is one step, such as a tick of a shard, twenty
//! bytes that a client reads, or a message that a client sends, so that the order of everything is
//! drawn. At the end the faults are over, all clients return, and the view of each is compared with
//! the actions of the others. The same seed gives the same log, byte for byte.
//!
//! # Invariants
//!
//! * Rules are those of the standards and don't depend on the server's code. A choice that a
//!   standard leaves, or an uncertainty from a fault, breaks none.
//! * An event has a meaning in any state, or no effect: so a schedule can be shortened.
//! * Nothing here reads a clock or the system's randomness, except for `main`, which draws fresh
//!   seeds and measures.
//!
//! # Layout
//!
//! * [`abroad`]: messages to and from other servers. [`peer`]: the server or component at the other
//!   end.
//! * `draw`: randomness. `event`: the kinds of events. [`plan`]: the run of a seed.
//! * `nodes`: the server, or the nodes of a cluster. `unsteady`: the store. `source`: somebody else
//!   who vouches for logins. [`device`]: clients.
//!   [`mod@run`]: one run. `rest`: its end, and the comparisons there; `archives`: those of
//!   accounts and rooms. `dying`: deaths of nodes. `book`: the record of a run, and the rules that
//!   hold at every step.
//! * [`mutants`]: guards to remove, [`mutating`]: whether that is noticed.
//! * `journal`: the log. [`shrink`]: from a failing schedule to a short one. [`statistics`]:
//!   counts. [`seeds`]: many runs, [`progress`]: those that are made in parts.

pub mod abroad;
mod archives;
pub mod book;
pub mod device;
mod draw;
mod dying;
pub mod event;
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
pub mod shrink;
mod source;
pub mod statistics;
mod unsteady;

pub use plan::RunPlan;
