//! XMPP addresses: borrowed with an ASCII fast path, prepared by libraries otherwise.
//!
//! An address is `[ localpart "@" ] domainpart [ "/" resourcepart ]` (RFC 7622 §3.1). Two spellings
//! of one address must compare equal, so every part is *prepared* first. Doing that for each stanza
//! is what makes naive servers slow; nearly all addresses on the wire are prepared ASCII already,
//! and [`prepare`] proves that in one pass and borrows.
//!
//! # Invariants
//! - The text of a [`Jid`] or [`JidRef`] is prepared: preparing it again yields the same text.
//! - Equality, order and hash are those of the text, so a map keyed by [`Jid`] may be searched with
//!   [`as_str`](JidRef::as_str).
//! - Each part has between 1 and 1023 bytes.
//!
//! # Layout
//! `jid` holds the two types, `prepare` turns foreign text into them, `error` names what can be
//! wrong, `wire` carries addresses between shards.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod error;
mod jid;
mod prepare;
mod wire;

pub use error::JidError;
pub use jid::{Jid, JidRef};
pub use prepare::{Prepared, prepare, prepare_domain, prepare_local, prepare_resource};
