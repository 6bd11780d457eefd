//! Many processes, one server: letters between nodes over Redis or Valkey, and who is a node.
//!
//! Each account and each room has its home on one node ([`placement`]). Shards of different nodes
//! tell each other the same things as shards of one, and what they say goes through an inbox of the
//! receiving process in Redis. The database that all share decides who is a member ([`members`]);
//! Redis carries, and tells who lives.
//!
//! # Layout
//!
//! * [`wire`]: what one append to an inbox carries. [`courier`]: order, confirmation, bounds,
//!   without I/O. [`engine`]: Redis, as it is used; `source`: how it is found.
//! * [`placement`]: which node has which slot. [`members`]: the rows of the database; [`table`]:
//!   what follows from them for a process.
//! * [`service`]: joining, and the handle on the thread; `carrying`: its loop; `leases`: the signs
//!   of life; [`death`]: processes that are gone, and their homes; `journal`: what is written down
//!   for the others. For an operator, `check` looks at the Redis, and `home` finds where an address
//!   is at home.

mod carrying;
mod check;
pub mod courier;
pub mod death;
pub mod engine;
mod home;
mod journal;
mod leases;
pub mod members;
pub mod placement;
pub mod service;
mod source;
pub mod table;
pub mod wire;

pub use check::check;
pub use home::homes;
pub use members::LetterVersions;
pub use service::{
    ClusterEnding, ClusterSettings, JoinFailure, Joined, ListedNode, Members, RunningCluster, drain, join, nodes,
    remove,
};
pub use source::RedisAddresses;
