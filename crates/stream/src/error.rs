//! Errors with which a server refuses streams and stanzas: the conditions of RFC 6120, by their own
//! names.
//!
//! There are two kinds that never mix. A [`StreamError`] ends the stream (RFC 6120 §4.9) and is
//! the last thing written on it; a [`StanzaError`] replies to one stanza (RFC 6120 §8.3) and the
//! stream continues.

mod stanza;
mod stream;

pub use stanza::{Condition, ErrorType, StanzaError};
pub(crate) use stream::STREAM_END;
pub use stream::StreamError;
