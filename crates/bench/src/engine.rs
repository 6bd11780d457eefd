//! Many clients of one server: the threads, the clients and what they count.
//!
//! A [`LoadCrew`] has one [`LoadWorker`] per thread, each with an epoll set and every n-th client.
//! A scenario is a sequence of phases; in each, every thread drives its own [`WorkerLoad`], while
//! the thread that began the phase watches the counters and says when it is enough. Between phases
//! no thread runs, and the kernel keeps what comes.
//!
//! # Invariants
//! - Nothing here waits without bound: logins have a deadline, phases end when their watcher says
//!   so, whatever the server does.
//! - A [`Mark`] in each stanza of a load says when it *should* have been sent; latency counts from
//!   there.
//! - What is lost, doubled or out of order is found by a [`Tracker`], per sender and receiver,
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
