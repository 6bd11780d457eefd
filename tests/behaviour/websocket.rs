//! XMPP over WebSocket (RFC 7395), from the first frame on.

mod bad_input;
mod frames;
mod sessions;
