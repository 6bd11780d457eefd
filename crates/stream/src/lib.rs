//! Sans-io protocol machines of a stream: negotiation, TLS, stream errors.
//!
//! Bytes and answers go in, bytes and events come out; no socket, no clock, no thread.
//!
//! # Layout
//!
//! [`c2s`] takes a client from its first byte to a bound resource, [`tls`] encrypts, [`websocket`]
//! translates frames, [`bosh`] requests and their answers, [`error`] holds the conditions with
//! which stanzas and streams are refused. [`opening`] finds the end of a header, `items` cuts the
//! server's output into first-level elements, for transports that carry each separately.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod bosh;
pub mod c2s;
pub mod error;
mod items;
pub mod opening;
pub mod tls;
pub mod websocket;
