//! A shard: connections, their streams, and the world behind them, driven by readiness.
//!
//! [`Shard`] is generic over its [`Driver`], so the very code that serves sockets runs in tests
//! over a virtual network with virtual time. [`start()`] makes one thread per shard, each with its
//! own epoll set: an idle connection is an entry in a slab, without task, buffer or timer of its
//! own (the figures are in `doc/measurements.md`).
//!
//! # One tick
//!
//! Read every ready connection once, into one buffer that all share; decrypt, scan, and hand the
//! stanzas to the world. Then handle envelopes from other shards, answers of the store, and timers.
//! Post mail for other shards, with one wake per batch. Finally write every connection that has
//! output, once: under load ticks grow and writes coalesce by themselves.
//!
//! # Layout
//!
//! * [`driver`]: the system's interface for a shard; [`system`] is Linux, by [`epoll`] or by
//!   [`ring`], with sockets of [`socket`]; the virtual network of the tests is another.
//! * `entering`: arrivals. [`connection`]: the data of one connection; `connections`: all of a
//!   shard by link. [`negotiation`]: until a resource is bound; `asking`: its queries about
//!   logins. [`reading`], [`writing`]: afterwards. `proofs`: the expiry of a client's proof.
//!   [`resumption`]: when a session changes its connection, [`handover`]: its process, `moving`:
//!   its node, [`gathered`]: the data that it takes along.
//! * [`wires`]: connections with other servers; `federating`: the traffic on them.
//! * [`elsewhere`]: an operator's queries to other nodes; [`traced`]: traces for a reader there.
//! * `away`: clients whose sessions are on another node; `lines`: sessions whose clients are;
//!   `following`: the former when their sessions have another home, `taking_up`: the latter;
//!   `keeping`: the memory of both for that. [`steering`]: clients that are told where their home
//!   is. `outgoing`: data for other nodes.
//! * [`websocket`]: frames, between both; [`bosh`]: requests and answers instead of a socket;
//!   `sids`: where its sessions are; `bosh_afar`: those whose requests arrive on other nodes,
//!   [`relays`]: requests on their way there.
//! * [`census`]: the counts of shards. `visits`: log lines about sessions. `measuring`: durations.
//! * [`mod@start`]: the threads; [`door`]: the way to them. [`shard`]: the tick; `timers`: what is
//!   due in it; `stopping`: the last ones. [`mailboxes`]: what shards and their owner tell each
//!   other. [`gate`]: who may come in, and how often; [`attempts`] counts, and so does [`guesses`];
//!   `telling`: what other nodes hear of that.

mod asking;
pub mod attempts;
mod away;
pub mod bosh;
mod bosh_afar;
pub mod census;
pub mod connection;
mod connections;
pub mod door;
pub mod driver;
pub mod elsewhere;
mod entering;
pub mod epoll;
mod federating;
pub mod following;
pub mod gate;
pub mod gathered;
pub mod guesses;
pub mod handover;
mod keeping;
mod lines;
pub mod mailboxes;
mod measuring;
mod moving;
pub mod negotiation;
mod outgoing;
mod proofs;
pub mod reading;
pub mod relays;
pub mod resumption;
pub mod ring;
pub mod shard;
mod sids;
pub mod socket;
pub mod start;
pub mod steering;
mod stopping;
pub mod system;
pub mod taking_up;
mod telling;
mod timers;
pub mod traced;
mod visits;
pub mod websocket;
pub mod wires;
pub mod writing;

pub use attempts::{AttemptCause, AttemptTally, CountsAt, LoginAttempt, Refused, Whence};
pub use census::{Carrier, CensusDetails, Coverage, GaugeRead, LoginCensus, ShardCensus};
pub use door::Door;
pub use driver::{Driver, ReadySocket};
pub use gate::{Gate, LoginTerms};
pub use mailboxes::{
    ArrivedLetters, BoshRequest, Envelope, Generation, Handed, MailboxKind, NodeLetter, Outlet, Port, Post, Posted,
};
pub use rookery_federation::report::{self, StreamReport};
pub use shard::{Shard, ShardSetup};
pub use socket::SystemSocket;
pub use start::{RunningShards, ShardListener, ShardThreads, Start, start, thread_name};
pub use system::{SystemDriver, SystemInterface};
pub use wires::{FederationTerms, Resolver};
