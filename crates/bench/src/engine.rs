//! Runs many clients of one server: the threads, the clients and their counters.
//!
//! A [`LoadCrew`] has one [`LoadWorker`] per thread, each with an epoll set and every n-th client.
//! A scenario is a sequence of phases; in each, every thread drives its own [`WorkerLoad`], while
//! the thread that began the phase watches the counters and decides when it ends. Between phases
//! no thread runs, and the kernel keeps the input.
//!
//! # Invariants
//! - Nothing here waits without bound: logins have a deadline, and phases end when their watcher
//!   says so, whatever the server does.
//! - A [`Mark`] in each stanza of a load has the time when it *should* have been sent; latency
//!   counts from then.
//! - Lost, duplicated and reordered stanzas are found by a [`Tracker`], per sender and receiver,
//!   never assumed.

pub mod bosh;
pub mod client;
mod counters;
mod crew;
mod histogram;
mod mark;
mod receiver;
mod source;
mod target;
mod timer;
mod tracker;
mod transport;
pub mod websocket;
mod worker;

pub use counters::{LoadCount, LoadCounters, Totals};
pub use crew::{CrewSettings, LoadCrew};
pub use histogram::{LatencyHistogram, LatencyRecorder};
pub use mark::Mark;
pub use receiver::Receiver;
pub use rookery_base::Transport;
pub use source::Sources;
pub use target::LoadTarget;
pub use timer::EpollTimer;
pub use tracker::{LoadTally, TrackedArrival, TrackedPair, Tracker, tally};
pub use transport::{TRANSPORTS, parser};
pub use worker::{LoadWorker, NEVER, WorkerLoad};
