//! The load generator, `rookery bench`, and the benchmarks of this server.
//!
//! CPU time and memory count, not only wall time: machines are shared, and with clients on the same
//! machine as the server, wall time means little. So the server under test is always a separate
//! process, whose consumption is read from `/proc`.
//!
//! # Layout
//!
//! * [`cli`]: the command line. [`scenario`]: the loads, one file each, and the table of them.
//!   [`engine`]: threads, clients, counters. [`result`]: the measurements of a run. [`report`]:
//!   their presentation. [`peers`]: the same loads on several servers. [`federation`]: one load on
//!   two servers that talk to each other. [`cluster`]: losses of several hosts of one domain while
//!   they die. [`watch`]: the cost of looking into a running server. [`login`]: logins with
//!   rosters.
//! * [`multicast_test`]: the experiments of 2007, in process.
//! * [`network`]: a shard over a network in memory; [`everyone`]: a store in which every account
//!   exists. For benchmarks too large for sockets, such as a million sessions.
//! * [`bare_relay`]: the least that any server could do, for comparison. [`rookery`]: our own
//!   server as a child process. [`fleet`], [`pairs`], [`idle`]: clients of one thread for the
//!   benchmark `sockets`, in which the relay and the server alternate.
//! * [`process`]: the resources that a process has used. [`chat`]: the stanzas. `port`: ports for
//!   servers that have to be told theirs.
//!
//! # How to run
//!
//! ```text
//! cargo bench -p rookery-bench --bench route    a routed chat stanza: user time, allocations
//! cargo bench -p rookery-bench --bench fanout   one more recipient
//! cargo bench -p rookery-bench --bench million  bytes per idle session, plain and TLS
//!                                               (ROOKERY_BENCH_SESSIONS=1000000)
//! cargo bench -p rookery-bench --bench sockets  pairs against a bare relay, idle sessions, logins
//! ```

pub mod bare_relay;
pub mod chat;
pub mod cli;
pub mod cluster;
pub mod engine;
pub mod everyone;
pub mod federation;
pub mod fleet;
pub mod idle;
pub mod login;
pub mod multicast_test;
pub mod network;
pub mod pairs;
pub mod peers;
mod port;
pub mod process;
pub mod report;
pub mod result;
pub mod rookery;
pub mod scenario;
pub mod watch;

/// The result of a benchmark's step. Any error ends the benchmark; its text is for the person who
/// runs it.
pub type BenchOutcome<T> = Result<T, Box<dyn std::error::Error>>;
