//! What messaging costs: a load client that speaks to any XMPP server, and the pieces that the benchmarks are made of.
//!
//! CPU time and memory are what counts, not wall time: machines are shared, and a closed loop of clients on the same machine says little
//! about time. So the server under test is always a process of its own, whose consumption is read from `/proc`.
//!
//! # Layout
//!
//! * [`client`]: one client, without I/O; [`login`] takes it from the first byte to a bound resource. [`fleet`]: many of them over
//!   sockets.
//! * [`relay`]: the least that any server could do, to compare with. [`rookery`]: our own server as a child process.
//! * [`pairs`], [`idle`]: the scenarios.
//! * [`network`]: a shard over a network in memory; [`everyone`]: a store in which every account exists. For what doesn't fit into
//!   sockets, such as a million sessions.
//! * [`multicast_test`]: the experiments of 2007, in process. [`flamegraph`]: sampled stacks.
//! * [`process`]: what a process has used. [`report`]: tables and JSON. [`chat`]: the stanzas.
//!
//! # How to run
//!
//! ```text
//! cargo bench -p rookery-bench --bench route      user-space time of a routed chat stanza, with allocations
//! cargo bench -p rookery-bench --bench fanout     one more recipient
//! cargo bench -p rookery-bench --bench million    bytes per idle session, plain and TLS   (ROOKERY_BENCH_SESSIONS=1000000)
//! cargo bench -p rookery-bench --bench sockets    pairs against a bare relay, idle sessions, logins
//! ```

pub mod chat;
pub mod cli;
pub mod engine;
pub mod everyone;
pub mod flamegraph;
pub mod fleet;
pub mod idle;
pub mod multicast_test;
pub mod network;
pub mod pairs;
pub mod peers;
pub mod process;
pub mod relay;
pub mod report;
pub mod result;
pub mod rookery;
pub mod scenario;

/// Everything that a benchmark can fail with ends the benchmark: the text is for whoever runs it.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
