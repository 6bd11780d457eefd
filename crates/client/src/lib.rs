//! An XMPP client without I/O: the caller moves the bytes, and receives stanzas.
//!
//! Bots, the load generator and the server's tests all need this part: the way from the first byte
//! to a bound resource (RFC 6120 §4 to §7), or to an accepted component (XEP-0114). It speaks to
//! any server.
//!
//! # Invariants
//! - Nothing here opens a socket, reads a clock or starts a thread. Output is appended to a buffer
//!   of the caller; input is passed to a call.
//! - The result doesn't depend on how the input is divided.
//! - A fault of the server is a [`SessionError`] with a human-readable text, never a panic. After
//!   such an error, the connection can't be used any more.
//!
//! # Layout
//! - [`words`]: the protocol elements that every client sends, as text.
//! - [`reader`]: cuts the bytes of a stream into its header, its elements and its end.
//! - [`offered`]: the mechanisms that a server offers.
//! - [`login`]: STARTTLS, SASL and binding, step by step.
//! - [`session`]: all of these together with TLS, and the stanzas after the login.
//! - [`component`]: the same for a component.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod component;
pub mod login;
pub mod offered;
pub mod reader;
pub mod session;
pub mod words;

use std::fmt;

pub use component::ComponentSession;
pub use login::{EarlierSession, SessionTerms};
pub use offered::OfferedMechanisms;
pub use reader::{StreamItem, StreamReader};
pub use session::{ClientSession, SessionResumption};

/// The reason why a stream has ended, as a text for the person who runs the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionError(pub String);

impl SessionError {
    fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }

    fn not_well_formed(fault: rookery_xml::Fault) -> Self {
        Self(format!("the server's stream is not well-formed: {fault}"))
    }

    fn stream_closed() -> Self {
        Self("the server closed the stream".to_owned())
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SessionError {}
