//! XMPP over BOSH (XEP-0124, XEP-0206), from the first request on.

mod bad_input;
mod keys;
mod requests;
mod sessions;
