//! The ground that all other crates stand on: words that several layers share and none of them owns.
//!
//! # Layout
//!
//! * [`transport`]: what carries a client's stream.
//!
//! # Invariants
//!
//! * Nothing here depends on another crate, keeps state or touches the outside.

pub mod transport;

pub use transport::Transport;
