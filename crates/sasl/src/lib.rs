//! SCRAM and PLAIN, both sides, and the server's side of ANONYMOUS and OAUTHBEARER, as sans-io
//! machines.
//!
//! Bytes of SASL messages go in, bytes and decisions come out. No socket, no clock, no account
//! storage: the server side stops at [`server::ServerStep::NeedCredentials`] or
//! [`server::ServerStep::Verify`] and continues when the caller has looked the account up, which
//! may take as long as a database takes.
//!
//! # Why not a SASL framework
//!
//! `rsasl` was the first choice. Three of Rookery's needs go against its design: XEP-0474 adds an
//! attribute to the SCRAM server-first message and to the client's verification; stored keys
//! arrive asynchronously, so the machine has to pause *inside* the exchange without holding a
//! thread; and unknown accounts have to be answered with decoy challenges that are
//! indistinguishable from real ones. What remains is the few hundred lines of RFC 5802, written
//! here over the RustCrypto hashes.
//!
//! # Invariants
//!
//! - No input panics. A message above [`MAX_MESSAGE`] bytes is refused before it is parsed.
//! - Comparisons of secrets run in constant time.
//! - The existence of an account changes neither the number nor the form of the replies, and as
//!   little of the timing as possible.
//! - No password is kept: the server stores StoredKey and ServerKey of RFC 5802 §3.
//!
//! # Layout
//!
//! [`server`] and [`client`] are the machines; `mechanism`, `binding`, `credentials` and `failure`
//! hold their vocabulary, `prep` prepares names and passwords. `message` reads and escapes SCRAM's
//! attribute lists, `hash` is the only file that names a hash crate, `downgrade` is XEP-0474.
//! [`token`] is another kind of mechanism, for clients that have logged in before.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod binding;
pub mod client;
mod credentials;
mod downgrade;
mod failure;
mod hash;
mod mechanism;
mod message;
mod prep;
pub mod server;
pub mod token;

pub use binding::{BindingType, ChannelBindings};
pub use credentials::{Credentials, CredentialsError, DEFAULT_ITERATIONS, Keys, SALT_BYTES};
pub use failure::Failure;
pub use hash::Hash;
pub use mechanism::{Mechanism, to_offer};
pub use prep::saslprep;
pub use token::{TokenKey, TokenMechanism};

/// Longest SASL message accepted from a peer, in bytes (decoded from Base64).
///
/// Room for an authzid and a username of the 1023 bytes that RFC 7622 §3 allows a part, even when
/// every byte is escaped, and still below the stanza limit before login.
pub const MAX_MESSAGE: usize = 7_000;
