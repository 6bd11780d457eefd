//! Runs the whole server from one seed: shards, clients, network, store and clock in one thread,
//! with faults, and with rules that are checked from outside.
//!
//! A [`RunPlan`] says who is there and what happens; the seed decides all of it. [`run`](run::run)
//! carries it out: each event is one thing, such as one tick of one shard, twenty bytes that a
//! client reads, or a message that somebody sends, so that the order of everything is drawn. At the
//! end the faults are over, everybody comes back, and what clients believe is compared with what
//! others did. The same seed gives the same log, byte for byte.
//!
//! # Invariants
//!
//! * Rules are those of the standards and know nothing of the server's code. What a standard leaves
//!   open, or a fault makes uncertain, breaks none.
//! * An event means something in any state, or nothing: so a schedule can be made shorter.
//! * Nothing here reads a clock or the system's chance, but for `main`, which draws fresh seeds and
//!   measures.
//!
//! # Layout
//!
//! * [`abroad`]: messages to and from elsewhere. [`peer`]: the server or component that is there.
//! * `draw`: chance. `event`: what may happen. [`plan`]: the run of a seed.
//! * `nodes`: the server, or the nodes of a cluster. `unsteady`: the store. [`device`]: clients.
//!   [`mod@run`]: one run. `rest`: its end, and what is compared there; `archives`: those of
//!   accounts and rooms. `dying`: what happens to nodes. `book`: what is known, and the rules that
//!   hold at every step.
//! * [`mutants`]: guards to take away, [`mutating`]: whether that is noticed.
//! * `journal`: the log. [`shrink`]: from a failing schedule to a short one. [`statistics`]:
//!   numbers. [`seeds`]: many runs.

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
mod rest;
pub mod run;
pub mod seeds;
pub mod shrink;
pub mod statistics;
mod unsteady;

pub use plan::RunPlan;
