//! Sampled stacks: where the CPU time of a running process goes.
//!
//! A signal arrives each time that a thread has used a number of microseconds of CPU time, or,
//! where the system doesn't allow that, each time that the process has, and the stack is recorded.
//! While a stack is recorded, and when it leaves the process, it consists of numbers: mapped files
//! and offsets in them. Another process of the same build resolves these to names afterwards, so
//! that a server neither reads its own debugging information nor grows by it.
//!
//! # Invariants
//!
//! - There is one profile at a time: the timer and the signal belong to the process.
//! - A profile has an end, in time and in the number of different stacks.
//! - A profile contains nothing that users write: only files, offsets, and names of functions and
//!   of threads.
//!
//! # Layout
//!
//! [`sampler`] records stacks when `clocks` interrupt the threads, `mapped` maps them to files,
//! [`names`] resolves the names. [`profile`]: named stacks, and folded text; [`protobuf`]: the
//! format of the tool pprof. [`flamegraph`] draws profiles, [`compare`] compares two of them.

mod clocks;
pub mod compare;
pub mod flamegraph;
mod mapped;
pub mod names;
pub mod profile;
pub mod protobuf;
pub mod sampler;

pub use profile::Profile;
pub use sampler::{Sampled, Sampler};
