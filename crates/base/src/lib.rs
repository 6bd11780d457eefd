//! The ground that all other crates stand on: words that several layers share and none of them owns.
//!
//! # Layout
//!
//! * [`date`]: dates as text. [`one_shot`]: one answer for one who waits. [`transport`]: what carries a client's stream.
//!
//! # Invariants
//!
//! * Nothing here depends on another crate of the server or touches the outside.

pub mod date;
pub mod one_shot;
pub mod transport;

pub use one_shot::{Abandoned, Awaited, Completer, one_shot, wait};
pub use transport::Transport;
