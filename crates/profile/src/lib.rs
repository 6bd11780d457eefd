//! Sampled stacks: where the CPU time of a living process goes.
//!
//! A signal comes for each so many microseconds of CPU that the process takes, and its stack is
//! noted. While it is taken, and as it leaves the process, a stack is numbers: files that are
//! mapped and places in them. Names are found afterwards by a process of the same build, so that a
//! server neither reads its own debugging information nor grows by it.
//!
//! # Invariants
//!
//! - One profile at a time: the timer and the signal belong to the process.
//! - A profile has an end, in time and in the number of different stacks.
//! - Nothing of what users say is in it: files, places, names of functions and of threads.
//!
//! # Layout
//!
//! [`sampler`] takes stacks, `mapped` says in which files they are, [`names`] finds the names.
//! [`profile`]: named stacks, and folded text; [`protobuf`]: the form of the tool pprof.
//! [`flamegraph`] draws them, [`compare`] tells two profiles apart.

pub mod compare;
pub mod flamegraph;
mod mapped;
pub mod names;
pub mod profile;
pub mod protobuf;
pub mod sampler;

pub use profile::Profile;
pub use sampler::{Sampled, Sampler};
