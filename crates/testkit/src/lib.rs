//! The whole server in one thread, over a virtual network and with virtual time, and scripted
//! clients that talk to it.
//!
//! The code that runs is that which serves sockets: [`rookery_shard::Shard`] with everything
//! behind it. Only the layer below differs: [`net`] stands in for the sockets, a number for the
//! clock, memory for the disk. Nothing blocks, and randomness follows from a seed (except for the
//! keys of TLS), so a test that fails once always fails.
//!
//! ```
//! use rookery_testkit::{Server, play};
//!
//! let server = Server::new();
//! let mut juliet = server.login("juliet/balcony");
//! let mut romeo = server.login("romeo/orchard");
//! play(
//!     &mut [&mut juliet, &mut romeo],
//!     "juliet C: <message to='romeo@example.org/orchard'><body>Wherefore?</body></message>
//!      romeo  S: <message from='juliet@example.org/balcony'><body>Wherefore?</body></message>",
//! );
//! ```
//!
//! # Layout
//!
//! * [`net`]: pipes with bounded windows, partial reads and writes, ends and resets.
//! * [`config`]: a test's settings for its server. [`server`]: shards, clock and store, stepped
//!   until nothing moves; `declared`: the names of documents that the store accepts; [`engine`]:
//!   which store that is.
//! * `nodes`: several groups of shards that only exchange bytes. [`seat`]: one of several
//!   processes, whose cluster a test plays.
//! * [`wire`]: the client's end of a connection, with or without TLS. [`login`]: SASL and binding.
//!   [`client`]: a test's use of it.
//! * [`websocket`]: the same over WebSocket. [`bosh`]: requests and answers. [`remote`]: other
//!   servers, played by a test; [`internet`]: servers that reach each other, and those that a test
//!   plays.
//! * [`pattern`]: the form of an expected stanza. [`play`](mod@play): dialogues of clients and
//!   server as text.
//!
//! Everything panics with a readable text when the server doesn't do what is expected: this crate
//! is for tests.

pub mod bosh;
pub mod client;
pub mod config;
mod declared;
pub mod engine;
pub mod internet;
pub mod login;
pub mod net;
mod nodes;
pub mod pattern;
pub mod play;
pub mod remote;
pub mod seat;
pub mod server;
pub mod websocket;
pub mod wire;

pub use client::{Client, befriend};
pub use config::{Config, Meeting};
pub use internet::Internet;
pub use login::Security;
pub use pattern::{element, matches};
pub use play::play;
pub use seat::Seat;
pub use server::Server;
