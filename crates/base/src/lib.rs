//! The base of all other crates: code that several layers share and none of them owns.
//!
//! # Layout
//!
//! * [`date`]: dates as text. [`mod@one_shot`]: one answer for one waiter. [`transport`]: carriers
//!   of a client's stream.
//! * [`chance`]: random bytes and texts. [`map`]: hash tables. [`address`]: hashes of addresses.
//!   [`mod@lock`]: locks. [`hex`]: bytes as digits. [`bucket`]: rate limits. [`count`]:
//!   numbers with the names of what is counted.
//!
//! # Invariants
//!
//! * Nothing here depends on another crate of the server or touches the outside world, except for
//!   [`chance`], which asks the operating system for random bytes.

pub mod address;
pub mod bucket;
pub mod chance;
pub mod count;
pub mod date;
pub mod hex;
pub mod lock;
pub mod map;
pub mod one_shot;
pub mod transport;

pub use address::AddressHash;
pub use bucket::Bucket;
pub use count::count_of;
pub use map::{Keyed, Map, Set};
pub use one_shot::{Abandoned, Awaited, Completer, one_shot, wait};
pub use transport::Transport;
