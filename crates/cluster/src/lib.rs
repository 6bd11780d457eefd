//! Many processes form one server: letters between nodes over Redis or Valkey, and the membership
//! of nodes.
//!
//! Each account and each room has its home on one node ([`placement`]). Shards of different nodes
//! exchange the same mail as shards of one, but through an inbox of the receiving process in
//! Redis. The shared database decides who is a member ([`members`]); Redis carries the mail, and
//! shows which nodes are alive.
//!
//! # Layout
//!
//! * [`wire`]: the content of one append to an inbox. [`courier`]: order, confirmation, bounds,
//!   without I/O. [`engine`]: the commands of Redis; `source`: how it is found.
//! * [`placement`]: the slots of each node. [`members`]: the rows of the database; [`table`]:
//!   their meaning for a process. [`marks`]: the one Redis that all have to use; `agreed`: the
//!   settings on which they have to agree.
//! * `joining`: the way into the cluster, and `failure`: the reasons against it. [`service`]: the
//!   handle of the thread; `carrying`: its loop; `inbox`: the reader of letters; `leases`: the
//!   signs of life; [`clocks`]: the times of day that these show; [`death`]: processes that are
//!   gone, and their homes.
//! * `journal`: the data recorded for the other nodes; [`reading`]: that of a process that is gone.
//! * For an operator, `check` checks the Redis, and `home` finds the home of an address.

mod agreed;
mod carrying;
mod check;
pub mod clocks;
pub mod courier;
pub mod death;
pub mod engine;
mod failure;
mod home;
mod inbox;
mod joining;
mod journal;
mod leases;
pub mod marks;
pub mod members;
pub mod placement;
pub mod reading;
pub mod service;
mod source;
pub mod table;
pub mod wire;

pub use agreed::AgreedSettings;
pub use check::check;
pub use failure::JoinFailure;
pub use home::homes;
pub use members::LetterVersions;
pub use service::{
    ClusterEnding, ClusterSettings, Joined, ListedNode, Members, RunningCluster, drain, join, nodes, remove,
};
pub use source::RedisAddresses;
