//! The whole server in one thread, over a virtual network and with virtual time, and scripted
//! clients that talk to it.
//!
//! The code is the same that serves sockets: [`rookery_shard::Shard`] with everything above it.
//! Only the layer below differs: [`net`] replaces the sockets, a number the clock, memory the disk.
//! Nothing blocks, and randomness depends on a seed (except for the keys of TLS), so a test that
//! fails once always fails.
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
//!   until nothing changes; `declared`: the names of documents that the store accepts; [`engine`]:
//!   the kind of the store.
//! * `nodes`: several groups of shards that only exchange bytes. [`seat`]: one of several
//!   processes, whose cluster a test simulates.
//! * [`wire`]: the client's end of a connection, with or without TLS. [`login`]: SASL and binding.
//!   [`client`]: the use of both by a test.
//! * [`websocket`]: the same over WebSocket. [`bosh`]: requests and answers. [`remote`]: other
//!   servers, simulated by a test; [`internet`]: servers that reach each other, and those that a
//!   test simulates.
//! * [`pattern`]: the form of an expected stanza. [`play`](mod@play): dialogues of clients and
//!   server as text.
//!
//! Everything panics with a readable text when the server deviates from what is expected: this
//! crate is for tests.

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
