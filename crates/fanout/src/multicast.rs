//! XEP-0033: one stanza for many, by a list of addresses in its header.
//!
//! [`MulticastHeader`] reads what a sender wrote; [`Plan`] says who gets which form of the stanza;
//! [`Distant`] holds the part of one remote domain until its multicast service is known. Deciding
//! whether a sender may do this is not done here.
//!
//! # Invariants
//!
//! * Whatever the number of recipients, a stanza has at most two forms in its own server and among
//!   those who get individual copies: one for those whom everybody sees, and one for blind copies,
//!   into which each recipient's own address is spliced when it is rendered, as `to` is. (A blind
//!   copy whose address carries more than a JID has a form of its own.)
//! * The block of delivered addresses is built once. What a remote service gets is that block with
//!   a part cut out and its own addresses in that place ([`Outgoing`]): the bytes on the wire grow
//!   with recipients × domains, as the standard demands, the work doesn't.
//! * Nobody sees a blind recipient but that recipient, or the service that serves it.
//! * Addresses are passed on as they were written, but for the mark of delivery.

mod distant;
mod header;
mod plan;

pub use distant::{Distant, Outgoing};
pub use header::{AddressType, BadAddress, HeaderAddress, HeaderTarget, MulticastHeader, find};
pub use plan::{Groups, Hop, Plan, bcc};

#[cfg(test)]
mod tests;
