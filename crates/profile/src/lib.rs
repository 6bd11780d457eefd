//! Sampled stacks: where the CPU time of a running process goes.
//!
//! A signal arrives after a number of microseconds of the process's CPU time, and the stack is
//! recorded. While it is recorded, and when it leaves the process, a stack is numbers: mapped files
//! and offsets in them. They are resolved to names afterwards by a process of the same build, so
//! that a server neither reads its own debugging information nor grows by it.
//!
//! # Invariants
//!
//! - One profile at a time: the timer and the signal belong to the process.
//! - A profile has an end, in time and in the number of different stacks.
//! - It contains nothing that users write: only files, offsets, names of functions and of threads.
//!
//! # Layout
//!
//! [`sampler`] records stacks, `mapped` maps them to files, [`names`] resolves the names.
//! [`profile`]: named stacks, and folded text; [`protobuf`]: the format of the tool pprof.
//! [`flamegraph`] draws them, [`compare`] compares two profiles.

pub mod compare;
pub mod flamegraph;
mod mapped;
pub mod names;
pub mod profile;
pub mod protobuf;
pub mod sampler;

pub use profile::Profile;
pub use sampler::{Sampled, Sampler};
